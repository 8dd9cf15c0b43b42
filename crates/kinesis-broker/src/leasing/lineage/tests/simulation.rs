//! Random reshardings, read by instances that list, acquire, ask again, read, checkpoint and die at
//! any moment, by what the lineage says.
//!
//! One tick passes with every step, so that each record and each decision has a moment of its own.
//! Listing the shards and reading the states are steps of their own too, as are all that a reader
//! does: any other instance's step may come between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lease_core::{Checkpoint, Holder, LeaseState};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

use super::super::{History, Lineage, Position, ShardInfo, Standing, Start};

const KEYS: u64 = 16;
const INSTANCES: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Put {
        key: u64,
    },
    Split {
        which: usize,
    },
    Merge {
        which: usize,
    },
    /// The oldest records, and the closed shards that have none left, pass out of retention.
    Expire {
        which: usize,
    },
    List {
        instance: usize,
    },
    ReadStates {
        instance: usize,
    },
    Acquire {
        instance: usize,
        which: usize,
    },
    Advance {
        instance: usize,
        which: usize,
    },
    Crash {
        instance: usize,
    },
}

fn steps() -> impl Strategy<Value = Step> {
    let instance = || 0..INSTANCES;
    let which = any::<usize>;
    prop_oneof![
        8 => (0..KEYS).prop_map(|key| Step::Put { key }),
        1 => which().prop_map(|which| Step::Split { which }),
        1 => which().prop_map(|which| Step::Merge { which }),
        1 => which().prop_map(|which| Step::Expire { which }),
        3 => instance().prop_map(|instance| Step::List { instance }),
        3 => instance().prop_map(|instance| Step::ReadStates { instance }),
        6 => (instance(), which()).prop_map(|(instance, which)| Step::Acquire { instance, which }),
        20 => (instance(), which()).prop_map(|(instance, which)| Step::Advance { instance, which }),
        1 => instance().prop_map(|instance| Step::Crash { instance }),
    ]
}

#[derive(Debug)]
struct Record {
    key: u64,
    at: u64,
}

/// A shard as the service has it.
#[derive(Debug)]
struct Shard {
    parents: Vec<usize>,
    ancestors: BTreeSet<usize>,
    keys: std::ops::Range<u64>,
    started: u64,
    closed: Option<u64>,
    is_listed: bool,
    records: Vec<Record>,
    /// How many of the records have passed out of retention.
    expired: usize,
    /// When the group first opened it, and had checkpointed the moment if that was at the tip.
    opened: Option<u64>,
}

#[derive(Debug)]
struct Reader {
    shard: usize,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Acquired,
    /// Opened at the tip, at this record and this moment, which is not checkpointed yet.
    AtTip(usize, u64),
    /// The next record to hand over.
    Reading(usize),
    /// This record is handled, but not checkpointed.
    Handled(usize),
}

#[derive(Debug, Default)]
struct Instance {
    history: History,
    /// A listing whose states are yet to be read.
    listed: bool,
    lineage: Option<Lineage>,
    /// When the lineage's listing was taken.
    lineage_of: u64,
    listed_at: u64,
    readers: Vec<Reader>,
}

#[derive(Debug)]
struct World {
    start: Start,
    /// Whether listings say which shards closed before a start at a timestamp.
    knows_ended: bool,
    now: u64,
    first_listing: Option<u64>,
    shards: Vec<Shard>,
    rows: BTreeMap<Arc<str>, LeaseState>,
    instances: Vec<Instance>,
    /// The records handed over so far, as shard and place.
    handled: BTreeSet<(usize, usize)>,
    /// The shards that they are of.
    touched: BTreeSet<usize>,
    /// The last record of each key that was handed over for the first time.
    latest: BTreeMap<u64, u64>,
}

fn id(shard: usize) -> Arc<str> {
    format!("shardId-{shard:012}").into()
}

fn moment(tick: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(tick)
}

