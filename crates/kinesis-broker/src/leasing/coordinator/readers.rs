//! The readers of this instance: which shards they have, and what was ordered of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use lease_core::LeaseKey;
use rstream::broker::Reports;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::stream::Stream;
use crate::StartPosition;
use crate::leasing::keeper::Keeper;
use crate::leasing::{Leases, after};
use crate::reading::assignment::{Assignment, End, Notice, Order};
use crate::reading::seek::{Moving, Seek, SeekStream, Seeker, Shards};
use crate::service::Service;

/// How long a shard is not given away again after its hand-over was declined.
const KEEP_AFTER_DECLINE: Duration = Duration::from_secs(30);

/// How this instance stands to a shard that it has a reader of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase<'a> {
    /// Being read, or about to be.
    Held,
    /// As `Held`, and not to be given away for now.
    Kept,
    /// Its hand-over is under way.
    Going {
        /// The asker that it goes to.
        to: &'a str,
    },
    /// Lost, with a handler that still runs.
    Lost,
}

pub(super) struct Readers {
    service: Service,
    leases: Leases,
    keeper: Arc<Keeper>,
    reports: Reports,
    coordinator: ToCoordinator,
    hand_over_timeout: Duration,
    rng: fastrand::Rng,
    limit: CancellationToken,
    tasks: JoinSet<End>,
    keys: HashMap<Id, LeaseKey>,
    /// Ordered, so that a seed replays a run.
    readers: BTreeMap<LeaseKey, ReaderHandle>,
}

/// What readers and handlers tell the coordinator.
pub(super) struct ToCoordinator {
    pub(super) notices: mpsc::UnboundedSender<Notice>,
    /// Moves that are asked for.
    pub(super) seeks: mpsc::UnboundedSender<SeekStream>,
}

/// What is kept of a reader that runs.
struct ReaderHandle {
    orders: watch::Sender<Order>,
    seeks: mpsc::UnboundedSender<Seek>,
    going: Option<Going>,
    kept_until: Option<Instant>,
    is_lost: bool,
}

struct Going {
    to: String,
    until: Instant,
}

impl Readers {
    pub(super) fn new(
        service: Service,
        leases: Leases,
        keeper: Arc<Keeper>,
        reports: Reports,
        coordinator: ToCoordinator,
        hand_over_timeout: Duration,
        rng: fastrand::Rng,
    ) -> Self {
        Self {
            service,
            leases,
            keeper,
            reports,
            coordinator,
            hand_over_timeout,
            rng,
            limit: CancellationToken::new(),
            tasks: JoinSet::new(),
            keys: HashMap::new(),
            readers: BTreeMap::new(),
        }
    }

    /// Starts the reader of a shard that has none.
    pub(super) fn start(&mut self, key: LeaseKey, stream: &Stream) {
        let Some(lineage) = &stream.lineage else {
            return;
        };
        if self.readers.contains_key(&key) {
            return;
        }
        let (orders, received) = watch::channel(Order::Read);
        let (seeks, asked_for) = mpsc::unbounded_channel();
        let assignment = Assignment {
            stream: Arc::clone(&stream.name),
            seeks: asked_for,
            seeker: Seeker::new(seeks.clone(), self.coordinator.seeks.clone()),
            key: key.clone(),
            service: self.service.clone(),
            leases: self.leases.clone(),
            keeper: Arc::clone(&self.keeper),
            reports: self.reports.clone(),
            handling: Arc::clone(&stream.handling),
            terms: stream.terms,
            budget: stream.budget.clone(),
            lineage: Arc::clone(lineage),
            listing: stream.listing.subscribe(),
            orders: received,
            notices: self.coordinator.notices.clone(),
            openings: Arc::clone(&stream.openings),
            limit: self.limit.clone(),
            seed: self.rng.u64(..),
        };
        let task = self.tasks.spawn(assignment.run());
        self.keys.insert(task.id(), key.clone());
        let reader = ReaderHandle {
            orders,
            seeks,
            going: None,
            kept_until: None,
            is_lost: false,
        };
        self.readers.insert(key, reader);
    }

