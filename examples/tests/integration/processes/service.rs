//! One process of the service: this test program once more, which runs the example with a handler that writes
//! down what it is given.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_smithy_async::time::TimeSource;
use clap::Parser as _;
use examples::StockChange;
use kinesis_broker::prelude::*;
use rstream::broker::Verdict;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

use super::log::{Event, Handled, Log};

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../../kinesis_leases_dynamo.rs"]
mod example;

/// Where a process finds its orders.
pub(super) const ORDERS: &str = "PROCESSES_ORDERS";
/// The test that is the process.
pub(super) const TEST: &str = "processes::service::a_process";

/// What a process is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Orders {
    pub(super) kinesis: String,
    pub(super) dynamodb: String,
    pub(super) table: String,
    pub(super) stream: String,
    pub(super) owner: String,
    /// The file to append to.
    pub(super) log: PathBuf,
    /// How long the handler takes with each record.
    pub(super) handler: Duration,
    /// How far its wall clock is ahead, in seconds.
    pub(super) ahead: i64,
}

#[test]
#[ignore = "the other tests start it, as often as they need"]
fn a_process() {
    let Ok(orders) = std::env::var(ORDERS) else {
        return;
    };
    let orders: Orders = serde_json::from_str(&orders).unwrap();
    std::thread::spawn(end_with_the_test);
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(
            "warn,kinesis_broker=debug,lease_dynamo=debug",
        ))
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run(orders));
}

/// The test holds the other end of this pipe, and the kernel closes it however the test ends.
fn end_with_the_test() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(1);
}

async fn run(orders: Orders) {
    let args = example::Args::parse_from([
        "kinesis_leases_dynamo",
        "--kinesis",
        &orders.kinesis,
        "--dynamodb",
        &orders.dynamodb,
        "--table",
        &orders.table,
        "--stream",
        &orders.stream,
        "--owner",
        &orders.owner,
    ]);
    let config = example::config(&args).await.into_builder();
    let config = config.time_source(Ahead(orders.ahead)).build();
    let log = Arc::new(Log::open(&orders.log, &orders.owner).unwrap());
    let handler = Slow {
        log: Arc::clone(&log),
        time: orders.handler,
    };
    let settled = Arc::clone(&log);
    let service = example::service(&args, &config, handler).await.unwrap();
    let service = service
        .on_delivery(move |delivery| {
            assert!(matches!(delivery.verdict(), Verdict::Outcome(_)));
            let change = serde_json::from_slice(delivery.payload()).unwrap();
            let record = delivery.get::<RecordInfo>().unwrap();
            settled.write(Event::Settled(handled(record, &change)));
        })
        .on_error(move |error| {
            let lease = match error.downcast_ref::<KinesisError>() {
                Some(KinesisError::Lease { stream, shard, .. }) => {
                    Some((stream.clone(), shard.clone()))
                }
                _ => None,
            };
            let text = error.to_string();
            log.write(Event::Reported { text, lease });
        });
    service.run().await.unwrap();
}

/// The example's handler, in so far as it takes its time and writes down what it is given.
struct Slow {
    log: Arc<Log>,
    time: Duration,
}

impl Handle<StockChange> for Slow {
    async fn handle(
        &self,
        change: &StockChange,
        _outs: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        let record = ctx.get::<RecordInfo>().unwrap();
        self.log.write(Event::Began(handled(record, change)));
        tokio::time::sleep(self.time).await;
        Ok(())
    }
}

fn handled(record: &RecordInfo, change: &StockChange) -> Handled {
    let arrived_at = record.arrived_at.duration_since(UNIX_EPOCH).unwrap();
    Handled {
        shard: record.shard.clone(),
        sequence_number: record.sequence_number.clone(),
        epoch: record.holder.epoch,
        sku: change.sku,
        delta: change.delta,
        arrived_at: arrived_at.as_micros() as u64,
    }
}

/// A wall clock that is ahead by so many seconds, or behind. It is the only one that the SDK and the stores
/// see: what our crates do with time is on tokio's clock, and `clippy.toml` bans the system's.
#[derive(Clone, Copy, Debug)]
struct Ahead(i64);

impl TimeSource for Ahead {
    #[expect(clippy::disallowed_methods, reason = "the wall clock that is wrong")]
    fn now(&self) -> SystemTime {
        let by = Duration::from_secs(self.0.unsigned_abs());
        if self.0 < 0 {
            SystemTime::now() - by
        } else {
            SystemTime::now() + by
        }
    }
}
