//! A history, looked up: every call with its answer, every delivery with its end, every shard with its records.
//!
//! It is built once, in time that grows with the history and not with its square, and the checks share it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use lease_core::LeaseKey;
use rstream::broker::Settlement;

use crate::check::facts::{Call, Fate, Fetch, Handed, Life, Moment, Rest, ShardFacts};
use crate::check::owed;
use crate::check::rows::{Grant, Rows};
use crate::history::{CallId, DeliveryId, Event, History, InstanceId, Sequence};
use crate::plan::{Plan, Start};
use crate::story::short;

/// A history, looked up.
#[derive(Debug)]
pub(super) struct Index<'h> {
    pub(super) plan: &'h Plan,
    pub(super) history: &'h History,
    /// In the order in which they were sent.
    pub(super) calls: Vec<Call<'h>>,
    /// In the order in which they were handed over.
    pub(super) deliveries: Vec<Handed<'h>>,
    /// By the place in the history's list of records.
    pub(super) fates: Vec<Fate>,
    pub(super) shards: Vec<ShardFacts<'h>>,
    pub(super) lives: BTreeMap<InstanceId, Life>,
    /// What the calls made of the rows.
    pub(super) rows: Rows<'h>,
    pub(super) rest: Option<Rest>,
    shard_of: HashMap<&'h LeaseKey, usize>,
}

impl<'h> Index<'h> {
    pub(super) fn new(plan: &'h Plan, history: &'h History) -> Self {
        let mut index = Self {
            plan,
            history,
            calls: Vec::new(),
            deliveries: Vec::new(),
            fates: vec![Fate::default(); history.records.len()],
            shards: Vec::new(),
            lives: BTreeMap::new(),
            rows: Rows::default(),
            rest: None,
            shard_of: HashMap::new(),
        };
        index.take_in_shards();
        index.take_in_events();
        index.rows = Rows::replay(&index.calls, index.shards.len());
        index.attribute();
        index.rest = index.find_rest();
        for (record, is_owed) in owed::of(&index).into_iter().enumerate() {
            index.fates[record].is_owed = is_owed;
        }
        index
    }

    fn take_in_shards(&mut self) {
        for shard in &self.history.shards {
            let place = self.place_of(&shard.key);
            self.shards[place].parents = shard
                .parents
                .iter()
                .map(|parent| self.place_of(parent))
                .collect();
        }
        for (number, record) in self.history.records.iter().enumerate() {
            let place = self.place_of(&record.key);
            self.shards[place].records.push(number);
        }
        for shard in &mut self.shards {
            shard
                .records
                .sort_by_key(|record| &self.history.records[*record].sequence);
        }
    }

    fn place_of(&mut self, key: &'h LeaseKey) -> usize {
        *self.shard_of.entry(key).or_insert_with(|| {
            self.shards.push(ShardFacts {
                key,
                parents: Vec::new(),
                records: Vec::new(),
                deliveries: Vec::new(),
                fetches: Vec::new(),
                calls: Vec::new(),
                closed: None,
                trimmed: None,
            });
            self.shards.len() - 1
        })
    }

    /// The calls, by their ids. They are all known before it is looked at what they did: the clocks of an instance
    /// and of the world round differently, so that a call may seem to take effect just before it was sent.
    fn take_in_calls(&mut self) -> HashMap<CallId, usize> {
        let mut calls = HashMap::new();
        for (place, (at, event)) in self.history.events.iter().enumerate() {
            let Event::Sent {
                call,
                instance,
                ask,
            } = event
            else {
                continue;
            };
            let shard = ask.key().map(|key| self.place_of(key));
            if let Some(shard) = shard {
                self.shards[shard].calls.push(self.calls.len());
            }
            calls.insert(*call, self.calls.len());
            let (sent, took) = (Moment { place, at: *at }, Vec::new());
            let (instance, answered) = (*instance, None);
            self.calls.push(Call {
                instance,
                ask,
                shard,
                sent,
                took,
                answered,
            });
        }
        calls
    }

