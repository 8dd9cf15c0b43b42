//! What a simulation can be given before it starts. It alone knows the defaults.

use std::time::{Duration, SystemTime};

use crate::clock::Clock;
use crate::sim::KinesisSim;
use crate::world::{Settings, World};

/// 2026-01-01T00:00:00Z: a date like those of today, and the same in every run.
const DEFAULT_WALL_CLOCK: Duration = Duration::from_secs(1_767_225_600);

/// Sets up a [`KinesisSim`]; see [`KinesisSim::builder`].
#[derive(Clone, Debug)]
#[must_use = "there is no simulation until it is built"]
pub struct KinesisSimBuilder {
    seed: u64,
    wall_clock: SystemTime,
    settings: Settings,
}

impl Default for KinesisSimBuilder {
    fn default() -> Self {
        Self {
            seed: 0,
            wall_clock: SystemTime::UNIX_EPOCH + DEFAULT_WALL_CLOCK,
            settings: Settings {
                quotas: true,
                latency: Duration::ZERO..=Duration::ZERO,
                transition: Duration::ZERO,
                clock_skew: None,
            },
        }
    }
}

impl KinesisSimBuilder {
    /// What decides everything that chance decides: which calls a fault's rate strikes, which entries of a
    /// PutRecords fail, and how long a call within a latency range takes. 0 by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Whether the service's quotas are kept, such as five reads and 2 MiB a second from a shard, and 1,000
    /// records and 1 MiB a second into it. On by default.
    pub fn quotas(mut self, quotas: bool) -> Self {
        self.settings.quotas = quotas;
        self
    }

    /// The time of day when the simulation is built. 2026-01-01T00:00:00Z by default.
    pub fn wall_clock(mut self, wall_clock: SystemTime) -> Self {
        self.wall_clock = wall_clock;
        self
    }

    /// How long every call takes to reach the service. Zero by default; a call still yields to the runtime
    /// once.
    pub fn latency(self, latency: Duration) -> Self {
        self.latency_between(latency, latency)
    }

    /// How long a call takes to reach the service, drawn for each from the seed. A `longest` below `shortest`
    /// counts as `shortest`.
    pub fn latency_between(mut self, shortest: Duration, longest: Duration) -> Self {
        self.settings.latency = shortest..=longest.max(shortest);
        self
    }

    /// How long a stream stays CREATING, UPDATING or DELETING after a call that makes it so. Zero by default:
    /// the stream is ACTIVE, or gone, when the call is answered.
    pub fn transition(mut self, transition: Duration) -> Self {
        self.settings.transition = transition;
        self
    }

    /// How far the date of a call's signature may be from the service's time of day: the service refuses what
    /// is more than five minutes off, with InvalidSignatureException. Any date will do by default, so that a
    /// client may keep a clock of its own.
    pub fn clock_skew_limit(mut self, limit: Duration) -> Self {
        self.settings.clock_skew = Some(limit);
        self
    }

    /// Starts the simulation, at the present time of tokio's clock.
    pub fn build(self) -> KinesisSim {
        let clock = Clock::starting_at(self.wall_clock);
        KinesisSim::of(World::new(clock, self.seed, self.settings))
    }
}
