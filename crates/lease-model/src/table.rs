//! The row, and what each call makes of it: one function for each row of the table of conditional writes, in
//! the order of that table and under its names.
//!
//! | call | condition | update |
//! | --- | --- | --- |
//! | acquire, free | row absent, or no owner and `epoch = :e` | owner, `epoch = if_not_exists(epoch, :seen) + 1`, counter + 1, grant, `cp_no = 0`; asked_by removed |
//! | acquire, expired | owner, epoch and counter are the ones observed | the same |
//! | acquire, own and live | no write: refused, or adopted where `grant` is a token of one's own unanswered call | |
//! | renew | owner and epoch are mine | counter + 1 |
//! | checkpoint | as renew, and `cp_no < :n` | checkpoint, `cp_no = :n`; refused but still mine: `true` |
//! | release | as renew | owner and grant removed; asked_by kept as the reservation; refused: fine |
//! | ask | owner present and not the asker; not asked, or asked by the asker, or that ask lapsed; not finished | asked_by, and the counter at which it lapses |
//! | forget | finished and no owner | row deleted |
//!
//! Nothing here is shared with a store, so a mistake in one is not a mistake in the other.

use crate::flaw::{Flaw, Rules};

/// The renewals that an ask outlives. One is enough to tell an ask that lapses from one that does not.
const RENEWALS_ASKED: u8 = 1;

/// Who acquires: the name that ends up in the row, which two processes may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(u8);

impl Name {
    /// The name that an instance has the how-manieth time it takes another.
    pub(crate) fn of(instance: u8, start: u8) -> Self {
        Self(start * 3 + instance)
    }

    /// Another name for the same instance.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 3)
    }

    pub(crate) fn instance_and_start(self) -> (u8, u8) {
        (self.0 % 3, self.0 / 3)
    }
}

/// The random token of one acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token(pub(crate) u8);

/// A row. How long a lease lasts is the same for all, and not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) owner: Option<Name>,
    pub(crate) epoch: u8,
    pub(crate) counter: u8,
    pub(crate) grant: Option<Token>,
    pub(crate) cp_no: u8,
    /// 0 before the first one.
    pub(crate) checkpoint: u8,
    pub(crate) asked_by: Option<Name>,
    pub(crate) ask_lapses: u8,
    /// Which grant of all this is: for the invariants, no condition looks at it.
    pub(crate) serial: u8,
}

/// What an acquisition would write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    pub(crate) owner: Name,
    pub(crate) grant: Token,
}

/// Why an acquisition takes the lease for free. The table's condition is two, and which of them is sent depends
/// on what was seen: a row that was seen and is absent now has vanished, and counts as held for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Free {
    /// The row is absent; the highest epoch that was ever seen.
    Absent { seen: u8 },
    /// It was released under this epoch.
    Released { epoch: u8, reservation_counts: bool },
}

/// Whom a call presents as the present holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mine {
    pub(crate) owner: Name,
    pub(crate) epoch: u8,
}

impl Row {
    pub(crate) fn is_held_by(&self, mine: Mine) -> bool {
        self.owner == Some(mine.owner) && self.epoch == mine.epoch
    }

    /// Who asks, or had asked when the row was released.
    pub(crate) fn asker(&self) -> Option<Name> {
        self.asked_by.filter(|_| self.counter < self.ask_lapses)
    }

    pub(crate) fn is_finished(&self, shard_end: u8) -> bool {
        self.checkpoint == shard_end && shard_end > 0
    }
}

/// acquire, free.
pub(crate) fn acquire_free(row: &mut Option<Row>, free: Free, claim: Claim, rules: Rules) -> bool {
    let seen = match free {
        Free::Absent { seen } => seen,
        Free::Released { epoch, .. } => epoch,
    };
    let condition = match (free, &*row) {
        (Free::Absent { .. }, None) => true,
        (Free::Released { .. }, None) => rules.lack(Flaw::VanishedRowIsFree),
        (
            Free::Released {
                epoch,
                reservation_counts,
            },
            Some(row),
        ) => {
            row.owner.is_none()
                && (row.epoch == epoch || rules.lack(Flaw::FreeWithoutEpoch))
                && (!reservation_counts || row.asker().is_none_or(|asker| asker == claim.owner))
        }
        (Free::Absent { .. }, Some(_)) => false,
    };
    if condition {
        acquired(row, seen, claim, rules);
    }
    condition
}

