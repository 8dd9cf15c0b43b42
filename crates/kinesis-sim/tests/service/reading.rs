//! GetShardIterator and GetRecords.

use std::time::{Duration, SystemTime};

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::error::SdkError;
use aws_sdk_kinesis::operation::get_shard_iterator::{
    GetShardIteratorError, GetShardIteratorOutput,
};
use aws_sdk_kinesis::primitives::DateTime;
use aws_sdk_kinesis::types::ShardIteratorType::{
    self, AfterSequenceNumber, AtSequenceNumber, AtTimestamp, Latest, TrimHorizon,
};
use kinesis_sim::KinesisSim;
use tokio::time::advance;

use crate::support::{FIRST, SECOND, client, code, inventory, message, open, read, texts};

type Opened = Result<GetShardIteratorOutput, SdkError<GetShardIteratorError>>;

async fn open_at(client: &Client, shard: &str, kind: ShardIteratorType, number: &str) -> Opened {
    let opened = client
        .get_shard_iterator()
        .stream_name("inventory")
        .shard_id(shard);
    opened
        .shard_iterator_type(kind)
        .starting_sequence_number(number)
        .send()
        .await
}

async fn open_at_time(client: &Client, time: DateTime) -> Opened {
    let opened = client
        .get_shard_iterator()
        .stream_name("inventory")
        .shard_id(FIRST);
    opened
        .shard_iterator_type(AtTimestamp)
        .timestamp(time)
        .send()
        .await
}

async fn read_opened(client: &Client, opened: Opened) -> Vec<String> {
    texts(&read(client, opened.unwrap().shard_iterator.unwrap()).await)
}

/// A service without quotas, and with three records a second apart in one shard.
async fn three_records() -> (KinesisSim, Client, Vec<String>) {
    let sim = KinesisSim::new().without_quotas();
    sim.create_stream("inventory", 1);
    let mut numbers = Vec::new();
    for text in ["one", "two", "three"] {
        numbers.push(sim.put("inventory", "sku-1", text).sequence_number);
        advance(Duration::from_millis(1_000)).await;
    }
    let client = client(&sim);
    (sim, client, numbers)
}

