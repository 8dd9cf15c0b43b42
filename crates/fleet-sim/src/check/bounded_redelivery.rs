//! **Bounded redelivery.** A crash redelivers what was in hand, and little besides. Of the records that were settled
//! under an acquisition which the next one ended (its holder was killed, or slept past its lease), there are handed
//! over again:
//!
//! - one at most, where each acknowledgement is in the store before the next record is handed over; unless the store
//!   failed or kept silent for 3 s, after which reading goes on;
//! - in any case none that had been in the [settled prefix](super::prefix) for longer than the interval between
//!   checkpoints, if there is one, and a call. Asked for where the holder was killed in calm: nothing was wrong for 15 s
//!   before all that.
//!
//! Allowed: with a concurrency above one, everything that was settled behind the oldest record that was not.

use std::collections::HashSet;
use std::time::Duration;

use crate::check::calm::Troubles;
use crate::check::facts::{Call, Handed, Moment};
use crate::check::index::Index;
use crate::check::rows::Ended;
use crate::check::{Found, PATIENCE, ROUNDING, prefix};
use crate::history::Ask;

/// What goes wrong before can still keep checkpoints back.
const BEFORE: Duration = Duration::from_secs(15);
/// The longest that a call under way and the next one take when nothing is wrong.
const CALLS: Duration = Duration::from_millis(200);

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    let troubles = Troubles::of(index);
    let mut found = Vec::new();
    for (grant, facts) in index.rows.grants.iter().enumerate() {
        let Some((ended, Ended::Taken)) = facts.ended else {
            continue;
        };
        let again = handed_again(index, grant, ended);
        let Some(first) = again.first() else { continue };
        let (instance, epoch) = (facts.instance, facts.holder.epoch);
        let settled = format!("had been settled by {instance} under epoch {epoch}");
        if index.plan.reading.awaits_each() && again.len() > 1 && !is_excused(index, grant) {
            found.push(first.at.found(format!(
                "{} is handed over again, the first of {} that {settled}, each of them to be written before the next",
                first.name(index),
                again.len()
            )));
        }
        if let Some(handed) = written_too_late(index, &troubles, grant, &again) {
            found.push(handed.at.found(format!(
                "{} is handed over again, which {settled} long enough before that was killed",
                handed.name(index)
            )));
        }
    }
    found
}

/// The first of the deliveries, later than the acquisition, of each record that was settled under it while it lasted.
fn handed_again<'i>(index: &'i Index<'_>, grant: usize, ended: Moment) -> Vec<&'i Handed<'i>> {
    let shard = &index.shards[index.grant(grant).shard];
    let deliveries = (shard.deliveries.iter()).map(|delivery| &index.deliveries[*delivery]);
    let settled: HashSet<_> = deliveries
        .clone()
        .filter(|handed| handed.grant == Some(grant))
        .filter(|handed| handed.settled().is_some_and(|settled| settled < ended))
        .filter_map(|handed| handed.record)
        .collect();
    let mut seen = HashSet::new();
    deliveries
        .filter(|handed| handed.grant > Some(grant))
        .filter(|handed| {
            let record = handed.record.filter(|record| settled.contains(record));
            record.is_some_and(|record| seen.insert(record))
        })
        .collect()
}

/// Whether a record was handed over although a checkpoint before it was not written, since it had failed or had no
/// answer for so long that reading went on.
fn is_excused(index: &Index<'_>, grant: usize) -> bool {
    let facts = &index.shards[index.grant(grant).shard];
    let handed = || {
        let deliveries = facts
            .deliveries
            .iter()
            .map(|delivery| &index.deliveries[*delivery]);
        deliveries.filter(|handed| handed.grant == Some(grant))
    };
    let mut unwritten = (facts.calls.iter())
        .map(|call| &index.calls[*call])
        .filter(|call| is_checkpoint_of(index, call, grant) && !call.was_answered_yes());
    unwritten.any(|call| {
        let gave_up = match call.answered {
            Some((answered, _)) => answered.at.min(call.sent.at + PATIENCE),
            None => call.sent.at + PATIENCE,
        };
        handed().any(|handed| handed.at.at + ROUNDING >= gave_up)
    })
}

fn is_checkpoint_of(index: &Index<'_>, call: &Call<'_>, grant: usize) -> bool {
    let Ask::Checkpoint { holder, .. } = call.ask else {
        return false;
    };
    call.shard
        .is_some_and(|shard| index.rows.grant_of(shard, holder.epoch, call.sent) == Some(grant))
}

