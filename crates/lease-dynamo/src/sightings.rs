//! Expiry by observation: what this instance has seen of each lease, since when, and what follows from it.
//!
//! There is no clock but the caller's monotonic one. A lease has expired once one holder and one counter have
//! been seen for a whole lease time, counted from the arrival of the answer that first showed them. Nothing
//! here makes a call or reads a clock.

use std::collections::HashMap;
use std::time::Duration;

use lease_core::{Holder, LeaseKey, LeaseState};
use tokio::time::Instant;

use crate::row::Row;

/// So many keys are remembered, or twice as many as the longest listing has, where that is more.
const CAPACITY: usize = 65_536;

/// When a call was sent, in the order of all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

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
    /// Take it from this holder where the counter still stands there.
    Expired { from: Holder, counter: u64 },
    /// Adopt what this acquisition was granted without an answer.
    Unanswered { from: Holder, grant: String },
    /// Only look: the row has vanished, and counts as held.
    Look,
}

/// All that was seen.
#[derive(Debug)]
pub(crate) struct Sightings {
    rows: HashMap<LeaseKey, Sighting>,
    calls: u64,
    capacity: usize,
}

/// What tells one state of a row from the next. A release changes no counter, but it comes after everything
/// else of its epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    epoch: u64,
    counter: u64,
    owner: Option<String>,
    grant: Option<String>,
}

impl Version {
    fn of(row: &Row) -> Self {
        Self {
            epoch: row.epoch,
            counter: row.counter,
            owner: row.owner.clone(),
            grant: row.grant.clone(),
        }
    }

    fn is_after(&self, other: &Self) -> bool {
        let order = |version: &Self| (version.epoch, version.counter, version.owner.is_none());
        order(self) > order(other)
    }

    /// Whether it is an earlier state of the very same acquisition, which a row never goes back to.
    fn is_before_in_the_same_grant(&self, other: &Self) -> bool {
        self.epoch == other.epoch
            && self.grant.is_some()
            && self.grant == other.grant
            && self.counter < other.counter
    }
}

#[derive(Debug)]
struct Sighting {
    /// The row as it was last seen.
    version: Version,
    ttl: Duration,
    asker: Option<String>,
    finished: bool,
    /// The arrival of the answer that first showed this version.
    since: Instant,
    /// The arrival of the answer that first showed no row, if the last one did.
    gone_since: Option<Instant>,
    /// The last call that was sent before that arrival: what is sent later shows nothing older.
    as_of: Ticket,
    /// The highest epoch that was ever seen.
    highest: u64,
    /// Whether this instance was granted the acquisition that the version shows.
    ours: bool,
    /// The last call that looked at it.
    touched: Ticket,
}

impl Default for Sightings {
    fn default() -> Self {
        Self {
            rows: HashMap::new(),
            calls: 0,
            capacity: CAPACITY,
        }
    }
}

impl Sightings {
    /// A call is about to be sent.
    pub(crate) fn send(&mut self) -> Ticket {
        self.calls += 1;
        Ticket(self.calls)
    }

    /// The answer to a call has arrived, and shows the row, or that there is none: what is known now.
    pub(crate) fn observe(
        &mut self,
        key: &LeaseKey,
        row: Option<&Row>,
        sent: Ticket,
        now: Instant,
    ) -> LeaseState {
        let arrived = Ticket(self.calls);
        let Some(row) = row else {
            let Some(sighting) = self.rows.get_mut(key) else {
                return LeaseState::default();
            };
            sighting.touched = arrived;
            if sent <= sighting.as_of {
                // Sent before the row was last seen, so it may be older than that.
                return LeaseState::default();
            }
            if sighting.gone_since.is_none() {
                sighting.gone_since = Some(now);
                sighting.as_of = arrived;
            }
            return sighting.without_row(now);
        };
        if let Some(sighting) = self.rows.get_mut(key) {
            sighting.touched = arrived;
            sighting.saw(row, sent, arrived, now);
            return sighting.with_row(row, now);
        }
        self.make_room();
        let sighting = Sighting::first(row, arrived, now);
        let state = sighting.with_row(row, now);
        self.rows.insert(key.clone(), sighting);
        state
    }

