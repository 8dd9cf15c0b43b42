//! A producer that numbers every record among the records of its key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::PutRecordsRequestEntry;
use examples::StockChange;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// As many keys as every shard gets one of, also after splits.
const KEYS: u64 = 16;
/// A record of every key this often.
const EVERY: Duration = Duration::from_millis(500);

/// It goes on until it is told to stop.
#[derive(Debug)]
pub(super) struct Producer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<i64>>,
}

impl Producer {
    pub(super) fn start(client: Client, stream: String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(produce(client, stream, Arc::clone(&stop)));
        Self { stop, task }
    }

    /// How many records of each key were put in all.
    pub(super) async fn stop(self) -> Vec<i64> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

async fn produce(client: Client, stream: String, stop: Arc<AtomicBool>) -> Vec<i64> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut delta = 0;
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        // One record of a key in each call, so that the service cannot change their order.
        let mut entries: Vec<_> = (0..KEYS).map(|sku| entry(sku, delta)).collect();
        while !entries.is_empty() {
            let request = client.put_records().stream_name(&stream);
            match request.set_records(Some(entries.clone())).send().await {
                Ok(answer) => {
                    let mut results = answer.records().iter();
                    entries.retain(|_| results.next().unwrap().sequence_number().is_none());
                }
                // While shards are split and merged the service may refuse a moment.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
        delta += 1;
    }
    vec![delta; KEYS as usize]
}

fn entry(sku: u64, delta: i64) -> PutRecordsRequestEntry {
    let change = StockChange { sku, delta };
    // Spread evenly over the hash keys, and so over the shards.
    let hash_key = (u128::MAX / u128::from(KEYS)) * u128::from(sku) + u128::MAX / 64;
    PutRecordsRequestEntry::builder()
        .partition_key(sku.to_string())
        .explicit_hash_key(hash_key.to_string())
        .data(Blob::new(serde_json::to_vec(&change).unwrap()))
        .build()
        .unwrap()
}
