//! What is known of a call, a delivery, a record, a shard and an instance once the history is over.

use std::time::Duration;

use lease_core::LeaseKey;

use crate::check::index::Index;
use crate::check::{Found, ROUNDING};
use crate::history::{Answer, Ask, Delivery, InstanceId};

/// A place in the history. Of two at one time the one that was noted first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    pub(super) place: usize,
    pub(super) at: Duration,
}

impl Moment {
    pub(super) fn found(self, text: String) -> Found {
        Found { at: self.at, text }
    }
}

/// A call of the store.
#[derive(Debug)]
pub(super) struct Call<'h> {
    pub(super) instance: InstanceId,
    pub(super) ask: &'h Ask,
    /// The shard that it is for; none for `read_all`.
    pub(super) shard: Option<usize>,
    pub(super) sent: Moment,
    /// Each time that it took effect.
    pub(super) took: Vec<(Moment, &'h Answer)>,
    pub(super) answered: Option<(Moment, &'h Answer)>,
}

impl Call<'_> {
    /// Whether the instance has been told yes.
    pub(super) fn was_answered_yes(&self) -> bool {
        matches!(self.answered, Some((_, Answer::Yes)))
    }

    /// Whether the instance has an answer by this moment.
    pub(super) fn is_answered_by(&self, moment: Moment) -> bool {
        self.answered
            .is_some_and(|(answered, _)| answered.at <= moment.at + ROUNDING)
    }

    /// When the store accepted it first.
    pub(super) fn accepted(&self) -> Option<Moment> {
        let mut took = self.took.iter();
        took.find(|(_, answer)| **answer == Answer::Yes)
            .map(|(moment, _)| *moment)
    }
}

/// A record in a handler's hands.
#[derive(Debug)]
pub(super) struct Handed<'h> {
    pub(super) delivery: &'h Delivery,
    pub(super) shard: usize,
    /// The record, by its place in the history's list.
    pub(super) record: Option<usize>,
    pub(super) at: Moment,
    /// When the handler ended, and whether that settled the record.
    pub(super) said: Option<(Moment, bool)>,
    /// The acquisition that it was handed over under, by its place in the rows' list.
    pub(super) grant: Option<usize>,
}

impl Handed<'_> {
    /// When the handler ended by settling the record.
    pub(super) fn settled(&self) -> Option<Moment> {
        self.said
            .and_then(|(moment, settles)| settles.then_some(moment))
    }

    /// The reader that handed it over, whatever its acquisitions: the shard and the instance.
    pub(super) fn reader(&self) -> (usize, InstanceId) {
        (self.shard, self.delivery.instance)
    }

    /// Whether its handler runs at this moment, if nobody has ended it.
    pub(super) fn runs_at(&self, moment: Moment) -> bool {
        self.at < moment && self.said.is_none_or(|(said, _)| said >= moment)
    }

    /// How the record is called in a text.
    pub(super) fn name(&self, index: &Index<'_>) -> String {
        match self.record {
            Some(record) => index.record_name(record),
            None => format!("{} of {}", self.delivery.sequence, index.name(self.shard)),
        }
    }
}

/// A read of a shard that brought records.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) instance: InstanceId,
    /// When it was asked for.
    pub(super) sent: Duration,
    /// When the answer came.
    pub(super) at: Moment,
    /// By their places in the history's list.
    pub(super) records: Vec<usize>,
}

/// What became of a record.
#[derive(Clone, Debug, Default)]
pub(super) struct Fate {
    /// When it was first settled.
    pub(super) settled: Option<Moment>,
    /// When it passed out of retention.
    pub(super) trimmed: Option<Moment>,
    /// Whether anybody has to handle it: see [`owed`](super::owed).
    pub(super) is_owed: bool,
}

impl Fate {
    /// When nobody had to wait for it any more.
    pub(super) fn done(&self) -> Option<Moment> {
        self.settled.into_iter().chain(self.trimmed).min()
    }

    /// Whether nobody had to wait for it any more at this moment.
    pub(super) fn is_done_before(&self, moment: Moment) -> bool {
        !self.is_owed || self.done().is_some_and(|done| done < moment)
    }
}

/// A shard and what happened to it.
#[derive(Debug)]
pub(super) struct ShardFacts<'h> {
    pub(super) key: &'h LeaseKey,
    pub(super) parents: Vec<usize>,
    /// Its records in the order of their sequence numbers, by their places in the history's list.
    pub(super) records: Vec<usize>,
    /// In the order in which they were handed over.
    pub(super) deliveries: Vec<usize>,
    /// In the order in which they were answered.
    pub(super) fetches: Vec<Fetch>,
    /// In the order in which they were sent.
    pub(super) calls: Vec<usize>,
    /// When a split or a merge closed it.
    pub(super) closed: Option<Moment>,
    /// When what it stored passed out of retention, and itself out of the listing.
    pub(super) trimmed: Option<Moment>,
}

/// When an instance was there.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    pub(super) joined: Option<Moment>,
    pub(super) started: Option<Moment>,
    pub(super) stopping: Option<Moment>,
    pub(super) stopped: Option<Moment>,
    pub(super) killed: Option<Moment>,
    /// From when to when it stood still; to the end, where it never woke.
    pub(super) pauses: Vec<(Duration, Option<Duration>)>,
}

impl Life {
    /// When it was told to stop or was killed.
    pub(super) fn ends(&self) -> Option<Moment> {
        self.stopping.into_iter().chain(self.killed).min()
    }

    /// Whether it was started by `from`, and ran until after `to`, and stood still at no time between.
    pub(super) fn runs_throughout(&self, from: Duration, to: Duration) -> bool {
        self.started.is_some_and(|started| started.at <= from)
            && self.ends().is_none_or(|end| end.at > to)
            && !self.is_paused_within(from, to)
    }

    /// Whether it stood still at any time between.
    pub(super) fn is_paused_within(&self, from: Duration, to: Duration) -> bool {
        let mut pauses = self.pauses.iter();
        pauses.any(|(paused, woken)| *paused <= to && woken.is_none_or(|woken| woken >= from))
    }
}

/// The time after all is healed and before anybody is told to stop.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    pub(super) from: Duration,
    pub(super) to: Moment,
    /// Who is there all the time.
    pub(super) alive: Vec<InstanceId>,
}
