//! What a subscription reads: a stream, from where, and how often.

use std::time::{Duration, SystemTime};

use rstream::broker::Source;

use crate::leasing::lineage::Start;
use crate::{KinesisBroker, KinesisError};

/// A Kinesis data stream to subscribe to.
///
/// ```
/// use std::time::Duration;
/// use kinesis_broker::{KinesisStream, StartPosition};
///
/// let inventory = KinesisStream::new("inventory")
///     .start_at(StartPosition::trim_horizon())
///     .poll_interval(Duration::from_millis(500));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a stream is read by the subscription that it is given to"]
pub struct KinesisStream {
    name: String,
    start_at: StartPosition,
    poll_interval: Duration,
}

impl KinesisStream {
    /// The stream of this name, in the broker's region and account.
    ///
    /// A name has 1 to 128 of the characters `a-z`, `A-Z`, `0-9`, `_`, `.` and `-` ([CreateStream]); another
    /// is an error at start.
    ///
    /// [CreateStream]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_CreateStream.html
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            start_at: StartPosition::latest(),
            poll_interval: Duration::from_secs(1),
        }
    }

    /// Where a shard opens that has no checkpoint yet; [`StartPosition::latest`] unless it is set.
    pub fn start_at(mut self, position: StartPosition) -> Self {
        self.start_at = position;
        self
    }

    /// The pause between two reads of a shard that had nothing new; one second unless it is set.
    ///
    /// A shard that had records is read again without it, within the service's five reads a second
    /// ([GetRecords]). Zero is an error at start.
    ///
    /// [GetRecords]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html
    pub fn poll_interval(mut self, pause: Duration) -> Self {
        self.poll_interval = pause;
        self
    }

    pub(crate) fn start(&self) -> Start {
        self.start_at.0
    }

    pub(crate) fn pause(&self) -> Duration {
        self.poll_interval
    }

    /// Whether the service could know such a stream, and whether it can be read at this pace.
    pub(crate) fn check(&self) -> Result<(), KinesisError> {
        let wrong = |reason| {
            Err(KinesisError::StreamName {
                name: self.name.clone(),
                reason,
            })
        };
        if self.name.is_empty() {
            return wrong("it is empty");
        }
        if self.name.chars().count() > 128 {
            return wrong("it has more than 128 characters");
        }
        if !self
            .name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
        {
            return wrong("it has a character besides a-z, A-Z, 0-9, '_', '.' and '-'");
        }
        if self.poll_interval.is_zero() {
            return Err(KinesisError::ZeroDuration {
                setting: "poll_interval",
                stream: Some(self.name.clone()),
            });
        }
        Ok(())
    }
}

impl Source for KinesisStream {
    type Broker = KinesisBroker;

    fn name(&self) -> &str {
        &self.name
    }
}

/// Where a shard opens that has no checkpoint ([StartingPosition]).
///
/// [StartingPosition]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_StartingPosition.html
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartPosition(Start);

impl StartPosition {
    /// The tip (`LATEST`): what is put from now on.
    ///
    /// The moment is taken once for each shard and kept in the lease store, so that a crash before the first
    /// acknowledgement skips nothing.
    #[must_use]
    pub const fn latest() -> Self {
        Self(Start::Latest)
    }

    /// The oldest record that the stream still has (`TRIM_HORIZON`).
    #[must_use]
    pub const fn trim_horizon() -> Self {
        Self(Start::TrimHorizon)
    }

    /// The first record put at or after this moment, by the service's clock (`AT_TIMESTAMP`).
    ///
    /// A moment that the service refuses becomes [`trim_horizon`](Self::trim_horizon), with a warning.
    #[must_use]
    pub const fn at_timestamp(moment: SystemTime) -> Self {
        Self(Start::AtTimestamp(moment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_service_refuses_is_refused_by_its_own_text() {
        for bad in ["", &"x".repeat(129), "in ventory", "lager/ä", "a:b"] {
            let error = KinesisStream::new(bad).check().unwrap_err();
            assert!(error.to_string().contains(&format!("{bad:?}")), "{error}");
        }
        for good in ["inventory", "a", "A.b_c-9", &"x".repeat(128)] {
            KinesisStream::new(good).check().unwrap();
        }
    }

    #[test]
    fn a_zero_pause_is_refused_with_the_name_of_its_stream() {
        let error = KinesisStream::new("inventory")
            .poll_interval(Duration::ZERO)
            .check()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "poll_interval is zero for stream inventory: give it a duration above zero"
        );
    }
}
