//! DESIGN §8, the lines on Kinesis: what goes wrong with the service, and what is seen of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use kinesis_broker::{KinesisBroker, Prefetch};
use kinesis_sim::{Fault, KinesisSim, Operation};
use lease_core::{Checkpoint, LeaseKey, LeaseStore as _};
use rstream::{AppInfo, Context, Handle, HandlerOutcome, RustStream, subscriber};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{
    Call, Fleet, Logs, STREAM, ack, ack_after, from_the_start, shard, until, within,
};

const SECOND: Duration = Duration::from_secs(1);

/// Waits until every value below `count` is handled, and sees that none was handled twice.
async fn handled_once(fleet: &Fleet, count: u64) {
    until(format!("{count} are handled"), async || {
        fleet.handled().len() as u64 >= count
    })
    .await;
    sleep(20 * SECOND).await;
    assert_eq!(fleet.handled(), (0..count).collect::<Vec<_>>());
    assert_eq!(fleet.seen().len() as u64, count, "nothing twice");
}

#[tokio::test(start_paused = true)]
async fn a_failing_read_keeps_its_iterator_repeats_nothing_and_is_reported_once_a_streak() {
    for (name, fault) in [
        ("throttled", Fault::throttle()),
        ("500", Fault::internal()),
        ("503", Fault::unavailable()),
        ("timed out", Fault::timeout()),
        ("reset", Fault::reset()),
        ("never answered", Fault::hang()),
        ("answer lost", Fault::lost_answer()),
    ] {
        let fleet = Fleet::of_shards(1);
        fleet.put(&shard(0), 0);
        let instance = fleet.instance("a").start().await;
        until("the first is handled", async || fleet.seen().len() == 1).await;
        for streak in 1..=2 {
            let fault = fault.clone().on(Operation::GetRecords).times(6);
            fleet.sim.inject(fault);
            fleet.put(&shard(0), streak);
            handled_once(&fleet, streak + 1).await;
            assert_eq!(fleet.sim.faults_struck(), 6 * streak, "{name}");
            let reported = instance.errors_of("Read");
            assert_eq!(reported.len() as u64, streak, "{name}: {reported:?}");
            let text = &reported.last().unwrap().text;
            for part in [STREAM, &shard(0), "GetRecords"] {
                assert!(text.contains(part), "{name}: {text}");
            }
        }
        assert_eq!(instance.errors().len(), 2, "{name}");
        assert_eq!(fleet.sim.calls(Operation::GetShardIterator), 1, "{name}");
        let last = fleet.seen()[2].sequence_number.clone();
        assert_eq!(fleet.checkpoint(&shard(0)).await, last);
    }
}

