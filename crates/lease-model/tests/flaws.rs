//! Each rule that is left out breaks a promise, and the model finds the history.

use lease_model::{Flaw, explore};

fn is_found(flaw: Flaw) {
    let explored = explore(&flaw.world());
    let Some(finding) = explored.finding else {
        panic!("{flaw:?} is not found in {} states", explored.states);
    };
    assert_eq!(finding.invariant, flaw.breaks());
    assert_eq!(finding.history.len(), explored.depth);
}

#[test]
fn a_holder_past_its_deadline_must_hand_over_nothing() {
    is_found(Flaw::DeadlineIgnored);
}

#[test]
fn a_deadline_must_be_counted_from_the_sending() {
    is_found(Flaw::DeadlineFromArrival);
}

#[test]
fn an_expiry_must_be_counted_from_the_arrival() {
    is_found(Flaw::ExpiryFromSent);
}

#[test]
fn an_answer_that_shows_nothing_new_must_not_begin_the_count_anew() {
    is_found(Flaw::EachAnswerStartsAnew);
}

#[test]
fn a_take_over_must_check_the_counter() {
    is_found(Flaw::TakeOverWithoutCounter);
}

#[test]
fn a_renewal_must_raise_the_counter() {
    is_found(Flaw::RenewalCountsNothing);
}

#[test]
fn a_take_over_must_raise_the_epoch() {
    is_found(Flaw::EpochStays);
}

#[test]
fn a_free_lease_must_be_taken_under_the_epoch_that_was_seen() {
    is_found(Flaw::FreeWithoutEpoch);
}

#[test]
fn a_renewal_must_check_the_epoch() {
    is_found(Flaw::RenewWithoutEpoch);
}

#[test]
fn a_checkpoint_must_check_the_epoch() {
    is_found(Flaw::CheckpointWithoutEpoch);
}

#[test]
fn a_release_must_check_the_epoch() {
    is_found(Flaw::ReleaseWithoutEpoch);
}

#[test]
fn a_checkpoint_must_be_numbered() {
    is_found(Flaw::CheckpointWithoutNumber);
}

#[test]
fn the_numbers_of_checkpoints_must_begin_anew_with_each_grant() {
    is_found(Flaw::NumberOutlivesItsGrant);
}

#[test]
fn a_lease_must_be_adopted_by_its_token_alone() {
    is_found(Flaw::AdoptionWithoutToken);
}

#[test]
fn an_adopted_lease_must_be_renewed_before_it_is_read() {
    is_found(Flaw::AdoptedIsReadAtOnce);
}

#[test]
fn a_vanished_row_must_be_waited_for() {
    is_found(Flaw::VanishedIsNotWaitedFor);
}

#[test]
fn a_vanished_row_must_be_its_holders_own_for_its_own_lease_alone() {
    is_found(Flaw::VanishedIsItsOwnForEver);
}

#[test]
fn an_acquisition_of_a_released_row_must_not_take_an_absent_one() {
    is_found(Flaw::VanishedRowIsFree);
}

#[test]
fn a_shard_must_be_opened_where_it_stands_after_the_grant() {
    is_found(Flaw::OpensWhereItStoodBefore);
}

#[test]
fn a_shard_must_not_be_opened_at_a_tip_of_its_own() {
    is_found(Flaw::OpensAtTheTip);
}

#[test]
fn only_what_is_settled_must_be_checkpointed() {
    is_found(Flaw::CheckpointsUnsettled);
}

#[test]
fn a_reservation_must_run_out() {
    is_found(Flaw::ReservationForEver);
}

#[test]
fn a_row_must_not_be_deleted_by_hand_before_everybody_saw_it() {
    is_found(Flaw::DeletesAnUnseenRow);
}

#[test]
fn a_row_must_not_be_deleted_by_hand_under_a_first_call() {
    is_found(Flaw::DeletesUnderAFirstCall);
}

#[test]
fn a_row_must_not_be_forgotten_under_a_call() {
    is_found(Flaw::ForgetsUnderACall);
}

#[test]
fn a_world_in_which_a_flaw_shows_keeps_every_promise_without_it() {
    for flaw in [
        Flaw::DeadlineIgnored,
        Flaw::AdoptionWithoutToken,
        Flaw::VanishedRowIsFree,
    ] {
        let mut world = flaw.world();
        world.flaw = None;
        world.renewals = 0;
        assert_eq!(explore(&world).finding, None, "{flaw:?}");
    }
}

#[test]
fn a_history_is_told_in_words() {
    let finding = explore(&Flaw::CheckpointWithoutNumber.world()).finding;
    let history = finding.unwrap().history;
    assert_eq!(
        history[3..],
        [
            "A sends read",
            "the answer to A's read arrives: it goes on after record 0",
            "A hands over record 1, under epoch 1",
            "A settles record 1",
            "A sends checkpoint 1 (cp_no 1) (owner a, epoch 1)",
            "no answer to A's checkpoint 1 (cp_no 1) (owner a, epoch 1) ever arrives",
            "A hands over record 2, under epoch 1",
            "A settles record 2",
            "A sends checkpoint 2 (cp_no 2) (owner a, epoch 1)",
            "A's checkpoint 2 (cp_no 2) (owner a, epoch 1) takes effect: checkpoint 2",
            "A's checkpoint 1 (cp_no 1) (owner a, epoch 1) takes effect: checkpoint 1",
        ]
    );
}
