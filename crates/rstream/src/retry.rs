//! How long a message that failed waits before it is handed over again, and when enough is enough.

use std::time::Duration;

/// How the messages of a subscription are retried: the pause before each further attempt, and how many there are.
///
/// The pause begins at `first` and is multiplied by `factor` with every attempt that fails, up to `cap`. `jitter`
/// shortens each by chance, so that what failed together is not tried again together: with 0.5 a pause of 1 s is
/// drawn evenly from 500 ms to 1 s. [`HandlerOutcome::retry_after`](crate::HandlerOutcome::retry_after) puts a
/// delay of the handler's own in its place.
///
/// What can make no sense (no attempt at all, a factor below 1, a jitter outside 0 to 1, a first pause above the
/// cap) is an error when the app starts.
///
/// ```
/// use std::time::Duration;
/// use rstream::RetryPolicy;
///
/// let policy = RetryPolicy::exponential().first(Duration::from_millis(200)).max_attempts(5);
///
/// assert_eq!(policy.pause(1, 0.0), Duration::from_millis(200));
/// assert_eq!(policy.pause(2, 0.0), Duration::from_millis(400));
/// assert!(policy.is_last(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "a policy has no effect until a subscription is given it"]
pub struct RetryPolicy {
    first: Duration,
    cap: Duration,
    factor: f64,
    jitter: f64,
    max_attempts: Option<u32>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::exponential()
    }
}

impl RetryPolicy {
    /// The default: 200 ms, doubling up to 5 s, each shortened by up to half of it, without end.
    pub const fn exponential() -> Self {
        Self {
            first: Duration::from_millis(200),
            cap: Duration::from_secs(5),
            factor: 2.0,
            jitter: 0.5,
            max_attempts: None,
        }
    }

    /// The same pause before every attempt, without jitter and without end.
    pub const fn fixed(pause: Duration) -> Self {
        Self {
            first: pause,
            cap: pause,
            factor: 1.0,
            jitter: 0.0,
            max_attempts: None,
        }
    }

    /// The pause after the first attempt.
    pub const fn first(mut self, pause: Duration) -> Self {
        self.first = pause;
        self
    }

    /// The longest pause; at least the first one.
    pub const fn cap(mut self, pause: Duration) -> Self {
        self.cap = pause;
        self
    }

    /// By how much each pause is longer than the one before; at least 1.
    pub const fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// The part of a pause, from 0 to 1, that chance may take off.
    pub const fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    /// How often a message is handed over; at least once. Where the subscription has a place for dead letters, a batch
    /// that fails the last time is taken apart, and each of its messages is handed over as often again, alone. What
    /// fails the last time goes to the subscription's [`dead_letter`](crate::SubscriberBuilder::dead_letter), and is retried further, and reported,
    /// where there is none.
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// How long to wait after attempt number `attempt` (from 1) failed, given a number drawn evenly from 0 to 1; for
    /// authors of brokers.
    #[must_use]
    pub fn pause(&self, attempt: u32, random: f64) -> Duration {
        if self.first.is_zero() {
            return Duration::ZERO;
        }
        let grown =
            self.first.as_secs_f64() * self.factor.powf(f64::from(attempt.saturating_sub(1)));
        let full = grown.min(self.cap.as_secs_f64());
        let drawn = full * (1.0 - self.jitter * random.clamp(0.0, 1.0));
        Duration::try_from_secs_f64(drawn).map_or(self.cap, |pause| pause.min(self.cap))
    }

    /// Whether no attempt follows attempt number `attempt` (from 1); for authors of brokers.
    #[must_use]
    pub const fn is_last(&self, attempt: u32) -> bool {
        match self.max_attempts {
            Some(most) => attempt >= most,
            None => false,
        }
    }

