//! Aggregated records, as the vendor's producer library (KPL) makes them: many records in one, each with its own
//! partition key.

use std::error::Error;

use kinesis_broker::prelude::*;
use md5::{Digest as _, Md5};
use prost::Message;
use serde::Serialize;

/// Begins every aggregated record.
const MAGIC: [u8; 4] = [0xF3, 0x89, 0x9A, 0xC2];

#[derive(Message)]
struct Aggregated {
    #[prost(string, repeated, tag = "1")]
    partition_keys: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    records: Vec<Packed>,
}

#[derive(Message)]
struct Packed {
    /// Which of the partition keys is its own.
    #[prost(uint64, required, tag = "1")]
    partition_key: u64,
    #[prost(bytes = "vec", required, tag = "3")]
    data: Vec<u8>,
}

/// Packs values into one record, each as JSON and under its own partition key.
///
/// # Errors
///
/// A value that is no JSON.
pub fn pack<T: Outgoing + Serialize>(values: &[T]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut message = Aggregated::default();
    for (partition_key, value) in (0..).zip(values) {
        message
            .partition_keys
            .push(value.partition_key().into_owned());
        let data = serde_json::to_vec(value)?;
        message.records.push(Packed {
            partition_key,
            data,
        });
    }
    let message = message.encode_to_vec();
    let checksum = Md5::digest(&message);
    Ok([&MAGIC[..], &message, &checksum].concat())
}
