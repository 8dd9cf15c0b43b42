//! What goes together, when it goes, and where it is then.

use rstream::Outgoing;
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::support::Counters;

#[tokio::test(start_paused = true)]
async fn a_publish_tells_the_shard_and_the_sequence_number_that_its_record_has() {
    let sim = sim(4);
    let publisher = start(&sim).await;
    let inventory = publisher.stream(STREAM).unwrap();
    let under_way = (0..40_u64).map(|n| inventory.partition_key(n.to_string()).publish(&n));
    let published = all(under_way.collect()).await;
    for (
        n,
        Published {
            shard,
            sequence_number,
        },
    ) in published.iter().enumerate()
    {
        let records = sim.records(STREAM, shard);
        let record = records
            .iter()
            .find(|record| record.sequence_number == *sequence_number);
        let record = record.unwrap();
        assert_eq!(
            (value(record), &record.partition_key),
            (n as u64, &n.to_string())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_partition_key_is_the_values_own_or_a_closures_or_given_per_call() {
    #[derive(Outgoing, Serialize)]
    #[outgoing(partition_key = "sku")]
    struct StockChange {
        sku: u64,
        delta: i64,
    }

    let sim = sim(1);
    let publisher = on(&sim).linger(Duration::ZERO).start().await.unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    let change = StockChange { sku: 7, delta: -3 };

    inventory.publish(&change).await.unwrap();
    let by_delta = inventory.partition_key_by(|change: &StockChange| change.delta.to_string());
    by_delta.clone().publish(&change).await.unwrap();
    inventory
        .partition_key("mine")
        .publish(&change)
        .await
        .unwrap();
    inventory
        .partition_key("raw")
        .publish_bytes(vec![0, 255])
        .await
        .unwrap();

    let stored = stored(&sim, STREAM);
    let keys: Vec<_> = stored
        .iter()
        .map(|record| record.partition_key.as_str())
        .collect();
    assert_eq!(keys, ["7", "-3", "mine", "raw"]);
    let json = br#"{"sku":7,"delta":-3}"#;
    let data: Vec<_> = stored.iter().map(|record| &*record.data).collect();
    assert_eq!(data, [json, json, json, &[0, 255][..]]);
}

#[tokio::test(start_paused = true)]
async fn an_explicit_hash_key_chooses_the_shard() {
    let sim = sim(4);
    let publisher = start(&sim).await;
    let inventory = publisher.stream(STREAM).unwrap();
    for shard in sim.shards(STREAM) {
        for hash_key in [shard.starting_hash_key, shard.ending_hash_key] {
            let key = inventory
                .partition_key("one key")
                .explicit_hash_key(hash_key);
            assert_eq!(key.publish(&0).await.unwrap().shard, shard.id);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_500_records_at_once_and_the_rest_after_the_linger_time() {
    let sim = sim(4);
    let publisher = start(&sim).await;
    let inventory = publisher.stream(STREAM).unwrap();
    let under_way = (0..1_200_u64).map(|n| inventory.partition_key(n.to_string()).publish(&n));
    let under_way: Vec<_> = under_way.collect();
    sleep(19 * MILLI).await;
    assert_eq!(stored(&sim, STREAM).len(), 1_000);
    all(under_way).await;
    assert_eq!(calls(&sim), 3);
    assert_eq!(stored(&sim, STREAM).len(), 1_200);
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_the_10_mebibytes_of_the_service_and_never_more() {
    let sim = sim(4);
    let publisher = on(&sim).max_in_flight_bytes(1 << 30).start().await.unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    // Ten of them, with keys of a byte, are 10 MiB to the byte.
    let mebibyte = vec![0_u8; 1_048_575];
    let keys = (b'a'..b'a' + 12).map(|key| char::from(key).to_string());
    let under_way = keys.map(|key| inventory.partition_key(key).publish_bytes(mebibyte.clone()));
    all(under_way.collect()).await;
    assert_eq!(calls(&sim), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_the_records_and_bytes_that_the_user_set() {
    type Set = fn(KinesisPublisher) -> KinesisPublisher;
    let settings: [(Set, u64); 3] = [
        (|publisher| publisher.max_records(7), 15),
        (|publisher| publisher.max_bytes(310), 34),
        // Each is larger than a call, and goes alone.
        (|publisher| publisher.max_bytes(50), 100),
    ];
    for (set, expected) in settings {
        let sim = sim(4);
        let publisher = set(on(&sim)).start().await.unwrap();
        let inventory = publisher.stream(STREAM).unwrap();
        // Of 100 bytes, the key included.
        let under_way = (0..100).map(|n| {
            let key = inventory.partition_key(format!("{n:010}"));
            key.publish_bytes(vec![0; 90])
        });
        all(under_way.collect()).await;
        assert_eq!(calls(&sim), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_alone_goes_when_it_has_lingered() {
    for linger in [Duration::ZERO, 5 * MILLI, SECOND] {
        let sim = sim(1);
        let publisher = on(&sim).linger(linger).start().await.unwrap();
        let inventory = publisher.stream(STREAM).unwrap();
        let began = Instant::now();
        inventory.partition_key("a").publish(&0).await.unwrap();
        let took = began.elapsed();
        assert!(
            took >= linger && took <= linger + MILLI,
            "{took:?} for {linger:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_linger_time_without_end_ends_with_a_full_call() {
    let sim = sim(1);
    let publisher = on(&sim)
        .linger(Duration::MAX)
        .max_records(3)
        .start()
        .await
        .unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    let mut under_way: Vec<_> = (0..2_u64)
        .map(|n| inventory.partition_key(n.to_string()).publish(&n))
        .collect();
    let hour = 3_600 * SECOND;
    assert!(timeout(hour, &mut under_way[0]).await.is_err());
    under_way.push(inventory.partition_key("2").publish(&2));
    all(under_way).await;
    assert_eq!(calls(&sim), 1);
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_are_under_way_than_the_user_allows() {
    for (max_calls, rounds) in [(1, 10), (3, 4), (10, 1)] {
        let sim = KinesisSim::builder().quotas(false).latency(SECOND).build();
        sim.create_stream(STREAM, 1);
        let publisher = on(&sim)
            .linger(Duration::ZERO)
            .max_records(5)
            .max_calls(max_calls);
        let publisher = publisher.start().await.unwrap();
        let inventory = publisher.stream(STREAM).unwrap();
        let under_way = (0..50_u64).map(|n| inventory.partition_key(n.to_string()).publish(&n));
        let began = Instant::now();
        all(under_way.collect()).await;
        assert_eq!(began.elapsed().as_secs(), rounds, "{max_calls} at once");
        assert_eq!(calls(&sim), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_calls_hang_delays_no_other() {
    let sim = sim(1);
    sim.create_stream("orders", 1);
    let hang = kinesis_sim::Fault::hang().stream(STREAM).always();
    sim.inject(hang);
    let publisher = on(&sim).max_in_flight_bytes(1).start().await.unwrap();
    let (inventory, orders) = (
        publisher.stream(STREAM).unwrap(),
        publisher.stream("orders").unwrap(),
    );
    let _hangs: Vec<_> = (0..20_u64)
        .map(|n| inventory.partition_key(n.to_string()).publish(&n))
        .collect();
    sleep(SECOND).await;
    let began = Instant::now();
    orders.partition_key("a").publish(&0).await.unwrap();
    assert!(began.elapsed() <= 21 * MILLI, "{:?}", began.elapsed());
}

#[test]
fn one_seed_gives_one_history() {
    let history = |seed: u64| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let sim = KinesisSim::builder()
                .seed(seed)
                .latency_between(MILLI, 40 * MILLI)
                .build();
            sim.create_stream(STREAM, 2);
            order::troubled(&sim, seed).await;
            let records = stored(&sim, STREAM).into_iter();
            let of = |record: SimRecord| (record.arrived_at, record.sequence_number, record.data);
            (records.map(of).collect::<Vec<_>>(), calls(&sim))
        })
    };
    let one = history(1);
    assert_eq!(one, history(1));
    assert_ne!(one, history(2));
}

#[tokio::test(start_paused = true)]
async fn what_is_published_put_again_and_not_stored_is_counted_for_each_stream() {
    let counters = Counters::default();
    let _installed = metrics::set_default_local_recorder(&counters);
    let sim = sim(1);
    sim.inject(kinesis_sim::Fault::partial(2).stream(STREAM));
    let publisher = start(&sim).await;
    let (inventory, orders) = (
        publisher.stream(STREAM).unwrap(),
        publisher.stream("orders").unwrap(),
    );
    let mut under_way: Vec<_> = (10..15_u64)
        .map(|n| inventory.partition_key(n.to_string()).publish(&n))
        .collect();
    under_way.push(orders.partition_key("a").publish(&0));
    join_all(under_way).await;
    assert_eq!(
        counters.all(),
        [
            (
                "kinesis_bytes_published_total stream=inventory".to_owned(),
                20
            ),
            (
                "kinesis_publish_retries_total stream=inventory".to_owned(),
                2
            ),
            (
                "kinesis_records_published_total stream=inventory".to_owned(),
                5
            ),
            (
                "kinesis_records_unpublished_total stream=orders".to_owned(),
                1
            ),
        ]
    );
}
