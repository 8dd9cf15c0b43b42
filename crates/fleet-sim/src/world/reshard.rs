//! What happens to shards: splits, merges, and retention that passes.

use std::time::Duration;

use lease_core::LeaseKey;

use super::{STREAM, Service};
use crate::history::{Event, Record, Shard};

/// How long the service keeps records while no mishap shortens it.
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// Past so many open shards nothing is split any more.
const MANY: usize = 48;

impl Service {
    /// Splits one of the open shards.
    pub(crate) fn split(&self, which: usize) {
        let mut open = self.kinesis.shards(STREAM);
        // A shard of one hash key cannot be split.
        open.retain(|shard| shard.open && shard.ending_hash_key > shard.starting_hash_key + 1);
        if open.is_empty() || open.len() >= MANY {
            return;
        }
        let parent = &open[which % open.len()].id;
        let children = self.kinesis.split_shard(STREAM, parent);
        self.resharded(&[parent], &children);
    }

    /// Merges one of the open shards with its neighbour.
    pub(crate) fn merge(&self, which: usize) {
        let mut open = self.kinesis.shards(STREAM);
        open.retain(|shard| shard.open);
        open.sort_by_key(|shard| shard.starting_hash_key);
        if open.len() < 2 {
            return;
        }
        let first = which % (open.len() - 1);
        let (one, other) = (&open[first].id, &open[first + 1].id);
        let child = self.kinesis.merge_shards(STREAM, one, other);
        self.resharded(&[one, other], &[child]);
    }

    /// Lets everything older than this pass out of retention.
    pub(crate) fn trim(&self, age: Duration) {
        let before: Vec<_> = self.stored_by_shard();
        self.kinesis.set_retention(STREAM, age);
        // What has passed stays passed.
        self.kinesis.set_retention(STREAM, RETENTION);
        let listed = self.kinesis.shards(STREAM);
        for (key, records) in before {
            let is_listed = listed.iter().any(|shard| shard.id == key.shard());
            let kept = if is_listed {
                self.stored(key.shard())
            } else {
                Vec::new()
            };
            let passed: Vec<_> = records
                .into_iter()
                .filter(|record| !kept.contains(record))
                .collect();
            if passed.is_empty() && is_listed {
                continue;
            }
            self.note(Event::Trimmed {
                key,
                records: passed
                    .iter()
                    .map(|record| record.sequence.clone())
                    .collect(),
                listed: is_listed,
            });
            self.state().trimmed.extend(passed);
        }
    }

    fn stored_by_shard(&self) -> Vec<(LeaseKey, Vec<Record>)> {
        let shards = self.kinesis.shards(STREAM).into_iter();
        shards
            .map(|shard| (LeaseKey::new(STREAM, &shard.id), self.stored(&shard.id)))
            .collect()
    }

    fn resharded(&self, parents: &[&String], children: &[String]) {
        let key = |id: &String| LeaseKey::new(STREAM, id);
        self.note(Event::Resharded {
            parents: parents.iter().map(|id| key(id)).collect(),
            children: children.iter().map(key).collect(),
        });
        self.note_new_shards();
    }

    /// Remembers the shards that are listed, since the service forgets those of which retention leaves nothing.
    pub(super) fn note_new_shards(&self) {
        let listed = self.kinesis.shards(STREAM);
        let mut state = self.state();
        for shard in listed {
            let key = LeaseKey::new(STREAM, &shard.id);
            if state.shards.iter().all(|known| known.key != key) {
                let parents = shard.parent.iter().chain(&shard.adjacent_parent);
                state.shards.push(Shard {
                    key,
                    parents: parents.map(|id| LeaseKey::new(STREAM, id)).collect(),
                    open: true,
                });
            }
        }
    }
}
