//! What was read of a shard and not handed over yet: how much of it there may be, and each record in its turn.
//!
//! The next read is made while the handler works on the last one. What that may hold is bounded: by records and
//! bytes for each shard, and by bytes for all shards of a subscription together.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::vec;

use aws_sdk_kinesis::types::Record;
use lease_core::Checkpoint;

use crate::leasing::lineage::HashKeyRange;
use crate::reading::aggregate::{self, UserRecords};
use crate::reading::record::{Item, size};
use crate::sabotage::{self, Sabotage};

/// Records that a read may bring where all shards together hold as much as they may, so that none of them starves.
const FEW: i32 = 100;

/// How much is read ahead of the handler.
///
/// A read is begun while what its shard holds is below both its limits and what all shards of the subscription on
/// this instance hold is below theirs; it brings up to 10 MB and 10,000 records ([GetRecords]) past that. A shard of
/// which nothing is held is read whatever the others hold, by then with a `Limit` of 100 records, so that one shard with a slow handler
/// never keeps another waiting.
///
/// A batch that gathers is held too. Where what is held leaves no room to read on, it is handed over as it is, before it
/// is full and before it has waited for as long as it may.
///
/// ```
/// use kinesis_broker::{KinesisStream, Prefetch};
///
/// let inventory = KinesisStream::new("inventory")
///     .prefetch(Prefetch::default().records(2_000).total_bytes(64 * 1024 * 1024));
/// ```
///
/// [GetRecords]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it is given to a stream"]
pub struct Prefetch {
    records: usize,
    bytes: usize,
    total_bytes: usize,
}

impl Prefetch {
    /// Nothing is read ahead: a shard is read once all that was read of it before is in a handler.
    pub const fn none() -> Self {
        Self {
            records: 0,
            bytes: 0,
            total_bytes: 0,
        }
    }

    /// Records of one shard below which it is read ahead; 10,000 unless it is set.
    pub const fn records(mut self, records: usize) -> Self {
        self.records = records;
        self
    }

    /// Bytes of one shard, partition keys included, below which it is read ahead; 4 MiB unless it is set.
    pub const fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Bytes of all shards of the subscription on this instance below which any is read ahead; 256 MiB unless it is
    /// set.
    pub const fn total_bytes(mut self, bytes: usize) -> Self {
        self.total_bytes = bytes;
        self
    }
}

impl Default for Prefetch {
    fn default() -> Self {
        Self {
            records: 10_000,
            bytes: 4 * 1024 * 1024,
            total_bytes: 256 * 1024 * 1024,
        }
    }
}

/// What a subscription may hold, and what its shards hold of it. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limits: Prefetch,
    held: Arc<AtomicUsize>,
}

impl Budget {
    pub(crate) fn new(limits: Prefetch) -> Self {
        Self {
            limits,
            held: Arc::default(),
        }
    }

    /// The bytes that all shards hold.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// How many records the next read is to bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appetite {
    /// As many as the service gives.
    Any,
    /// At most so many.
    Few(i32),
}

/// What is held of one shard.
#[derive(Debug)]
pub(crate) struct Feed {
    budget: Budget,
    shard: Shard,
    batches: VecDeque<Batch>,
    /// The record that is being taken apart, and what is left of it.
    opened: Option<(Item, Peekable<UserRecords>)>,
    /// The checkpoint that the shard was opened at, where it lies inside an aggregated record.
    inside: Option<Checkpoint>,
    /// Whether it was said that records of other shards are passed over.
    has_skipped: bool,
    /// Records that were fetched, and are neither handed over nor forgotten.
    records: usize,
    bytes: usize,
}

/// What some of the records that were popped count for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    records: usize,
    bytes: usize,
}

impl Held {
    /// These and one more.
    pub(crate) fn with(self, item: &Item) -> Self {
        match item.frees {
            Some(bytes) => Self {
                records: self.records + 1,
                bytes: self.bytes + bytes,
            },
            None => self,
        }
    }
}

/// Which shard it is.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) stream: Arc<str>,
    pub(crate) id: Arc<str>,
    /// What it owns; `None` where the service did not say, and every record is taken for its own.
    pub(crate) hash_keys: Option<HashKeyRange>,
}

#[derive(Debug)]
struct Batch {
    records: vec::IntoIter<Record>,
    millis_behind: u64,
}

