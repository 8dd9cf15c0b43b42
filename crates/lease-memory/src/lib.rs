//! A lease store in the memory of one process.
//!
//! [`MemoryLeaseStore`] keeps its rows in a map that all clones share. It serves one instance alone,
//! several instances in one process, and tests: it counts on tokio's clock, so a paused clock drives
//! it. It ends with the process; a program that is to resume after a restart needs a shared store.
//!
//! ```
//! use std::time::Duration;
//!
//! use lease_memory::MemoryLeaseStore;
//! use lease_core::{LeaseError, LeaseKey, LeaseStore};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), LeaseError> {
//! let store = MemoryLeaseStore::new();
//! let key = LeaseKey::new("inventory", "shardId-000000000000");
//! let ttl = Duration::from_secs(10);
//!
//! let first = store.acquire(&key, "host-a", ttl).await?.expect("nobody holds it");
//! assert_eq!(first.epoch, 1);
//! assert_eq!(store.acquire(&key, "host-b", ttl).await?, None);
//!
//! store.release(&key, &first).await?;
//! let second = store.acquire(&key, "host-b", ttl).await?.expect("it was released");
//! assert_eq!(second.epoch, 2);
//! # Ok(())
//! # }
//! ```

mod row;
mod store;

pub use crate::store::MemoryLeaseStore;
