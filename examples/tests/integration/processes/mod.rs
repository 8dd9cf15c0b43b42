//! The service of `kinesis_leases_dynamo.rs` as separate processes on one table, which are killed, paused,
//! cut off and resharded under load.
//!
//! Every process appends to one file what it hands to its handler, so that the order of the lines is the
//! order in which things happened; the checks read that file. A run is repeated with the seed that it
//! prints: `PROCESSES_SEED=.. cargo xtask integration NAME`.

mod costs;
mod crashes;
mod figures;
mod log;
mod outages;
mod pauses;
mod process;
mod producer;
mod proxy;
mod resharding;
mod service;
mod sharing;
mod stage;
mod table;
