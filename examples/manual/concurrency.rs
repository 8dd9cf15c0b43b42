//! The program of `concurrency.rs`, without macros.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;
use tokio::time::{Instant, sleep};

/// Asks another service for each change, which takes a while.
struct Apply;

impl Handle<StockChange> for Apply {
    async fn handle(
        &self,
        _change: &StockChange,
        _outs: &(),
        _ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        sleep(Duration::from_millis(20)).await;
        Ok(())
    }
}

fn service(broker: KinesisBroker) -> RustStream {
    let inventory = KinesisStream::new("inventory")
        .concurrency(16)
        .checkpointing(Checkpointing::Interval(Duration::from_millis(500)));
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(subscriber(inventory, Apply).build());
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
