//! Back-pressure: what is accepted, what waits, and what dropping takes back.

use futures_util::FutureExt as _;
use kinesis_sim::Fault;
use tokio::time::sleep;

use super::*;

/// What a record of 100 bytes takes, the key included.
const OF_100: usize = 100 + 256;

fn publish(stream: &kinesis_broker::StreamPublisher, n: u64) -> Publish {
    let text = format!("{n:090}");
    stream.partition_key(format!("{n:010}")).publish_bytes(text)
}

fn is_accepted(publish: &mut Publish) -> bool {
    publish.accepted().now_or_never().is_some()
}

#[tokio::test(start_paused = true)]
async fn no_more_bytes_are_accepted_than_there_is_room_for() {
    let sim = KinesisSim::builder().quotas(false).latency(SECOND).build();
    sim.create_stream(STREAM, 1);
    let publisher = on(&sim)
        .max_in_flight_bytes(10 * OF_100 + 99)
        .linger(Duration::ZERO);
    let publisher = publisher.start().await.unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    let mut under_way: Vec<_> = (0..35).map(|n| publish(&inventory, n)).collect();
    for round in 1..=4 {
        let accepted = under_way.iter_mut().map(is_accepted);
        let accepted: Vec<_> = accepted.collect();
        let expected: Vec<_> = (0..35).map(|n| n < 10 * round).collect();
        assert_eq!(accepted, expected, "in order");
        sleep(SECOND + MILLI).await;
        assert_eq!(stored(&sim, STREAM).len(), 35.min(10 * round));
    }
    all(under_way).await;
}

#[tokio::test(start_paused = true)]
async fn a_producer_that_waits_for_room_runs_no_further_ahead_than_the_room() {
    let sim = KinesisSim::builder()
        .quotas(false)
        .latency(10 * MILLI)
        .build();
    sim.create_stream(STREAM, 1);
    let publisher = on(&sim)
        .max_in_flight_bytes(20 * OF_100)
        .start()
        .await
        .unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    let mut under_way = Vec::new();
    for n in 0..500 {
        let mut publish = publish(&inventory, n);
        publish.accepted().await;
        under_way.push(publish);
        let ahead = n as usize + 1 - stored(&sim, STREAM).len();
        assert!(ahead <= 20, "{ahead}");
    }
    all(under_way).await;
}

#[tokio::test(start_paused = true)]
async fn a_record_larger_than_the_room_goes_alone_and_nothing_passes_it() {
    let sim = sim(1);
    let publisher = on(&sim)
        .max_in_flight_bytes(3 * OF_100)
        .start()
        .await
        .unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    let mut under_way = vec![publish(&inventory, 0)];
    under_way.push(
        inventory
            .partition_key("large")
            .publish_bytes(format!("{:010000}", 1)),
    );
    under_way.push(publish(&inventory, 2));
    all(under_way).await;
    assert_eq!(calls(&sim), 3);
    let lengths = stored(&sim, STREAM)
        .into_iter()
        .map(|record| record.data.len());
    assert_eq!(lengths.collect::<Vec<_>>(), [90, 10_000, 90]);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_dropped_while_it_waits_for_room_is_not_put_and_makes_room() {
    let sim = sim(1);
    sim.inject(Fault::delay(SECOND));
    let publisher = on(&sim)
        .max_in_flight_bytes(2 * OF_100)
        .linger(Duration::ZERO);
    let publisher = publisher.start().await.unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    let first = publish(&inventory, 0);
    let large = inventory
        .partition_key("large")
        .publish_bytes(format!("{:010000}", 1));
    let mut second = publish(&inventory, 2);
    assert!(!is_accepted(&mut second));
    sleep(MILLI).await;
    drop(large);
    assert!(is_accepted(&mut second));
    second.await.unwrap();
    assert_eq!(stored(&sim, STREAM).len(), 1, "at once");
    first.await.unwrap();
    publisher.shutdown().await.unwrap();
    assert_eq!(stored(&sim, STREAM).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_dropped_once_it_is_accepted_is_stored_all_the_same() {
    let sim = sim(1);
    let publisher = start(&sim).await;
    let inventory = publisher.stream(STREAM).unwrap();
    let never_polled = publish(&inventory, 0);
    let mut polled = publish(&inventory, 1);
    assert!((&mut polled).now_or_never().is_none());
    drop((never_polled, polled));
    let next = publish(&inventory, 2);
    next.await.unwrap();
    assert_eq!(values_of_90(&sim), [0, 1, 2]);
}

fn values_of_90(sim: &KinesisSim) -> Vec<u64> {
    let stored = stored(sim, STREAM).into_iter();
    stored
        .map(|record| std::str::from_utf8(&record.data).unwrap().parse().unwrap())
        .collect()
}
