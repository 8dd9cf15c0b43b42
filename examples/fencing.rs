//! An idempotent write, which refuses what comes under a lease that has passed to another instance.
//!
//! `cargo run -p examples --example fencing` takes some 15 seconds: an instance stands still in the middle of a record
//! until its lease has run out. `manual/fencing.rs` is the same without macros.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;
use rstream::State;

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
