//! What the library adds to a plain loop over the AWS SDK, measured: both read the same records of the same
//! simulated service in the same run. `cargo xtask bench` prints the tables of `docs/performance.md`.

mod child;
mod clock;
pub mod deliveries;
mod groups;
mod latencies;
mod library;
mod measure;
mod plain;
mod spread;
mod store;
mod table;
mod workload;

pub use clock::Taken;
pub use groups::{Effort, Group, Idle, Idling};
pub use measure::{Side, Stage};
pub use table::Table;
pub use workload::{Kind, StockChange, Workload};
