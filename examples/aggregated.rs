//! Records that a producer has packed into one: each is handed over, settled and checkpointed by itself, without
//! anything being set.
//!
//! `cargo run -p examples --example aggregated`; `manual/aggregated.rs` is the same without macros.

use std::error::Error;
use std::process::ExitCode;

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;

/// Applies each change. Instance one can make nothing of article 3.
#[subscriber(KinesisStream::new("inventory"))]
async fn apply(change: &StockChange, ctx: &mut Context<'_>) -> HandlerOutcome {
    let Some(record) = ctx.get::<RecordInfo>() else {
        return HandlerOutcome::retry();
    };
    let (owner, place) = (&record.holder.owner, record.sub_sequence_number);
    println!("{owner}: article {}, at {place:?} inside", change.sku);
    if change.sku == 3 && owner == "one" {
        return HandlerOutcome::retry();
    }
    HandlerOutcome::ack()
}

fn service(broker: KinesisBroker) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(apply);
    })
}

/// Puts four changes in one record, and has another instance go on in its middle.
pub(crate) async fn program(stage: &Stage) -> Result<(), Box<dyn Error>> {
    stage.create_streams(&["inventory"]);
    let one = stage.start(service(stage.broker("one"))).await?;
    let changes = [1, 2, 3, 4].map(|sku| StockChange { sku, delta: 1 });
    stage
        .kinesis()
        .put("inventory", "packed", examples::pack(&changes)?);
    stage.until(|calls| calls.len() > 3).await;
    one.shutdown().await?;
    let checkpoint = stage.checkpoint("inventory").await;
    stage.say(format!("one stops, with its checkpoint at {checkpoint}"));

    let two = stage.start(service(stage.broker("two"))).await?;
    stage.until_settled("inventory").await;
    two.shutdown().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
