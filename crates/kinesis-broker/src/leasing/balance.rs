//! Which leases this instance takes, asks for or hands over: a decision over one listing and what it
//! remembers of the listings before. It does no I/O, reads no clock and draws no lot.
//!
//! # The rule
//!
//! Every instance computes one plan from what it sees, the same plan where they see the same; where they
//! do not, the store decides who gets a shard. Counts are over all streams that this instance reads. A
//! shard that is reserved, or being handed over by this instance, counts for its receiver.
//!
//! 1. **A free shard falls to the poorest member.** It is taken by the one that it falls to. Every member
//!    is believed to read every stream until it turns one down, by leaving a free shard that fell to it for
//!    a whole [`TURN`]. Such a shard falls to the poorest that is known to read its stream, and after one
//!    turn more to whoever looks. A member that lets a shard go to nobody (it is stopping, or dead, or
//!    missed what was reserved for it) stands back for one lease, or until it acquires or asks again.
//! 2. **The poorest asker is given to by a holder that has two more**, one shard at a time, until there
//!    are no such two: first what it asks for, of the richest first; then, if it is believed to want more,
//!    of the richest. Only askers and this instance are given anything. For one lease after the membership
//!    has changed, askers are believed to want their whole share; after that, and once they have asked for
//!    nothing for two turns, they want what they ask for. What a member holds of streams that this instance
//!    does not read is not seen here, so one that looks poor may well want no more.
//! 3. **This instance asks** for what the plan gives it, again at each listing. Until the membership has
//!    settled it makes itself known by [`FIRST_ASKS`], no more: those that start in one moment must know of
//!    one another before any of them can tell its share.
//! 4. **This instance hands over** a shard when the asker of it is the one to whom the plan gives it, and
//!    the membership has settled: it has not changed for a turn, or has been changing for
//!    [`RESTLESS_LIMIT`].
//!
//! # Why it comes to rest
//!
//! Who asks counts all that it holds, and at most all that the other holds. So a shard only ever goes to
//! somebody that has at least two fewer in truth, however little of each other the two see; each move
//! brings the counts closer, and there are only so many such moves. What a listing no longer shows can cost
//! a move too many, and then one back.

mod memory;
mod plan;
mod sighting;
#[cfg(test)]
mod tests;
mod view;

use std::time::Duration;

use lease_core::LeaseKey;

use crate::leasing::LIST_EVERY;

pub(crate) use self::memory::Balance;

/// A listing period and a bit: after it, everybody that lists has seen what this instance saw, and has acted
/// on it.
const TURN: Duration = LIST_EVERY.saturating_add(Duration::from_millis(500));

/// How long a membership that keeps changing holds up asks and hand-overs.
const RESTLESS_LIMIT: Duration = Duration::from_secs(9);

/// For how many shards an instance asks to make itself known: one, and another in case somebody else that
/// starts in the same moment asks for the first.
const FIRST_ASKS: usize = 2;

/// When to see whether the asks by which this instance makes itself known were accepted.
const ASK_CHECK: Duration = Duration::from_secs(1);

/// An ask that brought nothing for this long was declined, and another shard is asked for instead: longer
/// than the restless limit, a hand-over that uses all its time, and a listing on either side.
const ASK_PATIENCE: Duration = Duration::from_secs(25);

/// How long this instance does not ask again for a shard whose hand-over was declined.
const ASK_PAUSE: Duration = Duration::from_secs(60);

/// One shard of the listing that may be read now: it is neither finished nor waits for a parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shard<'a> {
    /// Its lease.
    pub(crate) key: &'a LeaseKey,
    /// Who has it.
    pub(crate) claim: Claim<'a>,
    /// Whose live ask is on it; also where the lease has just expired, since it tells who is there.
    pub(crate) asked_by: Option<&'a str>,
}

/// Who has a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim<'a> {
    /// This instance's keeper holds it, whatever the listing says.
    Mine,
    /// As `Mine`, but not to be given for now: its last hand-over was declined.
    Kept,
    /// As `Mine`, and its hand-over is under way.
    Going {
        /// The asker that it goes to.
        to: &'a str,
    },
    /// Somebody's live lease; also one in this instance's name that its keeper knows nothing of.
    Held {
        /// The holder.
        owner: &'a str,
    },
    /// Released, and kept for its asker.
    Reserved {
        /// Who alone may acquire it.
        asker: &'a str,
    },
    /// Nobody's: never leased, released, or expired.
    Free {
        /// Whether this instance may take it now.
        takeable: bool,
    },
}

/// What to do after a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Acquire these: free, or reserved for this instance.
    pub(crate) take: Vec<LeaseKey>,
    /// Ask for these, also where this instance's ask is on them already; an ask that is not repeated lapses.
    pub(crate) ask: Vec<LeaseKey>,
    /// Begin to hand these over.
    pub(crate) hand_over: Vec<HandOver>,
    /// List again after this long, if nothing else does so earlier: something waits for that moment.
    pub(crate) look_again_in: Option<Duration>,
}

/// A shard of this instance that its asker is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandOver {
    /// The shard.
    pub(crate) key: LeaseKey,
    /// Its asker.
    pub(crate) to: String,
}
