//! The plain model of one row: what each call makes of it, and whether that explains the answer.
//!
//! What the contract leaves open is open here. Whether a lease has expired is for each observer to find out: at the
//! end of its time or any while later, never sooner. So is whether an ask has lapsed, or a reservation run out. A call
//! takes effect as early as its answer lets it, which leaves the most room for what comes after.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::history::{Answer, Call, Operation, short};
use crate::{Checkpoint, Holder, LeaseState, Renewal};

/// How many renewals after an ask must speak of it, whatever a store counts its time in.
const RENEWALS_TOLD: u32 = 2;
/// A store may keep lease times in whole milliseconds.
const ROUNDED_UP: Duration = Duration::from_millis(1);

/// A row, after the calls so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Row {
    /// The earliest that the last call can have taken effect.
    now: Duration,
    /// The highest epoch so far.
    epoch: u64,
    held: Option<Held>,
    /// Who asks for the lease, or has a reservation where nobody holds it.
    asker: Option<Asker>,
    /// The time of the last lease.
    ttl: Duration,
    checkpoint: Option<Checkpoint>,
    /// It was there, and has been forgotten since.
    forgotten: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held {
    holder: Holder,
    /// When it was acquired or renewed.
    since: Duration,
    /// The instance of the store to which the lease was granted without its knowing.
    unanswered_at: Option<usize>,
    /// The place of the last checkpoint that took effect in the order in which calls were sent.
    last_checkpoint: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Asker {
    name: String,
    /// When it asked, or the lease was released.
    since: Duration,
    renewals: u32,
}

impl Row {
    /// The rows that a call may leave behind which explain its answer. None where it cannot have taken effect now;
    /// for a call without an answer, none where it would change nothing.
    pub(super) fn after(&self, operation: &Operation) -> Vec<Self> {
        let mut row = self.clone();
        row.now = row.now.max(operation.began.at);
        let answer = operation.ended.as_ref().map(|(_, answer)| answer);
        let mut rows = match (&operation.call, answer) {
            (Call::Acquire { owner, ttl }, None) => {
                let unanswered_at = Some(operation.instance);
                let epochs = row.next_epochs();
                let granted = row.granted(owner, *ttl, unanswered_at);
                epochs.map(|epoch| granted.clone().under(epoch)).collect()
            }
            (Call::Acquire { owner, .. }, Some(Answer::Acquired(None))) => row.refused(owner),
            (Call::Acquire { owner, ttl }, Some(Answer::Acquired(Some(holder)))) => {
                row.granted_as(holder, owner, *ttl, operation.instance)
            }
            (Call::Renew { holder, ttl }, None) => row.renewed(holder, *ttl),
            (Call::Renew { holder, ttl }, Some(Answer::Renewed(renewal))) => {
                row.renewed_as(renewal, holder, *ttl)
            }
            (Call::Checkpoint { holder, at }, None) => {
                row.checkpointed(holder, at, operation.began.order)
            }
            (Call::Checkpoint { holder, at }, Some(Answer::Checkpointed(accepted))) => {
                match row.is_held_by(holder) == *accepted {
                    true if *accepted => row.checkpointed(holder, at, operation.began.order),
                    true => vec![row],
                    false => vec![],
                }
            }
            (Call::Read, None) => vec![],
            (Call::Read, Some(Answer::State(state))) => row.shown_as(state),
            (Call::Release { holder }, None) => row.released(holder),
            (Call::Release { holder }, Some(Answer::Released)) => match row.is_held_by(holder) {
                true => row.released(holder),
                false => vec![row],
            },
            (Call::Ask { owner }, None) => row.asked(owner),
            (Call::Ask { owner }, Some(Answer::Asked(true))) => row.asked(owner),
            (Call::Ask { owner }, Some(Answer::Asked(false))) => row.not_asked(owner),
            (Call::Forget, None) => row.gone(),
            (Call::Forget, Some(Answer::Forgotten(true))) => row.gone(),
            (Call::Forget, Some(Answer::Forgotten(false))) => {
                let stays = row.is_there() && (row.held.is_some() || !row.is_finished());
                if stays { vec![row] } else { vec![] }
            }
            (_, Some(_)) => vec![],
        };
        // It took effect before it was answered.
        let in_time = |row: &Self| {
            let ended = operation.ended.as_ref();
            ended.is_none_or(|(ended, _)| row.now <= ended.at)
        };
        rows.retain(in_time);
        rows
    }

    fn is_there(&self) -> bool {
        self.epoch > 0 && !self.forgotten
    }

    fn is_finished(&self) -> bool {
        let checkpoint = self.checkpoint.as_ref();
        checkpoint.is_some_and(Checkpoint::is_shard_end)
    }

    fn is_held_by(&self, holder: &Holder) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|held| held.holder == *holder)
    }

    /// The lease is granted anew, as early as it can be.
    fn granted(mut self, owner: &str, ttl: Duration, unanswered_at: Option<usize>) -> Self {
        if let Some(held) = &self.held {
            self.now = self.now.max(held.since.saturating_add(self.ttl));
        } else if let Some(reserved) = &self.asker
            && reserved.name != owner
        {
            self.now = self.now.max(reserved.since.saturating_add(self.ttl / 2));
        }
        self.epoch += 1;
        self.held = Some(Held {
            holder: Holder {
                owner: owner.to_owned(),
                epoch: self.epoch,
            },
            since: self.now,
            unanswered_at,
            last_checkpoint: 0,
        });
        self.asker = None;
        self.ttl = ttl;
        self.forgotten = false;
        self
    }

    fn granted_as(
        self,
        as_told: &Holder,
        owner: &str,
        ttl: Duration,
        instance: usize,
    ) -> Vec<Self> {
        let mut rows = Vec::new();
        if let Some(held) = &self.held
            && held.holder == *as_told
            && held.holder.owner == owner
            && held.unanswered_at == Some(instance)
        {
            let mut adopted = self.clone();
            adopted.prolong(ttl);
            rows.push(adopted);
        }
        if self.next_epochs().contains(&as_told.epoch) && as_told.owner == owner {
            rows.push(self.granted(owner, ttl, None).under(as_told.epoch));
        }
        rows
    }

    /// Who never saw a row that was forgotten begins anew; who saw it goes on from what it saw.
    fn next_epochs(&self) -> RangeInclusive<u64> {
        let next = self.epoch + 1;
        match self.forgotten {
            true => 1..=next,
            false => next..=next,
        }
    }

    fn under(mut self, epoch: u64) -> Self {
        self.epoch = epoch;
        if let Some(held) = &mut self.held {
            held.holder.epoch = epoch;
        }
        self
    }

    fn refused(self, owner: &str) -> Vec<Self> {
        let reserved = self.asker.as_ref().is_some_and(|asker| asker.name != owner);
        // Who saw a row that was forgotten may count it as held for a while.
        let may_be = self.held.is_some() || reserved || self.forgotten;
        if may_be { vec![self] } else { vec![] }
    }

    fn prolong(&mut self, ttl: Duration) {
        self.ttl = ttl;
        if let Some(held) = &mut self.held {
            held.since = self.now;
            held.unanswered_at = None;
        }
        if let Some(asker) = &mut self.asker {
            asker.renewals += 1;
        }
    }

    fn renewed(mut self, holder: &Holder, ttl: Duration) -> Vec<Self> {
        if !self.is_held_by(holder) {
            return vec![];
        }
        self.prolong(ttl);
        vec![self]
    }

    fn renewed_as(mut self, renewal: &Renewal, holder: &Holder, ttl: Duration) -> Vec<Self> {
        match renewal {
            Renewal::Lost if self.is_held_by(holder) => return vec![],
            Renewal::Lost => return vec![self],
            Renewal::Asked { by } if self.asker.as_ref().is_none_or(|asker| asker.name != *by) => {
                return vec![];
            }
            Renewal::Asked { .. } => {}
            Renewal::Held => {
                self.wait_for_the_ask_to_lapse();
                self.asker = None;
            }
        }
        self.renewed(holder, ttl)
    }

    /// An ask may have lapsed once it has been told often enough; or else the call took effect after its time.
    fn wait_for_the_ask_to_lapse(&mut self) {
        if let Some(asker) = &self.asker
            && asker.renewals < RENEWALS_TOLD
        {
            self.now = self.now.max(asker.since.saturating_add(self.ttl));
        }
    }

    fn checkpointed(mut self, holder: &Holder, at: &Checkpoint, sent: usize) -> Vec<Self> {
        let Some(held) = self.held.as_mut().filter(|held| held.holder == *holder) else {
            return vec![];
        };
        if held.last_checkpoint < sent {
            held.last_checkpoint = sent;
            self.checkpoint = Some(at.clone());
        }
        vec![self]
    }

    fn shown_as(mut self, state: &LeaseState) -> Vec<Self> {
        if !self.is_there() {
            // Who saw the row that is gone may count it as held for a while, and knows its epoch.
            let shows_less =
                self.forgotten && state.checkpoint.is_none() && state.epoch <= self.epoch;
            return match shows_less || *state == LeaseState::default() {
                true => vec![self],
                false => vec![],
            };
        }
        let holder = self.held.as_ref().map(|held| &held.holder);
        let is_reserved = state.holder.is_none() && state.asked_by.is_some();
        let asker = self.asker.as_ref().map(|asker| &asker.name);
        let agrees = state.checkpoint == self.checkpoint
            && state.epoch == self.epoch
            && state.holder.as_ref() == holder
            && (state.holder.is_some() || !state.live)
            && state.expires_in.is_some() == (state.live || is_reserved)
            && state
                .expires_in
                .is_none_or(|left| left <= self.ttl.saturating_add(ROUNDED_UP))
            && (state.asked_by.is_none() || state.asked_by.as_ref() == asker);
        if !agrees {
            return vec![];
        }
        if let Some(held) = &self.held
            && !state.live
            && held.unanswered_at.is_none()
        {
            self.now = self.now.max(held.since.saturating_add(self.ttl));
        }
        if let (Some(asker), None) = (&self.asker, &state.asked_by) {
            match self.held {
                Some(_) => self.wait_for_the_ask_to_lapse(),
                None => self.now = self.now.max(asker.since.saturating_add(self.ttl / 2)),
            }
        }
        vec![self]
    }

    fn released(mut self, holder: &Holder) -> Vec<Self> {
        if !self.is_held_by(holder) {
            return vec![];
        }
        self.held = None;
        let mut lapsed = self.clone();
        lapsed.wait_for_the_ask_to_lapse();
        lapsed.asker = None;
        let Some(asker) = &mut self.asker else {
            return vec![lapsed];
        };
        asker.since = self.now;
        vec![self, lapsed]
    }

    fn asked(mut self, owner: &str) -> Vec<Self> {
        let anothers = self
            .held
            .as_ref()
            .is_some_and(|held| held.holder.owner != owner);
        if !anothers || self.is_finished() {
            return vec![];
        }
        if self.asker.as_ref().is_some_and(|asker| asker.name != owner) {
            self.wait_for_the_ask_to_lapse();
        }
        self.asker = Some(Asker {
            name: owner.to_owned(),
            since: self.now,
            renewals: 0,
        });
        vec![self]
    }

    fn not_asked(mut self, owner: &str) -> Vec<Self> {
        let another_asks = self.asker.as_ref().is_some_and(|asker| asker.name != owner);
        if let Some(held) = &self.held
            && held.holder.owner != owner
            && !self.is_finished()
            && !another_asks
        {
            // There is nobody to ask once the lease has expired.
            self.now = self.now.max(held.since.saturating_add(self.ttl));
        }
        vec![self]
    }

    fn gone(mut self) -> Vec<Self> {
        if self.is_there() {
            if self.held.is_some() || !self.is_finished() {
                return vec![];
            }
            self.checkpoint = None;
            self.asker = None;
            self.forgotten = true;
        }
        vec![self]
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_there() {
            return f.write_str("absent");
        }
        let by = match &self.held {
            Some(held) => {
                let since = held.since.as_secs_f64();
                write!(f, "held by {} since {since:.4} s", short(&held.holder))?;
                "asked for by"
            }
            None => {
                write!(f, "held by nobody, epoch {}", self.epoch)?;
                "reserved for"
            }
        };
        if let Some(asker) = &self.asker {
            write!(f, ", {by} {}", asker.name)?;
        }
        match &self.checkpoint {
            Some(at) => write!(f, ", checkpoint {at}"),
            None => f.write_str(", no checkpoint"),
        }
    }
}
