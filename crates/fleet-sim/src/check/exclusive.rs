//! **Exclusive.** One reader of a shard at a time, and none that only believes to be it:
//!
//! - a record is handed over under an acquisition that the store granted to that very instance, and none is after
//!   one was handed over under a later acquisition of the shard;
//! - on one instance no more deliveries of a shard run at once than its concurrency allows, and no two of one
//!   partition key, whatever the acquisitions: an instance does not read a shard on which a handler of its earlier
//!   lease still runs;
//! - nor does one of the same partition key run under a live lease of another shard that the first comes from, or that
//!   comes from it, so that the records of a key are handled one after the other across resharding as well;
//! - when a record is handed over, or a checkpoint sent, the holder has an answer to an acquisition or a renewal of
//!   this lease that it *sent* less than a lease ago. The moments are the world's: a clock that drifts within the
//!   documented bound has to be allowed for by the product;
//! - nothing is handed over once the release has been sent.
//!
//! Not asked for, across resharding: of a record that has passed out of retention, and is still in somebody's hands.
//! Nothing waits for it: neither a shard whose parent left the listing with nobody's live lease, though its holder may
//! wake and go on, nor one to whose ancestors nothing leads any more.
//!
//! Allowed: handlers of two instances side by side, where the lease of the first was lost while its handler ran. It
//! had been handed over in time, and is let run to its end without effect.

use std::collections::HashMap;
use std::time::Duration;

use crate::check::facts::{Handed, Moment};
use crate::check::index::Index;
use crate::check::{Found, LEASE};
use crate::history::{Ask, InstanceId};

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    let released = releases_sent(index);
    let mut found = Vec::new();
    let mut newest: Vec<Option<usize>> = vec![None; index.shards.len()];
    let mut running = Running::default();
    for handed in &index.deliveries {
        let (shard, instance, epoch) = (
            handed.shard,
            handed.delivery.instance,
            handed.delivery.epoch,
        );
        let what = format!(
            "{instance} hands over {} under epoch {epoch}",
            handed.name(index)
        );
        let mut say = |why: String| found.push(handed.at.found(format!("{what}, {why}")));

        if let Some(why) = running.too_many(index, handed) {
            say(why);
        }
        let Some(grant) = handed.grant else {
            say("which was never granted".to_owned());
            continue;
        };
        if index.grant(grant).instance != instance {
            say(format!(
                "which was granted to {}",
                index.grant(grant).instance
            ));
        }
        if let Some(later) = newest[shard].filter(|later| *later > grant) {
            let later = index.grant(later);
            say(format!(
                "after {} did under epoch {}",
                later.instance, later.holder.epoch
            ));
        }
        newest[shard] = newest[shard].max(Some(grant));
        if let Some(late) = past_deadline(index, grant, handed.at) {
            say(late);
        }
        if released
            .get(&grant)
            .is_some_and(|released| *released < handed.at)
        {
            say("which it has sent a release of".to_owned());
        }
    }
    found.extend(late_checkpoints(index));
    found
}

/// The deliveries that run.
#[derive(Debug, Default)]
struct Running<'i> {
    of_reader: HashMap<(usize, InstanceId), Vec<&'i Handed<'i>>>,
    of_key: HashMap<&'i str, Vec<&'i Handed<'i>>>,
}

impl<'i> Running<'i> {
    /// Why a record should not have been handed over beside those that ran at that moment. It runs from now on.
    fn too_many(&mut self, index: &Index<'_>, handed: &'i Handed<'i>) -> Option<String> {
        let key = handed.delivery.partition_key.as_str();
        let here = self.of_reader.entry(handed.reader()).or_default();
        here.retain(|other| other.runs_at(handed.at));
        let everywhere = self.of_key.entry(key).or_default();
        everywhere.retain(|other| other.runs_at(handed.at) && !is_dropped(index, other, handed.at));

        let of_key = here
            .iter()
            .find(|other| other.delivery.partition_key == key);
        let mut elsewhere = everywhere
            .iter()
            .filter(|other| other.reader() != handed.reader());
        let concurrency = index.plan.reading.concurrency;
        let why = if let Some(other) = of_key {
            Some(format!(
                "while its handler of {} still runs",
                other.name(index)
            ))
        } else if here.len() >= concurrency {
            let last = here.last().map_or(String::new(), |last| last.name(index));
            Some(format!(
                "while its handler of {last} still runs, one of {}, and the concurrency is {concurrency}",
                here.len()
            ))
        } else {
            let is_kept = |one: &Handed<'_>| !is_trimmed(index, one, handed.at);
            let other = elsewhere.find(|other| {
                is_kept(handed) && is_kept(other) && is_live(index, other, handed.at)
            });
            other.map(|other| {
                format!(
                    "while {} has {} of the same key in a handler, under a live lease",
                    other.delivery.instance,
                    other.name(index)
                )
            })
        };
        here.push(handed);
        everywhere.push(handed);
        why
    }
}

/// Whether a record has passed out of retention by this moment.
fn is_trimmed(index: &Index<'_>, handed: &Handed<'_>, moment: Moment) -> bool {
    let trimmed = handed.record.and_then(|record| index.fates[record].trimmed);
    trimmed.is_some_and(|trimmed| trimmed < moment)
}

