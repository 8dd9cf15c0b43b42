//! One lease: what each call makes of it, given the moment at which it takes effect.

use std::time::Duration;

use lease_core::{Checkpoint, Holder, LeaseState, Renewal};
use tokio::time::Instant;

/// A row. Its present holder, if it has one, has the highest epoch of the row, so the epoch is kept
/// once.
#[derive(Debug, Default)]
pub(crate) struct Row {
    epoch: u64,
    checkpoint: Option<Checkpoint>,
    standing: Standing,
}

#[derive(Debug)]
enum Standing {
    Held(Lease),
    Released(Option<Reservation>),
}

impl Default for Standing {
    fn default() -> Self {
        Self::Released(None)
    }
}

#[derive(Debug)]
struct Lease {
    owner: String,
    since: Instant,
    ttl: Duration,
    ask: Option<Ask>,
}

#[derive(Debug)]
struct Ask {
    by: String,
    made: Instant,
}

#[derive(Debug)]
struct Reservation {
    asker: String,
    since: Instant,
    lasts: Duration,
}

/// How much is left of `span` since `since`; `None` once it is over, which it is at its very end.
fn left(since: Instant, span: Duration, now: Instant) -> Option<Duration> {
    span.checked_sub(now.saturating_duration_since(since))
        .filter(|left| !left.is_zero())
}

impl Lease {
    fn left(&self, now: Instant) -> Option<Duration> {
        left(self.since, self.ttl, now)
    }

    fn asker(&self, now: Instant) -> Option<&str> {
        self.ask
            .as_ref()
            .filter(|ask| left(ask.made, self.ttl, now).is_some())
            .map(|ask| ask.by.as_str())
    }
}

impl Reservation {
    fn left(&self, now: Instant) -> Option<Duration> {
        left(self.since, self.lasts, now)
    }
}

impl Row {
    pub(crate) fn acquire(&mut self, owner: &str, ttl: Duration, now: Instant) -> Option<Holder> {
        if !self.is_free_for(owner, now) {
            return None;
        }
        let holder = Holder {
            owner: owner.to_owned(),
            epoch: self.epoch + 1,
        };
        self.epoch = holder.epoch;
        self.standing = Standing::Held(Lease {
            owner: owner.to_owned(),
            since: now,
            ttl,
            ask: None,
        });
        Some(holder)
    }

    pub(crate) fn renew(&mut self, holder: &Holder, ttl: Duration, now: Instant) -> Renewal {
        let Some(lease) = self.lease_of(holder) else {
            return Renewal::Lost;
        };
        lease.since = now;
        lease.ttl = ttl;
        match lease.asker(now) {
            Some(asker) => Renewal::Asked {
                by: asker.to_owned(),
            },
            None => Renewal::Held,
        }
    }

    pub(crate) fn checkpoint(&mut self, holder: &Holder, at: &Checkpoint) -> bool {
        let held = self.lease_of(holder).is_some();
        if held {
            self.checkpoint = Some(at.clone());
        }
        held
    }

    pub(crate) fn release(&mut self, holder: &Holder, now: Instant) {
        let Some(lease) = self.lease_of(holder) else {
            return;
        };
        let reservation = lease.asker(now).map(|asker| Reservation {
            asker: asker.to_owned(),
            since: now,
            lasts: lease.ttl / 2,
        });
        self.standing = Standing::Released(reservation);
    }

    pub(crate) fn ask(&mut self, owner: &str, now: Instant) -> bool {
        let finished = self.is_finished();
        let Standing::Held(lease) = &mut self.standing else {
            return false;
        };
        let granted = !finished
            && lease.left(now).is_some()
            && lease.owner != owner
            && lease.asker(now).is_none_or(|asker| asker == owner);
        if granted {
            lease.ask = Some(Ask {
                by: owner.to_owned(),
                made: now,
            });
        }
        granted
    }

    pub(crate) fn may_be_forgotten(&self) -> bool {
        self.is_finished() && matches!(self.standing, Standing::Released(_))
    }

    pub(crate) fn state(&self, now: Instant) -> LeaseState {
        let known = LeaseState {
            checkpoint: self.checkpoint.clone(),
            epoch: self.epoch,
            ..LeaseState::default()
        };
        match &self.standing {
            Standing::Held(lease) => LeaseState {
                holder: Some(Holder {
                    owner: lease.owner.clone(),
                    epoch: self.epoch,
                }),
                live: lease.left(now).is_some(),
                expires_in: lease.left(now),
                asked_by: lease.asker(now).map(str::to_owned),
                ..known
            },
            Standing::Released(reservation) => {
                match reservation.as_ref().and_then(|r| Some((r, r.left(now)?))) {
                    Some((reservation, left)) => LeaseState {
                        expires_in: Some(left),
                        asked_by: Some(reservation.asker.clone()),
                        ..known
                    },
                    None => known,
                }
            }
        }
    }

