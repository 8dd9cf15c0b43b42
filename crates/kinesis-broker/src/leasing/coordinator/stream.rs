//! One stream, as the last complete listing showed it and the lease states after it.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use lease_core::{LeaseKey, LeaseState};
use rstream::broker::{Reports, Source as _};
use tokio::sync::{Semaphore, watch};

use super::readers::{Phase, Readers};
use crate::error::ServiceError;
use crate::leasing::balance::{Claim, Shard};
use crate::leasing::lineage::{History, Lineage, Listing, ShardInfo, Standing, Start, Warning};
use crate::reading::assignment::Terms;
use crate::reading::feed::Budget;
use crate::reading::handling::Handling;
use crate::sabotage::{self, Sabotage};
use crate::service::{Service, unavailable};
use crate::{KinesisError, KinesisStream};

/// Readers of one stream that acquire and open their shards at once. At 5,000 shards and 20 ms a call, three
/// calls a shard, opening takes five seconds.
const OPENINGS: usize = 64;

/// A stream that the broker reads.
pub(super) struct Stream {
    pub(super) name: Arc<str>,
    /// What its leases are named by.
    leases: Arc<str>,
    pub(super) handling: Arc<Handling>,
    pub(super) terms: Terms,
    /// What its readers hold together.
    pub(super) budget: Budget,
    pub(super) listing: watch::Sender<Arc<Listing>>,
    pub(super) lineage: Option<Arc<Lineage>>,
    pub(super) states: HashMap<Arc<str>, LeaseState>,
    /// Bounds how many of its readers open at once: a stream that cannot be opened delays no other.
    pub(super) openings: Arc<Semaphore>,
    start: Start,
    history: History,
    is_under_way: bool,
    /// A listing came too late for the turn that began it, and counts for the next one.
    is_fresh: bool,
    /// A listing has succeeded or failed.
    was_tried: bool,
    /// A listing has succeeded or failed, and what follows from it is done.
    had_its_turn: bool,
    /// The leases of all known shards, in the order of their ids.
    keys: Vec<LeaseKey>,
    /// The warnings that were given, and the shard that each is about.
    said: HashSet<(Arc<str>, Warning)>,
}

/// What came of listing one stream.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) index: usize,
    shards: Result<Vec<ShardInfo>, ServiceError>,
}

impl Stream {
    pub(super) fn new(stream: &KinesisStream, handling: Arc<Handling>) -> Self {
        Self {
            name: stream.name().into(),
            leases: stream.lease_name().into(),
            handling,
            terms: stream.terms(),
            budget: Budget::new(stream.prefetch_limits()),
            listing: watch::Sender::default(),
            lineage: None,
            states: HashMap::new(),
            openings: Arc::new(Semaphore::new(OPENINGS)),
            start: stream.start(),
            history: History::default(),
            is_under_way: false,
            is_fresh: false,
            was_tried: false,
            had_its_turn: false,
            keys: Vec::new(),
            said: HashSet::new(),
        }
    }

    /// Whether this is the stream of the lease.
    pub(super) fn has(&self, key: &LeaseKey) -> bool {
        *self.leases == *key.stream()
    }

