//! Which shards of a stream may be read now, and where each opens.
//!
//! A split or a merge closes its parents and opens their children. Records of one partition key are
//! in order across that only if a child is read after its parents. What makes a child wait is a
//! parent that is *in play*: one that the group reads, or has to read, from a place of its own.
//!
//! # A start at the tip
//!
//! A group that starts at the tip of a stream whose past still has shards in it must neither read
//! that past nor wait for it. So a closed shard that is not in play is passed over: nobody leases
//! it, since at its tip it holds nothing, and since the lease itself would bring it into play and so
//! open its children at their beginning, which is the past.
//!
//! Passing over it loses nothing. The shards are listed before the lease states are read, and that
//! order is all it takes: whoever opened the shard while it was open had leased it before it closed,
//! thus before this listing, so the states show the lease and the shard is in play. An instance that
//! leases it later, by a listing from before it closed, opens it at the tip and finds its end at
//! once; from then on its children open at their beginning, which lies after that listing. Where a
//! sibling instance has opened a child at the tip meanwhile, the child keeps the moment that it was
//! checkpointed at. The tip of a key is thus the moment at which a shard with that key was first
//! opened, however the stream was resharded round it.
//!
//! This asks one thing of whoever acquires: not to act on a listing so old that a shard in it has
//! grandchildren by now. The service takes tens of seconds for each of the two reshardings.
//!
//! For the same reason a shard that nobody leased stays in the past once a descendant of it has a
//! checkpoint: it was passed over then (or its row has been forgotten since), and to read it now,
//! say because the start position was changed, would hand over old records after newer ones.

mod history;
mod listing;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use lease_core::{Checkpoint, LeaseState};

pub(crate) use self::history::History;
pub(crate) use self::listing::{HashKeyRange, Listing, ShardInfo, hash_key};
use crate::sabotage::{self, Sabotage};

/// Where a shard without a checkpoint opens, as the user configured it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// At the tip, whenever a shard is first opened.
    Latest,
    /// At the oldest record that the stream still has.
    TrimHorizon,
    /// At the first record that arrived at this moment or later.
    AtTimestamp(SystemTime),
}

/// Where to open a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// At the tip, which the reader checkpoints before it hands over a record.
    Latest,
    /// At the oldest record that the shard still has.
    TrimHorizon,
    /// At the first record that arrived at this moment or later.
    AtTimestamp(SystemTime),
    /// After the record of this checkpoint, which names a sequence number.
    After(Checkpoint),
}

/// Whether a shard may be read now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Whoever holds its lease may read it.
    Readable {
        /// Where it opens.
        open_at: Position,
        /// What the user should hear about it, once.
        warnings: Vec<Warning>,
    },
    /// Another shard has to be read first. A reader that has just acquired it releases it; one that
    /// has opened it did so when nothing was in its way, and goes on.
    Waiting {
        /// The shard in its way: a parent, or itself where its own state is not known.
        on: Arc<str>,
    },
    /// There is nothing in it to read: it was read to its end, or lies before the start.
    Finished,
}

/// Something out of the ordinary about where a shard opens.
///
/// The same warning comes back with every question until a checkpoint settles it; who reports it
/// remembers that it did.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Warning {
    /// This parent is no longer listed and was not read to its end: its unread rest has passed out
    /// of retention.
    RestExpired(Arc<str>),
    /// The shard's checkpoint cannot be one of this shard, so it was left by an earlier stream of
    /// the same name, and the shard opens at its oldest record.
    EarlierStream(Checkpoint),
}

/// The shards of one listing with the lease states read after it: what may be read, and where it
/// opens.
///
/// It owns its data, so that the reader of a shard can ask again, with states read afresh, after it
/// has acquired the shard.
///
/// States are looked up by shard id. `None` says that a state could not be read, which is not the
/// same as the default state of a shard that nobody ever leased: a shard of unknown state is left
/// alone, and its children wait.
#[derive(Clone, Debug)]
pub(crate) struct Lineage {
    listing: Arc<Listing>,
    start: Start,
    /// The shards that go on being listed as open long after their `SHARD_END` was seen.
    refuted_ends: BTreeSet<Arc<str>>,
    /// Whether each shard, by its place in the listing, was in play.
    in_play: Vec<bool>,
    /// Whether each shard was never leased although a descendant of it was read.
    overtaken: Vec<bool>,
}