/// Sequence numbers grow by a digit now and then, as decimal numbers of any length may.
fn sequence_number(tick: u64) -> String {
    (tick * 97 + 1).to_string()
}

impl World {
    fn new(start: Start, knows_ended: bool) -> Self {
        let mut world = Self {
            start,
            knows_ended,
            now: 1,
            first_listing: None,
            shards: Vec::new(),
            rows: BTreeMap::new(),
            instances: Vec::new(),
            handled: BTreeSet::new(),
            touched: BTreeSet::new(),
            latest: BTreeMap::new(),
        };
        world.create(Vec::new(), 0..KEYS / 2);
        world.create(Vec::new(), KEYS / 2..KEYS);
        world.instances.resize_with(INSTANCES, Instance::default);
        world
    }

    fn take(&mut self, step: Step) {
        self.now += 1;
        match step {
            Step::Put { key } => self.put(key),
            Step::Split { which } => self.split(which),
            Step::Merge { which } => self.merge(which),
            Step::Expire { which } => self.expire(which),
            Step::List { instance } => self.list(instance),
            Step::ReadStates { instance } => self.read_states(instance),
            Step::Acquire { instance, which } => self.acquire(instance, which),
            Step::Advance { instance, which } => self.advance(instance, which),
            Step::Crash { instance } => self.crash(instance),
        }
    }

    // The service.

    fn create(&mut self, parents: Vec<usize>, keys: std::ops::Range<u64>) {
        let older = parents.iter().map(|&parent| &self.shards[parent]);
        let older = older.flat_map(|shard| shard.ancestors.iter().chain(&shard.parents));
        let ancestors = older.chain(&parents).copied().collect();
        self.shards.push(Shard {
            parents,
            ancestors,
            keys,
            started: self.now,
            closed: None,
            is_listed: true,
            records: Vec::new(),
            expired: 0,
            opened: None,
        });
    }

    fn open_shards(&self) -> Vec<usize> {
        let mut open: Vec<usize> = (0..self.shards.len())
            .filter(|&shard| self.shards[shard].closed.is_none())
            .collect();
        open.sort_by_key(|&shard| self.shards[shard].keys.start);
        open
    }

    fn put(&mut self, key: u64) {
        let at = self.now;
        let shard = self
            .shards
            .iter_mut()
            .find(|shard| shard.closed.is_none() && shard.keys.contains(&key));
        shard.unwrap().records.push(Record { key, at });
    }

    fn split(&mut self, which: usize) {
        let open = self.open_shards();
        let parent = open[which % open.len()];
        let keys = self.shards[parent].keys.clone();
        let middle = (keys.start + keys.end) / 2;
        if middle > keys.start {
            self.shards[parent].closed = Some(self.now);
            self.now += 1;
            self.create(vec![parent], keys.start..middle);
            self.create(vec![parent], middle..keys.end);
        }
    }

    fn merge(&mut self, which: usize) {
        let open = self.open_shards();
        if open.len() < 2 {
            return;
        }
        let left = which % (open.len() - 1);
        let (left, right) = (open[left], open[left + 1]);
        self.shards[left].closed = Some(self.now);
        self.shards[right].closed = Some(self.now);
        self.now += 1;
        let keys = self.shards[left].keys.start..self.shards[right].keys.end;
        self.create(vec![left, right], keys);
    }

    fn expire(&mut self, which: usize) {
        let horizon = self.now - (which as u64 % 64).min(self.now);
        for shard in 0..self.shards.len() {
            let records = &self.shards[shard].records;
            let expired = records
                .iter()
                .take_while(|record| record.at < horizon)
                .count();
            self.shards[shard].expired = expired.max(self.shards[shard].expired);
            // What went wholly unseen between two generations is lost by the rules themselves.
            let is_seen = self.row(shard).epoch > 0 || self.bound_from(shard).is_none();
            if is_seen && self.shards[shard].closed.is_some_and(|at| at < horizon) {
                self.shards[shard].is_listed = false;
            }
        }
    }