/// The first of these that had been in the settled prefix for long enough when its holder was killed.
fn written_too_late<'i>(
    index: &Index<'_>,
    troubles: &Troubles,
    grant: usize,
    again: &[&'i Handed<'i>],
) -> Option<&'i Handed<'i>> {
    let killed = index.lives.get(&index.grant(grant).instance)?.killed?;
    let limit = index.plan.reading.interval.unwrap_or_default() + CALLS;
    let calm_from = killed.at.saturating_sub(limit + BEFORE);
    if !index.grant(grant).is_present(killed)
        || !troubles.is_calm(calm_from, killed.at, killed.place)
    {
        return None;
    }
    let steps = prefix::of(index, grant).into_iter();
    let old: HashSet<_> = steps
        .filter(|step| step.since.at + limit <= killed.at)
        .map(|step| step.record)
        .collect();
    let mut again = again.iter().copied();
    again.find(|handed| handed.record.is_some_and(|record| old.contains(&record)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstream::HandlerOutcome;

    use crate::check::Invariant::BoundedRedelivery;
    use crate::check::builder::{Tale, seq};
    use crate::history::Answer;

    /// Instance 0 reads shard 0, which has three records of keys of their own; instance 1 is there too.
    fn held() -> Tale {
        let mut tale = Tale::with(2);
        (1..=3).for_each(|sequence| tale.store_of(0, sequence, &sequence.to_string()));
        tale.at(30.0).grant(0, 0, 1);
        tale
    }

    /// Instance 0 is killed then, and instance 1 is handed these.
    fn killed_at(tale: &mut Tale, at: f64, again: &[u64]) {
        tale.at(at).kill(0);
        tale.at(at + 12.0).grant(1, 0, 2);
        for sequence in again {
            tale.handle(1, 0, 2, *sequence);
        }
    }

    #[test]
    fn the_last_acknowledgement_may_be_unwritten() {
        let mut tale = held();
        tale.handle(0, 0, 1, 1);
        tale.settle(0, 0, 1, 2);
        killed_at(&mut tale, 30.1, &[2, 3]);
        tale.keeps(BoundedRedelivery);
    }

    #[test]
    fn two_acknowledgements_are_not_unwritten_unless_the_store_failed() {
        let mut tale = held();
        (1..=2).for_each(|sequence| tale.settle(0, 0, 1, sequence));
        killed_at(&mut tale, 30.1, &[1, 2, 3]);
        tale.breaks(
            BoundedRedelivery,
            "r0 of shard 0 (1) is handed over again, the first of 2 that had been settled by i0 under epoch 1",
        );

        for (answered, handed_at, is_excused) in [
            (true, 30.1, true),
            (false, 30.1, false),
            (false, 33.0, true),
        ] {
            let mut tale = held();
            tale.settle(0, 0, 1, 1);
            let call = tale.send(0, Tale::position(0, 0, 1, seq(1)));
            if answered {
                tale.answered(call, Answer::Failed("out of reach".to_owned()));
            }
            tale.at(handed_at).settle(0, 0, 1, 2);
            killed_at(&mut tale, handed_at + 0.1, &[1, 2, 3]);
            let broken = tale.broken(BoundedRedelivery);
            let is_said = broken.iter().any(|text| text.contains("the first of 2"));
            assert_eq!(!is_said, is_excused, "{answered} {handed_at}: {broken:?}");
        }
    }

    #[test]
    fn what_a_handler_settled_once_its_lease_was_lost_counts_for_nothing() {
        let mut tale = held();
        tale.settle(0, 0, 1, 1);
        let slow = tale.hand(0, 0, 1, 2);
        tale.at(42.0).grant(1, 0, 2);
        tale.say(slow, HandlerOutcome::ack());
        (1..=2).for_each(|sequence| tale.settle(1, 0, 2, sequence));
        tale.keeps(BoundedRedelivery);
    }

    #[test]
    fn in_calm_what_was_settled_is_soon_written() {
        for (killed, is_late) in [(31.0, true), (30.1, false)] {
            let mut tale = held();
            tale.settle(0, 0, 1, 1);
            killed_at(&mut tale, killed, &[1]);
            assert_eq!(
                !tale.broken(BoundedRedelivery).is_empty(),
                is_late,
                "{killed}"
            );
        }
        let mut tale = held();
        tale.at(30.5).pause(1);
        tale.wake(1);
        tale.settle(0, 0, 1, 1);
        killed_at(&mut tale, 35.0, &[1]);
        tale.keeps(BoundedRedelivery);
    }

    #[test]
    fn with_an_interval_that_comes_on_top() {
        for (killed, is_late) in [(36.0, true), (34.0, false)] {
            let mut tale = held();
            tale.plan.reading.interval = Some(Duration::from_secs(5));
            (1..=2).for_each(|sequence| tale.settle(0, 0, 1, sequence));
            tale.renew(0, 0, 1);
            killed_at(&mut tale, killed, &[1, 2]);
            assert_eq!(
                !tale.broken(BoundedRedelivery).is_empty(),
                is_late,
                "{killed}"
            );
        }
    }

    #[test]
    fn with_concurrency_whatever_was_settled_behind_a_gap_may_come_again() {
        let mut tale = held();
        tale.plan.reading.concurrency = 4;
        tale.hand(0, 0, 1, 1);
        (2..=3).for_each(|sequence| tale.settle(0, 0, 1, sequence));
        killed_at(&mut tale, 35.0, &[1, 2, 3]);
        tale.keeps(BoundedRedelivery);
    }
}
