//! What a test sees of shards and records: plain data, in the API's words.

use std::time::SystemTime;

use bytes::Bytes;

use crate::shard::{Record, Shard};

/// Where a record was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The id of the shard that owns the record's hash key.
    pub shard: String,
    /// The sequence number that the record was given.
    pub sequence_number: String,
}

/// One shard, open or closed, as ListShards would show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimShard {
    /// The shard's id.
    pub id: String,
    /// The shard that was split, or the first of the two that were merged, to make this one.
    pub parent: Option<String>,
    /// The second of the two shards that were merged to make this one.
    pub adjacent_parent: Option<String>,
    /// Whether the shard takes records.
    pub open: bool,
    /// The lowest hash key that the shard owns.
    pub starting_hash_key: u128,
    /// The highest hash key that the shard owns.
    pub ending_hash_key: u128,
    /// Every record of the shard has a sequence number above this.
    pub starting_sequence_number: String,
    /// Every record of the shard has a sequence number below this; `None` while the shard is open.
    pub ending_sequence_number: Option<String>,
}

impl From<&Shard> for SimShard {
    fn from(shard: &Shard) -> Self {
        let id = |id: crate::shard::ShardId| id.to_string();
        Self {
            id: shard.id.to_string(),
            parent: shard.origin.parent().map(id),
            adjacent_parent: shard.origin.adjacent_parent().map(id),
            open: shard.is_open(),
            starting_hash_key: shard.hash_keys.start,
            ending_hash_key: shard.hash_keys.end,
            starting_sequence_number: shard.starting.to_string(),
            ending_sequence_number: shard
                .closing
                .as_ref()
                .map(|closing| closing.ending.to_string()),
        }
    }
}

/// One stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimRecord {
    /// The record's sequence number.
    pub sequence_number: String,
    /// The key that it was put with.
    pub partition_key: String,
    /// What it carries.
    pub data: Bytes,
    /// When it was stored, by the simulation's wall clock, to the millisecond.
    pub arrived_at: SystemTime,
}

impl From<&Record> for SimRecord {
    fn from(record: &Record) -> Self {
        Self {
            sequence_number: record.sequence_number.to_string(),
            partition_key: record.partition_key.to_string(),
            data: record.data.clone(),
            arrived_at: record.arrived_at.system_time(),
        }
    }
}