#[tokio::test(start_paused = true)]
async fn failing_reads_back_off_with_jitter() {
    let fleet = Fleet::of_shards(2);
    let _instance = fleet.instance("a").start().await;
    let reads = || [0, 1].map(|n| fleet.sim.calls_of(Operation::GetRecords, &shard(n)));
    fleet.sim.inject(Fault::throttle().always());
    sleep(60 * SECOND).await;
    let before = reads();
    sleep(600 * SECOND).await;
    let [one, other] = [0, 1].map(|n| reads()[n] - before[n]);
    // Between five and ten seconds apart.
    assert!((60..=121).contains(&one), "{one}");
    assert!((60..=121).contains(&other), "{other}");
    assert_ne!(one, other);
    fleet.sim.clear_faults();
    fleet.put(&shard(0), 0);
    within(11 * SECOND, "reading goes on", async || {
        (fleet.values() == [0]).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_iterator_that_expires_while_a_record_is_unsettled_neither_repeats_nor_wedges() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 0);
    fleet.put(&shard(0), 1);
    let instance = fleet
        .instance("a")
        // Read ahead, the iterator would be kept fresh.
        .streams([from_the_start(STREAM).prefetch(Prefetch::none())])
        // An iterator lives for five minutes.
        .handler(|seen| match seen.value {
            ..2 => ack_after(400 * SECOND),
            _ => ack(),
        })
        .start()
        .await;
    until("it is given", async || fleet.seen().len() == 1).await;
    fleet.put(&shard(0), 2);
    sleep(1_000 * SECOND).await;
    handled_once(&fleet, 3).await;
    // Each record took longer than an iterator lives.
    assert_eq!(fleet.sim.calls(Operation::GetShardIterator), 3);
    let put = fleet.put(&shard(0), 3);
    handled_once(&fleet, 4).await;
    assert_eq!(fleet.checkpoint(&shard(0)).await, put);
    assert_eq!(fleet.state(&shard(0)).await.epoch, 1, "the lease was kept");
    assert!(instance.errors().is_empty(), "{:?}", instance.errors());
}

#[tokio::test(start_paused = true)]
async fn iterators_that_expire_again_and_again_cost_no_record_and_repeat_none() {
    let fleet = Fleet::of_shards(3);
    let _instance = fleet
        .instance("a")
        .handler(|seen| ack_after(Duration::from_millis(seen.value % 7 * 50)))
        .start()
        .await;
    for n in 0..300 {
        fleet.put(&shard(n as usize % 3), n);
        sleep(Duration::from_millis(130)).await;
        if n % 3 == 0 {
            fleet.sim.expire_iterators();
        }
    }
    handled_once(&fleet, 300).await;
    for n in 0..3 {
        let last = fleet.sim.records(STREAM, &shard(n)).pop().unwrap();
        assert_eq!(fleet.checkpoint(&shard(n)).await, last.sequence_number);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_after_an_expired_iterator_is_reported_all_the_same() {
    let fleet = Fleet::of_shards(1);
    let instance = fleet.instance("a").start().await;
    let opening = Fault::access_denied().on(Operation::GetShardIterator);
    fleet.sim.inject(opening.always());
    fleet.sim.expire_iterators();
    until("it is reported", async || {
        !instance.errors_of("Read").is_empty()
    })
    .await;
    sleep(60 * SECOND).await;
    let reported = instance.errors_of("Read");
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].text.contains("AccessDenied"), "{reported:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_missing_is_reported_by_name_at_each_listing_and_read_once_it_is_there() {
    let fleet = Fleet::empty();
    let started = Instant::now();
    let instance = fleet.instance("a").start().await;
    assert!(started.elapsed() < SECOND, "the start does not wait for it");
    sleep(30 * SECOND).await;
    let reported = instance.errors_of("Listing");
    assert!((10..=11).contains(&reported.len()), "{}", reported.len());
    assert_eq!(instance.errors().len(), reported.len());
    for error in reported {
        assert!(error.text.contains("stream inventory"), "{}", error.text);
        assert!(error.text.contains("ResourceNotFound"), "{}", error.text);
    }
    fleet.sim.create_stream(STREAM, 2);
    fleet.put(&shard(0), 0);
    fleet.put(&shard(1), 1);
    within(5 * SECOND, "it is read", async || {
        (fleet.handled() == [0, 1]).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_deleted_is_reported_at_each_listing_and_read_when_it_is_back() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 0);
    let instance = fleet.instance("a").start().await;
    until("it is handled", async || fleet.seen().len() == 1).await;
    fleet.sim.delete_stream(STREAM);
    sleep(60 * SECOND).await;
    let reported = instance.errors_of("Listing").len();
    assert!((20..=21).contains(&reported), "{reported}");
    assert_eq!(instance.errors_of("Read").len(), 1);
    fleet.sim.create_stream(STREAM, 1);
    fleet.put(&shard(0), 1);
    within(12 * SECOND, "it is read", async || {
        (fleet.values() == [0, 1]).then_some(())
    })
    .await;
    let reported = instance.errors_of("Listing").len();
    sleep(30 * SECOND).await;
    assert_eq!(instance.errors_of("Listing").len(), reported);
}

#[tokio::test(start_paused = true)]
async fn denied_listings_are_reported_by_the_streams_name_while_its_shards_are_read_on() {
    let fleet = Fleet::of_shards(1);
    let instance = fleet.instance("a").start().await;
    let denied = Fault::access_denied().on(Operation::ListShards);
    fleet.sim.inject(denied.for_duration(60 * SECOND));
    for n in 0..6 {
        fleet.put(&shard(0), n);
        sleep(10 * SECOND).await;
    }
    let reported = instance.errors_of("Listing");
    assert!((19..=21).contains(&reported.len()), "{}", reported.len());
    for error in reported {
        assert!(error.text.contains("stream inventory"), "{}", error.text);
        assert!(error.text.contains("AccessDenied"), "{}", error.text);
        assert!(error.text.contains("kinesis:ListShards"), "{}", error.text);
    }
    assert_eq!(fleet.values(), [0, 1, 2, 3, 4, 5]);
    let [child, _] = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put(&child, 6);
    handled_once(&fleet, 7).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_denied_altogether_is_read_once_it_is_allowed() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 0);
    fleet.sim.inject(Fault::access_denied().always());
    let instance = fleet.instance("a").start().await;
    sleep(60 * SECOND).await;
    assert!(instance.errors_of("Listing").len() >= 20);
    fleet.sim.clear_faults();
    within(5 * SECOND, "it is read", async || {
        (fleet.values() == [0]).then_some(())
    })
    .await;
}

/// Two streams, one of which meets `fault` from before the start or from some time after: the other is
/// opened, read and followed through a split without delay.
async fn delays_no_other(fault: Fault, shards: usize, is_early: bool) {
    let fleet = Fleet::of_shards(1);
    fleet.sim.create_stream("broken", shards);
    let fault = fault.stream("broken").always();
    let streams = [from_the_start("broken"), from_the_start(STREAM)];
    fleet.put(&shard(0), 0);
    let fleet_of_start = fleet.clone();
    let start = fleet_of_start.instance("a").streams(streams).start();
    let instance = if is_early {
        fleet.sim.inject(fault);
        let is_read = within(3 * SECOND, "the other is read", async || {
            (fleet.values() == [0]).then_some(())
        });
        tokio::join!(start, is_read).0
    } else {
        let instance = start.await;
        until("the other is read", async || fleet.values() == [0]).await;
        fleet.sim.inject(fault);
        sleep(20 * SECOND).await;
        instance
    };
    let mut parent = shard(0);
    for n in 1..10 {
        fleet.put(&parent, n);
        within(2 * SECOND, "the other is read on", async || {
            fleet.values().contains(&n).then_some(())
        })
        .await;
        let [child, _] = fleet.sim.split_shard(STREAM, &parent);
        parent = child;
        fleet.put(&parent, 100 + n);
        within(3 * SECOND, format!("child {n} is read"), async || {
            fleet.values().contains(&(100 + n)).then_some(())
        })
        .await;
        sleep(Duration::from_millis(1_300)).await;
    }
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_stream_whose_listing_hangs_delays_no_other() {
    for is_early in [false, true] {
        let hangs = Fault::hang().on(Operation::ListShards);
        delays_no_other(hangs, 1, is_early).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_stream_whose_listing_fails_delays_no_other() {
    for is_early in [false, true] {
        let fails = Fault::internal().on(Operation::ListShards);
        delays_no_other(fails, 1, is_early).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_stream_whose_shards_cannot_be_opened_delays_no_other() {
    // More than are opened at once.
    let hangs = Fault::hang().on(Operation::GetShardIterator);
    delays_no_other(hangs, 150, true).await;
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_past_what_the_stream_has_is_warned_of_and_read_from_trim_horizon() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 0);
    let last = fleet.put(&shard(0), 1);
    // A later number of the same shard that no record ever had.
    let (head, tail) = last.split_at(last.len() - 20);
    let tail: u128 = tail.parse().unwrap();
    let unknown = format!("{head}{:020}", tail + 10_u128.pow(10) * 5);
    let unknown = Checkpoint::at(unknown);
    fleet.leave_checkpoint(&shard(0), &unknown).await;
    let instance = fleet.instance("a").start().await;
    handled_once(&fleet, 2).await;
    let warnings = logs.warnings("TRIM_HORIZON");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in [STREAM, &shard(0), &unknown.to_string()] {
        assert!(warnings[0].contains(part), "{warnings:?}");
    }
    assert!(instance.errors().is_empty(), "{:?}", instance.errors());
    assert_eq!(fleet.checkpoint(&shard(0)).await, last);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_whose_record_was_trimmed_goes_on_at_the_oldest_that_is_left() {
    let fleet = Fleet::of_shards(1);
    let put: Vec<_> = (0..4).map(|n| fleet.put(&shard(0), n)).collect();
    fleet
        .leave_checkpoint(&shard(0), &Checkpoint::at(put[0].clone()))
        .await;
    fleet.sim.trim_through(STREAM, &shard(0), &put[2]);
    let _instance = fleet.instance("a").start().await;
    until("it is handled", async || fleet.values() == [3]).await;
}

#[tokio::test(start_paused = true)]
async fn one_reader_is_never_throttled_by_its_own_pace() {
    // Answers and requests take their time, so that calls arrive closer than they were made.
    let fast = Duration::ZERO..=Duration::ZERO;
    let slow = Duration::from_millis(5)..=Duration::from_millis(100);
    for latency in [fast, slow] {
        let sim = KinesisSim::builder()
            .seed(3)
            .latency_between(*latency.start(), *latency.end())
            .build();
        let fleet = Fleet::on(sim);
        fleet.sim.create_stream(STREAM, 1);
        // Shorter than the service allows.
        let stream = from_the_start(STREAM).poll_interval(Duration::from_millis(1));
        let instance = fleet.instance("a").streams([stream]).start().await;
        let reads = fleet.sim.calls(Operation::GetRecords);
        for n in 0..600 {
            fleet.put(&shard(0), n);
            sleep(Duration::from_millis(50)).await;
        }
        let reads = fleet.sim.calls(Operation::GetRecords) - reads;
        assert!((80..=151).contains(&reads), "{reads} reads in 30 s");
        handled_once(&fleet, 600).await;
        assert!(instance.errors().is_empty(), "{:?}", instance.errors());
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_catches_up_paces_itself_by_what_it_reads() {
    let sim = KinesisSim::builder().seed(3).build();
    let fleet = Fleet::on(sim);
    fleet.sim.create_stream(STREAM, 1);
    for n in 0..40 {
        let mut value = n.to_string();
        value.insert_str(0, &" ".repeat(1_000_000));
        fleet.sim.put_to_shard(STREAM, &shard(0), "key", value);
    }
    let started = Instant::now();
    let instance = fleet.instance("a").start().await;
    // 2 MiB a second.
    within(25 * SECOND, "all are handled", async || {
        (fleet.seen().len() == 40).then_some(())
    })
    .await;
    assert!(started.elapsed() > 14 * SECOND, "{:?}", started.elapsed());
    assert!(instance.errors().is_empty(), "{:?}", instance.errors());
}

#[tokio::test(start_paused = true)]
async fn five_thousand_shards_are_listed_within_a_period_and_in_batches() {
    let fleet = Fleet::of_shards(5_000);
    let free = 200;
    // Somebody holds the others all day long, which saves the time to open them.
    for n in free..5_000 {
        let key = LeaseKey::new(STREAM, shard(n));
        let held = fleet.store.inner.acquire(&key, "b", 86_400 * SECOND).await;
        assert!(held.unwrap().is_some());
    }
    let started = Instant::now();
    let stream = from_the_start(STREAM).poll_interval(3_600 * SECOND);
    let instance = fleet.instance("a").streams([stream]).start().await;
    assert!(started.elapsed() < 3 * SECOND, "{:?}", started.elapsed());
    let counts = || {
        let mut batches = fleet.store.made_of(Call::ReadAll);
        batches.retain(|made| made.keys == 5_000);
        let pages = fleet.sim.calls(Operation::ListShards);
        (pages, batches.len(), fleet.store.made_of(Call::Read).len())
    };
    let (pages, batches, singles) = counts();
    sleep(30 * SECOND).await;
    let now = counts();
    let listings = now.1 - batches;
    // At its rate, and for the asks, but no more.
    assert!((9..=20).contains(&listings), "{listings}");
    // A page has up to a thousand shards.
    assert_eq!(now.0 - pages, 5 * listings as u64);
    assert_eq!(now.2, singles);
    assert_eq!(fleet.sim.calls(Operation::GetShardIterator), free as u64);
    assert!(instance.errors().is_empty());
}

/// Panics at the first call.
#[derive(Debug)]
struct PanicsOnce {
    inner: SharedHttpClient,
    has_panicked: AtomicBool,
}

impl HttpClient for PanicsOnce {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let is_first = !self.has_panicked.swap(true, Ordering::Relaxed);
        assert!(!is_first, "the connector is out of order");
        self.inner.http_connector(settings, components)
    }
}

/// Tells of each value.
struct Tells(mpsc::UnboundedSender<u64>);

impl Handle<u64> for Tells {
    async fn handle(&self, value: &u64, _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
        self.0.send(*value).map_err(|_| HandlerOutcome::retry())
    }
}

#[tokio::test(start_paused = true)]
async fn a_connector_that_panics_under_a_listing_is_one_failure_more() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 7);
    let config = fleet.sim.sdk_config();
    let panics = PanicsOnce {
        inner: config.http_client().expect("the simulation's"),
        has_panicked: AtomicBool::new(false),
    };
    let config = config
        .into_builder()
        .http_client(SharedHttpClient::new(panics))
        .build();
    let broker = KinesisBroker::from_config(&config).owner_id("a").seed(1);
    let (tell, mut told) = mpsc::unbounded_channel();
    let app = RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(subscriber(from_the_start(STREAM), Tells(tell)).build());
    });
    let running = timeout(60 * SECOND, app.start())
        .await
        .expect("it starts")
        .expect("it starts");
    let first = timeout(60 * SECOND, told.recv()).await;
    assert_eq!(first.expect("it is read"), Some(7));
    running.shutdown().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_comes_late_counts_and_is_not_made_again_at_once() {
    let fleet = Fleet::of_shards(1);
    let slow = Fault::delay(Duration::from_millis(1_200)).on(Operation::ListShards);
    fleet.sim.inject(slow.always());
    let a = fleet.instance("a").start().await;
    let listed = fleet.sim.calls(Operation::ListShards);
    sleep(30 * SECOND).await;
    let listed = fleet.sim.calls(Operation::ListShards) - listed;
    assert!((9..=11).contains(&listed), "{listed}");
    a.stop().await;
}
