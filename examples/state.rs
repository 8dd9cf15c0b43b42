//! What all handlers of a service share: a value given to the app, and found by its type.
//!
//! `cargo run -p examples --example state`; `manual/state.rs` is the same without macros.

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;

/// How many there are of each article; stands for a pool of connections to where that is kept.
#[derive(Clone, Default)]
struct Stock(Arc<Mutex<BTreeMap<u64, i64>>>);

impl Stock {
    fn add(&self, sku: u64, delta: i64) -> i64 {
        let mut stock = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there = stock.entry(sku).or_default();
        *there += delta;
        *there
    }
}

/// Applies each change. Without a `Stock` given to the app, the app does not start, and says so.
#[subscriber(KinesisStream::new("inventory"))]
async fn apply(change: &StockChange, stock: State<Stock>) {
    let left = stock.add(change.sku, change.delta);
    println!("{left} of article {}", change.sku);
}

fn service(broker: KinesisBroker, stock: Stock) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.1.0"))
        .with_state(stock)
        .with_broker(broker, |b| {
            b.include(apply);
        })
}

/// Puts five changes of two articles.
pub(crate) async fn program(stage: &Stage) -> Result<(), Box<dyn Error>> {
    stage.create_streams(&["inventory"]);
    let stock = Stock::default();
    let running = stage
        .start(service(stage.broker("one"), stock.clone()))
        .await?;
    let changes = [(7, 10), (8, 5), (7, -3), (8, -1), (7, -2)];
    stage.put(
        "inventory",
        changes.map(|(sku, delta)| StockChange { sku, delta }),
    )?;
    stage.until_settled("inventory").await;
    running.shutdown().await?;
    stage.say(format!(
        "in the end {} of article 7, {} of article 8",
        stock.add(7, 0),
        stock.add(8, 0)
    ));
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
