//! **Fenced.** Only the present holder changes a row: the instance that the last acquisition was granted to and that
//! has not released it, whether its lease is live or has expired. Of the calls that took effect, in their order:
//!
//! - a renewal or a checkpoint that was accepted presents the present holder, and the instance that presents it is
//!   the one to which it was granted;
//! - an acquisition is granted the epoch that follows the highest so far, in the name that was asked for, and only
//!   of a row that is released or has expired: nobody takes a live lease, nor can a release of a former holder have
//!   freed it;
//! - a call that takes effect a second time is answered as the first time while its holder has the row;
//! - a row is forgotten only when it is finished and nobody holds it; the epoch begins anew.
//!
//! Allowed: a call that takes effect a second time after the row has changed may be answered as it was the first
//! time; a release is answered alike to everybody; a repeated acquisition is refused, or answered with the lease that
//! it, or a call of the same instance whose answer was lost, was granted; a store without one clock finds a lease
//! expired later than it did. A hundredth of a second is allowed where a store rounds its clock.

use std::time::Duration;

use crate::check::Found;
use crate::check::index::Index;
use crate::check::rows::{Did, Effect};
use crate::history::Ask;

/// What a store that counts in whole milliseconds, on a clock within the documented bound, may be early by.
const ROUNDING: Duration = Duration::from_millis(10);

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    let effects = index.rows.effects.iter();
    effects
        .filter_map(|effect| Some(effect.at.found(wrong(index, effect)?)))
        .collect()
}

fn wrong(index: &Index<'_>, effect: &Effect) -> Option<String> {
    let call = &index.calls[effect.call];
    let what = format!("{} of {}", told(call.ask), index.name(call.shard?));
    let instance = call.instance;
    match effect.did {
        Did::Granted {
            grant,
            due,
            live_until,
        } => {
            let holder = index.grant(grant).holder;
            if holder.epoch != due {
                return Some(format!(
                    "{instance} is granted {what} with epoch {}; due was {due}",
                    holder.epoch
                ));
            }
            if !matches!(call.ask, Ask::Acquire { owner, .. } if *owner == holder.owner) {
                return Some(format!(
                    "{instance} is granted {what} in the name of {}",
                    holder.owner
                ));
            }
            let left = live_until?
                .checked_sub(effect.at.at + ROUNDING)
                .filter(|left| !left.is_zero())?;
            Some(format!(
                "{instance} is granted {what} with epoch {due}, although the lease before is live for {:.3} s more",
                (left + ROUNDING).as_secs_f64()
            ))
        }
        Did::Accepted { grant } => {
            let granted_to = index.grant(grant).instance;
            (granted_to != instance)
                .then(|| format!("{what} is accepted from {instance}, which presents an acquisition of {granted_to}"))
        }
        Did::AcceptedStale => {
            let present = index.rows.present(call.shard?, effect.at);
            let present = present.map_or("nobody".to_owned(), |grant| {
                let grant = index.grant(grant);
                format!("{} under epoch {}", grant.instance, grant.holder.epoch)
            });
            Some(format!(
                "{what} is accepted from {instance}, although the holder is {present}"
            ))
        }
        Did::Refused => Some(format!(
            "{what} of {instance} is refused, although nobody else holds the lease"
        )),
        Did::AnsweredOtherwise => Some(format!(
            "{what} of {instance} takes effect again, and is answered otherwise than before"
        )),
        Did::Forgot { rightly } => (!rightly).then(|| {
            format!(
                "the row of {} is forgotten, although it is held or not finished",
                index.name(call.shard.unwrap_or_default())
            )
        }),
    }
}

