//! A call taking effect at the store, and what must hold when it does.

use crate::invariant::Invariant;
use crate::state::{Answer, Request, State};
use crate::table;
use crate::world::World;

/// One copy of a call gets to the store.
pub(crate) fn land(state: &mut State, world: &World, index: usize) -> Option<Invariant> {
    let mut call = state.calls[index];
    let shard = usize::from(call.shard);
    let row = &mut state.rows[shard];
    let before = *row;
    let rules = world.rules();
    let accepted = match call.request {
        Request::AcquireFree { free, claim } => table::acquire_free(row, free, claim, rules),
        Request::AcquireExpired {
            observed,
            counter,
            claim,
        } => table::acquire_expired(row, observed, counter, claim, rules),
        Request::Renew { mine } => table::renew(row, mine, rules),
        Request::Checkpoint { mine, at, cp_no } => table::checkpoint(row, mine, at, cp_no, rules),
        Request::Release { mine } => table::release(row, mine, rules),
        Request::Ask { asker } => table::ask(row, asker, world.records),
        Request::Forget => table::forget(row, world.records),
        Request::Read { .. } | Request::Acquired { .. } => false,
    };
    let truth = &mut state.truths[shard];
    let mut broken = None;
    match call.request {
        Request::AcquireFree { .. } | Request::AcquireExpired { .. } if accepted => {
            if call.serial != 0 {
                broken = Some(Invariant::GrantedOnce);
            }
            truth.grants += 1;
            truth.granted_to = call.from;
            call.serial = truth.grants;
            if let Some(row) = row {
                row.serial = truth.grants;
                if row.epoch <= truth.epoch {
                    broken = broken.or(Some(Invariant::NewEpoch));
                }
                truth.epoch = row.epoch;
            }
        }
        Request::Renew { .. } | Request::Checkpoint { .. } | Request::Release { .. }
            if accepted && call.serial != truth.grants =>
        {
            broken = Some(Invariant::Fenced);
        }
        Request::Checkpoint { mine, at, .. } => {
            // Nobody settled what it claims to be after.
            if accepted && at > truth.settled {
                broken = Some(Invariant::NoLoss);
            }
            if accepted && at < truth.checkpoint {
                broken = Some(Invariant::MonotonicCheckpoint);
            }
            let is_answered_true = row.is_some_and(|row| row.is_held_by(mine));
            if is_answered_true && row.is_some_and(|row| row.checkpoint < at) {
                broken = broken.or(Some(Invariant::Kept));
            }
            truth.checkpoint = row.map_or(0, |row| row.checkpoint);
        }
        Request::Forget if accepted && before.is_some() => state.truths[shard].forgotten(),
        _ => {}
    }
    call.copies -= 1;
    let answer = Answer {
        accepted,
        row: *row,
    };
    call.answer = call.awaited.then_some(answer);
    state.calls[index] = call;
    broken
}