    /// What about it can make no sense.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.max_attempts == Some(0) {
            return Some("max_attempts is 0: a message is handed over at least once".to_owned());
        }
        if !self.factor.is_finite() || self.factor < 1.0 {
            return Some(format!(
                "the factor of the retries is {}: it is a finite number from 1 up",
                self.factor
            ));
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Some(format!(
                "the jitter of the retries is {}: it is a number from 0 to 1",
                self.jitter
            ));
        }
        if self.first > self.cap {
            return Some(format!(
                "the first pause of the retries, {:?}, is above their cap, {:?}: raise the cap",
                self.first, self.cap
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn sound() -> impl Strategy<Value = RetryPolicy> {
        let pauses = (0..=u64::MAX, 0..=u64::MAX);
        (pauses, 1.0..1e6_f64, 0.0..=1.0_f64).prop_map(|((a, b), factor, jitter)| RetryPolicy {
            first: Duration::from_millis(a.min(b)),
            cap: Duration::from_millis(a.max(b)),
            factor,
            jitter,
            max_attempts: None,
        })
    }

    proptest! {
        #[test]
        fn a_pause_is_never_above_the_cap(policy in sound(), attempt: u32, random in 0.0..1.0_f64) {
            prop_assert_eq!(policy.fault(), None);
            prop_assert!(policy.pause(attempt, random) <= policy.cap);
        }

        #[test]
        fn without_chance_pauses_never_shrink(policy in sound(), attempt in 0..u32::MAX) {
            prop_assert!(policy.pause(attempt, 0.0) <= policy.pause(attempt + 1, 0.0));
        }

        #[test]
        fn chance_takes_no_more_than_the_jitter_off(
            policy in sound(),
            attempt: u32,
            (low, high) in (0.0..1.0_f64, Just(())).prop_flat_map(|(low, ())| (Just(low), low..1.0)),
        ) {
            let (full, drawn) = (policy.pause(attempt, 0.0), policy.pause(attempt, high));
            prop_assert!(drawn <= policy.pause(attempt, low));
            let least = full.as_secs_f64() * (1.0 - policy.jitter);
            prop_assert!(drawn.as_secs_f64() >= least * 0.999_999 - 1e-9);
        }

        #[test]
        fn no_policy_and_no_number_makes_a_pause_panic(
            (first, cap) in any::<(Duration, Duration)>(),
            (factor, jitter, random) in any::<(f64, f64, f64)>(),
            attempt: u32,
        ) {
            let policy = RetryPolicy { first, cap, factor, jitter, max_attempts: None };
            prop_assert!(policy.pause(attempt, random) <= cap);
        }
    }

    #[test]
    fn the_default_is_drawn_from_100_ms_up_to_5_s_and_doubles() {
        let policy = RetryPolicy::default();
        let pauses: Vec<_> = (1..9).map(|n| policy.pause(n, 0.0).as_millis()).collect();
        assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]);
        assert_eq!(policy.pause(1, 1.0), Duration::from_millis(100));
        assert!(!policy.is_last(u32::MAX));
    }

    #[test]
    fn a_fixed_pause_stays_and_chance_has_no_part_in_it() {
        let policy = RetryPolicy::fixed(Duration::from_secs(3));
        assert_eq!(policy.pause(1, 0.9), Duration::from_secs(3));
        assert_eq!(policy.pause(u32::MAX, 0.9), Duration::from_secs(3));
        assert_eq!(
            RetryPolicy::fixed(Duration::ZERO).pause(u32::MAX, 0.5),
            Duration::ZERO
        );
    }

    #[test]
    fn the_last_attempt_is_the_one_that_has_the_number() {
        let policy = RetryPolicy::default().max_attempts(3);
        assert_eq!([2, 3, 4].map(|n| policy.is_last(n)), [false, true, true]);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let sound = RetryPolicy::default();
        for (policy, says) in [
            (sound.max_attempts(0), "max_attempts is 0"),
            (sound.factor(0.5), "0.5"),
            (sound.factor(f64::NAN), "NaN"),
            (sound.factor(f64::INFINITY), "inf"),
            (sound.jitter(1.5), "1.5"),
            (sound.jitter(-0.1), "-0.1"),
            (sound.jitter(f64::NAN), "NaN"),
            (sound.first(Duration::from_secs(6)), "6s"),
        ] {
            let fault = policy.fault().unwrap();
            assert!(fault.contains(says), "{fault}");
        }
        assert_eq!(sound.max_attempts(1).factor(1.0).jitter(1.0).fault(), None);
    }
}
