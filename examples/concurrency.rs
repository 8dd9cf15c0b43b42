//! Several records of one shard in handlers at once, never two of one partition key, and checkpoints at an interval.
//!
//! `cargo run -p examples --example concurrency`; `manual/concurrency.rs` is the same without macros.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;
use tokio::time::{Instant, sleep};

/// What may be in handlers of one shard at once, how often its position is written, and how far it is read ahead.
fn inventory() -> KinesisStream {
    KinesisStream::new("inventory")
        .concurrency(16)
        .checkpointing(Checkpointing::Interval(Duration::from_millis(500)))
}

/// Asks another service for each change, which takes a while.
#[subscriber(inventory())]
async fn apply(_change: &StockChange) {
    sleep(Duration::from_millis(20)).await;
}

fn service(broker: KinesisBroker) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(apply);
    })
}

/// Puts 400 changes of 40 articles, into one shard.
pub(crate) async fn program(stage: &Stage) -> Result<(), Box<dyn Error>> {
    stage.create_streams(&["inventory"]);
    let running = stage.start(service(stage.broker("one"))).await?;
    stage.put(
        "inventory",
        (0..400).map(|n| StockChange {
            sku: n % 40,
            delta: 1,
        }),
    )?;
    stage.until(|calls| !calls.is_empty()).await;
    let since = Instant::now();
    stage.until(|calls| calls.len() == 400).await;
    let took = since.elapsed().as_secs_f64();
    running.shutdown().await?;
    stage.say(format!(
        "400 changes of 20 ms each, in {took:.1} s; {} checkpoints",
        stage.checkpoints()
    ));
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