/// acquire, expired.
pub(crate) fn acquire_expired(
    row: &mut Option<Row>,
    observed: Mine,
    counter: u8,
    claim: Claim,
    rules: Rules,
) -> bool {
    let condition = row.is_some_and(|row| {
        row.is_held_by(observed)
            && (row.counter == counter || rules.lack(Flaw::TakeOverWithoutCounter))
    });
    if condition {
        acquired(row, observed.epoch, claim, rules);
    }
    condition
}

/// acquire, own and live: whether it is adopted.
pub(crate) fn acquire_own_and_live(
    row: &Row,
    owner: Name,
    unanswered: impl Fn(Token) -> bool,
    rules: Rules,
) -> bool {
    row.owner == Some(owner)
        && (row.grant.is_some_and(unanswered) || rules.lack(Flaw::AdoptionWithoutToken))
}

/// renew.
pub(crate) fn renew(row: &mut Option<Row>, mine: Mine, rules: Rules) -> bool {
    let without_epoch = rules.lack(Flaw::RenewWithoutEpoch);
    let Some(row) = held(row, mine, without_epoch) else {
        return false;
    };
    row.counter += u8::from(!rules.lack(Flaw::RenewalCountsNothing));
    true
}

/// checkpoint. Refused but still mine is for the caller to see, who is shown the row.
pub(crate) fn checkpoint(
    row: &mut Option<Row>,
    mine: Mine,
    at: u8,
    cp_no: u8,
    rules: Rules,
) -> bool {
    let without_epoch = rules.lack(Flaw::CheckpointWithoutEpoch);
    let Some(row) = held(row, mine, without_epoch) else {
        return false;
    };
    let condition = row.cp_no < cp_no || rules.lack(Flaw::CheckpointWithoutNumber);
    if condition {
        row.checkpoint = at;
        row.cp_no = cp_no;
    }
    condition
}

/// release.
pub(crate) fn release(row: &mut Option<Row>, mine: Mine, rules: Rules) -> bool {
    let without_epoch = rules.lack(Flaw::ReleaseWithoutEpoch);
    let Some(row) = held(row, mine, without_epoch) else {
        return false;
    };
    row.owner = None;
    row.grant = None;
    true
}

/// ask.
pub(crate) fn ask(row: &mut Option<Row>, asker: Name, shard_end: u8) -> bool {
    let Some(row) = row else {
        return false;
    };
    let condition = row.owner.is_some_and(|owner| owner != asker)
        && row.asker().is_none_or(|other| other == asker)
        && !row.is_finished(shard_end);
    if condition {
        row.asked_by = Some(asker);
        row.ask_lapses = row.counter + RENEWALS_ASKED;
    }
    condition
}

/// forget.
pub(crate) fn forget(row: &mut Option<Row>, shard_end: u8) -> bool {
    let condition = row.is_some_and(|row| row.is_finished(shard_end) && row.owner.is_none());
    if condition {
        *row = None;
    }
    condition
}

/// The row after an acquisition, whichever it was.
fn acquired(row: &mut Option<Row>, seen: u8, claim: Claim, rules: Rules) {
    let epoch = row.map_or(seen, |row| row.epoch);
    let raised = u8::from(!(rules.lack(Flaw::EpochStays) && row.is_some()));
    let cp_no = row.map_or(0, |row| row.cp_no);
    *row = Some(Row {
        owner: Some(claim.owner),
        epoch: epoch + raised,
        counter: row.map_or(0, |row| row.counter) + 1,
        grant: Some(claim.grant),
        cp_no: match rules.lack(Flaw::NumberOutlivesItsGrant) {
            true => cp_no,
            false => 0,
        },
        checkpoint: row.map_or(0, |row| row.checkpoint),
        asked_by: None,
        ask_lapses: 0,
        serial: 0,
    });
}

fn held(row: &mut Option<Row>, mine: Mine, without_epoch: bool) -> Option<&mut Row> {
    row.as_mut()
        .filter(|row| row.owner == Some(mine.owner) && (row.epoch == mine.epoch || without_epoch))
}
