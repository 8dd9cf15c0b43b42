//! **Take-over in time.** A shard does not lie idle.
//!
//! *After a kill* each shard whose live lease the killed instance held is granted to another within 16 s: a lease, and
//! what the others take to find out and to agree. Asked for only where that instance was killed in calm: nothing else
//! was wrong from 10 s before the kill to the end of those 16 s (no fault under way and no noise, nobody else started,
//! stopped, paused, woken or killed), and another instance was started 5 s before and is there throughout.
//!
//! *After all is healed* every shard is kept by somebody alive within 30 s: it is granted or renewed in the last 16 s
//! of them. Asked for where somebody is there throughout.
//!
//! Not asked for in either case: a shard that is read to its end or has left the listing by then; one that waits for
//! a parent, which nobody may read; one on which a handler of an earlier lease still runs somewhere, whose instance
//! leaves it alone while others leave it to that instance for a turn; and, where the start is the tip, a closed shard
//! that nobody ever leased, which is passed over.

use std::time::Duration;

use crate::check::Found;
use crate::check::calm::Troubles;
use crate::check::facts::Moment;
use crate::check::index::Index;
use crate::history::InstanceId;
use crate::plan::Start;

/// What goes wrong shortly before a kill can still keep the others busy.
const BEFORE: Duration = Duration::from_secs(10);
/// How long before the kill somebody must have been there.
const THERE: Duration = Duration::from_secs(5);
const TAKE_OVER: Duration = Duration::from_secs(16);
const AFTER_HEALING: Duration = Duration::from_secs(30);

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    let troubles = Troubles::of(index);
    let kills = index
        .lives
        .iter()
        .filter_map(|(instance, life)| Some((*instance, life.killed?)));
    let mut found: Vec<_> = kills
        .flat_map(|(instance, killed)| after_kill(index, &troubles, instance, killed))
        .collect();
    found.extend(after_healing(index));
    found
}

fn after_kill(
    index: &Index<'_>,
    troubles: &Troubles,
    killed: InstanceId,
    at: Moment,
) -> Vec<Found> {
    let by = at.at + TAKE_OVER;
    let mut others = index
        .lives
        .iter()
        .filter(|(instance, _)| **instance != killed);
    let is_there = others.any(|(_, life)| life.runs_throughout(at.at.saturating_sub(THERE), by));
    let is_calm = troubles.is_calm(at.at.saturating_sub(BEFORE), by, at.place);
    if !is_there || !is_calm || by > index.end() {
        return Vec::new();
    }
    let by = index.moment(by);
    let held = (0..index.shards.len()).filter_map(|shard| {
        let grant = index.grant(index.rows.present(shard, at)?);
        (grant.instance == killed && grant.live_until(at) > at.at).then_some((shard, grant))
    });
    let left = held.filter(|(shard, _)| {
        let grants = &index.rows.of_shard[*shard];
        let mut later = grants
            .iter()
            .map(|grant| index.grant(*grant))
            .filter(|grant| at < grant.took && grant.took < by);
        !later.any(|grant| grant.instance != killed) && is_expected(index, *shard, at, by)
    });
    left.map(|(shard, grant)| {
        let (name, epoch) = (index.name(shard), grant.holder.epoch);
        by.found(format!(
            "{killed}, killed at {:.3} s, held {name} under epoch {epoch}, and nobody has been granted it since",
            at.at.as_secs_f64()
        ))
    })
    .collect()
}

fn after_healing(index: &Index<'_>) -> Vec<Found> {
    let Some(rest) = &index.rest else {
        return Vec::new();
    };
    let by = rest.from + AFTER_HEALING;
    if rest.alive.is_empty() || by > rest.to.at {
        return Vec::new();
    }
    let (from, by) = (index.moment(by - TAKE_OVER), index.moment(by));
    let idle = (0..index.shards.len()).filter(|shard| {
        let grants = index.rows.of_shard[*shard]
            .iter()
            .map(|grant| index.grant(*grant));
        let mut of_those_alive = grants.filter(|grant| rest.alive.contains(&grant.instance));
        let is_kept = of_those_alive.any(|grant| {
            let later = grant.renewed.partition_point(|renewed| *renewed < from);
            grant
                .renewed
                .get(later)
                .is_some_and(|renewed| *renewed < by)
        });
        !is_kept && is_expected(index, *shard, from, by)
    });
    idle.map(|shard| {
        by.found(format!(
            "nobody alive keeps {}, {AFTER_HEALING:?} after all was healed",
            index.name(shard)
        ))
    })
    .collect()
}

