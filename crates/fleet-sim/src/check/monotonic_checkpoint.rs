//! **Monotonic checkpoint.** What a row says never moves back: nothing, then the moment of the tip, then sequence
//! numbers that grow, then the end of the shard. A moment is never replaced by another, since the tip is taken once.
//! And what a row says counts: a record at or before it is not handed over again, by anybody.
//!
//! The row is worked out from the calls that took effect (see [`rows`](super::rows)): of the checkpoints of one holder
//! one that was sent earlier than another that has taken effect changes nothing. That a store lets it change the row
//! all the same shows by what is handed over again.
//!
//! Allowed: a finished shard's row that is forgotten begins anew.

use std::cmp::Ordering;
use std::collections::HashSet;

use lease_core::Checkpoint;

use crate::check::Found;
use crate::check::index::Index;
use crate::check::rows::covers;
use crate::history::Sequence;

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for (shard, checkpoints) in index.rows.checkpoints.iter().enumerate() {
        for pair in checkpoints.windows(2) {
            if let [(_, Some(before)), (at, Some(after))] = pair
                && !may_follow(before, after)
            {
                let name = index.name(shard);
                found.push(at.found(format!(
                    "the checkpoint of {name} goes from {before} to {after}"
                )));
            }
        }
    }
    let mut said = HashSet::new();
    for handed in &index.deliveries {
        let Some(checkpoint) = index.rows.checkpoint(handed.shard, handed.at) else {
            continue;
        };
        if covers(checkpoint, &handed.delivery.sequence)
            && said.insert((handed.shard, handed.grant))
        {
            let (instance, epoch) = (handed.delivery.instance, handed.delivery.epoch);
            let name = handed.name(index);
            found.push(handed.at.found(format!(
                "{instance} hands over {name} under epoch {epoch}, although the checkpoint is {checkpoint}"
            )));
        }
    }
    found
}

fn may_follow(before: &Checkpoint, after: &Checkpoint) -> bool {
    match rank(before).cmp(&rank(after)) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => match (before.sequence(), after.sequence()) {
            (Some(before), Some(after)) => {
                Sequence(before.to_owned()) <= Sequence(after.to_owned())
            }
            _ => before == after,
        },
    }
}

fn rank(checkpoint: &Checkpoint) -> u8 {
    match (checkpoint.is_shard_end(), checkpoint.sequence()) {
        (true, _) => 2,
        (false, Some(_)) => 1,
        (false, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use lease_core::Checkpoint;

    use crate::check::Invariant::MonotonicCheckpoint;
    use crate::check::builder::{Tale, end, key, moment, seq};
    use crate::history::{Answer, Ask};

    fn held() -> Tale {
        let mut tale = Tale::with(2);
        tale.grant(0, 0, 1);
        (9..=11).for_each(|sequence| tale.store(0, sequence));
        tale
    }

    #[test]
    fn a_checkpoint_moves_forward_and_may_be_written_again() {
        let mut tale = held();
        for position in [
            moment(1),
            moment(1),
            seq(9),
            seq(9),
            seq(10),
            seq(11),
            end(),
            end(),
        ] {
            tale.checkpoint(0, 0, 1, position);
        }
        tale.keeps(MonotonicCheckpoint);
    }

    #[test]
    fn a_checkpoint_never_moves_back_nor_is_the_tip_taken_twice() {
        let table: [(Checkpoint, Checkpoint); 5] = [
            (seq(10), seq(9)),
            (seq(9), moment(1)),
            (end(), seq(9)),
            (end(), moment(1)),
            (moment(1), moment(2)),
        ];
        for (before, after) in table {
            let mut tale = held();
            tale.checkpoint(0, 0, 1, before.clone());
            tale.at(12.0).grant(1, 0, 2);
            tale.checkpoint(1, 0, 2, after.clone());
            tale.breaks(
                MonotonicCheckpoint,
                &format!("goes from {before} to {after}"),
            );
        }
    }

    #[test]
    fn a_checkpoint_that_lands_after_one_that_was_sent_later_changes_nothing() {
        let mut tale = held();
        let late = tale.send(0, Tale::position(0, 0, 1, seq(9)));
        tale.checkpoint(0, 0, 1, seq(10));
        tale.took(late, Answer::Yes);
        tale.keeps(MonotonicCheckpoint);
    }

    #[test]
    fn a_late_checkpoint_of_a_former_holder_would_move_the_row_back() {
        let mut tale = held();
        let late = tale.send(0, Tale::position(0, 0, 1, seq(9)));
        tale.at(12.0).grant(1, 0, 2);
        tale.checkpoint(1, 0, 2, seq(10));
        tale.took(late, Answer::No);
        tale.keeps(MonotonicCheckpoint);
        let late = tale.send(0, Tale::position(0, 0, 1, seq(9)));
        tale.took(late, Answer::Yes);
        tale.breaks(MonotonicCheckpoint, "goes from 10 to 9");
    }

    #[test]
    fn a_row_that_is_forgotten_begins_anew() {
        let mut tale = held();
        tale.checkpoint(0, 0, 1, end());
        tale.release(0, 0, 1);
        let call = tale.send(0, Ask::Forget { key: key(0) });
        tale.took(call, Answer::Yes);
        tale.grant(1, 0, 1);
        tale.checkpoint(1, 0, 1, seq(9));
        tale.keeps(MonotonicCheckpoint);
    }

    #[test]
    fn nothing_before_the_checkpoint_is_handed_over_again_and_that_is_said_once_an_epoch() {
        for position in [seq(10), end()] {
            let mut tale = held();
            tale.checkpoint(0, 0, 1, position);
            tale.at(12.0).grant(1, 0, 2);
            (9..=10).for_each(|sequence| tale.settle(1, 0, 2, sequence));
            tale.breaks(
                MonotonicCheckpoint,
                "i1 hands over r0 of shard 0 (9) under epoch 2, although the checkpoint is",
            );
        }
        let mut tale = held();
        tale.checkpoint(0, 0, 1, seq(10));
        tale.at(12.0).grant(1, 0, 2);
        tale.settle(1, 0, 2, 11);
        tale.keeps(MonotonicCheckpoint);
    }
}
