//! Resharding. It alone knows which shards may be split or merged, and what comes of it.

use crate::clock::Timestamp;
use crate::error::ServiceError;
use crate::hash_key::{self, HashKeyRange};
use crate::sequence::Sequencer;
use crate::shard::{Origin, ShardId};
use crate::stream::{ACCOUNT, Stream};

impl Stream {
    /// An open shard of that id, or why it can't be split or merged.
    fn reshardable(
        &mut self,
        id: &str,
        now: Timestamp,
    ) -> Result<(ShardId, HashKeyRange), ServiceError> {
        let name = self.name.clone();
        let shard = self.shard_mut(id, now)?;
        if shard.is_open() {
            Ok((shard.id, shard.hash_keys))
        } else {
            Err(ServiceError::invalid_argument(format!(
                "Shard {id} in stream {name} under account {ACCOUNT} has already been merged or split, and \
                 thus is not eligible for merging or splitting."
            )))
        }
    }

    /// Splits a shard where `new_starting_hash_key` says, or in the middle (SplitShard).
    pub(crate) fn split(
        &mut self,
        id: &str,
        new_starting_hash_key: Option<u128>,
        sequencer: &mut Sequencer,
        now: Timestamp,
    ) -> Result<[ShardId; 2], ServiceError> {
        let (parent, HashKeyRange { start, end }) = self.reshardable(id, now)?;
        let middle = new_starting_hash_key.unwrap_or(start + (end - start) / 2 + 1);
        if middle <= start.saturating_add(1) || middle >= end {
            return Err(ServiceError::invalid_argument(format!(
                "NewStartingHashKey {middle} used in SplitShard() on shard {id} in stream {} under account \
                 {ACCOUNT} is not both greater than one plus the shard's StartingHashKey {start} and less \
                 than the shard's EndingHashKey {end}.",
                self.name
            )));
        }
        let halves = [
            HashKeyRange {
                start,
                end: middle - 1,
            },
            HashKeyRange { start: middle, end },
        ];
        Ok(self.divide_shard(parent, halves, sequencer, now))
    }

    fn divide_shard(
        &mut self,
        parent: ShardId,
        halves: [HashKeyRange; 2],
        sequencer: &mut Sequencer,
        now: Timestamp,
    ) -> [ShardId; 2] {
        let ending = sequencer.next(now, parent.0);
        let children =
            halves.map(|half| self.open_shard(Origin::Split { parent }, half, sequencer, now));
        self.shards[parent.0].close(ending, children.to_vec(), now);
        children
    }

    /// Merges two adjacent shards (MergeShards).
    pub(crate) fn merge(
        &mut self,
        id: &str,
        adjacent: &str,
        sequencer: &mut Sequencer,
        now: Timestamp,
    ) -> Result<ShardId, ServiceError> {
        let (parent, keys) = self.reshardable(id, now)?;
        let (adjacent_parent, adjacent_keys) = self.reshardable(adjacent, now)?;
        let touch = keys.end.checked_add(1) == Some(adjacent_keys.start)
            || adjacent_keys.end.checked_add(1) == Some(keys.start);
        if !touch {
            return Err(ServiceError::invalid_argument(format!(
                "Shards {id} and {adjacent} in stream {} under account {ACCOUNT} are not an adjacent pair of \
                 shards eligible for merging",
                self.name
            )));
        }
        Ok(self.join_shards(parent, adjacent_parent, sequencer, now))
    }

    fn join_shards(
        &mut self,
        parent: ShardId,
        adjacent_parent: ShardId,
        sequencer: &mut Sequencer,
        now: Timestamp,
    ) -> ShardId {
        let [keys, adjacent_keys] = [parent, adjacent_parent].map(|id| self.shards[id.0].hash_keys);
        let merged = HashKeyRange {
            start: keys.start.min(adjacent_keys.start),
            end: keys.end.max(adjacent_keys.end),
        };
        let endings = [parent, adjacent_parent].map(|id| (id, sequencer.next(now, id.0)));
        self.open.remove(&keys.start.max(adjacent_keys.start));
        let child = self.open_shard(
            Origin::Merge {
                parent,
                adjacent_parent,
            },
            merged,
            sequencer,
            now,
        );
        for (id, ending) in endings {
            self.shards[id.0].close(ending, vec![child], now);
        }
        child
    }

    /// Splits and merges until there are `count` shards of one size (UpdateShardCount). Like the service's,
    /// it may leave short-lived shards behind.
    pub(crate) fn scale(&mut self, count: usize, sequencer: &mut Sequencer, now: Timestamp) {
        let targets = hash_key::divide(count);
        for target in &targets {
            let owner = self.owner_of(target.start);
            let HashKeyRange { start, end } = self.shards[owner.0].hash_keys;
            if start < target.start {
                let halves = [
                    HashKeyRange {
                        start,
                        end: target.start - 1,
                    },
                    HashKeyRange {
                        start: target.start,
                        end,
                    },
                ];
                self.divide_shard(owner, halves, sequencer, now);
            }
        }
        for target in &targets {
            let first = self.owner_of(target.start);
            let mut merged = (first, self.shards[first.0].hash_keys.end);
            while merged.1 < target.end {
                let next = self.owner_of(merged.1 + 1);
                let child = self.join_shards(merged.0, next, sequencer, now);
                merged = (child, self.shards[child.0].hash_keys.end);
            }
        }
    }
}