/// Whether a shard is to be taken by somebody between these moments.
fn is_expected(index: &Index<'_>, shard: usize, from: Moment, by: Moment) -> bool {
    let facts = &index.shards[shard];
    let is_gone = facts.trimmed.is_some_and(|trimmed| trimmed < by);
    let is_passed_over = index.plan.start == Start::Latest
        && facts.closed.is_some_and(|closed| closed < by)
        && index.rows.of_shard[shard].is_empty();
    let present = index.rows.present(shard, from);
    let mut deliveries = facts
        .deliveries
        .iter()
        .map(|delivery| &index.deliveries[*delivery]);
    let is_busy = deliveries.any(|handed| {
        let life = index.lives.get(&handed.delivery.instance);
        let is_alive = life.is_none_or(|life| life.ends().is_none_or(|end| end > from));
        is_alive && handed.grant != present && handed.runs_at(from)
    });
    !is_gone
        && !is_passed_over
        && !is_busy
        && !index.rows.is_finished(shard, by)
        && !index.waits_for_a_parent(shard, from)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstream::HandlerOutcome;

    use crate::check::Invariant::TakeOverInTime;
    use crate::check::builder::{Tale, end};
    use crate::history::Event;
    use crate::plan::{Mishap, Trouble, What};

    /// Instance 0 held the shard when it was killed at 20 s, and instance 1 was there.
    fn killed() -> Tale {
        let mut tale = Tale::with(2);
        tale.grant(0, 0, 1);
        tale.renew_until(&[(0, 0, 1)], 20.0);
        tale.kill(0);
        tale
    }

    /// The end of a history.
    fn later(tale: &mut Tale) {
        tale.at(60.0).join(7);
    }

    const IDLE: &str =
        "i0, killed at 20.000 s, held shard 0 under epoch 1, and nobody has been granted it since";

    #[test]
    fn a_shard_of_a_killed_instance_is_taken_within_sixteen_seconds() {
        let mut tale = killed();
        tale.at(36.0).grant(1, 0, 2);
        later(&mut tale);
        tale.keeps(TakeOverInTime);

        let mut tale = killed();
        tale.at(36.1).grant(1, 0, 2);
        later(&mut tale);
        tale.breaks(TakeOverInTime, IDLE);
    }

    #[test]
    fn a_history_that_ends_before_shows_nothing() {
        let mut tale = killed();
        tale.at(35.0)
            .note(Event::Started(crate::history::InstanceId(1)));
        tale.keeps(TakeOverInTime);
    }

    #[test]
    fn in_trouble_it_may_take_longer() {
        let fault = || Event::Fault("trouble".to_owned());
        let mut tale = killed();
        tale.at(30.0).note(fault());
        later(&mut tale);
        tale.keeps(TakeOverInTime);

        let mut tale = killed();
        tale.plan.store_noise = 1;
        later(&mut tale);
        tale.keeps(TakeOverInTime);

        let mut tale = killed();
        tale.at(25.0).join(2);
        later(&mut tale);
        tale.keeps(TakeOverInTime);

        let mut tale = killed();
        tale.at(60.0).note(fault());
        tale.breaks(TakeOverInTime, IDLE);
    }

    #[test]
    fn trouble_lasts_as_long_as_the_plan_has_it() {
        for (lasts, is_calm) in [(5, true), (12, false)] {
            let mut tale = killed();
            let (trouble, lasts) = (Trouble::Fails, Duration::from_secs(lasts));
            let what = What::Store {
                trouble,
                victim: None,
                lasts,
            };
            tale.plan.mishaps.push(Mishap {
                at: Duration::from_secs(1),
                what,
            });
            later(&mut tale);
            assert_eq!(
                !tale.broken(TakeOverInTime).is_empty(),
                is_calm,
                "{lasts:?}"
            );
        }
    }

    #[test]
    fn somebody_must_be_there_to_take_it() {
        let mut tale = Tale::with(1);
        tale.grant(0, 0, 1);
        tale.at(5.0).kill(0);
        later(&mut tale);
        tale.keeps(TakeOverInTime);
    }

    #[test]
    fn nobody_has_to_take_what_was_released_finished_gone_or_run_out() {
        let mut tale = Tale::with(2);
        tale.grant(0, 0, 1);
        tale.at(19.0).release(0, 0, 1);
        tale.at(20.0).kill(0);
        later(&mut tale);
        tale.keeps(TakeOverInTime);

        let mut tale = killed();
        tale.trim(0, &[]);
        later(&mut tale);
        tale.keeps(TakeOverInTime);

        let mut tale = Tale::with(2);
        tale.grant(0, 0, 1);
        tale.checkpoint(0, 0, 1, end());
        tale.at(5.0).kill(0);
        later(&mut tale);
        tale.keeps(TakeOverInTime);

        let mut tale = Tale::with(2);
        tale.grant(0, 0, 1);
        tale.at(20.0).kill(0);
        later(&mut tale);
        tale.keeps(TakeOverInTime);
    }

    #[test]
    fn nobody_takes_a_shard_that_waits_for_its_parent() {
        let mut tale = Tale::with(2);
        tale.shard(1, &[0]);
        tale.at(19.0).grant(0, 1, 1);
        tale.at(20.0).kill(0);
        later(&mut tale);
        tale.keeps(TakeOverInTime);
    }

    #[test]
    fn a_parent_that_left_the_listing_is_waited_for_while_somebody_holds_it() {
        for is_held in [true, false] {
            let mut tale = Tale::with(2);
            tale.shard(1, &[0]);
            tale.at(18.0).grant(1, 0, 1);
            if !is_held {
                tale.release(1, 0, 1);
            }
            tale.trim(0, &[]);
            tale.at(19.0).grant(0, 1, 1);
            tale.at(20.0).kill(0);
            later(&mut tale);
            assert_eq!(tale.broken(TakeOverInTime).is_empty(), is_held);
        }
    }

    #[test]
    fn a_shard_is_left_alone_while_a_handler_of_an_earlier_lease_runs() {
        let mut tale = Tale::with(2);
        tale.store(0, 1);
        tale.grant(1, 0, 1);
        let slow = tale.hand(1, 0, 1, 1);
        tale.at(12.0).grant(0, 0, 2);
        tale.renew_until(&[(0, 0, 2)], 20.0);
        tale.kill(0);
        tale.at(40.0).say(slow, HandlerOutcome::ack());
        later(&mut tale);
        tale.keeps(TakeOverInTime);
    }

    /// Healed at 60 s with this in hand; the fleet is told to stop at 160 s.
    fn healed(keep: &[(usize, usize, u64)], until: f64) -> Tale {
        let mut tale = Tale::with(1);
        tale.at(50.0).grant(0, 0, 1);
        tale.at(60.0).note(Event::Healed);
        tale.renew_until(keep, until);
        tale.at(160.0).stop(0);
        tale
    }

    #[test]
    fn after_healing_somebody_keeps_every_shard() {
        healed(&[(0, 0, 1)], 100.0).keeps(TakeOverInTime);
        healed(&[(0, 0, 1)], 70.0).breaks(
            TakeOverInTime,
            "nobody alive keeps shard 0, 30s after all was healed",
        );
    }

    #[test]
    fn after_healing_a_finished_shard_needs_nobody_and_its_child_does() {
        let mut tale = Tale::with(1);
        tale.at(50.0).grant(0, 0, 1);
        tale.shard(1, &[0]);
        tale.at(60.0).note(Event::Healed);
        tale.checkpoint(0, 0, 1, end());
        tale.at(160.0).stop(0);
        tale.breaks(TakeOverInTime, "nobody alive keeps shard 1");
    }

    #[test]
    fn after_healing_a_closed_shard_before_the_tip_is_passed_over() {
        let mut tale = Tale::at_the_tip();
        tale.shard(0, &[]);
        tale.join(0);
        tale.shard(1, &[0]);
        tale.grant(0, 1, 1);
        tale.at(60.0).note(Event::Healed);
        tale.renew_until(&[(0, 1, 1)], 100.0);
        tale.at(160.0).stop(0);
        tale.keeps(TakeOverInTime);
    }
}
