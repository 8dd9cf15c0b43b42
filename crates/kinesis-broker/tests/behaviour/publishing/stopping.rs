//! Flushes, shutdowns, and what is dropped.

use kinesis_sim::Fault;
use tokio::runtime::{Builder, Handle};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::support::until;

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_what_was_published_before_and_lets_none_of_it_linger() {
    let sim = sim(1);
    sim.create_stream("orders", 1);
    let publisher = on(&sim)
        .linger(HOUR)
        .max_in_flight_bytes(1_000)
        .start()
        .await
        .unwrap();
    let (inventory, orders) = (
        publisher.stream(STREAM).unwrap(),
        publisher.stream("orders").unwrap(),
    );
    let began = Instant::now();
    // More than there is room for, and several of a key.
    let before: Vec<_> = (0..20_u64)
        .map(|n| inventory.partition_key((n % 3).to_string()).publish(&n))
        .collect();
    let other = orders.partition_key("a").publish(&0);
    let flushed = publisher.flush();
    let mut flushed = std::pin::pin!(flushed);
    assert!(timeout(Duration::ZERO, &mut flushed).await.is_err());
    let mut after = inventory.partition_key("0").publish(&20);
    flushed.await.unwrap();
    assert!(began.elapsed() < MILLI);
    all(before).await;
    other.await.unwrap();
    assert!(timeout(HOUR / 2, &mut after).await.is_err());
    after.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 3_600);
}

#[tokio::test(start_paused = true)]
async fn a_flush_does_not_count_what_was_published_after_it() {
    let sim = sim(1);
    sim.inject(Fault::delay(10 * SECOND));
    let publisher = on(&sim).linger(Duration::ZERO).start().await.unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    let before = inventory.partition_key("a").publish(&0);
    sleep(MILLI).await;
    let mut flushed = std::pin::pin!(publisher.flush());
    assert!(timeout(Duration::ZERO, &mut flushed).await.is_err());
    sim.inject(Fault::access_denied());
    let after = inventory.partition_key("b").publish(&1);
    after.await.unwrap_err();
    assert!(timeout(5 * SECOND, &mut flushed).await.is_err());
    flushed.await.unwrap();
    before.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_flush_counts_what_is_not_stored() {
    let sim = sim(1);
    let publisher = start(&sim).await;
    publisher.flush().await.unwrap();
    let (inventory, orders) = (
        publisher.stream(STREAM).unwrap(),
        publisher.stream("orders").unwrap(),
    );
    let mut under_way: Vec<_> = (0..3_u64)
        .map(|n| orders.partition_key("a").publish(&n))
        .collect();
    under_way.push(inventory.partition_key("a").publish(&0));
    let unstored = publisher.flush().await.unwrap_err();
    assert_eq!(unstored.records(), 3);
    assert_eq!(unstored.streams().collect::<Vec<_>>(), [("orders", 3)]);
    assert_eq!(
        unstored.to_string(),
        "not stored: 3 records for stream orders"
    );
    publisher.flush().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_stores_everything_and_takes_nothing_more() {
    for seed in 0..20 {
        let sim = KinesisSim::builder()
            .seed(seed)
            .latency_between(MILLI, 40 * MILLI)
            .build();
        sim.create_stream(STREAM, 2);
        sim.inject(Fault::partial(5).rate(0.5));
        sim.inject(Fault::reset().rate(0.3));
        let publisher = on(&sim)
            .seed(seed)
            .linger(HOUR)
            .max_records(20)
            .max_in_flight_bytes(9_000);
        let publisher = publisher.shutdown_timeout(HOUR).start().await.unwrap();
        let inventory = publisher.stream(STREAM).unwrap();
        let under_way: Vec<_> = (0..200_u64)
            .map(|n| inventory.partition_key((n % 40).to_string()).publish(&n))
            .collect();
        let mut shutdown = std::pin::pin!(publisher.shutdown());
        assert!(timeout(Duration::ZERO, &mut shutdown).await.is_err());
        let late = inventory.partition_key("a").publish(&200).await;
        let late = late.unwrap_err();
        assert!(matches!(late, PublishError::Stopped { .. }), "{late}");
        assert!(late.to_string().contains(STREAM));
        shutdown.await.unwrap();
        let made = calls(&sim);
        all(under_way).await;
        for (key, values) in by_key(&sim) {
            let key: u64 = key.parse().unwrap();
            assert_eq!(
                values,
                [key, key + 40, key + 80, key + 120, key + 160],
                "seed {seed}"
            );
        }
        assert_eq!(calls(&sim), made, "nothing is left to be put");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_up_at_its_time_limit_and_ends_every_task() {
    for fault in [Fault::reset(), Fault::hang()] {
        let sim = sim(1);
        sim.inject(fault.always());
        let publisher = on(&sim)
            .shutdown_timeout(45 * SECOND)
            .start()
            .await
            .unwrap();
        let inventory = publisher.stream(STREAM).unwrap();
        let under_way: Vec<_> = (0..10_u64)
            .map(|n| inventory.partition_key((n % 5).to_string()).publish(&n))
            .collect();
        let began = Instant::now();
        let unstored = publisher.shutdown().await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), 45);
        assert_eq!(unstored.records(), 10);
        for error in errors(under_way).await {
            assert!(matches!(error, PublishError::Stopped { .. }), "{error}");
        }
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
        let made = calls(&sim);
        sleep(HOUR).await;
        assert_eq!(calls(&sim), made);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_accepted_before_everything_is_dropped_is_stored_and_the_task_ends() {
    let sim = sim(1);
    sim.inject(Fault::reset().times(3));
    let publisher = on(&sim).linger(HOUR).start().await.unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    let clone = inventory.clone();
    let publish = inventory.partition_key("a").publish(&0);
    drop(clone.partition_key("a").publish(&1));
    drop((publisher, inventory));
    sleep(SECOND).await;
    assert_eq!(calls(&sim), 0, "a handle is left");
    drop(clone);
    let began = Instant::now();
    publish.await.unwrap();
    assert!(began.elapsed() < 5 * SECOND, "it waits for no company");
    until("the task has ended", async || {
        Handle::current().metrics().num_alive_tasks() == 0
    })
    .await;
    assert_eq!(values(&sim), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_is_dropped_goes_on_without_anybody() {
    let sim = sim(1);
    let publisher = on(&sim).linger(HOUR).start().await.unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    let publish = inventory.partition_key("a").publish(&0);
    let _ = timeout(Duration::ZERO, publisher.shutdown()).await;
    publish.await.unwrap();
    until("the task has ended", async || {
        Handle::current().metrics().num_alive_tasks() == 0
    })
    .await;
}

#[test]
fn whoever_waits_when_the_runtime_ends_is_told_that_the_publisher_has_stopped() {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let (inventory, under_way) = runtime.block_on(async {
        let sim = sim(1);
        sim.inject(Fault::hang().always());
        let publisher = on(&sim).max_in_flight_bytes(1).start().await.unwrap();
        let inventory = publisher.stream(STREAM).unwrap();
        let under_way: Vec<_> = (0..2_u64)
            .map(|n| inventory.partition_key("a").publish(&n))
            .collect();
        sleep(SECOND).await;
        (inventory, under_way)
    });
    drop(runtime);
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for mut publish in under_way {
            publish.accepted().await;
            let error = publish.await.unwrap_err();
            assert!(matches!(error, PublishError::Stopped { .. }), "{error}");
        }
        let error = inventory.partition_key("a").publish(&2).await.unwrap_err();
        assert!(matches!(error, PublishError::Stopped { .. }), "{error}");
    });
}
