//! What a store's author tells the suite: the store, what it can do, and how its time passes.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::trial::Trial;
use super::violation::Violation;
use crate::LeaseStore;

const ATTEMPTS: u32 = 5;

/// The clock that a store counts on, for a store that does not count on tokio's.
///
/// A clock that can be set by hand makes the suite quick: [`pass`](Self::pass) moves it on and
/// returns at once.
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync {
    /// How much time has passed since a moment that stays the same; never less than before.
    fn now(&self) -> Duration;

    /// Returns once about this much time has passed. The suite waits in small steps, and looks each
    /// time whether what it waits for has happened.
    async fn pass(&self, span: Duration);
}

/// The store under test, and what the suite has to know to judge it.
///
/// With nothing else said, the store counts on tokio's clock (paused or not), a lease lasts two
/// seconds, and all eight calls are to do what the contract says.
///
/// ```
/// use std::time::Duration;
///
/// use lease_core::LeaseStore;
/// use lease_core::conformance::Subject;
///
/// /// Two instances of a store on one table, on a server that is slow now and then.
/// fn subject<'a>(one: &'a dyn LeaseStore, other: &'a dyn LeaseStore) -> Subject<'a> {
///     Subject::new(one)
///         .other_instance(other)
///         .ttl(Duration::from_secs(4))
///         .namespace("run-17")
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    pub(super) one: &'a dyn LeaseStore,
    pub(super) other: &'a dyn LeaseStore,
    pub(super) ttl: Duration,
    pub(super) patience: Duration,
    pub(super) namespace: String,
    pub(super) hands_over: bool,
    pub(super) forgets: bool,
    clock: Option<&'a dyn Clock>,
    began: Instant,
}

impl<'a> Subject<'a> {
    /// A store that does all that the contract says, on tokio's clock.
    #[must_use]
    pub fn new(store: &'a dyn LeaseStore) -> Self {
        Self {
            one: store,
            other: store,
            ttl: Duration::from_secs(2),
            patience: Duration::from_secs(30),
            namespace: std::process::id().to_string(),
            hands_over: true,
            forgets: true,
            clock: None,
            began: Instant::now(),
        }
    }

    /// A second instance of the store on the same rows, which everybody but the first holder uses.
    /// Without it they all share one instance.
    #[must_use]
    pub fn other_instance(mut self, store: &'a dyn LeaseStore) -> Self {
        self.other = store;
        self
    }

    /// How long the leases of the suite last; two seconds unless said otherwise.
    ///
    /// On a real clock a case that lets a lease expire takes this long, and a case that takes longer
    /// than this for its calls decides nothing and is run again, up to five times: a few hundred
    /// times what one call takes is a good measure.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long the suite waits for what is overdue before it gives up; 30 seconds unless said
    /// otherwise.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The clock that the store counts on, if it is not tokio's.
    #[must_use]
    pub fn clock(mut self, clock: &'a dyn Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// A text that makes the keys of this run unlike those of any other on the same rows; the id of
    /// the process unless said otherwise. It ends up in names of streams.
    #[must_use]
    pub fn namespace(mut self, text: impl Into<String>) -> Self {
        self.namespace = text.into();
        self
    }

    /// The store leaves [`LeaseStore::ask`] as provided: it hands nothing over.
    #[must_use]
    pub fn without_hand_over(mut self) -> Self {
        self.hands_over = false;
        self
    }

    /// The store leaves [`LeaseStore::forget`] as provided: it keeps its rows.
    #[must_use]
    pub fn without_forgetting(mut self) -> Self {
        self.forgets = false;
        self
    }

    pub(super) fn now(&self) -> Duration {
        match self.clock {
            Some(clock) => clock.now(),
            None => self.began.elapsed(),
        }
    }

    pub(super) async fn pass(&self, span: Duration) {
        match self.clock {
            Some(clock) => clock.pass(span).await,
            None => tokio::time::sleep(span).await,
        }
    }

    /// Runs a case on keys of its own, again where an attempt was too slow to decide anything.
    pub(super) async fn trial<F>(&self, case: F) -> Result<(), Violation>
    where
        F: AsyncFn(&mut Trial<'_>) -> Result<(), Violation>,
    {
        let mut attempt = 1;
        loop {
            let mut trial = Trial::new(self);
            let Err(violation) = case(&mut trial).await else {
                return Ok(());
            };
            let undecided = trial.is_overdue() || violation.is_transient();
            if !undecided {
                return Err(violation);
            }
            if attempt == ATTEMPTS {
                return Err(violation.undecided(attempt, self.ttl));
            }
            attempt += 1;
        }
    }
}
