//! States that differ in nothing but which instance is which are one. It alone knows how a state is told apart
//! from another: by a hash of 64 bits, the least over all orders of the instances.
//!
//! Of thirty million states two share a hash by chance once in forty thousand explorations.

use std::hash::{Hash, Hasher};

use crate::state::{Call, INSTANCES, Request, Seat, State, Truth};
use crate::table::{Claim, Mine, Name, Row};
use crate::world::World;

/// The state's hash, whichever instance is which.
pub(crate) fn fingerprint(state: &State, world: &World) -> u64 {
    let orders: &[[u8; INSTANCES]] = match world.instances {
        2 => &[[0, 1, 2], [1, 0, 2]],
        3 => &[
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ],
        _ => &[[0, 1, 2]],
    };
    let twins = world.twins;
    let hashes = orders
        .iter()
        .map(|&numbers| hash(state, world, Renumbering { numbers, twins }));
    hashes.min().unwrap_or_default()
}

fn hash(state: &State, world: &World, by: Renumbering) -> u64 {
    let mut hasher = Folding::default();
    state.budget.hash(&mut hasher);
    let shards = usize::from(world.shards);
    for (row, truth) in state.rows.iter().zip(&state.truths).take(shards) {
        row.map(|row| by.row(row)).hash(&mut hasher);
        let granted_to = truth.granted_to.map(|instance| by.instance(instance));
        Truth {
            granted_to,
            ..*truth
        }
        .hash(&mut hasher);
    }
    let mut instances = [0; INSTANCES];
    for (instance, &number) in by.numbers.iter().enumerate() {
        instances[usize::from(number)] = instance;
    }
    for &instance in &instances[..usize::from(world.instances)] {
        by.name(state.names[instance]).hash(&mut hasher);
        for seat in &state.seats[instance * shards..(instance + 1) * shards] {
            by.seat(*seat).hash(&mut hasher);
        }
    }
    // A sum does not depend on the order of the calls.
    let calls = state.calls.iter().map(|call| {
        let mut hasher = Folding::default();
        by.call(*call).hash(&mut hasher);
        hasher.finish()
    });
    hasher.write_u64(calls.fold(0, u64::wrapping_add));
    hasher.finish()
}

/// Other numbers for the instances, and so for the names after them.
#[derive(Clone, Copy)]
struct Renumbering {
    numbers: [u8; INSTANCES],
    twins: bool,
}

impl Renumbering {
    fn name(&self, name: Name) -> Name {
        if self.twins {
            return name;
        }
        let (instance, start) = name.instance_and_start();
        Name::of(self.instance(instance), start)
    }

    fn instance(&self, instance: u8) -> u8 {
        self.numbers[usize::from(instance)]
    }

    fn row(&self, row: Row) -> Row {
        Row {
            owner: row.owner.map(|owner| self.name(owner)),
            asked_by: row.asked_by.map(|asker| self.name(asker)),
            ..row
        }
    }

    fn mine(&self, mine: Mine) -> Mine {
        Mine {
            owner: self.name(mine.owner),
            ..mine
        }
    }

    fn seat(&self, seat: Seat) -> Seat {
        Seat {
            sighting: seat
                .sighting
                .map(|sighting| sighting.renamed(|name| self.name(name))),
            ..seat
        }
    }

    fn call(&self, mut call: Call) -> Call {
        let claim = |claim: Claim| Claim {
            owner: self.name(claim.owner),
            ..claim
        };
        call.from = call.from.map(|instance| self.instance(instance));
        call.request = match call.request {
            Request::AcquireFree { free, claim: c } => Request::AcquireFree {
                free,
                claim: claim(c),
            },
            Request::AcquireExpired {
                observed,
                counter,
                claim: c,
            } => Request::AcquireExpired {
                observed: self.mine(observed),
                counter,
                claim: claim(c),
            },
            Request::Acquired { claim: c } => Request::Acquired { claim: claim(c) },
            Request::Renew { mine } => Request::Renew {
                mine: self.mine(mine),
            },
            Request::Checkpoint { mine, at, cp_no } => Request::Checkpoint {
                mine: self.mine(mine),
                at,
                cp_no,
            },
            Request::Release { mine } => Request::Release {
                mine: self.mine(mine),
            },
            Request::Ask { asker } => Request::Ask {
                asker: self.name(asker),
            },
            same @ (Request::Forget | Request::Read { .. }) => same,
        };
        if let Some(answer) = &mut call.answer {
            answer.row = answer.row.map(|row| self.row(row));
        }
        call
    }
}

/// Folds what it is given into itself by multiplications, eight bytes at a time.
#[derive(Default)]
struct Folding {
    state: u64,
    pending: u64,
    bytes: u32,
}

impl Folding {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.state ^ word ^ 0x9e37_79b9_7f4a_7c15)
            * u128::from(0xd6e8_feb8_6659_fd93_u64);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let (low, high) = (product as u64, (product >> 64) as u64);
        self.state = (low ^ high).rotate_left(23).wrapping_add(word);
    }
}

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u8(byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.pending = self.pending << 8 | u64::from(byte);
        self.bytes += 1;
        if self.bytes == 8 {
            self.fold(self.pending);
            (self.pending, self.bytes) = (0, 0);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.fold(word);
    }

    // The discriminants of enums.
    fn write_isize(&mut self, small: isize) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "no enum has so many variants"
        )]
        self.write_u8(small as u8);
    }

    fn finish(&self) -> u64 {
        let mut last = Self { ..*self };
        last.fold(self.pending);
        last.fold(u64::from(self.bytes));
        last.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Step, after, steps};

    /// The state after `turns` turns, in each of which the instance takes the first step that it alone can take.
    fn history(world: &World, turns: &[u8]) -> State {
        let mut state = State::first(world);
        for &turn in turns {
            let own = |step: &Step| match *step {
                Step::Send { instance, .. } | Step::HandOver { instance, .. } => instance == turn,
                Step::Land { call } | Step::Arrive { call } => state.calls[call].from == Some(turn),
                _ => false,
            };
            let step = steps(&state, world).into_iter().find(own);
            (state, _) = after(&state, world, step.expect("it can do something"));
        }
        state
    }

    #[test]
    fn it_makes_no_difference_which_instance_is_which() {
        let world = World {
            instances: 3,
            ..World::new("three")
        };
        let print = |turns: &[u8]| fingerprint(&history(&world, turns), &world);
        let of_a_and_b = print(&[0, 0, 0, 1, 1, 1, 0, 0]);
        assert_eq!(of_a_and_b, print(&[1, 1, 1, 2, 2, 2, 1, 1]));
        assert_eq!(of_a_and_b, print(&[2, 2, 2, 0, 0, 0, 2, 2]));
        assert_ne!(of_a_and_b, print(&[0, 0, 0, 1, 1, 1, 1, 1]));
    }

    #[test]
    fn it_makes_no_difference_in_which_order_calls_were_sent() {
        let world = World::new("two");
        let mut one = history(&world, &[0, 1]);
        let print = fingerprint(&one, &world);
        one.calls.reverse();
        assert_eq!(print, fingerprint(&one, &world));
    }
}
