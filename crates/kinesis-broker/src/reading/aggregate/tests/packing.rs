//! What a producer does: the message of the format as protobuf's own decoder and encoder have it, and round it the
//! magic and the checksum.

use bytes::{BufMut, Bytes, BytesMut};
use md5::{Digest, Md5};
use prost::Message;

pub(super) const MAGIC: [u8; 4] = [0xF3, 0x89, 0x9A, 0xC2];

#[derive(Clone, PartialEq, Message)]
pub(super) struct AggregatedRecord {
    #[prost(string, repeated, tag = "1")]
    pub(super) partition_key_table: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) explicit_hash_key_table: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub(super) records: Vec<Record>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Record {
    #[prost(uint64, required, tag = "1")]
    pub(super) partition_key_index: u64,
    #[prost(uint64, optional, tag = "2")]
    pub(super) explicit_hash_key_index: Option<u64>,
    #[prost(bytes = "vec", required, tag = "3")]
    pub(super) data: Vec<u8>,
    #[prost(message, repeated, tag = "4")]
    pub(super) tags: Vec<Tag>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Tag {
    #[prost(string, required, tag = "1")]
    pub(super) key: String,
    #[prost(string, optional, tag = "2")]
    pub(super) value: Option<String>,
}

/// Partition key, explicit hash key, data.
pub(super) type Given<'a> = (&'a str, Option<u128>, &'a [u8]);

pub(super) fn message(given: &[Given<'_>]) -> AggregatedRecord {
    let mut message = AggregatedRecord::default();
    for (partition_key, explicit_hash_key, data) in given {
        message.records.push(Record {
            partition_key_index: place(&mut message.partition_key_table, partition_key),
            explicit_hash_key_index: explicit_hash_key
                .map(|hash_key| place(&mut message.explicit_hash_key_table, &hash_key.to_string())),
            data: data.to_vec(),
            tags: Vec::new(),
        });
    }
    message
}

fn place(table: &mut Vec<String>, key: &str) -> u64 {
    let known = table.iter().position(|known| known == key);
    let place = known.unwrap_or_else(|| {
        table.push(key.to_owned());
        table.len() - 1
    });
    place as u64
}

pub(super) fn sealed(message: &[u8]) -> Bytes {
    let mut payload = BytesMut::from(&MAGIC[..]);
    payload.put_slice(message);
    payload.put_slice(&Md5::digest(message));
    payload.freeze()
}

pub(super) fn pack(given: &[Given<'_>]) -> Bytes {
    sealed(&message(given).encode_to_vec())
}
