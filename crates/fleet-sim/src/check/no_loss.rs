//! **No loss.** When everybody is told to stop at the end, every record that was ever stored has been settled.
//!
//! Not asked for:
//!
//! - records that passed out of retention before they were settled, and those before the start position (see
//!   [`owed`](super::owed));
//! - anything, where nobody was there from the healing to the end: there is no promise without a reader;
//! - what a fleet that is still catching up has not come to: records behind the last one that was handed over of a
//!   shard that was at work to the end, and shards that wait for such a one. With a concurrency above one, also
//!   records behind the last one that was handed over of a key that was at work to the end. A shard that was not at
//!   work, and a record that was passed over, are losses.

use std::collections::HashMap;
use std::time::Duration;

use crate::check::Found;
use crate::check::facts::{Handed, Rest};
use crate::check::index::Index;
use crate::history::{Delivery, Record, Sequence};

/// What may lie between a handler's end and the next delivery: a back-off, a retry's pause, a take-over.
const BREATH: Duration = Duration::from_secs(30);

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    let Some(rest) = index.rest.as_ref().filter(|rest| !rest.alive.is_empty()) else {
        return Vec::new();
    };
    let at_work: Vec<_> = (0..index.shards.len())
        .map(|shard| is_at_work(index, rest, shard))
        .collect();
    let mut found = Vec::new();
    for (shard, facts) in index.shards.iter().enumerate() {
        let is_catching_up = at_work[shard]
            || index
                .ancestors(shard)
                .into_iter()
                .any(|ancestor| at_work[ancestor]);
        let handed = facts
            .deliveries
            .iter()
            .map(|delivery| &index.deliveries[*delivery].delivery.sequence);
        let last = handed.max();
        let parked_behind = parked_behind(index, rest, shard);
        let is_to_come = |record: &Record| {
            let is_parked = (parked_behind.get(record.partition_key.as_str()))
                .is_some_and(|last| record.sequence >= **last);
            is_catching_up && (last.is_none_or(|last| record.sequence >= *last) || is_parked)
        };
        let mut lost = facts.records.iter().filter(|record| {
            let fate = &index.fates[**record];
            fate.is_owed && fate.done().is_none() && !is_to_come(&index.history.records[**record])
        });
        if let Some(first) = lost.next() {
            let stored = index.history.records[*first].at.as_secs_f64();
            let first = index.record_name(*first);
            let text = format!(
                "{first}, stored at {stored:.3} s, is never settled, nor are {} after it",
                lost.count()
            );
            found.push(rest.to.found(text));
        }
    }
    found
}

/// Whether somebody was handling a shard when everybody was told to stop.
fn is_at_work(index: &Index<'_>, rest: &Rest, shard: usize) -> bool {
    at_work(index, rest, shard).next().is_some()
}

/// Of the keys that somebody was handling when everybody was told to stop, the last record of each that was handed
/// over. Where there is no concurrency nothing of a shard waits behind a record but all of it.
fn parked_behind<'i>(
    index: &'i Index<'_>,
    rest: &Rest,
    shard: usize,
) -> HashMap<&'i str, &'i Sequence> {
    let mut last: HashMap<&str, &Sequence> = HashMap::new();
    if index.plan.reading.concurrency > 1 {
        for handed in at_work(index, rest, shard) {
            let Delivery {
                partition_key,
                sequence,
                ..
            } = handed.delivery;
            let last = last.entry(partition_key).or_insert(sequence);
            *last = sequence.max(*last);
        }
    }
    last
}

/// The deliveries of a shard that somebody was at work on, or had just been, when everybody was told to stop.
fn at_work<'i>(
    index: &'i Index<'_>,
    rest: &Rest,
    shard: usize,
) -> impl Iterator<Item = &'i Handed<'i>> {
    let handlers = &index.plan.handlers;
    let patience = handlers.usual.max(handlers.slow) + BREATH;
    let deliveries = index.shards[shard]
        .deliveries
        .iter()
        .map(|delivery| &index.deliveries[*delivery]);
    deliveries.rev().filter(move |handed| {
        let ended = handed.said.map_or(rest.to.at, |(said, _)| said.at);
        rest.alive.contains(&handed.delivery.instance) && ended + patience >= rest.to.at
    })
}

#[cfg(test)]
mod tests {
    use crate::check::Invariant::NoLoss;
    use crate::check::builder::{Tale, end, moment, seq};
    use crate::history::{Answer, Event};

