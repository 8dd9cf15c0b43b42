//! The door for the fuzz targets, and for nobody else: no part of this crate's interface.

use aws_sdk_kinesis::primitives::{Blob, DateTime};
use aws_sdk_kinesis::types::Record;

use crate::RecordInfo;
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
