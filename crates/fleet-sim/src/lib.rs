//! Whole fleets of Kinesis consumers in simulation: instances of a service with real brokers, over a simulated
//! Kinesis and a lease store, with everything that can befall them, checked against the rules of the product.
//!
//! A run is drawn from one `u64`. The same seed gives the same history, byte for byte, so a seed that fails is all
//! that has to be kept. No instance shares a clock with another: each runs in a tokio runtime of its own whose clock
//! may run fast or slow, is paused while the others go on, and dies with everything that it was doing.
//!
//! ```
//! use std::sync::Arc;
//!
//! use fleet_sim::Simulation;
//! use lease_memory::MemoryLeaseStore;
//!
//! // The store that is put to the test: any `LeaseStore` whose time is tokio's.
//! let store = MemoryLeaseStore::new();
//! let run = Simulation::from_seed(1).stores(move |_instance| Arc::new(store.clone())).run();
//! assert!(run.violations.is_empty(), "{}", run.report());
//! ```
//!
//! `cargo xtask sim` runs many seeds, replays one, and shrinks the plan of one that fails.

#[cfg(feature = "sabotage")]
pub mod broken;
pub mod broken_store;
pub mod check;
mod clock;
mod conductor;
mod drive;
pub mod history;
mod instance;
pub mod plan;
mod progress;
pub mod regressions;
pub mod shrink;
pub mod story;
mod wire;
mod world;

use std::fmt;
use std::sync::Arc;

use lease_core::LeaseStore;
use lease_memory::MemoryLeaseStore;

use crate::check::Violation;
use crate::conductor::Stores;
use crate::drive::Pace;
use crate::history::{History, InstanceId};
use crate::plan::Plan;

/// The program of the page on simulation runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/simulation.md")]
pub struct Page;

/// A run to be.
#[must_use = "nothing happens until it is run"]
pub struct Simulation {
    plan: Plan,
    pace: Pace,
    stores: Stores,
}

impl Simulation {
    /// The run that this seed draws.
    pub fn from_seed(seed: u64) -> Self {
        Self::of(Plan::from_seed(seed))
    }

    /// A run of this plan.
    pub fn of(plan: Plan) -> Self {
        let store = MemoryLeaseStore::new();
        Self {
            plan,
            pace: Pace::Stepped,
            stores: Box::new(move |_| Arc::new(store.clone())),
        }
    }

    /// Runs on these stores instead of a [`MemoryLeaseStore`]: `open` gives each instance its own door to the one
    /// store that all of them share. It is called once more at the end, to look at what is left.
    ///
    /// Calls are made in a runtime of the world's, whose clock is paused: the store must take its time from tokio,
    /// and must not wait for I/O.
    pub fn stores(mut self, open: impl FnMut(InstanceId) -> Arc<dyn LeaseStore> + 'static) -> Self {
        self.stores = Box::new(open);
        self
    }

    /// Lets time pass as it does, for a store that does I/O: each instance has a thread, every call takes the time
    /// that it takes, and no two runs are the same. Clocks do not drift, and what depends on the order in which
    /// calls take effect *inside* the store cannot be checked.
    pub fn in_real_time(mut self) -> Self {
        self.pace = Pace::Real;
        self.plan.drift_ppm = 0;
        self
    }

    /// Runs it to its end and checks its history.
    ///
    /// # Panics
    ///
    /// If an instance panics or never stops, or the store fails once all is healed: the run has no end to check.
    pub fn run(self) -> Run {
        let Self { plan, pace, stores } = self;
        let history = conductor::run(&plan, pace, stores);
        let mut violations = check::violations(&plan, &history);
        if pace == Pace::Real {
            // When a call took effect is known only by when its answer came.
            violations.retain(|violation| !violation.invariant.needs_the_order_of_effects());
        }
        Run {
            plan,
            history,
            violations,
        }
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

/// A run that is over.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was to happen.
    pub plan: Plan,
    /// What happened.
    pub history: History,
    /// The rules that it breaks.
    pub violations: Vec<Violation>,
}

impl Run {
    /// The plan, and what the run of it broke.
    #[must_use]
    pub fn report(&self) -> String {
        let violations: Vec<_> = self.violations.iter().map(ToString::to_string).collect();
        format!("{}{}", self.plan, violations.join("\n"))
    }
}
