//! **Balanced and still.** Once all is healed, and before anybody is told to stop, a fleet that has been left to
//! itself for a minute is balanced: of the shards that are still to be read no instance holds two more than another.
//! And it is still: nothing more is granted.
//!
//! The minute begins anew when a shard is read to its end, leaves the listing or is resharded, when an instance comes
//! or goes, and when a record begins or ends to keep its shard from being handed over, by taking longer than a
//! hand-over may (10 s). Where nothing is left alone for a minute nothing is asked.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::check::Found;
use crate::check::facts::{Moment, Rest};
use crate::check::index::Index;
use crate::history::{Event, InstanceId};

const MINUTE: Duration = Duration::from_secs(60);
/// A hand-over that takes longer is declined; a little less, since it begins before it is given up.
const HAND_OVER: Duration = Duration::from_secs(9);

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    let Some(rest) = &index.rest else {
        return Vec::new();
    };
    let mut changes = changes(index, rest);
    changes.sort_unstable();
    changes.push(rest.to.at);
    let alone = changes.windows(2).filter(|pair| pair[1] > pair[0] + MINUTE);
    let mut found = Vec::new();
    for pair in alone {
        let from = index.moment(pair[0] + MINUTE);
        // What changes things changes them at this time, not before it.
        let place = index
            .history
            .events
            .partition_point(|(at, _)| *at < pair[1]);
        let to = Moment { place, at: pair[1] };
        found.extend(
            [from, to]
                .into_iter()
                .filter_map(|moment| uneven(index, rest, moment)),
        );
        let grants = index
            .rows
            .grants
            .iter()
            .filter(|grant| from <= grant.took && grant.took < to);
        found.extend(grants.map(|grant| {
            let (name, instance) = (index.name(grant.shard), grant.instance);
            grant.took.found(format!(
                "{instance} is granted {name}, although nothing has changed since {:.3} s",
                pair[0].as_secs_f64()
            ))
        }));
    }
    found
}

fn uneven(index: &Index<'_>, rest: &Rest, moment: Moment) -> Option<Found> {
    let mut held: BTreeMap<InstanceId, usize> =
        rest.alive.iter().map(|instance| (*instance, 0)).collect();
    for shard in 0..index.shards.len() {
        let Some(grant) = index
            .rows
            .present(shard, moment)
            .map(|grant| index.grant(grant))
        else {
            continue;
        };
        if grant.live_until(moment) > moment.at
            && !index.rows.is_finished(shard, moment)
            && let Some(count) = held.get_mut(&grant.instance)
        {
            *count += 1;
        }
    }
    let (poorest, least) = held.iter().min_by_key(|(_, count)| **count)?;
    let (richest, most) = held.iter().max_by_key(|(_, count)| **count)?;
    (*most >= least + 2).then(|| {
        moment.found(format!(
            "{richest} holds {most} shards and {poorest} {least}"
        ))
    })
}

/// When the minute begins anew.
fn changes(index: &Index<'_>, rest: &Rest) -> Vec<Duration> {
    let is_within = |at: &Duration| *at > rest.from && *at < rest.to.at;
    let events = index
        .history
        .events
        .iter()
        .filter(|(_, event)| is_change(event));
    let ends = index
        .rows
        .checkpoints
        .iter()
        .flatten()
        .filter_map(|(at, checkpoint)| {
            checkpoint
                .is_some_and(|checkpoint| checkpoint.is_shard_end())
                .then_some(at.at)
        });
    let mut changes = vec![rest.from];
    changes.extend(
        events
            .map(|(at, _)| *at)
            .chain(ends)
            .chain(long_waits(index, rest))
            .filter(is_within),
    );
    changes
}

fn is_change(event: &Event) -> bool {
    matches!(
        event,
        Event::Joined { .. }
            | Event::Started(_)
            | Event::Killed(_)
            | Event::Paused(_)
            | Event::Woken(_)
            | Event::Stopped { .. }
            | Event::Resharded { .. }
            | Event::Trimmed { .. }
    )
}