    /// From when on a group that starts at the tip has to read the shard: since it opened it, and
    /// from the beginning where it had opened an ancestor before that one closed.
    fn bound_from(&self, shard: usize) -> Option<u64> {
        let mut ancestors = self.shards[shard].ancestors.iter();
        let is_inherited = ancestors.any(|&ancestor| {
            let ancestor = &self.shards[ancestor];
            ancestor.opened.is_some() && ancestor.opened <= ancestor.closed
        });
        if is_inherited {
            Some(0)
        } else {
            self.shards[shard].opened
        }
    }

    fn descends_from(&self, shard: usize, ancestor: usize) -> bool {
        self.shards[shard].ancestors.contains(&ancestor)
    }

    fn listing(&self) -> Vec<ShardInfo> {
        let listed = (0..self.shards.len()).filter(|&shard| self.shards[shard].is_listed);
        listed
            .map(|place| {
                let shard = &self.shards[place];
                let ended = |at| shard.closed.is_some_and(|closed| moment(closed) < at);
                ShardInfo {
                    id: id(place),
                    parent: shard.parents.first().map(|&parent| id(parent)),
                    adjacent_parent: shard.parents.get(1).map(|&parent| id(parent)),
                    hash_keys: None,
                    starting_sequence_number: sequence_number(shard.started),
                    ending_sequence_number: shard.closed.map(sequence_number),
                    ended_before_start: match self.start {
                        Start::AtTimestamp(at) => self.knows_ended && ended(at),
                        Start::Latest | Start::TrimHorizon => false,
                    },
                }
            })
            .collect()
    }

    // The store.

    fn row(&self, shard: usize) -> LeaseState {
        self.rows.get(&id(shard)).cloned().unwrap_or_default()
    }

    fn row_mut(&mut self, shard: usize) -> &mut LeaseState {
        self.rows.entry(id(shard)).or_default()
    }

    // The instances.

    fn list(&mut self, instance: usize) {
        self.first_listing.get_or_insert(self.now);
        let listing = self.listing();
        let instance = &mut self.instances[instance];
        instance.history.list(listing);
        instance.listed = true;
        instance.listed_at = self.now;
    }

    fn read_states(&mut self, instance: usize) {
        let never_leased = LeaseState::default();
        let instance = &mut self.instances[instance];
        if !std::mem::take(&mut instance.listed) {
            return;
        }
        let needed: BTreeSet<Arc<str>> = instance.history.shards_to_read().cloned().collect();
        let rows = &self.rows;
        let lookup = |shard: &str| {
            assert!(needed.contains(shard), "{shard} was not read");
            Some(rows.get(shard).unwrap_or(&never_leased))
        };
        instance.lineage = Some(instance.history.lineage(self.start, lookup));
        instance.lineage_of = instance.listed_at;
        for shard in instance.history.forgettable(lookup) {
            self.rows.remove(&shard);
        }
    }

    fn readable(&self, instance: usize) -> Vec<usize> {
        let never_leased = LeaseState::default();
        let lookup = |shard: &str| Some(self.rows.get(shard).unwrap_or(&never_leased));
        let Some(lineage) = &self.instances[instance].lineage else {
            return Vec::new();
        };
        lineage
            .standings(lookup)
            .filter(|(_, standing)| matches!(standing, Standing::Readable { .. }))
            .map(|(shard, _)| shard.id["shardId-".len()..].parse().unwrap())
            .filter(|&shard| !self.row(shard).live)
            .collect()
    }

    fn acquire(&mut self, instance: usize, which: usize) {
        let readable = self.readable(instance);
        if readable.is_empty() {
            return;
        }
        let shard = readable[which % readable.len()];
        // Nobody acts on a listing so old that the shard has grandchildren by now.
        let listed_at = self.instances[instance].lineage_of;
        let is_too_old = self.shards.iter().enumerate().any(|(other, child)| {
            child.closed.is_some_and(|closed| closed > listed_at)
                && self.descends_from(other, shard)
        });
        if is_too_old {
            return;
        }
        let row = self.row_mut(shard);
        row.epoch += 1;
        row.live = true;
        row.holder = Some(Holder {
            owner: format!("{instance}"),
            epoch: row.epoch,
        });
        let phase = Phase::Acquired;
        self.instances[instance]
            .readers
            .push(Reader { shard, phase });
    }

