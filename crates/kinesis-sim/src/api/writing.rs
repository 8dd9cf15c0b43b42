//! PutRecord and PutRecords. It alone knows what may be stored, and what becomes of the rest of a batch when
//! some of it fails.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::reading::rate_exceeded;
use super::shapes::{Blob, StreamRef, stop_dry_run};
use super::{Call, Conditions};
use crate::clock::Timestamp;
use crate::error::ServiceError;
use crate::fault::{PartialFailure, Target};
use crate::hash_key;
use crate::operation::Operation;
use crate::sequence::SequenceNumber;
use crate::shard::ShardId;
use crate::stream::Stream;
use crate::world::World;

/// PutRecords: up to 500 records a request.
const MOST_ENTRIES: usize = 500;
/// PutRecords: up to 10 MiB a request, partition keys included.
const MOST_BYTES: usize = 10 * 1024 * 1024;
/// PutRecord, PartitionKey: 1 to 256 characters.
const LONGEST_KEY: usize = 256;

/// `PutRecordsRequestEntry`, which PutRecord has in its input too.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    data: Option<Blob>,
    partition_key: Option<String>,
    explicit_hash_key: Option<String>,
}

/// An entry found well formed.
#[derive(Debug)]
struct GoodEntry {
    data: Bytes,
    partition_key: String,
    hash_key: u128,
}

impl GoodEntry {
    fn size(&self) -> usize {
        self.data.len() + self.partition_key.len()
    }
}

impl Entry {
    /// Where the entry would go, well formed or not.
    fn hash_key(&self) -> Option<u128> {
        match &self.explicit_hash_key {
            Some(explicit) => explicit.parse().ok(),
            None => self
                .partition_key
                .as_deref()
                .map(hash_key::of_partition_key),
        }
    }

    fn check(self) -> Result<GoodEntry, ServiceError> {
        let partition_key = self
            .partition_key
            .ok_or_else(|| ServiceError::missing("partitionKey"))?;
        let Blob(data) = self.data.ok_or_else(|| ServiceError::missing("data"))?;
        let length = partition_key.chars().count();
        if length == 0 {
            let rule = "have length greater than or equal to 1";
            return Err(ServiceError::constraint(
                "partitionKey",
                partition_key,
                rule,
            ));
        }
        if length > LONGEST_KEY {
            let rule = "have length less than or equal to 256";
            return Err(ServiceError::constraint(
                "partitionKey",
                partition_key,
                rule,
            ));
        }
        let hash_key = match self.explicit_hash_key {
            None => hash_key::of_partition_key(&partition_key),
            Some(explicit) => explicit_hash_key(&explicit)?,
        };
        Ok(GoodEntry {
            data,
            partition_key,
            hash_key,
        })
    }
}

/// PutRecord, ExplicitHashKey: a decimal number that is a hash key.
pub(super) fn explicit_hash_key(text: &str) -> Result<u128, ServiceError> {
    let decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    if !decimal || text.is_empty() || text.len() > 39 || (text.starts_with('0') && text != "0") {
        let rule = "satisfy regular expression pattern: 0|([1-9]\\d{0,38})";
        return Err(ServiceError::constraint("explicitHashKey", text, rule));
    }
    text.parse().map_err(|_| {
        ServiceError::invalid_argument(format!(
            "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. Specified value \
             was {text}"
        ))
    })
}

/// PutRecord, Data: a record with its key must not be larger than the stream allows.
fn check_size(stream: &Stream, entry: &GoodEntry) -> Result<(), ServiceError> {
    let limit = stream.record_limit_kib * 1_024;
    if entry.size() <= limit {
        return Ok(());
    }
    let rule = format!("have length less than or equal to {limit}");
    Err(ServiceError::constraint(
        "data",
        format_args!("of {} bytes with its key", entry.size()),
        &rule,
    ))
}

/// The shard of each of these hash keys, once each.
fn shards_of(
    world: &World,
    stream: Option<&str>,
    hash_keys: impl IntoIterator<Item = u128>,
) -> Vec<String> {
    let Some(stream) = stream.and_then(|name| world.streams.get(name)) else {
        return Vec::new();
    };
    let mut shards: Vec<_> = hash_keys
        .into_iter()
        .map(|key| stream.owner_of(key))
        .collect();
    shards.sort_unstable();
    shards.dedup();
    shards.iter().map(ToString::to_string).collect()
}

