//! An answer arriving at who waits for it, and what it makes of it.

use crate::flaw::Flaw;
use crate::holder::Hold;
use crate::invariant::Invariant;
use crate::observer::{Arrival, Sighting};
use crate::state::{Answer, Call, Request, Seat, State};
use crate::table::{Name, acquire_own_and_live};
use crate::tidy::bit;
use crate::world::World;

/// The answer to a call arrives.
pub(crate) fn arrive(state: &mut State, world: &World, index: usize) -> Option<Invariant> {
    let call = state.calls[index];
    let (answer, instance, shard) = (call.answer?, call.from?, call.shard);
    let me = state.name(instance);
    let settled = state.truths[usize::from(shard)].settled;
    let seat = state.seat_mut(world, instance, shard);
    let arrival = Arrival {
        row: answer.row,
        overtaken: call.overtaken,
        sent: call.sent,
        shard_end: world.records,
    };
    let stood = seat.sighting.map_or(0, |sighting| sighting.checkpoint);
    let (sighting, is_news) = Sighting::after(seat.sighting, arrival, world.rules());
    seat.sighting = sighting;
    let mut broken = None;
    match call.request {
        Request::AcquireFree { .. } | Request::AcquireExpired { .. } | Request::Acquired { .. } => {
            acquired(seat, world, &call, answer, me);
            if world.rules().lack(Flaw::OpensWhereItStoodBefore)
                && let Some(hold) = &mut seat.hold
            {
                hold.open(stood, stood);
            }
        }
        Request::Renew { .. } => renewed(seat, world, &call, answer),
        Request::Checkpoint { mine, at, .. } => {
            let is_mine = answer.row.is_some_and(|row| row.is_held_by(mine));
            match &mut seat.hold {
                Some(hold) if hold.serial == call.serial && (answer.accepted || is_mine) => {
                    hold.accepted = hold.accepted.max(at);
                }
                _ => lost(seat, &call, answer),
            }
        }
        Request::Read { opens: true } => broken = opened(seat, world, &call, answer, me, settled),
        Request::Read { opens: false } if seat.hold.is_none() => {
            adopt(seat, world, answer, me);
        }
        Request::Read { .. } | Request::Release { .. } | Request::Ask { .. } | Request::Forget => {}
    }
    if is_news {
        for other in &mut state.calls {
            other.overtaken |=
                other.awaited && other.from == Some(instance) && other.shard == shard;
        }
    }
    state.calls[index].stop_waiting();
    broken
}

/// An acquisition was granted, or refused.
fn acquired(seat: &mut Seat, world: &World, call: &Call, answer: Answer, me: Name) {
    let (Some(row), Some(claim)) = (answer.row, call.request.claim()) else {
        return;
    };
    // Sent a second time, it is refused by its own success.
    if answer.accepted || row.grant == Some(claim.grant) {
        let hold = Hold::granted(row.epoch, row.serial, call.sent, world.rules());
        hold_on(seat, world, hold, call.sent);
    } else {
        adopt(seat, world, answer, me);
    }
}

/// The row may show what an earlier acquisition was granted without hearing of it.
fn adopt(seat: &mut Seat, world: &World, answer: Answer, me: Name) {
    let unanswered = seat.unanswered;
    let is_unanswered = |token| unanswered & bit(Some(token)) != 0;
    let adopted = answer
        .row
        .filter(|row| acquire_own_and_live(row, me, is_unanswered, world.rules()));
    if let Some(row) = adopted {
        let hold = Hold::adopted(row.epoch, row.serial, world.lease, world.rules());
        hold_on(seat, world, hold, world.lease);
    }
}

fn hold_on(seat: &mut Seat, world: &World, mut hold: Hold, sent: u8) {
    match seat.goes_on_after.take() {
        Some(after) => hold.open(after, 0),
        None if world.records == 0 => hold.open(0, 0),
        None => {}
    }
    seat.hold = Some(hold);
    seat.unanswered = 0;
    if let Some(sighting) = &mut seat.sighting {
        sighting.is_own(hold.epoch, sent);
    }
}

fn renewed(seat: &mut Seat, world: &World, call: &Call, answer: Answer) {
    match &mut seat.hold {
        Some(hold) if hold.serial == call.serial && answer.accepted => {
            hold.renewed(call.sent, world.rules());
            if let Some(sighting) = &mut seat.sighting {
                sighting.is_own(hold.epoch, call.sent);
            }
        }
        _ => lost(seat, call, answer),
    }
}

/// The lease that a call presented is not its sender's any more.
fn lost(seat: &mut Seat, call: &Call, answer: Answer) {
    let Some(hold) = seat.hold.filter(|hold| hold.serial == call.serial) else {
        return;
    };
    seat.hold = None;
    // Nobody took it: the row has vanished.
    seat.goes_on_after = match answer.row {
        None if hold.opened => Some(hold.settled),
        _ => None,
    };
}

/// A holder has read where to go on.
fn opened(
    seat: &mut Seat,
    world: &World,
    call: &Call,
    answer: Answer,
    me: Name,
    settled: u8,
) -> Option<Invariant> {
    let hold = seat
        .hold
        .as_mut()
        .filter(|hold| hold.serial == call.serial && !hold.opened)?;
    let Some(row) = answer.row.filter(|row| row.is_held_by(hold.mine(me))) else {
        lost(seat, call, answer);
        return None;
    };
    let after = match row.checkpoint {
        0 if world.rules().lack(Flaw::OpensAtTheTip) => world.records - 1,
        checkpoint => checkpoint,
    };
    hold.open(after, row.checkpoint);
    (after > settled).then_some(Invariant::NoLoss)
}
