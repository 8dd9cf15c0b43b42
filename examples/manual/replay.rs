//! The program of `replay.rs`, without macros: one handler serves the stream as it is and a generation of it, and another
//! moves its own shard.

use std::collections::HashSet;
use std::error::Error;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use examples::{Call, Stage, StockChange};
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

/// The corrections that were followed: each comes again once its shard has gone back.
#[derive(Default)]
struct Followed(Mutex<HashSet<String>>);

impl Followed {
    /// Whether it is the first time.
    fn note(&self, sequence_number: &str) -> bool {
        let mut followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        followed.insert(sequence_number.to_owned())
    }
}

/// A change of article 0 is a correction: all that came before it in its shard is handled once more, once.
struct ApplyCorrected;

impl Handle<StockChange> for ApplyCorrected {
    async fn handle(
        &self,
        change: &StockChange,
        _outs: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        let followed: &Followed = ctx.state().ok_or(HandlerOutcome::retry())?;
        println!("  article {}: {:+}", change.sku, change.delta);
        if change.sku == 0
            && let Some(record) = ctx.get::<RecordInfo>()
            && followed.note(&record.sequence_number)
        {
            record.seek(StartPosition::trim_horizon());
        }
        Ok(())
    }
}

fn service(broker: KinesisBroker, inventory: KinesisStream) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(subscriber(inventory, Apply).build());
    })
}

fn service_correcting(broker: KinesisBroker) -> RustStream {
    let corrected =
        subscriber(KinesisStream::new("corrected"), ApplyCorrected).requires_state::<Followed>();
    RustStream::new(AppInfo::new("inventory", "0.1.0"))
        .with_state(Followed::default())
        .with_broker(broker, |b| {
            b.include(corrected.build());
        })
}

/// Has two changes handled four times, and those before a correction twice.
pub(crate) async fn program(stage: &Stage) -> Result<(), Box<dyn Error>> {
    stage.create_streams(&["inventory", "corrected"]);
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

    stage.say("one shard of it:");
    for shard in stage.kinesis().shards("inventory") {
        let position = StartPosition::trim_horizon().in_shard(shard.id);
        running.seek("inventory", position).await?;
    }
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

    stage.say("moved by its handler, which finds a correction:");
    let running = stage.start(service_correcting(stage.broker("one"))).await?;
    stage.put(
        "corrected",
        [4, 5, 0].map(|sku| StockChange { sku, delta: 1 }),
    )?;
    let of_corrected = |calls: &[Call]| {
        calls
            .iter()
            .filter(|call| call.stream == "corrected")
            .count()
    };
    stage.until(|calls| of_corrected(calls) == 6).await;
    stage.until_settled("corrected").await;
    running.shutdown().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
