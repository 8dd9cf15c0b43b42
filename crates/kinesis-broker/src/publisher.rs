//! Records out: what the user configures.
//!
//! Each stream has an outbox and a task of its own, so that a stream that fails delays no other.

mod batch;
mod error;
mod outbox;
mod publish;
mod record;
mod running;
mod stream;
mod worker;

use std::fmt;
use std::time::Duration;

use aws_config::SdkConfig;

use self::batch::Limits;
use self::record::Record;
use crate::KinesisError;
use crate::broker::ambient_seed;
use crate::connect::Connect;

pub use self::error::{PublishError, Unstored};
pub use self::publish::{Publish, Published};
pub use self::running::Publisher;
pub use self::stream::{Keyed, KeyedPublisher, StreamPublisher};

/// The most records of a call ([PutRecords]).
///
/// [PutRecords]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecords.html
const MAX_REQUEST_RECORDS: usize = 500;
/// The most bytes of a call, partition keys included ([PutRecords]): 10 MiB.
///
/// [PutRecords]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecords.html
const MAX_REQUEST_BYTES: usize = 10 * 1024 * 1024;

/// How to publish to Amazon Kinesis Data Streams, before [`start`](Self::start) makes a [`Publisher`] of it.
///
/// ```
/// use std::time::Duration;
///
/// use kinesis_broker::KinesisPublisher;
/// use kinesis_sim::KinesisSim;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // In a service: `KinesisPublisher::new()`. Here, a Kinesis in this process.
/// let kinesis = KinesisSim::new();
/// kinesis.create_stream("inventory", 2);
///
/// let publisher = KinesisPublisher::from_config(&kinesis.sdk_config())
///     .linger(Duration::from_millis(5))
///     .start()
///     .await?;
/// let inventory = publisher.stream("inventory")?;
/// let published = inventory.partition_key("sku-7").publish(&-3).await?;
/// println!("{} has it as {}", published.shard, published.sequence_number);
///
/// publisher.shutdown().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Batches
///
/// A stream's records are put together: a PutRecords call is made as soon as there are [`max_records`](Self::max_records)
/// or [`max_bytes`](Self::max_bytes) for one, or the oldest has waited for [`linger`](Self::linger). Of each partition
/// key only one record is under way at a time; see [`StreamPublisher`].
///
/// # Failures
///
/// What can be stored later is put again, with back-off and jitter between 100 ms and 2 s, and without what was stored
/// beside it: throttling, failures of the service, connections that break, and answers that do not come within 10 s. It
/// goes on until it succeeds, or for as long as [`give_up_after`](Self::give_up_after) says. The first of a run of
/// failures is logged as a warning. A stream that is missing, access that is denied, and a record that the stream
/// refuses are told at once; where a call is refused for one of its records, that one alone is told.
///
/// Every record is stored *at least* once: where an answer is lost, the record was perhaps stored, and is put again.
#[derive(Clone)]
#[must_use = "nothing can be published until it is started"]
pub struct KinesisPublisher {
    kinesis: Connect,
    settings: Settings,
    seed: Option<u64>,
}

/// What the user set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    linger: Duration,
    max_records: usize,
    max_bytes: usize,
    max_calls: usize,
    max_in_flight_bytes: usize,
    give_up_after: Option<Duration>,
    shutdown_timeout: Duration,
}

impl Settings {
    /// For what handlers want published: they wait for it, so nothing lingers, and it is not given up.
    pub(crate) fn of_replies(shutdown_timeout: Duration) -> Self {
        Self {
            linger: Duration::ZERO,
            shutdown_timeout,
            ..KinesisPublisher::new().settings
        }
    }

    fn check(&self) -> Result<(), KinesisError> {
        for (setting, value, most, reason) in [
            (
                "max_records",
                self.max_records,
                MAX_REQUEST_RECORDS,
                "a PutRecords call takes 1 to 500",
            ),
            (
                "max_bytes",
                self.max_bytes,
                MAX_REQUEST_BYTES,
                "a PutRecords call takes 1 to 10,485,760",
            ),
            (
                "max_calls",
                self.max_calls,
                usize::MAX,
                "without a call nothing is put: give it 1 or more",
            ),
            (
                "max_in_flight_bytes",
                self.max_in_flight_bytes,
                usize::MAX,
                "without room nothing is put: give it 1 or more",
            ),
        ] {
            if value == 0 || value > most {
                return Err(KinesisError::Setting {
                    setting,
                    stream: None,
                    value,
                    reason,
                });
            }
        }
        let durations = [
            ("give_up_after", self.give_up_after),
            ("shutdown_timeout", Some(self.shutdown_timeout)),
        ];
        for (setting, duration) in durations {
            if duration == Some(Duration::ZERO) {
                return Err(KinesisError::ZeroDuration {
                    setting,
                    stream: None,
                });
            }
        }
        Ok(())
    }

