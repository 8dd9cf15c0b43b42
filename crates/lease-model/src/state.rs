//! A state of the world: the rows, the instances, and the calls on their way.

use crate::holder::Hold;
use crate::observer::Sighting;
use crate::table::{Claim, Free, Mine, Name, Row, Token};
use crate::tidy::bit;
use crate::world::World;

/// The most instances.
pub(crate) const INSTANCES: usize = 3;
/// The most shards.
pub(crate) const SHARDS: usize = 2;

/// What really happened to a shard. Nobody in the world knows it; the invariants do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Truth {
    /// The number of grants so far.
    pub(crate) grants: u8,
    /// To which instance the last one went, unless that has crashed since.
    pub(crate) granted_to: Option<u8>,
    /// The highest epoch that was granted since the row was last deleted.
    pub(crate) epoch: u8,
    /// The checkpoint in the row since it was last deleted, at its furthest.
    pub(crate) checkpoint: u8,
    /// How far somebody has settled the records.
    pub(crate) settled: u8,
}

impl Truth {
    /// The row is gone. Epochs begin anew for whoever did not see it, and so do checkpoints.
    pub(crate) fn forgotten(&mut self) {
        self.epoch = 0;
        self.checkpoint = 0;
    }
}

/// What an instance knows of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Seat {
    pub(crate) sighting: Option<Sighting>,
    pub(crate) hold: Option<Hold>,
    /// The tokens of its acquisitions that ended without an answer, a bit each.
    pub(crate) unanswered: u16,
    /// How far it had come when its row vanished.
    pub(crate) goes_on_after: Option<u8>,
}

/// What is asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    AcquireFree {
        free: Free,
        claim: Claim,
    },
    AcquireExpired {
        observed: Mine,
        counter: u8,
        claim: Claim,
    },
    /// An acquisition that has been to the store: why it would have been granted matters no more.
    Acquired {
        claim: Claim,
    },
    Renew {
        mine: Mine,
    },
    Checkpoint {
        mine: Mine,
        at: u8,
        cp_no: u8,
    },
    Release {
        mine: Mine,
    },
    Ask {
        asker: Name,
    },
    Forget,
    /// A read, to see how things are, or where to open.
    Read {
        opens: bool,
    },
}

impl Request {
    pub(crate) fn claim(&self) -> Option<Claim> {
        match *self {
            Self::AcquireFree { claim, .. }
            | Self::AcquireExpired { claim, .. }
            | Self::Acquired { claim } => Some(claim),
            _ => None,
        }
    }

    /// Whether a lease is counted from when it was sent.
    pub(crate) fn begins_a_lease(&self) -> bool {
        self.claim().is_some() || matches!(self, Self::Renew { .. })
    }
}

/// What the store says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Answer {
    pub(crate) accepted: bool,
    /// The row afterwards.
    pub(crate) row: Option<Row>,
}

/// A call on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    /// Which instance sent it, unless that has crashed since.
    pub(crate) from: Option<u8>,
    pub(crate) shard: u8,
    pub(crate) request: Request,
    /// The grant that it presents, or was granted: for the invariants.
    pub(crate) serial: u8,
    /// How often it may still take effect.
    pub(crate) copies: u8,
    /// Whether its sender waits for the answer.
    pub(crate) awaited: bool,
    /// The ticks since it was sent, where that matters.
    pub(crate) sent: u8,
    /// Its sender has learnt something new since it was sent.
    pub(crate) overtaken: bool,
    pub(crate) answer: Option<Answer>,
}

impl Call {
    /// Its sender waits no longer.
    pub(crate) fn stop_waiting(&mut self) {
        self.awaited = false;
        self.answer = None;
        self.sent = 0;
        self.overtaken = false;
    }
}

/// What may still go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) renewals: u8,
    pub(crate) lost_answers: u8,
    pub(crate) duplicates: u8,
    pub(crate) crashes: u8,
    pub(crate) deletions: u8,
    pub(crate) asks: u8,
    pub(crate) forgets: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) rows: [Option<Row>; SHARDS],
    pub(crate) truths: [Truth; SHARDS],
    pub(crate) names: [Name; INSTANCES],
    /// Instance by instance, and shard by shard within.
    pub(crate) seats: Vec<Seat>,
    /// In no order.
    pub(crate) calls: Vec<Call>,
    pub(crate) budget: Budget,
}

impl State {
    pub(crate) fn first(world: &World) -> Self {
        let name = |instance: u8| Name::of(if world.twins { 0 } else { instance }, 0);
        Self {
            rows: [None; SHARDS],
            truths: [Truth::default(); SHARDS],
            names: [name(0), name(1), name(2)],
            seats: vec![Seat::default(); usize::from(world.instances * world.shards)],
            calls: Vec::new(),
            budget: Budget {
                renewals: world.renewals,
                lost_answers: world.lost_answers,
                duplicates: world.duplicates,
                crashes: world.crashes,
                deletions: world.deletions,
                asks: world.asks,
                forgets: world.forgets,
            },
        }
    }

    pub(crate) fn name(&self, instance: u8) -> Name {
        self.names[usize::from(instance)]
    }

    pub(crate) fn seat(&self, world: &World, instance: u8, shard: u8) -> &Seat {
        &self.seats[usize::from(instance * world.shards + shard)]
    }

    pub(crate) fn seat_mut(&mut self, world: &World, instance: u8, shard: u8) -> &mut Seat {
        &mut self.seats[usize::from(instance * world.shards + shard)]
    }

    /// The calls on a shard that an instance waits for.
    pub(crate) fn awaited(&self, instance: u8, shard: u8) -> impl Iterator<Item = &Call> {
        self.calls
            .iter()
            .filter(move |call| call.awaited && call.from == Some(instance) && call.shard == shard)
    }

    /// The tokens in a row, and in the calls about it, a bit each.
    pub(crate) fn tokens_elsewhere(&self, shard: u8) -> u16 {
        let of_row = |row: Option<Row>| bit(row.and_then(|row| row.grant));
        let calls = self.calls.iter().filter(|call| call.shard == shard);
        let of_calls = calls.map(|call| {
            let claimed = bit(call.request.claim().map(|claim| claim.grant));
            claimed | call.answer.map_or(0, |answer| of_row(answer.row))
        });
        of_calls.fold(of_row(self.rows[usize::from(shard)]), |all, some| {
            all | some
        })
    }

    /// A token that nobody has: a random one never meets another.
    pub(crate) fn fresh_token(&self, world: &World, shard: u8) -> Token {
        let seats = (0..world.instances).map(|instance| self.seat(world, instance, shard));
        let taken = seats.fold(self.tokens_elsewhere(shard), |all, seat| {
            all | seat.unanswered
        });
        Token(u8::try_from(taken.trailing_ones()).unwrap_or(0))
    }

    /// Whether one history has come as far as it is to be followed.
    pub(crate) fn is_at_the_horizon(&self, world: &World) -> bool {
        self.truths.iter().any(|truth| truth.grants > world.grants)
    }
}
