//! One shard. It alone knows what the shard stores, what a read of it gives, and when it has passed away.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::hash_key::HashKeyRange;
use crate::quota::ShardQuota;
use crate::sequence::SequenceNumber;

/// GetRecords: at most 10 MiB in one answer.
const READ_LIMIT_BYTES: usize = 10 * 1024 * 1024;

/// A shard's id: its index in the stream, in the order in which shards were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShardId(pub(crate) usize);

impl ShardId {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("shardId-")?;
        if digits.len() < 12 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let id = Self(digits.parse().ok()?);
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shardId-{:012}", self.0)
    }
}

impl serde::Serialize for ShardId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A stored record. Cheap to clone: what it carries is shared.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) sequence_number: SequenceNumber,
    pub(crate) partition_key: Arc<str>,
    pub(crate) data: Bytes,
    pub(crate) arrived_at: Timestamp,
}

impl Record {
    fn size(&self) -> usize {
        self.partition_key.len() + self.data.len()
    }
}

/// What a shard comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The shard was there when the stream was created.
    Stream,
    /// One half of a split shard.
    Split { parent: ShardId },
    /// Two shards made one.
    Merge {
        parent: ShardId,
        adjacent_parent: ShardId,
    },
}

impl Origin {
    pub(crate) fn parent(self) -> Option<ShardId> {
        match self {
            Self::Stream => None,
            Self::Split { parent } | Self::Merge { parent, .. } => Some(parent),
        }
    }

    pub(crate) fn adjacent_parent(self) -> Option<ShardId> {
        match self {
            Self::Merge {
                adjacent_parent, ..
            } => Some(adjacent_parent),
            Self::Stream | Self::Split { .. } => None,
        }
    }
}

/// When and where a shard stopped taking records, and what takes them in its place.
#[derive(Clone, Debug)]
pub(crate) struct Closing {
    pub(crate) at: Timestamp,
    pub(crate) ending: SequenceNumber,
    pub(crate) children: Vec<ShardId>,
}

/// One shard of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) id: ShardId,
    pub(crate) origin: Origin,
    pub(crate) hash_keys: HashKeyRange,
    pub(crate) starting: SequenceNumber,
    pub(crate) opened_at: Timestamp,
    pub(crate) closing: Option<Closing>,
    pub(crate) quota: ShardQuota,
    last: SequenceNumber,
    records: VecDeque<Record>,
    trimmed: bool,
}

/// What one read gives.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) records: Vec<Record>,
    /// Where the next read goes on; nothing at the end of a closed shard.
    pub(crate) next: Option<SequenceNumber>,
    pub(crate) behind: Duration,
    pub(crate) bytes: usize,
}

impl Shard {
    pub(crate) fn open(
        id: ShardId,
        origin: Origin,
        hash_keys: HashKeyRange,
        starting: SequenceNumber,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            origin,
            hash_keys,
            starting,
            opened_at: now,
            closing: None,
            quota: ShardQuota::unused(now),
            last: starting,
            records: VecDeque::new(),
            trimmed: false,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.closing.is_none()
    }

    pub(crate) fn store(&mut self, record: Record) {
        self.last = record.sequence_number;
        self.records.push_back(record);
    }

    pub(crate) fn close(&mut self, ending: SequenceNumber, children: Vec<ShardId>, now: Timestamp) {
        self.last = ending;
        self.closing = Some(Closing {
            at: now,
            ending,
            children,
        });
    }

    /// Whether `number` lies between this shard's start and its end, or what was last stored.
    pub(crate) fn contains(&self, number: SequenceNumber) -> bool {
        (self.starting..=self.last).contains(&number)
    }

    /// Just after the newest record; of a closed shard, its end.
    pub(crate) fn tip(&self) -> SequenceNumber {
        match &self.closing {
            Some(closing) => closing.ending,
            None => self.last.successor(),
        }
    }

    /// The first record that arrived at `time` or later, or the tip.
    pub(crate) fn at_time(&self, time: Timestamp) -> SequenceNumber {
        // Arrival times never run backwards within a shard.
        let at = self
            .records
            .partition_point(|record| record.arrived_at < time);
        self.records
            .get(at)
            .map_or_else(|| self.tip(), |record| record.sequence_number)
    }

    /// Up to `limit` records from `from` on.
    pub(crate) fn read(&self, from: SequenceNumber, limit: usize, now: Timestamp) -> Batch {
        let unread = self
            .records
            .partition_point(|record| record.sequence_number < from);
        let mut bytes = 0;
        let mut records = Vec::new();
        for record in self.records.range(unread..).take(limit) {
            if !records.is_empty() && bytes + record.size() > READ_LIMIT_BYTES {
                break;
            }
            bytes += record.size();
            records.push(record.clone());
        }
        let read = unread + records.len();
        let last = records.last();
        let behind = match last {
            Some(last) if read < self.records.len() => now.since(last.arrived_at),
            _ => Duration::ZERO,
        };
        let next = match &self.closing {
            Some(_) if read == self.records.len() => None,
            _ => Some(last.map_or(from, |last| last.sequence_number.successor())),
        };
        Batch {
            records,
            next,
            behind,
            bytes,
        }
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }

    /// Drops what arrived at `horizon` or before.
    pub(crate) fn drop_expired(&mut self, horizon: Timestamp) {
        while self
            .records
            .front()
            .is_some_and(|record| record.arrived_at <= horizon)
        {
            self.records.pop_front();
        }
        if self
            .closing
            .as_ref()
            .is_some_and(|closing| closing.at <= horizon)
        {
            self.trimmed = true;
        }
    }

    /// Drops every record up to and including `through`, however young; all of them where it is `None`.
    pub(crate) fn trim(&mut self, through: Option<SequenceNumber>) {
        let through = through.unwrap_or(self.last);
        while self
            .records
            .front()
            .is_some_and(|record| record.sequence_number <= through)
        {
            self.records.pop_front();
        }
        if !self.is_open() && self.records.is_empty() {
            self.trimmed = true;
        }
    }

    /// Whether nothing of this shard can be read any more (Developer Guide, "After resharding": EXPIRED).
    pub(crate) fn has_expired(&self, horizon: Timestamp) -> bool {
        self.closing
            .as_ref()
            .is_some_and(|closing| self.trimmed || closing.at <= horizon)
    }
}
