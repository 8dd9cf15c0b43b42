//! What is explored: how many instances and shards, and how often what may go wrong.

use crate::flaw::{Flaw, Rules};

/// A world to explore, with all that may happen in it. Every number of what happens is a limit on the whole of a
/// history.
///
/// Whatever has no limit here may happen at any time and as often as it can: ticks, acquisitions that are
/// refused, reads, answers that take long, instances that do nothing for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct World {
    /// What it is called in the table of results.
    pub name: &'static str,
    /// 1 to 3.
    pub instances: u8,
    /// 1 or 2.
    pub shards: u8,
    /// How many ticks a lease lasts.
    pub lease: u8,
    /// Records of each shard; a checkpoint at the last one is the end of the shard. With 0 of them a shard is
    /// endless, and who holds it hands over all the time, without settling or checkpointing.
    pub records: u8,
    /// The calls on one shard that an instance waits for at once.
    pub calls_at_once: u8,
    /// Whether an instance also tries to acquire what it has seen live, rather than to look again.
    pub hasty: bool,
    /// Whether all instances bear one name.
    pub twins: bool,
    /// Grants of each shard; a history that comes to one more is not followed any further.
    pub grants: u8,
    /// Renewals sent.
    pub renewals: u8,
    /// Calls that are given up, and may still take effect.
    pub lost_answers: u8,
    /// Calls that are sent a second time while their answer is waited for.
    pub duplicates: u8,
    /// Instances that crash, and start again under the same name or another.
    pub crashes: u8,
    /// Rows that are deleted by hand.
    pub deletions: u8,
    /// Asks sent.
    pub asks: u8,
    /// Rows of finished shards that are forgotten.
    pub forgets: u8,
    /// Whether it is checked that no state is a dead end. It takes about half as long again.
    pub progress: bool,
    /// The rule that is broken.
    pub flaw: Option<Flaw>,
}

impl World {
    /// Two instances, and one shard of two records; nothing goes wrong but that they are slow.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            instances: 2,
            shards: 1,
            lease: 2,
            records: 2,
            calls_at_once: 1,
            hasty: false,
            twins: false,
            grants: 2,
            renewals: 1,
            lost_answers: 0,
            duplicates: 0,
            crashes: 0,
            deletions: 0,
            asks: 0,
            forgets: 0,
            progress: false,
            flaw: None,
        }
    }

    /// The same with an endless shard, which is about leases alone.
    #[must_use]
    pub const fn of_leases(name: &'static str) -> Self {
        Self {
            records: 0,
            ..Self::new(name)
        }
    }

    /// The worlds that `cargo run --release -p lease-model` explores.
    pub const ALL: [Self; 20] = [
        Self {
            grants: 3,
            renewals: 2,
            lost_answers: 2,
            ..Self::of_leases("leases, lost answers")
        },
        Self {
            grants: 3,
            lost_answers: 1,
            duplicates: 1,
            ..Self::of_leases("leases, sent twice")
        },
        Self {
            grants: 3,
            lost_answers: 1,
            crashes: 1,
            ..Self::of_leases("leases, a crash")
        },
        Self {
            crashes: 2,
            renewals: 0,
            progress: true,
            ..Self::of_leases("leases, two crashes")
        },
        Self {
            lease: 3,
            lost_answers: 1,
            progress: true,
            ..Self::of_leases("leases of three ticks")
        },
        Self {
            hasty: true,
            lost_answers: 1,
            progress: true,
            ..Self::of_leases("leases, in haste")
        },
        Self {
            calls_at_once: 2,
            renewals: 0,
            ..Self::of_leases("leases, two calls at once")
        },
        Self {
            instances: 3,
            ..Self::of_leases("three instances")
        },
        Self {
            instances: 3,
            renewals: 0,
            lost_answers: 1,
            ..Self::of_leases("three, a lost answer")
        },
        Self {
            shards: 2,
            grants: 1,
            renewals: 0,
            progress: true,
            ..Self::of_leases("two shards")
        },
        Self {
            twins: true,
            lost_answers: 1,
            crashes: 1,
            progress: true,
            ..Self::of_leases("one name for both")
        },
        Self {
            asks: 2,
            crashes: 1,
            grants: 1,
            progress: true,
            ..Self::of_leases("asks and reservations")
        },
        Self {
            grants: 3,
            deletions: 1,
            progress: true,
            ..Self::of_leases("a row deleted by hand")
        },
        Self {
            lost_answers: 1,
            ..Self::new("records, a lost answer")
        },
        Self {
            grants: 3,
            renewals: 0,
            lost_answers: 1,
            ..Self::new("records, three grants")
        },
        Self {
            renewals: 0,
            lost_answers: 1,
            duplicates: 1,
            ..Self::new("records, sent twice")
        },
        Self {
            renewals: 0,
            crashes: 1,
            progress: true,
            ..Self::new("records, a crash")
        },
        Self {
            records: 1,
            grants: 1,
            calls_at_once: 2,
            ..Self::new("records, two calls at once")
        },
        Self {
            records: 1,
            renewals: 0,
            deletions: 1,
            ..Self::new("records, a row deleted")
        },
        Self {
            records: 1,
            forgets: 1,
            progress: true,
            ..Self::new("a finished shard forgotten")
        },
    ];

    pub(crate) fn rules(&self) -> Rules {
        Rules(self.flaw)
    }
}
