//! What the user is told when something is wrong.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use lease_core::{LeaseError, LeaseKey};
use rstream::DecodeError;

use crate::{KinesisStream, PublishError};

/// What went wrong, with the stream and the shard where there is one.
///
/// Some end a start: a configuration that can never work. The others are reported to
/// [`RustStream::on_error`](rstream::RustStream::on_error) while the app goes on and tries again.
///
/// ```
/// use kinesis_broker::prelude::*;
///
/// # let app = RustStream::new(AppInfo::new("inventory", "0.1.0"));
/// let app = app.on_error(|error| match error.downcast_ref::<KinesisError>() {
///     Some(KinesisError::Lease { stream, shard, source }) => {
///         eprintln!("the lease store fails for {shard} of {stream}: {source}");
///     }
///     _ => eprintln!("{error}"),
/// });
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KinesisError {
    /// A call to the lease store failed. The shard is tried again at the next listing, and the others go on.
    #[error("lease of shard {shard} of stream {stream}: {source}")]
    Lease {
        /// The stream.
        stream: String,
        /// The shard; where a call for many shards failed, one of them.
        shard: String,
        /// What the store said.
        source: LeaseError,
    },
    /// The shards of a stream could not be listed. It is tried again at the next listing.
    #[error("cannot list the shards of stream {stream}: {source}")]
    Listing {
        /// The stream.
        stream: String,
        /// What the service said.
        source: ServiceError,
    },
    /// A shard could not be read. It is tried again with back-off, and a run of failures is reported once.
    #[error("cannot read shard {shard} of stream {stream}: {source}")]
    Read {
        /// The stream.
        stream: String,
        /// The shard.
        shard: String,
        /// What the service said.
        source: ServiceError,
    },
    /// A record is not what the handler takes, which was not called. Nothing of its payload is kept here.
    #[error("record {sequence_number} of shard {shard} of stream {stream} {fate}: {source}")]
    Undecodable {
        /// The stream.
        stream: String,
        /// The shard.
        shard: String,
        /// The record's sequence number.
        sequence_number: String,
        /// What becomes of it, by the subscription's `on_undecodable`: it "was dropped", "goes to the dead letters", or
        /// "is tried again".
        fate: &'static str,
        /// The wanted type, and where decoding failed.
        source: DecodeError,
    },
    /// A reply or a dead letter of a record cannot be stored, and is tried again; the record is not settled before, and
    /// those behind it wait. Told once for each record; of a reply that no stream takes, at every doubling of the attempts.
    #[error(
        "a reply or dead letter of record {sequence_number} of shard {shard} of stream {stream} is not stored, and is tried again: {source}"
    )]
    NotStored {
        /// The stream that the record was read from.
        stream: String,
        /// The shard.
        shard: String,
        /// The record's sequence number.
        sequence_number: String,
        /// Why not, with the name of the stream that it goes to.
        source: Box<PublishError>,
    },
    /// A record ought to be a dead letter, by its handler's word or after its last attempt, and the subscription has no
    /// `dead_letter(..)`. It is retried, and those behind it wait. Told the first time, and at every doubling of the
    /// attempts.
    #[error(
        "record {sequence_number} of shard {shard} of stream {stream} ought to be a dead letter after {attempts} attempts ({reason}), \
         and the subscription names no place for any: it is tried again"
    )]
    NoDeadLetters {
        /// The stream.
        stream: String,
        /// The shard.
        shard: String,
        /// The record's sequence number.
        sequence_number: String,
        /// How often it was handed over.
        attempts: u32,
        /// Why.
        reason: String,
    },
    /// A handler was still running at the end of the shutdown's time limit, and was dropped. Its record is
    /// unsettled: whoever reads the shard next is given it again.
    #[error(
        "shard {shard} of stream {stream} was given up unsettled: its handler ran past the shutdown limit of {limit:?}"
    )]
    Unsettled {
        /// The stream.
        stream: String,
        /// The shard.
        shard: String,
        /// The limit, set by `KinesisBroker::shutdown_timeout`.
        limit: Duration,
    },
    /// A reader ended by a panic of this library's own. The shard is taken again when its lease has run out.
    #[error("the reader of shard {shard} of stream {stream} panicked; please report this as a bug")]
    Panicked {
        /// The stream.
        stream: String,
        /// The shard.
        shard: String,
    },
    /// The loop that lists and assigns shards ended by a panic of this library's own: nothing is read any
    /// more, and only a new start helps. `RustStream::run` ends with it.
    #[error("the coordinator panicked, and nothing is read any more; please report this as a bug")]
    CoordinatorPanicked,
    /// A stream's name is one that the service refuses.
    #[error("{name:?} is no name of a stream: {reason}")]
    StreamName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A duration that has to be longer than zero is zero.
    #[error("{setting} is zero{}: give it a duration above zero", of_stream(.stream.as_deref()))]
    ZeroDuration {
        /// The setting, as its method is named.
        setting: &'static str,
        /// The stream, where it is a setting of one.
        stream: Option<String>,
    },
    /// A number that a setting cannot be.
    #[error("{setting} is {value}{}: {reason}", of_stream(.stream.as_deref()))]
    Setting {
        /// The setting, as its method is named.
        setting: &'static str,
        /// The stream, where it is a setting of one.
        stream: Option<String>,
        /// What it was set to.
        value: usize,
        /// What it can be.
        reason: &'static str,
    },
    /// The name of a generation cannot be one.
    #[error(
        "{generation:?} is no generation of stream {stream}: give it 1 to 64 of a-z, A-Z, 0-9, '_', '.' and '-'"
    )]
    Generation {
        /// The stream.
        stream: String,
        /// The name.
        generation: String,
    },
    /// Shards were not moved: this instance does not hold them, or gave them up before the move was in the store.
    #[error(
        "stream {stream} is not moved: {}; move its shards where they are held",
        if .shards.is_empty() { "this instance holds no shard".to_owned() } else { .shards.join(", ") }
    )]
    NotMoved {
        /// The stream.
        stream: String,
        /// The shards; none, where all were asked for and none is held.
        shards: Vec<String>,
    },
    /// Two subscriptions of one broker read one stream: each shard has one lease, so one would read nothing.
    #[error(
        "two subscriptions of one broker read stream {stream}: include one handler, or use two brokers with two lease stores"
    )]
    TwoSubscriptions {
        /// The stream.
        stream: String,
    },
    /// The owner id is blank.
    #[error("{owner:?} is no owner id: {reason}")]
    OwnerId {
        /// The owner id.
        owner: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is no region in the configuration, in the environment, or in a profile.
    #[error(
        "no AWS region: call KinesisBroker::region or KinesisPublisher::region, or set AWS_REGION or a profile's region"
    )]
    NoRegion,
    /// The endpoint is no URL.
    #[error("{endpoint:?} is no endpoint: {reason}; write it as http://127.0.0.1:4567")]
    Endpoint {
        /// The endpoint.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// `test_credentials` was asked for without an endpoint of one's own: AWS refuses them.
    #[error(
        "test_credentials without an endpoint: AWS refuses them; give an `endpoint` too, or leave them out"
    )]
    TestCredentials,
    /// A test published to a stream that no subscription reads.
    #[error("no subscription reads stream {stream}")]
    NoSubscription {
        /// The stream.
        stream: String,
    },
}

