//! An idempotent write, which refuses what comes under a lease that has passed to another instance.
//!
//! `cargo run -p examples --example fencing` takes 10 to 16 seconds: an instance stands still in the middle of a record
//! until its lease has run out. `src/warehouse.rs` is what it writes to; `manual/fencing.rs` is the same without macros.

use std::error::Error;
use std::process::ExitCode;

use examples::{Stage, StockChange, Warehouse, Write};
use kinesis_broker::prelude::*;

/// Applies each change once, and nothing under a lease that has passed to another instance.
#[subscriber(KinesisStream::new("inventory"))]
async fn apply(
    change: &StockChange,
    ctx: &mut Context<'_>,
    warehouse: State<Warehouse>,
    stage: State<Stage>,
) -> HandlerOutcome {
    let Some(record) = ctx.get::<RecordInfo>() else {
        return HandlerOutcome::retry();
    };
    let (owner, epoch) = (&record.holder.owner, record.holder.epoch);
    println!(
        "{owner} has a change of {:+} in hand, under epoch {epoch}",
        change.delta
    );
    // A process can stand still at any point, for any time.
    stage.breathe(owner).await;
    let write = warehouse.write(change, record);
    stage.say(format!("{owner}, under epoch {epoch}: {write:?}"));
    match write {
        Write::Done | Write::Again => HandlerOutcome::ack(),
        // What this instance says of the record has no effect any more; it must not be an `ack` all the same.
        Write::Refused => HandlerOutcome::retry(),
    }
}

fn service(stage: &Stage, owner: &str, warehouse: &Warehouse) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.1.0"))
        .with_state(warehouse.clone())
        .with_state(stage.clone())
        .with_broker(stage.broker(owner), |b| {
            b.include(apply);
        })
}

/// Lets an instance stand still with a change in hand until another has taken its shard over, and wakes it again.
pub(crate) async fn program(stage: &Stage) -> Result<(), Box<dyn Error>> {
    stage.create_streams(&["inventory"]);
    let warehouse = Warehouse::default();
    let one = stage.start(service(stage, "one", &warehouse)).await?;
    // Two in one record, as a producer may pack them.
    let changes = [10, -2].map(|delta| StockChange { sku: 7, delta });
    stage
        .kinesis()
        .put("inventory", "7", examples::pack(&changes)?);
    stage.until_settled("inventory").await;

    stage.pause("one");
    stage.put("inventory", [StockChange { sku: 7, delta: -3 }])?;
    let two = stage.start(service(stage, "two", &warehouse)).await?;
    stage.until_settled("inventory").await;

    stage.wake("one");
    stage.until(|calls| calls.len() == 4).await;
    one.shutdown().await?;
    two.shutdown().await?;
    stage.say(format!("{} of article 7", warehouse.of(7)));
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
