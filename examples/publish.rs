//! Publishes stock changes: the partition key is a field, and the changes of one article stay in order.
//!
//! `cargo run -p examples --example publish` runs it on an embedded Kinesis; `--help` lists what else it can do.
//! `manual/publish.rs` is the same without macros.

use std::process::ExitCode;

use examples::Stored;
use kinesis_broker::prelude::*;
use serde::Serialize;

/// A change of the stock of one article.
#[derive(Outgoing, Serialize)]
#[outgoing(partition_key = "sku")]
struct StockChange {
    sku: u64,
    delta: i64,
}

/// Publishes so many changes of 500 articles, and counts those that are stored.
pub(crate) async fn publish(
    publisher: KinesisPublisher,
    changes: u64,
) -> Result<Stored, Box<dyn std::error::Error>> {
    let publisher = publisher.start().await?;
    let inventory = publisher.stream("inventory")?;
    let mut under_way = Vec::new();
    for (n, delta) in (0..changes).zip(1..) {
        let change = StockChange {
            sku: n % 500,
            delta,
        };
        let mut publish = inventory.publish(&change);
        // So as to run no further ahead than the publisher has room.
        publish.accepted().await;
        under_way.push(publish);
    }
    let mut stored = Stored::default();
    for publish in under_way {
        stored.count(&publish.await?);
    }
    publisher.shutdown().await?;
    Ok(stored)
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::publish(publish).await
}
