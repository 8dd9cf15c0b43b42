//! What became of a record that is not stored.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::ServiceError;

/// Why a record is not stored, as its [`Publish`](crate::Publish) tells.
///
/// [`is_retryable`](Self::is_retryable) says whether publishing it again can help without anybody doing anything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The record is too large, and was not sent.
    #[error(
        "a record of {size} bytes with its partition key is too large for stream {stream}, which takes {limit}: make it \
         smaller, or raise the stream's limit by UpdateMaxRecordSize and then StreamPublisher::max_record_bytes"
    )]
    TooLarge {
        /// The stream.
        stream: String,
        /// The bytes of the record's data and its partition key.
        size: usize,
        /// The most that they may be together.
        limit: usize,
    },
    /// The partition key is none, and the record was not sent. A key has 1 to 256 Unicode characters
    /// ([PutRecordsRequestEntry]).
    ///
    /// [PutRecordsRequestEntry]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecordsRequestEntry.html
    #[error("a partition key of {length} characters for stream {stream}: give it 1 to 256")]
    PartitionKey {
        /// The stream.
        stream: String,
        /// How many characters the key has.
        length: usize,
    },
    /// The value could not be written as JSON, and nothing was sent.
    #[error("cannot encode a {type_name} as JSON for stream {stream}: {source}")]
    Encode {
        /// The stream.
        stream: String,
        /// The type of the value.
        type_name: &'static str,
        /// What its implementation of `Serialize` said.
        source: Box<dyn Error + Send + Sync + 'static>,
    },
    /// The service refuses the record, and would again: the stream does not exist, the caller may not write to it, or
    /// the record is not one for this stream.
    #[error("stream {stream} refuses the record: {source}")]
    Refused {
        /// The stream.
        stream: String,
        /// What the service said.
        source: ServiceError,
    },
    /// The record was not stored in the time that [`KinesisPublisher::give_up_after`] allows. An attempt without an
    /// answer may have stored it all the same.
    ///
    /// [`KinesisPublisher::give_up_after`]: crate::KinesisPublisher::give_up_after
    #[error("the record for stream {stream} was given up after {after:?}{}", last(.source.as_ref()))]
    GaveUp {
        /// The stream.
        stream: String,
        /// The time allowed.
        after: Duration,
        /// The last failure on this stream, if there was any: without, more is published than can be put.
        source: Option<ServiceError>,
    },
    /// The publisher has been shut down, or its runtime has ended. An attempt that was under way may have stored the
    /// record all the same.
    #[error("the publisher to stream {stream} has stopped")]
    Stopped {
        /// The stream.
        stream: String,
    },
}

impl PublishError {
    /// Whether the same record can be stored later without anybody doing anything.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::GaveUp { .. })
    }
}

fn last(source: Option<&ServiceError>) -> String {
    source
        .map(|source| format!("; the last failure: {source}"))
        .unwrap_or_default()
}

/// Records that were published before a [`flush`](crate::Publisher::flush) or a
/// [`shutdown`](crate::Publisher::shutdown), and are not stored. Why, each one's own [`Publish`](crate::Publish) tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unstored {
    /// Only streams with any.
    pub(crate) streams: Vec<(String, usize)>,
}

impl Unstored {
    /// How many they are.
    #[must_use]
    pub fn records(&self) -> usize {
        self.streams.iter().map(|(_, records)| records).sum()
    }

    /// How many of each stream, for those with any, in the order of their names.
    pub fn streams(&self) -> impl Iterator<Item = (&str, usize)> {
        let streams = self.streams.iter();
        streams.map(|(stream, records)| (stream.as_str(), *records))
    }
}

impl fmt::Display for Unstored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not stored:")?;
        for (at, (stream, records)) in self.streams().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let s = if records == 1 { "" } else { "s" };
            write!(f, "{comma} {records} record{s} for stream {stream}")?;
        }
        Ok(())
    }
}

impl Error for Unstored {}
