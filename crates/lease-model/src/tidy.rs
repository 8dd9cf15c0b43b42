//! What can make no difference any more is taken out of a state, so that states which differ in nothing else are
//! one. It alone knows what that is.

use crate::flaw::Flaw;
use crate::state::{Answer, Call, Request, State};
use crate::table::{Claim, Free, Row, Token};
use crate::world::World;

/// Takes out what can make no difference.
pub(crate) fn tidy(state: &mut State, world: &World) {
    let rules = world.rules();
    if world.calls_at_once == 1 && !rules.lack(Flaw::ExpiryFromSent) {
        state
            .calls
            .iter_mut()
            .for_each(|call| look(call, &state.rows));
    }
    // Where rows come and go, or a condition is left out, what is late may still be in time.
    let late_is_too_late =
        world.deletions == 0 && world.forgets == 0 && rules.refuse_what_is_late();
    if late_is_too_late {
        let rows = state.rows;
        state.calls.retain(|call| {
            let row = rows[usize::from(call.shard)];
            call.awaited || !is_too_late(call, row.as_ref())
        });
    }
    if !rules.lack(Flaw::ExpiryFromSent) {
        state.calls.iter_mut().for_each(tidy_answered);
    }
    if late_is_too_late {
        tidy_rows(state);
        if world.asks == 0 {
            tidy_sightings(state, world);
        }
    }
    sweep(state, world);
}

/// Takes out what is over: without that, no world would come to an end.
pub(crate) fn sweep(state: &mut State, world: &World) {
    state.calls.retain(|call| {
        let reads = matches!(call.request, Request::Read { .. });
        call.awaited || (call.copies > 0 && !reads)
    });
    forget_tokens(state, world);
}

/// When a read that changes nothing takes effect is for its answer's way alone to say: that may be as long as the
/// whole.
fn look(call: &mut Call, rows: &[Option<Row>]) {
    if matches!(call.request, Request::Read { .. }) && call.answer.is_none() {
        call.copies = 0;
        call.answer = Some(Answer {
            accepted: false,
            row: rows[usize::from(call.shard)],
        });
    }
}

/// Of a call that is done with at the store its answer matters, and when it was sent only if that was accepted.
fn tidy_answered(call: &mut Call) {
    let Some(answer) = call.answer.filter(|_| call.copies == 0) else {
        return;
    };
    let is_its_own = |claim: Claim| answer.row.is_some_and(|row| row.grant == Some(claim.grant));
    if let Some(claim) = call.request.claim() {
        call.request = Request::Acquired { claim };
    }
    if !answer.accepted && !call.request.claim().is_some_and(is_its_own) {
        call.sent = 0;
    }
}

/// The next grant begins to number checkpoints anew.
fn tidy_rows(state: &mut State) {
    for row in state.rows.iter_mut().flatten() {
        if row.owner.is_none() {
            row.cp_no = 0;
        }
    }
}

/// Whoever has not seen the present epoch is refused whatever it tries, and told.
fn tidy_sightings(state: &mut State, world: &World) {
    for shard in 0..world.shards {
        let Some(row) = state.rows[usize::from(shard)] else {
            continue;
        };
        for instance in 0..world.instances {
            if let Some(sighting) = &mut state.seat_mut(world, instance, shard).sighting {
                sighting.tidy(row.epoch, world.lease);
            }
        }
    }
}

/// Whether a call is refused now and for ever, since epochs and counters only grow.
fn is_too_late(call: &Call, row: Option<&Row>) -> bool {
    let Some(row) = row else {
        return false;
    };
    match call.request {
        Request::AcquireFree {
            free: Free::Absent { .. },
            ..
        } => true,
        Request::AcquireFree {
            free: Free::Released { epoch, .. },
            ..
        } => row.epoch > epoch,
        Request::AcquireExpired {
            observed, counter, ..
        } => !row.is_held_by(observed) || row.counter > counter,
        Request::Renew { mine } | Request::Release { mine } => !row.is_held_by(mine),
        Request::Checkpoint { mine, cp_no, .. } => !row.is_held_by(mine) || row.cp_no >= cp_no,
        Request::Ask { .. } | Request::Forget => false,
        Request::Read { .. } | Request::Acquired { .. } => true,
    }
}

/// A token that is nowhere else can never be met again.
fn forget_tokens(state: &mut State, world: &World) {
    for shard in 0..world.shards {
        let known = state.tokens_elsewhere(shard);
        for instance in 0..world.instances {
            state.seat_mut(world, instance, shard).unanswered &= known;
        }
    }
}

/// The bit of a token.
pub(crate) fn bit(token: Option<Token>) -> u16 {
    token.map_or(0, |Token(number)| 1 << number)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::step::{after, steps, untidied_after};
    use crate::symmetry::fingerprint;

    /// What can be seen of a state without looking at counts of ticks or numbers of calls: of each shard, and of
    /// each instance.
    type Seen = (
        Vec<(u8, Option<u8>, u8, u8)>,
        Vec<(usize, Option<(u8, bool, u8, u8)>)>,
    );

    fn seen(state: &State, world: &World) -> Seen {
        let rows = state.rows.iter().zip(&state.truths).map(|(row, truth)| {
            let owned = row.map(|row| u8::from(row.owner.is_some()));
            let checkpoint = row.map_or(0, |row| row.checkpoint);
            (truth.grants, owned, checkpoint, truth.settled)
        });
        let instances = (0..world.instances).map(|instance| {
            let hold = state.seat(world, instance, 0).hold;
            let hold = hold.map(|hold| (hold.serial, hold.opened, hold.handed, hold.accepted));
            (state.awaited(instance, 0).count(), hold)
        });
        (rows.collect(), instances.collect())
    }

    fn mirrored(mut seen: Seen) -> Seen {
        seen.1.reverse();
        seen
    }

    /// Every step, as it is seen.
    fn all_seen(
        world: &World,
        next: impl Fn(&State, &World, crate::step::Step) -> State,
    ) -> (usize, HashSet<(Seen, Seen)>) {
        let mut known = HashSet::new();
        let mut all = HashSet::new();
        let mut open = vec![State::first(world)];
        while let Some(state) = open.pop() {
            if state.is_at_the_horizon(world) {
                continue;
            }
            for step in steps(&state, world) {
                let reached = next(&state, world, step);
                let (from, to) = (seen(&state, world), seen(&reached, world));
                // Both ways round, since of two states that are one only the first is looked at.
                all.insert((mirrored(from.clone()), mirrored(to.clone())));
                all.insert((from, to));
                if known.insert(fingerprint(&reached, world)) {
                    open.push(reached);
                }
            }
        }
        (known.len(), all)
    }

    #[test]
    fn what_is_taken_out_makes_no_difference() {
        let leases = World {
            renewals: 0,
            grants: 1,
            lost_answers: 1,
            ..World::of_leases("leases")
        };
        let worlds = [
            leases,
            World {
                renewals: 1,
                lost_answers: 0,
                ..leases
            },
            World {
                lost_answers: 0,
                records: 1,
                ..leases
            },
            World {
                hasty: true,
                twins: true,
                ..leases
            },
        ];
        for world in worlds {
            let (tidied, seen_tidied) =
                all_seen(&world, |state, world, step| after(state, world, step).0);
            let (untidied, seen_untidied) = all_seen(&world, |state, world, step| {
                untidied_after(state, world, step)
            });
            assert_eq!(seen_tidied, seen_untidied);
            assert!(tidied < untidied, "{tidied} of {untidied}");
        }
    }
}
