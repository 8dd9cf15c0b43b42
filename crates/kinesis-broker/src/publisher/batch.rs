//! Which records go into the next PutRecords call of a stream, and which wait: for room, for an earlier record of
//! their key, for their retry, or for company. Pure: the time is given, and no call is made here.
//!
//! Of each key at most one record is anywhere past the line behind it: ready, waiting for its retry, or under way.
//! PutRecords goes on after an entry that fails, so two records of one key in a call, or in two calls at once, could
//! be stored in the wrong order.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// What a record costs beside its bytes while it is held: its place in the queue and whom to tell.
pub(crate) const OVERHEAD: usize = 256;

/// What the user allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most records of a call.
    pub(crate) records: usize,
    /// The most bytes of a call. A record that is larger goes alone.
    pub(crate) bytes: usize,
    /// How long a record waits for others to go with, which is less than how long it is tried.
    pub(crate) linger: Duration,
    /// The most bytes held, with [`OVERHEAD`]. A record that is larger is held alone.
    pub(crate) held: usize,
    /// How long after it was offered a record is still tried.
    pub(crate) give_up_after: Option<Duration>,
}

/// What a record carries that the queue has no use for.
pub(crate) trait Payload {
    /// There is room for the record now.
    fn accepted(&mut self);
}

/// A record that is not stored yet.
#[derive(Debug)]
pub(crate) struct Entry<P> {
    /// Its place among all that were ever offered.
    pub(crate) place: u64,
    /// Whose order it keeps.
    key: Option<Arc<str>>,
    /// As the service counts: data and partition key.
    bytes: usize,
    offered_at: Instant,
    /// How often it was put without being stored.
    pub(crate) failures: u32,
    /// The most records of a call that it may be in.
    at_most: usize,
    pub(crate) payload: P,
}

impl<P> Entry<P> {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn cost(&self) -> usize {
        self.bytes.saturating_add(OVERHEAD)
    }
}

/// The records of one stream that are not stored yet, but for those under way.
#[derive(Debug)]
pub(crate) struct Queue<P> {
    limits: Limits,
    next_place: u64,
    /// How many are not stored yet, those under way included.
    outstanding: usize,
    /// What the accepted ones cost, those under way included.
    held: usize,
    /// What waits for room, by place.
    outside: BTreeMap<u64, Entry<P>>,
    /// What may go into the next call, by place.
    ready: BTreeMap<u64, Entry<P>>,
    ready_bytes: usize,
    /// How many of the ready were put before.
    ready_again: usize,
    /// What waits for its retry.
    delayed: BTreeMap<(Instant, u64), Entry<P>>,
    /// What waits behind an earlier record of its key: a line for each key that has a record past it.
    lines: HashMap<Arc<str>, VecDeque<Entry<P>>>,
    /// What has an earlier place than this does not wait for company.
    hurry_before: u64,
}

