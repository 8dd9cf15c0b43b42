//! The door for the fuzz targets, and for nobody else: no part of this crate's interface.

use aws_sdk_kinesis::primitives::{Blob, DateTime};
use aws_sdk_kinesis::types::Record;
use bytes::Bytes;
use lease_core::Checkpoint;

use crate::RecordInfo;
use crate::leasing::lineage::HashKeyRange;
use crate::reading::aggregate;
use crate::reading::record::Item;

/// What a handler is told of a record that the service answers with, and its payload.
///
/// # Panics
///
/// Never: the record has all that it must have.
#[must_use]
pub fn record(
    sequence_number: &str,
    partition_key: Option<&str>,
    arrived_at: f64,
    data: &[u8],
) -> (RecordInfo, Vec<u8>) {
    let record = Record::builder()
        .sequence_number(sequence_number)
        .set_partition_key(partition_key.map(str::to_owned))
        .approximate_arrival_timestamp(DateTime::from_secs_f64(arrived_at))
        .data(Blob::new(data))
        .build()
        .expect("nothing is missing");
    let mut info = RecordInfo::default();
    let payload = info.turn_to(Item::of(record, 0));
    (info, payload.into())
}

/// A user record of an aggregated record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "for the fuzz targets alone")]
pub struct UserRecord {
    pub sub_sequence: u64,
    pub checkpoint: Checkpoint,
    pub partition_key: String,
    pub explicit_hash_key: Option<u128>,
    pub data: Bytes,
}

/// The user records of a payload that belong to the shard of these hash keys, the last one included, behind the one
/// of this number, and how many belong to others; `None` where the payload is not to be taken apart.
#[must_use]
pub fn aggregate(
    payload: &Bytes,
    sequence_number: &str,
    hash_keys: Option<(u128, u128)>,
    after: Option<u64>,
) -> Option<(Vec<UserRecord>, u64)> {
    let shard = hash_keys.and_then(|(first, last)| HashKeyRange::new(first, last));
    let aggregate = aggregate::unpack(payload, shard).ok()??;
    let skipped = aggregate.skipped();
    let records = aggregate.user_records(sequence_number.into(), after);
    let records = records.map(|record| UserRecord {
        sub_sequence: record.sub_sequence,
        checkpoint: record.checkpoint,
        partition_key: record.partition_key.as_ref().to_owned(),
        explicit_hash_key: record.explicit_hash_key,
        data: record.data,
    });
    Some((records.collect(), skipped))
}
