//! The broker over sockets against a real Kinesis server; `cargo xtask integration` starts one.
#![cfg(feature = "integration")]
#![expect(clippy::unwrap_used, reason = "a failed call fails the test")]

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::{ScalingType, StreamStatus};
use kinesis_broker::prelude::*;
use lease_core::{Checkpoint, LeaseKey};
use lease_memory::MemoryLeaseStore;
use rstream::Running;
use tokio::time::{sleep, timeout};

const LIMIT: Duration = Duration::from_secs(90);

fn endpoint() -> String {
    std::env::var("KINESIS_ENDPOINT").expect("run this by `cargo xtask integration`")
}

/// A stream of this test's own, and what was handled of it.
#[derive(Clone)]
struct Bench {
    client: Client,
    stream: &'static str,
    handled: Arc<Mutex<Vec<u64>>>,
    errors: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    fn on(stream: &'static str) -> Self {
        let config = aws_sdk_kinesis::config::Builder::new()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .endpoint_url(endpoint())
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .build();
        Self {
            client: Client::from_conf(config),
            stream,
            handled: Arc::default(),
            errors: Arc::default(),
        }
    }

    async fn create(&self, shards: i32) {
        let request = self.client.create_stream().stream_name(self.stream);
        request.shard_count(shards).send().await.unwrap();
        self.until_active().await;
    }

    async fn until_active(&self) {
        let is_active = async || {
            let request = self
                .client
                .describe_stream_summary()
                .stream_name(self.stream);
            let answer = request.send().await.unwrap();
            let summary = answer.stream_description_summary().unwrap();
            *summary.stream_status() == StreamStatus::Active
        };
        until("the stream is active", is_active).await;
    }

    async fn put(&self, values: std::ops::Range<u64>) {
        for value in values {
            let request = self.client.put_record().stream_name(self.stream);
            let request = request.partition_key(format!("key-{}", value % 13));
            let data = Blob::new(value.to_string());
            request.data(data).send().await.unwrap();
        }
    }

    async fn start(&self, leases: &Arc<MemoryLeaseStore>) -> Running {
        let (handled, errors) = (Arc::clone(&self.handled), Arc::clone(&self.errors));
        let broker = KinesisBroker::new()
            .endpoint(endpoint())
            .region("us-east-1")
            .test_credentials()
            .lease_store(Arc::clone(leases) as _);
        let stream = KinesisStream::new(self.stream)
            .start_at(StartPosition::trim_horizon())
            .poll_interval(Duration::from_millis(250));
        let app = RustStream::new(AppInfo::new("integration", "0.0.0"))
            .with_broker(broker, |b| {
                b.include(subscriber(stream, Note(handled)).build());
            })
            .on_error(move |error| errors.lock().unwrap().push(error.to_string()));
        app.start().await.unwrap()
    }

    async fn until_handled(&self, count: usize) {
        let handled = async || {
            let handled = self.handled.lock().unwrap();
            handled.iter().collect::<HashSet<_>>().len() >= count
        };
        until("all is handled", handled).await;
    }

    /// Every value once, and those of one key in order.
    fn assert_in_order(&self, count: u64) {
        let handled = self.handled.lock().unwrap().clone();
        for key in 0..13 {
            let of_key: Vec<_> = handled.iter().filter(|value| *value % 13 == key).collect();
            assert!(of_key.is_sorted(), "out of order: {of_key:?}");
        }
        let mut sorted = handled;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..count).collect::<Vec<_>>());
    }
}

struct Note(Arc<Mutex<Vec<u64>>>);

impl Handle<u64> for Note {
    async fn handle(&self, value: &u64, _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
        self.0.lock().unwrap().push(*value);
        Ok(())
    }
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let holds = async {
        while !condition().await {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LIMIT, holds)
        .await
        .unwrap_or_else(|_| panic!("not within {LIMIT:?}: {what}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_is_handled_in_order_while_the_shard_count_goes_up_and_down() {
    let bench = Bench::on("scaled");
    bench.create(2).await;
    let leases = Arc::new(MemoryLeaseStore::new());
    let running = bench.start(&leases).await;
    bench.put(0..200).await;
    for (count, values) in [(4, 200..400), (2, 400..600)] {
        let request = bench.client.update_shard_count().stream_name(bench.stream);
        let request = request.target_shard_count(count);
        request
            .scaling_type(ScalingType::UniformScaling)
            .send()
            .await
            .unwrap();
        bench.until_active().await;
        bench.put(values).await;
    }
    bench.until_handled(600).await;
    running.shutdown().await.unwrap();
    bench.assert_in_order(600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_of_an_earlier_stream_of_the_name_starts_at_the_oldest_record() {
    let bench = Bench::on("recreated");
    bench.create(1).await;
    let leases = Arc::new(MemoryLeaseStore::new());
    let key = LeaseKey::new("recreated", "shardId-000000000000");
    let minute = Duration::from_secs(60);
    let holder = leases
        .acquire(&key, "long ago", minute)
        .await
        .unwrap()
        .unwrap();
    assert!(
        leases
            .checkpoint(&key, &holder, &Checkpoint::at("17"))
            .await
            .unwrap()
    );
    leases.release(&key, &holder).await.unwrap();

    bench.put(0..20).await;
    let running = bench.start(&leases).await;
    bench.until_handled(20).await;
    running.shutdown().await.unwrap();
    bench.assert_in_order(20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_missing_at_first_is_reported_by_name_and_read_once_it_is_there() {
    let bench = Bench::on("late");
    let leases = Arc::new(MemoryLeaseStore::new());
    let running = bench.start(&leases).await;
    let is_reported = async || {
        let errors = bench.errors.lock().unwrap();
        errors.iter().any(|error| error.contains("late"))
    };
    until("the missing stream is reported", is_reported).await;

    bench.create(1).await;
    bench.put(0..20).await;
    bench.until_handled(20).await;
    running.shutdown().await.unwrap();
    bench.assert_in_order(20);
}
