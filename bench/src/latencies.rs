//! How old records are when they are handled, on tokio's clock.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Collects ages, until there are enough.
#[derive(Debug)]
pub(crate) struct Latencies {
    started: Instant,
    expected: usize,
    ages: Mutex<Vec<Duration>>,
    done: Notify,
}

impl Latencies {
    /// From now on, so many.
    pub(crate) fn of(expected: usize) -> Self {
        Self {
            started: Instant::now(),
            expected,
            ages: Mutex::new(Vec::with_capacity(expected)),
            done: Notify::new(),
        }
    }

    /// Now, as a record carries it.
    pub(crate) fn now(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// Takes in a record that carries when it was put.
    pub(crate) fn handled(&self, put_at: i64) {
        let age = u64::try_from(self.now() - put_at).unwrap_or(0);
        let mut ages = self.ages();
        ages.push(Duration::from_micros(age));
        if ages.len() == self.expected {
            self.done.notify_one();
        }
    }

    /// All of them, once they are there, the youngest first.
    pub(crate) async fn sorted(&self) -> Vec<Duration> {
        self.done.notified().await;
        let mut ages = std::mem::take(&mut *self.ages());
        ages.sort_unstable();
        ages
    }

    fn ages(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.ages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The age that so many of a thousand records do not exceed, in milliseconds.
pub(crate) fn permille(sorted: &[Duration], of_thousand: usize) -> f64 {
    let place = (sorted.len() * of_thousand)
        .div_ceil(1_000)
        .saturating_sub(1);
    sorted
        .get(place)
        .map_or(f64::NAN, |age| age.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_four_is_the_second_and_the_last_is_all_of_them() {
        let ages = [1, 2, 3, 4].map(Duration::from_millis);
        assert_eq!(permille(&ages, 500), 2.0);
        assert_eq!(permille(&ages, 990), 4.0);
        assert_eq!(permille(&ages, 1), 1.0);
        assert!(permille(&[], 500).is_nan());
    }
}
