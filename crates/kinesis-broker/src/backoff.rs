//! How long to wait before a call is made again: exponential, capped, with jitter from a seed.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// Counts the failures in a row of one kind of call, and says how long to wait after each.
#[derive(Debug)]
pub(crate) struct Backoff {
    shape: Shape,
    rng: fastrand::Rng,
    streak: Option<ExponentialBackoff>,
}

/// Delays grow from the first, to which jitter adds, and stay within the last, jitter included.
#[derive(Clone, Copy, Debug)]
struct Shape {
    first: Duration,
    at_most: Duration,
}

impl Backoff {
    /// For reads: the service counts five a second against a shard.
    pub(crate) fn of_reads(seed: u64) -> Self {
        Self::new(Duration::from_millis(250), Duration::from_secs(10), seed)
    }

    /// For calls to the lease store: several tries fit into a lease.
    pub(crate) fn of_leases(seed: u64) -> Self {
        Self::new(Duration::from_millis(250), Duration::from_secs(2), seed)
    }

    /// For records that are put: the service counts against a shard by the second.
    pub(crate) fn of_puts(seed: u64) -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(2), seed)
    }

    fn new(first: Duration, at_most: Duration, seed: u64) -> Self {
        Self {
            shape: Shape { first, at_most },
            rng: fastrand::Rng::with_seed(seed),
            streak: None,
        }
    }

    /// Whether the last try succeeded, so that a failure now is the first of its streak.
    pub(crate) fn is_fresh(&self) -> bool {
        self.streak.is_none()
    }

    /// A try succeeded: the next failure starts a new streak.
    pub(crate) fn reset(&mut self) {
        self.streak = None;
    }

    /// A try failed: how long to wait before the next one.
    pub(crate) fn next(&mut self) -> Duration {
        let Shape { first, at_most } = self.shape;
        let streak = self.streak.get_or_insert_with(|| {
            // `backon` adds up to as much again as jitter.
            ExponentialBuilder::new()
                .with_min_delay(first)
                .with_max_delay(at_most / 2)
                .with_jitter()
                .with_jitter_seed(self.rng.u64(..))
                .without_max_times()
                .build()
        });
        streak.next().unwrap_or(at_most)
    }

    /// How long to wait after so many failures in a row of something that counts its own.
    pub(crate) fn after(&mut self, failures: u32) -> Duration {
        self.reset();
        // Long before as many, the delay has grown to its last.
        for _ in 1..failures.min(32) {
            self.next();
        }
        let delay = self.next();
        self.reset();
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_from_the_first_to_the_last_and_never_past_it() {
        let mut backoff = Backoff::of_puts(7);
        assert!(backoff.is_fresh());
        let delays: Vec<_> = (0..20).map(|_| backoff.next()).collect();

        assert!(delays[0] >= Duration::from_millis(100));
        assert!(delays[0] <= Duration::from_millis(200));
        assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(2)));
        assert!(delays[10] >= Duration::from_secs(1));
        assert!(!backoff.is_fresh());
    }

    #[test]
    fn a_success_starts_again_with_short_delays() {
        let mut backoff = Backoff::of_reads(7);
        for _ in 0..10 {
            backoff.next();
        }
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(500));
    }

    #[test]
    fn a_count_of_failures_has_the_delay_of_a_streak_of_as_many() {
        let mut backoff = Backoff::of_puts(7);
        for (failures, shortest, longest) in [
            (1, 100, 200),
            (2, 200, 400),
            (4, 800, 1_600),
            (9, 1_000, 2_000),
            (u32::MAX, 1_000, 2_000),
        ] {
            let delay = backoff.after(failures);
            let within = Duration::from_millis(shortest)..=Duration::from_millis(longest);
            assert!(within.contains(&delay), "{failures}: {delay:?}");
            assert!(backoff.is_fresh());
        }
        assert_ne!(backoff.after(3), backoff.after(3));
    }

    #[test]
    fn one_seed_gives_one_run_of_delays() {
        let delays = |seed| {
            let mut backoff = Backoff::of_leases(seed);
            (0..8).map(|_| backoff.next()).collect::<Vec<_>>()
        };
        assert_eq!(delays(1), delays(1));
        assert_ne!(delays(1), delays(2));
    }
}
