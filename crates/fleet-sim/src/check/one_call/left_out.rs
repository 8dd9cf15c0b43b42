//! Where each acknowledgement is in the store before the next record is handed over: as long as every call so far was
//! answered with yes, the next record is handed over neither before the last one's settling was sent nor, until 3 s
//! have passed, before that was answered.

use std::collections::{HashMap, HashSet};

use super::Sent;
use crate::check::facts::Handed;
use crate::check::index::Index;
use crate::check::{Found, PATIENCE};

/// The acknowledgements that were followed by the next record without waiting for a call.
pub(super) fn check(index: &Index<'_>, shard: usize, sent: &Sent<'_, '_>) -> Vec<Found> {
    let mut found = Vec::new();
    let mut before: HashMap<usize, &Handed<'_>> = HashMap::new();
    let mut said = HashSet::new();
    for handed in index.shards[shard]
        .deliveries
        .iter()
        .map(|delivery| &index.deliveries[*delivery])
    {
        let Some(grant) = handed.grant else { continue };
        let Some(before) = before.insert(grant, handed) else {
            continue;
        };
        let Some(settled) = before.settled().filter(|settled| *settled < handed.at) else {
            continue;
        };
        let calls = sent.get(&grant).map_or(&[][..], Vec::as_slice);
        let until = calls.partition_point(|(_, call)| call.sent < handed.at);
        let (newest, older) = match calls[..until].split_last() {
            Some(((_, newest), older)) if newest.sent > settled => (Some(newest), older),
            _ => (None, &calls[..until]),
        };
        let is_awaited = newest.is_some_and(|call| {
            call.is_answered_by(handed.at) || handed.at.at >= call.sent.at + PATIENCE
        });
        if is_awaited || said.contains(&grant) {
            continue;
        }
        said.insert(grant);
        // The search ends at the first trouble, and is made once an acquisition.
        let is_smooth = (older.iter())
            .all(|(_, call)| call.was_answered_yes() && call.is_answered_by(handed.at));
        if is_smooth {
            let (instance, name) = (handed.delivery.instance, handed.name(index));
            let without = match newest {
                Some(_) => "an answer to the checkpoint",
                None => "having sent a checkpoint",
            };
            found.push(handed.at.found(format!(
                "{instance} hands over {name} without {without} of {}, which it had settled",
                before.name(index)
            )));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::check::Invariant::OneCallAnAcknowledgement;
    use crate::check::builder::{Tale, seq};
    use crate::history::Answer;

    fn held() -> Tale {
        let mut tale = Tale::with(1);
        tale.grant(0, 0, 1);
        (1..=3).for_each(|sequence| tale.store(0, sequence));
        tale
    }

    #[test]
    fn no_acknowledgement_goes_without_its_call() {
        let mut tale = held();
        (1..=3).for_each(|sequence| tale.settle(0, 0, 1, sequence));
        tale.checkpoint(0, 0, 1, seq(3));
        tale.breaks(
            OneCallAnAcknowledgement,
            "without having sent a checkpoint of r0 of shard 0 (1)",
        );
    }

    #[test]
    fn after_a_failure_the_newest_position_is_enough() {
        let mut tale = held();
        tale.settle(0, 0, 1, 1);
        let call = tale.send(0, Tale::position(0, 0, 1, seq(1)));
        tale.answered(call, Answer::Failed("out of reach".to_owned()));
        (2..=3).for_each(|sequence| tale.settle(0, 0, 1, sequence));
        tale.checkpoint(0, 0, 1, seq(3));
        tale.keeps(OneCallAnAcknowledgement);
    }

    #[test]
    fn the_next_record_waits_for_the_answer_while_one_may_come() {
        for (handed_at, waits) in [(1.0, false), (3.2, true)] {
            let mut tale = held();
            tale.settle(0, 0, 1, 1);
            tale.send(0, Tale::position(0, 0, 1, seq(1)));
            tale.at(handed_at).hand(0, 0, 1, 2);
            if waits {
                tale.keeps(OneCallAnAcknowledgement);
            } else {
                tale.breaks(
                    OneCallAnAcknowledgement,
                    "without an answer to the checkpoint of r0 of shard 0 (1)",
                );
            }
        }
    }
}