    fn release(&mut self, shard: usize) {
        let row = self.row_mut(shard);
        row.live = false;
        row.holder = None;
    }

    fn crash(&mut self, instance: usize) {
        for reader in std::mem::take(&mut self.instances[instance]).readers {
            self.row_mut(reader.shard).live = false;
        }
    }

    fn advance(&mut self, instance: usize, which: usize) {
        let readers = self.instances[instance].readers.len();
        if readers == 0 {
            return;
        }
        let reader = self.instances[instance]
            .readers
            .swap_remove(which % readers);
        let shard = reader.shard;
        match self.next_phase(instance, reader) {
            Some(phase) => self.instances[instance]
                .readers
                .push(Reader { shard, phase }),
            None => self.release(shard),
        }
    }

    fn next_phase(&mut self, instance: usize, Reader { shard, phase }: Reader) -> Option<Phase> {
        if !self.shards[shard].is_listed {
            return None;
        }
        match phase {
            Phase::Acquired => self.open(instance, shard),
            Phase::AtTip(place, at) => {
                self.row_mut(shard).checkpoint = Some(Checkpoint::at_timestamp(moment(at)));
                self.shards[shard].opened.get_or_insert(at);
                Some(Phase::Reading(place))
            }
            Phase::Reading(place) => {
                let place = place.max(self.shards[shard].expired);
                if place < self.shards[shard].records.len() {
                    self.hand_over(shard, place);
                    Some(Phase::Handled(place))
                } else if self.shards[shard].closed.is_some() {
                    self.row_mut(shard).checkpoint = Some(Checkpoint::shard_end());
                    None
                } else {
                    Some(Phase::Reading(place))
                }
            }
            Phase::Handled(place) => {
                let at = self.shards[shard].records[place].at;
                self.row_mut(shard).checkpoint = Some(Checkpoint::at(sequence_number(at)));
                Some(Phase::Reading(place + 1))
            }
        }
    }

    /// What a reader does that has just acquired a shard: asks again, and opens.
    fn open(&mut self, instance: usize, shard: usize) -> Option<Phase> {
        let parents = self.shards[shard].parents.iter();
        let fresh: BTreeMap<Arc<str>, LeaseState> = parents
            .chain([&shard])
            .map(|&shard| (id(shard), self.row(shard)))
            .collect();
        let lineage = self.instances[instance].lineage.as_ref().unwrap();
        let standing = lineage.standing(&id(shard), |shard| fresh.get(shard))?;
        let Standing::Readable { open_at, warnings } = standing else {
            return None;
        };
        let is_foreign = |warning| matches!(warning, &super::super::Warning::EarlierStream(_));
        assert!(!warnings.iter().any(is_foreign), "{warnings:?}");
        let records = &self.shards[shard].records;
        let first_at = |at| {
            records
                .iter()
                .take_while(|record| moment(record.at) < at)
                .count()
        };
        let place = match open_at {
            Position::Latest => return Some(Phase::AtTip(records.len(), self.now)),
            Position::TrimHorizon => 0,
            Position::AtTimestamp(at) => first_at(at),
            Position::After(checkpoint) => {
                let is_before = |record: &&Record| {
                    Some(sequence_number(record.at).as_str()) != checkpoint.sequence()
                };
                records.iter().take_while(is_before).count() + 1
            }
        };
        self.shards[shard].opened.get_or_insert(self.now);
        Some(Phase::Reading(place))
    }

