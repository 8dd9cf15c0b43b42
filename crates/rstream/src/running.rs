//! The app while it runs, and how it stops.

use std::any::{Any, TypeId, type_name};
use std::fmt;

use futures_util::future::{join_all, select_all};

use crate::AppError;
use crate::broker::{BoxFuture, Connection, Position, Reports};

/// An app that runs.
///
/// Dropping it aborts: no handler is called any more, running ones are dropped, nothing is settled or given
/// back. [`shutdown`](Self::shutdown) is the way that loses no time for others and repeats nothing.
#[must_use = "dropping a running app aborts it; keep it, and shut it down"]
pub struct Running {
    pub(crate) connections: Vec<Connected>,
    pub(crate) reports: Reports,
}

/// A broker that runs.
pub(crate) struct Connected {
    pub(crate) broker: &'static str,
    pub(crate) broker_id: TypeId,
    /// The names of what its subscriptions read.
    pub(crate) subscriptions: Vec<String>,
    pub(crate) connection: Box<dyn Connection>,
}

impl Running {
    /// Waits until a broker cannot go on and only a new start can help: a fault of the broker's own, not
    /// a service that is out of reach. Never, in the ordinary course of things.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn failed(&mut self) -> AppError {
        let failures = self.connections.iter_mut().map(|connected| {
            let broker = connected.broker;
            let failure = connected.connection.failed();
            Box::pin(async move {
                let source = failure.await;
                AppError::Broker { broker, source }
            })
        });
        let (failed, ..) = select_all(failures).await;
        failed
    }

    /// Moves the subscription to `subscription` to the position `to`, while it runs: what is read next is read from
    /// there. Handlers that run are finished, and their outcomes count; what waits for its turn or for a retry is
    /// forgotten.
    ///
    /// Returns once the move will outlast a crash, for all of the subscription that this instance reads; what others
    /// read is not moved. Where another move is asked for before this one is made, that one takes its place, and both
    /// return.
    ///
    /// `to` is a position of the subscription's broker, such as `kinesis-broker`'s `StartPosition`; it says which
    /// broker is meant where several have a subscription of that name.
    ///
    /// # Errors
    ///
    /// [`AppError::NoSuchSubscription`] where no broker of that type has such a subscription, and
    /// [`AppError::Broker`] where it cannot be moved.
    ///
    /// # Cancel safety
    ///
    /// A move whose future is dropped may have been made or not; ask for it again.
    pub fn seek<'a, P: Position>(
        &'a self,
        subscription: &'a str,
        to: P,
    ) -> BoxFuture<'a, Result<(), AppError>> {
        let broker = (TypeId::of::<P::Broker>(), type_name::<P::Broker>());
        Box::pin(self.seek_on(broker, subscription, Box::new(to)))
    }

    async fn seek_on(
        &self,
        (broker_id, broker): (TypeId, &'static str),
        subscription: &str,
        to: Box<dyn Any + Send>,
    ) -> Result<(), AppError> {
        let of_type = |connected: &&Connected| connected.broker_id == broker_id;
        let candidates = self.connections.iter().filter(of_type);
        let named = |connected: &&Connected| {
            let mut names = connected.subscriptions.iter();
            names.any(|name| name == subscription)
        };
        let Some(connected) = candidates.clone().find(named) else {
            let known = candidates.flat_map(|connected| connected.subscriptions.clone());
            return Err(AppError::NoSuchSubscription {
                subscription: subscription.to_owned(),
                broker,
                known: known.collect(),
            });
        };
        let moved = connected.connection.seek(subscription, to).await;
        moved.map_err(|source| AppError::Broker {
            broker: connected.broker,
            source,
        })
    }

    /// Stops reading, settles what is in flight, writes the last positions, and gives back what is held; all
    /// brokers at once.
    ///
    /// Handlers that run past the broker's time limit are dropped and what they had is left unsettled.
    ///
    /// # Errors
    ///
    /// What the first broker that fails says of its own shutdown; the others are shut down all the same, and
    /// what they say is reported to [`RustStream::on_error`](crate::RustStream::on_error).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts what had not stopped by then.
    pub async fn shutdown(self) -> Result<(), AppError> {
        let stopping = self.connections.into_iter().map(async |connected| {
            let broker = connected.broker;
            let stopped = connected.connection.shutdown().await;
            stopped.map_err(|source| AppError::Broker { broker, source })
        });
        let mut failed = join_all(stopping).await.into_iter().filter_map(Result::err);
        let Some(first) = failed.next() else {
            return Ok(());
        };
        failed.for_each(|error| self.reports.report(&error));
        Err(first)
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brokers = self.connections.iter().map(|connected| connected.broker);
        f.debug_tuple("Running")
            .field(&brokers.collect::<Vec<_>>())
            .finish()
    }
}