/// From when to when each record kept its shard that took too long for a hand-over.
fn long_waits(index: &Index<'_>, rest: &Rest) -> Vec<Duration> {
    // By acquisition: since when each record is in hand.
    let mut in_hand: HashMap<(usize, Option<usize>), Duration> = HashMap::new();
    let mut waits = Vec::new();
    for handed in &index.deliveries {
        let Some(grant) = handed.grant else { continue };
        let since = *in_hand
            .entry((grant, handed.record))
            .or_insert(handed.at.at);
        let until = handed.said.map_or(rest.to.at, |(said, _)| said.at);
        if until.saturating_sub(since) >= HAND_OVER {
            waits.extend([since, until]);
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use rstream::HandlerOutcome;

    use crate::check::Invariant::BalancedAndStill;
    use crate::check::builder::{Tale, end};
    use crate::history::Event;

    /// Two instances and four shards, of which the first has so many; healed at time zero.
    fn shared(first: usize) -> (Tale, Vec<(usize, usize, u64)>) {
        let mut tale = Tale::with(2);
        (1..4).for_each(|shard| tale.shard(shard, &[]));
        let held: Vec<_> = (0..4)
            .map(|shard| (usize::from(shard >= first), shard, 1))
            .collect();
        held.iter()
            .for_each(|(instance, shard, epoch)| tale.grant(*instance, *shard, *epoch));
        tale.note(Event::Healed);
        (tale, held)
    }

    fn end_at(tale: &mut Tale, held: &[(usize, usize, u64)], at: f64) {
        tale.renew_until(held, at);
        (0..2).for_each(|instance| tale.stop(instance));
    }

    #[test]
    fn an_even_fleet_that_stands_still_is_as_it_should_be() {
        let (mut tale, held) = shared(2);
        end_at(&mut tale, &held, 100.0);
        tale.keeps(BalancedAndStill);
    }

    #[test]
    fn two_more_than_another_are_too_many() {
        let (mut tale, held) = shared(3);
        end_at(&mut tale, &held, 100.0);
        let broken = tale.broken(BalancedAndStill);
        assert_eq!(
            broken,
            ["i0 holds 3 shards and i1 1", "i0 holds 3 shards and i1 1"],
            "after the minute and at the end"
        );

        let (mut tale, held) = shared(3);
        end_at(&mut tale, &held, 59.0);
        tale.keeps(BalancedAndStill);
    }

    #[test]
    fn an_instance_with_nothing_counts_and_one_that_is_gone_does_not() {
        let (mut tale, held) = shared(2);
        tale.join(2);
        tale.history.events.rotate_right(2);
        end_at(&mut tale, &held, 100.0);
        assert!(tale.broken(BalancedAndStill)[0].contains("i1 holds 2 shards and i2 0"));

        let (mut tale, held) = shared(3);
        tale.at(1.0).kill(1);
        end_at(&mut tale, &held[..3], 100.0);
        tale.keeps(BalancedAndStill);
    }

    #[test]
    fn a_finished_shard_does_not_count_and_begins_the_minute_anew() {
        let (mut tale, held) = shared(3);
        tale.at(30.0).checkpoint(0, 2, 1, end());
        tale.at(31.0);
        end_at(&mut tale, &held, 100.0);
        tale.keeps(BalancedAndStill);

        let (mut tale, held) = shared(3);
        tale.at(50.0).checkpoint(1, 3, 1, end());
        end_at(&mut tale, &held[..3], 105.0);
        tale.keeps(BalancedAndStill);
    }

    #[test]
    fn after_the_minute_nothing_is_granted() {
        let (mut tale, held) = shared(2);
        tale.renew_until(&held, 80.0);
        tale.release(0, 0, 1);
        tale.grant(1, 0, 2);
        tale.release(1, 0, 2);
        tale.grant(0, 0, 3);
        end_at(&mut tale, &[(0, 0, 3), held[1], held[2], held[3]], 100.0);
        let broken = tale.broken(BalancedAndStill);
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(
            broken[0].contains("i1 is granted shard 0, although nothing has changed since 0.000 s")
        );
    }

    #[test]
    fn within_the_minute_anything_may_move() {
        let (mut tale, held) = shared(2);
        tale.renew_until(&held, 40.0);
        tale.release(0, 0, 1);
        tale.grant(0, 0, 2);
        end_at(&mut tale, &[(0, 0, 2), held[1], held[2], held[3]], 100.0);
        tale.keeps(BalancedAndStill);
    }

    #[test]
    fn a_record_that_keeps_its_shard_begins_the_minute_anew() {
        let (mut tale, held) = shared(3);
        tale.store(0, 1);
        tale.renew_until(&held, 30.0);
        let slow = tale.hand(0, 0, 1, 1);
        tale.renew_until(&held, 36.0);
        tale.say(slow, HandlerOutcome::retry());
        let again = tale.hand(0, 0, 1, 1);
        tale.renew_until(&held, 42.0);
        tale.say(again, HandlerOutcome::ack());
        end_at(&mut tale, &held, 100.0);
        tale.keeps(BalancedAndStill);

        let (mut tale, held) = shared(3);
        tale.store(0, 1);
        tale.renew_until(&held, 30.0);
        let quick = tale.hand(0, 0, 1, 1);
        tale.renew_until(&held, 36.0);
        tale.say(quick, HandlerOutcome::ack());
        end_at(&mut tale, &held, 100.0);
        assert!(!tale.broken(BalancedAndStill).is_empty());
    }
}