    fn take_in_events(&mut self) {
        let calls = self.take_in_calls();
        let mut deliveries: HashMap<DeliveryId, usize> = HashMap::new();
        let records = self.history.records.iter().enumerate();
        // A number is given out for one shard alone.
        let numbers: HashMap<&Sequence, usize> = records
            .map(|(number, record)| (&record.sequence, number))
            .collect();
        for (place, (at, event)) in self.history.events.iter().enumerate() {
            let moment = Moment { place, at: *at };
            match event {
                Event::Took { call, answer } => {
                    if let Some(call) = calls.get(call) {
                        self.calls[*call].took.push((moment, answer));
                    }
                }
                Event::Answered { call, answer } => {
                    if let Some(call) = calls.get(call) {
                        self.calls[*call].answered = Some((moment, answer));
                    }
                }
                Event::Handed(delivery) => {
                    let shard = self.place_of(&delivery.key);
                    deliveries.insert(delivery.id, self.deliveries.len());
                    self.shards[shard].deliveries.push(self.deliveries.len());
                    let record = self.record(shard, &delivery.sequence);
                    let (said, grant, at) = (None, None, moment);
                    self.deliveries.push(Handed {
                        delivery,
                        shard,
                        record,
                        at,
                        said,
                        grant,
                    });
                }
                Event::Fetched {
                    instance,
                    sent,
                    records,
                } => {
                    let records = records.iter().filter_map(|record| numbers.get(record));
                    let records: Vec<_> = records.copied().collect();
                    if let Some(first) = records.first() {
                        let shard = self.place_of(&self.history.records[*first].key);
                        self.shards[shard].fetches.push(Fetch {
                            instance: *instance,
                            sent: *sent,
                            at: moment,
                            records,
                        });
                    }
                }
                Event::Said { delivery, outcome } => {
                    let outcome = outcome.as_ref().map(|outcome| outcome.settlement());
                    let settles = matches!(outcome, Some(Settlement::Ack | Settlement::Drop));
                    if let Some(delivery) = deliveries.get(delivery) {
                        self.deliveries[*delivery].said = Some((moment, settles));
                    }
                }
                Event::Trimmed {
                    key,
                    records,
                    listed,
                } => {
                    let shard = self.place_of(key);
                    if !listed {
                        self.shards[shard].trimmed = Some(moment);
                    }
                    for sequence in records {
                        if let Some(record) = self.record(shard, sequence) {
                            self.fates[record].trimmed.get_or_insert(moment);
                        }
                    }
                }
                Event::Resharded { parents, .. } => {
                    for parent in parents {
                        let parent = self.place_of(parent);
                        self.shards[parent].closed.get_or_insert(moment);
                    }
                }
                _ => self.take_in_life(moment, event),
            }
        }
    }

    fn take_in_life(&mut self, moment: Moment, event: &Event) {
        match event {
            Event::Joined { instance, .. } => self.life(*instance).joined = Some(moment),
            Event::Started(instance) => self.life(*instance).started = Some(moment),
            Event::Stopping(instance) => self.life(*instance).stopping = Some(moment),
            Event::Stopped { instance, .. } => self.life(*instance).stopped = Some(moment),
            Event::Killed(instance) => {
                let life = self.life(*instance);
                life.killed = Some(moment);
                wake(life, moment.at);
            }
            Event::Paused(instance) => self.life(*instance).pauses.push((moment.at, None)),
            Event::Woken(instance) => wake(self.life(*instance), moment.at),
            _ => {}
        }
    }

    fn life(&mut self, instance: InstanceId) -> &mut Life {
        self.lives.entry(instance).or_default()
    }

    /// Finds the acquisition of each delivery, and when each record was settled.
    fn attribute(&mut self) {
        for handed in &mut self.deliveries {
            handed.grant = self
                .rows
                .grant_of(handed.shard, handed.delivery.epoch, handed.at);
            let settled = handed.settled();
            if let (Some(record), Some(settled)) = (handed.record, settled) {
                let fate = &mut self.fates[record];
                fate.settled = fate.settled.into_iter().chain([settled]).min();
            }
        }
    }

