//! One stream. It alone knows which of its shards a record belongs to, and what is listed at a given time.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::error::ServiceError;
use crate::hash_key;
use crate::quota::Bucket;
use crate::sequence::{SequenceNumber, Sequencer};
use crate::shard::{Origin, Record, Shard, ShardId};

/// The account that every stream belongs to.
pub(crate) const ACCOUNT: &str = "000000000000";
/// The region that every stream is in.
pub(crate) const REGION: &str = "us-east-1";
/// CreateStream: records are kept for a day unless the stream's retention is changed.
const DEFAULT_RETENTION: Duration = Duration::from_secs(24 * 3_600);
/// CreateStream, MaxRecordSizeInKiB: 1 MiB unless it is changed.
pub(crate) const DEFAULT_RECORD_KIB: usize = 1_024;

/// What a stream is being made into; it is ACTIVE when nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    Creating,
    Updating,
    Deleting,
}

/// One stream with its shards, listed or not, in the order in which they were made.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) name: String,
    /// Tells this stream from an earlier one of the same name.
    pub(crate) incarnation: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) retention: Duration,
    pub(crate) on_demand: bool,
    pub(crate) record_limit_kib: usize,
    pub(crate) listings: Bucket,
    /// When the shard count was last updated, for the limit of ten a day.
    pub(crate) count_updates: Vec<Timestamp>,
    pub(crate) shards: Vec<Shard>,
    /// The open shards by the first hash key of each.
    pub(crate) open: BTreeMap<u128, ShardId>,
    transition: Option<(Transition, Timestamp)>,
}

impl Stream {
    pub(crate) fn create(
        name: &str,
        shard_count: usize,
        incarnation: u64,
        sequencer: &mut Sequencer,
        now: Timestamp,
    ) -> Self {
        let mut stream = Self {
            name: name.to_owned(),
            incarnation,
            created_at: now,
            retention: DEFAULT_RETENTION,
            on_demand: false,
            record_limit_kib: DEFAULT_RECORD_KIB,
            listings: Bucket::of_listings(now),
            count_updates: Vec::new(),
            shards: Vec::with_capacity(shard_count),
            open: BTreeMap::new(),
            transition: None,
        };
        for hash_keys in hash_key::divide(shard_count) {
            stream.open_shard(Origin::Stream, hash_keys, sequencer, now);
        }
        stream
    }

    pub(crate) fn open_shard(
        &mut self,
        origin: Origin,
        hash_keys: hash_key::HashKeyRange,
        sequencer: &mut Sequencer,
        now: Timestamp,
    ) -> ShardId {
        let id = ShardId(self.shards.len());
        let starting = sequencer.next(now, id.0);
        self.shards
            .push(Shard::open(id, origin, hash_keys, starting, now));
        self.open.insert(hash_keys.start, id);
        id
    }

    pub(crate) fn arn(&self) -> String {
        format!("arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{}", self.name)
    }

    pub(crate) fn transition(&self, now: Timestamp) -> Option<Transition> {
        self.transition
            .filter(|(_, until)| now < *until)
            .map(|(transition, _)| transition)
    }

    pub(crate) fn begin(&mut self, transition: Transition, until: Timestamp) {
        self.transition = Some((transition, until));
    }

    /// Whether the deletion of this stream has completed.
    pub(crate) fn is_gone(&self, now: Timestamp) -> bool {
        matches!(self.transition, Some((Transition::Deleting, until)) if until <= now)
    }

    /// What arrived then or before is no longer kept.
    pub(crate) fn horizon(&self, now: Timestamp) -> Timestamp {
        now.minus(self.retention)
    }

    /// The shard of that id, whose expired records are dropped first. A shard that expired is no more.
    pub(crate) fn shard_mut(
        &mut self,
        id: &str,
        now: Timestamp,
    ) -> Result<&mut Shard, ServiceError> {
        let horizon = self.horizon(now);
        let name = &self.name;
        let unknown = || {
            ServiceError::not_found(format!(
                "Shard {id} in stream {name} under account {ACCOUNT} does not exist"
            ))
        };
        let index = ShardId::parse(id).ok_or_else(unknown)?;
        let shard = self.shards.get_mut(index.0).ok_or_else(unknown)?;
        shard.drop_expired(horizon);
        if shard.has_expired(horizon) {
            Err(unknown())
        } else {
            Ok(shard)
        }
    }

    /// The open shard that owns a hash key.
    pub(crate) fn owner_of(&self, hash_key: u128) -> ShardId {
        self.open
            .range(..=hash_key)
            .next_back()
            .map_or(ShardId(0), |(_, id)| *id)
    }

    pub(crate) fn store(
        &mut self,
        shard: ShardId,
        partition_key: &str,
        data: Bytes,
        sequencer: &mut Sequencer,
        now: Timestamp,
    ) -> SequenceNumber {
        let sequence_number = sequencer.next(now, shard.0);
        self.shards[shard.0].store(Record {
            sequence_number,
            partition_key: partition_key.into(),
            data,
            arrived_at: now.to_millis_precision(),
        });
        sequence_number
    }

    /// The shards made later than `after` that still can be read or written, oldest first.
    pub(crate) fn listed_after(
        &self,
        after: Option<ShardId>,
        now: Timestamp,
    ) -> impl Iterator<Item = &Shard> {
        let horizon = self.horizon(now);
        let skipped = after.map_or(0, |after| after.0.saturating_add(1));
        self.shards
            .iter()
            .skip(skipped)
            .filter(move |shard| !shard.has_expired(horizon))
    }

    /// Whether a shard was open at the trim horizon: none of its parents is listed any more.
    pub(crate) fn is_oldest(&self, shard: &Shard, now: Timestamp) -> bool {
        let horizon = self.horizon(now);
        [shard.origin.parent(), shard.origin.adjacent_parent()]
            .into_iter()
            .flatten()
            .all(|parent| self.shards[parent.0].has_expired(horizon))
    }

    /// Changes how long records are kept. What has expired by then stays expired
    /// (IncreaseStreamRetentionPeriod).
    pub(crate) fn retain(&mut self, retention: Duration, now: Timestamp) {
        let horizon = self.horizon(now);
        for shard in &mut self.shards {
            shard.drop_expired(horizon);
        }
        self.retention = retention;
    }
}
