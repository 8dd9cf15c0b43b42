//! Everything that the simulation holds, behind one lock. It alone knows in what order a call is counted,
//! struck by faults, held to the account's quotas, and served.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::api::{Conditions, Request};
use crate::calls::Calls;
use crate::clock::{Clock, Timestamp};
use crate::error::ServiceError;
use crate::fault::{Fate, FaultBook, PartialFailure, Target, Verdict};
use crate::operation::Operation;
use crate::quota::{self, CallRate};
use crate::sequence::Sequencer;
use crate::stream::{ACCOUNT, Stream, Transition};

/// The state of one simulated account in one region.
#[derive(Debug)]
pub(crate) struct World {
    clock: Clock,
    latest: Timestamp,
    pub(crate) streams: BTreeMap<String, Stream>,
    pub(crate) sequencer: Sequencer,
    pub(crate) rng: fastrand::Rng,
    pub(crate) settings: Settings,
    pub(crate) faults: FaultBook,
    pub(crate) outage: bool,
    pub(crate) calls: Calls,
    pub(crate) iterators: Iterators,
    account_rates: BTreeMap<Operation, CallRate>,
    incarnations: u64,
    answers: u64,
}

/// How the service is set up.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Whether the service's quotas are kept.
    pub(crate) quotas: bool,
    pub(crate) latency: RangeInclusive<Duration>,
    /// How long a stream takes to be created, updated or deleted.
    pub(crate) transition: Duration,
    /// How far off the date of a signature may be.
    pub(crate) clock_skew: Option<Duration>,
}

/// Which of the shard iterators issued so far were made to expire.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Iterators {
    issued: u64,
    expired: u64,
}

impl Iterators {
    pub(crate) fn issue(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }

    pub(crate) fn expire_all(&mut self) {
        self.expired = self.issued;
    }

    pub(crate) fn have_expired(self, serial: u64) -> bool {
        serial <= self.expired
    }
}

/// The state, as every handle and connection shares it.
#[derive(Clone, Debug)]
pub(crate) struct SharedWorld(Arc<Mutex<World>>);

impl SharedWorld {
    pub(crate) fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    /// The state. A panic of another holder, such as a failed assertion in a test, leaves it usable.
    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    pub(crate) fn new(clock: Clock, seed: u64, settings: Settings) -> Self {
        Self {
            clock,
            latest: clock.now(),
            streams: BTreeMap::new(),
            sequencer: Sequencer::default(),
            rng: fastrand::Rng::with_seed(seed),
            settings,
            faults: FaultBook::default(),
            outage: false,
            calls: Calls::default(),
            iterators: Iterators::default(),
            account_rates: BTreeMap::new(),
            incarnations: 0,
            answers: 0,
        }
    }

    /// The time, which never runs backwards, though two runtimes' paused clocks may disagree.
    pub(crate) fn now(&mut self) -> Timestamp {
        self.latest = self.latest.max(self.clock.now());
        let now = self.latest;
        self.streams.retain(|_, stream| !stream.is_gone(now));
        now
    }

    /// Numbers an answer, for its request id.
    pub(crate) fn next_answer(&mut self) -> u64 {
        self.answers += 1;
        self.answers
    }

    pub(crate) fn create_stream(
        &mut self,
        name: &str,
        shard_count: usize,
        now: Timestamp,
    ) -> Result<&mut Stream, ServiceError> {
        if self.streams.contains_key(name) {
            return Err(ServiceError::in_use(format!(
                "Stream {name} under account {ACCOUNT} already exists."
            )));
        }
        self.incarnations += 1;
        let stream = Stream::create(
            name,
            shard_count,
            self.incarnations,
            &mut self.sequencer,
            now,
        );
        Ok(self.streams.entry(name.to_owned()).or_insert(stream))
    }

    /// A stream by name, with what numbers its records.
    pub(crate) fn stream(
        &mut self,
        name: &str,
    ) -> Result<(&mut Stream, &mut Sequencer), ServiceError> {
        match self.streams.get_mut(name) {
            Some(stream) => Ok((stream, &mut self.sequencer)),
            None => Err(ServiceError::not_found(format!(
                "Stream {name} under account {ACCOUNT} not found."
            ))),
        }
    }

    /// A stream that has been created, and so can be read and written.
    pub(crate) fn usable_stream(
        &mut self,
        name: &str,
        now: Timestamp,
    ) -> Result<(&mut Stream, &mut Sequencer), ServiceError> {
        let (stream, sequencer) = self.stream(name)?;
        if stream.transition(now) == Some(Transition::Creating) {
            return Err(ServiceError::not_found(format!(
                "Stream {name} under account {ACCOUNT} not found."
            )));
        }
        Ok((stream, sequencer))
    }

    /// A stream that is ACTIVE, and so can be changed.
    pub(crate) fn active_stream(
        &mut self,
        name: &str,
        now: Timestamp,
    ) -> Result<(&mut Stream, &mut Sequencer), ServiceError> {
        let (stream, sequencer) = self.stream(name)?;
        match stream.transition(now) {
            None => Ok((stream, sequencer)),
            Some(transition) => Err(ServiceError::in_use(format!(
                "Stream {name} under account {ACCOUNT} not ACTIVE, instead in state {}",
                transition.status()
            ))),
        }
    }

    /// Counts a call that has arrived, and says what becomes of it.
    pub(crate) fn arrive(&mut self, call: &Target) -> Verdict {
        let now = self.now();
        self.calls.count(call);
        let mut verdict = if self.outage {
            Verdict::of(Fate::Reset)
        } else {
            self.faults.judge(call, &mut self.rng, now)
        };
        verdict.delay += self.draw_latency();
        verdict
    }

    fn draw_latency(&mut self) -> Duration {
        let spread = self
            .settings
            .latency
            .end()
            .saturating_sub(*self.settings.latency.start());
        if spread.is_zero() {
            return *self.settings.latency.start();
        }
        let nanos = u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX);
        *self.settings.latency.start() + Duration::from_nanos(self.rng.u64(0..=nanos))
    }

    /// Lets a call take effect, and gives the body of its answer.
    pub(crate) fn serve(
        &mut self,
        request: Box<dyn Request>,
        signed_at: Option<Timestamp>,
        partial: Option<PartialFailure>,
    ) -> Result<Vec<u8>, ServiceError> {
        let now = self.now();
        self.check_signature(signed_at, now)?;
        self.hold_to_account_quota(request.operation(), now)?;
        request.run(self, &Conditions { now, partial })
    }

    fn check_signature(
        &self,
        signed_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), ServiceError> {
        let (Some(limit), Some(signed_at)) = (self.settings.clock_skew, signed_at) else {
            return Ok(());
        };
        if now.since(signed_at).max(signed_at.since(now)) <= limit {
            return Ok(());
        }
        Err(ServiceError::invalid_signature(format!(
            "Signature expired or not yet current: it is of {} s, and it is {} s now, with {} s allowed.",
            signed_at.seconds(),
            now.seconds(),
            limit.as_secs()
        )))
    }

    fn hold_to_account_quota(
        &mut self,
        operation: Operation,
        now: Timestamp,
    ) -> Result<(), ServiceError> {
        let Some(limit) = quota::account_limit(operation).filter(|_| self.settings.quotas) else {
            return Ok(());
        };
        let rate = self.account_rates.entry(operation);
        if rate
            .or_insert_with(|| CallRate::per_second(limit))
            .accept(now)
        {
            Ok(())
        } else {
            Err(ServiceError::limit_exceeded(format!(
                "Rate exceeded for {operation} under account {ACCOUNT}."
            )))
        }
    }
}
