//! Streams: made, described, kept, deleted.

use std::time::Duration;

use aws_sdk_kinesis::types::{StreamMode, StreamModeDetails, StreamStatus};
use kinesis_sim::KinesisSim;
use tokio::time::advance;

use crate::support::{FIRST, client, code, inventory, message, open, read, texts};
use aws_sdk_kinesis::types::ShardIteratorType::TrimHorizon;

const ARN: &str = "arn:aws:kinesis:us-east-1:000000000000:stream/inventory";

#[tokio::test(start_paused = true)]
async fn a_created_stream_is_active_and_described() {
    let sim = KinesisSim::new();
    let client = client(&sim);
    client
        .create_stream()
        .stream_name("inventory")
        .shard_count(3)
        .send()
        .await
        .unwrap();

    let answer = client
        .describe_stream_summary()
        .stream_name("inventory")
        .send()
        .await
        .unwrap();
    let summary = answer.stream_description_summary().unwrap();
    assert_eq!(summary.stream_name(), "inventory");
    assert_eq!(summary.stream_arn(), ARN);
    assert_eq!(summary.stream_status(), &StreamStatus::Active);
    assert_eq!(summary.open_shard_count(), 3);
    assert_eq!(summary.retention_period_hours(), 24);
    assert_eq!(summary.stream_creation_timestamp().secs(), 1_767_225_600);
    assert_eq!(summary.max_record_size_in_kib(), Some(1_024));
    let mode = summary.stream_mode_details().unwrap();
    assert_eq!(mode.stream_mode(), &StreamMode::Provisioned);
}

