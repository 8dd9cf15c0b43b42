//! What one aggregated record holds: its user records, which of them belong to the shard that it was read from, and
//! which checkpoint stands for each.
//!
//! Producers pack many user records into one record to pay for fewer; [`mod@format`] is how. A user record keeps its own
//! partition key. Its number, from 0, is its place among all that the aggregate has, wherever they belong.
//!
//! # Which user records belong to the shard
//!
//! A shard owns a [range of hash keys][range]. A user record's hash key is its explicit one, or else the [MD5 of its
//! partition key][terms]; outside the shard's range the record is passed over, it alone. Such a one comes about when a
//! shard is split under a producer that still packs for the parent: the aggregate as a whole lands in one of the
//! children, with user records in it that are the other child's.
//!
//! Nothing is lost by that where the vendor's producer library (KPL) made the aggregate. It packs by the shard that it
//! predicts for each user record, and compares that with the shard that the service answers. A record that landed in
//! another it sends again, by a fresh map of the shards, and so to the shard whose range has it; before that it tells
//! its caller of no success. The one that is passed over here is thus a duplicate in the making, and out of the order
//! of its partition key; the vendor's consumer library drops it too.
//!
//! A producer that packs keys of several shards together and does not send again loses here, as it does with the
//! vendor's consumer library, and without any split: nobody but this shard has its records. The [aggregation
//! modules][loss] of the vendor for Java, Python and Node.js pack like this where they are used without a shard map,
//! and warn of it. [`Aggregate::skipped`] is there to be counted and shown: it stays at zero but for a little while
//! after a split, or the stream has such a producer. A caller that gives no range for the shard has every user record
//! handed over.
//!
//! # Checkpoints
//!
//! A user record's checkpoint is its place inside the aggregate, but for the last that belongs to the shard: after that
//! one the whole record is settled, and a reader goes on behind it as behind any other. Where none belongs here, the
//! whole record is settled from the start. A reader that resumes inside an aggregate takes those behind that place,
//! by their numbers, which depend on nothing but the aggregate.
//!
//! [loss]: https://github.com/awslabs/kinesis-aggregation/blob/master/potential_data_loss.md
//! [range]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_HashKeyRange.html
//! [terms]: https://docs.aws.amazon.com/streams/latest/dev/key-concepts.html

mod format;
#[cfg(test)]
mod tests;

use std::str;
use std::sync::Arc;

use bytes::Bytes;
use lease_core::Checkpoint;
use md5::{Digest, Md5};
use prost::Message;

pub(crate) use self::format::Damage;
use self::format::{Field, Fields, Record};
use crate::leasing::lineage::{HashKeyRange, hash_key};

/// A record that was found to be an aggregate, whole and sound. Of its user records none is made before it is asked
/// for; the tables take at most eight times the size of the payload, and far less than that of one that means well.
#[derive(Debug)]
pub(crate) struct Aggregate {
    message: Bytes,
    partition_keys: Vec<PartitionKey>,
    explicit_hash_keys: Vec<u128>,
    shard: Option<HashKeyRange>,
    skipped: u64,
    /// The last user record that belongs to the shard; `None` where none does.
    last: Option<u64>,
}

/// An entry of the table: where in the message its text is. A key of a thousand records is there once.
#[derive(Clone, Copy, Debug)]
struct PartitionKey {
    start: u32,
    end: u32,
    /// Whether its hash key is in the shard's range.
    is_here: bool,
}

/// One of the records that were packed into an aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserRecord {
    /// Its number in the aggregate, from 0.
    pub(crate) sub_sequence: u64,
    /// After it, when it is settled.
    pub(crate) checkpoint: Checkpoint,
    /// Shared with its neighbours of the same key.
    pub(crate) partition_key: Arc<str>,
    pub(crate) explicit_hash_key: Option<u128>,
    /// A part of the payload, not copied.
    pub(crate) data: Bytes,
}

/// Whether a payload may be an aggregate: not, at the cost of comparing four bytes, where it is a record like any other.
pub(crate) fn may_be(payload: &[u8]) -> bool {
    format::is_begun(payload)
}

/// Takes a payload of this shard for the aggregate that it is.
///
/// `None` where it [cannot be](may_be) one. What begins like an aggregate and is none
/// is a record like any other too; the error says why it was not taken apart.
pub(crate) fn unpack(
    payload: &Bytes,
    shard: Option<HashKeyRange>,
) -> Result<Option<Aggregate>, Damage> {
    format::message(payload)
        .map(|message| Aggregate::read(message?, shard))
        .transpose()
}

impl Aggregate {
    /// Finds everything that can be wrong, so that whoever goes through the user records later meets no error.
    fn read(message: Bytes, shard: Option<HashKeyRange>) -> Result<Self, Damage> {
        let (mut partition_keys, mut explicit_hash_keys) = (0, 0);
        for field in Fields::of(&message) {
            match field?.0 {
                Field::PartitionKey => partition_keys += 1,
                Field::ExplicitHashKey => explicit_hash_keys += 1,
                Field::Record => {}
            }
        }
        let mut aggregate = Self {
            message,
            partition_keys: Vec::with_capacity(partition_keys),
            explicit_hash_keys: Vec::with_capacity(explicit_hash_keys),
            shard: shard.filter(|shard| !shard.is_everything()),
            skipped: 0,
            last: None,
        };
        // The tables first: protobuf leaves it to the producer where in the message they stand.
        aggregate.read_tables()?;
        aggregate.read_records()?;
        Ok(aggregate)
    }

