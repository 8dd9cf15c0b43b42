//! Where handlers do not wait for checkpoints, several acknowledgements may share a call, but none waits for long: a
//! record of the [settled prefix](crate::check::prefix) is covered by a call that is sent as soon as the one before is
//! answered and, with an interval, as that has passed since it was sent or the instance is told to stop: handlers that
//! still run then may never end. Asked for as long as the calls so far were answered with yes, and the instance runs
//! with a lease that it may rely on.
//!
//! With an interval no call comes sooner than that, but:
//!
//! - after a failure, or 3 s without an answer;
//! - for the end of the shard;
//! - when the instance is told to stop;
//! - for a hand-over: where the lease is given back before another record is handed over, or somebody has asked for the
//!   shard within the last 20 s, since a hand-over that is declined has written too.

use std::time::Duration;

use lease_core::Checkpoint;

use super::Sent;
use crate::check::facts::{Call, Life, Moment};
use crate::check::index::Index;
use crate::check::prefix::{self, Step};
use crate::check::rows::covers;
use crate::check::{Found, LEASE, PATIENCE};
use crate::history::{Answer, Ask};

/// A call that is due and comes later than this is late, also where time is real.
const LATE: Duration = Duration::from_secs(1);
/// By how much a call may seem to come early: by a clock that runs fast, by what lies between two of its readings, and
/// since an instance's clock and the world's round differently.
const EARLY: Duration = Duration::from_millis(50);
/// How long after an ask a hand-over may still be tried.
const HAND_OVER: Duration = Duration::from_secs(20);

pub(super) fn check(index: &Index<'_>, shard: usize, sent: &Sent<'_, '_>) -> Vec<Found> {
    let mut found = Vec::new();
    for grant in &index.rows.of_shard[shard] {
        let calls = sent.get(grant).map_or(&[][..], Vec::as_slice);
        found.extend(withheld(index, *grant, calls));
        if let Some(interval) = index.plan.reading.interval {
            found.extend(hasty(index, *grant, calls, interval));
        }
    }
    found
}

/// The first record of the settled prefix that no call covers when one is due.
fn withheld(index: &Index<'_>, grant: usize, calls: &[(&Checkpoint, &Call<'_>)]) -> Option<Found> {
    let life = index.lives.get(&index.grant(grant).instance)?;
    let mut next = 0;
    for Step { record, since } in prefix::of(index, grant) {
        let sequence = &index.history.records[record].sequence;
        while calls.get(next).is_some_and(|(at, _)| !covers(at, sequence)) {
            next += 1;
        }
        let before = calls.partition_point(|(_, call)| call.sent < since);
        if !calls[..before]
            .iter()
            .all(|(_, call)| call.was_answered_yes())
        {
            return None;
        }
        let due = due(
            index,
            life,
            since,
            calls[..before].last().map(|(_, call)| *call),
        );
        let by = index.moment(due + LATE);
        let is_sent = calls.get(next).is_some_and(|(_, call)| call.sent < by);
        if !is_sent && is_able(index, (grant, life), since, due, by) {
            let (instance, name) = (index.grant(grant).instance, index.record_name(record));
            return Some(by.found(format!(
                "{instance} has sent no checkpoint of {name}, which it had settled with all before it at {:.3} s, and which was due at {:.3} s",
                since.at.as_secs_f64(),
                due.as_secs_f64()
            )));
        }
    }
    None
}

/// When a position that may be written since this moment is to be sent, after the call that was sent last by then.
fn due(index: &Index<'_>, life: &Life, since: Moment, last: Option<&Call<'_>>) -> Duration {
    let Some(last) = last else { return since.at };
    let answered = last.answered.map_or(since.at, |(answered, _)| answered.at);
    let interval = index.plan.reading.interval;
    let paced = interval.map_or(Duration::ZERO, |interval| last.sent.at + interval);
    // Whoever is told so while it starts stops once it has started.
    let stopping = life.stopping.zip(life.started);
    let stopping = stopping.map_or(Duration::MAX, |(told, started)| told.max(started).at);
    since.at.max(answered).max(paced.min(stopping))
}

/// Whether the holder may write, and is there to do it.
fn is_able(
    index: &Index<'_>,
    (grant, life): (usize, &Life),
    since: Moment,
    due: Duration,
    by: Moment,
) -> bool {
    let grant = index.grant(grant);
    let is_firm = (grant.relied_on(index.moment(due))).is_some_and(|sent| sent + LEASE > by.at);
    let is_there =
        life.killed.is_none_or(|killed| killed > by) && !life.is_paused_within(since.at, by.at);
    is_firm && is_there && grant.is_present(by) && by.at <= index.end()
}

