//! What may happen next: every step of the world from a state, and the state after it.

use crate::flaw::Flaw;
use crate::invariant::Invariant;
use crate::state::{Request, Seat, State};
use crate::table::Free;
use crate::tidy::{bit, tidy};
use crate::world::World;
use crate::{arriving, landing, sending};

/// One thing that happens. Calls are meant by their place in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Tick,
    Send {
        instance: u8,
        shard: u8,
        request: Request,
    },
    /// A copy of a call takes effect, or is refused.
    Land {
        call: usize,
    },
    /// Its answer arrives.
    Arrive {
        call: usize,
    },
    /// Its sender waits no longer.
    GiveUp {
        call: usize,
    },
    /// It is sent a second time, as a client does that heard nothing.
    SendAgain {
        call: usize,
    },
    HandOver {
        instance: u8,
        shard: u8,
        record: u8,
    },
    Settle {
        instance: u8,
        shard: u8,
    },
    Crash {
        instance: u8,
        renamed: bool,
    },
    Delete {
        shard: u8,
    },
}

/// Everything that may happen next.
pub(crate) fn steps(state: &State, world: &World) -> Vec<Step> {
    let mut steps = Vec::with_capacity(16);
    for (index, call) in state.calls.iter().enumerate() {
        if call.copies > 0 {
            steps.push(Step::Land { call: index });
        }
        if call.answer.is_some() {
            steps.push(Step::Arrive { call: index });
        }
        let reads = matches!(call.request, Request::Read { .. });
        if call.awaited && !reads {
            if state.budget.lost_answers > 0 {
                steps.push(Step::GiveUp { call: index });
            }
            if state.budget.duplicates > 0 && call.copies < 2 {
                steps.push(Step::SendAgain { call: index });
            }
        }
    }
    for instance in 0..world.instances {
        for shard in 0..world.shards {
            let requests = sending::requests(state, world, instance, shard);
            steps.extend(requests.into_iter().map(|request| Step::Send {
                instance,
                shard,
                request,
            }));
            let Some(hold) = &state.seat(world, instance, shard).hold else {
                continue;
            };
            if let Some(record) = hold.next(world.records, world.lease, world.rules()) {
                steps.push(Step::HandOver {
                    instance,
                    shard,
                    record,
                });
            }
            if hold.handed > hold.settled {
                steps.push(Step::Settle { instance, shard });
            }
        }
        if state.budget.crashes > 0 {
            steps.push(Step::Crash {
                instance,
                renamed: false,
            });
            if !world.twins {
                steps.push(Step::Crash {
                    instance,
                    renamed: true,
                });
            }
        }
    }
    for shard in 0..world.shards {
        if state.budget.deletions > 0 && may_be_deleted(state, world, shard) {
            steps.push(Step::Delete { shard });
        }
    }
    steps.push(Step::Tick);
    steps
}

/// A person may delete a row that every instance has seen, and while no call is on its way that would take the
/// lease of a shard that was never leased. Without either, whoever did not see the row takes it at once, and
/// its old holder reads on until its deadline: nothing can be promised.
fn may_be_deleted(state: &State, world: &World, shard: u8) -> bool {
    let seen =
        (0..world.instances).all(|instance| state.seat(world, instance, shard).sighting.is_some());
    let first_call_under_way = state.calls.iter().any(|call| {
        let takes_absent = matches!(
            call.request,
            Request::AcquireFree {
                free: Free::Absent { .. },
                ..
            }
        );
        call.shard == shard && call.copies > 0 && takes_absent
    });
    let rules = world.rules();
    state.rows[usize::from(shard)].is_some()
        && (seen || rules.lack(Flaw::DeletesAnUnseenRow))
        && (!first_call_under_way || rules.lack(Flaw::DeletesUnderAFirstCall))
}

/// The state after a step, and what it broke.
pub(crate) fn after(state: &State, world: &World, step: Step) -> (State, Option<Invariant>) {
    let mut next = state.clone();
    let broken = take(&mut next, world, step);
    tidy(&mut next, world);
    (next, broken)
}

