//! The program of `replay.rs`, without macros: one handler, on the stream as it is and on a generation of it.

use std::error::Error;
use std::process::ExitCode;

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;

/// Says which change it was given.
struct Apply;

impl Handle<StockChange> for Apply {
    async fn handle(
        &self,
        change: &StockChange,
        _outs: &(),
        _ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        println!("  article {}: {:+}", change.sku, change.delta);
        Ok(())
    }
}

fn service(broker: KinesisBroker, inventory: KinesisStream) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(subscriber(inventory, Apply).build());
    })
}

/// Has two changes handled three times.
pub(crate) async fn program(stage: &Stage) -> Result<(), Box<dyn Error>> {
    stage.create_streams(&["inventory"]);
    let inventory = KinesisStream::new("inventory");
    stage.say("as they come:");
    let running = stage
        .start(service(stage.broker("one"), inventory.clone()))
        .await?;
    stage.put("inventory", [7, 8].map(|sku| StockChange { sku, delta: 1 }))?;
    stage.until_settled("inventory").await;

    stage.say("moved to the oldest record while it runs:");
    running
        .seek("inventory", StartPosition::trim_horizon())
        .await?;
    stage.until_settled("inventory").await;
    running.shutdown().await?;

    stage.say("under a new generation, which can run beside the old one:");
    // With leases and checkpoints of its own, from the oldest record on.
    let generation = (inventory.clone())
        .generation("after-the-price-fix")
        .start_at(StartPosition::trim_horizon());
    let afresh = stage
        .start(service(stage.broker("one"), generation))
        .await?;
    stage
        .until_settled_in("after-the-price-fix", "inventory")
        .await;
    afresh.shutdown().await?;

    stage.say("back under the old one, where it was:");
    let running = stage.start(service(stage.broker("one"), inventory)).await?;
    stage.put("inventory", [StockChange { sku: 9, delta: 1 }])?;
    stage.until_settled("inventory").await;
    running.shutdown().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