    /// The row shows an acquisition that was granted to this instance.
    pub(crate) fn granted(&mut self, key: &LeaseKey, row: &Row, sent: Ticket, now: Instant) {
        self.observe(key, Some(row), sent, now);
        if let Some(sighting) = self.rows.get_mut(key)
            && sighting.version.epoch == row.epoch
        {
            sighting.ours = true;
        }
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

    /// The token of the acquisition that holds the row, as it was last seen.
    pub(crate) fn grant(&self, key: &LeaseKey) -> Option<(Holder, &str)> {
        let sighting = self.rows.get(key).filter(|s| s.gone_since.is_none())?;
        Some((sighting.holder()?, sighting.version.grant.as_deref()?))
    }

    /// So many keys are looked at together, so all of them must fit.
    pub(crate) fn fit(&mut self, keys: usize) {
        self.capacity = self.capacity.max(keys.saturating_mul(2));
    }

    /// Forgets the half that nobody has looked at for longest. What is forgotten counts from anew, so that a
    /// lease is found expired later, never sooner.
    fn make_room(&mut self) {
        if self.rows.len() < self.capacity {
            return;
        }
        let mut touched: Vec<Ticket> = self.rows.values().map(|s| s.touched).collect();
        let middle = touched.len() / 2;
        let (_, &mut median, _) = touched.select_nth_unstable(middle);
        self.rows.retain(|_, sighting| sighting.touched > median);
    }
}

impl Sighting {
    fn first(row: &Row, arrived: Ticket, now: Instant) -> Self {
        Self {
            version: Version::of(row),
            ttl: row.ttl,
            asker: row.asker().map(str::to_owned),
            finished: row.is_finished(),
            since: now,
            gone_since: None,
            as_of: arrived,
            highest: row.epoch,
            ours: false,
            touched: arrived,
        }
    }

    fn saw(&mut self, row: &Row, sent: Ticket, arrived: Ticket, now: Instant) {
        let version = Version::of(row);
        let is_later = sent > self.as_of;
        let is_news = if is_later {
            !version.is_before_in_the_same_grant(&self.version)
        } else {
            version.is_after(&self.version)
        };
        let is_same = version == self.version && self.gone_since.is_none();
        if !is_news && !is_same {
            return;
        }
        self.asker = row.asker().map(str::to_owned);
        self.finished = row.is_finished();
        if is_same {
            return;
        }
        self.ours = self.ours
            && version.owner.is_some()
            && version.epoch == self.version.epoch
            && version.owner == self.version.owner;
        self.highest = self.highest.max(version.epoch);
        self.version = version;
        self.ttl = row.ttl;
        self.since = now;
        self.gone_since = None;
        self.as_of = arrived;
    }

    fn holder(&self) -> Option<Holder> {
        let owner = self.version.owner.clone()?;
        Some(Holder {
            owner,
            epoch: self.version.epoch,
        })
    }

    /// Whether the row was done with when it was last seen, so that its absence is no surprise.
    fn was_to_go(&self) -> bool {
        self.finished && self.version.owner.is_none()
    }

    fn outlook(&self, owner: &str, now: Instant) -> Outlook {
        if let Some(gone_since) = self.gone_since {
            let was_its_own = self.ours && self.version.owner.as_deref() == Some(owner);
            let free = was_its_own || self.was_to_go() || left(gone_since, self.ttl, now).is_none();
            let attempt = match free {
                true => Attempt::Absent { seen: self.highest },
                false => Attempt::Look,
            };
            return Outlook { free, attempt };
        }
        let epoch = self.version.epoch;
        let Some(from) = self.holder() else {
            let is_reserved = self.asker.as_deref().is_some_and(|asker| asker != owner);
            let is_over = left(self.since, self.ttl / 2, now).is_none();
            return Outlook {
                free: !is_reserved || is_over,
                attempt: Attempt::Released {
                    epoch,
                    reservation_counts: !is_over,
                },
            };
        };
        if left(self.since, self.ttl, now).is_none() {
            let counter = self.version.counter;
            return Outlook {
                free: true,
                attempt: Attempt::Expired { from, counter },
            };
        }
        // Held as far as is known. It may have been released since, in which case it is granted at once;
        // otherwise the refusal is the next sighting.
        Outlook {
            free: false,
            attempt: Attempt::Released {
                epoch,
                reservation_counts: true,
            },
        }
    }

    fn with_row(&self, row: &Row, now: Instant) -> LeaseState {
        let known = LeaseState {
            checkpoint: row.checkpoint.clone(),
            holder: row.holder(),
            epoch: row.epoch,
            ..LeaseState::default()
        };
        let asker = row.asker().map(str::to_owned);
        if row.owner.is_some() {
            // Where the row is older than what was seen last, its holder gets the benefit of the doubt.
            let left = left(self.since, row.ttl, now);
            return LeaseState {
                live: left.is_some(),
                expires_in: left,
                asked_by: asker,
                ..known
            };
        }
        match (asker, left(self.since, row.ttl / 2, now)) {
            (Some(asker), Some(left)) => LeaseState {
                expires_in: Some(left),
                asked_by: Some(asker),
                ..known
            },
            _ => known,
        }
    }

    fn without_row(&self, now: Instant) -> LeaseState {
        if self.was_to_go() {
            return LeaseState::default();
        }
        let known = LeaseState {
            epoch: self.highest,
            ..LeaseState::default()
        };
        let left = self
            .gone_since
            .and_then(|gone_since| left(gone_since, self.ttl, now));
        match left {
            Some(left) => LeaseState {
                holder: self.holder(),
                live: true,
                expires_in: Some(left),
                ..known
            },
            None => known,
        }
    }
}

/// How much is left of `span` since `since`; `None` once it is over, which it is at its very end.
fn left(since: Instant, span: Duration, now: Instant) -> Option<Duration> {
    span.checked_sub(now.saturating_duration_since(since))
        .filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests;