/// The same, with all that makes no difference left in.
#[cfg(test)]
pub(crate) fn untidied_after(state: &State, world: &World, step: Step) -> State {
    let mut next = state.clone();
    take(&mut next, world, step);
    crate::tidy::sweep(&mut next, world);
    next
}

fn take(state: &mut State, world: &World, step: Step) -> Option<Invariant> {
    match step {
        Step::Tick => {
            tick(state, world);
            None
        }
        Step::Send {
            instance,
            shard,
            request,
        } => {
            let hold = state.seat(world, instance, shard).hold;
            sending::send(state, world, instance, shard, request);
            let Request::Checkpoint { at, .. } = request else {
                return None;
            };
            let settled = hold.map_or(0, |hold| hold.settled);
            (at > settled).then_some(Invariant::Settled)
        }
        Step::Land { call } => landing::land(state, world, call),
        Step::Arrive { call } => arriving::arrive(state, world, call),
        Step::GiveUp { call } => {
            state.budget.lost_answers -= 1;
            give_up(state, world, call);
            None
        }
        Step::SendAgain { call } => {
            state.budget.duplicates -= 1;
            state.calls[call].copies += 1;
            None
        }
        Step::HandOver {
            instance,
            shard,
            record,
        } => hand_over(state, world, instance, shard, record),
        Step::Settle { instance, shard } => {
            let seat = state.seat_mut(world, instance, shard);
            if let Some(hold) = &mut seat.hold {
                hold.settled = hold.handed;
                let settled = hold.settled;
                let truth = &mut state.truths[usize::from(shard)];
                truth.settled = truth.settled.max(settled);
            }
            None
        }
        Step::Crash { instance, renamed } => {
            crash(state, world, instance, renamed);
            None
        }
        Step::Delete { shard } => {
            state.budget.deletions -= 1;
            state.rows[usize::from(shard)] = None;
            state.truths[usize::from(shard)].forgotten();
            None
        }
    }
}

fn tick(state: &mut State, world: &World) {
    for seat in &mut state.seats {
        if let Some(sighting) = &mut seat.sighting {
            sighting.tick(world.lease);
        }
        if let Some(hold) = &mut seat.hold {
            hold.tick(world.lease);
        }
    }
    for call in &mut state.calls {
        if call.awaited && sending::is_timed(&call.request, world) {
            call.sent = world.lease.min(call.sent + 1);
        }
    }
}

fn give_up(state: &mut State, world: &World, index: usize) {
    let call = state.calls[index];
    if let (Some(claim), Some(instance)) = (call.request.claim(), call.from) {
        let seat = state.seat_mut(world, instance, call.shard);
        seat.unanswered |= bit(Some(claim.grant));
    }
    state.calls[index].stop_waiting();
}

fn hand_over(
    state: &mut State,
    world: &World,
    instance: u8,
    shard: u8,
    record: u8,
) -> Option<Invariant> {
    let truth = state.truths[usize::from(shard)];
    let hold = state.seat_mut(world, instance, shard).hold.as_mut()?;
    hold.handed = record;
    let is_last = hold.serial == truth.grants && truth.granted_to == Some(instance);
    if !is_last {
        return Some(Invariant::Exclusive);
    }
    (record > truth.settled + 1).then_some(Invariant::NoLoss)
}

/// Nothing is left of the process but its calls on their way. Another starts in its place.
fn crash(state: &mut State, world: &World, instance: u8, renamed: bool) {
    state.budget.crashes -= 1;
    for call in &mut state.calls {
        if call.from == Some(instance) {
            call.stop_waiting();
            call.from = None;
        }
    }
    for shard in 0..world.shards {
        *state.seat_mut(world, instance, shard) = Seat::default();
        let truth = &mut state.truths[usize::from(shard)];
        if truth.granted_to == Some(instance) {
            truth.granted_to = None;
        }
    }
    if renamed {
        let name = &mut state.names[usize::from(instance)];
        *name = name.next();
    }
}
