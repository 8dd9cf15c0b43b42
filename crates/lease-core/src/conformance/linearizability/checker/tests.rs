//! Short histories, written by hand.

use std::time::Duration;

use super::*;
use crate::conformance::linearizability::history::{Answer, Call, Moment};
use crate::{Checkpoint, Holder, LeaseState, Renewal};

const TTL: Duration = Duration::from_secs(10);

fn key() -> LeaseKey {
    LeaseKey::new("inventory", "0")
}

fn holder(owner: &str, epoch: u64) -> Holder {
    let owner = owner.to_owned();
    Holder { owner, epoch }
}

fn acquire(owner: &str) -> Call {
    let owner = owner.to_owned();
    Call::Acquire { owner, ttl: TTL }
}

fn granted(owner: &str, epoch: u64) -> Option<Answer> {
    Some(Answer::Acquired(Some(holder(owner, epoch))))
}

const REFUSED: Option<Answer> = Some(Answer::Acquired(None));

fn checkpoint(owner: &str, epoch: u64, at: &str) -> Call {
    Call::Checkpoint {
        holder: holder(owner, epoch),
        at: Checkpoint::at(at),
    }
}

fn release(owner: &str, epoch: u64) -> Call {
    let holder = holder(owner, epoch);
    Call::Release { holder }
}

fn renew(owner: &str, epoch: u64) -> Call {
    let holder = holder(owner, epoch);
    Call::Renew { holder, ttl: TTL }
}

fn checkpoint_read(owner: &str, epoch: u64, at: Option<&str>) -> Option<Answer> {
    Some(Answer::State(LeaseState {
        checkpoint: at.map(Checkpoint::at),
        holder: Some(holder(owner, epoch)),
        live: true,
        expires_in: Some(TTL),
        epoch,
        ..LeaseState::default()
    }))
}

/// Calls by when they begin and end, in seconds; of two moments of one second an end comes first.
fn history(calls: &[(u64, u64, Call, Option<Answer>)]) -> Result<(), String> {
    let moment = |seconds: u64, ends: bool, index: usize| Moment {
        order: (seconds as usize * 2 + usize::from(!ends)) * 1_000 + index,
        at: Duration::from_secs(seconds),
    };
    let operations = calls.iter().enumerate();
    let operations = operations.map(|(index, (began, ended, call, answer))| Operation {
        instance: 1,
        call: call.clone(),
        began: moment(*began, false, index),
        ended: answer
            .clone()
            .map(|answer| (moment(*ended, true, index), answer)),
    });
    check(&key(), operations.collect()).map_err(|violation| violation.to_string())
}

#[test]
fn of_two_acquisitions_at_once_either_may_be_first_and_one_is_granted() {
    for (a, b) in [(granted("a", 1), REFUSED), (REFUSED, granted("b", 1))] {
        history(&[(0, 2, acquire("a"), a), (1, 3, acquire("b"), b)]).unwrap();
    }
    let both = history(&[
        (0, 2, acquire("a"), granted("a", 1)),
        (1, 3, acquire("b"), granted("b", 1)),
    ]);
    assert_eq!(
        both.unwrap_err(),
        "no order of these calls on inventory:0 explains their answers:\n   \
         0.0000 s to    2.0000 s, store 1: acquire by a: granted, a/1\n   \
         1.0000 s to    3.0000 s, store 1: acquire by b: granted, b/1\n\
         whatever was answered to 0 others until then. Without the last answer the row can be: \
         held by a/1 since 0.0000 s, no checkpoint."
    );
}

#[test]
fn a_call_that_was_sent_after_an_answer_comes_after_it() {
    let read_at = |began| {
        history(&[
            (0, 1, acquire("a"), granted("a", 1)),
            (
                1,
                4,
                checkpoint("a", 1, "5"),
                Some(Answer::Checkpointed(true)),
            ),
            (began, 6, Call::Read, checkpoint_read("a", 1, None)),
        ])
    };
    read_at(3).unwrap();
    let stale = read_at(5).unwrap_err();
    assert!(
        stale.contains("read: held by a/1, live, no checkpoint"),
        "{stale}"
    );
    assert!(
        stale.ends_with("held by a/1 since 0.0000 s, checkpoint 5."),
        "{stale}"
    );
}

