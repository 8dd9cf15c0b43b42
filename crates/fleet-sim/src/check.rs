//! The invariants: what must hold of every history, each checked by its name once the run is over.
//!
//! Each is a module with a function over an index of the history; its documentation states the rule and what it
//! makes allowance for. Nothing here runs, waits or draws anything: the same history breaks the same rules.

mod balanced_and_still;
mod bounded_read_ahead;
mod bounded_redelivery;
#[cfg(test)]
mod builder;
mod calm;
mod exclusive;
mod facts;
mod fenced;
mod index;
mod lineage;
mod monotonic_checkpoint;
mod no_leak;
mod no_loss;
mod one_call;
mod order_per_key;
mod owed;
mod prefix;
mod quiet;
mod rows;
mod settled_prefix;
mod take_over_in_time;

use std::fmt;
use std::time::Duration;

use crate::check::index::Index;
use crate::history::History;
use crate::plan::Plan;

/// How long a lease lasts, counted by the store from the moment at which an acquisition or a renewal took effect.
const LEASE: Duration = Duration::from_secs(10);

/// How long the product waits for an answer of the store, on a clock within the documented bound.
const PATIENCE: Duration = Duration::from_millis(2_990);

/// By how much an instance may seem to act before it heard what it acts upon: its clock and the world's, by which
/// answers are noted, round differently.
const ROUNDING: Duration = Duration::from_millis(2);

/// A rule of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// No record of a shard is handed over by two acquisitions at a time, nor by an instance past its deadline, nor
    /// beside more than may be in handlers, nor beside another of its partition key.
    Exclusive,
    /// Nobody but the present holder of a lease changes its row, and epochs grow by one.
    Fenced,
    /// A checkpoint has nothing unsettled before it.
    SettledPrefix,
    /// Every record is handled.
    NoLoss,
    /// The records of a partition key are handled in their order, across restarts and resharding.
    OrderPerKey,
    /// A shard is read after its parents.
    Lineage,
    /// A checkpoint never moves backwards, and nothing before it is handed over again.
    MonotonicCheckpoint,
    /// The shards of a killed instance are soon read elsewhere.
    TakeOverInTime,
    /// A planned move redelivers nothing.
    Quiet,
    /// A crash redelivers what was in hand, and little besides.
    BoundedRedelivery,
    /// No more is read ahead of the handlers than was asked for.
    BoundedReadAhead,
    /// Shards spread evenly, and then nothing moves.
    BalancedAndStill,
    /// A checkpoint call for each acknowledgement that moves the checkpoint, and no other; fewer, where calls are
    /// shared or paced.
    OneCallAnAcknowledgement,
    /// A shutdown leaves nothing behind.
    NoLeak,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Exclusive,
        Self::Fenced,
        Self::SettledPrefix,
        Self::NoLoss,
        Self::OrderPerKey,
        Self::Lineage,
        Self::MonotonicCheckpoint,
        Self::TakeOverInTime,
        Self::Quiet,
        Self::BoundedRedelivery,
        Self::BoundedReadAhead,
        Self::BalancedAndStill,
        Self::OneCallAnAcknowledgement,
        Self::NoLeak,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Fenced => "fenced",
            Self::SettledPrefix => "settled prefix",
            Self::NoLoss => "no loss",
            Self::OrderPerKey => "order per key",
            Self::Lineage => "lineage",
            Self::MonotonicCheckpoint => "monotonic checkpoint",
            Self::TakeOverInTime => "take-over in time",
            Self::Quiet => "quiet",
            Self::BoundedRedelivery => "bounded redelivery",
            Self::BoundedReadAhead => "bounded reading ahead",
            Self::BalancedAndStill => "balanced and still",
            Self::OneCallAnAcknowledgement => "one call an acknowledgement",
            Self::NoLeak => "no leak",
        }
    }

    /// Whether it is about the order in which calls take effect in the store, of which only the store itself knows.
    pub(crate) fn needs_the_order_of_effects(self) -> bool {
        matches!(
            self,
            Self::Fenced | Self::MonotonicCheckpoint | Self::Quiet | Self::BoundedRedelivery
        )
    }

    fn check(self, index: &Index<'_>) -> Vec<Violation> {
        let found = match self {
            Self::Exclusive => exclusive::check(index),
            Self::Fenced => fenced::check(index),
            Self::SettledPrefix => settled_prefix::check(index),
            Self::NoLoss => no_loss::check(index),
            Self::OrderPerKey => order_per_key::check(index),
            Self::Lineage => lineage::check(index),
            Self::MonotonicCheckpoint => monotonic_checkpoint::check(index),
            Self::TakeOverInTime => take_over_in_time::check(index),
            Self::Quiet => quiet::check(index),
            Self::BoundedRedelivery => bounded_redelivery::check(index),
            Self::BoundedReadAhead => bounded_read_ahead::check(index),
            Self::BalancedAndStill => balanced_and_still::check(index),
            Self::OneCallAnAcknowledgement => one_call::check(index),
            Self::NoLeak => no_leak::check(index),
        };
        let named = found.into_iter();
        named
            .map(|Found { at, text }| Violation {
                invariant: self,
                at,
                text,
            })
            .collect()
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A rule that a history breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub invariant: Invariant,
    /// When, in the world's time.
    pub at: Duration,
    /// What happened, naming shard, instance, epoch and record.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at {:.3} s: {}",
            self.invariant,
            self.at.as_secs_f64(),
            self.text
        )
    }
}

/// What a check finds, before it bears the rule's name.
#[derive(Debug)]
struct Found {
    at: Duration,
    text: String,
}

/// Everything in the history of a run of this plan that breaks a rule, in the order of time.
#[must_use]
pub fn violations(plan: &Plan, history: &History) -> Vec<Violation> {
    let index = Index::new(plan, history);
    let mut violations: Vec<_> = Invariant::ALL
        .into_iter()
        .flat_map(|invariant| invariant.check(&index))
        .collect();
    violations.sort_by_key(|violation| (violation.at, violation.invariant));
    violations
}
