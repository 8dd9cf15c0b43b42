//! What no ordinary day brings: durations without end, stores that are slow or panic, two troubles at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use kinesis_broker::{KinesisBroker, KinesisStream};
use kinesis_sim::{Fault, Operation};
use lease_core::{Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal};
use lease_memory::MemoryLeaseStore;
use rstream::{AppInfo, Context, Handle, HandlerOutcome, Running, RustStream, subscriber};
use tokio::time::{Instant, sleep};

use crate::support::{
    Call, Fleet, STREAM, Trouble, ack, ack_after, from_the_start, say, shard, until, within,
};

const SECOND: Duration = Duration::from_secs(1);

struct Nothing;

impl Handle<u64> for Nothing {
    async fn handle(&self, _: &u64, _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
        Ok(())
    }
}

async fn start(fleet: &Fleet, store: Arc<dyn LeaseStore>, streams: &[&str]) -> Running {
    let broker = KinesisBroker::from_config(&fleet.sim.sdk_config())
        .lease_store(store)
        .owner_id("a")
        .seed(7);
    RustStream::new(AppInfo::new("test", "0.0.0"))
        .with_broker(broker, |b| {
            for stream in streams {
                b.include(subscriber(from_the_start(stream), Nothing).build::<u64>());
            }
        })
        .start()
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_timeout_without_end_still_settles_and_releases() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let a = fleet
        .instance("a")
        .handler(|_| ack_after(2 * SECOND))
        .configure(|broker| broker.shutdown_timeout(Duration::MAX))
        .start()
        .await;
    until("it runs", async || fleet.seen().len() == 1).await;
    a.stop().await;
    assert!(fleet.seen()[0].done_at.is_some());
    assert_eq!(fleet.state(&shard(0)).await.holder, None);
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_timeout_without_end_still_hands_over() {
    let fleet = Fleet::of_shards(2);
    let a = fleet
        .instance("a")
        .configure(|broker| broker.hand_over_timeout(Duration::MAX))
        .start()
        .await;
    let b = fleet.instance("b").start().await;
    within(30 * SECOND, "b has one", async || {
        let owners = [fleet.owner(&shard(0)).await, fleet.owner(&shard(1)).await];
        (owners.contains(&"b".to_owned()) && owners.contains(&"a".to_owned())).then_some(())
    })
    .await;
    a.stop().await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_poll_interval_without_end_reads_what_is_there() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let a = fleet
        .instance("a")
        .streams([from_the_start(STREAM).poll_interval(Duration::MAX)])
        .start()
        .await;
    fleet.until_handled(1).await;
    sleep(30 * SECOND).await;
    assert!(a.errors().is_empty(), "{:?}", a.errors());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn retry_after_without_end_waits_and_retry_after_zero_does_not_wedge() {
    let fleet = Fleet::of_shards(2);
    fleet.put(&shard(0), 1);
    fleet.put(&shard(1), 2);
    let a = fleet
        .instance("a")
        .handler(|seen| match (seen.value, seen.attempt) {
            (1, _) => say(HandlerOutcome::retry_after(Duration::MAX)),
            (2, 1..5_000) => say(HandlerOutcome::retry_after(Duration::ZERO)),
            _ => ack(),
        })
        .start()
        .await;
    until("2 settles", async || {
        fleet
            .seen()
            .iter()
            .any(|seen| seen.value == 2 && seen.attempt == 5_000)
    })
    .await;
    sleep(30 * SECOND).await;
    assert!(a.errors().is_empty(), "{:?}", a.errors());
    a.stop().await;
}

/// Five calls, each of which takes a while: what a user writes on top of some server.
#[derive(Debug)]
struct FiveCalls(MemoryLeaseStore, Duration);

#[async_trait]
impl LeaseStore for FiveCalls {
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        sleep(self.1).await;
        self.0.acquire(key, owner, ttl).await
    }
    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        sleep(self.1).await;
        self.0.renew(key, holder, ttl).await
    }
    async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        sleep(self.1).await;
        self.0.checkpoint(key, holder, at).await
    }
    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        sleep(self.1).await;
        self.0.read(key).await
    }
    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        sleep(self.1).await;
        self.0.release(key, holder).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_of_five_calls_serves_a_thousand_shards() {
    let fleet = Fleet::of_shards(1_000);
    let store = MemoryLeaseStore::new();
    let five = FiveCalls(store.clone(), Duration::from_millis(20));
    let running = start(&fleet, Arc::new(five), &[STREAM]).await;
    let keys: Vec<_> = (0..1_000).map(|n| fleet.key(&shard(n))).collect();
    within(120 * SECOND, "all are read", async || {
        let states = store.read_all(&keys).await.unwrap();
        states.iter().all(|state| state.live).then_some(())
    })
    .await;
    running.shutdown().await.unwrap();
}

