//! What a subscription reads: a stream, from where, how often, and how much of it at once.

use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime};

use lease_core::Checkpoint;
use rstream::broker::Source;

use crate::leasing::lineage::{Position, Start};
use crate::reading::assignment::Terms;
use crate::{KinesisBroker, KinesisError, Prefetch};

/// Sets a generation apart from its stream in the names of leases. No stream's name has it.
const GENERATION: char = '@';

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
    concurrency: usize,
    checkpointing: Checkpointing,
    prefetch: Prefetch,
    generation: Option<String>,
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
            concurrency: 1,
            checkpointing: Checkpointing::EveryAck,
            prefetch: Prefetch::default(),
            generation: None,
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

    /// How many records of one shard may be in handlers at once; one unless it is set.
    ///
    /// Never two of the same partition key: the records of a key are handled in their order, one after the other,
    /// through retries and redelivery; a record whose key has one in hand waits, and others go past it, while no more
    /// than eight times `records` wait so. The checkpoint follows the settled prefix all the same, so a crash redelivers
    /// everything behind the oldest record that was not settled, and what is settled while a checkpoint is being
    /// written; no more than 4,096 records are handed over from that oldest one on. A hand-over, a shutdown and the end
    /// of a shard redeliver nothing: records that others went past are settled first, also those that are being retried,
    /// within [`KinesisBroker::hand_over_timeout`] and [`KinesisBroker::shutdown_timeout`].
    /// Zero is an error at start, and so is more than one for a handler of batches.
    ///
    /// Records without a partition key, in a stream that distributes them itself, pass for records of one key.
    pub fn concurrency(mut self, records: usize) -> Self {
        self.concurrency = records;
        self
    }

    /// When settled positions are written to the lease store; [`Checkpointing::EveryAck`] unless it is set.
    pub fn checkpointing(mut self, when: Checkpointing) -> Self {
        self.checkpointing = when;
        self
    }

    /// How much is read ahead of the handler; `Prefetch::default()` unless it is set.
    pub fn prefetch(mut self, limits: Prefetch) -> Self {
        self.prefetch = limits;
        self
    }

    /// Starts afresh under this name: with leases and checkpoints of its own, so that every shard is read from
    /// [`start_at`](Self::start_at) on, whatever was read before, and what was read before is left as it was.
    ///
    /// It replays a stream for a whole fleet, through all that was resharded, without a table being deleted; back under
    /// the former name, or none, the service goes on where it was. The instances that are to share the stream bear one
    /// generation; those of another read it for themselves. Rows of a generation that nobody uses any more stay in the
    /// store until somebody deletes them.
    ///
    /// It has 1 to 64 of the characters of a stream's name; another is an error at start.
    ///
    /// ```
    /// use kinesis_broker::{KinesisStream, StartPosition};
    ///
    /// let inventory = KinesisStream::new("inventory")
    ///     .generation("2026-11-after-the-price-fix")
    ///     .start_at(StartPosition::trim_horizon());
    /// ```
    pub fn generation(mut self, name: impl Into<String>) -> Self {
        self.generation = Some(name.into());
        self
    }

    /// What its leases are named by.
    pub(crate) fn lease_name(&self) -> String {
        match &self.generation {
            Some(generation) => format!("{}{GENERATION}{generation}", self.name),
            None => self.name.clone(),
        }
    }

    /// The stream whose leases are named so.
    pub(crate) fn of_leases(name: &str) -> &str {
        name.split_once(GENERATION)
            .map_or(name, |(stream, _)| stream)
    }

    pub(crate) fn start(&self) -> Start {
        self.start_at.0
    }

    pub(crate) fn terms(&self) -> Terms {
        Terms {
            pause: self.poll_interval,
            concurrency: NonZeroUsize::new(self.concurrency).unwrap_or(NonZeroUsize::MIN),
            checkpoint_every: match self.checkpointing {
                Checkpointing::EveryAck => None,
                Checkpointing::Interval(interval) => Some(interval),
            },
        }
    }

    pub(crate) fn prefetch_limits(&self) -> Prefetch {
        self.prefetch
    }

    /// Whether it can be given to a handler of batches, where it is.
    pub(crate) fn check_batches(&self, has_batches: bool) -> Result<(), KinesisError> {
        if has_batches && self.concurrency > 1 {
            return Err(KinesisError::Setting {
                setting: "concurrency",
                stream: Some(self.name.clone()),
                value: self.concurrency,
                reason: "a handler of batches is given one batch of a shard at a time; leave it at one",
            });
        }
        Ok(())
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
        if !self.name.chars().all(is_of_a_name) {
            return wrong("it has a character besides a-z, A-Z, 0-9, '_', '.' and '-'");
        }
        if let Some(generation) = &self.generation
            && !((1..=64).contains(&generation.len()) && generation.chars().all(is_of_a_name))
        {
            return Err(KinesisError::Generation {
                stream: self.name.clone(),
                generation: generation.clone(),
            });
        }
        let interval = match self.checkpointing {
            Checkpointing::EveryAck => None,
            Checkpointing::Interval(interval) => Some(("checkpointing interval", interval)),
        };
        let durations = [Some(("poll_interval", self.poll_interval)), interval];
        for (setting, duration) in durations.into_iter().flatten() {
            if duration.is_zero() {
                return Err(KinesisError::ZeroDuration {
                    setting,
                    stream: Some(self.name.clone()),
                });
            }
        }
        if self.concurrency == 0 {
            return Err(KinesisError::Setting {
                setting: "concurrency",
                stream: Some(self.name.clone()),
                value: 0,
                reason: "give it one or more",
            });
        }
        Ok(())
    }
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

