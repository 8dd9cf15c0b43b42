//! No state is a dead end: if nothing more goes wrong, some instance comes to hold each lease and knows it.
//!
//! From each state one calm history is followed, in which every call gets through, every answer arrives, and
//! whoever wants a lease tries for it. That it ends well shows that the lease can be had from there.

use std::collections::HashSet;

use crate::search::Plain;
use crate::sending::acquisition;
use crate::state::{Call, Request, State};
use crate::step::{self, Step};
use crate::symmetry::fingerprint;
use crate::world::World;

/// More steps than any calm history takes; what takes as many goes round in a circle.
const ENOUGH: usize = 200;

/// What is known of dead ends.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// States from which a lease can be had.
    good: HashSet<u64, Plain>,
}

impl Progress {
    /// Whether the calm history from this state comes to nothing.
    pub(crate) fn is_dead_end(&mut self, state: &State, world: &World) -> bool {
        let mut passed = Vec::new();
        let mut state = state.clone();
        // In a calm history nothing goes wrong, and enough renewals are left.
        state.budget.renewals = u8::MAX;
        loop {
            let fingerprint = fingerprint(&state, world);
            if self.good.contains(&fingerprint) || is_held(&state, world) {
                passed.push(fingerprint);
                self.good.extend(passed);
                return false;
            }
            if passed.len() == ENOUGH {
                return true;
            }
            passed.push(fingerprint);
            state = calm(&state, world);
            state.budget.renewals = u8::MAX;
        }
    }
}

/// Whether each shard has a holder that may hand over.
fn is_held(state: &State, world: &World) -> bool {
    (0..world.shards).all(|shard| {
        let grants = state.truths[usize::from(shard)].grants;
        (0..world.instances).any(|instance| {
            let hold = &state.seat(world, instance, shard).hold;
            hold.as_ref().is_some_and(|hold| {
                hold.serial == grants && hold.is_in_time(world.lease, world.rules())
            })
        })
    })
}

/// The next state of the calm history.
fn calm(state: &State, world: &World) -> State {
    if let Some(step) = due(state, world) {
        return step::after(state, world, step).0;
    }
    let (mut state, _) = step::after(state, world, Step::Tick);
    // Each tick everybody looks how things are.
    for (instance, shard) in seats(world) {
        if state.seat(world, instance, shard).hold.is_some() {
            continue;
        }
        let request = Request::Read { opens: false };
        let read = Step::Send {
            instance,
            shard,
            request,
        };
        (state, _) = step::after(&state, world, read);
        while let Some(step) = under_way(&state) {
            (state, _) = step::after(&state, world, step);
        }
    }
    state
}

/// What is done before a tick passes.
fn due(state: &State, world: &World) -> Option<Step> {
    under_way(state).or_else(|| {
        let mut wanted = seats(world).filter_map(|(instance, shard)| {
            let request = wanted(state, world, instance, shard)?;
            Some(Step::Send {
                instance,
                shard,
                request,
            })
        });
        wanted.next()
    })
}

/// An answer that can arrive, or else a call that can take effect.
fn under_way(state: &State) -> Option<Step> {
    let call = |is_there: fn(&Call) -> bool| state.calls.iter().position(is_there);
    let arriving = call(|call| call.answer.is_some()).map(|call| Step::Arrive { call });
    arriving.or_else(|| call(|call| call.copies > 0).map(|call| Step::Land { call }))
}

/// What an instance sends that wants the lease, or whose deadline has passed.
fn wanted(state: &State, world: &World, instance: u8, shard: u8) -> Option<Request> {
    let seat = state.seat(world, instance, shard);
    if let Some(hold) = &seat.hold {
        let mine = hold.mine(state.name(instance));
        let overdue = !hold.is_in_time(world.lease, world.rules());
        return overdue.then_some(Request::Renew { mine });
    }
    let (request, sure) = acquisition(state, world, instance, shard);
    sure.then_some(request)
}

fn seats(world: &World) -> impl Iterator<Item = (u8, u8)> {
    let shards = world.shards;
    (0..world.instances).flat_map(move |instance| (0..shards).map(move |shard| (instance, shard)))
}
