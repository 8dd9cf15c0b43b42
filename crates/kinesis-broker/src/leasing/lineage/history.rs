//! What the listings of one stream have said over time: which rows nobody needs any more, and which
//! `SHARD_END` they refute.

use std::collections::BTreeMap;
use std::sync::Arc;

use lease_core::LeaseState;

use super::{Lineage, Listing, ShardInfo, Start};

/// How many complete listings in a row it takes to believe that a shard is gone, or that it is open
/// in spite of its `SHARD_END`. `ListShards` promises no consistency with a resharding under way,
/// and to believe too early that a shard is open would read it a second time.
const ENOUGH: u8 = 10;

/// The listings of one stream so far, as far as they still matter.
///
/// Each time, [`list`](Self::list) takes in a listing that completed; then the states of
/// [`shards_to_read`](Self::shards_to_read) are read; then the other questions are asked. The order
/// matters: a state must not be older than the listing that it is judged by.
///
/// Its memory is bounded by the shards of the last ten listings, their parents, and the finished
/// shards whose rows are yet to be forgotten.
#[derive(Debug, Default)]
pub(crate) struct History {
    listing: Arc<Listing>,
    /// Every shard that is listed, is a parent of a listed one, or was either not long ago.
    known: BTreeMap<Arc<str>, Known>,
    /// The shards with a `SHARD_END` that are listed as open, and how many listings in a row began
    /// after that end was first seen.
    doubtful_ends: BTreeMap<Arc<str>, u8>,
}

#[derive(Debug, Default)]
struct Known {
    /// How many listings in a row lacked it, up to [`ENOUGH`].
    absent: u8,
    children: Vec<Arc<str>>,
    /// Whether its row has been forgotten, or cannot be.
    is_done_with: bool,
}

impl History {
    /// Takes in a listing that completed.
    pub(crate) fn list(&mut self, shards: Vec<ShardInfo>) {
        self.listing = Arc::new(Listing::new(shards));
        for listings in self.doubtful_ends.values_mut() {
            *listings = listings.saturating_add(1);
        }
        for known in self.known.values_mut() {
            known.absent = (known.absent + 1).min(ENOUGH);
        }
        for shard in self.listing.shards() {
            let known = self.known.entry(Arc::clone(&shard.id)).or_default();
            known.absent = 0;
            known.is_done_with = false;
            for parent in shard.parents() {
                let known = self.known.entry(Arc::clone(parent)).or_insert(Known {
                    absent: 1,
                    ..Known::default()
                });
                if !known.children.contains(&shard.id) {
                    known.children.push(Arc::clone(&shard.id));
                }
            }
        }
    }

    /// The shards whose states the other questions look up, in order of their ids: those listed,
    /// their parents, and those whose row may have to be forgotten.
    pub(crate) fn shards_to_read(&self) -> impl Iterator<Item = &Arc<str>> {
        self.known.keys()
    }

    /// The lineage of the last listing, given states that were read after it.
    pub(crate) fn lineage<'s>(
        &mut self,
        start: Start,
        states: impl Fn(&str) -> Option<&'s LeaseState>,
    ) -> Lineage {
        let doubted_so_far = std::mem::take(&mut self.doubtful_ends);
        for shard in self.listing.shards() {
            let is_finished = states(&shard.id).is_some_and(LeaseState::is_finished);
            if is_finished && self.listing.is_open(shard) {
                let listings = doubted_so_far.get(&shard.id).copied().unwrap_or(0);
                self.doubtful_ends.insert(Arc::clone(&shard.id), listings);
            }
        }
        let refuted = self.doubtful_ends.iter();
        let refuted = refuted.filter(|(_, listings)| **listings >= ENOUGH);
        let refuted_ends = refuted.map(|(shard, _)| Arc::clone(shard)).collect();
        Lineage::new(Arc::clone(&self.listing), start, refuted_ends, states)
    }

    /// The finished shards whose rows nobody needs any more: they are gone, and each of their
    /// children has a checkpoint of its own or is gone as well.
    ///
    /// They come back until their state says that the row is forgotten, or
    /// [`done_with`](Self::done_with) that it need not be tried again.
    pub(crate) fn forgettable<'s>(
        &mut self,
        states: impl Fn(&str) -> Option<&'s LeaseState>,
    ) -> Vec<Arc<str>> {
        let is_gone = |shard: &Arc<str>| {
            let known = self.known.get(shard);
            known.is_none_or(|known| known.absent == ENOUGH)
        };
        let has_checkpoint =
            |shard: &str| states(shard).is_some_and(|state| state.checkpoint.is_some());
        let mut forgettable = Vec::new();
        let mut unneeded = Vec::new();
        for (shard, known) in self.known.iter().filter(|(shard, _)| is_gone(shard)) {
            let Some(state) = states(shard) else {
                continue;
            };
            let mut children = known.children.iter();
            if known.is_done_with || !state.is_finished() {
                if children.all(is_gone) {
                    unneeded.push(Arc::clone(shard));
                }
            } else if !state.live && children.all(|child| is_gone(child) || has_checkpoint(child)) {
                forgettable.push(Arc::clone(shard));
            }
        }
        for shard in unneeded {
            self.known.remove(&shard);
        }
        forgettable
    }

    /// Notes the store's answer that it has forgotten the shard's row, or does not forget it.
    pub(crate) fn done_with(&mut self, shard: &str) {
        if let Some(known) = self.known.get_mut(shard) {
            known.is_done_with = true;
        }
    }
}
