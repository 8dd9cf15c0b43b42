//! The program of `fencing.rs`, without macros: the handler has the warehouse.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;

/// Where changes are written to; stands for a database, and its lock for a transaction.
#[derive(Clone, Default)]
struct Warehouse(Arc<Mutex<Tables>>);

#[derive(Default)]
struct Tables {
    stock: BTreeMap<u64, i64>,
    /// For each shard, the highest epoch that has written, and the last record that was written.
    fences: BTreeMap<String, (u64, String)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Write {
    Done,
    /// It was done before.
    Again,
    /// Another instance holds the shard by now.
    Refused,
}

impl Warehouse {
    /// Applies a change, and notes by whom: both or neither.
    fn write(&self, change: &StockChange, record: &RecordInfo) -> Write {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Tables { stock, fences } = &mut *tables;
        let epoch = record.holder.epoch;
        let (highest, last) = fences.entry(record.shard.clone()).or_default();
        if epoch < *highest {
            return Write::Refused;
        }
        *highest = epoch;
        if in_order(&record.sequence_number, last) != Ordering::Greater {
            return Write::Again;
        }
        last.clone_from(&record.sequence_number);
        *stock.entry(change.sku).or_default() += change.delta;
        Write::Done
    }

    fn of(&self, sku: u64) -> i64 {
        let tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables.stock.get(&sku).copied().unwrap_or_default()
    }
}

/// Sequence numbers are decimal, without leading zeros, and too long for a `u128`.
fn in_order(one: &str, other: &str) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

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
    stage.put("inventory", [StockChange { sku: 7, delta: 10 }])?;
    stage.until_settled("inventory").await;

    stage.pause("one");
    stage.put("inventory", [StockChange { sku: 7, delta: -3 }])?;
    let two = stage.start(service(stage, "two", &warehouse)).await?;
    stage.until_settled("inventory").await;

    stage.wake("one");
    stage.until(|calls| calls.len() == 3).await;
    one.shutdown().await?;
    two.shutdown().await?;
    stage.say(format!("{} of article 7", warehouse.of(7)));
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
