//! A step in words.

use crate::state::{Answer, Call, Request, State};
use crate::step::Step;
use crate::table::{Free, Mine, Name};
use crate::world::World;

/// What happens between two states.
pub(crate) fn words(before: &State, after: &State, world: &World, step: Step) -> String {
    match step {
        Step::Tick => "a tick passes".to_owned(),
        Step::Send {
            instance,
            shard,
            request,
        } => {
            let call = call(request);
            let of_shard = of_shard(world, shard);
            format!("{} sends {call}{of_shard}", who(instance))
        }
        Step::Land { call } => landed(before, after, world, &before.calls[call]),
        Step::Arrive { call } => arrived(after, world, &before.calls[call]),
        Step::GiveUp { call } => {
            let whose = whose(world, &before.calls[call]);
            format!("no answer to {whose} ever arrives")
        }
        Step::SendAgain { call } => {
            format!("{} is sent again", whose(world, &before.calls[call]))
        }
        Step::HandOver {
            instance,
            shard,
            record,
        } => {
            let hold = before.seat(world, instance, shard).hold;
            let epoch = hold.map_or(0, |hold| hold.epoch);
            let of_shard = of_shard(world, shard);
            let record = match world.records {
                0 => "a record".to_owned(),
                _ => format!("record {record}"),
            };
            format!(
                "{} hands over {record}{of_shard}, under epoch {epoch}",
                who(instance)
            )
        }
        Step::Settle { instance, shard } => {
            let hold = before.seat(world, instance, shard).hold;
            let record = hold.map_or(0, |hold| hold.handed);
            format!(
                "{} settles record {record}{}",
                who(instance),
                of_shard(world, shard)
            )
        }
        Step::Crash { instance, renamed } => {
            let name = match renamed {
                true => "another name",
                false => "the same name",
            };
            format!("{} crashes, and starts again under {name}", who(instance))
        }
        Step::Delete { shard } => format!("the row{} is deleted by hand", of_shard(world, shard)),
    }
}

fn landed(before: &State, after: &State, world: &World, call: &Call) -> String {
    let whose = whose(world, call);
    let shard = usize::from(call.shard);
    let (old, new) = (before.rows[shard], after.rows[shard]);
    if matches!(call.request, Request::Read { .. }) {
        return match new {
            Some(row) => format!(
                "{whose} finds epoch {}, counter {}, checkpoint {}, {}",
                row.epoch,
                row.counter,
                row.checkpoint,
                match row.owner {
                    Some(owner) => format!("owner {}", name(owner)),
                    None => "no owner".to_owned(),
                }
            ),
            None => format!("{whose} finds no row"),
        };
    }
    if old == new {
        return format!("{whose} gets there, and changes nothing");
    }
    match (call.request.claim(), new) {
        (Some(_), Some(row)) => format!("{whose} takes effect: granted, epoch {}", row.epoch),
        (None, Some(row)) if matches!(call.request, Request::Checkpoint { .. }) => {
            format!("{whose} takes effect: checkpoint {}", row.checkpoint)
        }
        _ => format!("{whose} takes effect"),
    }
}

fn arrived(after: &State, world: &World, call: &Call) -> String {
    let whose = whose(world, call);
    let (Some(Answer { accepted, .. }), Some(instance)) = (call.answer, call.from) else {
        return whose;
    };
    let seat = after.seat(world, instance, call.shard);
    let says = match (&call.request, seat.hold) {
        (request, Some(hold)) if request.claim().is_some() => match accepted {
            true => format!("granted, epoch {}", hold.epoch),
            false => format!("it is its own already, epoch {}", hold.epoch),
        },
        (request, None) if request.claim().is_some() => "refused".to_owned(),
        (Request::Renew { .. }, _) if accepted => "held".to_owned(),
        (Request::Renew { .. }, _) => "lost".to_owned(),
        (Request::Checkpoint { mine, .. }, _) => {
            let is_mine = |row: crate::table::Row| row.is_held_by(*mine);
            let still = call
                .answer
                .and_then(|answer| answer.row)
                .is_some_and(is_mine);
            format!("{}", accepted || still)
        }
        (Request::Read { opens: true }, Some(hold)) if hold.opened => {
            format!("it goes on after record {}", hold.settled)
        }
        _ => return format!("the answer to {whose} arrives"),
    };
    format!("the answer to {whose} arrives: {says}")
}

fn who(instance: u8) -> char {
    char::from(b'A' + instance)
}

/// Names are those of the instances, with a number from the second start on.
fn name(name: Name) -> String {
    let (instance, start) = name.instance_and_start();
    let letter = char::from(b'a' + instance);
    match start {
        0 => letter.to_string(),
        _ => format!("{letter}{}", start + 1),
    }
}

fn whose(world: &World, one: &Call) -> String {
    let shard = of_shard(world, one.shard);
    let call = call(one.request);
    match one.from {
        Some(instance) => format!("{}'s {call}{shard}", who(instance)),
        None => format!("a {call}{shard} from before a crash"),
    }
}

fn of_shard(world: &World, shard: u8) -> String {
    match world.shards {
        1 => String::new(),
        _ => format!(" of shard {shard}"),
    }
}

fn call(request: Request) -> String {
    let presents = |mine: Mine| format!("(owner {}, epoch {})", name(mine.owner), mine.epoch);
    match request {
        Request::AcquireFree {
            free: Free::Absent { .. },
            ..
        } => "acquire, free (row absent)".to_owned(),
        Request::AcquireFree {
            free: Free::Released { epoch, .. },
            ..
        } => format!("acquire, free (no owner, epoch {epoch})"),
        Request::AcquireExpired {
            observed, counter, ..
        } => format!(
            "acquire, expired (owner {}, epoch {}, counter {counter})",
            name(observed.owner),
            observed.epoch
        ),
        Request::Acquired { .. } => "acquire".to_owned(),
        Request::Renew { mine } => format!("renew {}", presents(mine)),
        Request::Checkpoint { mine, at, cp_no } => {
            format!("checkpoint {at} (cp_no {cp_no}) {}", presents(mine))
        }
        Request::Release { mine } => format!("release {}", presents(mine)),
        Request::Ask { asker } => format!("ask by {}", name(asker)),
        Request::Forget => "forget".to_owned(),
        Request::Read { .. } => "read".to_owned(),
    }
}
