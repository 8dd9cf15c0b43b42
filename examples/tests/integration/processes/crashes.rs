//! Processes are killed, with whatever they are at: nothing is lost, and only what had not been checkpointed is
//! handled again.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;

use super::figures::{Figure, note};
use super::log::{self, Twice, now};
use super::process::Process;
use super::stage::{LIMIT, Stage};
use super::table::Rows;

/// The last checkpoints of processes that have lost their leases, by process and shard; `None` where the
/// process had written none.
pub(super) type Last = BTreeMap<String, BTreeMap<String, Option<String>>>;

/// What was handled twice was handled first by one of these, and lies after its last checkpoint.
pub(super) fn assert_is_after(twice: &[Twice], last: &Last, stage: &Stage) {
    for twice in twice {
        let record = twice.record();
        let of_this = last.get(&twice.first.owner);
        let checkpoint = of_this.and_then(|shards| shards.get(&record.shard));
        let is_after = match checkpoint {
            None => false,
            Some(None) => true,
            Some(Some(checkpoint)) => log::is_after(&record.sequence_number, checkpoint),
        };
        assert!(
            is_after,
            "handled again before {checkpoint:?}: {twice:#?}. {}",
            stage.replay()
        );
    }
}

/// Takes down how far this process got, as long as the rows are its own.
pub(super) fn take_down(last: &mut Last, owner: &str, rows: &Rows) {
    for (shard, row) in rows.iter().filter(|(_, row)| row.is_of(owner)) {
        let shards = last.entry(owner.to_owned()).or_default();
        shards.insert(shard.clone(), row.checkpoint.clone());
    }
}

/// Kills one of three processes, so many times, each time at a random moment, and starts another in its place.
pub(super) async fn kill(stage: &mut Stage, kills: usize) -> (Vec<Process>, Last) {
    let mut processes: Vec<_> = (0..3).map(|n| stage.start(format!("p{n}"))).collect();
    let owners: Vec<_> = processes
        .iter()
        .map(|process| process.owner().to_owned())
        .collect();
    let owners: Vec<_> = owners.iter().map(String::as_str).collect();
    stage.until_each_has_one(&owners).await;
    let mut last = Last::new();
    for kill in 0..kills {
        sleep(Duration::from_millis(stage.rng.u64(0..4_000))).await;
        let rows = stage.rows().await;
        let holds = |process: &Process| rows.values().any(|row| row.is_of(process.owner()));
        let holders = (0..processes.len()).filter(|at| holds(&processes[*at]));
        let holders: Vec<_> = holders.collect();
        let victim = processes.swap_remove(holders[stage.rng.usize(0..holders.len())]);
        let owner = victim.owner().to_owned();
        let mark = stage.mark();
        drop(victim);
        let killed = now();
        processes.push(stage.start(format!("p{}", kill + 3)));

        let left = stage.held_by(&owner).await;
        // A write that was on its way may still take effect, until somebody else has the row.
        let is_taken = async || {
            let rows = stage.rows().await;
            take_down(&mut last, &owner, &rows);
            (!rows.values().any(|row| row.is_of(&owner))).then_some(())
        };
        stage
            .until("the shards of the killed one are taken", LIMIT, is_taken)
            .await;
        let elsewhere = stage.until_read_elsewhere(&left, &owner, mark).await;
        if let Some(first) = elsewhere.values().map(|line| line.at).min() {
            note(Figure::KillToFirst, killed, first);
        }
        if let Some(all) = elsewhere.values().map(|line| line.at).max() {
            note(Figure::KillToAll, killed, all);
        }
    }
    (processes, last)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_20_times_loses_nothing_and_repeats_only_what_was_not_checkpointed() {
    let mut stage = Stage::set("crashes", 6).await;
    let producer = stage.producer();
    let (processes, last) = kill(&mut stage, 20).await;
    let twice = stage.end(producer, processes).await;
    assert_is_after(&twice, &last, &stage);
}
