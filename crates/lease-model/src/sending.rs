//! A call being sent: which calls an instance may send in its situation.

use crate::flaw::Flaw;
use crate::observer::{Attempt, Sighting};
use crate::state::{Call, Request, Seat, State};
use crate::table::{Claim, Free};
use crate::world::World;

/// What an instance may send for a shard.
pub(crate) fn requests(state: &State, world: &World, instance: u8, shard: u8) -> Vec<Request> {
    let mut requests = Vec::new();
    let under_way = state.awaited(instance, shard).count();
    if under_way >= usize::from(world.calls_at_once) {
        return requests;
    }
    let seat = state.seat(world, instance, shard);
    match seat.hold {
        Some(_) => of_a_holder(state, world, instance, seat, &mut requests),
        None => of_anybody(state, world, instance, shard, &mut requests),
    }
    if world.calls_at_once > 1 {
        requests.push(Request::Read { opens: false });
    }
    // Of each kind one is waited for.
    requests.retain(|request| {
        state
            .awaited(instance, shard)
            .all(|call| !is_of_one_kind(&call.request, request))
    });
    requests
}

fn is_of_one_kind(one: &Request, other: &Request) -> bool {
    // Whoever acquires, renews or releases waits for the answer before it does anything else of these.
    let decides =
        |request: &Request| request.begins_a_lease() || matches!(request, Request::Release { .. });
    std::mem::discriminant(one) == std::mem::discriminant(other) || decides(one) && decides(other)
}

fn of_a_holder(
    state: &State,
    world: &World,
    instance: u8,
    seat: &Seat,
    requests: &mut Vec<Request>,
) {
    let Some(hold) = &seat.hold else {
        return;
    };
    let mine = hold.mine(state.name(instance));
    if state.budget.renewals > 0 {
        requests.push(Request::Renew { mine });
    }
    if !hold.opened && hold.is_in_time(world.lease, world.rules()) {
        requests.push(Request::Read { opens: true });
    }
    if let Some(at) = hold.checkpointable(world.lease, world.rules()) {
        let cp_no = hold.cp_no + 1;
        requests.push(Request::Checkpoint { mine, at, cp_no });
    }
    if hold.may_be_released() {
        requests.push(Request::Release { mine });
    }
}

fn of_anybody(state: &State, world: &World, instance: u8, shard: u8, requests: &mut Vec<Request>) {
    let (request, sure) = acquisition(state, world, instance, shard);
    requests.push(match sure || world.hasty {
        true => request,
        false => Request::Read { opens: false },
    });
    let me = state.name(instance);
    let Some(sighting) = &state.seat(world, instance, shard).sighting else {
        return;
    };
    if state.budget.asks > 0 && sighting.is_live_for_another(me, world.lease) {
        requests.push(Request::Ask { asker: me });
    }
    // A row is forgotten ten listings after its shard was gone: no call on it is on its way any more.
    let is_quiet = state.calls.iter().all(|call| call.shard != shard)
        || world.rules().lack(Flaw::ForgetsUnderACall);
    if state.budget.forgets > 0 && sighting.may_be_forgotten() && is_quiet {
        requests.push(Request::Forget);
    }
}

/// What an acquisition sends, and whether it will be granted as far as the instance can tell.
pub(crate) fn acquisition(
    state: &State,
    world: &World,
    instance: u8,
    shard: u8,
) -> (Request, bool) {
    let owner = state.name(instance);
    let seat = state.seat(world, instance, shard);
    let (attempt, sure) = match &seat.sighting {
        Some(sighting) => sighting.attempt(owner, world.lease, world.rules()),
        None => Sighting::first_attempt(),
    };
    let grant = state.fresh_token(world, shard);
    let claim = Claim { owner, grant };
    let request = match attempt {
        Attempt::Free(free) => Request::AcquireFree { free, claim },
        Attempt::Expired { observed, counter } => Request::AcquireExpired {
            observed,
            counter,
            claim,
        },
        Attempt::Look => Request::Read { opens: false },
    };
    (request, sure)
}

/// The world once the call is sent. (Whether what it checkpoints is settled is for the invariants to say.)
pub(crate) fn send(state: &mut State, world: &World, instance: u8, shard: u8, request: Request) {
    let budget = &mut state.budget;
    match request {
        Request::Renew { .. } => budget.renewals -= 1,
        Request::Ask { .. } => budget.asks -= 1,
        Request::Forget => budget.forgets -= 1,
        _ => {}
    }
    let seat = state.seat_mut(world, instance, shard);
    let mut serial = seat.hold.map_or(0, |hold| hold.serial);
    match request {
        Request::Checkpoint { cp_no, .. } => {
            if let Some(hold) = &mut seat.hold {
                hold.cp_no = cp_no;
            }
        }
        // It hands over nothing more, whether the release arrives or not.
        Request::Release { .. } => seat.hold = None,
        Request::AcquireFree { .. } | Request::AcquireExpired { .. } => serial = 0,
        _ => {}
    }
    if !matches!(
        request,
        Request::AcquireFree {
            free: Free::Absent { .. },
            ..
        }
    ) && request.claim().is_some()
    {
        // Somebody had the row meanwhile, so there is a checkpoint that is worth more.
        seat.goes_on_after = None;
    }
    state.calls.push(Call {
        from: Some(instance),
        shard,
        request,
        serial,
        copies: 1,
        awaited: true,
        sent: 0,
        overtaken: false,
        answer: None,
    });
}

/// Whether the ticks since a call was sent matter.
pub(crate) fn is_timed(request: &Request, world: &World) -> bool {
    request.begins_a_lease() || world.rules().lack(Flaw::ExpiryFromSent)
}