#[derive(Debug)]
struct Panics {
    store: MemoryLeaseStore,
    renew: AtomicBool,
    listing: AtomicBool,
}

#[async_trait]
impl LeaseStore for Panics {
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        self.store.acquire(key, owner, ttl).await
    }
    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        assert!(
            !self.renew.swap(false, Ordering::SeqCst),
            "a fault of the store's"
        );
        self.store.renew(key, holder, ttl).await
    }
    async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        self.store.checkpoint(key, holder, at).await
    }
    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        self.store.read(key).await
    }
    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        self.store.release(key, holder).await
    }
    async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
        assert!(
            !self.listing.swap(false, Ordering::SeqCst),
            "a fault of the store's"
        );
        self.store.read_all(keys).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_is_one_that_fails() {
    let fleet = Fleet::of_shards(2);
    let store = Arc::new(Panics {
        store: MemoryLeaseStore::new(),
        renew: AtomicBool::new(false),
        listing: AtomicBool::new(false),
    });
    let running = start(&fleet, Arc::clone(&store) as _, &[STREAM]).await;
    store.renew.store(true, Ordering::SeqCst);
    store.listing.store(true, Ordering::SeqCst);
    until("both have panicked", async || {
        !store.renew.load(Ordering::SeqCst) && !store.listing.load(Ordering::SeqCst)
    })
    .await;
    sleep(60 * SECOND).await;
    for n in 0..2 {
        assert!(store.read(&fleet.key(&shard(n))).await.unwrap().live);
    }
    running.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_two_that_are_killed_at_once_each_shard_is_read_elsewhere_within_16_s() {
    let mut worst = Duration::ZERO;
    for seed in 0..12 {
        let fleet = Fleet::of_shards(9);
        let a = fleet.instance("a").start().await;
        let b = fleet.instance("b").start().await;
        let c = fleet.instance("c").start().await;
        sleep(60 * SECOND + Duration::from_millis(seed * 277)).await;
        a.kill();
        b.kill();
        let killed = Instant::now();
        for n in 0..9 {
            fleet.put(&shard(n), 1);
        }
        until("all are handled", async || fleet.seen().len() == 9).await;
        let gap = killed.elapsed();
        worst = worst.max(gap);
        c.kill();
    }
    assert!(worst <= 16 * SECOND, "{worst:?}");
}

#[tokio::test(start_paused = true)]
async fn a_vanished_row_whose_new_acquisition_loses_its_answer_loses_no_record() {
    let fleet = Fleet::of_shards(1);
    let a = fleet
        .instance("a")
        .streams([KinesisStream::new(STREAM)])
        .start()
        .await;
    fleet.put_all(&shard(0), 0..3);
    fleet.until_handled(3).await;
    sleep(SECOND).await;
    fleet.store.trouble(Call::Acquire, Trouble::LosesAnswer, 1);
    fleet.store.vanish(&fleet.key(&shard(0)));
    sleep(5 * SECOND).await;
    fleet.put_all(&shard(0), 3..6);
    sleep(60 * SECOND).await;
    assert_eq!(fleet.handled(), [0, 1, 2, 3, 4, 5]);
    a.stop().await;
}

#[tokio::test]
async fn a_signal_during_the_start_stops_gracefully_what_reads_already() {
    let fleet = Fleet::of_shards(1);
    fleet.sim.create_stream("slow", 1);
    fleet.put_all(&shard(0), 0..3);
    // The start waits for this one.
    fleet.sim.inject(
        Fault::hang()
            .on(Operation::GetShardIterator)
            .stream("slow")
            .always(),
    );
    struct Slow(Arc<Mutex<Vec<bool>>>);
    impl Handle<u64> for Slow {
        async fn handle(&self, _: &u64, _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
            let at = {
                let mut log = self.0.lock().unwrap();
                log.push(false);
                log.len() - 1
            };
            sleep(Duration::from_millis(1_500)).await;
            self.0.lock().unwrap()[at] = true;
            Ok(())
        }
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    let broker = KinesisBroker::from_config(&fleet.sim.sdk_config())
        .lease_store(Arc::new(fleet.store.of("a")))
        .owner_id("a");
    let app = RustStream::new(AppInfo::new("test", "0.0.0")).with_broker(broker, |b| {
        b.include(subscriber(from_the_start(STREAM), Slow(Arc::clone(&log))).build::<u64>());
        b.include(subscriber(from_the_start("slow"), Nothing).build::<u64>());
    });
    let run = tokio::spawn(app.run());
    while log.lock().unwrap().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    let pid = std::process::id().to_string();
    std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status()
        .unwrap();
    run.await.unwrap().unwrap();
    let log = log.lock().unwrap().clone();
    assert!(
        log.iter().all(|ended| *ended),
        "the handler ran to its end: {log:?}"
    );
    assert_eq!(
        fleet.state(&shard(0)).await.holder,
        None,
        "the lease is given back"
    );
}
