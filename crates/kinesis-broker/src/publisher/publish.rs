//! What became of one record, as a future.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::outbox::{Outbox, Outcome, Taken};
use super::{PublishError, Record};

/// Where a record is stored ([PutRecordsResultEntry]).
///
/// [PutRecordsResultEntry]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecordsResultEntry.html
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Published {
    /// The shard.
    pub shard: String,
    /// The record's sequence number in the stream.
    pub sequence_number: String,
}

/// A record on its way. It ends once the record is stored, with shard and sequence number, or never will be.
///
/// The record has its place in the order from the call that made this, polled or not. While the publisher is full
/// ([`KinesisPublisher::max_in_flight_bytes`]) it waits here; then it is *accepted*, and leaves it.
///
/// # Cancel safety
///
/// Dropping this before the record is accepted takes the record back: it is not put. After that the record is put all
/// the same, and what became of it is not told; that it could not be stored is logged as an error.
///
/// [`KinesisPublisher::max_in_flight_bytes`]: crate::KinesisPublisher::max_in_flight_bytes
#[must_use = "it alone tells whether the record was stored"]
pub struct Publish(State);

enum State {
    Refused(Option<PublishError>),
    Taken { outbox: Arc<Outbox>, taken: Taken },
}

impl Publish {
    pub(crate) fn refused(error: PublishError) -> Self {
        Self(State::Refused(Some(error)))
    }

    pub(crate) fn offer(outbox: &Arc<Outbox>, record: Record, is_ordered: bool) -> Self {
        match outbox.offer(record, is_ordered) {
            Ok(taken) => Self(State::Taken {
                outbox: Arc::clone(outbox),
                taken,
            }),
            Err(error) => Self::refused(error),
        }
    }

    /// Waits until the publisher has room for the record, so that a producer does not run ahead of it:
    ///
    /// ```
    /// # use kinesis_broker::{KinesisPublisher, PublishError};
    /// # use kinesis_sim::KinesisSim;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let kinesis = KinesisSim::new().without_quotas();
    /// # kinesis.create_stream("lines", 2);
    /// # let publisher = KinesisPublisher::from_config(&kinesis.sdk_config()).start().await?;
    /// let lines = publisher.stream("lines")?;
    /// let mut under_way = Vec::new();
    /// for n in 0..10_000 {
    ///     let mut publish = lines.partition_key(n.to_string()).publish(&n);
    ///     publish.accepted().await;
    ///     under_way.push(publish);
    /// }
    /// for publish in under_way {
    ///     publish.await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It returns at once for a record that was refused, and when the publisher stops; awaiting this tells which.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future of this call changes nothing; the record keeps its place.
    pub async fn accepted(&mut self) {
        if let State::Taken { taken, .. } = &mut self.0
            && let Some(accepted) = &mut taken.accepted
        {
            // An end without an answer is the publisher's.
            let _ = accepted.await;
            taken.accepted = None;
        }
    }
}

impl Future for Publish {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        match &mut self.0 {
            State::Refused(error) => {
                let error = error.take();
                Poll::Ready(Err(error.expect("it is not polled after it has ended")))
            }
            State::Taken { outbox, taken } => {
                let told = ready!(Pin::new(&mut taken.told).poll(context));
                taken.accepted = None;
                Poll::Ready(told.unwrap_or_else(|_| Err(outbox.stopped())))
            }
        }
    }
}

impl Drop for Publish {
    fn drop(&mut self) {
        if let State::Taken { outbox, taken } = &self.0
            && taken.accepted.is_some()
        {
            outbox.withdraw(taken.place);
        }
    }
}

impl fmt::Debug for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Publish");
        match &self.0 {
            State::Refused(error) => debug.field("refused", error),
            State::Taken { outbox, .. } => debug.field("stream", outbox.stream()),
        };
        debug.finish_non_exhaustive()
    }
}