/// What a shard's own checkpoint says.
enum Mark<'s> {
    Nothing,
    /// A moment or a sequence number.
    At(&'s Checkpoint),
    ShardEnd,
    EarlierStream(&'s Checkpoint),
}

impl Lineage {
    fn new<'s>(
        listing: Arc<Listing>,
        start: Start,
        refuted_ends: BTreeSet<Arc<str>>,
        states: impl Fn(&str) -> Option<&'s LeaseState>,
    ) -> Self {
        let shards = listing.shards().len();
        let mut lineage = Self {
            listing,
            start,
            refuted_ends,
            in_play: vec![false; shards],
            overtaken: vec![false; shards],
        };
        lineage.find_in_play(&states);
        lineage.find_overtaken(&states);
        lineage
    }

    /// From the shards that are in play by themselves down to all their descendants.
    fn find_in_play<'s>(&mut self, states: impl Fn(&str) -> Option<&'s LeaseState>) {
        let listing = &self.listing;
        let by_itself = |shard: &ShardInfo| {
            self.start.takes_in(shard)
                || was_leased(states(&shard.id))
                || shard
                    .parents()
                    .any(|parent| listing.place(parent).is_none() && was_leased(states(parent)))
        };
        let mut found: Vec<usize> = (0..listing.shards().len())
            .filter(|&place| by_itself(&listing.shards()[place]))
            .collect();
        for &place in &found {
            self.in_play[place] = true;
        }
        while let Some(place) = found.pop() {
            for &child in listing.children(&listing.shards()[place].id) {
                if !self.in_play[child] {
                    self.in_play[child] = true;
                    found.push(child);
                }
            }
        }
    }

    /// From the shards that have been read up to all their ancestors that nobody leased.
    fn find_overtaken<'s>(&mut self, states: impl Fn(&str) -> Option<&'s LeaseState>) {
        let was_read = |shard: &ShardInfo| {
            let mark = states(&shard.id).map(|state| self.mark(shard, state));
            matches!(mark, Some(Mark::At(_) | Mark::ShardEnd))
        };
        let shards = self.listing.shards();
        let mut found: Vec<usize> = (0..shards.len())
            .filter(|&place| was_read(&shards[place]))
            .collect();
        while let Some(place) = found.pop() {
            for parent in shards[place].parents() {
                if let Some(parent) = self.listing.place(parent)
                    && !self.overtaken[parent]
                    && !was_leased(states(&shards[parent].id))
                {
                    self.overtaken[parent] = true;
                    found.push(parent);
                }
            }
        }
    }

    /// Every shard of the listing, in its order, with its standing.
    pub(crate) fn standings<'s>(
        &self,
        states: impl Fn(&str) -> Option<&'s LeaseState>,
    ) -> impl Iterator<Item = (&ShardInfo, Standing)> {
        let shards = self.listing.shards().iter().enumerate();
        shards.map(move |(place, shard)| (shard, self.standing_at(place, &states)))
    }

    /// The standing of one shard, given its own state and those of its parents; `None` if it is not
    /// listed.
    pub(crate) fn standing<'s>(
        &self,
        shard: &str,
        states: impl Fn(&str) -> Option<&'s LeaseState>,
    ) -> Option<Standing> {
        let place = self.listing.place(shard)?;
        Some(self.standing_at(place, &states))
    }

    /// The listing that this was made from.
    pub(crate) fn listing(&self) -> &Arc<Listing> {
        &self.listing
    }

    fn standing_at<'s>(
        &self,
        place: usize,
        states: &impl Fn(&str) -> Option<&'s LeaseState>,
    ) -> Standing {
        let shard = &self.listing.shards()[place];
        let Some(state) = states(&shard.id) else {
            return Standing::Waiting {
                on: Arc::clone(&shard.id),
            };
        };
        let (open_at, warnings) = match self.mark(shard, state) {
            Mark::ShardEnd => return Standing::Finished,
            Mark::Nothing if self.lies_before_the_start(place, state) => return Standing::Finished,
            Mark::Nothing => self.open_unread(shard, states),
            Mark::At(checkpoint) => (Position::of(checkpoint), Vec::new()),
            Mark::EarlierStream(checkpoint) => {
                let warning = Warning::EarlierStream(checkpoint.clone());
                (Position::TrimHorizon, vec![warning])
            }
        };
        let mut parents = shard.parents();
        match parents.find(|parent| self.is_in_the_way(parent, states(parent))) {
            Some(on) => Standing::Waiting { on: Arc::clone(on) },
            None => Standing::Readable { open_at, warnings },
        }
    }

    /// Where a shard without a checkpoint opens.
    fn open_unread<'s>(
        &self,
        shard: &ShardInfo,
        states: impl Fn(&str) -> Option<&'s LeaseState>,
    ) -> (Position, Vec<Warning>) {
        let mut open_at = self.start.position();
        let mut warnings = Vec::new();
        for parent in shard.parents() {
            let state = states(parent);
            let place = self.listing.place(parent);
            if was_leased(state) || place.is_some_and(|place| self.in_play[place]) {
                open_at = Position::TrimHorizon;
            }
            let is_finished = state.is_some_and(LeaseState::is_finished);
            if place.is_none() && was_leased(state) && !is_finished {
                warnings.push(Warning::RestExpired(Arc::clone(parent)));
            }
        }
        (open_at, warnings)
    }

    fn is_in_the_way(&self, parent: &str, state: Option<&LeaseState>) -> bool {
        if sabotage::is(Sabotage::ChildBeforeParent) {
            return false;
        }
        let Some(state) = state else {
            return true;
        };
        match self.listing.place(parent) {
            Some(place) => {
                let is_in_play = self.in_play[place] || was_leased(Some(state));
                is_in_play && !self.is_finished(place, state)
            }
            // Its records are gone, except for those that a live holder has fetched already.
            None => state.live && !state.is_finished(),
        }
    }

    fn is_finished(&self, place: usize, state: &LeaseState) -> bool {
        match self.mark(&self.listing.shards()[place], state) {
            Mark::ShardEnd => true,
            Mark::Nothing => self.lies_before_the_start(place, state),
            Mark::At(_) | Mark::EarlierStream(_) => false,
        }
    }

    /// Whether a shard is passed over, for the reasons at the head of this module.
    fn lies_before_the_start(&self, place: usize, state: &LeaseState) -> bool {
        let is_open = self.listing.is_open(&self.listing.shards()[place]);
        let is_past = !self.in_play[place] || self.overtaken[place];
        is_past && !is_open && !was_leased(Some(state))
    }

    fn mark<'s>(&self, shard: &ShardInfo, state: &'s LeaseState) -> Mark<'s> {
        let Some(checkpoint) = &state.checkpoint else {
            return Mark::Nothing;
        };
        if checkpoint.is_shard_end() {
            let is_refuted = self.listing.is_open(shard) && self.refuted_ends.contains(&shard.id);
            return if is_refuted {
                Mark::EarlierStream(checkpoint)
            } else {
                Mark::ShardEnd
            };
        }
        match checkpoint.sequence() {
            Some(sequence_number) if !shard.contains(sequence_number) => {
                Mark::EarlierStream(checkpoint)
            }
            _ => Mark::At(checkpoint),
        }
    }
}

impl Position {
    /// Where a checkpoint says to go on that is not the end of the shard.
    fn of(checkpoint: &Checkpoint) -> Self {
        match checkpoint.timestamp() {
            Some(moment) => Self::AtTimestamp(moment),
            None => Self::After(checkpoint.clone()),
        }
    }
}

impl Start {
    /// Whether a shard that nobody ever leased has records to read by the start position alone.
    fn takes_in(self, shard: &ShardInfo) -> bool {
        match self {
            Self::Latest => false,
            Self::TrimHorizon => true,
            Self::AtTimestamp(_) => !shard.ended_before_start,
        }
    }

    fn position(self) -> Position {
        match self {
            Self::Latest => Position::Latest,
            Self::TrimHorizon => Position::TrimHorizon,
            Self::AtTimestamp(moment) => Position::AtTimestamp(moment),
        }
    }
}

/// A shard of unknown state may have been leased, so it counts as one that was.
fn was_leased(state: Option<&LeaseState>) -> bool {
    state.is_none_or(|state| state.epoch > 0 || state.checkpoint.is_some())
}
