//! **Bounded reading ahead.** An instance reads a shard on only while it holds fewer of its records that it has not
//! handed over than the plan says, or none; a read brings as many as there are.
//!
//! Allowed with a concurrency above one: as many more as may be in handlers. They have left what was read ahead, and
//! wait for the lease.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use crate::check::Found;
use crate::check::facts::{Fetch, Handed};
use crate::check::index::Index;
use crate::history::InstanceId;

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    let Some(prefetch) = index.plan.reading.prefetch else {
        return Vec::new();
    };
    let in_lanes = match index.plan.reading.concurrency {
        1 => 0,
        more => more,
    };
    let most = prefetch.saturating_sub(1) + in_lanes;
    let mut found = Vec::new();
    for (shard, facts) in index.shards.iter().enumerate() {
        let mut by_instance: BTreeMap<InstanceId, Vec<&Fetch>> = BTreeMap::new();
        for fetch in &facts.fetches {
            by_instance.entry(fetch.instance).or_default().push(fetch);
        }
        for (instance, fetches) in by_instance {
            let deliveries = (facts.deliveries.iter()).map(|delivery| &index.deliveries[*delivery]);
            let handed = deliveries.filter(|handed| handed.delivery.instance == instance);
            let grants = index.rows.of_shard[shard]
                .iter()
                .map(|grant| index.grant(*grant));
            let granted = grants
                .filter(|grant| grant.instance == instance)
                .map(|grant| grant.took.at);
            let too_soon = too_soon(&fetches, handed.collect(), granted.collect(), most);
            found.extend(too_soon.map(|(fetch, held)| {
                fetch.at.found(format!(
                    "{instance} reads {} on at {:.3} s, holding {held} records that it has not handed over, and {prefetch} are to be read ahead",
                    index.name(shard),
                    fetch.sent.as_secs_f64()
                ))
            }));
        }
    }
    found
}

/// The first read of a reader that was sent while more than so many records were held, and how many were.
fn too_soon<'f>(
    fetches: &[&'f Fetch],
    handed: Vec<&Handed<'_>>,
    granted: Vec<Duration>,
    most: usize,
) -> Option<(&'f Fetch, usize)> {
    let mut held: HashSet<usize> = HashSet::new();
    let (mut handed, mut granted) = (
        handed.into_iter().peekable(),
        granted.into_iter().peekable(),
    );
    for fetch in fetches {
        // A reader begins with nothing.
        while granted.next_if(|granted| *granted <= fetch.sent).is_some() {
            held.clear();
        }
        while let Some(handed) = handed.next_if(|handed| handed.at.at <= fetch.sent) {
            if let Some(record) = handed.record {
                held.remove(&record);
            }
        }
        if held.len() > most {
            return Some((fetch, held.len()));
        }
        held.extend(&fetch.records);
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::check::Invariant::BoundedReadAhead;
    use crate::check::builder::Tale;

    /// Instance 0 reads shard 0, of which so many records may be read ahead.
    fn reading(prefetch: usize) -> Tale {
        let mut tale = Tale::with(1);
        tale.plan.reading.prefetch = Some(prefetch);
        (1..=9).for_each(|sequence| tale.store(0, sequence));
        tale.at(1.0).grant(0, 0, 1);
        tale
    }

    #[test]
    fn a_shard_is_read_on_while_fewer_are_held_than_may_be() {
        let mut tale = reading(3);
        tale.at(1.1).fetch(0, 1.0, &[1, 2]);
        tale.at(1.3).fetch(0, 1.2, &[3, 4, 5]);
        tale.at(1.4).settle(0, 0, 1, 1);
        tale.settle(0, 0, 1, 2);
        tale.settle(0, 0, 1, 3);
        tale.at(1.5).fetch(0, 1.4, &[6]);
        tale.keeps(BoundedReadAhead);
        tale.at(1.7).fetch(0, 1.6, &[7]);
        tale.breaks(
            BoundedReadAhead,
            "i0 reads shard 0 on at 1.600 s, holding 3 records that it has not handed over, and 3 are to be read ahead",
        );
    }

    #[test]
    fn without_reading_ahead_it_is_read_on_once_all_is_handed_over() {
        let mut tale = reading(0);
        tale.at(1.1).fetch(0, 1.0, &[1, 2]);
        (1..=2).for_each(|sequence| tale.settle(0, 0, 1, sequence));
        tale.at(1.3).fetch(0, 1.1, &[3, 4]);
        tale.settle(0, 0, 1, 3);
        tale.keeps(BoundedReadAhead);
        tale.at(1.5).fetch(0, 1.4, &[5]);
        tale.breaks(BoundedReadAhead, "holding 1 records");
    }

    #[test]
    fn what_has_a_lane_and_waits_for_the_lease_counts_no_more() {
        let mut tale = reading(0);
        tale.plan.reading.concurrency = 2;
        tale.at(1.1).fetch(0, 1.0, &[1, 2]);
        tale.at(1.3).fetch(0, 1.2, &[3]);
        tale.keeps(BoundedReadAhead);
        tale.at(1.5).fetch(0, 1.4, &[4]);
        tale.breaks(BoundedReadAhead, "holding 3 records");
    }

    #[test]
    fn a_new_acquisition_begins_with_nothing() {
        let mut tale = reading(0);
        tale.at(1.1).fetch(0, 1.0, &[1, 2]);
        tale.at(12.0).grant(0, 0, 2);
        tale.at(12.2).fetch(0, 12.1, &[1, 2]);
        tale.keeps(BoundedReadAhead);
    }
}
