//! SplitShard, MergeShards and UpdateShardCount.

use std::time::Duration;

use aws_sdk_kinesis::error::SdkError;
use aws_sdk_kinesis::operation::update_shard_count::{
    UpdateShardCountError, UpdateShardCountOutput,
};
use aws_sdk_kinesis::types::ScalingType;
use kinesis_sim::{KinesisSim, SimShard};
use tokio::time::advance;

use crate::support::{FIRST, SECOND, client, code, inventory, message};

const MIDDLE: u128 = 1 << 127;

/// The open shards, by their hash keys.
fn open_ranges(sim: &KinesisSim) -> Vec<(u128, u128)> {
    let open = |shard: &SimShard| shard.open;
    let shards = sim.shards("inventory").into_iter().filter(open);
    let mut ranges: Vec<_> = shards
        .map(|shard| (shard.starting_hash_key, shard.ending_hash_key))
        .collect();
    ranges.sort_unstable();
    ranges
}

#[tokio::test(start_paused = true)]
async fn a_split_closes_the_parent_and_opens_two_children_above_it() {
    let (sim, client) = inventory(1);
    let before = sim.put("inventory", "k", b"before");
    let split = client
        .split_shard()
        .stream_name("inventory")
        .shard_to_split(FIRST);
    split.new_starting_hash_key("1000").send().await.unwrap();

    let [parent, left, right] = sim.shards("inventory").try_into().unwrap();
    let end = parent.ending_sequence_number.unwrap();
    assert!(!parent.open && before.sequence_number < end);
    assert_eq!((left.starting_hash_key, left.ending_hash_key), (0, 999));
    assert_eq!(
        (right.starting_hash_key, right.ending_hash_key),
        (1_000, u128::MAX)
    );
    for child in [left, right] {
        assert!(child.open && child.starting_sequence_number > end);
        assert_eq!(child.parent.as_deref(), Some(FIRST));
        assert_eq!(child.adjacent_parent, None);
    }
    assert_eq!(
        sim.put("inventory", "k", b"after").shard,
        "shardId-000000000002"
    );
}