    fn is_free_for(&self, owner: &str, now: Instant) -> bool {
        match &self.standing {
            Standing::Held(lease) => lease.left(now).is_none(),
            Standing::Released(Some(reservation)) => {
                reservation.asker == owner || reservation.left(now).is_none()
            }
            Standing::Released(None) => true,
        }
    }

    fn is_finished(&self) -> bool {
        self.checkpoint
            .as_ref()
            .is_some_and(Checkpoint::is_shard_end)
    }

    /// The lease, if `holder` is its present holder, live or expired.
    fn lease_of(&mut self, holder: &Holder) -> Option<&mut Lease> {
        match &mut self.standing {
            Standing::Held(lease) if self.epoch == holder.epoch && lease.owner == holder.owner => {
                Some(lease)
            }
            Standing::Held(_) | Standing::Released(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);
    const INSTANT: Duration = Duration::from_nanos(1);

    fn held(now: Instant) -> (Row, Holder) {
        let mut row = Row::default();
        let holder = row.acquire("a", TTL, now).unwrap();
        (row, holder)
    }

    #[test]
    fn a_lease_is_live_until_its_ttl_and_expired_at_exactly_it() {
        let start = Instant::now();
        let (mut row, _) = held(start);

        let last = start + TTL - INSTANT;
        assert_eq!(row.state(last).expires_in, Some(INSTANT));
        assert!(row.state(last).live);
        assert_eq!(row.acquire("b", TTL, last), None);

        let state = row.state(start + TTL);
        assert!(!state.live);
        assert_eq!(state.expires_in, None);
        assert_eq!(state.holder.unwrap().owner, "a");
        assert_eq!(row.acquire("b", TTL, start + TTL).unwrap().epoch, 2);
    }

    #[test]
    fn a_renewal_lasts_for_its_own_ttl() {
        let start = Instant::now();
        let (mut row, holder) = held(start);
        assert_eq!(row.renew(&holder, TTL * 3, start + TTL), Renewal::Held);
        assert_eq!(row.state(start + TTL).expires_in, Some(TTL * 3));
    }

    #[test]
    fn the_longest_ttl_there_is_does_no_harm() {
        let start = Instant::now();
        let mut row = Row::default();
        let holder = row.acquire("a", Duration::MAX, start).unwrap();
        assert!(row.ask("b", start));
        assert!(row.state(start + TTL).live);
        row.release(&holder, start);
        assert_eq!(row.state(start).expires_in, Some(Duration::MAX / 2));
    }

    #[test]
    fn an_ask_lapses_at_exactly_the_ttl_of_the_row() {
        let start = Instant::now();
        let (mut row, holder) = held(start);
        assert!(row.ask("b", start));

        let asked = Renewal::Asked { by: "b".to_owned() };
        assert_eq!(row.renew(&holder, TTL, start + TTL - INSTANT), asked);
        assert!(!row.ask("c", start + TTL - INSTANT));
        assert_eq!(row.renew(&holder, TTL, start + TTL), Renewal::Held);
        assert_eq!(row.state(start + TTL).asked_by, None);
        assert!(row.ask("c", start + TTL));
    }

    #[test]
    fn an_expired_lease_cannot_be_asked_for() {
        let start = Instant::now();
        let (mut row, _) = held(start);
        assert!(!row.ask("b", start + TTL));
    }

    #[test]
    fn a_reservation_lasts_half_a_lease_from_the_release() {
        let start = Instant::now();
        let (mut row, holder) = held(start);
        assert!(row.ask("b", start));
        let released = start + TTL - INSTANT;
        row.release(&holder, released);

        let last = released + TTL / 2 - INSTANT;
        assert_eq!(row.state(last).reserved_for(), Some("b"));
        assert_eq!(row.state(last).expires_in, Some(INSTANT));
        assert_eq!(row.acquire("a", TTL, last), None);
        assert_eq!(row.state(released + TTL / 2).asked_by, None);
        assert!(row.acquire("a", TTL, released + TTL / 2).is_some());
    }

    #[test]
    fn an_ask_that_lapsed_before_the_release_reserves_nothing() {
        let start = Instant::now();
        let (mut row, holder) = held(start);
        assert!(row.ask("b", start));
        row.release(&holder, start + TTL);
        assert_eq!(row.state(start + TTL).asked_by, None);
        assert!(row.acquire("c", TTL, start + TTL).is_some());
    }

    #[test]
    fn an_expired_holder_keeps_a_finished_row_from_being_forgotten() {
        let start = Instant::now();
        let (mut row, holder) = held(start);
        assert!(!row.may_be_forgotten());
        assert!(row.checkpoint(&holder, &Checkpoint::shard_end()));
        assert!(!row.may_be_forgotten());
        row.release(&holder, start);
        assert!(row.may_be_forgotten());
    }
}
