//! What all shards of a subscription are handled with, and how what their handlers want published is stored.

use std::sync::{Arc, OnceLock};

use rstream::broker::{Handler, Policy, Reply, Reports, Subscription};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::error::ServiceErrorKind;
use crate::outlet::{Outlet, Parcel};
use crate::publisher::PublishError;
use crate::reading::record::RecordInfo;
use crate::{KinesisError, dead_letter};

/// A subscription, as its readers see it.
#[derive(Debug)]
pub(crate) struct Handling {
    pub(crate) handler: Handler,
    pub(crate) policy: Policy,
    /// Where replies and dead letters are stored; nowhere, where there can be none.
    outlet: OnceLock<Outlet>,
}

/// Why something is not stored.
#[derive(Debug)]
pub(crate) enum NotStored {
    /// The record itself is at fault.
    Hopeless(PublishError),
    /// The lease is lost meanwhile.
    Lost,
}

/// For whom records are stored.
pub(crate) struct Storing<'a> {
    pub(crate) reports: &'a Reports,
    /// Ends it: the lease is another's.
    pub(crate) lost: &'a CancellationToken,
    /// The record that they came of.
    pub(crate) info: &'a RecordInfo,
}

impl Handling {
    pub(crate) fn of(subscription: &Subscription) -> Self {
        Self {
            handler: subscription.handler().clone(),
            policy: subscription.policy().clone(),
            outlet: OnceLock::new(),
        }
    }

    /// The streams that replies and dead letters go to.
    pub(crate) fn stores_in(&self) -> impl Iterator<Item = &str> {
        let Policy {
            dead_letter,
            reply_to,
            ..
        } = &self.policy;
        dead_letter.iter().chain(reply_to).map(String::as_str)
    }

    /// Sets where they are stored.
    pub(crate) fn store_in(&self, outlet: Outlet) {
        // It is set once, before the first reader starts.
        let _ = self.outlet.set(outlet);
    }

    /// Stores what a handler wants published.
    pub(crate) async fn publish(
        &self,
        replies: Vec<Reply>,
        storing: Storing<'_>,
    ) -> Result<(), NotStored> {
        let parcels: Vec<_> = replies
            .into_iter()
            .map(|reply| Parcel {
                to: reply.to,
                partition_key: reply.partition_key,
                payload: reply.payload,
            })
            .collect();
        self.store(parcels, &storing, is_at_fault).await
    }

    /// Stores a record among the dead letters.
    pub(crate) async fn give_up(
        &self,
        payload: &[u8],
        attempts: u32,
        reason: &str,
        storing: Storing<'_>,
    ) -> Result<(), NotStored> {
        let info = storing.info;
        let to: Arc<str> = self
            .policy
            .dead_letter
            .as_deref()
            .unwrap_or_default()
            .into();
        // A record may have none, but a record that is put has one.
        let key = if info.partition_key.is_empty() {
            &info.sequence_number
        } else {
            &info.partition_key
        };
        let parcel = |payload| Parcel {
            to: Arc::clone(&to),
            partition_key: key.clone(),
            payload,
        };
        let whole = parcel(dead_letter::write(info, payload, attempts, reason, false));
        match self.store(vec![whole], &storing, is_too_large).await {
            Err(NotStored::Hopeless(_)) => {}
            stored => return stored,
        }
        let line = parcel(dead_letter::write(info, payload, attempts, reason, true));
        let payload = parcel(bytes::Bytes::copy_from_slice(payload));
        // Nothing is dropped: until the stream takes the payload, the record is held. The line is stored once.
        self.store(vec![line, payload], &storing, |_| false).await
    }

    /// Stores records, however often that takes, unless a failure `is_hopeless`.
    async fn store(
        &self,
        mut parcels: Vec<Parcel>,
        storing: &Storing<'_>,
        is_hopeless: impl Fn(&PublishError) -> bool,
    ) -> Result<(), NotStored> {
        // Where something can be stored there is a place for it; without one nothing is said to be stored.
        let Some(outlet) = self.outlet.get() else {
            return Err(NotStored::Lost);
        };
        let mut failures = 0;
        // Ordinary failures are the publisher's to retry, with jitter; what comes here waits for a person.
        let mut backoff = Backoff::of_reads(0);
        let stored = async {
            loop {
                match outlet.store(&mut parcels).await {
                    Ok(()) => return Ok(()),
                    Err(error) if is_hopeless(&error) => return Err(NotStored::Hopeless(error)),
                    Err(source) => {
                        failures += 1;
                        if failures == 1 {
                            storing.reports.report(&KinesisError::NotStored {
                                stream: storing.info.stream.clone(),
                                shard: storing.info.shard.clone(),
                                sequence_number: storing.info.sequence_number.clone(),
                                source: Box::new(source),
                            });
                        }
                        sleep(backoff.next()).await;
                    }
                }
            }
        };
        let stored = storing.lost.run_until_cancelled(stored).await;
        stored.unwrap_or(Err(NotStored::Lost))
    }
}

/// Whether the record itself is at fault, so that only another one can be stored.
fn is_at_fault(error: &PublishError) -> bool {
    is_too_large(error) || matches!(error, PublishError::PartitionKey { .. })
}

/// The service refuses a record that its stream is not set up for as an invalid argument.
fn is_too_large(error: &PublishError) -> bool {
    match error {
        PublishError::TooLarge { .. } => true,
        PublishError::Refused { source, .. } => source.kind() == ServiceErrorKind::InvalidArgument,
        _ => false,
    }
}