#[tokio::test(start_paused = true)]
async fn an_on_demand_stream_begins_with_four_shards_and_cannot_be_split() {
    let sim = KinesisSim::new();
    let client = client(&sim);
    let mode = StreamModeDetails::builder()
        .stream_mode(StreamMode::OnDemand)
        .build()
        .unwrap();
    client
        .create_stream()
        .stream_name("inventory")
        .stream_mode_details(mode)
        .send()
        .await
        .unwrap();
    assert_eq!(sim.shards("inventory").len(), 4);
    let split = client
        .split_shard()
        .stream_name("inventory")
        .shard_to_split(FIRST)
        .new_starting_hash_key("1000");
    assert_eq!(code(split.send().await), "ValidationException");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_exists_cannot_be_created_again() {
    let (_sim, client) = inventory(1);
    let again = client
        .create_stream()
        .stream_name("inventory")
        .shard_count(1)
        .send()
        .await;
    assert!(
        again
            .unwrap_err()
            .into_service_error()
            .is_resource_in_use_exception()
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_that_the_service_refuses_is_refused() {
    let sim = KinesisSim::new().without_quotas();
    let client = client(&sim);
    for name in ["", "in ventory", "in/ventory", "größe", &"x".repeat(129)] {
        let created = client
            .create_stream()
            .stream_name(name)
            .shard_count(1)
            .send()
            .await;
        assert_eq!(code(created), "ValidationException", "{name}");
        let listed = client.list_shards().stream_name(name).send().await;
        assert_eq!(code(listed), "ValidationException", "{name}");
    }
    for name in ["a", "a_b.c-D9", &"x".repeat(128)] {
        client
            .create_stream()
            .stream_name(name)
            .shard_count(1)
            .send()
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_shards_is_refused() {
    let sim = KinesisSim::new();
    let client = client(&sim);
    let none = client
        .create_stream()
        .stream_name("inventory")
        .shard_count(0)
        .send()
        .await;
    assert_eq!(code(none), "ValidationException");
    let unsaid = client.create_stream().stream_name("inventory").send().await;
    assert_eq!(code(unsaid), "InvalidArgumentException");
    let many = client
        .create_stream()
        .stream_name("inventory")
        .shard_count(20_001)
        .send()
        .await;
    assert_eq!(code(many), "LimitExceededException");
}

#[tokio::test(start_paused = true)]
async fn an_arn_names_a_stream_as_its_name_does() {
    let (sim, client) = inventory(1);
    sim.create_stream("orders", 1);
    let by_arn = client
        .describe_stream_summary()
        .stream_arn(ARN)
        .send()
        .await
        .unwrap();
    assert_eq!(
        by_arn.stream_description_summary().unwrap().stream_name(),
        "inventory"
    );

    let both = client
        .list_shards()
        .stream_arn(ARN)
        .stream_name("inventory")
        .send()
        .await;
    assert_eq!(both.unwrap().shards().len(), 1);
    let differ = client
        .list_shards()
        .stream_arn(ARN)
        .stream_name("orders")
        .send()
        .await;
    assert_eq!(code(differ), "InvalidArgumentException");
    let neither = client.describe_stream_summary().send().await;
    assert_eq!(code(neither), "InvalidArgumentException");
    let foreign = "arn:aws:kinesis:eu-west-1:000000000000:stream/inventory";
    let foreign = client
        .describe_stream_summary()
        .stream_arn(foreign)
        .send()
        .await;
    assert_eq!(code(foreign), "ResourceNotFoundException");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_stream_is_gone_for_every_operation() {
    let (_sim, client) = inventory(1);
    let iterator = open(&client, FIRST, TrimHorizon).await;
    client
        .delete_stream()
        .stream_name("inventory")
        .send()
        .await
        .unwrap();

    let gone = "ResourceNotFoundException";
    let name = "inventory";
    assert_eq!(
        code(client.delete_stream().stream_name(name).send().await),
        gone
    );
    assert_eq!(
        code(client.describe_stream().stream_name(name).send().await),
        gone
    );
    assert_eq!(
        code(
            client
                .describe_stream_summary()
                .stream_name(name)
                .send()
                .await
        ),
        gone
    );
    assert_eq!(
        code(client.list_shards().stream_name(name).send().await),
        gone
    );
    assert_eq!(
        code(client.get_records().shard_iterator(iterator).send().await),
        gone
    );
    let message = message(client.list_shards().stream_name(name).send().await);
    assert_eq!(
        message,
        "Stream inventory under account 000000000000 not found."
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_created_again_has_none_of_the_old_numbers_in_its_ranges() {
    let (sim, client) = inventory(1);
    let old_iterator = open(&client, FIRST, TrimHorizon).await;
    let old = sim.put("inventory", "sku-1", b"old").sequence_number;
    sim.delete_stream("inventory");
    sim.create_stream("inventory", 1);

    assert!(sim.shards("inventory")[0].starting_sequence_number > old);
    let opened = client
        .get_shard_iterator()
        .stream_name("inventory")
        .shard_id(FIRST)
        .shard_iterator_type(aws_sdk_kinesis::types::ShardIteratorType::AfterSequenceNumber)
        .starting_sequence_number(old)
        .send()
        .await;
    assert_eq!(code(opened), "InvalidArgumentException");
    let read = client
        .get_records()
        .shard_iterator(old_iterator)
        .send()
        .await;
    assert_eq!(code(read), "ResourceNotFoundException");
}

#[tokio::test(start_paused = true)]
async fn a_transition_takes_its_time() {
    let sim = KinesisSim::builder()
        .transition(Duration::from_secs(30))
        .build();
    let client = client(&sim);
    let status = async || {
        let answer = client
            .describe_stream_summary()
            .stream_name("inventory")
            .send()
            .await;
        answer
            .unwrap()
            .stream_description_summary
            .unwrap()
            .stream_status
    };
    let split = || {
        let split = client
            .split_shard()
            .stream_name("inventory")
            .shard_to_split(FIRST);
        split.new_starting_hash_key("1000").send()
    };

    client
        .create_stream()
        .stream_name("inventory")
        .shard_count(1)
        .send()
        .await
        .unwrap();
    assert_eq!(status().await, StreamStatus::Creating);
    let listed = client.list_shards().stream_name("inventory").send().await;
    assert_eq!(code(listed), "ResourceInUseException");
    assert_eq!(code(split().await), "ResourceInUseException");
    let opened = client
        .get_shard_iterator()
        .stream_name("inventory")
        .shard_id(FIRST)
        .shard_iterator_type(TrimHorizon)
        .send()
        .await;
    assert_eq!(code(opened), "ResourceNotFoundException");

    advance(Duration::from_secs(30)).await;
    assert_eq!(status().await, StreamStatus::Active);
    split().await.unwrap();
    assert_eq!(status().await, StreamStatus::Updating);
    let deleted = client.delete_stream().stream_name("inventory").send().await;
    assert_eq!(code(deleted), "ResourceInUseException");

    advance(Duration::from_secs(30)).await;
    client
        .delete_stream()
        .stream_name("inventory")
        .send()
        .await
        .unwrap();
    assert_eq!(status().await, StreamStatus::Deleting);
    let again = client
        .create_stream()
        .stream_name("inventory")
        .shard_count(1)
        .send()
        .await;
    assert_eq!(code(again), "ResourceInUseException");

    advance(Duration::from_secs(30)).await;
    client
        .create_stream()
        .stream_name("inventory")
        .shard_count(1)
        .send()
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn retention_takes_records_when_their_time_is_over() {
    let (sim, client) = inventory(1);
    sim.put("inventory", "sku-1", b"old");
    advance(Duration::from_secs(3_600)).await;
    sim.put("inventory", "sku-1", b"young");

    advance(Duration::from_secs(23 * 3_600)).await;
    let iterator = open(&client, FIRST, TrimHorizon).await;
    assert_eq!(texts(&read(&client, iterator).await), ["young"]);
}

#[tokio::test(start_paused = true)]
async fn a_longer_retention_keeps_what_is_left_but_brings_nothing_back() {
    let (sim, client) = inventory(1);
    sim.put("inventory", "sku-1", b"first");
    advance(Duration::from_secs(24 * 3_600)).await;
    sim.put("inventory", "sku-1", b"second");
    let longer = client
        .increase_stream_retention_period()
        .stream_name("inventory");
    longer.retention_period_hours(48).send().await.unwrap();

    advance(Duration::from_secs(47 * 3_600)).await;
    let records = sim.records("inventory", FIRST);
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].data, b"second".as_slice());

    let shorter = client
        .decrease_stream_retention_period()
        .stream_name("inventory");
    shorter.retention_period_hours(24).send().await.unwrap();
    assert!(sim.records("inventory", FIRST).is_empty());
}

#[tokio::test(start_paused = true)]
async fn retention_changes_only_in_the_direction_and_within_the_bounds_of_its_operation() {
    let (_sim, client) = inventory(1);
    let increase = |hours| {
        let call = client
            .increase_stream_retention_period()
            .stream_name("inventory");
        call.retention_period_hours(hours).send()
    };
    let decrease = |hours| {
        let call = client
            .decrease_stream_retention_period()
            .stream_name("inventory");
        call.retention_period_hours(hours).send()
    };
    increase(8_760).await.unwrap();
    for refused in [
        increase(8_761).await,
        increase(8_760).await,
        increase(24).await,
    ] {
        assert_eq!(code(refused), "InvalidArgumentException");
    }
    decrease(24).await.unwrap();
    for refused in [decrease(23).await, decrease(24).await, decrease(48).await] {
        assert_eq!(code(refused), "InvalidArgumentException");
    }
}

#[tokio::test(start_paused = true)]
async fn the_largest_record_of_a_stream_can_be_raised_to_ten_mebibytes() {
    let (_sim, client) = inventory(1);
    let update = |kib| {
        client
            .update_max_record_size()
            .stream_arn(ARN)
            .max_record_size_in_kib(kib)
    };
    assert_eq!(code(update(10_241).send().await), "ValidationException");
    assert_eq!(code(update(1_023).send().await), "ValidationException");
    update(10_240).send().await.unwrap();
    let answer = client
        .describe_stream_summary()
        .stream_name("inventory")
        .send()
        .await
        .unwrap();
    let summary = answer.stream_description_summary().unwrap();
    assert_eq!(summary.max_record_size_in_kib(), Some(10_240));
}

#[tokio::test(start_paused = true)]
async fn streams_are_listed_by_name_page_by_page() {
    let sim = KinesisSim::new();
    for number in (0..7).rev() {
        sim.create_stream(&format!("stream-{number}"), 1);
    }
    let pages = client(&sim).list_streams().limit(3).into_paginator().send();
    let pages: Vec<_> = pages.try_collect().await.unwrap();
    let sizes: Vec<_> = pages.iter().map(|page| page.stream_names().len()).collect();
    assert_eq!(sizes, [3, 3, 1]);
    assert_eq!(
        pages[0].stream_names(),
        ["stream-0", "stream-1", "stream-2"]
    );
    assert_eq!(pages[2].stream_summaries()[0].stream_name(), "stream-6");
    assert!(!pages[2].has_more_streams());
}