impl KinesisError {
    /// A call to the lease store about this shard failed.
    pub(crate) fn lease(key: &LeaseKey, source: LeaseError) -> Self {
        Self::Lease {
            stream: KinesisStream::of_leases(key.stream()).to_owned(),
            shard: key.shard().to_owned(),
            source,
        }
    }
}

fn of_stream(stream: Option<&str>) -> String {
    stream
        .map(|stream| format!(" for stream {stream}"))
        .unwrap_or_default()
}

/// What Kinesis answered, or why there was no answer. Clones share one source.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{operation}: {said}{}", advice(*.kind, .operation))]
pub struct ServiceError {
    operation: &'static str,
    kind: ServiceErrorKind,
    said: String,
    #[source]
    source: Arc<dyn Error + Send + Sync + 'static>,
}

impl ServiceError {
    pub(crate) fn new(
        operation: &'static str,
        kind: ServiceErrorKind,
        said: String,
        source: Box<dyn Error + Send + Sync + 'static>,
    ) -> Self {
        Self {
            operation,
            kind,
            said,
            source: source.into(),
        }
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> ServiceErrorKind {
        self.kind
    }

    /// Whether the same call can succeed later without anybody doing anything.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.kind,
            ServiceErrorKind::Throttled | ServiceErrorKind::Unavailable
        )
    }

    /// The operation, as the API reference names it.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }
}

/// A kind of failed call to Kinesis, by what it means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServiceErrorKind {
    /// A quota is used up. The same call can succeed later.
    Throttled,
    /// The iterator is older than five minutes ([GetShardIterator]): the shard has to be opened again.
    ///
    /// [GetShardIterator]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetShardIterator.html
    ExpiredIterator,
    /// There is no such stream or shard.
    NotFound,
    /// The caller may not do this.
    AccessDenied,
    /// The service refuses an argument, such as a position that the shard does not have.
    InvalidArgument,
    /// The service failed, or could not be reached. The same call can succeed later.
    Unavailable,
}

fn advice(kind: ServiceErrorKind, operation: &str) -> &'static str {
    match kind {
        ServiceErrorKind::NotFound => " (is it the right name, region and account?)",
        ServiceErrorKind::AccessDenied if operation == "PutRecords" => {
            " (the role needs kinesis:PutRecords, and kms:GenerateDataKey where the stream is encrypted)"
        }
        ServiceErrorKind::AccessDenied => {
            " (the role needs kinesis:ListShards, kinesis:GetShardIterator and kinesis:GetRecords)"
        }
        _ => "",
    }
}