    fn read_tables(&mut self) -> Result<(), Damage> {
        let mut fields = Fields::of(&self.message);
        while let Some(field) = fields.next() {
            match field? {
                (Field::PartitionKey, text) => {
                    let offset = |at| u32::try_from(at).map_err(|_| Damage::Malformed);
                    let end = self.message.len() - fields.remaining();
                    let partition_key = read_text(&text)?;
                    self.partition_keys.push(PartitionKey {
                        start: offset(end - text.len())?,
                        end: offset(end)?,
                        is_here: (self.shard)
                            .is_none_or(|shard| shard.contains(hash_key_of(partition_key))),
                    });
                }
                (Field::ExplicitHashKey, text) => {
                    let hash_key = hash_key(read_text(&text)?).ok_or(Damage::HashKey)?;
                    self.explicit_hash_keys.push(hash_key);
                }
                (Field::Record, _) => {}
            }
        }
        Ok(())
    }

    fn read_records(&mut self) -> Result<(), Damage> {
        let mut number = 0;
        for field in Fields::of(&self.message) {
            let (Field::Record, content) = field? else {
                continue;
            };
            if self.resolve(content)?.is_here {
                self.last = Some(number);
            } else {
                self.skipped += 1;
            }
            number += 1;
        }
        if number == 0 {
            return Err(Damage::Empty);
        }
        Ok(())
    }

    fn resolve(&self, content: Bytes) -> Result<Resolved, Damage> {
        let record = Record::decode(content)?;
        let entry = |index: u64| usize::try_from(index).map_err(|_| Damage::Reference);
        let index = entry(record.partition_key_index.ok_or(Damage::Reference)?)?;
        let key = self.partition_keys.get(index).ok_or(Damage::Reference)?;
        let explicit_hash_key = match record.explicit_hash_key_index {
            None => None,
            Some(index) => {
                let hash_key = self.explicit_hash_keys.get(entry(index)?);
                Some(*hash_key.ok_or(Damage::Reference)?)
            }
        };
        Ok(Resolved {
            partition_key: index,
            explicit_hash_key,
            is_here: match explicit_hash_key {
                Some(hash_key) => self.shard.is_none_or(|shard| shard.contains(hash_key)),
                None => key.is_here,
            },
            data: record.data.ok_or(Damage::Reference)?,
        })
    }

    /// The text of an entry of the table.
    fn partition_key(&self, index: usize) -> Option<&str> {
        let PartitionKey { start, end, .. } = *self.partition_keys.get(index)?;
        let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
        read_text(self.message.get(start..end)?).ok()
    }

    /// How many user records belong to other shards, and are passed over.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The user records that belong to the shard, in their order: all of them, or those behind the number of the
    /// checkpoint that a reader resumes at. Where there are none, the whole record is settled as it is.
    pub(crate) fn user_records(self, sequence_number: Arc<str>, after: Option<u64>) -> UserRecords {
        UserRecords {
            fields: Fields::of(&self.message),
            aggregate: self,
            sequence_number,
            number: 0,
            after,
            partition_key: None,
        }
    }
}

/// A user record, with its references found in the tables.
struct Resolved {
    partition_key: usize,
    explicit_hash_key: Option<u128>,
    is_here: bool,
    data: Bytes,
}

/// The user records of an aggregate, made one after the other as they are asked for.
#[derive(Debug)]
pub(crate) struct UserRecords {
    aggregate: Aggregate,
    fields: Fields,
    sequence_number: Arc<str>,
    /// The number of the next user record in the message.
    number: u64,
    after: Option<u64>,
    /// That of the user record before, which mostly is that of the next one.
    partition_key: Option<(usize, Arc<str>)>,
}

impl UserRecords {
    fn share_partition_key(&mut self, index: usize) -> Option<Arc<str>> {
        match &self.partition_key {
            Some((known, text)) if *known == index => Some(Arc::clone(text)),
            _ => {
                let text: Arc<str> = self.aggregate.partition_key(index)?.into();
                self.partition_key = Some((index, Arc::clone(&text)));
                Some(text)
            }
        }
    }

    fn checkpoint(&self, number: u64) -> Checkpoint {
        let sequence_number = Arc::clone(&self.sequence_number);
        if self.aggregate.last == Some(number) {
            Checkpoint::from_shared(sequence_number)
        } else {
            Checkpoint::at_sub(sequence_number, number)
        }
    }
}

impl Iterator for UserRecords {
    type Item = UserRecord;

    /// Nothing can be wrong here any more that [`Aggregate::read`] has not found.
    fn next(&mut self) -> Option<UserRecord> {
        while self.number <= self.aggregate.last? {
            let (Field::Record, content) = self.fields.next()?.ok()? else {
                continue;
            };
            let number = self.number;
            self.number += 1;
            if self.after.is_some_and(|after| number <= after) {
                continue;
            }
            let record = self.aggregate.resolve(content).ok()?;
            if record.is_here {
                return Some(UserRecord {
                    sub_sequence: number,
                    checkpoint: self.checkpoint(number),
                    partition_key: self.share_partition_key(record.partition_key)?,
                    explicit_hash_key: record.explicit_hash_key,
                    data: record.data,
                });
            }
        }
        None
    }
}

fn read_text(content: &[u8]) -> Result<&str, Damage> {
    str::from_utf8(content).map_err(|_| Damage::Malformed)
}

/// The hash key of a partition key: its MD5 as a number, the first byte the most significant.
fn hash_key_of(partition_key: &str) -> u128 {
    u128::from_be_bytes(Md5::digest(partition_key.as_bytes()).into())
}
