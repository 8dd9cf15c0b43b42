//! What was seen of one lease, and what follows from it.

use std::time::Duration;

use lease_core::{Holder, LeaseState};
use tokio::time::Instant;

use super::{Attempt, Expired, Outlook, Place, Sent};
use crate::row::Row;

#[derive(Debug)]
pub(super) struct Sighting {
    /// The row as it was last seen.
    row: Row,
    /// The arrival of the answer that first showed this holder and this counter.
    since: Instant,
    /// The arrival of the answer that first showed no row, if the last one did.
    gone_since: Option<Instant>,
    /// The last call that was sent before the arrival of the answer that first showed all this: what is sent later
    /// shows nothing older. Of the answers without a row it is the last one, since a row may have come and gone
    /// between two of them.
    as_of: Place,
    /// The highest epoch that was ever seen.
    highest: u64,
    own: Option<Own>,
}

/// The last lease that this instance acquired or renewed.
#[derive(Debug)]
struct Own {
    holder: Holder,
    grant: String,
    /// The call as it was sent.
    sent: Sent,
    ttl: Duration,
}

impl Sighting {
    pub(super) fn first(row: &Row, arrival: Place, now: Instant) -> Self {
        Self {
            row: row.clone(),
            since: now,
            gone_since: None,
            as_of: arrival,
            highest: row.epoch,
            own: None,
        }
    }

    pub(super) fn saw(&mut self, row: &Row, sent: Sent, arrival: Place, now: Instant) {
        if !self.is_news(row, sent) || (self.row == *row && self.gone_since.is_none()) {
            return;
        }
        // An answer that was overtaken by one without the row shows what was there before.
        let stays_gone = self.gone_since.is_some() && sent.place <= self.as_of;
        if !stays_gone {
            let is_back = self.gone_since.take().is_some();
            if is_back || version(row) != version(&self.row) {
                self.since = now;
            }
            self.as_of = arrival;
        }
        self.highest = self.highest.max(row.epoch);
        self.row = row.clone();
    }

    pub(super) fn saw_nothing(&mut self, sent: Sent, arrival: Place, now: Instant) {
        // Where it was sent before the row was last seen, it may be older than that.
        if sent.place > self.as_of {
            self.gone_since.get_or_insert(now);
            self.as_of = arrival;
        }
    }

    pub(super) fn kept(&mut self, row: &Row, sent: Sent) {
        let (Some(holder), Some(grant)) = (row.holder(), row.grant()) else {
            return;
        };
        if self
            .own
            .as_ref()
            .is_none_or(|own| own.sent.place < sent.place)
        {
            self.own = Some(Own {
                holder,
                grant: grant.to_owned(),
                sent,
                ttl: row.ttl,
            });
        }
    }

    pub(super) fn cleared(&mut self, row: &Row, sent: Sent, arrival: Place, now: Instant) {
        let is_newest = sent.place > self.as_of || self.row.epoch == row.epoch;
        if is_newest || self.gone_since.is_some() {
            self.highest = self.highest.max(row.epoch);
            self.row = row.clone();
            self.gone_since = Some(now);
            self.as_of = arrival;
        }
    }

    /// Whether an answer shows what became of the row after it was last seen.
    fn is_news(&self, row: &Row, sent: Sent) -> bool {
        if sent.place > self.as_of {
            // Unless a replica lags: a row never goes back within one acquisition.
            let is_same_grant = row.grant().is_some() && row.grant() == self.row.grant();
            let lags =
                is_same_grant && row.epoch == self.row.epoch && row.counter < self.row.counter;
            return !lags;
        }
        // Where the row was deleted by hand and begun anew, a higher epoch may be that of the row before.
        let is_comparable = row.epoch == self.row.epoch || row.epoch > self.highest;
        is_comparable && progress(row) > progress(&self.row)
    }

    fn holder(&self) -> Option<Holder> {
        self.row.holder()
    }

    pub(super) fn grant(&self) -> Option<(Holder, &str)> {
        if self.gone_since.is_some() {
            return None;
        }
        Some((self.holder()?, self.row.grant()?))
    }

    pub(super) fn own_grant(&self, holder: &Holder) -> Option<&str> {
        let own = self.own.as_ref().filter(|own| own.holder == *holder)?;
        Some(&own.grant)
    }

    /// Whether nobody will need the row again, so that its absence is no surprise and its epoch no loss.
    pub(super) fn is_done_with(&self) -> bool {
        self.row.is_finished() && self.row.held.is_none()
    }

