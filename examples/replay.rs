//! Records once more: a subscription moved while it runs, and a stream read afresh under a new generation.
//!
//! `cargo run -p examples --example replay`; `manual/replay.rs` is the same without macros.

use std::error::Error;
use std::process::ExitCode;

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;

/// Says which change it was given.
#[subscriber(KinesisStream::new("inventory"))]
async fn apply(change: &StockChange) {
    println!("  article {}: {:+}", change.sku, change.delta);
}

/// The same, from the oldest record on, under leases and checkpoints of its own.
#[subscriber(
    KinesisStream::new("inventory")
        .generation("after-the-price-fix")
        .start_at(StartPosition::trim_horizon())
)]
async fn apply_afresh(change: &StockChange) {
    println!("  article {}: {:+}", change.sku, change.delta);
}

fn service(broker: KinesisBroker) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(apply);
    })
}

fn service_afresh(broker: KinesisBroker) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.2.0")).with_broker(broker, |b| {
        b.include(apply_afresh);
    })
}

/// Has two changes handled three times.
pub(crate) async fn program(stage: &Stage) -> Result<(), Box<dyn Error>> {
    stage.create_streams(&["inventory"]);
    stage.say("as they come:");
    let running = stage.start(service(stage.broker("one"))).await?;
    stage.put("inventory", [7, 8].map(|sku| StockChange { sku, delta: 1 }))?;
    stage.until_settled("inventory").await;

    stage.say("moved to the oldest record while it runs:");
    running
        .seek("inventory", StartPosition::trim_horizon())
        .await?;
    stage.until_settled("inventory").await;
    running.shutdown().await?;

    stage.say("under a new generation, which can run beside the old one:");
    let afresh = stage.start(service_afresh(stage.broker("one"))).await?;
    stage
        .until_settled_in("after-the-price-fix", "inventory")
        .await;
    afresh.shutdown().await?;

    stage.say("back under the old one, where it was:");
    let running = stage.start(service(stage.broker("one"))).await?;
    stage.put("inventory", [StockChange { sku: 9, delta: 1 }])?;
    stage.until_settled("inventory").await;
    running.shutdown().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
