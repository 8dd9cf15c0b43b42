//! **One call an acknowledgement.** Under one acquisition each checkpoint call is owed to something that happened:
//!
//! - a sequence number to the settling of that very record on the instance that sends it; the end of a shard and the
//!   moment of a tip to themselves, once each;
//! - a position is not sent again once it was answered with yes, nor while an earlier call with it may still be
//!   answered, which the product waits 3 s for;
//! - and nothing is left out: where every call so far was answered with yes, the next record is not handed over
//!   before the last one's settling was sent.
//!
//! Allowed: sending a position again after a failure, or after 3 s without an answer; after a failure, sending the
//! newest position alone; sending under a new acquisition what was settled under an earlier one of the same instance,
//! which a holder does whose row had vanished.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lease_core::Checkpoint;

use crate::check::Found;
use crate::check::facts::{Call, Handed, Moment};
use crate::check::index::Index;
use crate::history::{Ask, InstanceId, Sequence};

/// How long the product waits for an answer, on a clock within the documented bound.
const PATIENCE: Duration = Duration::from_millis(2_990);

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    (0..index.shards.len())
        .flat_map(|shard| check_shard(index, shard))
        .collect()
}

fn check_shard(index: &Index<'_>, shard: usize) -> Vec<Found> {
    let mut found = Vec::new();
    let settled = settled(index, shard);
    let mut last: HashMap<(usize, &Checkpoint), &Call<'_>> = HashMap::new();
    // By acquisition: when each position was sent.
    let mut sent: HashMap<usize, Vec<&Call<'_>>> = HashMap::new();
    for call in index.shards[shard]
        .calls
        .iter()
        .map(|call| &index.calls[*call])
    {
        let Ask::Checkpoint { holder, at, .. } = call.ask else {
            continue;
        };
        let Some(grant) = index.rows.grant_of(shard, holder.epoch, call.sent) else {
            continue;
        };
        sent.entry(grant).or_default().push(call);
        let what = format!(
            "{} sends checkpoint {at} of {} under epoch {}",
            call.instance,
            index.name(shard),
            holder.epoch
        );
        if let Some(sequence) = at.sequence() {
            let record = (call.instance, Sequence(sequence.to_owned()));
            if settled
                .get(&record)
                .is_none_or(|settled| *settled > call.sent)
            {
                found.push(call.sent.found(format!("{what}, which it has not settled")));
            }
        }
        if let Some(before) = last.insert((grant, at), call)
            && let Some(why) = surplus(before, call)
        {
            found.push(call.sent.found(format!(
                "{what}, {why} at {:.3} s",
                before.sent.at.as_secs_f64()
            )));
        }
    }
    found.extend(left_out(index, shard, &sent));
    found
}

/// Why a position need not be sent again.
fn surplus(before: &Call<'_>, again: &Call<'_>) -> Option<&'static str> {
    let is_answered = before
        .answered
        .is_some_and(|(answered, _)| answered < again.sent);
    if is_answered && before.was_answered_yes() {
        Some("which was accepted when it was sent")
    } else if !is_answered && again.sent.at < before.sent.at + PATIENCE {
        Some("which has no answer yet to its sending")
    } else {
        None
    }
}

/// When each instance first settled each record of a shard.
fn settled(index: &Index<'_>, shard: usize) -> HashMap<(InstanceId, Sequence), Moment> {
    let mut settled = HashMap::new();
    for handed in index.shards[shard]
        .deliveries
        .iter()
        .map(|delivery| &index.deliveries[*delivery])
    {
        if let Some(moment) = handed.settled() {
            let record = (handed.delivery.instance, handed.delivery.sequence.clone());
            settled.entry(record).or_insert(moment);
        }
    }
    settled
}

