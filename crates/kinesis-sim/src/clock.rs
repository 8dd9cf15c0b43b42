//! The simulation's clock. It alone knows how tokio's clock becomes a time of day, and how a time of day
//! looks on the wire.

use std::time::{Duration, SystemTime};

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use serde::{Serialize, Serializer};
use tokio::time::Instant;

/// A moment on the simulation's wall clock, as the time since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp(Duration);

impl Timestamp {
    /// Reads the wire's form: seconds since the epoch with a fraction, of which milliseconds count.
    ///
    /// Anything before the epoch, and anything that is no number, is the epoch itself.
    pub(crate) fn from_seconds(seconds: f64) -> Self {
        // A double near today's seconds is off by up to 0.24 µs, which must not cost a whole millisecond.
        let millis = (seconds * 1_000.0 + 0.001).floor().max(0.0);
        Self::from_millis(millis as u64)
    }

    pub(crate) fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    pub(crate) fn from_system_time(time: SystemTime) -> Self {
        Self(
            time.duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default(),
        )
    }

    /// Reads the date of a signature, such as `20260101T000000Z` (Signature Version 4, X-Amz-Date).
    pub(crate) fn from_signature_date(text: &str) -> Option<Self> {
        let part = |range| text.get(range);
        let (year, month, day) = (part(0..4)?, part(4..6)?, part(6..8)?);
        let (hour, minute, second) = (part(9..11)?, part(11..13)?, part(13..15)?);
        let text = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
        let date = DateTime::from_str(&text, Format::DateTime).ok()?;
        u64::try_from(date.secs())
            .ok()
            .map(|seconds| Self(Duration::from_secs(seconds)))
    }

    pub(crate) fn system_time(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.0
    }

    pub(crate) fn millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn seconds(self) -> u64 {
        self.0.as_secs()
    }

    pub(crate) fn to_millis_precision(self) -> Self {
        Self::from_millis(self.millis())
    }

    pub(crate) fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }

    pub(crate) fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by))
    }

    /// How long after `earlier` this is; zero when it is not after it at all.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.millis() as f64 / 1_000.0)
    }
}

/// Tokio's clock, started at a given time of day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    base: Timestamp,
    started: Instant,
}

impl Clock {
    pub(crate) fn starting_at(base: SystemTime) -> Self {
        Self {
            base: Timestamp::from_system_time(base),
            started: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.base
            .plus(Instant::now().saturating_duration_since(self.started))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_survives_the_wire_to_the_millisecond() {
        for millis in [
            0,
            1,
            999,
            1_767_225_600_123,
            1_767_225_600_999,
            4_102_444_799_001,
        ] {
            let there = Timestamp(Duration::from_millis(millis));
            let wire = serde_json::to_string(&there).unwrap();
            assert_eq!(
                Timestamp::from_seconds(wire.parse().unwrap()),
                there,
                "{wire}"
            );
        }
    }

    #[test]
    fn a_signatures_date_is_read() {
        let read = Timestamp::from_signature_date;
        let new_year = Timestamp::from_millis(1_767_225_600_000);
        assert_eq!(read("20260101T000000Z"), Some(new_year));
        assert_eq!(
            read("20251231T235959Z"),
            Some(new_year.minus(Duration::from_secs(1)))
        );
        assert_eq!(read("2026"), None);
        assert_eq!(read("20261301T000000Z"), None);
    }

    #[test]
    fn a_time_before_the_epoch_is_the_epoch() {
        assert_eq!(Timestamp::from_seconds(-5.0), Timestamp(Duration::ZERO));
        assert_eq!(Timestamp::from_seconds(f64::NAN), Timestamp(Duration::ZERO));
    }
}