    /// The listing of this stream's shards, unless one is under way or has just come late.
    pub(super) fn list(
        &mut self,
        index: usize,
        service: &Service,
    ) -> Option<impl Future<Output = Listed> + Send + 'static> {
        if std::mem::take(&mut self.is_fresh) || std::mem::replace(&mut self.is_under_way, true) {
            return None;
        }
        let (service, name, start) = (service.clone(), Arc::clone(&self.name), self.start);
        Some(async move {
            // What a connector or a provider of credentials panics with is one failure more: the stream is listed again.
            let listing = AssertUnwindSafe(service.list_shards(&name, start)).catch_unwind();
            let shards = listing
                .await
                .unwrap_or_else(|_| Err(unavailable("ListShards", "the call panicked".to_owned())));
            Listed { index, shards }
        })
    }

    /// Takes in a listing that completed, or says that it did not.
    pub(super) fn listed(&mut self, listed: Listed, reports: &Reports) {
        self.is_under_way = false;
        self.was_tried = true;
        match listed.shards {
            Ok(shards) => {
                self.history.list(shards);
                let keys = self.history.shards_to_read();
                self.keys = keys
                    .map(|shard| LeaseKey::from_shared(Arc::clone(&self.leases), Arc::clone(shard)))
                    .collect();
            }
            Err(source) => reports.report(&KinesisError::Listing {
                stream: self.name.to_string(),
                source,
            }),
        }
    }

    /// Notes that the listing which was just taken in came after its turn.
    pub(super) fn came_late(&mut self) {
        self.is_fresh = true;
    }

    /// Notes that a listing of all streams is over.
    pub(super) fn end_turn(&mut self) {
        self.had_its_turn |= self.was_tried;
    }

    /// Whether what follows from the first listing of this stream is done.
    pub(super) fn had_its_turn(&self) -> bool {
        self.had_its_turn
    }

    /// The leases whose states matter.
    pub(super) fn keys(&self) -> impl Iterator<Item = LeaseKey> {
        self.keys.iter().cloned()
    }

    /// Works out from the states what may be read, and says what is out of the ordinary, once.
    pub(super) fn draw_lineage(&mut self) {
        let states = &self.states;
        let lineage = self.history.lineage(self.start, |shard| states.get(shard));
        for (shard, standing) in lineage.standings(|shard| states.get(shard)) {
            let Standing::Readable { warnings, .. } = standing else {
                continue;
            };
            for warning in warnings {
                // Two children of one parent say the same of it.
                let about = match &warning {
                    Warning::RestExpired(parent) => parent,
                    Warning::EarlierStream(_) => &shard.id,
                };
                if self.said.insert((Arc::clone(about), warning.clone())) {
                    warn(&self.name, &shard.id, &warning);
                }
            }
        }
        self.listing.send_replace(Arc::clone(lineage.listing()));
        self.lineage = Some(Arc::new(lineage));
    }

    /// What the balance is to know of the shards that may be read now.
    pub(super) fn shards<'a>(
        &'a self,
        readers: &'a Readers,
        takes_over: bool,
        shards: &mut Vec<Shard<'a>>,
    ) {
        let Some(lineage) = &self.lineage else {
            return;
        };
        for (info, standing) in lineage.standings(|shard| self.states.get(shard)) {
            let Ok(place) = self.keys.binary_search_by(|key| key.shard().cmp(&info.id)) else {
                continue;
            };
            let key = &self.keys[place];
            let state = self.states.get(&info.id);
            let asked_by = state.and_then(|state| state.asked_by.as_deref());
            let claim = match readers.phase(key) {
                Some(Phase::Held) => Claim::Mine,
                Some(Phase::Kept) => Claim::Kept,
                Some(Phase::Going { to }) => Claim::Going { to },
                lost_or_none => {
                    let Some(state) = state else { continue };
                    if !matches!(standing, Standing::Readable { .. }) {
                        continue;
                    }
                    // A handler of the earlier lease may still run.
                    let is_clear = lost_or_none.is_none();
                    claim_on(state, is_clear, takes_over)
                }
            };
            shards.push(Shard {
                key,
                claim,
                asked_by,
            });
        }
    }

    /// When the leases and reservations that were seen would end.
    pub(super) fn expiries(&self) -> impl Iterator<Item = Duration> {
        let states = self.keys.iter().map(|key| self.states.get(key.shard()));
        states.filter_map(|state| state?.expires_in)
    }

    /// Notes that the store has forgotten the row of a shard, or never will.
    pub(super) fn done_with(&mut self, shard: &str) {
        self.history.done_with(shard);
    }

    /// The rows that nobody needs any more.
    pub(super) fn forgettable(&mut self) -> Vec<LeaseKey> {
        let states = &self.states;
        let shards = self.history.forgettable(|shard| states.get(shard));
        shards
            .into_iter()
            .map(|shard| LeaseKey::from_shared(Arc::clone(&self.leases), shard))
            .collect()
    }
}

/// What the balance is to know of a shard without a reader here. `is_clear` says that no handler of an earlier
/// lease of this instance still runs on it, `takes_over` that expired leases may be taken.
fn claim_on(state: &LeaseState, is_clear: bool, takes_over: bool) -> Claim<'_> {
    if let Some(holder) = &state.holder {
        return if state.live {
            Claim::Held {
                owner: &holder.owner,
            }
        } else {
            Claim::Free {
                takeable: is_clear && takes_over && !sabotage::is(Sabotage::NeverTakesOver),
            }
        };
    }
    match state.reserved_for() {
        Some(asker) => Claim::Reserved { asker },
        None => Claim::Free { takeable: is_clear },
    }
}

fn warn(stream: &str, shard: &str, warning: &Warning) {
    match warning {
        Warning::RestExpired(parent) => tracing::warn!(
            stream,
            shard,
            parent = &**parent,
            "the parent is no longer listed and was not read to its end: its unread rest has passed out of retention"
        ),
        Warning::EarlierStream(checkpoint) => tracing::warn!(
            stream,
            shard,
            %checkpoint,
            "the checkpoint belongs to an earlier stream of this name; reading from the oldest record (TRIM_HORIZON)"
        ),
    }
}