    /// How this instance stands to a shard; `None` where it has no reader of it.
    pub(super) fn phase(&self, key: &LeaseKey) -> Option<Phase<'_>> {
        let reader = self.readers.get(key)?;
        Some(if reader.is_lost {
            Phase::Lost
        } else if let Some(going) = &reader.going {
            Phase::Going { to: &going.to }
        } else if reader
            .kept_until
            .is_some_and(|until| Instant::now() < until)
        {
            Phase::Kept
        } else {
            Phase::Held
        })
    }

    /// Moves those of these shards of a stream that are read here.
    pub(super) fn seek(
        &mut self,
        stream: &Stream,
        shards: &Shards,
        to: StartPosition,
    ) -> Vec<Moving> {
        let of_stream = self.readers.iter().filter(|(key, _)| stream.has(key));
        let asked = of_stream.filter(|(key, reader)| !reader.is_lost && shards.has(key.shard()));
        let moving = asked.map(|(key, reader)| {
            let (done, told) = oneshot::channel();
            // A reader that is about to end moves nothing.
            let _ = reader.seeks.send(Seek {
                to,
                done: Some(done),
            });
            Moving {
                shard: key.shard().to_owned(),
                done: told,
            }
        });
        moving.collect()
    }

    /// Begins to hand a shard over to its asker.
    pub(super) fn hand_over(&mut self, key: &LeaseKey, to: String) {
        let Some(reader) = self.readers.get_mut(key) else {
            return;
        };
        tracing::info!(
            stream = key.stream(),
            shard = key.shard(),
            to,
            "handing over"
        );
        let until = after(self.hand_over_timeout);
        reader.going = Some(Going { to, until });
        reader.orders.send_replace(Order::HandOver);
    }

    /// When the first hand-over under way has taken too long.
    pub(super) fn next_decline(&self) -> Option<Instant> {
        let going = self
            .readers
            .values()
            .filter_map(|reader| reader.going.as_ref());
        going.map(|going| going.until).min()
    }

    /// Ends the hand-overs that have taken too long: their shards are read on.
    pub(super) fn decline_overdue(&mut self) {
        let now = Instant::now();
        for (key, reader) in &mut self.readers {
            if let Some(going) = reader.going.take_if(|going| going.until <= now) {
                tracing::info!(
                    stream = key.stream(),
                    shard = key.shard(),
                    to = going.to,
                    "the hand-over could not settle in time and is declined; reading on"
                );
                reader.kept_until = Some(now + KEEP_AFTER_DECLINE);
                reader.orders.send_replace(Order::Read);
            }
        }
    }

    /// Notes that a shard is another's now.
    pub(super) fn lost(&mut self, key: &LeaseKey) {
        if let Some(reader) = self.readers.get_mut(key) {
            reader.is_lost = true;
            reader.going = None;
        }
    }

    /// Waits for the next reader to end: its shard, and how, or `None` where it panicked. `None` at once
    /// where there is no reader. Cancel safe.
    pub(super) async fn ended(&mut self) -> Option<(LeaseKey, Option<End>)> {
        let joined = self.tasks.join_next_with_id().await?;
        let (id, end) = match joined {
            Ok((id, end)) => (id, Some(end)),
            Err(error) => (error.id(), None),
        };
        let key = self.keys.remove(&id)?;
        self.readers.remove(&key);
        Some((key, end))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Orders all readers to stop.
    pub(super) fn stop_all(&mut self) {
        for reader in self.readers.values() {
            reader.orders.send_replace(Order::Stop);
        }
    }

    /// Ends the handlers that still run.
    pub(super) fn reach_limit(&self) {
        self.limit.cancel();
    }
}