impl Feed {
    /// Nothing yet, of a shard that is opened at this checkpoint.
    pub(crate) fn new(budget: Budget, shard: Shard, opened_at: Option<&Checkpoint>) -> Self {
        let inside = opened_at.filter(|at| at.sub_sequence().is_some());
        Self {
            budget,
            shard,
            batches: VecDeque::new(),
            opened: None,
            inside: inside.cloned(),
            has_skipped: false,
            records: 0,
            bytes: 0,
        }
    }

    pub(crate) fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Whether, and how far, to read on; `None` while enough is held.
    pub(crate) fn appetite(&self) -> Option<Appetite> {
        let Budget { limits, held } = &self.budget;
        let has_room_for_all = held.load(Ordering::Relaxed) < limits.total_bytes;
        if self.records == 0 || sabotage::is(Sabotage::ReadsWithoutEnd) {
            // Without reading ahead nothing is left over to wait for.
            let is_unbounded = has_room_for_all || limits.total_bytes == 0;
            return Some(if is_unbounded {
                Appetite::Any
            } else {
                Appetite::Few(FEW)
            });
        }
        let has_room = self.records < limits.records && self.bytes < limits.bytes;
        (has_room && has_room_for_all).then_some(Appetite::Any)
    }

    /// Takes in what a read brought.
    pub(crate) fn push(&mut self, records: Vec<Record>, millis_behind: u64) {
        self.records += records.len();
        let bytes = records.iter().map(size).sum();
        self.bytes += bytes;
        self.budget.held.fetch_add(bytes, Ordering::Relaxed);
        self.batches.push_back(Batch {
            records: records.into_iter(),
            millis_behind,
        });
    }

    /// The next record of the shard, out of an aggregated one too, and the checkpoint of a shard that was read up to it.
    /// It counts as held until it is [let go](Self::let_go).
    pub(crate) fn pop(&mut self) -> Option<(Item, Checkpoint)> {
        loop {
            if let Some((record, parts)) = &mut self.opened {
                if let Some(part) = parts.next() {
                    return Some(record.part(part));
                }
                self.opened = None;
            }
            let batch = self.batches.front_mut()?;
            let Some(record) = batch.records.next() else {
                self.batches.pop_front();
                continue;
            };
            let is_whole = self.inside.is_none() && !aggregate::may_be(record.data.as_ref());
            let record = Item::of(record, batch.millis_behind);
            let whole = if is_whole {
                Some(record)
            } else {
                self.take_apart(record)
            };
            if let Some(whole) = whole {
                let position = whole.position();
                return Some((whole, position));
            }
        }
    }

    /// Opens an aggregated record; gives back any other.
    fn take_apart(&mut self, record: Item) -> Option<Item> {
        let inside = self.inside.take();
        let Shard {
            stream,
            id,
            hash_keys,
        } = &self.shard;
        let aggregate = match aggregate::unpack(record.payload(), *hash_keys) {
            Ok(Some(aggregate)) => aggregate,
            Ok(None) => return Some(record),
            Err(damage) => {
                tracing::warn!(
                    stream = &**stream,
                    shard = &**id,
                    sequence_number = record.sequence_number(),
                    %damage,
                    "a record begins like an aggregated one and is none; it is handed over as it is"
                );
                return Some(record);
            }
        };
        let skipped = aggregate.skipped();
        if skipped > 0 {
            let labels = [("stream", stream.to_string())];
            metrics::counter!("kinesis_records_skipped_total", &labels).increment(skipped);
            if !std::mem::replace(&mut self.has_skipped, true) {
                tracing::warn!(
                    stream = &**stream,
                    shard = &**id,
                    sequence_number = record.sequence_number(),
                    skipped,
                    "an aggregated record has records of other shards; they are passed over, and a producer library \
                     that sees where its records land sends them again (said once for each shard)"
                );
            }
        }
        let inside = inside.filter(|inside| inside.sequence() == Some(record.sequence_number()));
        let after = inside.and_then(|inside| inside.sub_sequence());
        let number: Arc<str> = record.sequence_number().into();
        let mut parts = aggregate.user_records(number, after).peekable();
        match parts.peek() {
            Some(_) => self.opened = Some((record, parts)),
            // Whoever settles the next record settles this one.
            None => self.let_go(&record),
        }
        None
    }