    fn find_rest(&self) -> Option<Rest> {
        let mut events = self.history.events.iter().enumerate();
        let (_, (from, _)) = events.find(|(_, (_, event))| *event == Event::Healed)?;
        let end = events.find(|(_, (_, event))| matches!(event, Event::Stopping(_)));
        let (place, at) = match end {
            Some((place, (at, _))) => (place, *at),
            None => (self.history.events.len(), self.history.events.last()?.0),
        };
        let to = Moment { place, at };
        let is_there = |life: &Life| {
            life.joined.is_some_and(|joined| joined.at <= *from)
                && life.ends().is_none_or(|end| end >= to)
        };
        let alive = self.lives.iter().filter(|(_, life)| is_there(life));
        Some(Rest {
            from: *from,
            to,
            alive: alive.map(|(instance, _)| *instance).collect(),
        })
    }

    /// The record with this sequence number.
    fn record(&self, shard: usize, sequence: &Sequence) -> Option<usize> {
        let (records, all) = (&self.shards[shard].records, &self.history.records);
        let place = records
            .binary_search_by(|record| all[*record].sequence.cmp(sequence))
            .ok()?;
        Some(records[place])
    }

    /// The moment after everything that happened by this time.
    pub(super) fn moment(&self, at: Duration) -> Moment {
        let place = self.history.events.partition_point(|(time, _)| *time <= at);
        Moment { place, at }
    }

    /// When the history ends.
    pub(super) fn end(&self) -> Duration {
        self.history
            .events
            .last()
            .map_or(Duration::ZERO, |(at, _)| *at)
    }

    /// Whether a shard may not be read at this moment, since a parent that the group has to read is not read to
    /// its end, as far as the rows tell.
    pub(super) fn waits_for_a_parent(&self, shard: usize, moment: Moment) -> bool {
        let was_granted = |shard: usize| {
            self.rows.of_shard[shard]
                .iter()
                .any(|grant| self.grant(*grant).took < moment)
        };
        self.shards[shard].parents.iter().any(|parent| {
            let is_gone = self.shards[*parent]
                .trimmed
                .is_some_and(|trimmed| trimmed < moment);
            let is_in_play = self.plan.start == Start::TrimHorizon
                || was_granted(*parent)
                || self.ancestors(*parent).into_iter().any(was_granted);
            // One that is gone still stands in the way while somebody works on what they have of it.
            let is_held = self.rows.present(*parent, moment).is_some();
            (!is_gone || is_held) && is_in_play && !self.rows.is_finished(*parent, moment)
        })
    }

    /// The shard of a key, if the history ever names it.
    pub(super) fn shard(&self, key: &LeaseKey) -> Option<usize> {
        self.shard_of.get(key).copied()
    }

    pub(super) fn grant(&self, grant: usize) -> &Grant<'h> {
        &self.rows.grants[grant]
    }

    /// A shard's parents, their parents, and so on.
    pub(super) fn ancestors(&self, shard: usize) -> Vec<usize> {
        let mut found = self.shards[shard].parents.clone();
        let mut next = 0;
        while next < found.len() {
            for parent in &self.shards[found[next]].parents {
                if !found.contains(parent) {
                    found.push(*parent);
                }
            }
            next += 1;
        }
        found
    }

    /// The ancestors of a shard that listing and store lead to: not past one that left the listing with nobody's
    /// lease.
    pub(super) fn known_ancestors(&self, shard: usize) -> BTreeSet<usize> {
        let mut known = BTreeSet::new();
        let mut next = self.shards[shard].parents.clone();
        while let Some(ancestor) = next.pop() {
            let facts = &self.shards[ancestor];
            let is_lost = facts.trimmed.is_some() && self.rows.of_shard[ancestor].is_empty();
            if !is_lost && known.insert(ancestor) {
                next.extend(&facts.parents);
            }
        }
        known
    }

    /// How a shard is called in a text.
    pub(super) fn name(&self, shard: usize) -> String {
        short(self.shards[shard].key)
    }

    /// How a record is called in a text.
    pub(super) fn record_name(&self, record: usize) -> String {
        let all = &self.history.records[record];
        format!("r{record} of {} ({})", short(&all.key), all.sequence)
    }
}

fn wake(life: &mut Life, at: Duration) {
    if let Some((_, woken)) = life.pauses.last_mut() {
        woken.get_or_insert(at);
    }
}
