//! What comes of one call of the handler: how many of the records it was given are settled, and what becomes of
//! the rest. It decides by the subscription's policy and touches nothing.

use std::borrow::Cow;
use std::time::Duration;

use rstream::broker::{OnUndecodable, Policy, Settlement, Verdict};

/// What a call of the handler said of the records that it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The first so many are handled; the others are to be tried again.
    Handled(usize),
    /// They are of no use.
    Drop,
    /// They are to be dead letters, for this reason.
    DeadLetter(Cow<'static, str>),
    /// They are to be tried again, after this long or as the policy has it, for this reason.
    Retry {
        after: Option<Duration>,
        reason: Cow<'static, str>,
    },
}

impl Said {
    pub(crate) fn by(verdict: Verdict, given: usize) -> Self {
        match verdict {
            Verdict::Outcome(outcome) => match outcome.settlement() {
                Settlement::Ack => Self::Handled(given),
                Settlement::AckUntil(handled) => Self::Handled(*handled),
                Settlement::Drop => Self::Drop,
                Settlement::DeadLetter { reason } => Self::DeadLetter(reason.clone()),
                Settlement::Retry { after } => Self::Retry {
                    after: *after,
                    reason: "the handler asked for a retry".into(),
                },
                // An outcome of a later version of rstream: trying again loses nothing.
                _ => Self::retry("the handler's outcome is not understood"),
            },
            Verdict::Panicked(message) => Self::retry(format!("the handler panicked: {message}")),
            Verdict::Undecodable(error) => Self::retry(error.to_string()),
            _ => Self::retry("the handler's verdict is not understood"),
        }
    }

    /// A retry without a pause of the handler's own.
    pub(crate) fn retry(reason: impl Into<Cow<'static, str>>) -> Self {
        let reason = reason.into();
        Self::Retry {
            after: None,
            reason,
        }
    }
}

/// What is to be done after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// So many records, from the first on, are handled.
    pub(crate) handled: usize,
    /// What becomes of those behind them.
    pub(crate) then: Then,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing is decided of them: they are handed over as if for the first time.
    Afresh,
    /// The next so many are settled unhandled.
    Drop(usize),
    /// The next so many are dead letters.
    DeadLetter {
        records: usize,
        reason: Cow<'static, str>,
    },
    /// They are handed over again.
    Again(Again),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Again {
    pub(crate) pause: Duration,
    /// Each alone, so that it shows which of them fails.
    pub(crate) alone: bool,
    /// They ought to be dead letters, for this reason, and there is no place for any.
    pub(crate) for_want_of_a_place: Option<Cow<'static, str>>,
}

/// Judges attempt number `attempt` on `given` records. `random` is drawn evenly from 0 to 1.
pub(crate) fn judge(
    policy: &Policy,
    said: Said,
    given: usize,
    attempt: u32,
    random: f64,
) -> Judgement {
    let nothing_handled = |then| Judgement { handled: 0, then };
    match said {
        Said::Handled(handled) if handled >= given => Judgement {
            handled: given,
            then: Then::Afresh,
        },
        Said::Handled(0) => judge(
            policy,
            Said::retry("the handler handled none"),
            given,
            attempt,
            random,
        ),
        // The record behind the handled ones has failed for the first time.
        Said::Handled(handled) => Judgement {
            handled,
            then: failed(
                policy,
                1,
                1,
                None,
                "the handler did not get past it".into(),
                random,
            ),
        },
        Said::Drop => nothing_handled(Then::Drop(given)),
        Said::DeadLetter(reason) if policy.dead_letter.is_some() => {
            nothing_handled(Then::DeadLetter {
                records: given,
                reason,
            })
        }
        Said::DeadLetter(reason) => nothing_handled(Then::Again(Again {
            pause: policy.retry.pause(attempt, random),
            alone: false,
            for_want_of_a_place: Some(reason),
        })),
        Said::Retry { after, reason } => {
            nothing_handled(failed(policy, given, attempt, after, reason, random))
        }
    }
}

/// Judges a record that cannot be decoded, which the handler was not given.
pub(crate) fn judge_undecodable(
    policy: &Policy,
    reason: impl FnOnce() -> Cow<'static, str>,
    attempt: u32,
    random: f64,
) -> Then {
    match policy.on_undecodable {
        OnUndecodable::Retry => failed(policy, 1, attempt, None, reason(), random),
        OnUndecodable::DeadLetter if policy.dead_letter.is_some() => Then::DeadLetter {
            records: 1,
            reason: reason(),
        },
        _ => Then::Drop(1),
    }
}

fn failed(
    policy: &Policy,
    given: usize,
    attempt: u32,
    after: Option<Duration>,
    reason: Cow<'static, str>,
    random: f64,
) -> Then {
    let is_last = policy.retry.is_last(attempt);
    if is_last && given == 1 && policy.dead_letter.is_some() {
        return Then::DeadLetter { records: 1, reason };
    }
    Then::Again(Again {
        pause: after.unwrap_or_else(|| policy.retry.pause(attempt, random)),
        alone: is_last && policy.dead_letter.is_some(),
        for_want_of_a_place: (is_last && policy.dead_letter.is_none()).then_some(reason),
    })
}