    fn limits(&self) -> Limits {
        let linger = match self.give_up_after {
            Some(limit) => self.linger.min(limit / 2),
            None => self.linger,
        };
        Limits {
            records: self.max_records,
            bytes: self.max_bytes,
            linger,
            held: self.max_in_flight_bytes,
            give_up_after: self.give_up_after,
        }
    }
}

impl KinesisPublisher {
    /// A publisher that finds its region and credentials when it starts, as the AWS SDK does by default: from the
    /// environment, a profile, a web identity, the container or the instance.
    pub fn new() -> Self {
        Self {
            kinesis: Connect::default(),
            settings: Settings {
                linger: Duration::from_millis(20),
                max_records: MAX_REQUEST_RECORDS,
                max_bytes: MAX_REQUEST_BYTES,
                max_calls: 8,
                max_in_flight_bytes: 32 * 1024 * 1024,
                give_up_after: None,
                shutdown_timeout: Duration::from_secs(30),
            },
            seed: None,
        }
    }

    /// A publisher on this configuration of the AWS SDK: its region, credentials, endpoint, HTTP client and sleep.
    pub fn from_config(config: &SdkConfig) -> Self {
        let mut publisher = Self::new();
        publisher.kinesis.config = Some(config.clone());
        publisher
    }

    /// The URL to reach Kinesis at, instead of the region's own: a VPC endpoint, or a local server such as
    /// `http://127.0.0.1:4567`. One that is no URL is an error at start.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.kinesis.endpoint = Some(url.into());
        self
    }

    /// The AWS region, such as `eu-central-1`, whatever the environment says.
    pub fn region(mut self, name: impl Into<String>) -> Self {
        self.kinesis.region = Some(name.into());
        self
    }

    /// Credentials that a local server takes and AWS refuses. Without an [`endpoint`](Self::endpoint) of one's own
    /// they are an error at start.
    pub fn test_credentials(mut self) -> Self {
        self.kinesis.test_credentials = true;
        self
    }

    /// How long a record waits for others to share its call, from when it is published: 20 ms unless it is set. With
    /// zero it goes at once, with what was published in the same moment. No retry waits for company, nor does a record
    /// that [`Publisher::flush`] or a shutdown waits for.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.settings.linger = linger;
        self
    }

    /// The most records of a call: the service's 500 ([PutRecords]) unless it is set. Zero and more are an error at
    /// start.
    ///
    /// [PutRecords]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecords.html
    pub fn max_records(mut self, records: usize) -> Self {
        self.settings.max_records = records;
        self
    }

    /// The most bytes of a call, data before base64 and partition keys together: the service's 10 MiB ([PutRecords])
    /// unless it is set. Zero and more are an error at start. A record that is larger goes alone.
    ///
    /// A call has 10 s. Set less where the way to Kinesis is slower than a third more than this in that time.
    ///
    /// [PutRecords]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecords.html
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_bytes = bytes;
        self
    }

    /// The most calls under way at once for each stream: 8 unless it is set. Zero is an error at start.
    pub fn max_calls(mut self, calls: usize) -> Self {
        self.settings.max_calls = calls;
        self
    }

    /// How many bytes of records are accepted for each stream and not stored yet: 32 MiB unless it is set. What is
    /// published past that waits, in its order, until there is room ([`Publish::accepted`]). Zero is an error at start.
    ///
    /// Each record counts with its data, its partition key and 256 bytes besides; one that is larger than this is
    /// accepted alone. The calls under way hold copies, so that a publisher takes up to three times as much memory.
    pub fn max_in_flight_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_in_flight_bytes = bytes;
        self
    }

    /// How long after it was published a record is still put again: without end unless it is set. No attempt begins
    /// later; one that is under way then is waited for. A record that is given up lets the next of its key go, and none
    /// lingers for more than half of this. Zero is an error at start.
    pub fn give_up_after(mut self, limit: Duration) -> Self {
        self.settings.give_up_after = Some(limit);
        self
    }

    /// How long [`Publisher::shutdown`] waits for records to be stored: 30 seconds unless it is set. Zero is an error
    /// at start.
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.settings.shutdown_timeout = limit;
        self
    }

    /// Seeds all jitter, so that a run on a paused clock can be repeated.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts a publisher on the current tokio runtime. It makes no call of its own before something is published.
    ///
    /// # Errors
    ///
    /// A setting that can never work, with its name and value; no region.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future of this call starts nothing.
    pub async fn start(self) -> Result<Publisher, KinesisError> {
        self.kinesis.check()?;
        self.settings.check()?;
        let service = self.kinesis.service().await?;
        let seed = self.seed.unwrap_or_else(ambient_seed);
        Ok(Publisher::new(service, self.settings, seed))
    }
}

impl Default for KinesisPublisher {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for KinesisPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KinesisPublisher")
            .field("endpoint", &self.kinesis.endpoint)
            .field("region", &self.kinesis.region)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