#[tokio::test(start_paused = true)]
async fn records_come_as_they_were_put_and_in_their_order() {
    let (sim, client, numbers) = three_records().await;
    let answer = read(&client, open(&client, FIRST, TrimHorizon).await).await;
    let record = &answer.records()[1];
    assert_eq!(record.sequence_number(), numbers[1]);
    assert_eq!(record.partition_key(), Some("sku-1"));
    assert_eq!(record.data().as_ref(), b"two");
    let arrived_at = SystemTime::try_from(*record.approximate_arrival_timestamp().unwrap());
    assert_eq!(
        arrived_at.unwrap(),
        sim.records("inventory", FIRST)[1].arrived_at
    );
    assert_eq!(texts(&answer), ["one", "two", "three"]);
    assert!(numbers.is_sorted() && numbers.iter().all(|number| number.len() == 56));
    assert!(answer.child_shards().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_iterator_opens_where_its_type_says() {
    let (sim, client, numbers) = three_records().await;
    let latest = open(&client, FIRST, Latest).await;
    let at = open_at(&client, FIRST, AtSequenceNumber, &numbers[1]).await;
    assert_eq!(read_opened(&client, at).await, ["two", "three"]);
    let after = open_at(&client, FIRST, AfterSequenceNumber, &numbers[1]).await;
    assert_eq!(read_opened(&client, after).await, ["three"]);
    let last = open_at(&client, FIRST, AfterSequenceNumber, &numbers[2]).await;
    assert!(read_opened(&client, last).await.is_empty());

    let nothing = read(&client, latest).await;
    assert!(nothing.records().is_empty());
    sim.put("inventory", "sku-1", b"four");
    assert_eq!(
        texts(&read(&client, nothing.next_shard_iterator.unwrap()).await),
        ["four"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_moment_opens_at_the_first_record_that_arrived_then_or_later() {
    let (sim, client, _) = three_records().await;
    for (seconds, millis, expected) in [
        (1_767_225_600, 0, ["one", "two", "three"].as_slice()),
        (1_767_225_601, 0, &["two", "three"]),
        (1_767_225_601, 1, &["three"]),
        (1_767_225_600, 999, &["two", "three"]),
        (1_767_225_603, 0, &[]),
        (0, 0, &["one", "two", "three"]),
    ] {
        let time = DateTime::from_secs_and_nanos(seconds, millis * 1_000_000);
        let opened = open_at_time(&client, time).await;
        assert_eq!(
            read_opened(&client, opened).await,
            expected,
            "{seconds}.{millis}"
        );
    }
    let arrived = DateTime::from(sim.records("inventory", FIRST)[2].arrived_at);
    let opened = open_at_time(&client, arrived).await;
    assert_eq!(read_opened(&client, opened).await, ["three"]);
}

#[tokio::test(start_paused = true)]
async fn a_moment_to_come_is_refused() {
    let (_sim, client) = inventory(1);
    open_at_time(&client, DateTime::from_secs(1_767_225_600))
        .await
        .unwrap();
    let future = DateTime::from_secs_and_nanos(1_767_225_600, 1_000_000);
    assert_eq!(
        code(open_at_time(&client, future).await),
        "InvalidArgumentException"
    );
    let untold = client
        .get_shard_iterator()
        .stream_name("inventory")
        .shard_id(FIRST);
    let untold = untold.shard_iterator_type(AtTimestamp).send().await;
    assert_eq!(code(untold), "InvalidArgumentException");
}

#[tokio::test(start_paused = true)]
async fn a_number_from_outside_the_shards_range_is_refused() {
    let sim = KinesisSim::new().without_quotas();
    sim.create_stream("inventory", 2);
    let client = client(&sim);
    let parent = sim
        .put_to_shard("inventory", FIRST, "sku-1", b"one")
        .sequence_number;
    let [left, _] = sim.split_shard("inventory", FIRST);
    let child = sim
        .put_to_shard("inventory", &left, "sku-1", b"two")
        .sequence_number;
    let shards = sim.shards("inventory");
    let end = shards[0].ending_sequence_number.clone().unwrap();
    let start = shards[2].starting_sequence_number.clone();

    for kind in [AtSequenceNumber, AfterSequenceNumber] {
        for (shard, number) in [
            (SECOND, &parent),
            (left.as_str(), &parent),
            (left.as_str(), &end),
            (FIRST, &child),
            (FIRST, &start),
        ] {
            let refused = open_at(&client, shard, kind.clone(), number).await;
            assert_eq!(
                code(refused),
                "InvalidArgumentException",
                "{number} on {shard}"
            );
        }
        for number in ["0", "7", "SHARD_END", "TRIM_HORIZON", "-1"] {
            let refused = open_at(&client, FIRST, kind.clone(), number).await;
            assert_eq!(code(refused), "InvalidArgumentException", "{number}");
        }
        for (shard, number) in [
            (FIRST, &parent),
            (FIRST, &end),
            (&*left, &start),
            (&*left, &child),
        ] {
            open_at(&client, shard, kind.clone(), number).await.unwrap();
        }
    }
    let untold = client
        .get_shard_iterator()
        .stream_name("inventory")
        .shard_id(FIRST);
    let untold = untold.shard_iterator_type(AtSequenceNumber).send().await;
    assert_eq!(code(untold), "InvalidArgumentException");
    let strange = client
        .get_shard_iterator()
        .stream_name("inventory")
        .shard_id(FIRST);
    let strange = strange.shard_iterator_type("SOMEWHERE".into()).send().await;
    assert_eq!(code(strange), "ValidationException");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_shard_or_stream_is_not_found() {
    let (_sim, client) = inventory(1);
    for (stream, shard) in [
        ("orders", FIRST),
        ("inventory", SECOND),
        ("inventory", "shardId-0"),
        ("inventory", "shardId-00000000000x"),
    ] {
        let opened = client
            .get_shard_iterator()
            .stream_name(stream)
            .shard_id(shard);
        let opened = opened.shard_iterator_type(Latest).send().await;
        assert_eq!(
            code(opened),
            "ResourceNotFoundException",
            "{stream} {shard}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_number_that_was_trimmed_opens_at_the_oldest_record_left() {
    let (sim, client, numbers) = three_records().await;
    sim.trim_through("inventory", FIRST, &numbers[1]);
    for kind in [AtSequenceNumber, AfterSequenceNumber] {
        let opened = open_at(&client, FIRST, kind, &numbers[0]).await;
        assert_eq!(read_opened(&client, opened).await, ["three"]);
    }
    let oldest = open(&client, FIRST, TrimHorizon).await;
    assert_eq!(texts(&read(&client, oldest).await), ["three"]);
    sim.trim("inventory", FIRST);
    let opened = open_at(&client, FIRST, AfterSequenceNumber, &numbers[2]).await;
    assert!(read_opened(&client, opened).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_limit_bounds_an_answer_and_the_next_goes_on_from_there() {
    let (_sim, client, _) = three_records().await;
    let iterator = open(&client, FIRST, TrimHorizon).await;
    let first = client
        .get_records()
        .shard_iterator(&iterator)
        .limit(2)
        .send()
        .await
        .unwrap();
    assert_eq!(texts(&first), ["one", "two"]);
    let second = read(&client, first.next_shard_iterator.unwrap()).await;
    assert_eq!(texts(&second), ["three"]);

    let limited = |limit| {
        client
            .get_records()
            .shard_iterator(&iterator)
            .limit(limit)
            .send()
    };
    limited(10_000).await.unwrap();
    assert_eq!(code(limited(10_001).await), "InvalidArgumentException");
    assert_eq!(code(limited(0).await), "ValidationException");
}

#[tokio::test(start_paused = true)]
async fn an_answer_holds_ten_thousand_records_or_ten_mebibytes_at_most() {
    let sim = KinesisSim::new().without_quotas();
    sim.create_stream("inventory", 2);
    let client = client(&sim);
    for _ in 0..10_001 {
        sim.put_to_shard("inventory", FIRST, "sku-1", b"");
    }
    let answer = read(&client, open(&client, FIRST, TrimHorizon).await).await;
    assert_eq!(answer.records().len(), 10_000);

    let mebibyte = vec![7; 1024 * 1024 - "sku-1".len()];
    for _ in 0..11 {
        sim.put_to_shard("inventory", SECOND, "sku-1", &mebibyte);
    }
    let answer = read(&client, open(&client, SECOND, TrimHorizon).await).await;
    assert_eq!(answer.records().len(), 10);
    let answer = read(&client, answer.next_shard_iterator.unwrap()).await;
    assert_eq!(answer.records().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_says_how_far_behind_the_tip_it_is() {
    let (_sim, client, _) = three_records().await;
    let iterator = open(&client, FIRST, TrimHorizon).await;
    let one = client
        .get_records()
        .shard_iterator(iterator)
        .limit(1)
        .send()
        .await
        .unwrap();
    assert_eq!(one.millis_behind_latest(), Some(3_000));
    let rest = read(&client, one.next_shard_iterator.unwrap()).await;
    assert_eq!(rest.millis_behind_latest(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn an_iterator_expires_after_five_minutes() {
    let (_sim, client, _) = three_records().await;
    let iterator = open(&client, FIRST, TrimHorizon).await;
    advance(Duration::from_secs(300)).await;
    let answer = read(&client, &iterator).await;
    advance(Duration::from_millis(1)).await;
    let expired = client
        .get_records()
        .shard_iterator(&iterator)
        .send()
        .await
        .unwrap_err();
    assert!(expired.into_service_error().is_expired_iterator_exception());
    // The answer's own iterator is younger.
    read(&client, answer.next_shard_iterator.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn iterators_expire_on_demand_and_later_ones_do_not() {
    let (sim, client, _) = three_records().await;
    let old = open(&client, FIRST, TrimHorizon).await;
    let next = read(&client, &old).await.next_shard_iterator.unwrap();
    sim.expire_iterators();
    for iterator in [old, next] {
        let refused = client.get_records().shard_iterator(iterator).send().await;
        assert_eq!(code(refused), "ExpiredIteratorException");
    }
    let new = open(&client, FIRST, TrimHorizon).await;
    assert_eq!(texts(&read(&client, new).await), ["one", "two", "three"]);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_iterator_is_refused() {
    let (sim, client) = inventory(1);
    sim.create_stream("orders", 1);
    for iterator in [
        "x",
        "AAAAAAAAAAHSywljv0zEgPX4NyKdZ5wryMzP9yALs8NeKbUjp1IxtZs1Sp",
    ] {
        let refused = client.get_records().shard_iterator(iterator).send().await;
        assert_eq!(code(refused), "InvalidArgumentException");
    }
    let of_another = client
        .get_records()
        .shard_iterator(open(&client, FIRST, Latest).await);
    let of_another = of_another.stream_arn("arn:aws:kinesis:us-east-1:000000000000:stream/orders");
    let refused = message(of_another.send().await);
    assert_eq!(
        refused,
        "The ShardIterator is of another stream than StreamARN."
    );
}

#[tokio::test(start_paused = true)]
async fn a_closed_shard_read_to_its_end_names_its_children_and_nothing_to_go_on_with() {
    let (sim, client, _) = three_records().await;
    let iterator = open(&client, FIRST, TrimHorizon).await;
    let latest = open(&client, FIRST, Latest).await;
    let [left, right] = sim.split_shard("inventory", FIRST);

    let part = client
        .get_records()
        .shard_iterator(iterator)
        .limit(2)
        .send()
        .await
        .unwrap();
    assert!(part.next_shard_iterator().is_some() && part.child_shards().is_empty());
    let end = read(&client, part.next_shard_iterator.unwrap()).await;
    assert_eq!(texts(&end), ["three"]);
    assert_eq!(
        (end.next_shard_iterator(), end.millis_behind_latest()),
        (None, Some(0))
    );
    let children: Vec<_> = end
        .child_shards()
        .iter()
        .map(|child| child.shard_id())
        .collect();
    assert_eq!(children, [&left, &right]);
    assert_eq!(end.child_shards()[0].parent_shards(), [FIRST]);
    let range = end.child_shards()[1].hash_key_range().unwrap();
    assert_eq!(range.ending_hash_key(), u128::MAX.to_string());

    // An iterator at the tip, from before or after the split, is at the end now.
    for iterator in [latest, open(&client, FIRST, Latest).await] {
        let end = read(&client, iterator).await;
        assert_eq!((end.records().len(), end.next_shard_iterator()), (0, None));
        assert_eq!(end.child_shards().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_answers_that_it_was_one() {
    let (_sim, client) = inventory(1);
    let dry = client
        .get_shard_iterator()
        .stream_name("inventory")
        .shard_id(FIRST);
    let dry = dry.shard_iterator_type(Latest).dry_run(true).send().await;
    assert_eq!(code(dry), "DryRunOperationException");
    let iterator = open(&client, FIRST, Latest).await;
    let dry = client
        .get_records()
        .shard_iterator(iterator)
        .dry_run(true)
        .send()
        .await;
    assert_eq!(code(dry), "DryRunOperationException");
}
