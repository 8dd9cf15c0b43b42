//! ListShards and DescribeStream: pages, tokens and filters.

use std::time::Duration;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::operation::list_shards::ListShardsOutput;
use aws_sdk_kinesis::primitives::DateTime;
use aws_sdk_kinesis::types::{ShardFilter, ShardFilterType};
use kinesis_sim::KinesisSim;
use tokio::time::advance;

use crate::support::{FIRST, SECOND, client, code, inventory};

const START: i64 = 1_767_225_600;

fn ids(answer: &ListShardsOutput) -> Vec<&str> {
    answer
        .shards()
        .iter()
        .map(|shard| shard.shard_id())
        .collect()
}

async fn filtered(client: &Client, filter: ShardFilter) -> Vec<String> {
    let answer = client
        .list_shards()
        .stream_name("inventory")
        .shard_filter(filter)
        .send()
        .await;
    ids(&answer.unwrap())
        .into_iter()
        .map(str::to_owned)
        .collect()
}

fn of(kind: ShardFilterType) -> ShardFilter {
    ShardFilter::builder().r#type(kind).build().unwrap()
}

fn at(kind: ShardFilterType, seconds: i64) -> ShardFilter {
    let filter = ShardFilter::builder().r#type(kind);
    filter
        .timestamp(DateTime::from_secs(seconds))
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn shards_divide_the_hash_keys_evenly() {
    let (_sim, client) = inventory(4);
    let answer = client
        .list_shards()
        .stream_name("inventory")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.next_token(), None);
    assert_eq!(ids(&answer)[3], "shardId-000000000003");
    let quarter = 1_u128 << 126;
    for (shard, at) in answer.shards().iter().zip(0..) {
        let range = shard.hash_key_range().unwrap();
        assert_eq!(range.starting_hash_key(), (at * quarter).to_string());
        assert_eq!(
            range.ending_hash_key(),
            (at * quarter + (quarter - 1)).to_string()
        );
        assert_eq!(shard.parent_shard_id(), None);
        assert_eq!(
            shard
                .sequence_number_range()
                .unwrap()
                .ending_sequence_number(),
            None
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_goes_on_where_its_token_says() {
    let (_sim, client) = inventory(7);
    let mut listed = Vec::new();
    let mut answer = client
        .list_shards()
        .stream_name("inventory")
        .max_results(3)
        .send()
        .await
        .unwrap();
    loop {
        listed.extend(ids(&answer).into_iter().map(str::to_owned));
        let Some(token) = answer.next_token else {
            break;
        };
        answer = client
            .list_shards()
            .next_token(token)
            .max_results(3)
            .send()
            .await
            .unwrap();
    }
    assert_eq!(listed.len(), 7);
    assert!(listed.is_sorted());
}

#[tokio::test(start_paused = true)]
async fn a_page_that_ends_with_the_last_shard_has_no_token() {
    let (_sim, client) = inventory(3);
    let answer = client
        .list_shards()
        .stream_name("inventory")
        .max_results(3)
        .send()
        .await
        .unwrap();
    assert_eq!((answer.shards().len(), answer.next_token()), (3, None));
}

#[tokio::test(start_paused = true)]
async fn a_token_comes_without_the_stream_that_it_names() {
    let (sim, client) = inventory(3);
    let page = client
        .list_shards()
        .stream_name("inventory")
        .max_results(1)
        .send()
        .await
        .unwrap();
    let token = page.next_token().unwrap();
    let with = || client.list_shards().next_token(token);

    let invalid = "InvalidArgumentException";
    assert_eq!(code(with().stream_name("inventory").send().await), invalid);
    assert_eq!(
        code(with().exclusive_start_shard_id(FIRST).send().await),
        invalid
    );
    let created_at = DateTime::from_secs(START);
    assert_eq!(
        code(with().stream_creation_timestamp(created_at).send().await),
        invalid
    );
    assert_eq!(
        code(client.list_shards().next_token("made up").send().await),
        invalid
    );
    assert_eq!(code(client.list_shards().send().await), invalid);
    with().send().await.unwrap();

    sim.delete_stream("inventory");
    assert_eq!(code(with().send().await), "ResourceNotFoundException");
    sim.create_stream("inventory", 3);
    assert_eq!(code(with().send().await), invalid);
}

#[tokio::test(start_paused = true)]
async fn a_token_expires_after_five_minutes() {
    let (_sim, client) = inventory(3);
    let page = client
        .list_shards()
        .stream_name("inventory")
        .max_results(1)
        .send()
        .await
        .unwrap();
    let token = page.next_token().unwrap();
    advance(Duration::from_secs(300)).await;
    client.list_shards().next_token(token).send().await.unwrap();
    advance(Duration::from_millis(1)).await;
    let late = client
        .list_shards()
        .next_token(token)
        .send()
        .await
        .unwrap_err();
    assert!(late.into_service_error().is_expired_next_token_exception());
}

#[tokio::test(start_paused = true)]
async fn a_page_holds_at_most_a_thousand_shards() {
    let (sim, client) = inventory(5_000);
    let pages = async |size: Option<i32>| {
        let mut sizes = Vec::new();
        let first = client
            .list_shards()
            .stream_name("inventory")
            .set_max_results(size);
        let mut answer = first.send().await.unwrap();
        loop {
            sizes.push(answer.shards().len());
            let Some(token) = answer.next_token else {
                break sizes;
            };
            let next = client.list_shards().next_token(token).set_max_results(size);
            answer = next.send().await.unwrap();
        }
    };
    assert_eq!(pages(None).await, [1_000; 5]);
    assert_eq!(pages(Some(10_000)).await, [1_000; 5]);
    assert_eq!(sim.calls(kinesis_sim::Operation::ListShards), 10);
    for size in [0, -1, 10_001] {
        let refused = client
            .list_shards()
            .stream_name("inventory")
            .max_results(size)
            .send()
            .await;
        assert_eq!(code(refused), "ValidationException", "{size}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_may_begin_after_a_shard() {
    let (_sim, client) = inventory(3);
    let after = client
        .list_shards()
        .stream_name("inventory")
        .exclusive_start_shard_id(FIRST);
    assert_eq!(
        ids(&after.send().await.unwrap()),
        [SECOND, "shardId-000000000002"]
    );
    let filter = ShardFilter::builder()
        .r#type(ShardFilterType::AfterShardId)
        .shard_id(SECOND);
    let after = filtered(&client, filter.build().unwrap()).await;
    assert_eq!(after, ["shardId-000000000002"]);
    let beyond = client.list_shards().stream_name("inventory");
    let beyond = beyond
        .exclusive_start_shard_id("shardId-000000000099")
        .send()
        .await
        .unwrap();
    assert!(beyond.shards().is_empty());
}

/// A stream of two shards, of which the second is split after an hour, and its first child after another.
async fn lineage() -> (KinesisSim, Client) {
    let (sim, client) = inventory(2);
    advance(Duration::from_secs(3_600)).await;
    sim.split_shard("inventory", SECOND);
    advance(Duration::from_secs(3_600)).await;
    sim.split_shard("inventory", "shardId-000000000002");
    advance(Duration::from_secs(3_600)).await;
    (sim, client)
}

fn numbered(numbers: &[usize]) -> Vec<String> {
    numbers
        .iter()
        .map(|number| format!("shardId-{number:012}"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn filters_select_shards_by_when_they_were_open() {
    let (_sim, client) = lineage().await;
    use ShardFilterType::{AtLatest, AtTimestamp, AtTrimHorizon, FromTimestamp, FromTrimHorizon};
    let all = numbered(&[0, 1, 2, 3, 4, 5]);
    assert_eq!(filtered(&client, of(FromTrimHorizon)).await, all);
    assert_eq!(
        filtered(&client, of(AtLatest)).await,
        numbered(&[0, 3, 4, 5])
    );
    assert_eq!(
        filtered(&client, of(AtTrimHorizon)).await,
        numbered(&[0, 1])
    );
    assert_eq!(
        filtered(&client, at(AtTimestamp, START + 1_800)).await,
        numbered(&[0, 1])
    );
    assert_eq!(
        filtered(&client, at(AtTimestamp, START + 5_400)).await,
        numbered(&[0, 2, 3])
    );
    // Both the parent's end and the children's start are inclusive.
    let on_the_second = filtered(&client, at(AtTimestamp, START + 3_600)).await;
    assert_eq!(on_the_second, numbered(&[0, 1, 2, 3]));
    assert_eq!(
        filtered(&client, at(FromTimestamp, START + 5_400)).await,
        numbered(&[0, 2, 3, 4, 5])
    );
    assert_eq!(
        filtered(&client, at(FromTimestamp, START - 9_999)).await,
        all
    );
    assert!(
        filtered(&client, at(AtTimestamp, START - 1))
            .await
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_filter_is_kept_from_page_to_page() {
    let (_sim, client) = lineage().await;
    let first = client.list_shards().stream_name("inventory").max_results(2);
    let first = first
        .shard_filter(of(ShardFilterType::AtLatest))
        .send()
        .await
        .unwrap();
    assert_eq!(ids(&first), numbered(&[0, 3]));
    let second = client
        .list_shards()
        .next_token(first.next_token().unwrap())
        .send()
        .await
        .unwrap();
    assert_eq!(ids(&second), numbered(&[4, 5]));
}

#[tokio::test(start_paused = true)]
async fn a_filter_has_exactly_what_its_type_needs() {
    let (_sim, client) = inventory(1);
    let list = |filter| {
        client
            .list_shards()
            .stream_name("inventory")
            .shard_filter(filter)
            .send()
    };
    let stray = ShardFilter::builder()
        .r#type(ShardFilterType::AtLatest)
        .shard_id(FIRST)
        .build();
    for filter in [
        of(ShardFilterType::AfterShardId),
        of(ShardFilterType::AtTimestamp),
        of(ShardFilterType::FromTimestamp),
        at(ShardFilterType::AtTrimHorizon, START),
        stray.unwrap(),
    ] {
        assert_eq!(code(list(filter).await), "InvalidArgumentException");
    }
    assert_eq!(
        code(list(of("SOMETIMES".into())).await),
        "ValidationException"
    );
}

#[tokio::test(start_paused = true)]
async fn a_closed_shard_is_listed_until_its_retention_is_over() {
    let (sim, client) = inventory(1);
    sim.put("inventory", "sku-1", b"one");
    sim.split_shard("inventory", FIRST);
    advance(Duration::from_secs(24 * 3_600 - 1)).await;
    let list = client.list_shards().stream_name("inventory");
    assert_eq!(
        ids(&list.clone().send().await.unwrap()),
        numbered(&[0, 1, 2])
    );
    advance(Duration::from_secs(1)).await;
    assert_eq!(ids(&list.send().await.unwrap()), numbered(&[1, 2]));
    // The children are the oldest now.
    let oldest = filtered(&client, of(ShardFilterType::AtTrimHorizon)).await;
    assert_eq!(oldest, numbered(&[1, 2]));
    let opened = client
        .get_shard_iterator()
        .stream_name("inventory")
        .shard_id(FIRST)
        .shard_iterator_type(aws_sdk_kinesis::types::ShardIteratorType::TrimHorizon)
        .send()
        .await;
    assert_eq!(code(opened), "ResourceNotFoundException");
}

#[tokio::test(start_paused = true)]
async fn a_trimmed_closed_shard_is_listed_no_more() {
    let (sim, client) = inventory(1);
    let stored = sim.put("inventory", "sku-1", b"one");
    sim.put("inventory", "sku-1", b"two");
    sim.split_shard("inventory", FIRST);
    sim.trim_through("inventory", FIRST, &stored.sequence_number);
    assert_eq!(sim.records("inventory", FIRST).len(), 1);
    assert_eq!(sim.shards("inventory").len(), 3);
    sim.trim("inventory", FIRST);
    let answer = client
        .list_shards()
        .stream_name("inventory")
        .send()
        .await
        .unwrap();
    assert_eq!(ids(&answer), numbered(&[1, 2]));
}

#[tokio::test(start_paused = true)]
async fn a_creation_time_tells_streams_of_one_name_apart() {
    let (_sim, client) = inventory(1);
    let created = |seconds| {
        let list = client.list_shards().stream_name("inventory");
        list.stream_creation_timestamp(DateTime::from_secs(seconds))
            .send()
    };
    created(START).await.unwrap();
    assert_eq!(code(created(START - 60).await), "ResourceNotFoundException");
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_described_with_its_shards() {
    let sim = KinesisSim::new();
    sim.create_stream("inventory", 150);
    let client = client(&sim);
    let answer = client
        .describe_stream()
        .stream_name("inventory")
        .send()
        .await
        .unwrap();
    let described = answer.stream_description().unwrap();
    assert_eq!(
        (described.shards().len(), described.has_more_shards()),
        (100, true)
    );

    let rest = client.describe_stream().stream_name("inventory");
    let rest = rest
        .exclusive_start_shard_id(described.shards()[99].shard_id())
        .send()
        .await
        .unwrap();
    let rest = rest.stream_description().unwrap();
    assert_eq!((rest.shards().len(), rest.has_more_shards()), (50, false));
    assert_eq!(rest.retention_period_hours(), 24);
}
