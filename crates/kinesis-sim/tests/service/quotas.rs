//! The service's quotas, kept and switched off.

use std::time::Duration;

use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::ShardIteratorType::{Latest, TrimHorizon};
use kinesis_sim::KinesisSim;
use tokio::time::advance;

use crate::support::{FIRST, SECOND, client, code, entry, inventory, message, open, read};

const MEBIBYTE: usize = 1024 * 1024;
const THROTTLED: &str = "ProvisionedThroughputExceededException";

#[tokio::test(start_paused = true)]
async fn a_shard_is_read_five_times_a_second() {
    let (_sim, client) = inventory(2);
    let iterator = open(&client, FIRST, Latest).await;
    let other = open(&client, SECOND, Latest).await;
    for _ in 0..5 {
        read(&client, &iterator).await;
    }
    let sixth = client.get_records().shard_iterator(&iterator).send().await;
    let text = "Rate exceeded for shard shardId-000000000000 in stream inventory under account \
                000000000000.";
    assert_eq!(message(sixth), text);
    read(&client, &other).await;

    advance(Duration::from_millis(999)).await;
    assert_eq!(
        code(client.get_records().shard_iterator(&iterator).send().await),
        THROTTLED
    );
    advance(Duration::from_millis(1)).await;
    read(&client, &iterator).await;
}

#[tokio::test(start_paused = true)]
async fn a_large_answer_is_paid_off_before_the_next_read() {
    let (sim, client) = inventory(1);
    for _ in 0..12 {
        sim.put("inventory", "k", vec![0; MEBIBYTE - 1]);
    }
    let answer = read(&client, open(&client, FIRST, TrimHorizon).await).await;
    assert_eq!(answer.records().len(), 10);
    let next = answer.next_shard_iterator.unwrap();
    advance(Duration::from_millis(4_999)).await;
    assert_eq!(
        code(client.get_records().shard_iterator(&next).send().await),
        THROTTLED
    );
    advance(Duration::from_millis(1)).await;
    // Two mebibytes are a second's worth, and block nothing.
    let rest = read(&client, next).await;
    assert_eq!(rest.records().len(), 2);
    read(&client, rest.next_shard_iterator.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_is_opened_five_times_a_second() {
    let (_sim, client) = inventory(2);
    for _ in 0..5 {
        open(&client, FIRST, Latest).await;
    }
    let sixth = client
        .get_shard_iterator()
        .stream_name("inventory")
        .shard_id(FIRST);
    assert_eq!(
        code(sixth.shard_iterator_type(Latest).send().await),
        THROTTLED
    );
    open(&client, SECOND, Latest).await;
    advance(Duration::from_secs(1)).await;
    open(&client, FIRST, Latest).await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_takes_a_thousand_records_a_second() {
    let (sim, client) = inventory(2);
    let batch = async |key: &str, size| {
        let put = client.put_records().stream_name("inventory");
        put.set_records(Some(vec![entry(key, "x"); size]))
            .send()
            .await
            .unwrap()
    };
    assert_eq!(batch("a", 500).await.failed_record_count(), Some(0));
    assert_eq!(batch("a", 400).await.failed_record_count(), Some(0));
    let over = batch("a", 300).await;
    assert_eq!(over.failed_record_count(), Some(200));
    assert_eq!(over.records()[100].error_code(), Some(THROTTLED));
    assert_eq!(sim.records("inventory", FIRST).len(), 1_000);
    assert_eq!(batch("abc", 500).await.failed_record_count(), Some(0));

    let one = client
        .put_record()
        .stream_name("inventory")
        .partition_key("a")
        .data(Blob::new(""));
    assert_eq!(code(one.clone().send().await), THROTTLED);
    advance(Duration::from_millis(1)).await;
    one.send().await.unwrap();
    advance(Duration::from_secs(1)).await;
    assert_eq!(batch("a", 500).await.failed_record_count(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_shard_takes_a_mebibyte_a_second() {
    let (_sim, client) = inventory(1);
    let put = |size: usize| {
        let put = client
            .put_record()
            .stream_name("inventory")
            .partition_key("k");
        put.data(Blob::new(vec![0; size])).send()
    };
    put(MEBIBYTE - 1).await.unwrap();
    assert_eq!(code(put(1).await), THROTTLED);
    advance(Duration::from_millis(500)).await;
    assert_eq!(code(put(MEBIBYTE / 2).await), THROTTLED);
    put(MEBIBYTE / 2 - 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn operations_on_streams_have_an_account_limit() {
    let sim = KinesisSim::new();
    let client = client(&sim);
    for number in 0..5 {
        let create = client
            .create_stream()
            .stream_name(format!("stream-{number}"));
        create.shard_count(1).send().await.unwrap();
    }
    let sixth = client
        .create_stream()
        .stream_name("stream-5")
        .shard_count(1);
    assert_eq!(code(sixth.clone().send().await), "LimitExceededException");
    advance(Duration::from_secs(1)).await;
    sixth.send().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_listed_a_thousand_times_a_second() {
    let (_sim, client) = inventory(1);
    let list = client.list_shards().stream_name("inventory");
    for _ in 0..1_000 {
        list.clone().send().await.unwrap();
    }
    assert_eq!(code(list.clone().send().await), "LimitExceededException");
    advance(Duration::from_secs(1)).await;
    list.send().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_quotas_nothing_is_throttled() {
    let sim = KinesisSim::builder().quotas(false).build();
    sim.create_stream("inventory", 1);
    let client = client(&sim);
    for _ in 0..3 {
        sim.put("inventory", "k", vec![0; MEBIBYTE - 1]);
    }
    for _ in 0..2 {
        let iterator = open(&client, FIRST, TrimHorizon).await;
        assert_eq!(read(&client, iterator).await.records().len(), 3);
    }
    let latest = open(&client, FIRST, Latest).await;
    for _ in 0..10 {
        read(&client, &latest).await;
        open(&client, FIRST, Latest).await;
    }
    for (size, entries) in [(1, 500), (1, 500), (1, 500), (MEBIBYTE / 2, 3)] {
        let put = client.put_records().stream_name("inventory");
        let put = put
            .set_records(Some(vec![entry("k", vec![0; size]); entries]))
            .send()
            .await;
        assert_eq!(put.unwrap().failed_record_count(), Some(0));
    }
    for number in 0..30 {
        let create = client
            .create_stream()
            .stream_name(format!("stream-{number}"));
        create.shard_count(1).send().await.unwrap();
    }
}
