//! A shard that the coordinator assigns to a task: its lease is acquired, whether it may be read is looked up
//! once more, and then it is read. Orders to the task and its notices to the coordinator are here too.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lease_core::{Checkpoint, LeaseError, LeaseKey, LeaseState};
use rstream::broker::Reports;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::KinesisError;
use crate::leasing::Leases;
use crate::leasing::keeper::Keeper;
use crate::leasing::lineage::{HashKeyRange, Lineage, Listing, Position, Standing, Warning};
use crate::leasing::tenure::Tenure;
use crate::reading::feed::Budget;
use crate::reading::handling::Handling;
use crate::reading::reader::Reader;
use crate::reading::seek::{Seek, Seeker};
use crate::service::Service;

/// What the coordinator wants of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Read on.
    Read,
    /// Give the shard up once everything that was handed over is settled; or, where that takes too long
    /// and the order is [`Order::Read`] again, read on.
    HandOver,
    /// Give the shard up once the handlers that run have returned, and whatever lies before a settled record is
    /// settled too.
    Stop,
}

/// What a reader tells the coordinator while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The shard has its first iterator, or the first try failed.
    Opened(LeaseKey),
    /// The lease is another's now; a handler may still run.
    Lost(LeaseKey),
}

/// How a reader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The lease was not to be had, or the shard not to be read.
    NotTaken,
    /// The shard was read to its end, and that is in the store.
    Finished,
    /// As ordered: settled, written and released.
    Released,
    /// Another instance has the lease.
    Lost,
    /// The shard is no longer there.
    Gone,
    /// The shutdown's limit was reached with a handler running.
    Unsettled,
}

/// How the shards of a subscription are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The pause between two reads of an idle shard.
    pub(crate) pause: Duration,
    /// How many records of a shard are in handlers at once.
    pub(crate) concurrency: NonZeroUsize,
    /// The least time between two checkpoints; `None` writes one at every acknowledgement that moves it.
    pub(crate) checkpoint_every: Option<Duration>,
}

/// Everything that a reader is given.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// The stream's name, which need not be that of its leases.
    pub(crate) stream: Arc<str>,
    pub(crate) key: LeaseKey,
    pub(crate) service: Service,
    pub(crate) leases: Leases,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) reports: Reports,
    pub(crate) handling: Arc<Handling>,
    pub(crate) terms: Terms,
    /// What all shards of the subscription may hold.
    pub(crate) budget: Budget,
    /// The lineage by which the coordinator chose the shard.
    pub(crate) lineage: Arc<Lineage>,
    pub(crate) listing: watch::Receiver<Arc<Listing>>,
    pub(crate) orders: watch::Receiver<Order>,
    pub(crate) notices: mpsc::UnboundedSender<Notice>,
    /// Moves that are asked for.
    pub(crate) seeks: mpsc::UnboundedReceiver<Seek>,
    pub(crate) seeker: Seeker,
    /// Bounds how many readers open at once.
    pub(crate) openings: Arc<Semaphore>,
    /// Ends a handler that runs past the shutdown's limit.
    pub(crate) limit: CancellationToken,
    pub(crate) seed: u64,
}

impl Assignment {
    /// Reads the shard until it ends, is given up or is lost.
    pub(crate) async fn run(self) -> End {
        let Ok(permit) = Arc::clone(&self.openings).acquire_owned().await else {
            return End::NotTaken;
        };
        if *self.orders.borrow() != Order::Read {
            return End::NotTaken;
        }
        let begun = Tenure::begin(
            self.leases.clone(),
            Arc::clone(&self.keeper),
            self.reports.clone(),
            self.key.clone(),
            self.listing.clone(),
            self.terms.checkpoint_every,
            self.seed,
        );
        let mut tenure = match begun.await {
            Ok(Some(tenure)) => tenure,
            Ok(None) => return End::NotTaken,
            Err(error) => {
                self.report(error);
                return End::NotTaken;
            }
        };
        let opening = match self.look_again().await {
            Ok(Some(opening)) => opening,
            Ok(None) => {
                tenure.release().await;
                return End::NotTaken;
            }
            Err(error) => {
                self.report(error);
                tenure.release().await;
                return End::NotTaken;
            }
        };
        tracing::info!(
            stream = &*self.stream,
            shard = self.key.shard(),
            epoch = tenure.holder().epoch,
            at = ?opening.at,
            "reading"
        );
        match &opening.at {
            Position::After(checkpoint) => tenure.opened_at(checkpoint.clone()),
            Position::AtTimestamp(moment) => tenure.opened_at(Checkpoint::at_timestamp(*moment)),
            Position::Latest | Position::TrimHorizon => {}
        }
        let mut reader = Reader::new(self, tenure, opening);
        if let Some(end) = reader.open().await {
            return reader.end(end).await;
        }
        drop(permit);
        let end = reader.read().await;
        reader.end(end).await
    }

    /// Having acquired the lease: whether the shard may be read, and from where, by what the store says now.
    async fn look_again(&self) -> Result<Option<Opening>, LeaseError> {
        let shard = self.key.shard();
        let Some(info) = self.lineage.listing().shard(shard) else {
            return Ok(None);
        };
        let ids: Vec<_> = std::iter::once(&info.id)
            .chain(info.parents())
            .cloned()
            .collect();
        let keys: Vec<_> = ids
            .iter()
            .map(|id| LeaseKey::from_shared(Arc::clone(self.key.shared_stream()), Arc::clone(id)))
            .collect();
        let states = self.leases.read_all(&keys).await?;
        let states: HashMap<Arc<str>, LeaseState> = ids.into_iter().zip(states).collect();
        match self.lineage.standing(shard, |id| states.get(id)) {
            Some(Standing::Readable { open_at, warnings }) => Ok(Some(Opening {
                hash_keys: info.hash_keys,
                at: open_at,
                write_first: warnings.iter().find_map(overwrites),
            })),
            Some(Standing::Waiting { .. } | Standing::Finished) | None => Ok(None),
        }
    }

    fn report(&self, source: LeaseError) {
        self.reports.report(&KinesisError::lease(&self.key, source));
    }
}

/// Where a shard opens.
pub(super) struct Opening {
    /// What the shard owns, where the listing says so.
    pub(super) hash_keys: Option<HashKeyRange>,
    pub(super) at: Position,
    /// The position to write before the first record is handed over, instead of the one in the store.
    pub(super) write_first: Option<Checkpoint>,
}

/// The end of a shard of an earlier stream must not stay: once the shard is closed, by a split before the
/// first acknowledgement, it would pass for this shard's own.
fn overwrites(warning: &Warning) -> Option<Checkpoint> {
    match warning {
        Warning::EarlierStream(stale) if stale.is_shard_end() => {
            Some(Checkpoint::at_timestamp(SystemTime::UNIX_EPOCH))
        }
        Warning::EarlierStream(_) | Warning::RestExpired(_) => None,
    }
}
