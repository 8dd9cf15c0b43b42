//! GetShardIterator and GetRecords. It alone knows where an iterator opens, how long it lives, and what a read
//! costs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::shapes::{Blob, HashKeyRange, StreamRef, as_text, stop_dry_run};
use super::{Call, Conditions};
use crate::clock::Timestamp;
use crate::error::ServiceError;
use crate::fault::Target;
use crate::operation::Operation;
use crate::sequence::SequenceNumber;
use crate::shard::{Record, Shard, ShardId};
use crate::stream::{ACCOUNT, Stream};
use crate::token::{ITERATOR_LIFETIME, ShardIterator};
use crate::world::World;

/// GetRecords, Limit: 1 to 10,000, and 10,000 unless it is given.
const MOST_RECORDS: i64 = 10_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetShardIterator {
    #[serde(flatten)]
    stream: StreamRef,
    shard_id: Option<String>,
    shard_iterator_type: Option<String>,
    starting_sequence_number: Option<String>,
    timestamp: Option<f64>,
    dry_run: Option<bool>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetShardIteratorAnswer {
    shard_iterator: String,
}

impl GetShardIterator {
    /// Where in the shard the iterator opens.
    fn open(
        &self,
        shard: &Shard,
        stream: &str,
        now: Timestamp,
    ) -> Result<SequenceNumber, ServiceError> {
        let kind = self.shard_iterator_type.as_deref();
        let kind = kind.ok_or_else(|| ServiceError::missing("shardIteratorType"))?;
        match kind {
            "TRIM_HORIZON" => Ok(shard.starting),
            "LATEST" => Ok(shard.tip()),
            "AT_SEQUENCE_NUMBER" => self.starting_number(shard, stream),
            "AFTER_SEQUENCE_NUMBER" => self
                .starting_number(shard, stream)
                .map(SequenceNumber::successor),
            "AT_TIMESTAMP" => self.starting_time(now).map(|time| shard.at_time(time)),
            _ => Err(ServiceError::constraint(
                "shardIteratorType",
                kind,
                "satisfy enum value set: [AFTER_SEQUENCE_NUMBER, LATEST, AT_TIMESTAMP, AT_SEQUENCE_NUMBER, \
                 TRIM_HORIZON]",
            )),
        }
    }

    fn starting_number(&self, shard: &Shard, stream: &str) -> Result<SequenceNumber, ServiceError> {
        let text = self.starting_sequence_number.as_deref().ok_or_else(|| {
            ServiceError::invalid_argument(
                "Must either specify a StartingSequenceNumber or use another ShardIteratorType than \
                 AT_SEQUENCE_NUMBER and AFTER_SEQUENCE_NUMBER.",
            )
        })?;
        let refuse = |reason: &str| {
            ServiceError::invalid_argument(format!(
                "StartingSequenceNumber {text} used in GetShardIterator on shard {} in stream {stream} under \
                 account {ACCOUNT} is invalid{reason}.",
                shard.id
            ))
        };
        let number = SequenceNumber::parse(text).ok_or_else(|| refuse(""))?;
        if number.shard() != shard.id.0 as u128 {
            return Err(ServiceError::invalid_argument(format!(
                "Invalid StartingSequenceNumber. It encodes shardId-{:012}, while it was used in a call to a \
                 shard with {}",
                number.shard(),
                shard.id
            )));
        }
        if shard.contains(number) {
            Ok(number)
        } else {
            Err(refuse(" because it did not come from this stream"))
        }
    }

    fn starting_time(&self, now: Timestamp) -> Result<Timestamp, ServiceError> {
        let seconds = self.timestamp.ok_or_else(|| {
            ServiceError::invalid_argument(
                "Must specify a Timestamp with the ShardIteratorType AT_TIMESTAMP.",
            )
        })?;
        let time = Timestamp::from_seconds(seconds);
        if time > now {
            return Err(ServiceError::invalid_argument(format!(
                "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis. \
                 timestampInMillis: {}, currentTimestampInMillis: {}",
                time.millis(),
                now.millis()
            )));
        }
        Ok(time)
    }
}

impl Call for GetShardIterator {
    const OPERATION: Operation = Operation::GetShardIterator;
    type Answer = GetShardIteratorAnswer;

    fn target(&self, _world: &World) -> Target {
        Target::new(Self::OPERATION, self.stream.hint(), self.shard_id.clone())
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<Self::Answer, ServiceError> {
        let now = conditions.now;
        let name = self.stream.resolve()?;
        let id = self
            .shard_id
            .as_deref()
            .ok_or_else(|| ServiceError::missing("shardId"))?;
        let quotas = world.settings.quotas;
        let (stream, _) = world.usable_stream(&name, now)?;
        let incarnation = stream.incarnation;
        let shard = stream.shard_mut(id, now)?;
        let from = self.open(shard, &name, now)?;
        if quotas && !shard.quota.accept_iterator(now) {
            return Err(rate_exceeded(shard.id, &name));
        }
        stop_dry_run(self.dry_run)?;
        let shard = shard.id;
        let serial = world.iterators.issue();
        let iterator = ShardIterator {
            stream: name,
            incarnation,
            shard,
            from,
            issued_at: now,
            serial,
        };
        Ok(GetShardIteratorAnswer {
            shard_iterator: iterator.encode(),
        })
    }
}

/// What a shard answers beyond its quota.
pub(super) fn rate_exceeded(shard: ShardId, stream: &str) -> ServiceError {
    ServiceError::throughput_exceeded(format!(
        "Rate exceeded for shard {shard} in stream {stream} under account {ACCOUNT}."
    ))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetRecords {
    shard_iterator: Option<String>,
    limit: Option<i64>,
    #[serde(flatten)]
    stream: StreamRef,
    dry_run: Option<bool>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetRecordsAnswer {
    records: Vec<RecordAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_shard_iterator: Option<String>,
    millis_behind_latest: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    child_shards: Option<Vec<ChildShard>>,
}

/// `Record`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct RecordAnswer {
    sequence_number: SequenceNumber,
    approximate_arrival_timestamp: Timestamp,
    data: Blob,
    #[serde(serialize_with = "as_text")]
    partition_key: Arc<str>,
}

impl From<Record> for RecordAnswer {
    fn from(record: Record) -> Self {
        Self {
            sequence_number: record.sequence_number,
            approximate_arrival_timestamp: record.arrived_at,
            data: Blob(record.data),
            partition_key: record.partition_key,
        }
    }
}

/// `ChildShard`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ChildShard {
    shard_id: ShardId,
    parent_shards: Vec<ShardId>,
    hash_key_range: HashKeyRange,
}

/// GetRecords, ChildShards: what takes records in place of a closed shard.
fn children_of(stream: &Stream, parent: ShardId) -> Vec<ChildShard> {
    let closing = stream.shards[parent.0].closing.as_ref();
    let children = closing
        .map(|closing| closing.children.as_slice())
        .unwrap_or_default();
    let describe = |id: &ShardId| {
        let child = &stream.shards[id.0];
        let parents = [child.origin.parent(), child.origin.adjacent_parent()];
        ChildShard {
            shard_id: child.id,
            parent_shards: parents.into_iter().flatten().collect(),
            hash_key_range: HashKeyRange::of(child),
        }
    };
    children.iter().map(describe).collect()
}

impl GetRecords {
    /// The iterator, unless it is malformed or too old.
    fn iterator(&self, world: &World, now: Timestamp) -> Result<ShardIterator, ServiceError> {
        let text = self.shard_iterator.as_deref();
        let text = text.ok_or_else(|| ServiceError::missing("shardIterator"))?;
        let iterator = ShardIterator::decode(text)
            .ok_or_else(|| ServiceError::invalid_argument("Invalid ShardIterator."))?;
        if now.since(iterator.issued_at) > ITERATOR_LIFETIME
            || world.iterators.have_expired(iterator.serial)
        {
            return Err(ServiceError::expired_iterator(format!(
                "Iterator expired. The iterator was created at time {} while right now it is {} which is \
                 further in the future than the tolerated delay of {} milliseconds.",
                iterator.issued_at.millis(),
                now.millis(),
                ITERATOR_LIFETIME.as_millis()
            )));
        }
        if self.stream.arn.is_some() && self.stream.resolve()? != iterator.stream {
            return Err(ServiceError::invalid_argument(
                "The ShardIterator is of another stream than StreamARN.",
            ));
        }
        Ok(iterator)
    }

    fn limit(&self) -> Result<usize, ServiceError> {
        let limit = self.limit.unwrap_or(MOST_RECORDS);
        if limit < 1 {
            let rule = "have value greater than or equal to 1";
            return Err(ServiceError::constraint("limit", limit, rule));
        }
        usize::try_from(limit)
            .ok()
            .filter(|_| limit <= MOST_RECORDS)
            .ok_or_else(|| {
                ServiceError::invalid_argument(format!(
                    "Limit {limit} is greater than the maximum of {MOST_RECORDS}."
                ))
            })
    }
}

impl Call for GetRecords {
    const OPERATION: Operation = Operation::GetRecords;
    type Answer = GetRecordsAnswer;

    fn target(&self, _world: &World) -> Target {
        let iterator = self
            .shard_iterator
            .as_deref()
            .and_then(ShardIterator::decode);
        match iterator {
            Some(ShardIterator { stream, shard, .. }) => {
                Target::new(Self::OPERATION, Some(stream), [shard.to_string()])
            }
            None => Target::new(Self::OPERATION, self.stream.hint(), []),
        }
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<Self::Answer, ServiceError> {
        let now = conditions.now;
        let limit = self.limit()?;
        let iterator = self.iterator(world, now)?;
        let quotas = world.settings.quotas;
        let (stream, _) = world.usable_stream(&iterator.stream, now)?;
        if stream.incarnation != iterator.incarnation {
            return Err(ServiceError::not_found(format!(
                "Stream {} under account {ACCOUNT} that the iterator was for not found.",
                iterator.stream
            )));
        }
        let shard = stream.shard_mut(&iterator.shard.to_string(), now)?;
        if quotas && !shard.quota.accept_read(now) {
            return Err(rate_exceeded(iterator.shard, &iterator.stream));
        }
        stop_dry_run(self.dry_run)?;
        let batch = shard.read(iterator.from, limit, now);
        shard.quota.charge_read(batch.bytes, now);
        let child_shards = batch
            .next
            .is_none()
            .then(|| children_of(stream, iterator.shard));
        let next_shard_iterator = batch.next.map(|from| {
            let serial = world.iterators.issue();
            ShardIterator {
                from,
                issued_at: now,
                serial,
                ..iterator
            }
            .encode()
        });
        Ok(GetRecordsAnswer {
            records: batch.records.into_iter().map(RecordAnswer::from).collect(),
            next_shard_iterator,
            millis_behind_latest: u64::try_from(batch.behind.as_millis()).unwrap_or(u64::MAX),
            child_shards,
        })
    }
}
