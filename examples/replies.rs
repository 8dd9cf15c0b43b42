//! What a handler publishes: a reply to each change. The change is settled only once its reply is stored.
//!
//! `cargo run -p examples --example replies`; `manual/replies.rs` has a handler that sends to two streams.

use std::error::Error;
use std::process::ExitCode;

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;
use serde::Serialize;

/// Says that a change was applied.
#[derive(Debug, Outgoing, Serialize)]
#[outgoing(partition_key = "sku")]
struct Receipt {
    sku: u64,
    delta: i64,
}

/// Applies each change that changes something, and answers with a receipt. Of a `Vec` each is published, of an
/// `Option` one or none; an `Err` is the outcome, and publishes nothing.
#[subscriber(KinesisStream::new("inventory"), reply("receipts"))]
async fn apply(change: &StockChange) -> Result<Receipt, HandlerOutcome> {
    let StockChange { sku, delta } = *change;
    if delta == 0 {
        return Err(HandlerOutcome::drop());
    }
    Ok(Receipt { sku, delta })
}

fn service(broker: KinesisBroker) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(apply);
    })
}

/// Puts three changes, one of which changes nothing.
pub(crate) async fn program(stage: &Stage) -> Result<(), Box<dyn Error>> {
    stage.create_streams(&["inventory", "receipts"]);
    let running = stage.start(service(stage.broker("one"))).await?;
    let changes = [(7, 10), (8, 0), (7, -12)];
    stage.put(
        "inventory",
        changes.map(|(sku, delta)| StockChange { sku, delta }),
    )?;
    stage.until_settled("inventory").await;
    running.shutdown().await?;
    stage.say_records("receipts");
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
