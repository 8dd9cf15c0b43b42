//! **One call an acknowledgement.** Under one acquisition each checkpoint call is owed to something that happened:
//!
//! - a sequence number to the settling of that very record on the instance that sends it; the end of a shard and the
//!   moment of a tip to themselves, once each;
//! - a position is not sent again once it was answered with yes, and none is sent while an earlier call may still be
//!   answered, which the product waits 3 s for;
//! - and nothing is left out. Where handlers wait for each call, see [`left_out`]: each acknowledgement has its own.
//!   Where they do not, see [`paced`]: several may share one, soon or at the interval, and no sooner than that.
//!
//! Allowed: sending a position again after a failure, or after 3 s without an answer; after a failure, sending the
//! newest position alone; sending under a new acquisition what was settled under an earlier one of the same instance,
//! which a holder does whose row had vanished.

mod left_out;
mod paced;

use std::collections::{BTreeMap, HashMap};

use lease_core::Checkpoint;

use crate::check::facts::{Call, Moment};
use crate::check::index::Index;
use crate::check::{Found, PATIENCE};
use crate::history::{Ask, InstanceId, Sequence};

/// The checkpoint calls of a shard in the order of their sending, by acquisition.
type Sent<'i, 'h> = BTreeMap<usize, Vec<(&'h Checkpoint, &'i Call<'h>)>>;

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    (0..index.shards.len())
        .flat_map(|shard| check_shard(index, shard))
        .collect()
}

fn check_shard(index: &Index<'_>, shard: usize) -> Vec<Found> {
    let mut found = Vec::new();
    let settled = settled(index, shard);
    let mut last: HashMap<(usize, &Checkpoint), &Call<'_>> = HashMap::new();
    let mut sent = Sent::new();
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
        let calls = sent.entry(grant).or_default();
        let same = last.insert((grant, at), call);
        let before = calls.last().map(|(_, before)| *before);
        let why = (before.and_then(|before| too_soon(before, call)))
            .or_else(|| same.and_then(|before| surplus(before, call)));
        if let Some(why) = why {
            found.push(call.sent.found(format!("{what}, {why}")));
        }
        calls.push((at, call));
    }
    if index.plan.reading.awaits_each() {
        found.extend(left_out::check(index, shard, &sent));
    } else {
        found.extend(paced::check(index, shard, &sent));
    }
    found
}

/// Why a call should have waited for the answer to the one before.
fn too_soon(before: &Call<'_>, call: &Call<'_>) -> Option<String> {
    let sent = before.sent.at;
    (!before.is_answered_by(call.sent) && call.sent.at < sent + PATIENCE).then(|| {
        let sent = sent.as_secs_f64();
        format!("while the one sent at {sent:.3} s has no answer yet")
    })
}

/// Why a position need not be sent again.
fn surplus(before: &Call<'_>, again: &Call<'_>) -> Option<String> {
    let (answered, _) = before.answered?;
    (answered < again.sent && before.was_answered_yes()).then(|| {
        let sent = before.sent.at.as_secs_f64();
        format!("which was accepted when it was sent at {sent:.3} s")
    })
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
        tale.breaks(
            OneCallAnAcknowledgement,
            "while the one sent at 0.000 s has no answer yet",
        );
    }

    #[test]
    fn two_calls_are_not_under_way_together() {
        let mut tale = held();
        tale.plan.reading.concurrency = 2;
        tale.settle(0, 0, 1, 1);
        tale.send(0, Tale::position(0, 0, 1, seq(1)));
        tale.settle(0, 0, 1, 2);
        tale.at(1.0).checkpoint(0, 0, 1, seq(2));
        tale.breaks(
            OneCallAnAcknowledgement,
            "while the one sent at 0.000 s has no answer yet",
        );
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
}
