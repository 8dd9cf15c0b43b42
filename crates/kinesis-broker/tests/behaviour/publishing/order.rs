//! What fails is put again, alone, and in the order of its key.

use kinesis_sim::Fault;
use tokio::time::{Instant, sleep};

use super::*;

/// Publishes 400 records of 12 keys to a service that fails in every way, and checks what is stored.
pub(super) async fn troubled(sim: &KinesisSim, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let puts = |fault: Fault| fault.on(Operation::PutRecords);
    sim.inject(puts(Fault::throttle()).rate(0.05));
    sim.inject(puts(Fault::internal()).rate(0.05));
    sim.inject(puts(Fault::reset()).rate(0.05));
    sim.inject(puts(Fault::lost_answer()).rate(0.05));
    sim.inject(puts(Fault::hang()).rate(0.005));
    sim.inject(puts(Fault::partial(rng.usize(1..6))).rate(0.3));
    let publisher = on(sim)
        .seed(rng.u64(..))
        .max_records(rng.usize(1..20))
        .max_calls(rng.usize(1..6));
    let publisher = publisher
        .linger(rng.u32(0..30) * MILLI)
        .max_in_flight_bytes(rng.usize(1..20_000));
    let publisher = publisher.start().await.unwrap();
    // One order, through whichever handle.
    let handles = [
        publisher.stream(STREAM).unwrap(),
        publisher.stream(STREAM).unwrap(),
    ];
    let mut published = BTreeMap::<_, Vec<_>>::new();
    let mut under_way = Vec::new();
    for n in 0..400_u64 {
        let key = rng.u8(0..12).to_string();
        let handle = &handles[rng.usize(..2)];
        under_way.push(handle.partition_key(key.as_str()).publish(&n));
        published.entry(key).or_default().push(n);
        match rng.u8(..) {
            0..8 => sleep(rng.u32(0..200) * MILLI).await,
            8..10 => reshard(sim, &mut rng),
            _ => {}
        }
    }
    let told = all(under_way).await;
    let stored = stored(sim, STREAM).into_iter();
    let stored: BTreeMap<_, _> = stored
        .map(|record| (record.sequence_number.clone(), value(&record)))
        .collect();
    for (n, published) in told.iter().enumerate() {
        assert_eq!(stored[&published.sequence_number], n as u64, "seed {seed}");
    }
    assert_eq!(by_key(sim), published, "seed {seed}");
}

fn reshard(sim: &KinesisSim, rng: &mut fastrand::Rng) {
    let mut open = sim.shards(STREAM);
    open.retain(|shard| shard.open);
    sim.split_shard(STREAM, &open[rng.usize(..open.len())].id);
}

