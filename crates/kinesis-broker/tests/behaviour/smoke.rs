//! The main job, once through.

use std::time::Duration;

use crate::support::{Fleet, shard, until};

#[tokio::test(start_paused = true)]
async fn every_record_of_every_shard_is_handled_once_and_checkpointed() {
    let fleet = Fleet::of_shards(4);
    for n in 0..4 {
        fleet.put(&shard(n), n as u64);
    }
    let instance = fleet.instance("a").start().await;
    for n in 0..4 {
        fleet.put(&shard(n), 10 + n as u64);
    }
    until("all are handled", async || fleet.seen().len() >= 8).await;

    let mut values = fleet.values();
    values.sort_unstable();
    assert_eq!(values, [0, 1, 2, 3, 10, 11, 12, 13]);
    for n in 0..4 {
        let last = fleet.seen_of(&shard(n)).pop().unwrap();
        assert_eq!(fleet.checkpoint(&shard(n)).await, last.sequence_number);
    }
    instance.stop().await;
    for n in 0..4 {
        assert_eq!(fleet.state(&shard(n)).await.holder, None);
    }
}

#[tokio::test(start_paused = true)]
async fn two_instances_share_the_shards_and_nothing_is_handled_twice() {
    let fleet = Fleet::of_shards(8);
    let first = fleet.instance("a").start().await;
    let second = fleet.instance("b").start().await;
    let count = async |owner: &str| {
        let mut count = 0;
        for n in 0..8 {
            count += usize::from(fleet.owner(&shard(n)).await == owner);
        }
        count
    };
    let mut put = 0;
    until("four and four", async || {
        fleet.put(&shard(put as usize % 8), put);
        put += 1;
        count("a").await == 4 && count("b").await == 4
    })
    .await;
    until("all are handled", async || {
        fleet.seen().len() >= put as usize
    })
    .await;
    let mut values = fleet.values();
    values.sort_unstable();
    assert_eq!(values, (0..put).collect::<Vec<_>>());

    first.stop().await;
    tokio::time::timeout(
        Duration::from_secs(5),
        until("b has all", async || count("b").await == 8),
    )
    .await
    .unwrap();
    second.stop().await;
}