    /// A shard with three records, of which the first was handled, long before the end.
    fn begun() -> Tale {
        let mut tale = Tale::with(1);
        tale.grant(0, 0, 1);
        (1..=3).for_each(|sequence| tale.store(0, sequence));
        tale.handle(0, 0, 1, 1);
        tale
    }

    fn rest(tale: &mut Tale) {
        tale.at(60.0).note(Event::Healed);
        tale.at(160.0).stop(0);
    }

    #[test]
    fn what_everybody_has_settled_is_not_lost() {
        let mut tale = begun();
        (2..=3).for_each(|sequence| tale.handle(0, 0, 1, sequence));
        rest(&mut tale);
        tale.keeps(NoLoss);
    }

    #[test]
    fn what_nobody_comes_to_is_lost_and_said_once_a_shard() {
        let mut tale = begun();
        rest(&mut tale);
        tale.breaks(
            NoLoss,
            "r1 of shard 0 (2), stored at 0.000 s, is never settled, nor are 1 after it",
        );
    }

    #[test]
    fn what_was_passed_over_is_lost_also_of_a_shard_at_work() {
        let mut tale = begun();
        tale.at(60.0).note(Event::Healed);
        tale.at(150.0).handle(0, 0, 1, 3);
        tale.at(160.0).stop(0);
        tale.breaks(NoLoss, "r1 of shard 0 (2)");
    }

    #[test]
    fn a_fleet_that_is_catching_up_has_lost_nothing_yet_nor_have_the_shards_that_wait_for_it() {
        let mut tale = begun();
        tale.shard(1, &[0]);
        tale.store(1, 10);
        tale.at(60.0).note(Event::Healed);
        tale.at(150.0).handle(0, 0, 1, 2);
        tale.at(160.0).stop(0);
        tale.keeps(NoLoss);

        let mut tale = begun();
        tale.at(60.0).note(Event::Healed);
        tale.hand(0, 0, 1, 2);
        tale.at(160.0).stop(0);
        tale.keeps(NoLoss);
    }

    #[test]
    fn with_concurrency_what_waits_for_its_key_is_not_lost_while_that_is_at_work() {
        for (concurrency, key, is_lost) in
            [(2, "slow", false), (2, "idle", true), (1, "slow", true)]
        {
            let mut tale = Tale::with(1);
            tale.plan.reading.concurrency = concurrency;
            tale.grant(0, 0, 1);
            tale.store_of(0, 1, "slow");
            tale.store_of(0, 2, key);
            tale.store_of(0, 3, "quick");
            tale.at(60.0).note(Event::Healed);
            tale.hand(0, 0, 1, 1);
            tale.at(150.0).settle(0, 0, 1, 3);
            tale.at(160.0).stop(0);
            assert_eq!(
                !tale.broken(NoLoss).is_empty(),
                is_lost,
                "{concurrency} {key}"
            );
        }
    }

    #[test]
    fn without_a_reader_to_the_end_there_is_no_promise() {
        let mut tale = begun();
        tale.kill(0);
        rest(&mut tale);
        tale.keeps(NoLoss);
    }

    #[test]
    fn what_passed_out_of_retention_is_not_lost_by_anybody_here() {
        let mut tale = begun();
        tale.trim(0, &[1, 2, 3]);
        rest(&mut tale);
        tale.keeps(NoLoss);
    }

    /// A run from the tip: a record at one second, the tip at two, and another record at three, unread.
    fn from_the_tip() -> Tale {
        let mut tale = Tale::at_the_tip();
        tale.shard(0, &[]);
        tale.join(0);
        tale.at(1.0).store(0, 1);
        tale.at(2.0).grant(0, 0, 1);
        tale.checkpoint(0, 0, 1, moment(2));
        tale.at(3.0).store(0, 2);
        tale
    }

    #[test]
    fn from_the_tip_on_everything_counts_and_nothing_before_it() {
        let mut tale = from_the_tip();
        tale.handle(0, 0, 1, 2);
        rest(&mut tale);
        tale.keeps(NoLoss);

        let mut tale = from_the_tip();
        rest(&mut tale);
        tale.breaks(NoLoss, "r1 of shard 0 (2)");
    }

    #[test]
    fn a_tip_that_the_store_never_had_promises_nothing() {
        let mut tale = Tale::at_the_tip();
        tale.shard(0, &[]);
        tale.join(0);
        tale.grant(0, 0, 1);
        let call = tale.send(0, Tale::position(0, 0, 1, moment(0)));
        tale.answered(call, Answer::Failed("out of reach".to_owned()));
        tale.at(3.0).store(0, 1);
        tale.at(12.0).grant(0, 0, 2);
        tale.checkpoint(0, 0, 2, moment(12));
        rest(&mut tale);
        tale.keeps(NoLoss);
    }