#[tokio::test(start_paused = true)]
async fn a_split_point_lies_strictly_inside_the_shard() {
    let sim = KinesisSim::new().without_quotas();
    sim.create_stream("inventory", 2);
    let client = client(&sim);
    let split = |shard: &str, at: u128| {
        let split = client
            .split_shard()
            .stream_name("inventory")
            .shard_to_split(shard);
        split.new_starting_hash_key(at.to_string()).send()
    };
    for at in [0, MIDDLE - 1, MIDDLE, MIDDLE + 1, u128::MAX] {
        assert_eq!(
            code(split(SECOND, at).await),
            "InvalidArgumentException",
            "{at}"
        );
    }
    split(SECOND, MIDDLE + 2).await.unwrap();
    split(FIRST, MIDDLE - 2).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_closed_or_unknown_shard_cannot_be_split_or_merged() {
    let (sim, client) = inventory(2);
    sim.split_shard("inventory", FIRST);
    let split = |shard: &str| {
        let split = client
            .split_shard()
            .stream_name("inventory")
            .shard_to_split(shard);
        split.new_starting_hash_key("1000").send()
    };
    assert_eq!(code(split(FIRST).await), "InvalidArgumentException");
    assert_eq!(
        code(split("shardId-000000000009").await),
        "ResourceNotFoundException"
    );
    let merge = |shard: &str, adjacent: &str| {
        let merge = client
            .merge_shards()
            .stream_name("inventory")
            .shard_to_merge(shard);
        merge.adjacent_shard_to_merge(adjacent).send()
    };
    assert_eq!(code(merge(FIRST, SECOND).await), "InvalidArgumentException");
    assert_eq!(
        code(merge(SECOND, "shardId-000000000009").await),
        "ResourceNotFoundException"
    );
    let message = message(split(FIRST).await);
    assert!(
        message.contains("has already been merged or split"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_merge_closes_both_parents_and_opens_one_child_above_them() {
    let (sim, client) = inventory(3);
    let merge = client
        .merge_shards()
        .stream_name("inventory")
        .shard_to_merge(SECOND);
    merge.adjacent_shard_to_merge(FIRST).send().await.unwrap();

    let shards = sim.shards("inventory");
    let child = &shards[3];
    assert_eq!(child.parent.as_deref(), Some(SECOND));
    assert_eq!(child.adjacent_parent.as_deref(), Some(FIRST));
    assert_eq!(child.starting_hash_key, 0);
    assert_eq!(child.ending_hash_key, shards[1].ending_hash_key);
    for parent in &shards[..2] {
        assert!(parent.ending_sequence_number.as_ref().unwrap() < &child.starting_sequence_number);
    }
    assert_eq!(sim.put("inventory", "a", b"x").shard, child.id);

    let listed = client
        .list_shards()
        .stream_name("inventory")
        .send()
        .await
        .unwrap();
    assert_eq!(listed.shards()[3].parent_shard_id(), Some(SECOND));
    assert_eq!(listed.shards()[3].adjacent_parent_shard_id(), Some(FIRST));
}

#[tokio::test(start_paused = true)]
async fn shards_that_are_not_adjacent_cannot_be_merged() {
    let (sim, client) = inventory(3);
    for adjacent in ["shardId-000000000002", FIRST] {
        let merge = client
            .merge_shards()
            .stream_name("inventory")
            .shard_to_merge(FIRST);
        let refused = merge.adjacent_shard_to_merge(adjacent).send().await;
        assert_eq!(code(refused), "InvalidArgumentException");
    }
    assert_eq!(sim.shards("inventory").len(), 3);
}

async fn scale(
    sim: &KinesisSim,
    target: i32,
) -> Result<UpdateShardCountOutput, SdkError<UpdateShardCountError>> {
    let update = client(sim).update_shard_count().stream_name("inventory");
    update
        .target_shard_count(target)
        .scaling_type(ScalingType::UniformScaling)
        .send()
        .await
}

#[tokio::test(start_paused = true)]
async fn scaling_leaves_that_many_shards_of_one_size() {
    let sim = KinesisSim::new().without_quotas();
    sim.create_stream("inventory", 2);
    let fresh = |count| {
        let other = KinesisSim::new();
        other.create_stream("inventory", count);
        open_ranges(&other)
    };
    for target in [4, 7, 5, 3, 6, 12, 12, 9, 5] {
        let answer = scale(&sim, target).await.unwrap();
        assert_eq!(answer.target_shard_count(), Some(target));
        assert_eq!(open_ranges(&sim), fresh(target as usize), "{target}");
    }
    // Every shard but the first two descends from others, all of which were there before it.
    for shard in &sim.shards("inventory")[2..] {
        assert!(shard.parent.as_ref().unwrap() < &shard.id);
    }
}

#[tokio::test(start_paused = true)]
async fn doubling_splits_every_shard_once_and_halving_merges_them() {
    let (sim, _) = inventory(2);
    scale(&sim, 4).await.unwrap();
    assert_eq!(sim.shards("inventory").len(), 6);
    scale(&sim, 2).await.unwrap();
    assert_eq!(sim.shards("inventory").len(), 8);
    assert!(
        sim.shards("inventory")[6..]
            .iter()
            .all(|shard| shard.adjacent_parent.is_some())
    );
}

#[tokio::test(start_paused = true)]
async fn scaling_has_bounds() {
    let (sim, client) = inventory(4);
    for target in [1, 9] {
        assert_eq!(
            code(scale(&sim, target).await),
            "InvalidArgumentException",
            "{target}"
        );
    }
    assert_eq!(code(scale(&sim, 10_001).await), "LimitExceededException");
    assert_eq!(code(scale(&sim, 0).await), "ValidationException");
    let otherwise = client
        .update_shard_count()
        .stream_name("inventory")
        .target_shard_count(4);
    let otherwise = otherwise.scaling_type("LOPSIDED".into()).send().await;
    assert_eq!(code(otherwise), "ValidationException");
    assert_eq!(sim.shards("inventory").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_scaled_ten_times_a_day_at_most() {
    let (sim, _) = inventory(4);
    for round in 0..10 {
        scale(&sim, 4 + round % 2).await.unwrap();
        advance(Duration::from_secs(60)).await;
    }
    assert_eq!(code(scale(&sim, 4).await), "LimitExceededException");
    advance(Duration::from_secs(24 * 3_600 - 600)).await;
    scale(&sim, 4).await.unwrap();
}