    /// How long a row that vanished counts as held, for this owner or any of this instance. Whoever acquired the lease
    /// last waits half as long as anybody else: it alone still knows the checkpoint, which has gone with the row.
    fn gone_for(&self, owner: Option<&str>) -> Duration {
        let is_own = self.own.as_ref().is_some_and(|own| {
            self.row.grant() == Some(&own.grant)
                && owner.is_none_or(|owner| own.holder.owner == owner)
        });
        self.row.ttl.saturating_mul(if is_own { 1 } else { 2 })
    }

    /// Whether the row, as it was last seen, is a lease of this owner's that this instance itself has acquired or
    /// renewed so lately that nobody can have taken it over since.
    fn is_own_and_live(&self, owner: &str, now: Instant) -> bool {
        self.own.as_ref().is_some_and(|own| {
            own.holder.owner == owner
                && self.row.grant() == Some(&own.grant)
                && left(own.sent.at, own.ttl, now).is_some()
        })
    }

    pub(super) fn expired(&self, now: Instant) -> Option<Expired> {
        let is_over = left(self.since, self.row.ttl, now).is_none();
        if self.gone_since.is_some() || !is_over {
            return None;
        }
        Some(Expired {
            grant: self.row.grant()?.to_owned(),
            counter: self.row.counter,
        })
    }

    pub(super) fn outlook(&self, owner: &str, now: Instant) -> Outlook {
        if let Some(gone_since) = self.gone_since {
            let free = self.is_own_and_live(owner, now)
                || self.is_done_with()
                || left(gone_since, self.gone_for(Some(owner)), now).is_none();
            let attempt = match free {
                true => Attempt::Absent { seen: self.highest },
                false => Attempt::Look,
            };
            return Outlook { free, attempt };
        }
        let epoch = self.row.epoch;
        let Some(from) = self.holder() else {
            let is_reserved = self.row.asker().is_some_and(|asker| asker != owner);
            let is_over = left(self.since, self.row.ttl / 2, now).is_none();
            return Outlook {
                free: !is_reserved || is_over,
                attempt: Attempt::Released {
                    epoch,
                    reservation_counts: !is_over,
                },
            };
        };
        match self.expired(now) {
            Some(seen) => Outlook {
                free: true,
                attempt: Attempt::Expired { from, seen },
            },
            // Held as far as is known. It may have been released since, in which case it is granted at once;
            // otherwise the refusal is the next sighting.
            None => Outlook {
                free: false,
                attempt: Attempt::Released {
                    epoch,
                    reservation_counts: true,
                },
            },
        }
    }

    pub(super) fn state(&self, now: Instant) -> LeaseState {
        match self.gone_since {
            Some(gone_since) => self.state_without_row(gone_since, now),
            None => self.state_with_row(now),
        }
    }

    fn state_with_row(&self, now: Instant) -> LeaseState {
        let known = LeaseState {
            checkpoint: self.row.checkpoint.clone(),
            holder: self.holder(),
            epoch: self.row.epoch,
            ..LeaseState::default()
        };
        let asker = self.row.asker().map(str::to_owned);
        if known.holder.is_some() {
            let left = left(self.since, self.row.ttl, now);
            return LeaseState {
                live: left.is_some(),
                expires_in: left,
                asked_by: asker,
                ..known
            };
        }
        match (asker, left(self.since, self.row.ttl / 2, now)) {
            (Some(asker), Some(left)) => LeaseState {
                expires_in: Some(left),
                asked_by: Some(asker),
                ..known
            },
            _ => known,
        }
    }

    fn state_without_row(&self, gone_since: Instant, now: Instant) -> LeaseState {
        if self.is_done_with() {
            return LeaseState::default();
        }
        let known = LeaseState {
            epoch: self.highest,
            ..LeaseState::default()
        };
        match left(gone_since, self.gone_for(None), now) {
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

/// What a lease must stand still in to expire.
fn version(row: &Row) -> (u64, u64, Option<Holder>, Option<&str>) {
    (row.epoch, row.counter, row.holder(), row.grant())
}

/// How far a row has come. All that is done to it, but by hand, makes this greater: a release comes after every
/// acquisition and renewal of its epoch.
fn progress(row: &Row) -> (u64, u64, bool, u64, Option<u64>) {
    let is_released = row.held.is_none();
    let lapses = row.ask.as_ref().map(|ask| ask.lapses);
    (row.epoch, row.counter, is_released, row.cp_no, lapses)
}

/// How much is left of `span` since `since`; `None` once it is over, which it is at its very end.
fn left(since: Instant, span: Duration, now: Instant) -> Option<Duration> {
    span.checked_sub(now.saturating_duration_since(since))
        .filter(|left| !left.is_zero())
}
