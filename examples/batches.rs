//! A handler of batches: up to 500 changes of one shard a call, settled up to the first that there is no room for.
//!
//! `cargo run -p examples --example batches`; `manual/batches.rs` is the same without macros.

use std::error::Error;
use std::process::ExitCode;

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;

/// What the warehouse takes in one call.
const ROOM: usize = 300;

/// Applies as many changes as there is room for. One outcome covers the batch, and one checkpoint; what is behind the
/// settled ones comes again.
#[subscriber(
    KinesisStream::new("inventory").start_at(StartPosition::trim_horizon()),
    batch(500, "50ms"),
)]
async fn apply(changes: &[StockChange], ctx: &mut Context<'_>) -> HandlerOutcome {
    let applied = changes.len().min(ROOM);
    let (given, attempt) = (changes.len(), ctx.attempt());
    println!("given {given} changes, attempt {attempt}: {applied} applied");
    HandlerOutcome::ack_until(applied)
}

fn service(broker: KinesisBroker) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(apply);
    })
}

/// Puts 1,200 changes of 50 articles, and then has them handled.
pub(crate) async fn program(stage: &Stage) -> Result<(), Box<dyn Error>> {
    stage.create_streams(&["inventory"]);
    let changes = (0..1_200).map(|n| StockChange {
        sku: n % 50,
        delta: 1,
    });
    stage.put("inventory", changes)?;
    let running = stage.start(service(stage.broker("one"))).await?;
    stage.until_settled("inventory").await;
    running.shutdown().await?;
    stage.say(format!(
        "{} checkpoints for 1,200 changes",
        stage.checkpoints()
    ));
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