/// Whether a handler that has not ended went down with its instance before this moment.
fn is_dropped(index: &Index<'_>, handed: &Handed<'_>, moment: Moment) -> bool {
    let life = index.lives.get(&handed.delivery.instance);
    life.and_then(|life| life.killed)
        .is_some_and(|killed| killed < moment)
}

/// Whether the lease that a record was handed over under is live at this moment.
fn is_live(index: &Index<'_>, handed: &Handed<'_>, moment: Moment) -> bool {
    handed.grant.is_some_and(|grant| {
        let grant = index.grant(grant);
        grant.is_present(moment) && grant.live_until(moment) > moment.at
    })
}

/// When the release of each acquisition was first sent.
fn releases_sent(index: &Index<'_>) -> HashMap<usize, Moment> {
    let mut released = HashMap::new();
    for call in &index.calls {
        if let (Ask::Release { holder, .. }, Some(shard)) = (call.ask, call.shard)
            && let Some(grant) = index.rows.grant_of(shard, holder.epoch, call.sent)
        {
            released.entry(grant).or_insert(call.sent);
        }
    }
    released
}

fn late_checkpoints(index: &Index<'_>) -> impl Iterator<Item = Found> {
    index.calls.iter().filter_map(|call| {
        let Ask::Checkpoint { holder, at, .. } = call.ask else {
            return None;
        };
        let shard = call.shard?;
        let grant = index.rows.grant_of(shard, holder.epoch, call.sent)?;
        let late = past_deadline(index, grant, call.sent)?;
        let (instance, epoch) = (call.instance, holder.epoch);
        let name = index.name(shard);
        Some(call.sent.found(format!(
            "{instance} sends checkpoint {at} of {name} under epoch {epoch}, {late}"
        )))
    })
}

/// How far past its deadline the holder is.
fn past_deadline(index: &Index<'_>, grant: usize, now: Moment) -> Option<String> {
    let Some(sent) = index.grant(grant).relied_on(now) else {
        return Some("before it has heard of the grant".to_owned());
    };
    let past = now.at.checked_sub(sent + LEASE)?;
    let (past, sent) = (Duration::as_secs_f64(&past), sent.as_secs_f64());
    Some(format!(
        "{past:.3} s past its deadline: it last renewed at {sent:.3} s"
    ))
}

#[cfg(test)]
mod tests {
    use rstream::HandlerOutcome;

    use crate::check::Invariant::Exclusive;
    use crate::check::builder::{Tale, holder, seq};
    use crate::history::Answer;

    /// Instance 0 holds shard 0 under epoch 1, granted at one second, and two records are there.
    fn held() -> Tale {
        let mut tale = Tale::with(2);
        tale.store(0, 1);
        tale.store(0, 2);
        tale.at(1.0).grant(0, 0, 1);
        tale
    }

    #[test]
    fn a_reader_that_renews_in_time_is_alone() {
        let mut tale = held();
        tale.at(10.9).settle(0, 0, 1, 1);
        tale.at(10.95).renew(0, 0, 1);
        tale.at(20.9).settle(0, 0, 1, 2);
        tale.keeps(Exclusive);
    }

    #[test]
    fn a_deadline_is_a_lease_after_the_sending_of_what_was_answered_last() {
        let mut tale = held();
        tale.at(11.0).settle(0, 0, 1, 1);
        tale.breaks(
            Exclusive,
            "0.000 s past its deadline: it last renewed at 1.000 s",
        );

        let mut tale = held();
        let renewal = Tale::renewal(0, 0, 1);
        let call = tale.at(4.0).send(0, renewal);
        tale.at(8.0).took(call, Answer::Yes);
        tale.at(12.0).answered(call, Answer::Yes);
        tale.at(13.9).settle(0, 0, 1, 1);
        tale.keeps(Exclusive);
        tale.at(14.5).settle(0, 0, 1, 2);
        tale.breaks(
            Exclusive,
            "0.500 s past its deadline: it last renewed at 4.000 s",
        );
    }

    #[test]
    fn a_renewal_that_nobody_heard_of_moves_no_deadline() {
        for answer in [
            None,
            Some(Answer::Failed("lost".to_owned())),
            Some(Answer::No),
        ] {
            let mut tale = held();
            let call = tale.at(4.0).send(0, Tale::renewal(0, 0, 1));
            tale.took(call, Answer::Yes);
            if let Some(answer) = answer {
                tale.answered(call, answer);
            }
            tale.at(12.0).settle(0, 0, 1, 1);
            tale.breaks(Exclusive, "1.000 s past its deadline");
        }
    }

    #[test]
    fn a_late_grant_is_of_no_use_before_a_renewal() {
        let mut tale = Tale::with(1);
        tale.store(0, 1);
        let call = tale.send(0, Tale::acquire(0, 0));
        tale.took(call, Answer::Granted(holder(0, 1)));
        tale.at(5.0).settle(0, 0, 1, 1);
        tale.breaks(Exclusive, "before it has heard of the grant");
    }

