//! A small model of a fleet on one store, in steps of [`STEP`] milliseconds, repeatable from a seed.

mod instance;

use std::collections::BTreeSet;

use lease_core::LeaseKey;
use tokio::time::Instant;

use self::instance::{Instance, State};
use super::super::{Balance, Plan, Shard};

const STEP: u64 = 50;
const PERIOD: u64 = 3_000;
const LEASE: u64 = 10_000;
const RESERVATION: u64 = 5_000;
const KEPT: u64 = 60_000;

/// What decides in an instance: the balance, or a rule that it is compared with.
pub(super) trait Rule {
    fn new(name: &str) -> Self;
    fn decide(&mut self, now: Instant, shards: &[Shard<'_>]) -> Plan;
}

impl Rule for Balance {
    fn new(name: &str) -> Self {
        Self::new(name)
    }

    fn decide(&mut self, now: Instant, shards: &[Shard<'_>]) -> Plan {
        self.decide(now, shards)
    }
}

/// How the model behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    /// The longest time between reading the store and acting on what was read.
    pub(super) staleness: u64,
    /// The longest that a hand-over takes.
    pub(super) settling: u64,
    /// How many hand-overs of a hundred are declined.
    pub(super) declined: u64,
    /// Whether a lease expires one lease time after its observer first saw its last renewal, and not one
    /// lease time after that renewal.
    pub(super) sightings: bool,
}

#[derive(Clone, Debug, Default)]
struct Row {
    lease: Option<Lease>,
    /// Asker, and when the ask lapses.
    ask: Option<(usize, u64)>,
    reserved: Option<(usize, u64)>,
    /// It waits for a parent, or was read to its end.
    hidden: bool,
    /// Who had it last, to count moves.
    last: Option<usize>,
    /// Since when somebody could have read it and nobody did.
    unread_since: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    owner: usize,
    renewed: u64,
    counter: u64,
}

/// Several instances, one store, and a clock.
#[derive(Debug)]
pub(super) struct World<R> {
    manners: Manners,
    seed: u64,
    start: Instant,
    pub(super) now: u64,
    keys: Vec<LeaseKey>,
    stream_of: Vec<usize>,
    rows: Vec<Row>,
    instances: Vec<Instance>,
    rules: Vec<Option<R>>,
    counter: u64,
    /// How often a shard went from one instance to another, or to its first.
    pub(super) moves: usize,
    /// When an instance last took, asked or handed over.
    pub(super) stirred_at: u64,
    /// The longest that a shard was unread while an instance that reads it was up all the time.
    pub(super) longest_unread: u64,
}

impl<R: Rule> World<R> {
    /// A world with `shards[i]` shards in stream `i`, and nobody there.
    pub(super) fn new(seed: u64, shards: &[usize], manners: Manners) -> Self {
        let all = shards.iter().enumerate();
        let all: Vec<_> = all
            .flat_map(|(stream, n)| (0..*n).map(move |shard| (stream, shard)))
            .collect();
        Self {
            manners,
            seed,
            start: Instant::now(),
            now: 0,
            keys: (all.iter())
                .map(|(stream, shard)| {
                    LeaseKey::new(
                        format!("stream-{stream:02}"),
                        format!("shardId-{shard:012}"),
                    )
                })
                .collect(),
            stream_of: all.iter().map(|(stream, _)| *stream).collect(),
            rows: vec![Row::default(); all.len()],
            instances: Vec::new(),
            rules: Vec::new(),
            counter: 0,
            moves: 0,
            stirred_at: 0,
            longest_unread: 0,
        }
    }

    /// A number below `limit`.
    pub(super) fn random(&mut self, limit: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }

    /// Starts an instance that reads these streams.
    pub(super) fn join(&mut self, streams: impl IntoIterator<Item = usize>) -> usize {
        let number = self.instances.len();
        let name = format!("host-{:04}-{number}", self.random(10_000));
        let renews_at = self.now + self.random(PERIOD);
        self.rules.push(Some(R::new(&name)));
        self.instances.push(Instance::new(
            name,
            streams.into_iter().collect(),
            self.now,
            renews_at,
        ));
        number
    }

    /// Stops an instance gracefully: each shard is settled, which takes a while, and released.
    pub(super) fn stop(&mut self, number: usize) {
        self.instances[number].state = State::Stopping;
        self.instances[number].read = None;
        for shard in self.instances[number].holds.clone() {
            let ends = self.now + self.random(self.manners.settling + 1);
            let going = (String::new(), ends, false);
            self.instances[number].going.entry(shard).or_insert(going).2 = false;
        }
    }

    /// Kills an instance.
    pub(super) fn crash(&mut self, number: usize) {
        self.instances[number].state = State::Gone;
        self.instances[number].holds.clear();
    }

    /// Ends a shard, or makes it wait for a parent; or the reverse.
    pub(super) fn hide(&mut self, shard: usize, hidden: bool) {
        self.rows[shard].hidden = hidden;
        if hidden && let Some(lease) = self.rows[shard].lease {
            self.instances[lease.owner].holds.remove(&shard);
            self.instances[lease.owner].going.remove(&shard);
            self.rows[shard].lease = None;
        }
    }

    /// The instances that are up.
    pub(super) fn up(&self) -> Vec<usize> {
        let up = |number: &usize| self.instances[*number].state == State::Up;
        (0..self.instances.len()).filter(up).collect()
    }

    /// How many shards an instance holds, of the given streams or of all.
    pub(super) fn holds(&self, number: usize, of: Option<&BTreeSet<usize>>) -> usize {
        let holds = self.instances[number].holds.iter();
        holds
            .filter(|shard| of.is_none_or(|of| of.contains(&self.stream_of[**shard])))
            .count()
    }

    /// The streams that an instance reads.
    pub(super) fn streams(&self, number: usize) -> &BTreeSet<usize> {
        &self.instances[number].streams
    }

    /// The name of an instance.
    pub(super) fn name(&self, number: usize) -> &str {
        &self.instances[number].name
    }

    /// The shards that can be read and are not held by an instance that is up.
    pub(super) fn unread(&self) -> Vec<&LeaseKey> {
        let unread = |shard: &usize| {
            !self.rows[*shard].hidden
                && !self
                    .instances
                    .iter()
                    .any(|instance| instance.holds.contains(shard))
        };
        (0..self.keys.len())
            .filter(unread)
            .map(|shard| &self.keys[shard])
            .collect()
    }

    /// How many shards each instance that is up holds.
    pub(super) fn counts(&self) -> Vec<usize> {
        self.up()
            .into_iter()
            .map(|number| self.holds(number, None))
            .collect()
    }

    /// How many shards can be read and are held by nobody that is up.
    pub(super) fn orphans(&self) -> usize {
        self.rows.iter().filter(|row| !row.hidden).count() - self.counts().iter().sum::<usize>()
    }

    /// Lets so many milliseconds pass.
    pub(super) fn run(&mut self, milliseconds: u64) {
        let until = self.now + milliseconds;
        while self.now < until {
            for number in 0..self.instances.len() {
                self.step(number);
            }
            self.watch();
            self.now += STEP;
        }
    }

    /// Notes which shards nobody reads, though an instance that is up could.
    fn watch(&mut self) {
        for shard in 0..self.rows.len() {
            let stream = self.stream_of[shard];
            let leased = self.rows[shard]
                .lease
                .is_some_and(|lease| lease.renewed + LEASE > self.now);
            let readers = self.instances.iter().filter(|instance| {
                instance.state == State::Up && instance.streams.contains(&stream)
            });
            let must_watch = self.manners.sightings && self.rows[shard].lease.is_some();
            let watching = if must_watch { LEASE + PERIOD } else { 0 };
            let reader_since = readers.map(|instance| instance.joined_at + watching).min();
            let row = &mut self.rows[shard];
            if leased || row.hidden {
                row.unread_since = None;
            } else if let Some(reader_since) = reader_since {
                let since = reader_since.max(*row.unread_since.get_or_insert(self.now));
                self.longest_unread = self.longest_unread.max(self.now.saturating_sub(since));
            }
        }
    }
}
