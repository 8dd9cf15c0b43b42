//! Histories of concurrent calls: whether the calls could have taken effect one after the other, each of them between
//! its sending and its answer, so that the plain model of the trait explains every answer.
//!
//! The cases draw their calls from seeds. [`Recorder`] and [`History`] do the same for any other run of a store. What
//! the contract leaves to each observer, when it finds a lease expired, is left to it here too: later is fine, sooner
//! is not.

mod checker;
mod history;
mod model;
mod recorder;
mod workload;

pub use self::history::History;
pub use self::recorder::Recorder;
use self::workload::Workload;
use super::subject::Subject;
use super::trial::Trial;
use super::violation::Violation;

/// Draws so many histories from a seed each.
async fn explained(
    subject: &Subject<'_>,
    seeds: std::ops::Range<u64>,
    keys: usize,
    workload: Workload,
) -> Result<(), Violation> {
    for seed in seeds {
        let trial = Trial::new(subject);
        let mut keys: Vec<_> = (0..keys).map(|_| trial.another_key()).collect();
        // In another order than their own, for listings.
        keys.reverse();
        Workload { seed, ..workload }.run(subject, &keys).await?;
    }
    Ok(())
}

/// Four owners, two of whom bear one name, send what they like to one row.
pub async fn calls_on_one_shard_take_effect_one_after_the_other(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    let workload = Workload {
        seed: 0,
        calls: 20,
        cancelled: 0,
        pauses: 0,
    };
    explained(subject, 100..106, 1, workload).await
}

/// The same on three rows, which are also listed together.
pub async fn calls_on_three_shards_take_effect_one_after_the_other(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    let workload = Workload {
        seed: 0,
        calls: 40,
        cancelled: 0,
        pauses: 0,
    };
    explained(subject, 200..204, 3, workload).await
}

/// Of the calls that are cancelled each takes effect whole, at any time, or never.
pub async fn calls_that_are_cancelled_take_effect_whole_or_not_at_all(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    let workload = Workload {
        seed: 0,
        calls: 16,
        cancelled: 15,
        pauses: 0,
    };
    explained(subject, 300..306, 1, workload).await
}

/// Owners that wait a while before each call, and lose their leases now and then.
pub async fn calls_on_leases_that_expire_take_effect_one_after_the_other(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    let workload = Workload {
        seed: 0,
        calls: 16,
        cancelled: 0,
        pauses: 30,
    };
    explained(subject, 400..402, 1, workload).await
}
