//! Records out: a publisher against `kinesis-sim`.

mod batches;
mod errors;
mod order;
mod room;
mod stopping;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use kinesis_broker::{KinesisPublisher, Publish, PublishError, Published, Publisher};
use kinesis_sim::{KinesisSim, Operation, SimRecord};

use crate::support::STREAM;

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

/// A Kinesis without quotas, with so many shards of [`STREAM`].
fn sim(shards: usize) -> KinesisSim {
    let sim = KinesisSim::builder().seed(7).quotas(false).build();
    sim.create_stream(STREAM, shards);
    sim
}

/// A publisher to it as a user has it, but for the seed.
fn on(sim: &KinesisSim) -> KinesisPublisher {
    KinesisPublisher::from_config(&sim.sdk_config()).seed(7)
}

async fn start(sim: &KinesisSim) -> Publisher {
    on(sim).start().await.unwrap()
}

fn calls(sim: &KinesisSim) -> u64 {
    sim.calls(Operation::PutRecords)
}

/// Everything that is stored in a stream, in the order in which it was stored.
fn stored(sim: &KinesisSim, stream: &str) -> Vec<SimRecord> {
    let shards = sim.shards(stream).into_iter();
    let mut records: Vec<_> = shards
        .flat_map(|shard| sim.records(stream, &shard.id))
        .collect();
    records.sort_by_key(|record| {
        let number = &record.sequence_number;
        (number.len(), number.clone())
    });
    records
}

/// The values that are stored in [`STREAM`], in the order in which they were stored.
fn values(sim: &KinesisSim) -> Vec<u64> {
    let records = stored(sim, STREAM).into_iter();
    records.map(|record| value(&record)).collect()
}

/// The values that are stored in [`STREAM`] under each key, in order, a value that is there twice in a row once.
fn by_key(sim: &KinesisSim) -> BTreeMap<String, Vec<u64>> {
    let mut keys = BTreeMap::<_, Vec<_>>::new();
    for record in stored(sim, STREAM) {
        let values = keys.entry(record.partition_key.clone()).or_default();
        values.push(value(&record));
        values.dedup();
    }
    keys
}

fn value(record: &SimRecord) -> u64 {
    serde_json::from_slice(&record.data).unwrap()
}

async fn all(under_way: Vec<Publish>) -> Vec<Published> {
    try_join_all(under_way).await.unwrap()
}

async fn errors(under_way: Vec<Publish>) -> Vec<PublishError> {
    let outcomes = join_all(under_way).await.into_iter();
    outcomes.map(|outcome| outcome.unwrap_err()).collect()
}
