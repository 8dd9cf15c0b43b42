//! Shards are split and merged all the while that processes come, go, die and pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::types::Shard;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::crashes::{assert_is_after, kill};
use super::figures::{Figure, note};
use super::log::Line;
use super::pauses::pause;
use super::sharing::share;
use super::stage::Stage;

/// As many shards at most, so that each keeps a key.
const MOST: usize = 8;
const LEAST: usize = 4;
const BETWEEN: Duration = Duration::from_secs(3);

/// Somebody who splits and merges until told to stop.
struct Resharder {
    stop: Arc<AtomicBool>,
    task: JoinHandle<usize>,
}

impl Resharder {
    fn start(stage: &Stage) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (kinesis, stream) = (stage.kinesis.clone(), stage.orders.stream.clone());
        let rng = stage.rng.clone();
        let task = tokio::spawn(reshard(kinesis, stream, rng, Arc::clone(&stop)));
        Self { stop, task }
    }

    /// How often it did so.
    async fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

async fn reshard(
    kinesis: Client,
    stream: String,
    mut rng: fastrand::Rng,
    stop: Arc<AtomicBool>,
) -> usize {
    let mut times = 0;
    while !stop.load(Ordering::Relaxed) {
        sleep(BETWEEN).await;
        let request = kinesis.list_shards().stream_name(&stream);
        let mut open = request.send().await.unwrap().shards.unwrap_or_default();
        open.retain(|shard| {
            let range = shard.sequence_number_range().unwrap();
            range.ending_sequence_number().is_none()
        });
        open.sort_by_key(first_hash_key);
        let splits = open.len() <= LEAST || (open.len() < MOST && rng.bool());
        let done = if splits {
            let shard = &open[rng.usize(0..open.len())];
            let request = kinesis.split_shard().stream_name(&stream);
            let request = request.shard_to_split(shard.shard_id());
            let request = request.new_starting_hash_key(middle(shard));
            request.send().await.is_ok()
        } else {
            let at = rng.usize(1..open.len());
            let request = kinesis.merge_shards().stream_name(&stream);
            let request = request.shard_to_merge(open[at - 1].shard_id());
            let request = request.adjacent_shard_to_merge(open[at].shard_id());
            request.send().await.is_ok()
        };
        // The last change may still be under way; then this one waits for its next turn.
        times += usize::from(done);
    }
    times
}

fn first_hash_key(shard: &Shard) -> u128 {
    let range = shard.hash_key_range().unwrap();
    range.starting_hash_key().parse().unwrap()
}

fn middle(shard: &Shard) -> String {
    let range = shard.hash_key_range().unwrap();
    let last: u128 = range.ending_hash_key().parse().unwrap();
    let first = first_hash_key(shard);
    (first + (last - first) / 2 + 1).to_string()
}

/// Notes how long after its last record was settled the children of each parent were read.
async fn note_parents(stage: &Stage) {
    let lines = stage.lines();
    for shard in stage.shards().await {
        let parents = [shard.parent_shard_id(), shard.adjacent_parent_shard_id()];
        let is_of = |line: &&Line, shards: &[Option<&str>]| {
            let handled = line.began().or(line.settled());
            handled.is_some_and(|handled| shards.contains(&Some(&handled.shard)))
        };
        let first = lines
            .iter()
            .find(|line| is_of(line, &[Some(shard.shard_id())]));
        let last = lines.iter().rfind(|line| is_of(line, &parents));
        if let (Some(first), Some(last)) = (first, last)
            && let Some(handled) = first.began()
        {
            // Before its first record arrived there was nothing to read.
            note(
                Figure::ParentToChild,
                last.at.max(handled.arrived_at),
                first.at,
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_and_merges_while_processes_join_and_stop_repeat_nothing() {
    let stage = Stage::set("resharding-sharing", 6).await;
    let (producer, resharder) = (stage.producer(), Resharder::start(&stage));
    let processes = share(&stage, [0; 3], false).await;
    assert!(resharder.stop().await > 0);
    stage.until_shared(&["one", "three"]).await;
    note_parents(&stage).await;
    let twice = stage.end(producer, processes).await;
    assert!(twice.is_empty(), "{twice:#?}. {}", stage.replay());
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_and_merges_while_processes_are_killed_lose_nothing() {
    let mut stage = Stage::set("resharding-crashes", 6).await;
    let (producer, resharder) = (stage.producer(), Resharder::start(&stage));
    let (processes, last) = kill(&mut stage, 5).await;
    assert!(resharder.stop().await > 0);
    note_parents(&stage).await;
    let twice = stage.end(producer, processes).await;
    assert_is_after(&twice, &last, &stage);
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_and_merges_while_a_process_is_paused_lose_nothing() {
    let stage = Stage::set("resharding-pauses", 6).await;
    let (producer, resharder) = (stage.producer(), Resharder::start(&stage));
    let (processes, last) = pause(&stage, false).await;
    assert!(resharder.stop().await > 0);
    let twice = stage.end(producer, processes).await;
    assert_is_after(&twice, &last, &stage);
}
