//! What one instance of the model does as time passes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lease_core::LeaseKey;

use super::super::super::{Claim, HandOver, Shard};
use super::{KEPT, LEASE, Lease, PERIOD, RESERVATION, Row, Rule, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Up,
    Stopping,
    Gone,
}

/// An instance: what it holds, and when it does what.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) streams: BTreeSet<usize>,
    pub(super) state: State,
    pub(super) joined_at: u64,
    lists_at: u64,
    listed_at: u64,
    looks_at: u64,
    renews_at: u64,
    /// A listing that was read and is not acted on yet, and when it will be.
    pub(super) read: Option<(u64, u64, Vec<Row>)>,
    pub(super) holds: BTreeSet<usize>,
    /// Receiver, when it ends, and whether it is declined.
    pub(super) going: BTreeMap<usize, (String, u64, bool)>,
    kept_until: BTreeMap<usize, u64>,
    sighted: BTreeMap<usize, (u64, u64)>,
    /// The asks that it learnt of from a renewal, by shard and asker.
    told: BTreeSet<(usize, usize)>,
}

/// One shard as an instance reads it, with instances by number.
#[derive(Debug)]
struct Sight {
    shard: usize,
    owner: Option<usize>,
    asked_by: Option<usize>,
    reserved: Option<usize>,
}

impl Instance {
    pub(super) fn new(name: String, streams: BTreeSet<usize>, now: u64, renews_at: u64) -> Self {
        Self {
            name,
            streams,
            state: State::Up,
            joined_at: now,
            lists_at: now,
            listed_at: 0,
            looks_at: u64::MAX,
            renews_at,
            read: None,
            holds: BTreeSet::new(),
            going: BTreeMap::new(),
            kept_until: BTreeMap::new(),
            sighted: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }
}

impl<R: Rule> World<R> {
    /// Does what an instance has to do now.
    pub(super) fn step(&mut self, number: usize) {
        if self.instances[number].state == State::Gone {
            return;
        }
        self.end_hand_overs(number);
        if self.now >= self.instances[number].renews_at {
            self.renew(number);
        }
        let stale = self.random(self.manners.staleness + 1);
        let instance = &mut self.instances[number];
        if instance.state == State::Stopping {
            if instance.holds.is_empty() {
                instance.state = State::Gone;
            }
            return;
        }
        let due = instance
            .lists_at
            .min(instance.looks_at.max(instance.listed_at + 250));
        if self.now >= due && instance.read.is_none() {
            if self.now >= instance.lists_at {
                instance.lists_at += PERIOD;
            }
            instance.looks_at = u64::MAX;
            instance.listed_at = self.now;
            instance.read = Some((self.now, self.now + stale, self.rows.clone()));
        }
        if let Some((read_at, _, rows)) = self.instances[number]
            .read
            .take_if(|read| read.1 <= self.now)
        {
            self.act(number, read_at, &rows);
        }
    }

    fn end_hand_overs(&mut self, number: usize) {
        let ended: Vec<_> = self.instances[number]
            .going
            .iter()
            .filter(|(_, (_, ends, _))| self.now >= *ends)
            .map(|(shard, (_, _, declined))| (*shard, *declined))
            .collect();
        for (shard, declined) in ended {
            let instance = &mut self.instances[number];
            instance.going.remove(&shard);
            if declined {
                instance.kept_until.insert(shard, self.now + KEPT);
                continue;
            }
            instance.holds.remove(&shard);
            let row = &mut self.rows[shard];
            row.lease = None;
            row.reserved = (row.ask.take())
                .filter(|(_, lapses)| *lapses > self.now)
                .map(|(asker, _)| (asker, self.now + RESERVATION));
        }
    }

    fn renew(&mut self, number: usize) {
        let instance = &mut self.instances[number];
        instance.renews_at += PERIOD;
        for shard in &instance.holds {
            self.counter += 1;
            let row = &mut self.rows[*shard];
            row.lease = row.lease.map(|lease| Lease {
                renewed: self.now,
                counter: self.counter,
                ..lease
            });
            let ask = row.ask.filter(|(_, lapses)| *lapses > self.now);
            if ask.is_some_and(|(asker, _)| instance.told.insert((*shard, asker))) {
                instance.looks_at = self.now;
            }
        }
    }

    /// What an instance makes of the rows that it read at `read_at`, and when the first of the leases that it
    /// saw is due to expire.
    fn sight(&mut self, number: usize, read_at: u64, rows: &[Row]) -> (Vec<Sight>, u64) {
        let instance = &mut self.instances[number];
        let mut due = u64::MAX;
        let mut sights = Vec::new();
        for (shard, row) in rows.iter().enumerate() {
            if row.hidden || !instance.streams.contains(&self.stream_of[shard]) {
                continue;
            }
            let live = row.lease.filter(|lease| {
                let seen = (lease.counter, self.now);
                let sighted = instance.sighted.entry(shard).or_insert(seen);
                if sighted.0 < lease.counter {
                    *sighted = seen;
                }
                let (expires, at) = match self.manners.sightings {
                    true => (sighted.1 + LEASE, self.now),
                    false => (lease.renewed + LEASE, read_at),
                };
                if expires > at {
                    due = due.min(expires);
                }
                expires > at
            });
            let unlapsed = |(_, lapses): &(usize, u64)| *lapses > read_at;
            sights.push(Sight {
                shard,
                owner: live.map(|lease| lease.owner),
                asked_by: row.ask.filter(unlapsed).map(|(asker, _)| asker),
                reserved: row.reserved.filter(unlapsed).map(|(asker, _)| asker),
            });
        }
        (sights, due)
    }

