//! PutRecord and PutRecords.

use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::PutRecordsRequestEntry;
use kinesis_sim::{Fault, KinesisSim};

use crate::support::{FIRST, SECOND, client, code, entry, inventory};

const MEBIBYTE: usize = 1024 * 1024;

#[tokio::test(start_paused = true)]
async fn the_md5_of_the_partition_key_chooses_the_shard() {
    let (sim, client) = inventory(2);
    // MD5("abc") begins with 0x90, MD5("a") with 0x0c.
    for (key, shard) in [("abc", SECOND), ("a", FIRST)] {
        let put = client
            .put_record()
            .stream_name("inventory")
            .partition_key(key);
        let put = put.data(Blob::new(key)).send().await.unwrap();
        assert_eq!(put.shard_id(), shard);
        let stored = sim.records("inventory", shard);
        assert_eq!(stored[0].sequence_number, put.sequence_number());
        assert_eq!(stored[0].partition_key, key);
        assert_eq!(stored[0].data, key.as_bytes());
    }
}

#[tokio::test(start_paused = true)]
async fn an_explicit_hash_key_chooses_the_shard_instead() {
    let (sim, client) = inventory(2);
    let put = |hash_key: String| {
        let put = client
            .put_record()
            .stream_name("inventory")
            .partition_key("abc");
        put.explicit_hash_key(hash_key).data(Blob::new("")).send()
    };
    assert_eq!(put("0".to_owned()).await.unwrap().shard_id(), FIRST);
    assert_eq!(put(u128::MAX.to_string()).await.unwrap().shard_id(), SECOND);
    assert_eq!(sim.records("inventory", FIRST)[0].partition_key, "abc");
    let beyond = "340282366920938463463374607431768211456".to_owned();
    assert_eq!(code(put(beyond).await), "InvalidArgumentException");
    for malformed in ["-1", "01", "1e3", ""] {
        assert_eq!(
            code(put(malformed.to_owned()).await),
            "ValidationException",
            "{malformed}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_key_has_1_to_256_characters() {
    let (_sim, client) = inventory(1);
    let put = |key: String| {
        let put = client
            .put_record()
            .stream_name("inventory")
            .partition_key(key);
        put.data(Blob::new("x")).send()
    };
    put("ß".repeat(256)).await.unwrap();
    assert_eq!(code(put("x".repeat(257)).await), "ValidationException");
    assert_eq!(code(put(String::new()).await), "ValidationException");
}

#[tokio::test(start_paused = true)]
async fn a_record_with_its_key_is_as_large_as_the_stream_allows() {
    let sim = KinesisSim::new().without_quotas();
    let client = client(&sim);
    let create = client
        .create_stream()
        .stream_name("inventory")
        .shard_count(1);
    create.max_record_size_in_kib(2_048).send().await.unwrap();
    let put = |size: usize| {
        let put = client
            .put_record()
            .stream_name("inventory")
            .partition_key("k");
        put.data(Blob::new(vec![0; size])).send()
    };
    put(2 * MEBIBYTE - 1).await.unwrap();
    assert_eq!(code(put(2 * MEBIBYTE).await), "ValidationException");
    let batch = client.put_records().stream_name("inventory");
    let batch = batch
        .records(entry("k", vec![0; 2 * MEBIBYTE]))
        .records(entry("k", b"x"));
    assert_eq!(code(batch.send().await), "ValidationException");
    assert_eq!(sim.records("inventory", FIRST).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_put_to_no_stream_is_not_found() {
    let (_sim, client) = inventory(1);
    let put = client
        .put_record()
        .stream_name("orders")
        .partition_key("k")
        .data(Blob::new("x"));
    assert_eq!(code(put.send().await), "ResourceNotFoundException");
    let put = client
        .put_records()
        .stream_name("orders")
        .records(entry("k", "x"));
    assert_eq!(code(put.send().await), "ResourceNotFoundException");
}

#[tokio::test(start_paused = true)]
async fn an_ordering_number_is_one_of_the_services() {
    let (sim, client) = inventory(1);
    let earlier = sim.put("inventory", "k", b"x").sequence_number;
    let put = |number: &str| {
        let put = client
            .put_record()
            .stream_name("inventory")
            .partition_key("k");
        put.data(Blob::new("x"))
            .sequence_number_for_ordering(number)
            .send()
    };
    assert!(put(&earlier).await.unwrap().sequence_number() > earlier.as_str());
    assert_eq!(code(put("7").await), "InvalidArgumentException");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_answered_entry_by_entry() {
    let (sim, client) = inventory(2);
    let batch = client.put_records().stream_name("inventory");
    let explicit = PutRecordsRequestEntry::builder()
        .partition_key("abc")
        .explicit_hash_key("0");
    let answer = batch
        .records(entry("abc", "one"))
        .records(entry("a", "two"))
        .records(explicit.data(Blob::new("three")).build().unwrap())
        .send()
        .await
        .unwrap();
    assert_eq!(answer.failed_record_count(), Some(0));
    let shards: Vec<_> = answer
        .records()
        .iter()
        .map(|entry| entry.shard_id().unwrap())
        .collect();
    assert_eq!(shards, [SECOND, FIRST, FIRST]);
    assert!(
        answer
            .records()
            .iter()
            .all(|entry| entry.error_code().is_none())
    );
    let stored = sim.records("inventory", FIRST);
    assert_eq!(
        stored[1].sequence_number,
        answer.records()[2].sequence_number().unwrap()
    );
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_1_to_500_entries_and_ten_mebibytes_at_most() {
    let sim = KinesisSim::new().without_quotas();
    sim.create_stream("inventory", 1);
    let client = client(&sim);
    let put = |entries: Vec<_>| {
        client
            .put_records()
            .stream_name("inventory")
            .set_records(Some(entries))
            .send()
    };
    put(vec![entry("k", "x"); 500]).await.unwrap();
    assert_eq!(
        code(put(vec![entry("k", "x"); 501]).await),
        "ValidationException"
    );
    assert_eq!(code(put(Vec::new()).await), "ValidationException");

    let mut entries = vec![entry("k", vec![0; MEBIBYTE - 1]); 10];
    entries.push(entry("k", "x"));
    assert_eq!(code(put(entries).await), "InvalidArgumentException");
    assert_eq!(sim.records("inventory", FIRST).len(), 500);
}

#[tokio::test(start_paused = true)]
async fn a_partial_failure_stores_the_other_entries() {
    let (sim, client) = inventory(2);
    sim.inject(Fault::partial(3));
    let entries: Vec<_> = (0..10)
        .map(|number| entry(&format!("k{number}"), "x"))
        .collect();
    let put = client
        .put_records()
        .stream_name("inventory")
        .set_records(Some(entries));
    let answer = put.clone().send().await.unwrap();
    assert_eq!(answer.failed_record_count(), Some(3));
    assert_eq!(answer.records().len(), 10);
    let failed = answer.records().iter().filter(|entry| {
        entry.error_code() == Some("ProvisionedThroughputExceededException")
            && entry
                .error_message()
                .is_some_and(|text| text.starts_with("Rate exceeded for shard"))
            && entry.sequence_number().is_none()
            && entry.shard_id().is_none()
    });
    assert_eq!(failed.count(), 3);
    let stored = |shard| sim.records("inventory", shard).len();
    assert_eq!(stored(FIRST) + stored(SECOND), 7);

    assert_eq!(put.send().await.unwrap().failed_record_count(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_partial_failure_aimed_at_a_shard_spares_the_others() {
    let (sim, client) = inventory(2);
    sim.inject(Fault::partial(10).shard(SECOND));
    let entries = ["abc", "a", "abc", "a"].map(|key| entry(key, key)).to_vec();
    let put = client
        .put_records()
        .stream_name("inventory")
        .set_records(Some(entries));
    let answer = put.send().await.unwrap();
    let failed: Vec<_> = answer
        .records()
        .iter()
        .map(|entry| entry.error_code().is_some())
        .collect();
    assert_eq!(failed, [true, false, true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_stores_nothing() {
    let (sim, client) = inventory(1);
    let put = client
        .put_record()
        .stream_name("inventory")
        .partition_key("k")
        .data(Blob::new("x"));
    assert_eq!(
        code(put.dry_run(true).send().await),
        "DryRunOperationException"
    );
    let put = client
        .put_records()
        .stream_name("inventory")
        .records(entry("k", "x"));
    assert_eq!(
        code(put.dry_run(true).send().await),
        "DryRunOperationException"
    );
    assert!(sim.records("inventory", FIRST).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_found_for_a_shard_goes_to_it() {
    let (sim, client) = inventory(7);
    for shard in sim.shards("inventory") {
        let key = sim.partition_key_for("inventory", &shard.id);
        let put = client
            .put_record()
            .stream_name("inventory")
            .partition_key(key);
        let put = put.data(Blob::new("x")).send().await.unwrap();
        assert_eq!(put.shard_id(), shard.id);
    }
}