impl Source for KinesisStream {
    type Broker = KinesisBroker;

    fn name(&self) -> &str {
        &self.name
    }
}

/// When the positions that acknowledgements settle are written to the lease store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Checkpointing {
    /// Every acknowledgement that moves a shard's checkpoint is one call to the store.
    ///
    /// With a [concurrency](KinesisStream::concurrency) of one it is made before the next record is handed over, so
    /// that a crash redelivers one record of a shard at most. Above one, handlers do not wait for it, and what is
    /// settled while a call is under way shares the next.
    EveryAck,
    /// The newest settled position is written at most once in so long for each shard, and always when a shard is
    /// handed over or read to its end and when the broker is shut down.
    ///
    /// Handlers do not wait for it. A crash redelivers what was settled in the last interval, and in the call under way,
    /// besides what was in hand; a hand-over, a shutdown and the end of a shard redeliver nothing. Zero is an error at start.
    Interval(Duration),
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

    /// This position in one shard alone, for [`Running::seek`](rstream::Running::seek).
    #[must_use]
    pub fn in_shard(self, shard: impl Into<String>) -> ShardPosition {
        ShardPosition {
            shard: shard.into(),
            position: self,
        }
    }

    /// Where a shard goes on that is moved here, and the checkpoint that says so, where it is known before the
    /// shard is open.
    pub(crate) fn moves_to(self) -> (Position, Option<Checkpoint>) {
        match self.0 {
            Start::Latest => (Position::Latest, None),
            Start::TrimHorizon => {
                let oldest = Checkpoint::at_timestamp(SystemTime::UNIX_EPOCH);
                (Position::TrimHorizon, Some(oldest))
            }
            Start::AtTimestamp(moment) => {
                let checkpoint = Checkpoint::at_timestamp(moment);
                (Position::AtTimestamp(moment), Some(checkpoint))
            }
        }
    }
}

/// Moves every shard of a subscription that this instance holds; other instances move theirs. Where one of them cannot
/// be moved, since it goes to another instance meanwhile, that is an error, and the others are moved all the same.
///
/// A shard that is moved back hands its records over again; shards that were read to their ends stay so. To replay what
/// was resharded, or a stream for a whole fleet, start a new [`generation`](KinesisStream::generation).
///
/// ```
/// use kinesis_broker::prelude::*;
/// # use kinesis_sim::KinesisSim;
/// # use tokio::sync::mpsc;
/// # struct Forward(mpsc::UnboundedSender<i64>);
/// # impl Handle<i64> for Forward {
/// #     async fn handle(&self, change: &i64, _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
/// #         self.0.send(*change).map_err(|_| HandlerOutcome::retry())
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), rstream::AppError> {
/// # let kinesis = KinesisSim::new();
/// # kinesis.create_stream("inventory", 1);
/// # let broker = KinesisBroker::from_config(&kinesis.sdk_config());
/// # let (changes, mut handled) = mpsc::unbounded_channel();
/// # let app = RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
/// #     b.include(subscriber(KinesisStream::new("inventory"), Forward(changes)).build());
/// # });
/// let running = app.start().await?;
/// # kinesis.put("inventory", "sku-7", "-3");
/// # assert_eq!(handled.recv().await, Some(-3));
///
/// // Everything that the stream still has, once more.
/// running.seek("inventory", StartPosition::trim_horizon()).await?;
/// # assert_eq!(handled.recv().await, Some(-3));
///
/// // One shard alone.
/// let first = StartPosition::latest().in_shard("shardId-000000000000");
/// running.seek("inventory", first).await?;
/// # running.shutdown().await
/// # }
/// ```
impl rstream::broker::Position for StartPosition {
    type Broker = KinesisBroker;
}

/// A position in one shard of a stream; made by [`StartPosition::in_shard`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPosition {
    pub(crate) shard: String,
    pub(crate) position: StartPosition,
}

impl rstream::broker::Position for ShardPosition {
    type Broker = KinesisBroker;
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
