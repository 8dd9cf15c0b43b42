//! Expiry by observation: what one instance has seen of a row, for how many ticks, and what it tries next.

use crate::flaw::{Flaw, Rules};
use crate::table::{Free, Mine, Name, Row};

/// What an acquisition sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Attempt {
    Free(Free),
    Expired {
        observed: Mine,
        counter: u8,
    },
    /// Only look: the row has vanished, and counts as held.
    Look,
}

/// What tells one state of a row from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Version {
    epoch: u8,
    counter: u8,
    owner: Option<Name>,
    /// Stands for the random token in the row, which says the same: which acquisition it is.
    serial: u8,
}

impl Version {
    const NONE: Self = Self {
        epoch: 0,
        counter: 0,
        owner: None,
        serial: 0,
    };

    fn of(row: &Row) -> Self {
        Self {
            epoch: row.epoch,
            counter: row.counter,
            owner: row.owner,
            serial: row.serial,
        }
    }

    fn is_after(&self, other: &Self) -> bool {
        let order = |version: &Self| (version.epoch, version.counter, version.owner.is_none());
        order(self) > order(other)
    }

    fn is_before_in_the_same_grant(&self, other: &Self) -> bool {
        self.serial == other.serial && self.counter < other.counter
    }
}

/// An answer that has arrived, as far as it shows the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) row: Option<Row>,
    /// Its call was sent before the answer arrived that showed what is known.
    pub(crate) overtaken: bool,
    /// The ticks since its call was sent.
    pub(crate) sent: u8,
    pub(crate) shard_end: u8,
}

/// What one instance has seen of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sighting {
    version: Version,
    asker: Option<Name>,
    finished: bool,
    /// Where the checkpoint stood; nobody opens there but by [`Flaw::OpensWhereItStoodBefore`].
    pub(crate) checkpoint: u8,
    /// The ticks since the arrival of the answer that first showed this version.
    since: u8,
    /// The same for the first that showed no row, if the last one did.
    gone: Option<u8>,
    highest: u8,
    /// Where it shows an acquisition of this instance's: the ticks since that, or its last renewal, was sent.
    own: Option<u8>,
}

impl Sighting {
    /// What is known once an answer has arrived, and whether that is news.
    pub(crate) fn after(
        before: Option<Self>,
        arrival: Arrival,
        rules: Rules,
    ) -> (Option<Self>, bool) {
        let since = match rules.lack(Flaw::ExpiryFromSent) {
            true => arrival.sent,
            false => 0,
        };
        let Some(row) = arrival.row else {
            let Some(mut known) = before else {
                return (None, false);
            };
            let news = !arrival.overtaken && known.gone.is_none();
            if news {
                known.gone = Some(since);
            }
            return (Some(known), news);
        };
        let seen = Self {
            version: Version::of(&row),
            asker: row.asker(),
            finished: row.is_finished(arrival.shard_end),
            checkpoint: match rules.lack(Flaw::OpensWhereItStoodBefore) {
                true => row.checkpoint,
                false => 0,
            },
            since,
            gone: None,
            highest: row.epoch,
            own: None,
        };
        let Some(mut known) = before else {
            return (Some(seen), true);
        };
        let is_same = seen.version == known.version && known.gone.is_none();
        let is_news = match arrival.overtaken {
            true => seen.version.is_after(&known.version),
            false => !seen.version.is_before_in_the_same_grant(&known.version),
        };
        if is_same {
            known.asker = seen.asker;
            known.finished = seen.finished;
            known.checkpoint = seen.checkpoint;
            if rules.lack(Flaw::EachAnswerStartsAnew) {
                known.since = 0;
            }
            return (Some(known), false);
        }
        if !is_news {
            return (Some(known), false);
        }
        let still_own = seen.version.owner.is_some()
            && seen.version.epoch == known.version.epoch
            && seen.version.owner == known.version.owner;
        let seen = Self {
            highest: known.highest.max(row.epoch),
            own: known.own.filter(|_| still_own),
            ..seen
        };
        (Some(seen), true)
    }

    /// This instance was granted, or renewed, the acquisition of this epoch by a call sent so many ticks ago.
    pub(crate) fn is_own(&mut self, epoch: u8, sent: u8) {
        if self.version.epoch == epoch && self.gone.is_none() {
            self.own = Some(self.own.map_or(sent, |own| own.min(sent)));
        }
    }

    /// With other names for the same owners.
    pub(crate) fn renamed(mut self, name: impl Fn(Name) -> Name) -> Self {
        self.version.owner = self.version.owner.map(&name);
        self.asker = self.asker.map(&name);
        self
    }

    /// Where rows do not vanish and nobody asks, less of it matters; and next to nothing where it shows another
    /// epoch than the present one.
    pub(crate) fn tidy(&mut self, present_epoch: u8, lease: u8) {
        self.highest = 0;
        self.own = None;
        self.finished = false;
        if self.version.epoch < present_epoch {
            self.version = Version::NONE;
        }
        if self.version.owner.is_none() {
            self.since = lease;
        }
    }

    pub(crate) fn tick(&mut self, lease: u8) {
        self.since = lease.min(self.since + 1);
        self.gone = self.gone.map(|gone| lease.min(gone + 1));
        self.own = self.own.map(|own| lease.min(own + 1));
    }

    /// Whether it shows a lease of somebody else's that has not expired.
    pub(crate) fn is_live_for_another(&self, me: Name, lease: u8) -> bool {
        let another = self.version.owner.is_some_and(|owner| owner != me);
        another && self.gone.is_none() && self.since < lease
    }

    /// Whether it shows a finished shard that nobody holds.
    pub(crate) fn may_be_forgotten(&self) -> bool {
        self.finished && self.version.owner.is_none() && self.gone.is_none()
    }

    /// What an acquisition sends, and whether it is sure of itself: it is granted if the row is still as it
    /// was seen.
    pub(crate) fn attempt(&self, me: Name, lease: u8, rules: Rules) -> (Attempt, bool) {
        let Version {
            epoch,
            counter,
            owner,
            ..
        } = self.version;
        if let Some(gone) = self.gone {
            let was_to_go = self.finished && owner.is_none();
            // Past its own deadline somebody else may have had it before it vanished.
            let in_time = |own| own < lease || rules.lack(Flaw::VanishedIsItsOwnForEver);
            let was_its_own = self.own.is_some_and(in_time) && owner == Some(me);
            let not_waited_for = rules.lack(Flaw::VanishedIsNotWaitedFor);
            let free = was_its_own || was_to_go || gone >= lease || not_waited_for;
            return match free {
                true => (Attempt::Free(Free::Absent { seen: self.highest }), true),
                false => (Attempt::Look, false),
            };
        }
        let released = |reservation_counts| {
            Attempt::Free(Free::Released {
                epoch,
                reservation_counts,
            })
        };
        match owner {
            Some(owner) if self.since >= lease => {
                let observed = Mine { owner, epoch };
                (Attempt::Expired { observed, counter }, true)
            }
            // It may have been released since.
            Some(_) => (released(true), false),
            None => {
                // A reservation lasts half a lease.
                let is_over =
                    self.since >= lease.div_ceil(2) && !rules.lack(Flaw::ReservationForEver);
                let is_reserved = self.asker.is_some_and(|asker| asker != me);
                (released(!is_over), is_over || !is_reserved)
            }
        }
    }

    /// The same for an instance that has seen nothing yet.
    pub(crate) fn first_attempt() -> (Attempt, bool) {
        (Attempt::Free(Free::Absent { seen: 0 }), true)
    }
}
