//! What the tests share: a client that doesn't retry, and short forms of common calls.

use std::fmt::Debug;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::config::retry::RetryConfig;
use aws_sdk_kinesis::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_kinesis::operation::get_records::GetRecordsOutput;
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::{PutRecordsRequestEntry, ShardIteratorType};
use kinesis_sim::KinesisSim;

pub(crate) const FIRST: &str = "shardId-000000000000";
pub(crate) const SECOND: &str = "shardId-000000000001";

/// A client whose every call is one attempt.
pub(crate) fn client(sim: &KinesisSim) -> Client {
    let config = aws_sdk_kinesis::config::Builder::from(&sim.sdk_config());
    Client::from_conf(config.retry_config(RetryConfig::disabled()).build())
}

/// A service with one stream, and a client of it.
pub(crate) fn inventory(shards: usize) -> (KinesisSim, Client) {
    let sim = KinesisSim::new();
    sim.create_stream("inventory", shards);
    let client = client(&sim);
    (sim, client)
}

/// The code that a call was refused with.
#[track_caller]
pub(crate) fn code<T: Debug, E: ProvideErrorMetadata + Debug>(
    outcome: Result<T, SdkError<E>>,
) -> String {
    let error = outcome.unwrap_err();
    error
        .code()
        .unwrap_or_else(|| panic!("{error:?} has no code"))
        .to_owned()
}

/// The message that a call was refused with.
#[track_caller]
pub(crate) fn message<T: Debug, E: ProvideErrorMetadata + Debug>(
    outcome: Result<T, SdkError<E>>,
) -> String {
    outcome
        .unwrap_err()
        .message()
        .unwrap_or_default()
        .to_owned()
}

pub(crate) async fn open(client: &Client, shard: &str, kind: ShardIteratorType) -> String {
    let opened = client
        .get_shard_iterator()
        .stream_name("inventory")
        .shard_id(shard)
        .shard_iterator_type(kind)
        .send()
        .await
        .unwrap();
    opened.shard_iterator.unwrap()
}

pub(crate) async fn read(client: &Client, iterator: impl Into<String>) -> GetRecordsOutput {
    client
        .get_records()
        .shard_iterator(iterator)
        .send()
        .await
        .unwrap()
}

/// What the records of an answer carry, as text.
pub(crate) fn texts(answer: &GetRecordsOutput) -> Vec<String> {
    let text = |data: &Blob| String::from_utf8(data.as_ref().to_vec()).unwrap();
    answer
        .records()
        .iter()
        .map(|record| text(record.data()))
        .collect()
}

pub(crate) fn entry(partition_key: &str, data: impl AsRef<[u8]>) -> PutRecordsRequestEntry {
    PutRecordsRequestEntry::builder()
        .partition_key(partition_key)
        .data(Blob::new(data.as_ref()))
        .build()
        .unwrap()
}
