//! The program of `publish.rs`, without macros: the partition key is what `Outgoing` says. A closure does as well, for a
//! type that cannot implement it.

use std::borrow::Cow;
use std::process::ExitCode;

use examples::Stored;
use kinesis_broker::prelude::*;
use serde::Serialize;

/// A change of the stock of one article.
#[derive(Serialize)]
struct StockChange {
    sku: u64,
    delta: i64,
}

impl Outgoing for StockChange {
    fn partition_key(&self) -> Cow<'_, str> {
        self.sku.to_string().into()
    }
}

/// Publishes so many changes of 500 articles, and counts those that are stored.
pub(crate) async fn publish(
    publisher: KinesisPublisher,
    changes: u64,
) -> Result<Stored, Box<dyn std::error::Error>> {
    let publisher = publisher.start().await?;
    let inventory = publisher.stream("inventory")?;
    let by_sku = inventory.partition_key_by(|change: &StockChange| change.sku.to_string());
    let mut under_way = Vec::new();
    for (n, delta) in (0..changes).zip(1..) {
        let change = StockChange {
            sku: n % 500,
            delta,
        };
        let mut publish = if n % 2 == 0 {
            inventory.publish(&change)
        } else {
            by_sku.publish(&change)
        };
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
