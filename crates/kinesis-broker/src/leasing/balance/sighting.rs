//! What is kept of a shard from one listing to the next.

use std::sync::Arc;

use lease_core::LeaseKey;
use tokio::time::Instant;

use super::plan::{Drawn, Turn};
use super::view::{View, Whose};
use super::{Claim, HandOver, Plan, Shard, TURN};

/// The shards of a listing, by key.
#[derive(Debug, Default)]
pub(super) struct Sightings(Vec<(LeaseKey, Sighting)>);

/// A shard in a listing.
#[derive(Debug)]
pub(super) enum Sighting {
    /// It counted for a member.
    Of {
        member: Arc<str>,
        asked_by: Option<Arc<str>>,
        /// It was released and kept for the member.
        reserved: bool,
    },
    /// It was free, and fell to a member.
    Free {
        wait: Wait,
        falls_to: Option<Arc<str>>,
    },
}

/// To whom a free shard may fall, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) turn: Turn,
    pub(super) ends: Instant,
}

impl Wait {
    /// Whose turn it is with a shard that is free now. The asker that let a reservation run out has had the
    /// first turn.
    pub(super) fn after(last: Option<&Sighting>, now: Instant) -> Self {
        let turn = match last {
            Some(Sighting::Free { wait, .. }) if now < wait.ends => return *wait,
            Some(Sighting::Free { wait, .. }) => wait.turn.next(),
            Some(Sighting::Of { reserved: true, .. }) => Turn::Readers,
            Some(Sighting::Of { .. }) | None => Turn::Everybodys,
        };
        Self {
            turn,
            ends: now + TURN,
        }
    }
}

impl Sightings {
    /// What the next listing is to be compared with.
    pub(super) fn of(
        view: &View<'_>,
        names: &[Arc<str>],
        waits: &[Wait],
        drawn: &Drawn,
        plan: &Plan,
    ) -> Self {
        let name = |member: usize| Arc::clone(&names[member]);
        let shards = view.shards.iter().enumerate().map(|(number, shard)| {
            let sighting = match shard.whose.member() {
                Some(member) => Sighting::Of {
                    member: name(member),
                    asked_by: shard.asked_by.map(name),
                    reserved: matches!(shard.whose, Whose::Reserved(_)),
                },
                None => Sighting::Free {
                    wait: waits[number],
                    falls_to: drawn.falls_to[number].map(name),
                },
            };
            (shard.key.clone(), sighting)
        });
        let mut sightings = Self(shards.collect());
        for HandOver { key, to } in &plan.hand_over {
            if let Some(place) = sightings.place(key) {
                sightings.0[place].1 = Sighting::Of {
                    member: to.as_str().into(),
                    asked_by: None,
                    reserved: false,
                };
            }
        }
        sightings
    }

    /// What was seen of each shard of `view`.
    pub(super) fn before(&self, view: &View<'_>) -> Vec<Option<&Sighting>> {
        let mut last = self.0.iter().peekable();
        (view.shards.iter())
            .map(|shard| {
                while last.next_if(|(key, _)| key < shard.key).is_some() {}
                last.next_if(|(key, _)| key == shard.key)
                    .map(|(_, sighting)| sighting)
            })
            .collect()
    }

    /// The shard as this instance knows better: a listing that was read before it released the shard
    /// still shows its own lease, while the shard has gone to whoever it was on its way to.
    pub(super) fn correct<'a>(&'a self, shard: Shard<'a>, me: &str) -> Shard<'a> {
        let Claim::Held { owner } = shard.claim else {
            return shard;
        };
        if owner == me
            && let Some(place) = self.place(shard.key)
            && let (_, Sighting::Of { member, .. }) = &self.0[place]
        {
            let claim = Claim::Going { to: member };
            return Shard { claim, ..shard };
        }
        shard
    }

    fn place(&self, key: &LeaseKey) -> Option<usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(key)).ok()
    }
}