#[cfg(test)]
mod tests {
    use rstream::{HandlerOutcome, RetryPolicy};

    use super::*;

    fn policy() -> Policy {
        let mut policy = Policy::default();
        policy.retry = RetryPolicy::fixed(Duration::from_secs(1)).max_attempts(3);
        policy
    }

    fn with_dead_letters() -> Policy {
        let mut policy = policy();
        policy.dead_letter = Some("dead".to_owned());
        policy
    }

    fn said(outcome: HandlerOutcome, given: usize) -> Said {
        Said::by(Verdict::Outcome(outcome), given)
    }

    #[test]
    fn what_is_acknowledged_is_handled() {
        for outcome in [
            HandlerOutcome::ack(),
            HandlerOutcome::ack_until(4),
            HandlerOutcome::ack_until(9),
        ] {
            let judgement = judge(&policy(), said(outcome, 4), 4, 1, 0.0);
            assert_eq!(
                judgement,
                Judgement {
                    handled: 4,
                    then: Then::Afresh
                }
            );
        }
    }

    #[test]
    fn what_is_dropped_is_settled_whole() {
        let judgement = judge(&policy(), said(HandlerOutcome::drop(), 4), 4, 1, 0.0);
        assert_eq!(
            judgement,
            Judgement {
                handled: 0,
                then: Then::Drop(4)
            }
        );
    }

    #[test]
    fn a_retry_waits_as_the_policy_says_or_as_the_handler_does() {
        for (outcome, pause) in [
            (HandlerOutcome::retry(), 1),
            (HandlerOutcome::ack_until(0), 1),
            (HandlerOutcome::retry_after(Duration::from_secs(7)), 7),
        ] {
            let judgement = judge(&policy(), said(outcome, 1), 1, 2, 0.0);
            assert_eq!(judgement.handled, 0);
            let Then::Again(again) = judgement.then else {
                panic!("{judgement:?}")
            };
            assert_eq!(again.pause, Duration::from_secs(pause));
            assert_eq!((again.alone, again.for_want_of_a_place), (false, None));
        }
    }

    #[test]
    fn the_last_attempt_makes_a_dead_letter_with_the_reason() {
        let panicked = Said::by(Verdict::Panicked("of fright".to_owned()), 1);
        let judgement = judge(&with_dead_letters(), panicked, 1, 3, 0.0);
        let Then::DeadLetter { records: 1, reason } = judgement.then else {
            panic!("{judgement:?}")
        };
        assert_eq!(reason, "the handler panicked: of fright");
    }

    #[test]
    fn the_last_attempt_on_a_batch_leads_to_each_alone() {
        let judgement = judge(
            &with_dead_letters(),
            said(HandlerOutcome::retry(), 5),
            5,
            3,
            0.0,
        );
        let Then::Again(again) = judgement.then else {
            panic!("{judgement:?}")
        };
        assert!(again.alone);
    }

    #[test]
    fn without_a_place_for_dead_letters_it_goes_on_and_says_so() {
        for outcome in [
            HandlerOutcome::retry(),
            HandlerOutcome::dead_letter("no such sku"),
        ] {
            let judgement = judge(&policy(), said(outcome, 1), 1, 3, 0.0);
            let Then::Again(again) = judgement.then else {
                panic!("{judgement:?}")
            };
            assert!(again.for_want_of_a_place.is_some() && !again.alone);
        }
    }

    #[test]
    fn a_batch_that_is_handled_in_part_has_failed_once_at_the_record_behind() {
        let judgement = judge(
            &with_dead_letters(),
            said(HandlerOutcome::ack_until(2), 5),
            5,
            3,
            0.0,
        );
        assert_eq!(judgement.handled, 2);
        assert!(
            matches!(judgement.then, Then::Again(Again { alone: false, .. })),
            "{judgement:?}"
        );

        let mut once = with_dead_letters();
        once.retry = once.retry.max_attempts(1);
        let judgement = judge(&once, said(HandlerOutcome::ack_until(2), 5), 5, 1, 0.0);
        assert!(
            matches!(judgement.then, Then::DeadLetter { records: 1, .. }),
            "{judgement:?}"
        );
    }

    #[test]
    fn what_cannot_be_decoded_follows_the_policy() {
        let mut policy = with_dead_letters();
        let judge =
            |policy: &Policy, attempt| judge_undecodable(policy, || "why".into(), attempt, 0.0);
        assert_eq!(judge(&policy, 1), Then::Drop(1));
        policy.on_undecodable = OnUndecodable::Retry;
        assert!(matches!(judge(&policy, 1), Then::Again(_)));
        assert!(matches!(judge(&policy, 3), Then::DeadLetter { .. }));
        policy.on_undecodable = OnUndecodable::DeadLetter;
        assert!(matches!(judge(&policy, 1), Then::DeadLetter { .. }));
    }
}
