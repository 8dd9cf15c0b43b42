//! Who fills the stream: numbered records, put by the SDK in batches of one record a key, each again until it is
//! stored, so that the records of a key are stored in the order of their numbers.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::config::retry::RetryConfig;
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::PutRecordsRequestEntry;
use tokio::time::{sleep, timeout};

use super::{STREAM, Service};
use crate::plan::Producer;

/// After so long a put that has no answer is sent again.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause before a put is sent again.
const BACK_OFF: Duration = Duration::from_millis(200);

/// Puts records until the world's time is `until`, and returns when the last is stored.
pub(crate) async fn produce(service: Arc<Service>, plan: Producer, seed: u64, until: Duration) {
    let config = aws_sdk_kinesis::config::Builder::from(&service.kinesis.sdk_config())
        .retry_config(RetryConfig::disabled())
        .build();
    let client = Client::from_conf(config);
    let mut rng = fastrand::Rng::with_seed(seed);
    let keys: Vec<_> = (0..plan.keys).map(|key| format!("sku-{key}")).collect();
    let mut next = 0;
    while service.clock.now() < until {
        let batch = keys.len().min(rng.usize(1..=5));
        let entries = rng.choose_multiple(&keys, batch).into_iter().map(|key| {
            next += 1;
            entry(key, next)
        });
        store(&client, entries.collect()).await;
        let every = Duration::from_secs(1) / plan.per_second.max(1);
        sleep(every * u32::try_from(batch).unwrap_or(u32::MAX)).await;
    }
}

fn entry(key: &str, number: u64) -> PutRecordsRequestEntry {
    PutRecordsRequestEntry::builder()
        .partition_key(key)
        .data(Blob::new(number.to_string()))
        .build()
        .expect("it has a key and data")
}

async fn store(client: &Client, mut entries: Vec<PutRecordsRequestEntry>) {
    while !entries.is_empty() {
        let put = client
            .put_records()
            .stream_name(STREAM)
            .set_records(Some(entries.clone()));
        if let Ok(Ok(answer)) = timeout(PATIENCE, put.send()).await {
            let mut results = answer.records().iter();
            entries.retain(|_| {
                results
                    .next()
                    .is_none_or(|result| result.error_code().is_some())
            });
        }
        if !entries.is_empty() {
            sleep(BACK_OFF).await;
        }
    }
}
