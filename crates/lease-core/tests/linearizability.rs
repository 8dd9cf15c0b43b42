//! The checker of histories sees what is broken, and says so in few words.

#![cfg(feature = "conformance")]
#![expect(clippy::unwrap_used, reason = "a failed call fails the test")]

#[expect(dead_code, reason = "some rules are for the other tests alone")]
mod observing;

use std::sync::Arc;
use std::time::Duration;

use lease_core::conformance::linearizability::{History, Recorder};
use lease_core::conformance::{CASES, Case, Subject};
use lease_core::{Checkpoint, LeaseKey, LeaseStore};
use observing::{Fault, ObservingStore, Table};

const LATENCY: Duration = Duration::from_millis(2);
const TTL: Duration = Duration::from_secs(2);

fn instances(seed: usize, fault: Option<Fault>) -> [ObservingStore; 2] {
    let table = Arc::new(Table::default());
    [(); 2].map(|()| ObservingStore::new(&table, LATENCY, seed, fault))
}

/// The cases that check histories.
fn cases() -> impl Iterator<Item = &'static Case> {
    CASES
        .iter()
        .filter(|case| case.name().starts_with("calls_"))
}

/// What the first of them says that notices this fault.
async fn said_of(fault: Fault) -> Option<String> {
    for seed in 0..7 {
        for case in cases() {
            let [one, other] = instances(seed, Some(fault));
            let subject = Subject::new(&one).other_instance(&other);
            if let Err(violation) = case.run(&subject).await {
                return Some(violation.to_string());
            }
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn each_broken_rule_is_told_by_the_answer_that_cannot_be() {
    let table = [
        (Fault::AcceptsAnyEpoch, "by a"),
        (Fault::AcceptsAnyOwner, "by a"),
        (Fault::AdoptsItsOwnName, ": acquire by a: granted, a/1"),
        (Fault::AskIsNotTold, ": held"),
        (Fault::AskReplacesTheAsker, ": ask by"),
        (Fault::AskSurvivesATakeOver, "asked for by"),
        (Fault::CheckpointsLandLate, "checkpoint"),
        (Fault::ComparesSequenceNumbers, "checkpoint"),
        (Fault::DropsSubSequenceNumbers, "1:"),
        (Fault::EpochRestartsAfterRelease, ": acquire by"),
        (Fault::EpochStaysAtATakeOver, ": acquire by"),
        (Fault::ExpiresEarly, ": acquire by"),
        (Fault::ForgetsHeldShards, ": forget: true"),
        (Fault::ForgetsUnfinishedShards, ": forget: true"),
        (Fault::GrantsWithoutACondition, ": granted"),
        (Fault::LosesCheckpointsAtATakeOver, "no checkpoint"),
        (Fault::LosesCheckpointsAtRelease, "no checkpoint"),
        (Fault::ReadAllInOrderOfKeys, ": read: "),
        (Fault::ReadsFromAReplica, ": read: "),
        (Fault::ReleasesForAnybody, ": acquire by"),
        (Fault::RenewalDoesNotProlong, ": acquire by"),
        (Fault::ReservesNothing, ": acquire by"),
        (Fault::RoundsTimestamps, "AT_TIMESTAMP:"),
    ];
    for (fault, answer) in table {
        let Some(said) = said_of(fault).await else {
            panic!("nobody notices {fault:?}");
        };
        let (_, told) = said
            .split_once("explains their answers:\n")
            .unwrap_or_else(|| panic!("{fault:?} is not told: {said}"));
        assert!(told.contains(answer), "{fault:?}: {said}");
        let calls = told.lines().filter(|line| line.contains(" s to ")).count();
        assert!(calls <= 12, "{fault:?} takes {calls} calls to tell: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_loses_answers_is_explained() {
    for seed in 0..7 {
        let [one, other] = instances(seed, None);
        for case in cases() {
            let subject = Subject::new(&one).other_instance(&other);
            case.run(&subject).await.unwrap();
        }
    }
}

/// Tasks of their own that use recorded instances of a store.
async fn recorded(fault: Option<Fault>) -> History {
    let history = History::new();
    let [one, other] = instances(0, fault).map(|store| Recorder::new(store, &history));
    let key = LeaseKey::new("inventory", "shardId-000000000000");
    let tasks = ["a", "b", "c", "d"].map(|owner| {
        let (store, key) = match owner {
            "a" | "c" => (one.clone(), key.clone()),
            _ => (other.clone(), key.clone()),
        };
        tokio::spawn(async move {
            for number in 0..8 {
                if let Some(holder) = store.acquire(&key, owner, TTL).await.unwrap() {
                    let at = Checkpoint::at(number.to_string());
                    store.checkpoint(&key, &holder, &at).await.unwrap();
                    store.release(&key, &holder).await.unwrap();
                }
                store.read_all(std::slice::from_ref(&key)).await.unwrap();
                store.ask(&key, owner).await.unwrap();
            }
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
    history
}

#[tokio::test(start_paused = true)]
async fn whatever_tasks_do_with_a_recorded_store_can_be_checked() {
    let history = recorded(None).await;
    assert!(history.len() > 4 * 8 * 3);
    history.check().unwrap();

    let broken = recorded(Some(Fault::LosesCheckpointsAtRelease)).await;
    let said = broken.check().unwrap_err().to_string();
    assert!(said.contains("no checkpoint"), "{said}");
}

#[test]
fn a_history_in_which_nothing_happened_is_explained() {
    let history = History::new();
    assert!(history.is_empty());
    history.check().unwrap();
}
