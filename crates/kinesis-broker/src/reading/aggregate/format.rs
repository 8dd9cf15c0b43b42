//! The bytes of an aggregated record: the [public format][format] of the vendor's producer library.
//!
//! Four bytes of magic, a protobuf message, and the MD5 of that message. The message has a table of partition keys,
//! a table of explicit hash keys, and user records that refer to both by their places in them.
//!
//! The message is gone through field by field and not decoded as a whole, since two bytes of it are enough for a
//! table entry or a record: as values of their own they would take twenty times its size.
//!
//! [format]: https://github.com/awslabs/amazon-kinesis-producer/blob/master/aggregation-format.md

use bytes::{Buf, Bytes};
use md5::{Digest, Md5};
use prost::{DecodeError, Message};

const MAGIC: [u8; 4] = [0xF3, 0x89, 0x9A, 0xC2];
const CHECKSUM: usize = 16;

/// Why a payload that begins like an aggregated record is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("it is cut short, or its checksum is wrong")]
    Checksum,
    #[error("what it contains is no message of the format")]
    Malformed,
    #[error(transparent)]
    Record(#[from] DecodeError),
    #[error("an explicit hash key is no decimal number below 2^128")]
    HashKey,
    #[error("a user record has no data, or refers to a key that is not in its table")]
    Reference,
    #[error("it has no user records")]
    Empty,
}

/// Whether a payload begins like an aggregated record.
pub(super) fn is_begun(payload: &[u8]) -> bool {
    payload.starts_with(&MAGIC)
}

/// The message of a payload; `None` for one that does not begin like an aggregated record.
pub(super) fn message(payload: &Bytes) -> Option<Result<Bytes, Damage>> {
    let body = payload.strip_prefix(&MAGIC)?;
    let message = body.split_last_chunk::<CHECKSUM>();
    let message = message.filter(|(message, checksum)| *Md5::digest(message) == **checksum);
    Some(match message {
        Some((message, _)) => Ok(payload.slice_ref(message)),
        None => Err(Damage::Checksum),
    })
}

/// What a field of the message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    PartitionKey,
    ExplicitHashKey,
    Record,
}

/// The fields of a message that has not been gone through yet, in their order.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    rest: Bytes,
}

impl Fields {
    pub(super) fn of(message: &Bytes) -> Self {
        Self {
            rest: message.clone(),
        }
    }

    /// How many bytes lie behind the field that was last given.
    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn read(&mut self) -> Result<Option<(Field, Bytes)>, Damage> {
        while self.rest.has_remaining() {
            let key = self.varint()?;
            let length = match key & 7 {
                0 => {
                    self.varint()?;
                    0
                }
                1 => 8,
                2 => self.varint()?,
                5 => 4,
                // Groups, which were given up before the format was made, and what protobuf does not have.
                _ => return Err(Damage::Malformed),
            };
            if length > self.rest.len() || u32::try_from(key).is_err() {
                return Err(Damage::Malformed);
            }
            let content = self.rest.split_to(length);
            let field = match (key >> 3, key & 7) {
                (1, 2) => Field::PartitionKey,
                (2, 2) => Field::ExplicitHashKey,
                (3, 2) => Field::Record,
                (0..=3, _) => return Err(Damage::Malformed),
                // A later version of the format may have more; protobuf asks to pass over it.
                _ => continue,
            };
            return Ok(Some((field, content)));
        }
        Ok(None)
    }

    fn varint(&mut self) -> Result<usize, Damage> {
        prost::decode_length_delimiter(&mut self.rest).map_err(|_| Damage::Malformed)
    }
}

impl Iterator for Fields {
    type Item = Result<(Field, Bytes), Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// A user record of the message. What the format requires is optional here, so that it can be seen to be missing;
/// its tags, which no producer writes, are passed over.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Record {
    #[prost(uint64, optional, tag = "1")]
    pub(super) partition_key_index: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) explicit_hash_key_index: Option<u64>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(super) data: Option<Bytes>,
}
