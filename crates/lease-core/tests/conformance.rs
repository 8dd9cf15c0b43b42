//! The suite itself: it passes what keeps the contract, on a store without clocks and over a slow
//! network as well, and catches each rule that is broken.

#![cfg(feature = "conformance")]

mod observing;

use std::sync::Arc;
use std::time::Duration;

use lease_core::conformance::{CASES, Case, Subject, Violation, run_all};
use lease_core::{
    Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal, async_trait,
};
use observing::{Fault, ObservingStore, Table};

const QUICK: Duration = Duration::from_millis(2);

/// Which calls overtake which.
const SEEDS: std::ops::Range<usize> = 0..7;

/// Two instances on one table.
fn instances(latency: Duration, seed: usize, fault: Option<Fault>) -> [ObservingStore; 2] {
    let table = Arc::new(Table::default());
    [(); 2].map(|()| ObservingStore::new(&table, latency, seed, fault))
}

async fn check(case: Case) -> Result<(), Violation> {
    for seed in SEEDS {
        let [one, other] = instances(QUICK, seed, None);
        case.run(&Subject::new(&one).other_instance(&other)).await?;
    }
    Ok(())
}

lease_core::conformance_tests!(
    #[tokio::test(start_paused = true)]
    check
);

#[tokio::test(start_paused = true)]
async fn each_broken_rule_is_caught_by_the_case_that_is_named_after_it() {
    let table = [
        (
            Fault::AcceptsAnyEpoch,
            "an_earlier_acquisition_of_the_same_owner_changes_nothing",
        ),
        (
            Fault::AcceptsAnyOwner,
            "owner_and_epoch_must_both_be_the_present_holders",
        ),
        (
            Fault::AcceptsNoName,
            "an_owner_without_a_name_and_a_lease_without_a_time_are_refused",
        ),
        (
            Fault::AcceptsNoTime,
            "an_owner_without_a_name_and_a_lease_without_a_time_are_refused",
        ),
        (
            Fault::AdoptsItsOwnName,
            "a_live_lease_is_refused_to_others_and_to_its_own_name",
        ),
        (
            Fault::AskIsNotTold,
            "an_ask_reaches_the_holder_with_its_next_renewal",
        ),
        (
            Fault::AskNeverLapses,
            "an_ask_that_is_not_made_again_lapses",
        ),
        (
            Fault::AskOfAFinishedShard,
            "only_what_another_holds_is_asked_for",
        ),
        (Fault::AskReplacesTheAsker, "one_asks_at_a_time"),
        (
            Fault::AskReplacesTheAsker,
            "one_of_sixteen_that_race_to_ask_wins",
        ),
        (Fault::AskSurvivesATakeOver, "a_take_over_ends_the_ask"),
        (Fault::CheckpointRenews, "a_checkpoint_renews_nothing"),
        (
            Fault::CheckpointsLandLate,
            "a_checkpoint_that_lands_late_changes_nothing",
        ),
        (
            Fault::CheckpointsLandLate,
            "checkpoints_that_race_end_at_the_one_sent_last",
        ),
        (
            Fault::CheckpointsLandLate,
            "a_cancelled_checkpoint_never_undoes_a_later_one",
        ),
        (
            Fault::NumbersCheckpointsAsTheyAreMade,
            "a_checkpoint_is_sent_when_it_is_first_polled",
        ),
        (
            Fault::CheckpointOrderOutlivesTheHolder,
            "the_order_of_checkpoints_begins_anew_with_each_acquisition",
        ),
        (
            Fault::ComparesSequenceNumbers,
            "no_sequence_numbers_are_compared",
        ),
        (
            Fault::EpochRestartsAfterRelease,
            "epochs_outlive_release_and_expiry",
        ),
        (
            Fault::EpochStaysAtATakeOver,
            "an_expired_lease_is_taken_over",
        ),
        (
            Fault::ExpiredHolderIsLost,
            "an_expired_lease_that_nobody_took_is_still_its_holders",
        ),
        (
            Fault::ForgetsHeldShards,
            "a_shard_that_is_held_or_unfinished_is_not_forgotten",
        ),
        (
            Fault::ForgetsUnfinishedShards,
            "a_shard_that_is_held_or_unfinished_is_not_forgotten",
        ),
        (
            Fault::ForgetOfNothingIsRefused,
            "a_finished_shard_that_nobody_holds_is_forgotten",
        ),
        (
            Fault::GrantsWithoutACondition,
            "one_of_sixteen_that_race_for_a_free_shard_wins",
        ),
        (
            Fault::GrantsWithoutACondition,
            "one_of_sixteen_that_race_for_an_expired_lease_wins",
        ),
        (
            Fault::GrantsWithoutACondition,
            "a_late_renewal_and_an_acquisition_do_not_both_succeed",
        ),
        (
            Fault::IgnoresTheStream,
            "the_same_shard_of_two_streams_is_two_leases",
        ),
        (
            Fault::LosesCheckpointsAtATakeOver,
            "checkpoints_outlive_an_expiry",
        ),
        (
            Fault::LosesCheckpointsAtRelease,
            "checkpoints_outlive_a_release",
        ),
        (
            Fault::LosesCheckpointsAtRelease,
            "a_shard_that_was_read_to_its_end_reads_as_finished",
        ),
        (Fault::NeverExpires, "an_expired_lease_is_taken_over"),
        (Fault::NeverExpires, "a_lease_that_nobody_renews_expires"),
        (
            Fault::ReadAllInOrderOfKeys,
            "thousands_of_keys_are_read_in_their_order",
        ),
        (
            Fault::ReadAllOfAHundred,
            "thousands_of_keys_are_read_in_their_order",
        ),
        (
            Fault::ReadAllInOrderOfKeys,
            "no_keys_and_repeated_keys_are_answered_one_for_one",
        ),
        (
            Fault::ReadsFromAReplica,
            "a_read_shows_what_was_answered_before_it",
        ),
        (
            Fault::ReleasesForAnybody,
            "a_holder_whose_lease_was_taken_over_changes_nothing",
        ),
        (
            Fault::ReleasingTwiceFails,
            "a_call_sent_twice_answers_as_it_did",
        ),
        (
            Fault::ReleasingTwiceFails,
            "a_holder_that_released_changes_nothing",
        ),
        (
            Fault::RenewalDoesNotProlong,
            "a_renewed_lease_outlives_its_first_ttl",
        ),
        (
            Fault::DropsSubSequenceNumbers,
            "a_checkpoint_of_any_form_reads_back_as_it_was",
        ),
        (Fault::ReservesForEver, "a_reservation_runs_out"),
        (
            Fault::ReservesNothing,
            "a_release_reserves_the_shard_for_its_asker",
        ),
        (
            Fault::RoundsTimestamps,
            "a_checkpoint_of_any_form_reads_back_as_it_was",
        ),
        (Fault::SightingsStartAnew, "an_expired_lease_is_taken_over"),
    ];
    for (fault, name) in table {
        let case = CASES.iter().find(|case| case.name() == name).unwrap();
        let mut caught = None;
        for seed in SEEDS {
            let [one, other] = instances(QUICK, seed, Some(fault));
            let subject = Subject::new(&one).other_instance(&other);
            caught = caught.or(case.run(&subject).await.err());
        }
        let Some(violation) = caught else {
            panic!("{name} does not notice {fault:?}");
        };
        assert_eq!(violation.case(), Some(name));
        let text = violation.to_string();
        assert!(text.starts_with(&format!("{name}: ")), "{text}");
        assert!(!text.contains("inconclusive"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_expires_before_its_time_is_caught() {
    // Through one instance, which counts from its own acquisition and not from a later sighting.
    let [store, _] = instances(Duration::ZERO, 0, Some(Fault::ExpiresEarly));
    let caught = names(&run_all(&Subject::new(&store)).await);
    assert!(caught.contains(&"an_expired_lease_is_taken_over"));
    assert!(caught.contains(&"a_lease_that_nobody_renews_expires"));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_now_and_then_passes() {
    // A call takes up to 510 ms, so that many an attempt takes longer than its lease.
    let [one, other] = instances(Duration::from_millis(150), 0, None);
    let subject = Subject::new(&one).other_instance(&other);
    let subject = subject.ttl(Duration::from_secs(6));
    let violations = run_all(&subject).await;
    assert!(violations.is_empty(), "{violations:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slower_than_its_leases_is_not_accused_but_told() {
    let [one, other] = instances(Duration::from_secs(4), 0, None);
    let subject = Subject::new(&one).other_instance(&other);
    let violations = run_all(&subject).await;
    assert!(!violations.is_empty());
    for violation in violations {
        let text = violation.to_string();
        assert!(text.contains("of 5 attempts"), "{text}");
        assert!(text.contains("a longer ttl may help"), "{text}");
    }
}

/// A store of five calls, the other three as provided.
#[derive(Debug)]
struct FiveCalls(ObservingStore);

#[async_trait]
impl LeaseStore for FiveCalls {
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        self.0.acquire(key, owner, ttl).await
    }

    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        self.0.renew(key, holder, ttl).await
    }

    async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        self.0.checkpoint(key, holder, at).await
    }

    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        self.0.read(key).await
    }

    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        self.0.release(key, holder).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_of_five_calls_passes_once_it_says_so() {
    let [one, other] = instances(QUICK, 0, None).map(FiveCalls);
    let subject = Subject::new(&one).other_instance(&other);
    let subject = subject.without_hand_over().without_forgetting();
    let violations = run_all(&subject).await;
    assert!(violations.is_empty(), "{violations:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_of_five_calls_is_told_what_it_lacks() {
    let [one, other] = instances(QUICK, 0, None).map(FiveCalls);
    let caught = names(&run_all(&Subject::new(&one).other_instance(&other)).await);
    assert!(caught.contains(&"an_ask_reaches_the_holder_with_its_next_renewal"));
    assert!(caught.contains(&"a_finished_shard_that_nobody_holds_is_forgotten"));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hands_over_cannot_claim_that_it_does_not() {
    let [one, other] = instances(QUICK, 0, None);
    let subject = Subject::new(&one).other_instance(&other);
    let caught = names(&run_all(&subject.without_hand_over().without_forgetting()).await);
    assert!(caught.contains(&"one_asks_at_a_time"));
    assert!(caught.contains(&"a_finished_shard_that_nobody_holds_is_forgotten"));
}

fn names(violations: &[Violation]) -> Vec<&'static str> {
    violations.iter().filter_map(Violation::case).collect()
}
