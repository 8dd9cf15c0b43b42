//! Which records have to be handled: all of them, where shards are opened at their oldest record. Where they are
//! opened at their tip, those that were stored after it.
//!
//! The tip of a shard is the moment that its first reader checkpointed. That reader sent the moment as soon as it had
//! its iterator, so whatever was stored after the first sending of it had to come by that iterator or, after a crash,
//! by the moment itself. Before that no promise was made: a reader that dies with its iterator in its hands leaves the
//! next one to take another tip.
//!
//! A shard one of whose parents the group read is opened at its oldest record, and all of it is owed: also where it
//! was opened at a tip, if that was done under an acquisition made after a parent's first checkpoint, which whoever
//! acquires a shard has to look at. (Of a shard whose parent got its first checkpoint later than that, what lies
//! before its own tip is not owed: somebody may have acquired the parent by a listing from before it closed.)
//!
//! Where a shard passed out of retention that nobody ever leased, the way from its descendants up to what the group
//! read is lost with it: neither the listing nor the store tells a newcomer that the stream was read before. What a
//! group that is so far behind owes of shards that nobody leased is not asked for.

use std::time::Duration;

use lease_core::Checkpoint;

use crate::check::facts::Moment;
use crate::check::index::Index;
use crate::history::Ask;
use crate::plan::Start;

/// From when on a shard's records are owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Ever,
    /// What was stored later than this.
    After(Duration),
    Never,
}

/// The first checkpoint that the store accepted for a shard.
struct First<'h> {
    position: &'h Checkpoint,
    accepted: Moment,
    /// When its holder first sent this position.
    sent: Duration,
    /// When its holder was granted the shard.
    granted: Option<Moment>,
}

/// Whether each record of the history is owed, by its place in the list.
pub(super) fn of(index: &Index<'_>) -> Vec<bool> {
    let mut owed = vec![true; index.history.records.len()];
    if index.plan.start == Start::TrimHorizon {
        return owed;
    }
    let firsts: Vec<_> = (0..index.shards.len())
        .map(|shard| first(index, shard))
        .collect();
    let in_play: Vec<_> = (0..index.shards.len())
        .map(|shard| {
            let known = index.known_ancestors(shard).into_iter();
            known
                .filter_map(|ancestor| Some(firsts[ancestor].as_ref()?.accepted))
                .min()
        })
        .collect();
    for (shard, facts) in index.shards.iter().enumerate() {
        let from = from(
            index,
            shard,
            firsts[shard].as_ref(),
            &firsts,
            in_play[shard],
        );
        for record in &facts.records {
            owed[*record] = match from {
                From::Ever => true,
                From::After(moment) => index.history.records[*record].at > moment,
                From::Never => false,
            };
        }
    }
    owed
}

fn from(
    index: &Index<'_>,
    shard: usize,
    own: Option<&First<'_>>,
    firsts: &[Option<First<'_>>],
    in_play: Option<Moment>,
) -> From {
    let Some(own) = own.filter(|own| !own.position.is_shard_end()) else {
        return in_play.map_or(From::Never, |moment| From::After(moment.at));
    };
    if own.position.timestamp().is_none() {
        return From::Ever;
    }
    let parents = index.shards[shard].parents.iter();
    let mut begun = parents.filter_map(|parent| Some(firsts[*parent].as_ref()?.accepted));
    let is_seen = begun.any(|begun| own.granted.is_some_and(|granted| begun < granted));
    if is_seen {
        From::Ever
    } else {
        From::After(own.sent)
    }
}

fn first<'h>(index: &Index<'h>, shard: usize) -> Option<First<'h>> {
    let calls = index.shards[shard]
        .calls
        .iter()
        .map(|call| &index.calls[*call]);
    let checkpoints = calls.filter_map(|call| match call.ask {
        Ask::Checkpoint { holder, at, .. } => Some((call, holder, at)),
        _ => None,
    });
    let accepted = checkpoints
        .clone()
        .filter_map(|(call, ..)| Some((call.accepted()?, call)));
    let (accepted, call) = accepted.min_by_key(|(accepted, _)| *accepted)?;
    let Ask::Checkpoint {
        holder,
        at: position,
        ..
    } = call.ask
    else {
        return None;
    };
    let mut same = checkpoints.filter(|(_, by, at)| *by == holder && *at == position);
    let sent = same
        .next()
        .map_or(call.sent.at, |(first, ..)| first.sent.at);
    let grant = index.rows.grant_of(shard, holder.epoch, call.sent);
    let granted = grant.map(|grant| index.grant(grant).took);
    Some(First {
        position,
        accepted,
        sent,
        granted,
    })
}