    /// Notes that a record is in a handler.
    pub(crate) fn let_go(&mut self, item: &Item) {
        self.let_go_of(Held::default().with(item));
    }

    /// Notes that several records are in a handler.
    pub(crate) fn let_go_of(&mut self, held: Held) {
        self.records -= held.records;
        self.bytes -= held.bytes;
        self.budget.held.fetch_sub(held.bytes, Ordering::Relaxed);
    }

    /// Whether nothing is held: neither here nor by whoever popped it and has not let go of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Forgets everything, what was popped and is not let go too.
    pub(crate) fn clear(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
        self.records = 0;
        self.batches.clear();
        self.opened = None;
        self.inside = None;
    }

    /// The last record that was fetched.
    #[cfg(any(test, feature = "sabotage"))]
    pub(crate) fn newest(&self) -> Option<&str> {
        let batch = self.batches.back()?;
        Some(&batch.records.as_slice().last()?.sequence_number)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_kinesis::primitives::Blob;

    use super::*;

    fn records(sizes: &[usize]) -> Vec<Record> {
        let record = |(number, size): (usize, &usize)| {
            Record::builder()
                .sequence_number(number.to_string())
                .partition_key("k")
                .data(Blob::new(vec![0; size - 1]))
                .build()
                .unwrap()
        };
        sizes.iter().enumerate().map(record).collect()
    }

    fn feed(budget: Budget) -> Feed {
        let shard = Shard {
            stream: "inventory".into(),
            id: "shardId-000000000000".into(),
            hash_keys: None,
        };
        Feed::new(budget, shard, None)
    }

    fn handed_over(feed: &mut Feed, count: usize) {
        for _ in 0..count {
            let (item, _) = feed.pop().unwrap();
            feed.let_go(&item);
        }
    }

    #[test]
    fn a_shard_is_read_ahead_until_one_of_its_limits_is_reached() {
        let limits = Prefetch::default().records(3).bytes(100);
        let mut feed = feed(Budget::new(limits));
        assert_eq!(feed.appetite(), Some(Appetite::Any));
        feed.push(records(&[10, 10]), 0);
        assert_eq!(feed.appetite(), Some(Appetite::Any));
        feed.push(records(&[10]), 0);
        assert_eq!(feed.appetite(), None, "three records");
        handed_over(&mut feed, 1);
        assert_eq!(feed.appetite(), Some(Appetite::Any));
        feed.push(records(&[80]), 0);
        assert_eq!(feed.appetite(), None, "a hundred bytes");
        handed_over(&mut feed, 3);
        assert_eq!(feed.appetite(), Some(Appetite::Any));
        assert!(feed.is_empty());
    }

    #[test]
    fn a_record_that_waits_for_a_lane_still_counts() {
        let mut feed = feed(Budget::new(Prefetch::default().records(1)));
        feed.push(records(&[10]), 0);
        let (parked, _) = feed.pop().unwrap();
        assert_eq!(feed.appetite(), None);
        assert!(!feed.is_empty());
        feed.let_go(&parked);
        assert!(feed.is_empty());
    }

    #[test]
    fn the_shards_of_a_subscription_hold_no_more_together_than_they_may_and_none_starves() {
        let budget = Budget::new(Prefetch::default().total_bytes(50));
        let mut slow = feed(budget.clone());
        let mut other = feed(budget.clone());
        slow.push(records(&[30, 30]), 0);
        assert_eq!(slow.appetite(), None);
        assert_eq!(other.appetite(), Some(Appetite::Few(FEW)), "holds nothing");
        other.push(records(&[10]), 0);
        assert_eq!(other.appetite(), None);
        drop(slow);
        assert_eq!(budget.held(), 10, "what is dropped is given back");
        assert_eq!(other.appetite(), Some(Appetite::Any));
    }

    #[test]
    fn without_reading_ahead_a_shard_is_read_once_nothing_of_it_is_left() {
        let mut feed = feed(Budget::new(Prefetch::none()));
        assert_eq!(feed.appetite(), Some(Appetite::Any));
        feed.push(records(&[10, 10]), 0);
        assert_eq!(feed.appetite(), None);
        handed_over(&mut feed, 1);
        assert_eq!(feed.appetite(), None);
        handed_over(&mut feed, 1);
        assert_eq!(feed.appetite(), Some(Appetite::Any));
    }
}
