//! Time, as the world has it and as each instance believes it to be.
//!
//! The world's time is what the history is written in. An instance lives on its runtime's monotonic clock, which
//! may run fast or slow, and dates its signatures by a wall clock that may jump; it knows no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use aws_smithy_async::time::TimeSource;
use tokio::time::Instant;

/// The time of day at the world's time zero, as the time since the Unix epoch: 2026-01-01T00:00:00Z, a date like
/// today's and the same in each run.
const ZERO: Duration = Duration::from_secs(1_767_225_600);

/// The time of day at the world's time zero.
pub(crate) fn epoch() -> SystemTime {
    SystemTime::UNIX_EPOCH + ZERO
}

const MILLION: u128 = 1_000_000;

/// A runtime's monotonic clock beside the world's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The runtime's time when the clock was set.
    started: Instant,
    /// The world's time at that moment.
    origin: Duration,
    /// How many parts in a million more than the world's this clock counts.
    ppm: i32,
}

impl Clock {
    /// Sets the clock of the current runtime.
    pub(crate) fn starting_at(origin: Duration, ppm: i32) -> Self {
        Self {
            started: Instant::now(),
            origin,
            ppm,
        }
    }

    fn rate(self) -> u128 {
        // More than a million parts off would be a clock that stands still.
        (MILLION as i128 + i128::from(self.ppm)).unsigned_abs()
    }

    /// The world's time now.
    pub(crate) fn now(self) -> Duration {
        let local = self.started.elapsed().as_nanos();
        self.origin + nanos(local * MILLION / self.rate())
    }

    /// The moment of the runtime's clock at which the world's time is `at`, or a little less: tokio's timers
    /// count whole milliseconds.
    pub(crate) fn instant(self, at: Duration) -> Instant {
        let since = at.saturating_sub(self.origin).as_nanos();
        let local = since * self.rate() / MILLION;
        self.started + nanos(local / MILLION * MILLION)
    }
}

fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The time of day that an instance goes by.
#[derive(Clone, Debug)]
pub(crate) struct WallClock {
    clock: Clock,
    /// By how many seconds it is off.
    off_by: Arc<AtomicI64>,
}

impl WallClock {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            off_by: Arc::default(),
        }
    }

    /// It jumps.
    pub(crate) fn jump(&self, seconds: i64) {
        self.off_by.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl TimeSource for WallClock {
    fn now(&self) -> SystemTime {
        let now = epoch() + self.clock.now();
        let off_by = self.off_by.load(Ordering::Relaxed);
        let by = Duration::from_secs(off_by.unsigned_abs());
        if off_by < 0 { now - by } else { now + by }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fast_clock_counts_more_than_the_world_and_tells_the_worlds_time_all_the_same() {
        let origin = Duration::from_secs(5);
        let clock = Clock::starting_at(origin, 500);
        tokio::time::sleep_until(clock.instant(Duration::from_secs(2_005))).await;
        assert_eq!(clock.started.elapsed(), Duration::from_secs(2_001));
        assert_eq!(clock.now(), Duration::from_secs(2_005));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_clock_never_runs_ahead_of_the_moment_it_was_driven_to() {
        let clock = Clock::starting_at(Duration::ZERO, -500);
        for quantum in 1..=1_000 {
            let at = Duration::from_millis(10 * quantum);
            tokio::time::sleep_until(clock.instant(at)).await;
            assert!(clock.now() <= at && at - clock.now() < Duration::from_millis(2));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wall_clock_jumps_both_ways() {
        let wall = WallClock::new(Clock::starting_at(Duration::ZERO, 0));
        wall.jump(-3_600);
        assert_eq!(wall.now(), epoch() - Duration::from_secs(3_600));
        wall.jump(7_200);
        assert_eq!(wall.now(), epoch() + Duration::from_secs(3_600));
    }
}
