//! The settled prefix of an acquisition: what of the shard was settled under it without a gap, and since when.
//!
//! It begins at the first record that was handed over under the acquisition. What had passed out of retention before a
//! reader of one record at a time came to it is no gap; with more in hand it may be in one of them, and ends the
//! prefix.

use std::collections::HashMap;

use crate::check::facts::Moment;
use crate::check::index::Index;

/// A record of the prefix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) record: usize,
    /// When it and every record before it were settled.
    pub(super) since: Moment,
}

/// The settled prefix of an acquisition; nothing where a handler of an earlier one of the same reader still ran when it
/// was granted, whose record may be a gap too.
pub(super) fn of(index: &Index<'_>, grant: usize) -> Vec<Step> {
    let (shard, took) = (index.grant(grant).shard, index.grant(grant).took);
    let facts = &index.shards[shard];
    let mut settled: HashMap<usize, Option<Moment>> = HashMap::new();
    for handed in facts
        .deliveries
        .iter()
        .map(|delivery| &index.deliveries[*delivery])
    {
        if handed.delivery.instance == index.grant(grant).instance && handed.runs_at(took) {
            return Vec::new();
        }
        if let Some(record) = handed.record.filter(|_| handed.grant == Some(grant)) {
            let settled = settled.entry(record).or_default();
            *settled = settled.or(handed.settled());
        }
    }
    let mut steps: Vec<Step> = Vec::new();
    let first = facts
        .records
        .iter()
        .position(|record| settled.contains_key(record));
    for record in &facts.records[first.unwrap_or(facts.records.len())..] {
        match settled.get(record) {
            Some(Some(at)) => {
                let since = steps.last().map_or(*at, |last| last.since.max(*at));
                steps.push(Step {
                    record: *record,
                    since,
                });
            }
            None if index.plan.reading.concurrency == 1
                && index.fates[*record].trimmed.is_some() => {}
            _ => break,
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use rstream::HandlerOutcome;

    use super::*;
    use crate::check::builder::Tale;

    /// Records 1 to 4, each of a key of its own, under one acquisition.
    fn held() -> Tale {
        let mut tale = Tale::with(1);
        tale.plan.reading.concurrency = 4;
        (1..=4).for_each(|sequence| tale.store_of(0, sequence, &sequence.to_string()));
        tale.at(1.0).grant(0, 0, 1);
        tale
    }

    /// The records of the prefix, each with the second since which it is in it.
    fn prefix(tale: &Tale) -> Vec<(usize, u64)> {
        let index = Index::new(&tale.plan, &tale.history);
        let steps = of(&index, index.rows.grants.len() - 1).into_iter();
        steps
            .map(|step| (step.record, step.since.at.as_secs()))
            .collect()
    }

    #[test]
    fn what_settles_behind_a_gap_joins_when_the_gap_is_closed() {
        let mut tale = held();
        let oldest = tale.hand(0, 0, 1, 1);
        tale.at(2.0).settle(0, 0, 1, 2);
        assert_eq!(prefix(&tale), []);
        tale.at(3.0).say(oldest, HandlerOutcome::ack());
        tale.at(4.0).settle(0, 0, 1, 4);
        assert_eq!(prefix(&tale), [(0, 3), (1, 3)]);
    }

    #[test]
    fn it_begins_where_the_acquisition_does() {
        let mut tale = held();
        tale.settle(0, 0, 1, 1);
        tale.at(12.0).grant(0, 0, 2);
        tale.settle(0, 0, 2, 2);
        assert_eq!(prefix(&tale), [(1, 12)]);
    }

    #[test]
    fn nothing_is_known_where_a_record_of_the_same_reader_is_still_in_hand() {
        let mut tale = held();
        tale.hand(0, 0, 1, 1);
        tale.at(12.0).grant(0, 0, 2);
        tale.settle(0, 0, 2, 2);
        assert_eq!(prefix(&tale), []);
    }

    #[test]
    fn what_passed_out_of_retention_is_no_gap_to_a_reader_of_one_record_at_a_time() {
        for (concurrency, expected) in [(1, &[(0, 1), (2, 1)][..]), (2, &[(0, 1)])] {
            let mut tale = held();
            tale.plan.reading.concurrency = concurrency;
            tale.settle(0, 0, 1, 1);
            tale.trim(0, &[1, 2]);
            tale.settle(0, 0, 1, 3);
            assert_eq!(prefix(&tale), expected, "{concurrency}");
        }
    }
}
