//! **Quiet.** A planned move redelivers nothing, however checkpoints are paced and however many records were in hand.
//! Where an acquisition ended by a release that took effect (a shutdown, a hand-over, the end of the shard):
//!
//! - no record that was settled under it is handed over under a later acquisition;
//! - and every one lies at or before the checkpoint in the row, whether anybody goes on from there or not;
//! - every handler that was handed a record under it had ended when the release was sent. A record whose handler asked
//!   for a retry may wait for the next owner.
//!
//! Not asked of records that have passed out of retention. Allowed: everything, where the release was sent after the shutdown's limit of 30 s had passed: what still ran was
//! dropped, and what was not written by then stays so. The instance counts the limit on its own clock, so a little less
//! is enough.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::check::Found;
use crate::check::facts::{Handed, Moment};
use crate::check::index::Index;
use crate::check::rows::{Ended, covers};

const SHUTDOWN_LIMIT: Duration = Duration::from_millis(29_500);

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    // The first acquisition that settled each record and ended quietly.
    let mut settled: HashMap<usize, usize> = HashMap::new();
    let mut unwritten = HashSet::new();
    for handed in &index.deliveries {
        let Some((grant, record)) = handed.grant.zip(handed.record) else {
            continue;
        };
        let (instance, epoch) = (handed.delivery.instance, handed.delivery.epoch);
        if let Some(before) = settled.get(&record).filter(|before| **before < grant) {
            let before = index.grant(*before);
            found.push(handed.at.found(format!(
                "{instance} hands over {} under epoch {epoch}, which {} had settled under epoch {} and then released",
                handed.name(index),
                before.instance,
                before.holder.epoch
            )));
        }
        let Some(released) = planned_release(index, grant) else {
            continue;
        };
        match handed.said {
            Some((said, settles)) if said < released => {
                if settles {
                    settled.entry(record).or_insert(grant);
                    if is_unwritten(index, handed, grant, record) && unwritten.insert(grant) {
                        found.push(released.found(format!(
                            "{instance} releases {} under epoch {epoch} without having written that {} is settled",
                            index.name(handed.shard),
                            handed.name(index)
                        )));
                    }
                }
            }
            _ => found.push(released.found(format!(
                "{instance} releases {} under epoch {epoch} while the handler of {} runs",
                index.name(handed.shard),
                handed.name(index)
            ))),
        }
    }
    found
}

/// When the release was sent that ended an acquisition before the shutdown's limit, if one did.
fn planned_release(index: &Index<'_>, grant: usize) -> Option<Moment> {
    let grant = index.grant(grant);
    let Some((_, Ended::Released(call))) = grant.ended else {
        return None;
    };
    let sent = index.calls[call].sent;
    let stopping = index
        .lives
        .get(&grant.instance)
        .and_then(|life| life.stopping);
    let is_past_limit = stopping.is_some_and(|stopping| sent.at >= stopping.at + SHUTDOWN_LIMIT);
    (!is_past_limit).then_some(sent)
}

/// Whether a record that was settled under an acquisition lies behind the checkpoint that its end left.
fn is_unwritten(index: &Index<'_>, handed: &Handed<'_>, grant: usize, record: usize) -> bool {
    let Some((ended, _)) = index.grant(grant).ended else {
        return false;
    };
    let checkpoint = index.rows.checkpoint(handed.shard, ended);
    let is_written = checkpoint.is_some_and(|at| covers(at, &handed.delivery.sequence));
    !is_written && index.fates[record].trimmed.is_none()
}

#[cfg(test)]
mod tests {
    use rstream::HandlerOutcome;

    use crate::check::Invariant::Quiet;
    use crate::check::builder::{Tale, seq};

    fn held() -> Tale {
        let mut tale = Tale::with(2);
        tale.grant(0, 0, 1);
        (1..=2).for_each(|sequence| tale.store(0, sequence));
        tale
    }

    /// Instance 0 gives the shard back, and instance 1 is handed this record.
    fn move_on(tale: &mut Tale, sequence: u64) {
        tale.release(0, 0, 1);
        tale.grant(1, 0, 2);
        tale.settle(1, 0, 2, sequence);
    }

    #[test]
    fn the_next_owner_goes_on_with_the_next_record() {
        let mut tale = held();
        tale.handle(0, 0, 1, 1);
        move_on(&mut tale, 2);
        tale.keeps(Quiet);
    }

    #[test]
    fn a_planned_move_redelivers_nothing_that_was_settled() {
        let mut tale = held();
        tale.handle(0, 0, 1, 1);
        move_on(&mut tale, 1);
        tale.breaks(
            Quiet,
            "which i0 had settled under epoch 1 and then released",
        );
    }

    #[test]
    fn a_planned_move_leaves_nothing_unwritten_though_nobody_goes_on_and_that_is_said_once() {
        let mut tale = held();
        (1..=2).for_each(|sequence| tale.settle(0, 0, 1, sequence));
        tale.release(0, 0, 1);
        tale.breaks(
            Quiet,
            "i0 releases shard 0 under epoch 1 without having written that r0 of shard 0 (1) is settled",
        );

        let mut tale = held();
        (1..=2).for_each(|sequence| tale.settle(0, 0, 1, sequence));
        tale.trim(0, &[1, 2]);
        tale.release(0, 0, 1);
        tale.keeps(Quiet);
    }

    #[test]
    fn a_planned_move_leaves_nothing_settled_behind_a_gap() {
        let mut tale = held();
        tale.plan.reading.concurrency = 2;
        tale.store_of(0, 3, "other");
        let first = tale.hand(0, 0, 1, 1);
        tale.settle(0, 0, 1, 3);
        tale.say(first, HandlerOutcome::ack());
        tale.checkpoint(0, 0, 1, seq(1));
        tale.release(0, 0, 1);
        tale.breaks(
            Quiet,
            "without having written that r2 of shard 0 (3) is settled",
        );
    }

    #[test]
    fn a_record_whose_handler_asked_for_a_retry_may_wait_for_the_next_owner() {
        let mut tale = held();
        let first = tale.hand(0, 0, 1, 1);
        tale.say(first, HandlerOutcome::retry());
        move_on(&mut tale, 1);
        tale.keeps(Quiet);
    }

    #[test]
    fn a_planned_move_cuts_no_handler_off() {
        let mut tale = held();
        tale.hand(0, 0, 1, 1);
        move_on(&mut tale, 1);
        tale.breaks(
            Quiet,
            "i0 releases shard 0 under epoch 1 while the handler of r0",
        );
    }

    #[test]
    fn a_crash_may_redeliver() {
        let mut tale = held();
        tale.settle(0, 0, 1, 1);
        tale.kill(0);
        tale.at(12.0).grant(1, 0, 2);
        tale.settle(1, 0, 2, 1);
        tale.keeps(Quiet);
    }

    #[test]
    fn past_the_limit_of_a_shutdown_handlers_are_dropped() {
        for (released_at, is_broken) in [(35.0, false), (20.0, true)] {
            let mut tale = held();
            tale.at(1.0).stop(0);
            tale.hand(0, 0, 1, 1);
            tale.at(released_at);
            move_on(&mut tale, 1);
            assert_eq!(!tale.broken(Quiet).is_empty(), is_broken, "{released_at}");
        }
    }
}
