//! **Order per key.** When a record is handed over, every earlier record of its partition key, in whichever shard,
//! is settled. Within one acquisition deliveries go up the shard, and a record that is to be tried again comes again
//! before the next; with a concurrency above one that holds of each key for itself.
//!
//! Allowed: records that a former holder had settled, and whose checkpoint was not written, are handed over again
//! from there on, in order. Not waited for: records that had passed out of retention, and those before the start
//! position (see [`owed`](super::owed)).
//!
//! A record that the stream never had is a fault of the simulation, and said here.

use std::collections::HashMap;

use crate::check::Found;
use crate::check::facts::Handed;
use crate::check::index::Index;

/// The records of one partition key of one stream.
#[derive(Debug, Default)]
struct Line {
    /// In their order.
    records: Vec<usize>,
    /// How many of the first are done.
    done: usize,
    /// The record that has been said to be overtaken.
    said: Option<usize>,
}

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    let (mut lines, place) = lines(index);
    let mut found = Vec::new();
    // By acquisition, and by key where keys are told apart.
    let mut before: HashMap<(usize, Option<&str>), usize> = HashMap::new();
    let tells_keys_apart = index.plan.reading.concurrency > 1;
    for (number, handed) in index.deliveries.iter().enumerate() {
        let what = || {
            format!(
                "{} hands over {}",
                handed.delivery.instance,
                handed.name(index)
            )
        };
        let Some(record) = handed.record else {
            found.push(
                handed
                    .at
                    .found(format!("{}, which was never stored", what())),
            );
            continue;
        };
        let (line, place) = place[record];
        let line = &mut lines[line];
        let is_done = |record: &&usize| index.fates[**record].is_done_before(handed.at);
        line.done += line.records[line.done..].iter().take_while(is_done).count();
        if place > line.done && line.said != Some(line.done) {
            line.said = Some(line.done);
            let overtaken = index.record_name(line.records[line.done]);
            let key = &handed.delivery.partition_key;
            found.push(handed.at.found(format!(
                "{}, although {overtaken} of the same key, {key:?}, is not settled",
                what()
            )));
        }
        let key = tells_keys_apart.then_some(handed.delivery.partition_key.as_str());
        let before = handed
            .grant
            .and_then(|grant| before.insert((grant, key), number));
        if let Some(before) = before.map(|before| &index.deliveries[before])
            && let Some(why) = out_of_turn(before, handed)
        {
            found.push(handed.at.found(format!(
                "{}, {why} {}, under one epoch",
                what(),
                before.name(index)
            )));
        }
    }
    found
}

/// Why a delivery cannot follow the one before it under the same acquisition.
fn out_of_turn(before: &Handed<'_>, handed: &Handed<'_>) -> Option<&'static str> {
    let (last, next) = (&before.delivery.sequence, &handed.delivery.sequence);
    let is_settled = before.settled().is_some_and(|settled| settled < handed.at);
    if next < last {
        Some("after the later")
    } else if next == last && is_settled {
        Some("again after having settled")
    } else if next > last && !is_settled {
        Some("without having settled")
    } else {
        None
    }
}

/// The records by their keys, and where among them each record is.
fn lines(index: &Index<'_>) -> (Vec<Line>, Vec<(usize, usize)>) {
    let records = &index.history.records;
    let mut in_order: Vec<_> = (0..records.len()).collect();
    in_order.sort_by_key(|record| &records[*record].sequence);
    let mut lines: Vec<Line> = Vec::new();
    let mut line_of = HashMap::new();
    let mut place = vec![(0, 0); records.len()];
    for record in in_order {
        let key = (records[record].key.stream(), &records[record].partition_key);
        let line = *line_of.entry(key).or_insert_with(|| {
            lines.push(Line::default());
            lines.len() - 1
        });
        place[record] = (line, lines[line].records.len());
        lines[line].records.push(record);
    }
    (lines, place)
}

#[cfg(test)]
mod tests {
    use rstream::HandlerOutcome;

    use crate::check::Invariant::OrderPerKey;
    use crate::check::builder::Tale;

    fn held() -> Tale {
        let mut tale = Tale::with(2);
        tale.grant(0, 0, 1);
        (1..=3).for_each(|sequence| tale.store(0, sequence));
        tale
    }

    #[test]
    fn records_in_their_order_are_in_order() {
        let mut tale = held();
        (1..=3).for_each(|sequence| tale.handle(0, 0, 1, sequence));
        tale.keeps(OrderPerKey);
    }