fn is_throttled(
    stream: &mut Stream,
    shard: ShardId,
    size: usize,
    quotas: bool,
    now: Timestamp,
) -> bool {
    quotas && !stream.shards[shard.0].quota.accept_write(size, now)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PutRecord {
    #[serde(flatten)]
    stream: StreamRef,
    #[serde(flatten)]
    entry: Entry,
    sequence_number_for_ordering: Option<String>,
    dry_run: Option<bool>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PutRecordAnswer {
    shard_id: ShardId,
    sequence_number: SequenceNumber,
}

impl Call for PutRecord {
    const OPERATION: Operation = Operation::PutRecord;
    type Answer = PutRecordAnswer;

    fn target(&self, world: &World) -> Target {
        let stream = self.stream.hint();
        let shards = shards_of(world, stream.as_deref(), self.entry.hash_key());
        Target::new(Self::OPERATION, stream, shards)
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<Self::Answer, ServiceError> {
        let name = self.stream.resolve()?;
        let entry = self.entry.check()?;
        let quotas = world.settings.quotas;
        let (stream, sequencer) = world.usable_stream(&name, conditions.now)?;
        check_size(stream, &entry)?;
        // Numbers always grow, so ordering after an earlier one needs no more than that it is one.
        if let Some(ordering) = self.sequence_number_for_ordering
            && SequenceNumber::parse(&ordering).is_none()
        {
            return Err(ServiceError::invalid_argument(format!(
                "ExclusiveMinimumSequenceNumber {ordering} used in PutRecord on stream {name} is invalid."
            )));
        }
        let shard = stream.owner_of(entry.hash_key);
        if is_throttled(stream, shard, entry.size(), quotas, conditions.now) {
            return Err(rate_exceeded(shard, &name));
        }
        stop_dry_run(self.dry_run)?;
        let GoodEntry {
            data,
            partition_key,
            ..
        } = entry;
        let sequence_number = stream.store(shard, &partition_key, data, sequencer, conditions.now);
        Ok(PutRecordAnswer {
            shard_id: shard,
            sequence_number,
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PutRecords {
    #[serde(flatten)]
    stream: StreamRef,
    records: Option<Vec<Entry>>,
    dry_run: Option<bool>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PutRecordsAnswer {
    failed_record_count: usize,
    records: Vec<Outcome>,
}

/// `PutRecordsResultEntry`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Outcome {
    #[serde(rename_all = "PascalCase")]
    Stored {
        shard_id: ShardId,
        sequence_number: SequenceNumber,
    },
    #[serde(rename_all = "PascalCase")]
    Failed {
        error_code: &'static str,
        error_message: String,
    },
}

impl PutRecords {
    fn check(records: Option<Vec<Entry>>) -> Result<Vec<GoodEntry>, ServiceError> {
        let records = records.ok_or_else(|| ServiceError::missing("records"))?;
        if records.is_empty() {
            let rule = "have length greater than or equal to 1";
            return Err(ServiceError::constraint("records", "[]", rule));
        }
        if records.len() > MOST_ENTRIES {
            let value = format_args!("of {} entries", records.len());
            let rule = format!("have length less than or equal to {MOST_ENTRIES}");
            return Err(ServiceError::constraint("records", value, &rule));
        }
        let entries = records
            .into_iter()
            .map(Entry::check)
            .collect::<Result<Vec<_>, _>>()?;
        if entries.iter().map(GoodEntry::size).sum::<usize>() > MOST_BYTES {
            return Err(ServiceError::invalid_argument(
                "Records size exceeds 10 MB limit",
            ));
        }
        Ok(entries)
    }
}

/// Which entries an injected partial failure strikes, by their place in the batch.
fn strike(
    partial: &PartialFailure,
    entries: &[GoodEntry],
    stream: &Stream,
    seed: u64,
) -> Vec<usize> {
    let aimed_at = |entry: &GoodEntry| {
        let owner = stream.owner_of(entry.hash_key).to_string();
        partial.shard.as_ref().is_none_or(|shard| *shard == owner)
    };
    let exposed = (0..entries.len()).filter(|at| aimed_at(&entries[*at]));
    fastrand::Rng::with_seed(seed).choose_multiple(exposed, partial.entries)
}

impl Call for PutRecords {
    const OPERATION: Operation = Operation::PutRecords;
    type Answer = PutRecordsAnswer;

    fn target(&self, world: &World) -> Target {
        let stream = self.stream.hint();
        let hash_keys = self.records.iter().flatten().filter_map(Entry::hash_key);
        let shards = shards_of(world, stream.as_deref(), hash_keys);
        Target::new(Self::OPERATION, stream, shards)
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<Self::Answer, ServiceError> {
        let now = conditions.now;
        let name = self.stream.resolve()?;
        let entries = Self::check(self.records)?;
        let quotas = world.settings.quotas;
        let seed = world.rng.u64(..);
        let (stream, sequencer) = world.usable_stream(&name, now)?;
        entries
            .iter()
            .try_for_each(|entry| check_size(stream, entry))?;
        stop_dry_run(self.dry_run)?;
        let struck = conditions
            .partial
            .as_ref()
            .map(|partial| strike(partial, &entries, stream, seed));
        let struck = struck.unwrap_or_default();
        let mut outcomes = Vec::with_capacity(entries.len());
        for (at, entry) in entries.into_iter().enumerate() {
            let shard_id = stream.owner_of(entry.hash_key);
            if struck.contains(&at) || is_throttled(stream, shard_id, entry.size(), quotas, now) {
                let ServiceError { code, message, .. } = rate_exceeded(shard_id, &name);
                outcomes.push(Outcome::Failed {
                    error_code: code,
                    error_message: message,
                });
                continue;
            }
            let GoodEntry {
                data,
                partition_key,
                ..
            } = entry;
            let sequence_number = stream.store(shard_id, &partition_key, data, sequencer, now);
            outcomes.push(Outcome::Stored {
                shard_id,
                sequence_number,
            });
        }
        let failed = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Outcome::Failed { .. }));
        Ok(PutRecordsAnswer {
            failed_record_count: failed.count(),
            records: outcomes,
        })
    }
}
