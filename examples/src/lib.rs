//! What the examples have in common: the message, a demonstration that runs a service, what the programs that publish
//! need, and a stage for those that show one thing each.
//!
//! The services themselves are in the files beside `src/`; this is what puts records before them, reshards
//! the stream and stops an instance while they run, and counts.

mod args;
mod demo;
mod doors;
mod inventory;
mod packing;
mod publishing;
mod stage;
mod tally;
mod warehouse;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use kinesis_broker::prelude::*;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

pub use args::Args;
pub use demo::{Demo, DemoError};
pub use inventory::Inventory;
pub use packing::pack;
pub use publishing::{Stored, publish};
pub use stage::{Call, Stage};
pub use tally::{Report, Tally};
pub use warehouse::{Warehouse, Write};

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The programs of the page on aggregated records compile.
#[cfg(doctest)]
#[doc = include_str!("../../docs/aggregation.md")]
pub struct Aggregation;

/// The settings of the page on concurrency compile.
#[cfg(doctest)]
#[doc = include_str!("../../docs/concurrency.md")]
pub struct Concurrency;

/// The handler of the page on fencing compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/fencing.md")]
pub struct Fencing;

/// The handlers of their page do what it says.
#[cfg(doctest)]
#[doc = include_str!("../../docs/handlers.md")]
pub struct Handlers;

/// The store of the page on leases keeps the contract.
#[cfg(doctest)]
#[doc = include_str!("../../docs/leases.md")]
pub struct Leases;

/// The programs of the page on publishing run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/publishing.md")]
pub struct Publishing;

/// The moves of the page on replays are made.
#[cfg(doctest)]
#[doc = include_str!("../../docs/replay.md")]
pub struct Replay;

/// The policy of the page on retries compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/retries.md")]
pub struct Retries;

/// A change of the stock of one article.
#[derive(Clone, Debug, Deserialize, Outgoing, PartialEq, Eq, Serialize)]
#[outgoing(partition_key = "sku")]
pub struct StockChange {
    /// The article; also the partition key, so that its changes are handled in order.
    pub sku: u64,
    /// How many came in, or went out.
    pub delta: i64,
}

/// Makes one instance of a service.
pub type Service = fn(KinesisBroker, Arc<dyn LeaseStore>) -> RustStream;

/// The `main` of an example: two instances of `service`, records, a split, a merge and a stop, and then a
/// table. The exit code is 1 if a record was lost.
pub async fn main(service: Service) -> ExitCode {
    log_to_stderr();
    let demo = match Demo::new(Args::parse()).await {
        Ok(demo) => demo,
        Err(error) => return failed(&error),
    };
    match demo.run(service).await {
        Ok(report) => {
            println!("\n{report}");
            if report.lost() == 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => failed(&error),
    }
}

/// The `main` of an example that shows one thing, on an embedded Kinesis: no account, no network. RUST_LOG=info shows
/// the service's own events.
pub async fn show(program: impl AsyncFnOnce(&Stage) -> Result<(), Box<dyn Error>>) -> ExitCode {
    log_to_stderr();
    match program(&Stage::new()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

fn failed(error: &DemoError) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(2)
}
