//! Who handled what: counted from outside the service, record by record.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kinesis_broker::prelude::*;
use rstream::Delivery;
use rstream::broker::Verdict;

/// A record, as the service names it.
type Record = (String, String);

/// Counts what is put and what is handled. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    put: BTreeSet<Record>,
    handled: BTreeMap<Record, u64>,
    instances: BTreeMap<String, (BTreeSet<String>, u64)>,
}

impl Counts {
    fn outstanding(&self) -> usize {
        let is_outstanding = |record: &&Record| !self.handled.contains_key(*record);
        self.put.iter().filter(is_outstanding).count()
    }
}

impl Tally {
    /// Counts what an instance of the service handles.
    pub fn watch(&self, service: RustStream) -> RustStream {
        let tally = self.clone();
        service.on_delivery(move |delivery| tally.delivered(delivery))
    }

    /// Names an instance, so that the report has it even where it handles nothing.
    pub fn name(&self, instance: &str) {
        self.counts()
            .instances
            .entry(instance.to_owned())
            .or_default();
    }

    /// Counts a record that was put.
    pub fn put(&self, shard: &str, sequence_number: &str) {
        let record = (shard.to_owned(), sequence_number.to_owned());
        self.counts().put.insert(record);
    }

    /// How many records were put.
    pub fn count_put(&self) -> usize {
        self.counts().put.len()
    }

    /// How many of the records that were put are not handled yet.
    pub fn outstanding(&self) -> usize {
        self.counts().outstanding()
    }

    /// Shards of which this instance has handled records.
    pub fn shards_of(&self, instance: &str) -> usize {
        let counts = self.counts();
        counts
            .instances
            .get(instance)
            .map_or(0, |(shards, _)| shards.len())
    }

    /// Everything so far.
    pub fn report(&self) -> Report {
        let counts = self.counts();
        let instances = counts.instances.iter();
        Report {
            instances: instances
                .map(|(name, (shards, handled))| (name.clone(), shards.clone(), *handled))
                .collect(),
            put: counts.put.len(),
            handled: counts.handled.len(),
            handled_twice: counts.handled.values().filter(|times| **times > 1).count(),
            lost: counts.outstanding(),
        }
    }

    fn delivered(&self, delivery: &Delivery<'_>) {
        let (Some(info), Verdict::Outcome(outcome)) =
            (delivery.get::<RecordInfo>(), delivery.verdict())
        else {
            return;
        };
        if *outcome != HandlerOutcome::ack() {
            return;
        }
        let record = (info.shard.clone(), info.sequence_number.clone());
        let mut counts = self.counts();
        *counts.handled.entry(record).or_default() += 1;
        let (shards, handled) = counts
            .instances
            .entry(info.holder.owner.clone())
            .or_default();
        if !shards.contains(&info.shard) {
            shards.insert(info.shard.clone());
        }
        *handled += 1;
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A finished count; its text is a table.
#[derive(Clone, Debug)]
pub struct Report {
    instances: Vec<(String, BTreeSet<String>, u64)>,
    put: usize,
    handled: usize,
    handled_twice: usize,
    lost: usize,
}

impl Report {
    /// Records that were put.
    pub fn put(&self) -> usize {
        self.put
    }

    /// Different records that were handled.
    pub fn handled(&self) -> usize {
        self.handled
    }

    /// Records that were handled more than once.
    pub fn handled_twice(&self) -> usize {
        self.handled_twice
    }

    /// Records that were put and not handled.
    pub fn lost(&self) -> usize {
        self.lost
    }

    /// How many instances handled something.
    pub fn instances(&self) -> usize {
        let handled = self.instances.iter().filter(|(.., handled)| *handled > 0);
        handled.count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |shard: &String| {
            let number = shard.trim_start_matches("shardId-").trim_start_matches('0');
            if number.is_empty() {
                "0".to_owned()
            } else {
                number.to_owned()
            }
        };
        let rows: Vec<_> = self
            .instances
            .iter()
            .map(|(name, shards, handled)| {
                let shards: Vec<_> = shards.iter().map(short).collect();
                (name, shards.join(", "), handled)
            })
            .collect();
        let names = rows.iter().map(|(name, ..)| name.len());
        let name_width = names.chain(["instance".len()]).max().unwrap_or(0);
        let lists = rows.iter().map(|(_, shards, _)| shards.len());
        let list_width = lists.chain(["shards".len()]).max().unwrap_or(0);

        writeln!(
            f,
            "{:name_width$}  {:list_width$}  records handled",
            "instance", "shards"
        )?;
        for (name, shards, handled) in rows {
            writeln!(f, "{name:name_width$}  {shards:list_width$}  {handled:15}")?;
        }
        write!(
            f,
            "\nput {}, handled {}, handled twice {}, lost {}",
            self.put, self.handled, self.handled_twice, self.lost
        )
    }
}