/// The calls that came before the interval was over.
fn hasty(
    index: &Index<'_>,
    grant: usize,
    calls: &[(&Checkpoint, &Call<'_>)],
    interval: Duration,
) -> Vec<Found> {
    let pairs = calls.windows(2).map(|pair| (pair[0], pair[1]));
    let hasty = pairs.filter(|((_, before), (at, call))| {
        call.sent.at + EARLY < before.sent.at + interval
            && !at.is_shard_end()
            && !has_failed(before, call)
            && !leaves(index, grant, call)
    });
    hasty
        .map(|((_, before), (at, call))| {
            let after = call.sent.at - before.sent.at;
            call.sent.found(format!(
                "{} sends checkpoint {at} of {} {after:?} after the one before it, and they are to be {interval:?} apart",
                call.instance,
                index.name(index.grant(grant).shard)
            ))
        })
        .collect()
}

/// Whether a call follows one that failed.
fn has_failed(before: &Call<'_>, call: &Call<'_>) -> bool {
    match before.answered {
        Some((answered, Answer::Yes)) if answered < call.sent => {
            // The answer may have come too late.
            answered.at >= before.sent.at + PATIENCE
        }
        _ => true,
    }
}

/// Whether a call was made to give the shard up.
fn leaves(index: &Index<'_>, grant: usize, call: &Call<'_>) -> bool {
    let (facts, life) = (index.grant(grant), index.lives.get(&call.instance));
    let stops = life
        .and_then(|life| life.stopping)
        .is_some_and(|stopping| stopping.at <= call.sent.at + EARLY);
    let shard = &index.shards[facts.shard];
    let calls = || shard.calls.iter().map(|call| &index.calls[*call]);
    let is_asked = calls().any(|ask| {
        let taken = || ask.took.iter().map(|(took, _)| *took);
        matches!(ask.ask, Ask::Ask { .. })
            && taken().any(|took| took < call.sent && call.sent.at <= took.at + HAND_OVER)
    });
    let mut later = calls().filter(|later| later.sent > call.sent);
    let release = later
        .find(|later| matches!(later.ask, Ask::Release { holder, .. } if holder == facts.holder));
    let is_given_back = release.is_some_and(|release| {
        let mut handed = shard
            .deliveries
            .iter()
            .map(|delivery| &index.deliveries[*delivery]);
        !handed.any(|handed| {
            handed.grant == Some(grant) && call.sent < handed.at && handed.at < release.sent
        })
    });
    stops || is_asked || is_given_back
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstream::HandlerOutcome;

    use crate::check::Invariant::OneCallAnAcknowledgement;
    use crate::check::builder::{Tale, end, seq};
    use crate::history::{Answer, Ask, Event, InstanceId};

    /// Three records of keys of their own, up to four of which may be in hand.
    fn concurrent() -> Tale {
        let mut tale = Tale::with(2);
        tale.plan.reading.concurrency = 4;
        tale.grant(0, 0, 1);
        (1..=3).for_each(|sequence| tale.store_of(0, sequence, &sequence.to_string()));
        tale
    }

    fn every(seconds: u64) -> Tale {
        let mut tale = concurrent();
        tale.plan.reading.interval = Some(Duration::from_secs(seconds));
        tale
    }

    /// Time passes, and the lease is kept.
    fn pass(tale: &mut Tale, until: f64) {
        tale.renew_until(&[(0, 0, 1)], until);
    }

    #[test]
    fn acknowledgements_that_settle_while_a_call_is_under_way_share_the_next() {
        let mut tale = concurrent();
        tale.settle(0, 0, 1, 1);
        let call = tale.send(0, Tale::position(0, 0, 1, seq(1)));
        (2..=3).for_each(|sequence| tale.settle(0, 0, 1, sequence));
        tale.at(2.5).took(call, Answer::Yes);
        tale.answered(call, Answer::Yes);
        tale.checkpoint(0, 0, 1, seq(3));
        pass(&mut tale, 30.0);
        tale.keeps(OneCallAnAcknowledgement);
    }

    #[test]
    fn an_acknowledgement_that_moves_the_checkpoint_waits_for_no_other() {
        let mut tale = concurrent();
        tale.settle(0, 0, 1, 1);
        tale.at(1.5).checkpoint(0, 0, 1, seq(1));
        pass(&mut tale, 30.0);
        tale.breaks(
            OneCallAnAcknowledgement,
            "i0 has sent no checkpoint of r0 of shard 0 (1), which it had settled with all before it at 0.000 s",
        );

        let mut tale = concurrent();
        tale.settle(0, 0, 1, 1);
        tale.at(0.5).checkpoint(0, 0, 1, seq(1));
        pass(&mut tale, 30.0);
        tale.keeps(OneCallAnAcknowledgement);
    }

    #[test]
    fn an_acknowledgement_behind_a_gap_waits_for_the_gap() {
        let mut tale = concurrent();
        let oldest = tale.hand(0, 0, 1, 1);
        (2..=3).for_each(|sequence| tale.settle(0, 0, 1, sequence));
        pass(&mut tale, 20.0);
        tale.say(oldest, HandlerOutcome::ack());
        tale.checkpoint(0, 0, 1, seq(3));
        pass(&mut tale, 40.0);
        tale.keeps(OneCallAnAcknowledgement);
    }

    #[test]
    fn nothing_is_asked_of_one_who_may_not_write_or_is_not_there() {
        let mut lapsed = concurrent();
        lapsed.settle(0, 0, 1, 1);
        lapsed
            .history
            .events
            .retain(|(_, event)| !matches!(event, Event::Answered { .. }));
        lapsed.at(30.0).join(2);
        let mut failing = concurrent();
        failing.settle(0, 0, 1, 1);
        let call = failing.send(0, Tale::position(0, 0, 1, seq(1)));
        failing.answered(call, Answer::Failed("out of reach".to_owned()));
        failing.settle(0, 0, 1, 2);
        pass(&mut failing, 30.0);
        let mut killed = concurrent();
        killed.settle(0, 0, 1, 1);
        killed.at(0.5).kill(0);
        killed.at(30.0).join(2);
        let mut paused = concurrent();
        paused.settle(0, 0, 1, 1);
        paused.at(0.5).pause(0);
        pass(&mut paused, 30.0);
        for tale in [lapsed, failing, killed, paused] {
            tale.keeps(OneCallAnAcknowledgement);
        }
    }

    #[test]
    fn with_an_interval_the_newest_position_is_sent_once_in_each() {
        let mut tale = every(5);
        tale.handle(0, 0, 1, 1);
        tale.settle(0, 0, 1, 2);
        tale.settle(0, 0, 1, 3);
        pass(&mut tale, 5.0);
        tale.checkpoint(0, 0, 1, seq(3));
        pass(&mut tale, 30.0);
        tale.keeps(OneCallAnAcknowledgement);
    }

    #[test]
    fn with_an_interval_none_is_left_out() {
        let mut tale = every(5);
        tale.handle(0, 0, 1, 1);
        tale.settle(0, 0, 1, 2);
        pass(&mut tale, 30.0);
        tale.breaks(
            OneCallAnAcknowledgement,
            "which it had settled with all before it at 0.000 s, and which was due at 5.000 s",
        );
    }

    #[test]
    fn with_an_interval_whoever_is_told_to_stop_writes_what_is_settled_whatever_still_runs() {
        for (written, has_started, is_left_out) in
            [(3.5, true, false), (8.0, true, true), (8.0, false, false)]
        {
            let mut tale = every(3_600);
            if !has_started {
                let is_start = |event: &Event| *event == Event::Started(InstanceId(0));
                tale.history.events.retain(|(_, event)| !is_start(event));
            }
            tale.handle(0, 0, 1, 1);
            tale.settle(0, 0, 1, 2);
            tale.hand(0, 0, 1, 3);
            pass(&mut tale, 3.0);
            tale.stop(0);
            pass(&mut tale, written);
            tale.checkpoint(0, 0, 1, seq(2));
            assert_eq!(
                !tale.broken(OneCallAnAcknowledgement).is_empty(),
                is_left_out,
                "{written} {has_started}"
            );
        }
    }

    /// Two positions, two seconds apart where five were asked for.
    fn hasty(between: impl FnOnce(&mut Tale)) -> Tale {
        let mut tale = every(5);
        tale.handle(0, 0, 1, 1);
        tale.settle(0, 0, 1, 2);
        between(&mut tale);
        tale.at(2.0).checkpoint(0, 0, 1, seq(2));
        tale
    }

    #[test]
    fn with_an_interval_no_call_comes_before_it_is_over() {
        hasty(|_| {}).breaks(
            OneCallAnAcknowledgement,
            "i0 sends checkpoint 2 of shard 0 2s after the one before it, and they are to be 5s apart",
        );
    }

    #[test]
    fn for_a_shutdown_a_hand_over_and_the_end_of_a_shard_a_call_comes_at_once() {
        hasty(|tale| tale.at(1.9).stop(0)).keeps(OneCallAnAcknowledgement);
        hasty(|tale| {
            let ask = Ask::Ask {
                key: crate::check::builder::key(0),
                owner: "i1".to_owned(),
            };
            let call = tale.send(1, ask);
            tale.took(call, Answer::Yes);
        })
        .keeps(OneCallAnAcknowledgement);
        let mut given_back = hasty(|_| {});
        given_back.release(0, 0, 1);
        given_back.keeps(OneCallAnAcknowledgement);
        let mut read_on = hasty(|_| {});
        read_on.hand(0, 0, 1, 3);
        read_on.release(0, 0, 1);
        read_on.breaks(OneCallAnAcknowledgement, "2s after the one before it");

        let mut tale = every(5);
        (1..=2).for_each(|sequence| tale.settle(0, 0, 1, sequence));
        tale.handle(0, 0, 1, 3);
        tale.at(1.0).checkpoint(0, 0, 1, end());
        tale.keeps(OneCallAnAcknowledgement);
    }

    #[test]
    fn after_a_failure_a_call_comes_at_once() {
        let mut tale = every(5);
        tale.settle(0, 0, 1, 1);
        let call = tale.send(0, Tale::position(0, 0, 1, seq(1)));
        tale.answered(call, Answer::Failed("out of reach".to_owned()));
        tale.at(0.3).checkpoint(0, 0, 1, seq(1));
        tale.keeps(OneCallAnAcknowledgement);
    }
}