fn told(ask: &Ask) -> String {
    match ask {
        Ask::Acquire { .. } => "the lease".to_owned(),
        Ask::Renew { holder, .. } => format!("a renewal under epoch {}", holder.epoch),
        Ask::Checkpoint { holder, at, .. } => {
            format!("checkpoint {at} under epoch {}", holder.epoch)
        }
        Ask::Release { holder, .. } => format!("a release under epoch {}", holder.epoch),
        _ => "a call".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::check::Invariant::Fenced;
    use crate::check::builder::{Tale, end, holder, key, seq};
    use crate::history::{Answer, Ask};

    fn held() -> Tale {
        let mut tale = Tale::with(2);
        tale.at(1.0).grant(0, 0, 1);
        tale
    }

    /// As `held`, and then taken over by instance 1 under epoch 2.
    fn taken() -> Tale {
        let mut tale = held();
        tale.at(12.0).grant(1, 0, 2);
        tale
    }

    #[test]
    fn the_present_holder_is_accepted_also_when_its_lease_has_expired() {
        let mut tale = held();
        tale.at(15.0).checkpoint(0, 0, 1, seq(1));
        tale.renew(0, 0, 1);
        tale.release(0, 0, 1);
        tale.at(16.0).grant(1, 0, 2);
        tale.keeps(Fenced);
    }

    #[test]
    fn nothing_is_accepted_from_anybody_else() {
        let table = [
            Tale::position(0, 0, 1, seq(1)),
            Tale::renewal(0, 0, 1),
            Tale::renewal(1, 0, 3),
            Ask::Renew {
                key: key(0),
                holder: holder(0, 2),
            },
        ];
        for ask in table {
            let mut tale = taken();
            let call = tale.send(0, ask.clone());
            tale.took(call, Answer::No);
            tale.keeps(Fenced);
            let call = tale.send(0, ask);
            tale.took(call, Answer::Yes);
            tale.breaks(Fenced, "although the holder is i1 under epoch 2");
        }
    }

    #[test]
    fn the_present_holder_is_not_refused() {
        for ask in [Tale::position(0, 0, 1, seq(1)), Tale::renewal(0, 0, 1)] {
            let mut tale = held();
            let call = tale.send(0, ask);
            tale.took(call, Answer::No);
            tale.breaks(Fenced, "is refused, although nobody else holds the lease");
        }
    }

    #[test]
    fn nothing_is_accepted_after_a_release() {
        let mut tale = held();
        tale.release(0, 0, 1);
        tale.checkpoint(0, 0, 1, seq(1));
        tale.breaks(Fenced, "although the holder is nobody");
    }

    #[test]
    fn an_acquisition_is_presented_by_the_instance_that_it_was_granted_to() {
        let mut tale = held();
        let borrowed = Tale::position(0, 0, 1, seq(1));
        let call = tale.send(1, borrowed);
        tale.took(call, Answer::Yes);
        tale.breaks(
            Fenced,
            "accepted from i1, which presents an acquisition of i0",
        );
    }

    #[test]
    fn a_release_of_a_former_holder_is_answered_and_frees_nothing() {
        let mut tale = taken();
        tale.release(0, 0, 1);
        tale.keeps(Fenced);
        tale.at(13.0).grant(0, 0, 3);
        tale.breaks(Fenced, "is live for 9.000 s more");
    }

    #[test]
    fn a_call_that_seems_to_take_effect_just_before_it_was_sent_takes_effect() {
        let mut tale = held();
        let release = tale.send(0, Tale::giving_back(0, 0, 1));
        tale.took(release, Answer::Yes);
        let last = tale.history.events.len() - 1;
        tale.history.events.swap(last - 1, last);
        tale.at(2.0).grant(1, 0, 2);
        tale.keeps(Fenced);
    }

    #[test]
    fn a_lease_is_granted_when_it_has_run_out_and_not_before() {
        let mut tale = held();
        tale.at(4.0).renew(0, 0, 1);
        tale.at(14.0).grant(1, 0, 2);
        tale.keeps(Fenced);

        let mut tale = held();
        tale.at(4.0).renew(0, 0, 1);
        tale.at(13.9).grant(1, 0, 2);
        tale.breaks(Fenced, "is live for 0.100 s more");
    }

    #[test]
    fn epochs_grow_by_one_and_names_stay() {
        for (epoch, due) in [(1, 2), (3, 2)] {
            let mut tale = held();
            tale.at(12.0).grant(1, 0, epoch);
            tale.breaks(Fenced, &format!("with epoch {epoch}; due was {due}"));
        }
        let mut tale = held();
        let call = tale.at(12.0).send(1, Tale::acquire(1, 0));
        tale.took(call, Answer::Granted(holder(0, 2)));
        tale.breaks(Fenced, "in the name of i0");
    }

    #[test]
    fn a_repeated_acquisition_is_refused_or_answered_as_before() {
        for second in [Answer::No, Answer::Granted(holder(0, 1))] {
            let mut tale = Tale::with(1);
            let call = tale.send(0, Tale::acquire(0, 0));
            tale.took(call, Answer::Granted(holder(0, 1)));
            tale.took(call, second);
            tale.keeps(Fenced);
        }
        let mut tale = Tale::with(1);
        let call = tale.send(0, Tale::acquire(0, 0));
        tale.took(call, Answer::Granted(holder(0, 1)));
        tale.took(call, Answer::Granted(holder(0, 2)));
        tale.breaks(Fenced, "is live for");
    }

    #[test]
    fn a_call_that_takes_effect_twice_is_answered_alike_while_its_holder_has_the_row() {
        for ask in [Tale::renewal(0, 0, 1), Tale::position(0, 0, 1, seq(1))] {
            let mut tale = held();
            let call = tale.send(0, ask.clone());
            tale.took(call, Answer::Yes);
            tale.took(call, Answer::Yes);
            tale.keeps(Fenced);
            tale.took(call, Answer::No);
            tale.breaks(Fenced, "answered otherwise");

            for second in [Answer::Yes, Answer::No] {
                let mut tale = held();
                let call = tale.send(0, ask.clone());
                tale.took(call, Answer::Yes);
                tale.at(12.0).grant(1, 0, 2);
                tale.took(call, second);
                tale.keeps(Fenced);
            }
        }
    }

    #[test]
    fn a_forgotten_row_begins_anew() {
        let forget = || Ask::Forget { key: key(0) };
        let mut tale = held();
        tale.checkpoint(0, 0, 1, end());
        tale.release(0, 0, 1);
        let call = tale.send(0, forget());
        tale.took(call, Answer::Yes);
        tale.took(call, Answer::Yes);
        tale.at(60.0).grant(1, 0, 1);
        tale.keeps(Fenced);

        for is_finished in [false, true] {
            let mut tale = held();
            if is_finished {
                tale.checkpoint(0, 0, 1, end());
            }
            let call = tale.send(1, forget());
            tale.took(call, Answer::Yes);
            tale.breaks(Fenced, "the row of shard 0 is forgotten");
        }
    }
}