/// The acknowledgements that were followed by the next record without a call.
fn left_out(index: &Index<'_>, shard: usize, sent: &HashMap<usize, Vec<&Call<'_>>>) -> Vec<Found> {
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
        let until = calls.partition_point(|call| call.sent < handed.at);
        let calls = &calls[..until];
        let is_sent = calls.last().is_some_and(|call| call.sent > settled);
        if is_sent || !said.insert(grant) {
            continue;
        }
        // The search ends at the first trouble, and is made once an acquisition.
        let is_smooth = calls.iter().all(|call| {
            call.was_answered_yes()
                && call
                    .answered
                    .is_some_and(|(answered, _)| answered < handed.at)
        });
        if is_smooth {
            let (instance, name) = (handed.delivery.instance, handed.name(index));
            found.push(handed.at.found(format!(
                "{instance} hands over {name} without having sent a checkpoint of {}, which it had settled",
                before.name(index)
            )));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use rstream::HandlerOutcome;

    use crate::check::Invariant::OneCallAnAcknowledgement;
    use crate::check::builder::{Tale, end, moment, seq};
    use crate::history::Answer;

    fn held() -> Tale {
        let mut tale = Tale::with(1);
        tale.grant(0, 0, 1);
        (1..=3).for_each(|sequence| tale.store(0, sequence));
        tale
    }

    fn failed() -> Answer {
        Answer::Failed("out of reach".to_owned())
    }

    #[test]
    fn one_call_for_the_tip_one_for_each_acknowledgement_and_one_for_the_end() {
        let mut tale = held();
        tale.checkpoint(0, 0, 1, moment(0));
        let first = tale.hand(0, 0, 1, 1);
        tale.say(first, HandlerOutcome::retry());
        (1..=3).for_each(|sequence| tale.handle(0, 0, 1, sequence));
        tale.checkpoint(0, 0, 1, end());
        tale.keeps(OneCallAnAcknowledgement);
    }

    #[test]
    fn what_was_accepted_is_not_sent_again() {
        for position in [moment(0), seq(1), end()] {
            let mut tale = held();
            tale.settle(0, 0, 1, 1);
            tale.checkpoint(0, 0, 1, position.clone());
            tale.at(5.0).checkpoint(0, 0, 1, position.clone());
            tale.breaks(
                OneCallAnAcknowledgement,
                "which was accepted when it was sent at 0.000 s",
            );
        }
    }

    #[test]
    fn what_failed_is_sent_again_at_once_and_what_hangs_after_its_time() {
        let mut tale = held();
        tale.settle(0, 0, 1, 1);
        let call = tale.send(0, Tale::position(0, 0, 1, seq(1)));
        tale.answered(call, failed());
        tale.at(0.1).send(0, Tale::position(0, 0, 1, seq(1)));
        tale.at(3.2).checkpoint(0, 0, 1, seq(1));
        tale.keeps(OneCallAnAcknowledgement);

        let mut tale = held();
        tale.settle(0, 0, 1, 1);
        tale.send(0, Tale::position(0, 0, 1, seq(1)));
        tale.at(1.0).checkpoint(0, 0, 1, seq(1));
        tale.breaks(OneCallAnAcknowledgement, "which has no answer yet");
    }

    #[test]
    fn a_position_that_was_not_settled_here_is_not_sent() {
        let mut tale = held();
        tale.checkpoint(0, 0, 1, seq(1));
        tale.breaks(OneCallAnAcknowledgement, "which it has not settled");

        let mut tale = held();
        let first = tale.hand(0, 0, 1, 1);
        tale.checkpoint(0, 0, 1, seq(1));
        tale.say(first, HandlerOutcome::ack());
        tale.breaks(OneCallAnAcknowledgement, "which it has not settled");
    }

    #[test]
    fn what_was_settled_under_an_earlier_epoch_may_be_sent_under_the_next() {
        let mut tale = held();
        tale.handle(0, 0, 1, 1);
        tale.at(12.0).grant(0, 0, 2);
        tale.checkpoint(0, 0, 2, seq(1));
        tale.keeps(OneCallAnAcknowledgement);
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
        tale.answered(call, failed());
        (2..=3).for_each(|sequence| tale.settle(0, 0, 1, sequence));
        tale.checkpoint(0, 0, 1, seq(3));
        tale.keeps(OneCallAnAcknowledgement);
    }
}