    #[test]
    fn nothing_is_handed_over_under_an_epoch_that_is_no_more_or_never_was() {
        let mut tale = held();
        tale.at(12.0).grant(1, 0, 2);
        tale.settle(1, 0, 2, 1);
        tale.at(13.0).renew(0, 0, 1);
        tale.settle(0, 0, 1, 2);
        tale.breaks(Exclusive, "after i1 did under epoch 2");

        let mut tale = held();
        tale.settle(0, 0, 7, 1);
        tale.breaks(Exclusive, "which was never granted");

        let mut tale = held();
        tale.settle(1, 0, 1, 1);
        tale.breaks(Exclusive, "which was granted to i0");
    }

    #[test]
    fn a_handler_may_outlive_its_lease_on_one_instance_while_another_reads() {
        let mut tale = held();
        let slow = tale.hand(0, 0, 1, 1);
        tale.at(12.0).grant(1, 0, 2);
        tale.settle(1, 0, 2, 1);
        tale.at(13.0).say(slow, HandlerOutcome::ack());
        tale.keeps(Exclusive);
    }

    #[test]
    fn deliveries_of_a_shard_do_not_overlap_on_one_instance_whatever_the_epoch() {
        let mut tale = held();
        tale.hand(0, 0, 1, 1);
        tale.at(2.0).hand(0, 0, 1, 2);
        tale.breaks(Exclusive, "while its handler of r0");

        let mut tale = held();
        let slow = tale.hand(0, 0, 1, 1);
        tale.at(12.0).grant(0, 0, 2);
        tale.hand(0, 0, 2, 1);
        tale.at(13.0).say(slow, HandlerOutcome::ack());
        tale.breaks(Exclusive, "while its handler of r0");
    }

    #[test]
    fn with_concurrency_so_many_records_of_a_shard_are_in_hand_and_no_more() {
        let mut tale = held();
        tale.plan.reading.concurrency = 2;
        for sequence in 3..=5 {
            tale.store_of(0, sequence, &format!("k{sequence}"));
        }
        let first = tale.hand(0, 0, 1, 1);
        tale.hand(0, 0, 1, 3);
        tale.say(first, HandlerOutcome::ack());
        tale.hand(0, 0, 1, 4);
        tale.keeps(Exclusive);
        tale.hand(0, 0, 1, 5);
        tale.breaks(
            Exclusive,
            "while its handler of r3 of shard 0 (4) still runs, one of 2, and the concurrency is 2",
        );
    }

    #[test]
    fn with_concurrency_two_records_of_one_key_are_not_in_hand_together() {
        let mut tale = held();
        tale.plan.reading.concurrency = 16;
        tale.hand(0, 0, 1, 1);
        tale.hand(0, 0, 1, 2);
        tale.breaks(
            Exclusive,
            "while its handler of r0 of shard 0 (1) still runs",
        );
    }

    /// Instance 0 works on a record of shard 0 when instance 1 is handed one of the same key from its child.
    fn of_two_shards(between: impl FnOnce(&mut Tale)) -> Tale {
        let mut tale = held();
        tale.shard(1, &[0]);
        tale.store(1, 10);
        tale.hand(0, 0, 1, 1);
        between(&mut tale);
        tale.grant(1, 1, 1);
        tale.hand(1, 1, 1, 10);
        tale
    }

    #[test]
    fn a_key_has_one_record_in_hand_across_shards_while_the_lease_of_the_first_is_live() {
        of_two_shards(|_| {}).breaks(
            Exclusive,
            "while i0 has r0 of shard 0 (1) of the same key in a handler, under a live lease",
        );
        of_two_shards(|tale| tale.kill(0)).keeps(Exclusive);
        of_two_shards(|tale| {
            tale.at(11.5);
        })
        .keeps(Exclusive);
        of_two_shards(|tale| tale.release(0, 0, 1)).keeps(Exclusive);
    }

    #[test]
    fn nothing_waits_for_a_record_that_has_passed_out_of_retention() {
        of_two_shards(|tale| tale.trim(0, &[1])).keeps(Exclusive);
        of_two_shards(|tale| tale.trim(1, &[10])).keeps(Exclusive);
        let other = of_two_shards(|tale| tale.trim(0, &[2])).broken(Exclusive);
        assert_eq!(other.len(), 1, "{other:?}");
    }

    #[test]
    fn nothing_is_handed_over_once_the_release_is_sent() {
        let mut tale = held();
        tale.send(0, Tale::giving_back(0, 0, 1));
        tale.settle(0, 0, 1, 1);
        tale.breaks(Exclusive, "which it has sent a release of");
    }

    #[test]
    fn a_checkpoint_is_not_sent_past_the_deadline() {
        let mut tale = held();
        tale.settle(0, 0, 1, 1);
        tale.at(10.9).checkpoint(0, 0, 1, seq(1));
        tale.keeps(Exclusive);
        tale.at(11.1).checkpoint(0, 0, 1, seq(1));
        tale.breaks(
            Exclusive,
            "i0 sends checkpoint 1 of shard 0 under epoch 1, 0.100 s past",
        );
    }
}