    #[test]
    fn after_a_crash_what_was_settled_and_not_written_comes_again_in_order() {
        let mut tale = held();
        (1..=3).for_each(|sequence| tale.settle(0, 0, 1, sequence));
        tale.kill(0);
        tale.at(12.0).grant(1, 0, 2);
        (1..=3).for_each(|sequence| tale.handle(1, 0, 2, sequence));
        tale.keeps(OrderPerKey);
    }

    #[test]
    fn a_record_does_not_overtake_another_of_its_key_and_that_is_said_once() {
        let mut tale = held();
        tale.settle(0, 0, 1, 2);
        tale.settle(0, 0, 1, 3);
        tale.breaks(
            OrderPerKey,
            "although r0 of shard 0 (1) of the same key, \"k\", is not settled",
        );
    }

    #[test]
    fn records_of_other_keys_may_overtake() {
        let mut tale = Tale::with(1);
        tale.grant(0, 0, 1);
        tale.store_of(0, 1, "other");
        tale.store(0, 2);
        tale.settle(0, 0, 1, 2);
        tale.keeps(OrderPerKey);
    }

    #[test]
    fn the_order_holds_across_shards() {
        let mut tale = held();
        (1..=2).for_each(|sequence| tale.handle(0, 0, 1, sequence));
        tale.shard(1, &[0]);
        tale.store(1, 10);
        tale.grant(1, 1, 1);
        tale.settle(1, 1, 1, 10);
        tale.breaks(OrderPerKey, "r2 of shard 0 (3) of the same key");
    }

    #[test]
    fn what_passed_out_of_retention_is_not_waited_for() {
        let mut tale = held();
        tale.trim(0, &[1, 2]);
        tale.settle(0, 0, 1, 3);
        tale.keeps(OrderPerKey);
    }

    #[test]
    fn a_record_that_is_to_be_tried_again_comes_before_the_next() {
        let mut tale = held();
        let first = tale.hand(0, 0, 1, 1);
        tale.say(first, HandlerOutcome::retry());
        tale.settle(0, 0, 1, 1);
        tale.keeps(OrderPerKey);

        let mut tale = Tale::with(1);
        tale.grant(0, 0, 1);
        tale.store_of(0, 1, "other");
        tale.store(0, 2);
        let first = tale.hand(0, 0, 1, 1);
        tale.say(first, HandlerOutcome::retry());
        tale.settle(0, 0, 1, 2);
        tale.breaks(
            OrderPerKey,
            "without having settled r0 of shard 0 (1), under one epoch",
        );
    }

    /// Records 1 and 3 of key `k` and record 2 of another, to be handed over two at a time.
    fn of_two_keys() -> Tale {
        let mut tale = Tale::with(1);
        tale.plan.reading.concurrency = 2;
        tale.grant(0, 0, 1);
        tale.store(0, 1);
        tale.store_of(0, 2, "other");
        tale.store(0, 3);
        tale
    }

    #[test]
    fn with_concurrency_each_key_has_an_order_of_its_own() {
        let mut tale = of_two_keys();
        let first = tale.hand(0, 0, 1, 1);
        tale.say(first, HandlerOutcome::retry());
        tale.settle(0, 0, 1, 2);
        tale.settle(0, 0, 1, 1);
        tale.settle(0, 0, 1, 3);
        tale.keeps(OrderPerKey);
    }

    #[test]
    fn with_concurrency_too_a_record_that_is_to_be_tried_again_comes_before_the_next_of_its_key() {
        let mut tale = of_two_keys();
        let first = tale.hand(0, 0, 1, 1);
        tale.say(first, HandlerOutcome::retry());
        tale.settle(0, 0, 1, 3);
        let broken = tale.broken(OrderPerKey);
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(broken[1].contains("without having settled r0 of shard 0 (1)"));

        let mut tale = of_two_keys();
        tale.settle(0, 0, 1, 1);
        tale.settle(0, 0, 1, 2);
        tale.settle(0, 0, 1, 1);
        tale.breaks(OrderPerKey, "again after having settled");
    }

    #[test]
    fn under_one_epoch_nothing_settled_comes_again() {
        let mut tale = held();
        tale.settle(0, 0, 1, 1);
        tale.settle(0, 0, 1, 1);
        tale.breaks(OrderPerKey, "again after having settled");

        let mut tale = held();
        (1..=2).for_each(|sequence| tale.settle(0, 0, 1, sequence));
        tale.settle(0, 0, 1, 1);
        tale.breaks(OrderPerKey, "after the later");
    }

    #[test]
    fn a_record_that_was_never_stored_is_said() {
        let mut tale = held();
        tale.settle(0, 0, 1, 9);
        tale.breaks(OrderPerKey, "which was never stored");
    }
}