impl<P: Payload> Queue<P> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            next_place: 0,
            outstanding: 0,
            held: 0,
            outside: BTreeMap::new(),
            ready: BTreeMap::new(),
            ready_bytes: 0,
            ready_again: 0,
            delayed: BTreeMap::new(),
            lines: HashMap::new(),
            hurry_before: 0,
        }
    }

    /// Takes a record, and gives its place. It is accepted at once where there is room and nothing waits for any.
    pub(crate) fn offer(
        &mut self,
        key: Option<Arc<str>>,
        bytes: usize,
        payload: P,
        now: Instant,
    ) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        self.outstanding += 1;
        let entry = Entry {
            place,
            key,
            bytes,
            offered_at: now,
            failures: 0,
            at_most: self.limits.records,
            payload,
        };
        self.outside.insert(place, entry);
        self.admit();
        place
    }

    /// A record that still waits for room.
    pub(crate) fn outside(&mut self, place: u64) -> Option<&mut P> {
        self.outside.get_mut(&place).map(|entry| &mut entry.payload)
    }

    /// Takes back a record that still waits for room.
    pub(crate) fn withdraw(&mut self, place: u64) -> Option<P> {
        let entry = self.outside.remove(&place)?;
        self.outstanding -= 1;
        self.admit();
        Some(entry.payload)
    }

    /// What has waited for longer than the user allows, to be settled as such.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<Entry<P>> {
        self.ripen(now);
        let limits = self.limits;
        let is_over = |entry: &Entry<P>| {
            let at = limits.give_up_at(entry.offered_at);
            at.is_some_and(|at| at <= now)
        };
        std::iter::from_fn(|| self.take_first(is_over)).collect()
    }

    /// The records of the next call, where one is due: the oldest that are ready, as many as fit.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Vec<Entry<P>>> {
        self.ripen(now);
        if !self.is_due(now) {
            return None;
        }
        let mut batch = Vec::new();
        let (mut bytes, mut at_most) = (0, self.limits.records);
        let most_bytes = self.limits.bytes;
        while let Some(next) = self.take_first(|next| {
            let has_room = batch.len() < at_most.min(next.at_most);
            batch.is_empty() || (has_room && bytes + next.bytes <= most_bytes)
        }) {
            at_most = at_most.min(next.at_most);
            bytes += next.bytes;
            batch.push(next);
        }
        Some(batch)
    }

    /// When there is something to take if nothing happens until then; without a free call, when there is something to
    /// give up.
    pub(crate) fn wakes_at(&self, may_call: bool) -> Option<Instant> {
        let first = self.ready.values().next();
        if !may_call {
            return self.limits.give_up_at(first?.offered_at);
        }
        let due = first.and_then(|first| first.offered_at.checked_add(self.limits.linger));
        let retry = self.delayed.keys().next().map(|(at, _)| *at);
        due.into_iter().chain(retry).min()
    }

    /// A record is stored, or never will be: the next one of its key may go, and its room is free.
    pub(crate) fn settled(&mut self, entry: Entry<P>) -> P {
        self.outstanding -= 1;
        self.held -= entry.cost();
        if let Some(key) = entry.key
            && let Some(line) = self.lines.get_mut(&key)
        {
            match line.pop_front() {
                Some(next) => self.make_ready(next),
                None => drop(self.lines.remove(&key)),
            }
        }
        self.admit();
        entry.payload
    }

    /// A record was not stored, and is to be put again at this moment; it is given back if that is too late for it.
    pub(crate) fn again(&mut self, mut entry: Entry<P>, at: Instant) -> Result<(), Entry<P>> {
        entry.failures += 1;
        match self.limits.give_up_at(entry.offered_at) {
            Some(give_up) if give_up <= at => Err(entry),
            _ => {
                self.delayed.insert((at, entry.place), entry);
                Ok(())
            }
        }
    }

    /// The service refused a call for what one of its records is: they go again at once, in calls half as large, so
    /// that in the end it goes alone.
    pub(crate) fn halve(&mut self, batch: Vec<Entry<P>>) {
        let half = batch.len().div_ceil(2);
        for mut entry in batch {
            entry.at_most = half;
            entry.failures += 1;
            self.make_ready(entry);
        }
    }

    /// Gives what is not under way, to be dropped. Nothing may be settled after it.
    pub(crate) fn clear(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.limits))
    }

    /// Lets nothing that was offered so far wait for company; gives the place of the next to be offered.
    pub(crate) fn hurry(&mut self) -> u64 {
        self.hurry_before = self.next_place;
        self.next_place
    }

    /// How many are not stored yet.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether one more record that is ready may let a call be due that was not, or be due earlier.
    pub(crate) fn is_worth_a_look(&self, now: Instant) -> bool {
        self.ready.len() <= 1 || self.is_due(now)
    }

    fn is_due(&self, now: Instant) -> bool {
        let Some(first) = self.ready.values().next() else {
            return false;
        };
        let Limits {
            records,
            bytes,
            linger,
            ..
        } = self.limits;
        self.ready.len() >= records
            || self.ready_bytes >= bytes
            || first.place < self.hurry_before
            || self.ready_again > 0
            || first
                .offered_at
                .checked_add(linger)
                .is_some_and(|at| at <= now)
    }

    fn admit(&mut self) {
        while let Some(first) = self.outside.first_entry() {
            let held = self.held.saturating_add(first.get().cost());
            if self.held > 0 && held > self.limits.held {
                break;
            }
            self.held = held;
            let mut entry = first.remove();
            entry.payload.accepted();
            let key = entry.key.clone();
            match key {
                Some(key) => match self.lines.get_mut(&key) {
                    Some(line) => line.push_back(entry),
                    None => {
                        self.lines.insert(key, VecDeque::new());
                        self.make_ready(entry);
                    }
                },
                None => self.make_ready(entry),
            }
        }
    }

    fn make_ready(&mut self, entry: Entry<P>) {
        self.ready_bytes += entry.bytes;
        self.ready_again += usize::from(entry.failures > 0);
        self.ready.insert(entry.place, entry);
    }

    /// The oldest that is ready, if it is wanted.
    fn take_first(&mut self, is_wanted: impl FnOnce(&Entry<P>) -> bool) -> Option<Entry<P>> {
        let first = self.ready.first_entry()?;
        if !is_wanted(first.get()) {
            return None;
        }
        let entry = first.remove();
        self.ready_bytes -= entry.bytes;
        self.ready_again -= usize::from(entry.failures > 0);
        Some(entry)
    }

    /// Makes ready what has waited long enough for its retry.
    fn ripen(&mut self, now: Instant) {
        while let Some(first) = self.delayed.first_entry() {
            if first.key().0 > now {
                break;
            }
            let entry = first.remove();
            self.make_ready(entry);
        }
    }
}

impl Limits {
    fn give_up_at(&self, offered_at: Instant) -> Option<Instant> {
        offered_at.checked_add(self.give_up_after?)
    }
}
