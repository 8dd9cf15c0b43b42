//! Why an app cannot start, or did not end as it should.

use std::error::Error;
use std::io;

/// An error of any kind that a broker gives.
pub(crate) type BoxError = Box<dyn Error + Send + Sync + 'static>;

/// Why an app could not start, or did not stop as asked.
///
/// What goes wrong while the app runs does not end it: it reaches [`RustStream::on_error`](crate::RustStream::on_error).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// The app has no broker.
    #[error("the app {app:?} has no broker: give it one with RustStream::with_broker")]
    NoBroker {
        /// The app's name.
        app: String,
    },
    /// A broker has no subscription.
    #[error(
        "the app {app:?} includes no subscription on {broker}: call b.include(..) in with_broker"
    )]
    NoSubscription {
        /// The app's name.
        app: String,
        /// The broker's type.
        broker: &'static str,
    },
    /// A subscription was included on a broker that its source does not belong to.
    #[error(
        "{source_type} ({subscription:?}) is read by {wanted}, but it was included on {broker}"
    )]
    WrongBroker {
        /// The name of what the subscription reads.
        subscription: String,
        /// The type of its source.
        source_type: &'static str,
        /// The type of the broker that the source belongs to.
        wanted: &'static str,
        /// The type of the broker that it was included on.
        broker: &'static str,
    },
    /// A subscription asks for deliveries that can never be made.
    #[error("the subscription to {subscription:?} cannot work: {reason}")]
    Policy {
        /// The name of what the subscription reads.
        subscription: String,
        /// What is wrong, with the value that is.
        reason: String,
    },
    /// A handler needs a state that the app was not given.
    #[error(
        "the handler of {subscription:?} needs a state of type {type_name}: give the app one with \
         RustStream::with_state"
    )]
    MissingState {
        /// The name of what the subscription reads.
        subscription: String,
        /// The state's type.
        type_name: &'static str,
    },
    /// The app was given two states of one type, which nothing could tell apart.
    #[error(
        "the app {app:?} was given two states of type {type_name}: wrap one in a type of its own"
    )]
    DuplicateState {
        /// The app's name.
        app: String,
        /// Their type.
        type_name: &'static str,
    },
    /// No subscription of that name can be moved to such a position.
    #[error(
        "{broker} has no subscription to {subscription:?} to be moved; subscriptions: {known:?}"
    )]
    NoSuchSubscription {
        /// The name that was given.
        subscription: String,
        /// The type of the broker that the position belongs to.
        broker: &'static str,
        /// The names of that broker's subscriptions.
        known: Vec<String>,
    },
    /// A broker refused its configuration, or could not start, stop or move a
    /// subscription. The source is the broker's own error.
    #[error("{source}")]
    Broker {
        /// The broker's type.
        broker: &'static str,
        /// The broker's own error: `kinesis-broker` gives a `KinesisError`.
        source: BoxError,
    },
    /// The process cannot listen for SIGINT or SIGTERM.
    #[error("cannot listen for signals: {0}")]
    Signal(#[source] io::Error),
    /// A second signal came while the app was shutting down: what had not settled by then was dropped.
    #[error("a second signal ended the shutdown before everything had settled")]
    Interrupted,
    /// A test published a value that the subscription's codec cannot write.
    #[error("the message cannot be encoded: {0}")]
    Encode(#[source] BoxError),
}
