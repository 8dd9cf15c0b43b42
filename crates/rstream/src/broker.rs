//! For authors of brokers: what an app asks of a broker, and what it gives to it.
//!
//! A broker is given [`Subscription`]s and calls their [`Handler`]s as their [`Policy`] says. It hands over bytes and
//! what it wants to attach to them; it gets a [`Verdict`] and the [`Reply`]s to publish. Retrying, ordering,
//! publishing and settling are the broker's business.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::pin::Pin;

use bytes::Bytes;

pub use crate::delivery::{Delivered, DeliveredBatch, Handler, Verdict};
pub use crate::outcome::Settlement;
pub use crate::reply::Reply;
pub use crate::reports::Reports;
pub use crate::subscription::{BatchLimits, OnUndecodable, Policy, Subscription};

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a broker's calls give.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync + 'static>>;

/// A message broker that an app can be put on.
pub trait Broker: Any + Send {
    /// Checks the configuration, connects, and starts to call the handlers of `subscriptions` (at least one).
    ///
    /// Returns once every subscription has tried to start: what the service does not give at that moment is
    /// reported and tried again, and only a configuration that can never work is an error.
    fn start(
        self: Box<Self>,
        subscriptions: Vec<Subscription>,
        reports: Reports,
    ) -> BoxFuture<'static, Result<Box<dyn Connection>>>;

    /// Checks the configuration as `start` does and connects `subscriptions` in process: no network.
    fn start_in_process(
        self: Box<Self>,
        subscriptions: Vec<Subscription>,
        reports: Reports,
    ) -> Result<Box<dyn InProcess>>;
}

/// A broker that runs. Dropping it aborts: no handler is called any more, and nothing is settled.
pub trait Connection: Send + Sync {
    /// Stops handing over, settles what is in flight, and gives back what the broker holds.
    fn shutdown(self: Box<Self>) -> BoxFuture<'static, Result<()>>;

    /// Resolves with the reason once the broker cannot go on and nothing but a new start can help; never,
    /// unless overridden. Cancel safe.
    fn failed(&mut self) -> BoxFuture<'_, Box<dyn Error + Send + Sync + 'static>> {
        Box::pin(std::future::pending())
    }

    /// Moves the subscription to `subscription` to `to`, which is a [`Position`] of this broker, and returns once the
    /// move will outlast a crash. A broker whose subscriptions cannot be moved says so, as it does unless overridden.
    fn seek<'a>(
        &'a self,
        subscription: &'a str,
        to: Box<dyn Any + Send>,
    ) -> BoxFuture<'a, Result<()>> {
        drop(to);
        Box::pin(async move { Err(format!("{subscription:?} cannot be moved").into()) })
    }
}

/// A place that a subscription of some broker can be moved to; see [`Running::seek`](crate::Running::seek).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no position that a subscription can be moved to",
    label = "not a position",
    note = "give a position of a broker, such as `StartPosition::trim_horizon()`"
)]
pub trait Position: Any + Send {
    /// The broker that understands it.
    type Broker: Broker;
}

/// A broker's in-process transport, for tests.
pub trait InProcess: Send + Sync {
    /// Hands `payloads` to the subscription to `destination`, in order; in batches as full as they can be, where it
    /// takes batches. Returns once all are settled.
    fn publish<'a>(
        &'a self,
        destination: &'a str,
        payloads: Vec<Bytes>,
    ) -> BoxFuture<'a, Result<()>>;

    /// What replies and dead letters have stored at `destination` so far, in order.
    fn published(&self, destination: &str) -> Vec<Bytes>;
}

/// What a subscription reads: a stream, a topic, a queue of some broker.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no source of messages",
    label = "not a source",
    note = "give a source of a broker, such as `KinesisStream::new(\"inventory\")`"
)]
pub trait Source: fmt::Debug + Send + Sync + 'static {
    /// The broker that reads it.
    type Broker: Broker;

    /// Its name at the broker: for a stream, the stream's name.
    fn name(&self) -> &str;
}
