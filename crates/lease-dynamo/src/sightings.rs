//! Expiry by observation: what this instance has seen of each lease, since when, and what follows from it.
//!
//! There is no clock but the caller's monotonic one. A lease has expired once one holder and one counter have
//! been seen for a whole lease time, counted from the arrival of the answer that first showed them. Nothing
//! here makes a call or reads a clock.

mod sighting;

use std::collections::BTreeMap;

use lease_core::{Holder, LeaseKey, LeaseState};
use tokio::time::Instant;

use crate::row::Row;
use crate::sightings::sighting::Sighting;

/// So many keys are remembered, and then twice as many as are still needed, where that is more.
const CAPACITY: usize = 65_536;

/// A call as it was sent: its place in the order of all calls, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    place: Place,
    at: Instant,
}

/// The first call has 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u64);

/// What an acquisition finds, as far as this instance can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outlook {
    /// Whether `attempt` will be granted if the row is still as it was seen.
    pub(crate) free: bool,
    pub(crate) attempt: Attempt,
}

/// The call to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Take it where there is no row; the epoch goes on from `seen`.
    Absent { seen: u64 },
    /// Take it where it is nobody's since the release of this epoch.
    Released {
        epoch: u64,
        reservation_counts: bool,
    },
    /// Take it from this holder where the row is still as it was seen.
    Expired { from: Holder, seen: Expired },
    /// Adopt what an acquisition of this instance's was granted, of which nobody knows.
    Unclaimed { from: Holder, grant: String },
    /// Only look: the row has vanished, and counts as held.
    Look,
}

/// What has been seen to stand still for a lease time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The token of the acquisition that held the lease. Owner, epoch and counter alone can come twice, where a
    /// row is deleted by hand and begun anew.
    pub(crate) grant: String,
    pub(crate) counter: u64,
}

/// All that was seen.
#[derive(Debug)]
pub(crate) struct Sightings {
    rows: BTreeMap<LeaseKey, Sighting>,
    sent: u64,
    /// At so many rows those that are done with are forgotten.
    room: usize,
}

impl Default for Sightings {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            sent: 0,
            room: CAPACITY,
        }
    }
}

impl Sightings {
    /// A call is about to be sent.
    pub(crate) fn send(&mut self, now: Instant) -> Sent {
        self.sent += 1;
        Sent {
            place: Place(self.sent),
            at: now,
        }
    }

    /// The last call that was sent before the answer that arrives now.
    fn arrival(&self) -> Place {
        Place(self.sent)
    }

    /// The answer to a call has arrived, and shows the row, or that there is none: what is known now. That is
    /// more than the answer says where the answer to a later call was here first.
    pub(crate) fn observe(
        &mut self,
        key: &LeaseKey,
        row: Option<&Row>,
        sent: Sent,
        now: Instant,
    ) -> LeaseState {
        let arrival = self.arrival();
        if let Some(sighting) = self.rows.get_mut(key) {
            match row {
                Some(row) => sighting.saw(row, sent, arrival, now),
                None => sighting.saw_nothing(sent, arrival, now),
            }
            return sighting.state(now);
        }
        match row {
            Some(row) => self.insert(key, Sighting::first(row, arrival, now), now),
            None => LeaseState::default(),
        }
    }

    /// The row shows a lease that a call of this instance's has acquired or renewed.
    pub(crate) fn kept(&mut self, key: &LeaseKey, row: &Row, sent: Sent, now: Instant) {
        self.observe(key, Some(row), sent, now);
        if let Some(sighting) = self.rows.get_mut(key) {
            sighting.kept(row, sent);
        }
    }

    /// A call of this instance's has deleted the row, which was done with and is shown as it was.
    pub(crate) fn cleared(&mut self, key: &LeaseKey, row: &Row, sent: Sent, now: Instant) {
        let arrival = self.arrival();
        if let Some(sighting) = self.rows.get_mut(key) {
            sighting.cleared(row, sent, arrival, now);
            return;
        }
        let mut sighting = Sighting::first(row, arrival, now);
        sighting.cleared(row, sent, arrival, now);
        self.insert(key, sighting, now);
    }

    /// What an acquisition by this owner would find.
    pub(crate) fn outlook(&self, key: &LeaseKey, owner: &str, now: Instant) -> Outlook {
        match self.rows.get(key) {
            Some(sighting) => sighting.outlook(owner, now),
            None => Outlook {
                free: true,
                attempt: Attempt::Absent { seen: 0 },
            },
        }
    }

    /// The acquisition that holds the row, as it was last seen.
    pub(crate) fn grant(&self, key: &LeaseKey) -> Option<(Holder, &str)> {
        self.rows.get(key)?.grant()
    }

    /// The token of this holder's acquisition, if it is one of this instance's.
    pub(crate) fn own_grant(&self, key: &LeaseKey, holder: &Holder) -> Option<&str> {
        self.rows.get(key)?.own_grant(holder)
    }

    /// What of the row has been seen for a whole lease time, if it has.
    pub(crate) fn expired(&self, key: &LeaseKey, now: Instant) -> Option<Expired> {
        self.rows.get(key)?.expired(now)
    }

    fn insert(&mut self, key: &LeaseKey, sighting: Sighting, now: Instant) -> LeaseState {
        self.make_room();
        let state = sighting.state(now);
        self.rows.insert(key.clone(), sighting);
        state
    }

    /// Forgets the rows that are done with. Any other may vanish at any time, and then counts as held, with the
    /// epoch that it had, for whoever saw it: there is no time after which that would not matter.
    fn make_room(&mut self) {
        if self.rows.len() < self.room {
            return;
        }
        self.rows.retain(|_, sighting| !sighting.is_done_with());
        // Looking through all of them is not worth it before there are twice as many.
        self.room = CAPACITY.max(self.rows.len() * 2);
    }
}

#[cfg(test)]
mod tests;
