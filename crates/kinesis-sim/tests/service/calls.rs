//! Call counts, and runs that repeat.

use std::time::Duration;

use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::ShardIteratorType::{Latest, TrimHorizon};
use kinesis_sim::{Fault, KinesisSim, Operation};
use tokio::time::Instant;

use crate::support::{FIRST, SECOND, client, entry, inventory, open, read};

#[tokio::test(start_paused = true)]
async fn calls_are_counted_by_operation_stream_and_shard() {
    let (sim, client) = inventory(2);
    sim.create_stream("orders", 1);
    let first = open(&client, FIRST, Latest).await;
    let second = open(&client, SECOND, Latest).await;
    for iterator in [&first, &first, &second] {
        read(&client, iterator).await;
    }
    let orders = client
        .get_shard_iterator()
        .stream_name("orders")
        .shard_id(FIRST);
    let orders = orders.shard_iterator_type(Latest).send().await.unwrap();
    read(&client, orders.shard_iterator.unwrap()).await;

    assert_eq!(sim.calls(Operation::GetRecords), 4);
    assert_eq!(sim.calls_of(Operation::GetRecords, FIRST), 3);
    assert_eq!(sim.calls_of(Operation::GetRecords, SECOND), 1);
    assert_eq!(sim.calls_on(Operation::GetRecords, "inventory"), 3);
    assert_eq!(
        sim.calls_on_shard(Operation::GetRecords, "inventory", FIRST),
        2
    );
    assert_eq!(sim.calls(Operation::GetShardIterator), 3);
    assert_eq!(sim.calls(Operation::ListShards), 0);
    assert_eq!(sim.calls_of(Operation::ListShards, FIRST), 0);
}

#[tokio::test(start_paused = true)]
async fn puts_count_for_the_shards_that_they_go_to_once_each() {
    let (sim, client) = inventory(2);
    let put = client
        .put_record()
        .stream_name("inventory")
        .partition_key("a")
        .data(Blob::new("x"));
    put.send().await.unwrap();
    let batch = client.put_records().stream_name("inventory");
    let batch = batch
        .records(entry("a", "x"))
        .records(entry("a", "x"))
        .records(entry("abc", "x"));
    batch.send().await.unwrap();
    assert_eq!(sim.calls_of(Operation::PutRecord, FIRST), 1);
    assert_eq!(sim.calls_of(Operation::PutRecord, SECOND), 0);
    assert_eq!(sim.calls_of(Operation::PutRecords, FIRST), 1);
    assert_eq!(sim.calls_of(Operation::PutRecords, SECOND), 1);
}

#[tokio::test(start_paused = true)]
async fn refused_and_failed_calls_count_too() {
    let (sim, client) = inventory(1);
    let list = client.list_shards().stream_name("inventory");
    sim.inject(Fault::internal());
    list.clone().send().await.unwrap_err();
    sim.outage();
    list.clone().send().await.unwrap_err();
    sim.recover();
    client
        .list_shards()
        .stream_name("missing")
        .send()
        .await
        .unwrap_err();
    assert_eq!(sim.calls(Operation::ListShards), 3);
    assert_eq!(sim.calls_on(Operation::ListShards, "missing"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_test_does_behind_the_sdks_back_does_not_count() {
    let sim = KinesisSim::new();
    sim.create_stream("inventory", 1);
    sim.put("inventory", "k", b"x");
    sim.split_shard("inventory", FIRST);
    assert_eq!(sim.shards("inventory").len(), 3);
    for operation in [
        Operation::CreateStream,
        Operation::PutRecord,
        Operation::SplitShard,
        Operation::ListShards,
    ] {
        assert_eq!(sim.calls(operation), 0, "{operation}");
    }
}

/// What two tasks meet that put and read under random faults and latencies, told line by line.
async fn story(seed: u64) -> Vec<String> {
    let sim = KinesisSim::builder()
        .seed(seed)
        .quotas(false)
        .latency_between(Duration::from_millis(1), Duration::from_millis(40))
        .build();
    sim.create_stream("inventory", 2);
    sim.inject(Fault::throttle().on(Operation::GetRecords).rate(0.2));
    sim.inject(Fault::partial(2).rate(0.3));
    sim.inject(Fault::lost_answer().on(Operation::PutRecords).rate(0.1));
    let started = Instant::now();
    let writer = async {
        let client = client(&sim);
        let mut told = Vec::new();
        for number in 0..100 {
            let put = client.put_records().stream_name("inventory");
            let entries = (0..4)
                .map(|at| entry(&format!("{number}-{at}"), "x"))
                .collect();
            let answer = put.set_records(Some(entries)).send().await;
            let failed = answer.map(|answer| {
                answer
                    .records()
                    .iter()
                    .map(|entry| entry.sequence_number.clone())
                    .collect::<Vec<_>>()
            });
            told.push(format!("{:?} put {:?}", started.elapsed(), failed.ok()));
        }
        told
    };
    let reader = async {
        let client = client(&sim);
        let mut iterator = open(&client, FIRST, TrimHorizon).await;
        let mut told = Vec::new();
        for _ in 0..100 {
            let answer = client.get_records().shard_iterator(&iterator).send().await;
            let read = answer.as_ref().map(|answer| answer.records().len()).ok();
            told.push(format!("{:?} read {read:?}", started.elapsed()));
            if let Ok(answer) = answer {
                iterator = answer.next_shard_iterator.unwrap();
            }
        }
        told
    };
    let (mut told, read) = tokio::join!(writer, reader);
    told.extend(read);
    told.extend(
        sim.records("inventory", SECOND)
            .iter()
            .map(|record| format!("{record:?}")),
    );
    told
}

#[tokio::test(start_paused = true)]
async fn one_seed_tells_one_story() {
    let once = story(11).await;
    let again = story(11).await;
    assert_eq!(once, again);
    assert_ne!(once, story(12).await);
}
