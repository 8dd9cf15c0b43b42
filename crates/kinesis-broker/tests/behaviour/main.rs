//! Whole subscriptions against `kinesis-sim`, on tokio's paused clock: hours of service in seconds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

mod aggregated;
mod any_history;
mod balance;
mod batches;
mod checkpointing;
mod checkpoints;
mod concurrency;
mod dead_letters;
mod determinism;
mod extremes;
mod generations;
mod keeping;
mod kinesis_faults;
mod leases;
mod outcomes;
mod prefetching;
mod publishing;
mod replies;
mod resharding;
mod retries;
mod seeking;
mod shutdown;
mod smoke;
mod start;
mod store_faults;
mod test_app;