    #[test]
    fn a_tip_counts_from_its_first_sending_though_it_was_accepted_later() {
        let mut tale = Tale::at_the_tip();
        tale.shard(0, &[]);
        tale.join(0);
        tale.grant(0, 0, 1);
        let call = tale.send(0, Tale::position(0, 0, 1, moment(0)));
        tale.at(3.0)
            .answered(call, Answer::Failed("out of reach".to_owned()));
        tale.store(0, 1);
        tale.at(4.0).checkpoint(0, 0, 1, moment(0));
        rest(&mut tale);
        tale.breaks(NoLoss, "r0 of shard 0 (1)");
    }

    #[test]
    fn a_tip_that_was_not_checkpointed_first_is_no_tip() {
        let mut tale = Tale::at_the_tip();
        tale.shard(0, &[]);
        tale.join(0);
        tale.store(0, 1);
        tale.at(2.0).grant(0, 0, 1);
        tale.at(3.0).store(0, 2);
        tale.handle(0, 0, 1, 2);
        rest(&mut tale);
        tale.breaks(NoLoss, "r0 of shard 0 (1)");
    }

    #[test]
    fn a_child_of_a_shard_that_was_read_is_owed_from_its_beginning() {
        let mut tale = from_the_tip();
        tale.handle(0, 0, 1, 2);
        tale.at(4.0).shard(1, &[0]);
        tale.store(1, 10);
        tale.checkpoint(0, 0, 1, end());
        tale.release(0, 0, 1);
        let mut unread = from_the_tip();
        unread.handle(0, 0, 1, 2);
        unread.at(4.0).shard(1, &[0]);
        unread.store(1, 10);
        for tale in [&mut tale, &mut unread] {
            rest(tale);
            tale.breaks(NoLoss, "r2 of shard 1 (10)");
        }
    }

    #[test]
    fn a_grandchild_is_owed_unless_its_parent_passed_out_of_retention_with_nobodys_lease() {
        for is_lost in [false, true] {
            let mut tale = from_the_tip();
            tale.handle(0, 0, 1, 2);
            tale.at(4.0).shard(1, &[0]);
            tale.at(5.0).shard(2, &[1]);
            tale.store(2, 20);
            if is_lost {
                tale.trim(1, &[]);
            }
            rest(&mut tale);
            if is_lost {
                tale.keeps(NoLoss);
            } else {
                tale.breaks(NoLoss, "r2 of shard 2 (20)");
            }
        }
    }

    #[test]
    fn a_child_opened_at_a_tip_although_its_parent_was_read_has_lost_its_beginning() {
        let mut tale = from_the_tip();
        tale.handle(0, 0, 1, 2);
        tale.at(4.0).shard(1, &[0]);
        tale.store(1, 10);
        tale.at(5.0).grant(0, 1, 1);
        tale.checkpoint(0, 1, 1, moment(5));
        rest(&mut tale);
        tale.breaks(NoLoss, "r2 of shard 1 (10)");
    }

    #[test]
    fn a_child_keeps_its_tip_where_its_parent_was_first_leased_after_it() {
        let mut tale = Tale::at_the_tip();
        tale.shard(0, &[]);
        tale.join(0);
        tale.store(0, 1);
        tale.at(1.0).shard(1, &[0]);
        tale.store(1, 10);
        tale.at(2.0).grant(0, 1, 1);
        tale.checkpoint(0, 1, 1, moment(2));
        tale.at(3.0).grant(0, 0, 1);
        tale.checkpoint(0, 0, 1, moment(3));
        tale.checkpoint(0, 0, 1, end());
        tale.at(4.0).store(1, 11);
        tale.handle(0, 1, 1, 11);
        rest(&mut tale);
        tale.keeps(NoLoss);
    }

    #[test]
    fn a_shard_that_nobody_ever_opened_at_the_tip_is_passed_over_but_not_its_childs_records() {
        let mut tale = Tale::at_the_tip();
        tale.shard(0, &[]);
        tale.join(0);
        tale.store(0, 1);
        tale.at(1.0).shard(1, &[0]);
        rest(&mut tale);
        tale.keeps(NoLoss);

        let mut tale = Tale::at_the_tip();
        tale.shard(0, &[]);
        tale.join(0);
        tale.at(1.0).shard(1, &[0]);
        tale.store(1, 10);
        tale.grant(0, 1, 1);
        tale.checkpoint(0, 1, 1, seq(10));
        rest(&mut tale);
        tale.breaks(NoLoss, "r0 of shard 1 (10)");
    }
}
