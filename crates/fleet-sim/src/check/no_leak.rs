//! **No leak.** An instance that was told to stop leaves nothing behind:
//!
//! - its shutdown returns within 40 s: the limit of 30 s, 5 s for the last calls, and a little;
//! - no task of it runs, and nobody holds a handler, store or client of it;
//! - it makes no call and hands over no record after that, nor does one that was killed;
//! - when everybody has stopped no lease is held.
//!
//! Allowed: a lease that has run out on a shard that was read to its end, or has left the listing: its holder was
//! killed or cut off before it could release it, and nobody wants it. An instance that stood still while it was
//! stopping may take longer.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::check::Found;
use crate::check::facts::{Life, Moment};
use crate::check::index::Index;
use crate::history::{Event, InstanceId};

const SHUTDOWN: Duration = Duration::from_secs(40);

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    let mut said = BTreeSet::new();
    for (place, (at, event)) in index.history.events.iter().enumerate() {
        let moment = Moment { place, at: *at };
        let (instance, what) = match event {
            Event::Stopped {
                instance,
                tasks,
                kept,
            } if tasks + kept > 0 => {
                let text = format!(
                    "{instance} leaves {tasks} tasks behind, and {kept} of its things are held"
                );
                found.push(moment.found(text));
                continue;
            }
            Event::Sent { instance, .. } => (*instance, "makes a call"),
            Event::Handed(delivery) => (delivery.instance, "hands over a record"),
            _ => continue,
        };
        let over = index.lives.get(&instance).and_then(over);
        if over.is_some_and(|over| over < moment) && said.insert(instance) {
            found.push(moment.found(format!("{instance} {what} after its end")));
        }
    }
    let lives = index.lives.iter();
    found.extend(lives.filter_map(|(instance, life)| never_stops(index, *instance, life)));
    found.extend(left_held(index));
    found
}

fn over(life: &Life) -> Option<Moment> {
    life.stopped.into_iter().chain(life.killed).min()
}

fn never_stops(index: &Index<'_>, instance: InstanceId, life: &Life) -> Option<Found> {
    let stopping = life.stopping?;
    let limit = stopping.at + SHUTDOWN;
    let is_over = over(life).is_some_and(|over| over.at <= limit);
    if is_over || life.is_paused_within(stopping.at, limit) {
        return None;
    }
    // A history that ends earlier shows nothing; but where everybody has stopped it is complete.
    (over(life).is_some() || index.end() >= limit).then(|| {
        index.moment(limit).found(format!(
            "{instance}, told to stop at {:.3} s, has not stopped",
            stopping.at.as_secs_f64()
        ))
    })
}

fn left_held<'i>(index: &'i Index<'_>) -> impl Iterator<Item = Found> + use<'i> {
    let end = index.moment(index.end());
    index.history.left_held.iter().filter_map(move |key| {
        let shard = index.shard(key)?;
        let grant = index
            .rows
            .present(shard, end)
            .map(|grant| index.grant(grant));
        let has_run_out = grant.is_some_and(|grant| grant.live_until(end) <= end.at);
        let is_wanted =
            !index.rows.is_finished(shard, end) && index.shards[shard].trimmed.is_none();
        if has_run_out && !is_wanted {
            return None;
        }
        let by = grant.map_or(String::new(), |grant| {
            format!(", by {} under epoch {}", grant.instance, grant.holder.epoch)
        });
        Some(end.found(format!(
            "{} is held when everybody has stopped{by}",
            index.name(shard)
        )))
    })
}

#[cfg(test)]
mod tests {
    use crate::check::Invariant::NoLeak;
    use crate::check::builder::{Tale, end, key};
    use crate::history::{Event, InstanceId};

    fn stopping() -> Tale {
        let mut tale = Tale::with(1);
        tale.grant(0, 0, 1);
        tale.at(5.0).stop(0);
        tale
    }

    #[test]
    fn an_instance_that_has_given_everything_back_leaks_nothing() {
        let mut tale = stopping();
        tale.release(0, 0, 1);
        tale.at(6.0).stopped(0);
        tale.keeps(NoLeak);
    }

    #[test]
    fn tasks_and_things_that_are_left_behind_are_counted() {
        for (tasks, kept) in [(1, 0), (0, 1)] {
            let mut tale = stopping();
            tale.note(Event::Stopped {
                instance: InstanceId(0),
                tasks,
                kept,
            });
            tale.breaks(
                NoLeak,
                &format!("i0 leaves {tasks} tasks behind, and {kept} of its things"),
            );
        }
    }

    #[test]
    fn who_has_ended_does_nothing_more_and_that_is_said_once() {
        let mut tale = stopping();
        tale.stopped(0);
        tale.at(6.0).renew(0, 0, 1);
        tale.renew(0, 0, 1);
        tale.breaks(NoLeak, "i0 makes a call after its end");

        let mut tale = Tale::with(1);
        tale.grant(0, 0, 1);
        tale.kill(0);
        tale.hand(0, 0, 1, 1);
        tale.breaks(NoLeak, "i0 hands over a record after its end");
    }

    #[test]
    fn a_shutdown_ends_in_time_unless_the_instance_stood_still() {
        let mut tale = stopping();
        tale.at(46.0).stopped(0);
        tale.breaks(NoLeak, "i0, told to stop at 5.000 s, has not stopped");

        let mut tale = stopping();
        tale.at(6.0).pause(0);
        tale.at(20.0).wake(0);
        tale.at(46.0).stopped(0);
        tale.keeps(NoLeak);

        let mut tale = stopping();
        tale.at(20.0).kill(0);
        tale.at(80.0).join(1);
        tale.keeps(NoLeak);
    }

    #[test]
    fn a_lease_that_is_held_at_the_end_is_a_leak_unless_it_ran_out_on_a_shard_that_nobody_wants() {
        let mut tale = stopping();
        tale.stopped(0);
        tale.history.left_held.push(key(0));
        tale.breaks(
            NoLeak,
            "shard 0 is held when everybody has stopped, by i0 under epoch 1",
        );

        let mut tale = Tale::with(2);
        tale.grant(0, 0, 1);
        tale.checkpoint(0, 0, 1, end());
        tale.kill(0);
        tale.at(9.0).stop(1);
        tale.history.left_held.push(key(0));
        tale.breaks(NoLeak, "by i0 under epoch 1");
        tale.at(10.0).stopped(1);
        tale.keeps(NoLeak);

        let mut tale = Tale::with(2);
        tale.grant(0, 0, 1);
        tale.kill(0);
        tale.at(20.0).stop(1);
        tale.history.left_held.push(key(0));
        tale.breaks(NoLeak, "by i0 under epoch 1");
        tale.trim(0, &[]);
        tale.keeps(NoLeak);
    }

    #[test]
    fn a_lease_that_the_store_keeps_after_its_release_is_a_leak() {
        let mut tale = stopping();
        tale.release(0, 0, 1);
        tale.at(20.0).stopped(0);
        tale.history.left_held.push(key(0));
        tale.breaks(NoLeak, "shard 0 is held when everybody has stopped");
    }
}
