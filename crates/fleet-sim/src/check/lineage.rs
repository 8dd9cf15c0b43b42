//! **Lineage.** When a shard is handed over from for the first time, all records of its parents, of theirs, and so
//! on, are settled.
//!
//! Not waited for: records that had passed out of retention, and those before the start position (see
//! [`owed`](super::owed)).

use crate::check::Found;
use crate::check::index::Index;

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    (0..index.shards.len())
        .filter_map(|shard| check_shard(index, shard))
        .collect()
}

fn check_shard(index: &Index<'_>, shard: usize) -> Option<Found> {
    let first = &index.deliveries[*index.shards[shard].deliveries.first()?];
    let ancestors = index.ancestors(shard).into_iter();
    let mut records = ancestors.flat_map(|ancestor| index.shards[ancestor].records.iter());
    let unread = records.find(|record| !index.fates[**record].is_done_before(first.at))?;
    let (instance, name) = (first.delivery.instance, index.name(shard));
    let unread = index.record_name(*unread);
    Some(first.at.found(format!(
        "{instance} begins to hand over {name}, although {unread}, of an ancestor, is not settled"
    )))
}

#[cfg(test)]
mod tests {
    use crate::check::Invariant::Lineage;
    use crate::check::builder::{Tale, moment};

    /// Shard 0 became shard 1, which became shard 2; each has a record, of a key of its own.
    fn chain() -> Tale {
        let mut tale = Tale::with(1);
        tale.store_of(0, 1, "a");
        tale.shard(1, &[0]);
        tale.store_of(1, 2, "b");
        tale.shard(2, &[1]);
        tale.store_of(2, 3, "c");
        (0..3).for_each(|shard| tale.grant(0, shard, 1));
        tale
    }

    #[test]
    fn a_shard_is_read_after_its_parents() {
        let mut tale = chain();
        (0..3).for_each(|shard| tale.handle(0, shard, 1, shard as u64 + 1));
        tale.keeps(Lineage);
    }

    #[test]
    fn a_shard_is_not_read_before_its_parents_or_theirs() {
        let mut tale = chain();
        tale.handle(0, 1, 1, 2);
        tale.breaks(
            Lineage,
            "i0 begins to hand over shard 1, although r0 of shard 0 (1), of an ancestor",
        );

        let mut tale = chain();
        tale.trim(1, &[2]);
        tale.handle(0, 2, 1, 3);
        tale.breaks(
            Lineage,
            "i0 begins to hand over shard 2, although r0 of shard 0 (1)",
        );
    }

    #[test]
    fn of_two_merged_shards_both_are_waited_for() {
        let mut tale = Tale::with(1);
        tale.shard(1, &[]);
        tale.store(0, 1);
        tale.store(1, 2);
        tale.shard(2, &[0, 1]);
        tale.store(2, 3);
        (0..3).for_each(|shard| tale.grant(0, shard, 1));
        tale.handle(0, 0, 1, 1);
        tale.handle(0, 2, 1, 3);
        tale.breaks(Lineage, "r1 of shard 1 (2)");
    }

    #[test]
    fn what_passed_out_of_retention_is_not_waited_for() {
        let mut tale = chain();
        tale.trim(0, &[1]);
        tale.handle(0, 1, 1, 2);
        tale.keeps(Lineage);
    }

    #[test]
    fn what_lies_before_the_tip_is_not_waited_for() {
        let mut tale = Tale::at_the_tip();
        tale.shard(0, &[]);
        tale.join(0);
        tale.store(0, 1);
        tale.at(1.0).shard(1, &[0]);
        tale.at(2.0).grant(0, 1, 1);
        tale.checkpoint(0, 1, 1, moment(2));
        tale.at(3.0).store(1, 2);
        tale.handle(0, 1, 1, 2);
        tale.keeps(Lineage);
    }
}
