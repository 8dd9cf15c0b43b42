//! What a program publishes through: the handles of one stream, and where a record's partition key comes from.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use rstream::Outgoing;
use serde::Serialize;

use super::outbox::Outbox;
use super::record::{Record, encode};
use super::{MAX_REQUEST_BYTES, Publish};

/// The most that a stream takes in a record unless it was told otherwise: 1 MiB ([UpdateMaxRecordSize]).
///
/// [UpdateMaxRecordSize]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_UpdateMaxRecordSize.html
const MAX_RECORD_BYTES: usize = 1024 * 1024;

/// One stream, to publish to; made by [`Publisher::stream`](crate::Publisher::stream). Cheap to clone.
///
/// Values are published as JSON. The partition key of a value is its own ([`publish`](Self::publish)), comes from a
/// closure ([`partition_key_by`](Self::partition_key_by)), or is given per call
/// ([`partition_key`](Self::partition_key)).
///
/// ```
/// use kinesis_broker::KinesisPublisher;
/// use kinesis_sim::KinesisSim;
/// use rstream::Outgoing;
/// use serde::Serialize;
///
/// #[derive(Outgoing, Serialize)]
/// #[outgoing(partition_key = "sku")]
/// struct StockChange {
///     sku: u64,
///     delta: i64,
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let kinesis = KinesisSim::new();
/// # kinesis.create_stream("inventory", 2);
/// # let publisher = KinesisPublisher::from_config(&kinesis.sdk_config()).start().await?;
/// let inventory = publisher.stream("inventory")?;
/// let change = StockChange { sku: 7, delta: -3 };
///
/// inventory.publish(&change).await?;
///
/// let by_sign = inventory.partition_key_by(|change: &StockChange| change.delta.signum().to_string());
/// by_sign.publish(&change).await?;
///
/// let published = inventory.partition_key("anything").publish_bytes("not JSON").await?;
/// println!("{} has it as {}", published.shard, published.sequence_number);
/// # Ok(())
/// # }
/// ```
///
/// # Order
///
/// Records of one partition key are stored in the order of the calls that published them, through whichever handles of
/// this stream: while one is under way or waits for its retry, later ones of its key wait, and those of other keys go
/// on. [`unordered`](Self::unordered) gives that up.
#[derive(Clone, Debug)]
pub struct StreamPublisher {
    handle: Arc<Handle>,
    max_record_bytes: usize,
    is_ordered: bool,
}

/// When the last handle is gone, nothing more comes.
#[derive(Debug)]
pub(crate) struct Handle(pub(crate) Arc<Outbox>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.drain();
    }
}

impl StreamPublisher {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self {
            handle,
            max_record_bytes: MAX_RECORD_BYTES,
            is_ordered: true,
        }
    }

    /// The largest record that this handle lets through, in bytes of its data and its partition key together: 1 MiB
    /// unless it is set, as of a stream that [UpdateMaxRecordSize] was not called for. More than the 10 MiB that a
    /// stream can take counts as 10 MiB.
    ///
    /// [UpdateMaxRecordSize]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_UpdateMaxRecordSize.html
    #[must_use]
    pub fn max_record_bytes(mut self, limit: usize) -> Self {
        self.max_record_bytes = limit.min(MAX_REQUEST_BYTES);
        self
    }

    /// Keeps no order among the records of this handle, nor between them and those of others.
    ///
    /// Any number of records of one key can then be in one PutRecords call and in several at once. With order there is
    /// at most one record of a key under way, so that a key has at most one record stored in each round trip.
    #[must_use]
    pub fn unordered(mut self) -> Self {
        self.is_ordered = false;
        self
    }

    /// The stream's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.handle.0.stream()
    }

    /// Publishes a value under its own partition key.
    ///
    /// # Errors
    ///
    /// The returned future tells of a record that is refused (too large, a key that is none, a value that is not
    /// JSON, a stream that is missing), is given up, or meets a publisher that was shut down. What a new attempt can
    /// help is retried before.
    ///
    /// # Cancel safety
    ///
    /// See [`Publish`].
    pub fn publish<T: Outgoing + Serialize + ?Sized>(&self, value: &T) -> Publish {
        self.partition_key(value.partition_key()).publish(value)
    }

    /// The partition key of what is published next, whatever its type.
    pub fn partition_key<'k>(&self, key: impl Into<Cow<'k, str>>) -> Keyed<'_> {
        let key: Cow<'_, str> = key.into();
        Keyed {
            stream: self,
            partition_key: Arc::from(key),
            explicit_hash_key: None,
        }
    }

    /// A handle on the same stream whose values have the partition key that `key` gives them.
    #[must_use]
    pub fn partition_key_by<T: Serialize + ?Sized>(
        &self,
        key: impl Fn(&T) -> String + Send + Sync + 'static,
    ) -> KeyedPublisher<T> {
        KeyedPublisher {
            stream: self.clone(),
            key: Arc::new(key),
        }
    }
}

/// A partition key and what is published under it; made by [`StreamPublisher::partition_key`].
#[derive(Clone, Debug)]
#[must_use = "nothing is published yet"]
pub struct Keyed<'s> {
    stream: &'s StreamPublisher,
    partition_key: Arc<str>,
    explicit_hash_key: Option<u128>,
}

impl Keyed<'_> {
    /// Puts the record into the shard that owns this hash key, instead of that of the partition key's hash
    /// ([PutRecordsRequestEntry]). Order is kept by partition key all the same; a reader has it only within a shard.
    ///
    /// [PutRecordsRequestEntry]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecordsRequestEntry.html
    pub fn explicit_hash_key(mut self, hash_key: u128) -> Self {
        self.explicit_hash_key = Some(hash_key);
        self
    }

    /// Publishes a value; see [`StreamPublisher::publish`].
    pub fn publish<T: Serialize + ?Sized>(self, value: &T) -> Publish {
        match encode(self.stream.name(), value) {
            Ok(data) => self.publish_bytes(data),
            Err(error) => Publish::refused(error),
        }
    }

    /// Publishes these bytes as they are; see [`StreamPublisher::publish`].
    pub fn publish_bytes(self, data: impl Into<Bytes>) -> Publish {
        let record = Record {
            partition_key: self.partition_key,
            explicit_hash_key: self.explicit_hash_key,
            data: data.into(),
        };
        let stream = self.stream;
        match record.check(stream.name(), stream.max_record_bytes) {
            Ok(()) => Publish::offer(&stream.handle.0, record, stream.is_ordered),
            Err(error) => Publish::refused(error),
        }
    }
}

/// One stream, to publish values of one type to, with a partition key from a closure; made by
/// [`StreamPublisher::partition_key_by`]. Cheap to clone.
pub struct KeyedPublisher<T: ?Sized> {
    stream: StreamPublisher,
    key: Arc<dyn Fn(&T) -> String + Send + Sync>,
}

impl<T: Serialize + ?Sized> KeyedPublisher<T> {
    /// Publishes a value; see [`StreamPublisher::publish`].
    pub fn publish(&self, value: &T) -> Publish {
        let key = (self.key)(value);
        self.stream.partition_key(key).publish(value)
    }
}

impl<T: ?Sized> Clone for KeyedPublisher<T> {
    fn clone(&self) -> Self {
        Self {
            stream: self.stream.clone(),
            key: Arc::clone(&self.key),
        }
    }
}

impl<T: ?Sized> fmt::Debug for KeyedPublisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedPublisher")
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}