#[test]
fn a_lease_expires_no_sooner_than_its_time_after_it_may_have_been_granted() {
    let taken_over = |seconds| {
        history(&[
            (0, 2, acquire("a"), granted("a", 1)),
            (3, seconds, acquire("b"), granted("b", 2)),
        ])
    };
    taken_over(10).unwrap();
    taken_over(9).unwrap_err();
}

#[test]
fn an_observer_may_find_a_lease_live_long_after_its_time() {
    history(&[
        (0, 1, acquire("a"), granted("a", 1)),
        (90, 91, acquire("b"), REFUSED),
        (92, 93, Call::Read, checkpoint_read("a", 1, None)),
    ])
    .unwrap();
}

#[test]
fn a_renewal_counts_though_nobody_heard_its_answer_or_does_not() {
    for seconds in [11, 25] {
        history(&[
            (0, 1, acquire("a"), granted("a", 1)),
            (5, 0, renew("a", 1), None),
            (8, seconds, acquire("b"), granted("b", 2)),
        ])
        .unwrap();
    }
}

#[test]
fn an_acquisition_without_an_answer_explains_what_came_of_it_at_any_time() {
    history(&[
        (0, 0, acquire("a"), None),
        (1, 2, acquire("b"), granted("b", 1)),
        (2, 3, release("b", 1), Some(Answer::Released)),
        (20, 21, acquire("b"), REFUSED),
        (22, 23, acquire("a"), granted("a", 2)),
    ])
    .unwrap();
    // But not twice.
    history(&[
        (0, 0, acquire("a"), None),
        (1, 2, acquire("a"), granted("a", 1)),
        (2, 3, acquire("a"), granted("a", 1)),
    ])
    .unwrap_err();
}

#[test]
fn checkpoints_take_effect_in_the_order_in_which_they_were_sent() {
    let read_after = |at| {
        history(&[
            (0, 1, acquire("a"), granted("a", 1)),
            (2, 0, checkpoint("a", 1, "5"), None),
            (
                3,
                4,
                checkpoint("a", 1, "6"),
                Some(Answer::Checkpointed(true)),
            ),
            (5, 6, Call::Read, checkpoint_read("a", 1, Some(at))),
        ])
    };
    read_after("6").unwrap();
    read_after("5").unwrap_err();
}

#[test]
fn whoever_lost_the_lease_changes_nothing() {
    for (call, answer) in [
        (renew("a", 1), Answer::Renewed(Renewal::Held)),
        (checkpoint("a", 1, "7"), Answer::Checkpointed(true)),
    ] {
        let late = history(&[
            (0, 1, acquire("a"), granted("a", 1)),
            (11, 12, acquire("b"), granted("b", 2)),
            (13, 14, call, Some(answer)),
        ]);
        let late = late.unwrap_err();
        assert!(late.contains("by a/1"), "{late}");
    }
}

#[test]
fn a_reservation_keeps_others_out_for_half_a_lease() {
    let acquired = |owner, seconds| {
        let ask = Call::Ask {
            owner: "b".to_owned(),
        };
        history(&[
            (0, 1, acquire("a"), granted("a", 1)),
            (2, 3, ask, Some(Answer::Asked(true))),
            (4, 5, release("a", 1), Some(Answer::Released)),
            (6, seconds, acquire(owner), granted(owner, 2)),
        ])
    };
    acquired("b", 7).unwrap();
    acquired("c", 9).unwrap();
    acquired("c", 8).unwrap_err();
}

#[test]
fn what_cannot_be_put_in_order_is_said_to_be_too_much() {
    // Calls that nobody waited for and that may have come in any order.
    let mut calls = vec![(0, 1, acquire("a"), granted("a", 1))];
    for number in 0..24 {
        calls.push((2, 0, renew("a", 1), None));
        calls.push((2, 0, checkpoint("a", 1, &number.to_string()), None));
    }
    calls.push((3, 4, Call::Read, checkpoint_read("a", 1, Some("99"))));
    let undecided = history(&calls).unwrap_err();
    assert!(
        undecided.contains("more are under way at once"),
        "{undecided}"
    );
}