    fn hand_over(&mut self, shard: usize, place: usize) {
        let record = &self.shards[shard].records[place];
        match self.start {
            Start::Latest => assert!(Some(record.at) > self.first_listing, "{record:?} is old"),
            Start::AtTimestamp(at) if self.knows_ended => {
                assert!(moment(record.at) >= at, "{record:?} is old");
            }
            Start::AtTimestamp(_) | Start::TrimHorizon => {}
        }
        self.touched.insert(shard);
        for &other in &self.touched {
            let is_late = self.descends_from(other, shard);
            assert!(!is_late, "{shard} is read after its descendant {other}");
        }
        if self.handled.insert((shard, place)) {
            let latest = self.latest.insert(record.key, record.at);
            assert!(
                latest < Some(record.at),
                "{record:?} comes after {latest:?}"
            );
        }
    }

    // The end.

    /// Everybody dies; then one instance reads all that is left, and nothing may be in its way.
    fn read_the_rest(&mut self) {
        for instance in 0..INSTANCES {
            self.crash(instance);
        }
        // Each round reads one shard at least.
        for _ in 0..=self.shards.len() {
            self.take(Step::List { instance: 0 });
            self.take(Step::ReadStates { instance: 0 });
            if self.readable(0).is_empty() {
                return;
            }
            while !self.readable(0).is_empty() {
                let which = self.now as usize;
                self.take(Step::Acquire { instance: 0, which });
            }
            let busy = |world: &Self| {
                let mut readers = world.instances[0].readers.iter();
                readers.position(|reader| !world.is_idle(reader))
            };
            while let Some(which) = busy(self) {
                self.take(Step::Advance { instance: 0, which });
            }
        }
        panic!("shards are opened again and again: {self:#?}");
    }

    fn is_idle(&self, reader: &Reader) -> bool {
        let shard = &self.shards[reader.shard];
        let is_at_tip = matches!(reader.phase, Phase::Reading(next) if next >= shard.records.len());
        is_at_tip && shard.closed.is_none() && shard.is_listed
    }

    fn check_that_all_is_read(&self) {
        for (shard, info) in self.shards.iter().enumerate() {
            if info.is_listed && info.closed.is_none() {
                assert!(
                    self.row(shard).live,
                    "{shard} is not read: {}",
                    self.story(shard)
                );
            }
            let bound_from = match self.start {
                Start::Latest => self.bound_from(shard),
                Start::TrimHorizon => Some(0),
                Start::AtTimestamp(at) => Some(at.duration_since(UNIX_EPOCH).unwrap().as_secs()),
            };
            for (place, record) in info.records.iter().enumerate().skip(info.expired) {
                let is_due = info.is_listed && bound_from.is_some_and(|from| record.at >= from);
                let is_handled = self.handled.contains(&(shard, place));
                assert!(
                    is_handled || !is_due,
                    "lost {record:?}: {}",
                    self.story(shard)
                );
            }
        }
    }

    /// The shard, its ancestors and their rows, for a person to read.
    fn story(&self, shard: usize) -> String {
        let about = &self.shards[shard];
        let mut story = format!("shard {shard}: {about:?}, {:?}\n", self.row(shard));
        for &parent in &about.parents {
            story += &self.story(parent);
        }
        story
    }
}

proptest! {
    #[test]
    fn every_record_from_the_start_on_is_read_in_order_across_generations(
        start in prop_oneof![
            3 => Just(Start::Latest),
            1 => Just(Start::TrimHorizon),
            1 => (0..60_u64).prop_map(|at| Start::AtTimestamp(moment(at))),
        ],
        knows_ended in any::<bool>(),
        past in vec(steps(), 0..60),
        history in vec(steps(), 0..400),
    ) {
        let mut world = World::new(start, knows_ended);
        for step in past {
            // What happened before the group's first instance started.
            if matches!(step, Step::Put { .. } | Step::Split { .. } | Step::Merge { .. }) {
                world.take(step);
            }
        }
        world.now = world.now.max(60);
        for step in history {
            world.take(step);
        }
        world.read_the_rest();
        world.check_that_all_is_read();
    }
}