#[tokio::test(start_paused = true)]
async fn the_records_of_a_key_are_stored_in_order_whatever_fails() {
    for seed in 0..12 {
        let sim = KinesisSim::builder()
            .seed(seed)
            .latency_between(MILLI, 40 * MILLI)
            .build();
        sim.create_stream(STREAM, 2);
        troubled(&sim, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_records_of_a_key_are_stored_in_order_when_many_threads_publish() {
    let sim = sim(2);
    sim.inject(Fault::partial(20).rate(0.2));
    let publisher = on(&sim).max_in_flight_bytes(20_000).linger(MILLI);
    let publisher = publisher.start().await.unwrap();
    let tasks = (0..8_u64).map(|task| {
        let inventory = publisher.stream(STREAM).unwrap();
        tokio::spawn(async move {
            let mut under_way = Vec::new();
            for n in 0..200_u64 {
                let key = (task * 10 + n % 10).to_string();
                let mut publish = inventory.partition_key(key).publish(&n);
                if n % 7 == 0 {
                    publish.accepted().await;
                }
                under_way.push(publish);
            }
            all(under_way).await
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert_eq!(task.await.unwrap().len(), 200);
    }
    let keys = by_key(&sim);
    assert_eq!(keys.len(), 80);
    for (key, values) in keys {
        let first = key.parse::<u64>().unwrap() % 10;
        let expected = (0..20).map(|round| 10 * round + first);
        assert_eq!(values, expected.collect::<Vec<_>>(), "key {key}");
    }
    publisher.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_fails_of_a_call_is_put_again_alone() {
    let sim = sim(2);
    sim.inject(Fault::partial(3));
    let publisher = start(&sim).await;
    let inventory = publisher.stream(STREAM).unwrap();
    let under_way = (0..10_u64).map(|n| inventory.partition_key(n.to_string()).publish(&n));
    let began = Instant::now();
    all(under_way.collect()).await;
    let took = began.elapsed();
    assert!(took >= 120 * MILLI && took <= 221 * MILLI, "{took:?}");
    assert_eq!(calls(&sim), 2, "the three of them together");
    let mut values = values(&sim);
    assert_eq!(values.len(), 10, "nothing is there twice");
    values.sort_unstable();
    assert_eq!(values, (0..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn while_a_record_waits_for_its_retry_its_key_waits_and_the_others_go_on() {
    let sim = sim(1);
    sim.inject(Fault::partial(1));
    let publisher = on(&sim).linger(Duration::ZERO).start().await.unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    let first = inventory.partition_key("a").publish(&0);
    sleep(MILLI).await;
    let second = inventory.partition_key("a").publish(&1);
    inventory.partition_key("b").publish(&2).await.unwrap();
    assert_eq!(values(&sim), [2]);
    all(vec![second, first]).await;
    assert_eq!(values(&sim), [2, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_throttles_delays_no_other() {
    let sim = sim(2);
    let keys = sim
        .shards(STREAM)
        .into_iter()
        .map(|shard| sim.partition_key_for(STREAM, &shard.id));
    let keys: Vec<_> = keys.collect();
    let first = sim.shards(STREAM)[0].id.clone();
    sim.inject(Fault::partial(500).shard(first).for_duration(10 * SECOND));
    let publisher = start(&sim).await;
    let inventory = publisher.stream(STREAM).unwrap();
    let slow = inventory.partition_key(keys[0].as_str()).publish(&0);
    for n in 1..20 {
        let began = Instant::now();
        inventory
            .partition_key(keys[1].as_str())
            .publish(&n)
            .await
            .unwrap();
        assert!(began.elapsed() <= 21 * MILLI, "{:?}", began.elapsed());
    }
    let began = Instant::now();
    slow.await.unwrap();
    assert!(began.elapsed() >= 9 * SECOND && began.elapsed() <= 12 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_key_with_order_has_one_record_in_each_round_trip_and_without_it_has_all() {
    let sim = KinesisSim::builder()
        .quotas(false)
        .latency(100 * MILLI)
        .build();
    sim.create_stream(STREAM, 1);
    let publisher = on(&sim).linger(Duration::ZERO).start().await.unwrap();
    let ordered = publisher.stream(STREAM).unwrap();
    let unordered = ordered.clone().unordered();
    for (handle, round_trips) in [(ordered, 30), (unordered, 1)] {
        let under_way = (0..30_u64).map(|n| handle.partition_key("a").publish(&n));
        let before = calls(&sim);
        let began = Instant::now();
        all(under_way.collect()).await;
        assert_eq!(began.elapsed(), round_trips * 100 * MILLI);
        assert_eq!(calls(&sim) - before, u64::from(round_trips));
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_answer_is_lost_is_there_twice_before_the_next_of_its_key() {
    let sim = sim(1);
    sim.inject(Fault::lost_answer());
    let publisher = start(&sim).await;
    let inventory = publisher.stream(STREAM).unwrap();
    let under_way = (0..2_u64).map(|n| inventory.partition_key("a").publish(&n));
    let published = all(under_way.collect()).await;
    assert_eq!(values(&sim), [0, 0, 1]);
    let numbers: Vec<_> = stored(&sim, STREAM)
        .into_iter()
        .map(|record| record.sequence_number)
        .collect();
    assert_eq!(
        published[0].sequence_number, numbers[1],
        "of the one that was answered"
    );
}

#[tokio::test(start_paused = true)]
async fn a_burst_over_the_quota_of_a_shard_is_stored_at_nearly_its_rate() {
    let sim = KinesisSim::builder().seed(7).latency(10 * MILLI).build();
    sim.create_stream(STREAM, 1);
    let publisher = start(&sim).await;
    let inventory = publisher.stream(STREAM).unwrap();
    let began = Instant::now();
    let under_way = (0..10_000_u64).map(|n| inventory.partition_key(n.to_string()).publish(&n));
    all(under_way.collect()).await;
    assert_eq!(values(&sim).len(), 10_000);
    let took = began.elapsed();
    // A second's worth at once, and then 1,000 a second.
    assert!(took >= 9 * SECOND && took <= 12 * SECOND, "{took:?}");
    assert!(calls(&sim) < 200, "{}", calls(&sim));
}
