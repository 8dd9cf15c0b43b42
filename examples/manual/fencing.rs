//! The program of `fencing.rs`, without macros: the handler has the warehouse.

use std::error::Error;
use std::process::ExitCode;

use examples::{Stage, StockChange, Warehouse, Write};
use kinesis_broker::prelude::*;

/// Applies each change once, and nothing under a lease that has passed to another instance.
struct Apply {
    warehouse: Warehouse,
    stage: Stage,
}

impl Handle<StockChange> for Apply {
    async fn handle(
        &self,
        change: &StockChange,
        _outs: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        let record: &RecordInfo = ctx.get().ok_or(HandlerOutcome::retry())?;
        let (owner, epoch) = (&record.holder.owner, record.holder.epoch);
        println!(
            "{owner} has a change of {:+} in hand, under epoch {epoch}",
            change.delta
        );
        // A process can stand still at any point, for any time.
        self.stage.breathe(owner).await;
        let write = self.warehouse.write(change, record);
        self.stage
            .say(format!("{owner}, under epoch {epoch}: {write:?}"));
        match write {
            Write::Done | Write::Again => Ok(()),
            // What this instance says of the record has no effect any more; it must not be an `Ok` all the same.
            Write::Refused => Err(HandlerOutcome::retry()),
        }
    }
}

fn service(stage: &Stage, owner: &str, warehouse: &Warehouse) -> RustStream {
    let apply = Apply {
        warehouse: warehouse.clone(),
        stage: stage.clone(),
    };
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(stage.broker(owner), |b| {
        b.include(subscriber(KinesisStream::new("inventory"), apply).build());
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