    /// What the rule is told of a shard.
    fn shard(&self, number: usize, sight: &Sight) -> Shard<'_> {
        let instance = &self.instances[number];
        let name = |number: usize| self.instances[number].name.as_str();
        let kept_until = instance.kept_until.get(&sight.shard);
        let claim = if let Some((to, ..)) = instance.going.get(&sight.shard) {
            Claim::Going { to }
        } else if instance.holds.contains(&sight.shard) {
            match kept_until {
                Some(until) if *until > self.now => Claim::Kept,
                _ => Claim::Mine,
            }
        } else if let Some(owner) = sight.owner {
            Claim::Held { owner: name(owner) }
        } else if let Some(asker) = sight.reserved {
            Claim::Reserved { asker: name(asker) }
        } else {
            Claim::Free { takeable: true }
        };
        Shard {
            key: &self.keys[sight.shard],
            claim,
            asked_by: sight.asked_by.map(name),
        }
    }

    /// Decides on what was read at `read_at`, and does what was decided.
    fn act(&mut self, number: usize, read_at: u64, rows: &[Row]) {
        let (sights, due) = self.sight(number, read_at, rows);
        // The rule is out of its place while it is shown what the world owns.
        let mut rule = self.rules[number]
            .take()
            .expect("no rule decides within itself");
        let shards: Vec<_> = sights
            .iter()
            .map(|sight| self.shard(number, sight))
            .collect();
        let plan = rule.decide(self.start + Duration::from_millis(self.now), &shards);
        self.rules[number] = Some(rule);

        let looks_at = plan.look_again_in.map_or(u64::MAX, |after| {
            self.now + u64::try_from(after.as_millis()).unwrap_or(u64::MAX)
        });
        let instance = &mut self.instances[number];
        instance.looks_at = instance.looks_at.min(looks_at).min(due);
        if !(plan.take.is_empty() && plan.ask.is_empty() && plan.hand_over.is_empty()) {
            self.stirred_at = self.now;
        }
        for key in &plan.take {
            self.acquire(number, self.number(key));
        }
        for key in &plan.ask {
            self.ask(number, self.number(key));
        }
        for HandOver { key, to } in plan.hand_over {
            self.hand_over(number, self.number(&key), to);
        }
    }

    fn hand_over(&mut self, number: usize, shard: usize, to: String) {
        let declined = self.random(100) < self.manners.declined;
        let settling = self.random(self.manners.settling + 1);
        let ends = self.now + if declined { LEASE } else { settling };
        let instance = &mut self.instances[number];
        assert!(
            instance.holds.contains(&shard),
            "handed over what it has not"
        );
        assert_ne!(instance.name, to, "handed over to itself");
        instance.going.insert(shard, (to, ends, declined));
    }

    fn number(&self, key: &LeaseKey) -> usize {
        self.keys.binary_search(key).expect("a key of this world")
    }

    fn acquire(&mut self, number: usize, shard: usize) {
        let instance = &self.instances[number];
        assert!(
            instance.streams.contains(&self.stream_of[shard]),
            "took what it does not read"
        );
        assert!(!instance.holds.contains(&shard), "took what it has");
        let row = &mut self.rows[shard];
        let expired = row.lease.is_none_or(|lease| {
            if self.manners.sightings {
                let sighted = instance.sighted.get(&shard);
                sighted.is_some_and(|(counter, at)| {
                    *counter == lease.counter && at + LEASE <= self.now
                })
            } else {
                lease.renewed + LEASE <= self.now
            }
        });
        let kept_from_it = row
            .reserved
            .is_some_and(|(asker, lapses)| asker != number && lapses > self.now);
        if row.hidden || !expired || kept_from_it {
            return;
        }
        self.counter += 1;
        self.moves += usize::from(row.last != Some(number));
        *row = Row {
            lease: Some(Lease {
                owner: number,
                renewed: self.now,
                counter: self.counter,
            }),
            last: Some(number),
            ..Row::default()
        };
        self.instances[number].holds.insert(shard);
    }

    fn ask(&mut self, number: usize, shard: usize) {
        assert!(
            self.instances[number]
                .streams
                .contains(&self.stream_of[shard]),
            "asked for what it does not read"
        );
        let row = &mut self.rows[shard];
        let others = row
            .ask
            .is_some_and(|(asker, lapses)| asker != number && lapses > self.now);
        if !row.hidden && !others && row.lease.is_some_and(|lease| lease.owner != number) {
            row.ask = Some((number, self.now + LEASE));
        }
    }
}
