//! Fleets that break one rule each, to prove that the checks see it: brokers that commit a fault, or a store that
//! breaks a promise. For that proof alone.

use std::fmt;
use std::sync::Arc;

use kinesis_broker::sabotage::{self, Sabotage};

use crate::broken_store::{Breach, BrokenStore};
use crate::check::Invariant;
use crate::{Run, Simulation};

/// A fleet that breaks a rule.
#[derive(Clone, Copy, Debug)]
pub enum Broken {
    /// Its brokers do.
    Brokers(Sabotage),
    /// Its store does.
    Store(Breach),
}

impl Broken {
    /// All of them.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let brokers = Sabotage::ALL.into_iter().map(Self::Brokers);
        brokers.chain(Breach::ALL.map(Self::Store)).collect()
    }

    /// The rule that has to be said to be broken.
    #[must_use]
    pub fn breaks(self) -> Invariant {
        match self {
            Self::Brokers(fault) => broken_by(fault),
            Self::Store(breach) => breach.breaks(),
        }
    }

    /// Runs a seed with it.
    ///
    /// # Panics
    ///
    /// As [`Simulation::run`] does, which what is broken may well bring about.
    #[must_use]
    pub fn run(self, seed: u64) -> Run {
        let simulation = Simulation::from_seed(seed);
        match self {
            Self::Brokers(fault) => {
                let _committed = Committed::new(fault);
                simulation.run()
            }
            Self::Store(breach) => {
                let store = BrokenStore::new(breach);
                simulation.stores(move |_| Arc::new(store.clone())).run()
            }
        }
    }

    /// Whether running a seed with it shows.
    ///
    /// # Panics
    ///
    /// As [`Self::run`] does.
    #[must_use]
    pub fn shows(self, seed: u64) -> bool {
        let run = self.run(seed);
        run.violations
            .iter()
            .any(|violation| violation.invariant == self.breaks())
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Brokers(fault) => f.pad(&format!("{fault:?}")),
            Self::Store(breach) => f.pad(&format!("{breach:?}")),
        }
    }
}

/// A fault that the brokers of this thread commit until this is dropped.
struct Committed;

impl Committed {
    fn new(fault: Sabotage) -> Self {
        sabotage::commit(Some(fault));
        Self
    }
}

impl Drop for Committed {
    fn drop(&mut self) {
        sabotage::commit(None);
    }
}

/// The rule that brokers break which commit this fault.
fn broken_by(fault: Sabotage) -> Invariant {
    match fault {
        Sabotage::PastDeadline
        | Sabotage::DeadlineFromAnswer
        | Sabotage::UnfencedHandOver
        | Sabotage::TwoOfOneKey
        | Sabotage::MoreAtOnce => Invariant::Exclusive,
        Sabotage::BorrowedFence => Invariant::Fenced,
        Sabotage::CheckpointAhead | Sabotage::PassesGaps => Invariant::SettledPrefix,
        Sabotage::TipAnew | Sabotage::ReopenAhead | Sabotage::DropsReadAhead => Invariant::NoLoss,
        Sabotage::ReopenBehind | Sabotage::SkipRetried => Invariant::OrderPerKey,
        Sabotage::ChildBeforeParent => Invariant::Lineage,
        Sabotage::CheckpointBackwards => Invariant::MonotonicCheckpoint,
        Sabotage::ForgetsFailed
        | Sabotage::ReleaseBeforeSettle
        | Sabotage::LeavesGaps
        | Sabotage::LeavesUnwritten => Invariant::Quiet,
        Sabotage::WritesSeldom | Sabotage::AwaitsNothing => Invariant::BoundedRedelivery,
        Sabotage::ReadsWithoutEnd => Invariant::BoundedReadAhead,
        Sabotage::NeverTakesOver => Invariant::TakeOverInTime,
        Sabotage::NeverGives | Sabotage::AlwaysMoves => Invariant::BalancedAndStill,
        Sabotage::TwoCallsAnAck | Sabotage::WritesOften | Sabotage::ForgetsShared => {
            Invariant::OneCallAnAcknowledgement
        }
        Sabotage::KeepsTask | Sabotage::KeepsLease => Invariant::NoLeak,
    }
}
