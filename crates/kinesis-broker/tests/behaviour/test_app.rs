//! `TestApp` with a `KinesisBroker`: the programs of the first page, in process.

mod surface;

use std::future::{Future, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinesis_broker::prelude::*;
use lease_memory::MemoryLeaseStore;
use rstream::AppError;
use rstream::testing::TestApp;
use serde::{Deserialize, Serialize};
use tracing::Level;

use crate::support::Logs;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StockChange {
    sku: u64,
    delta: i64,
}

const CHANGE: StockChange = StockChange { sku: 7, delta: -3 };

/// The first program of DESIGN §3, as it stands.
mod with_the_macro {
    use super::*;

    /// Applies each stock change. Every instance of the service runs this handler; the lease store
    /// decides which instance reads which shard.
    #[subscriber(KinesisStream::new("inventory"))]
    async fn apply(change: &StockChange) -> HandlerOutcome {
        tracing::info!(change.sku, change.delta, "stock changed");
        HandlerOutcome::ack()
    }

    pub(super) fn service(broker: KinesisBroker, leases: Arc<dyn LeaseStore>) -> RustStream {
        RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(
            broker.lease_store(leases),
            |b| {
                b.include(apply);
            },
        )
    }
}

/// The second program of DESIGN §3, as it stands.
mod by_hand {
    use super::*;

    struct Apply;

    impl Handle<StockChange> for Apply {
        fn handle(
            &self,
            change: &StockChange,
            _outs: &(),
            _ctx: &mut Context<'_>,
        ) -> impl Future<Output = Result<(), HandlerOutcome>> {
            tracing::info!(change.sku, change.delta, "stock changed");
            ready(Ok(()))
        }
    }

    pub(super) fn service(broker: KinesisBroker, leases: Arc<dyn LeaseStore>) -> RustStream {
        RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(
            broker.lease_store(leases),
            |b| {
                b.include(subscriber(KinesisStream::new("inventory"), Apply).build());
            },
        )
    }
}

#[tokio::test]
async fn both_programs_handle_a_published_change_once() {
    for service in [with_the_macro::service, by_hand::service] {
        let app = service(KinesisBroker::new(), Arc::new(MemoryLeaseStore::new()));
        let app = TestApp::start(app).await.unwrap();
        let kinesis = app.broker::<KinesisBroker>();
        kinesis.subscriber("inventory").assert_not_called();
        kinesis
            .message(&CHANGE)
            .to("inventory")
            .publish()
            .await
            .unwrap();
        let inventory = kinesis.subscriber("inventory");
        let calls = inventory.assert_called_once();
        calls.with(&CHANGE).settled(HandlerOutcome::ack());
        assert_eq!(inventory.received::<StockChange>(), [CHANGE]);
        app.shutdown().await.unwrap();
    }
}

/// Says what it is told to, one outcome after the other, then acknowledges; keeps what it was given.
#[derive(Clone, Default)]
struct Scripted {
    says: Arc<Mutex<Vec<HandlerOutcome>>>,
    given: Arc<Mutex<Vec<(u32, RecordInfo)>>>,
}

impl Scripted {
    fn new(says: impl IntoIterator<Item = HandlerOutcome>) -> Self {
        let mut says: Vec<_> = says.into_iter().collect();
        says.reverse();
        Self {
            says: Arc::new(Mutex::new(says)),
            ..Self::default()
        }
    }
}

impl Handle<StockChange> for Scripted {
    async fn handle(
        &self,
        _: &StockChange,
        _: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        let info = ctx.get::<RecordInfo>().expect("attached").clone();
        self.given.lock().unwrap().push((ctx.attempt(), info));
        match self.says.lock().unwrap().pop() {
            Some(outcome) if outcome != HandlerOutcome::ack() => Err(outcome),
            _ => Ok(()),
        }
    }
}

async fn start(broker: KinesisBroker, streams: &[(&str, &Scripted)]) -> TestApp {
    let app = RustStream::new(AppInfo::new("test", "0.0.0")).with_broker(broker, |b| {
        for (stream, handler) in streams {
            let stream = KinesisStream::new(*stream);
            b.include(subscriber(stream, (*handler).clone()).build());
        }
    });
    TestApp::start(app).await.unwrap()
}

async fn publish(app: &TestApp, stream: &str) {
    let kinesis = app.broker::<KinesisBroker>();
    let message = kinesis.message(&CHANGE);
    message.to(stream).publish().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_record_info_is_attached_as_of_a_real_shard() {
    let handler = Scripted::default();
    let broker = KinesisBroker::new().owner_id("me");
    let app = start(broker, &[("inventory", &handler)]).await;
    publish(&app, "inventory").await;
    publish(&app, "inventory").await;
    let given = handler.given.lock().unwrap().clone();
    for (attempt, info) in &given {
        assert_eq!(*attempt, 1);
        assert_eq!(info.stream, "inventory");
        assert_eq!(info.shard, "shardId-000000000000");
        assert!(!info.partition_key.is_empty());
        assert_eq!(info.millis_behind, 0);
        assert_eq!((info.holder.owner.as_str(), info.holder.epoch), ("me", 1));
    }
    let number = |n: usize| given[n].1.sequence_number.parse::<u64>().unwrap();
    assert!(number(0) < number(1));
}

#[tokio::test(start_paused = true)]
async fn a_retry_then_an_acknowledgement_are_two_calls_of_one_publish() {
    let handler = Scripted::new([HandlerOutcome::retry()]);
    let app = start(KinesisBroker::new(), &[("inventory", &handler)]).await;
    publish(&app, "inventory").await;
    let inventory = app.broker::<KinesisBroker>().subscriber("inventory");
    inventory
        .assert_called(2)
        .with(&CHANGE)
        .settled(HandlerOutcome::ack());
    let given = handler.given.lock().unwrap().clone();
    assert_eq!([given[0].0, given[1].0], [1, 2]);
    assert_eq!(given[0].1, given[1].1);
}

#[tokio::test(start_paused = true)]
async fn retry_after_waits_as_long_as_it_does_in_service() {
    let hour = Duration::from_secs(3_600);
    let handler = Scripted::new([HandlerOutcome::retry_after(hour)]);
    let app = start(KinesisBroker::new(), &[("inventory", &handler)]).await;
    let started = tokio::time::Instant::now();
    publish(&app, "inventory").await;
    assert!(started.elapsed() >= hour);
}

#[tokio::test(start_paused = true)]
async fn a_drop_settles_with_a_warning() {
    let logs = Logs::start();
    let handler = Scripted::new([HandlerOutcome::drop()]);
    let app = start(KinesisBroker::new(), &[("inventory", &handler)]).await;
    publish(&app, "inventory").await;
    let inventory = app.broker::<KinesisBroker>().subscriber("inventory");
    let calls = inventory.assert_called_once();
    calls.with(&CHANGE).settled(HandlerOutcome::drop());
    assert_eq!(logs.warnings("stream=inventory ").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_message_is_reported_and_the_handler_is_not_called() {
    let logs = Logs::start();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&reported);
    let app = with_the_macro::service(KinesisBroker::new(), Arc::new(MemoryLeaseStore::new()))
        .on_error(move |error| {
            let KinesisError::Undecodable { source, .. } = error.downcast_ref().unwrap() else {
                panic!("{error}")
            };
            sink.lock()
                .unwrap()
                .push((source.category(), error.to_string()));
        });
    let app = TestApp::start(app).await.unwrap();
    let kinesis = app.broker::<KinesisBroker>();
    for bytes in ["{\"sku\": \"Zanzibar\"}", "Zanzibar", "{\"sku\": 7,"] {
        kinesis
            .payload(bytes)
            .to("inventory")
            .publish()
            .await
            .unwrap();
    }
    kinesis.subscriber("inventory").assert_not_called();
    let reported = reported.lock().unwrap().clone();
    let categories: Vec<_> = reported.iter().map(|(category, _)| *category).collect();
    assert_eq!(categories, ["data", "syntax", "eof"]);
    assert!(reported[0].1.contains("StockChange"), "{reported:?}");
    assert_eq!(logs.at(Level::ERROR, "inventory").len(), 3);
    assert!(!format!("{:?}{reported:?}", logs.all()).contains("Zanzibar"));
}

#[tokio::test(start_paused = true)]
async fn two_streams_have_a_handler_each() {
    let (one, other) = (Scripted::default(), Scripted::default());
    let streams = [("inventory", &one), ("orders", &other)];
    let app = start(KinesisBroker::new(), &streams).await;
    publish(&app, "orders").await;
    publish(&app, "orders").await;
    publish(&app, "inventory").await;
    let kinesis = app.broker::<KinesisBroker>();
    kinesis.subscriber("inventory").assert_called_once();
    kinesis.subscriber("orders").assert_called(2);
    let streams = |handler: &Scripted| {
        let given = handler.given.lock().unwrap();
        let streams = given.iter().map(|(_, info)| info.stream.clone());
        streams.collect::<Vec<_>>()
    };
    assert_eq!(streams(&one), ["inventory"]);
    assert_eq!(streams(&other), ["orders", "orders"]);
}

#[tokio::test]
async fn a_stream_that_nobody_reads_is_an_error_that_names_it() {
    let handler = Scripted::default();
    let app = start(KinesisBroker::new(), &[("inventory", &handler)]).await;
    let kinesis = app.broker::<KinesisBroker>();
    let published = kinesis.message(&CHANGE).to("invoices").publish().await;
    let Err(AppError::Broker { source, .. }) = &published else {
        panic!("{published:?}")
    };
    assert!(
        matches!(
            source.downcast_ref(),
            Some(KinesisError::NoSubscription { stream }) if stream == "invoices"
        ),
        "{source:?}"
    );
    assert!(source.to_string().contains("invoices"));
}

#[tokio::test(start_paused = true)]
async fn hooks_are_told_once_of_what_cannot_be_decoded_however_often_those_before_it_are_retried() {
    #[subscriber(KinesisStream::new("inventory"), batch(10, "1s"))]
    async fn apply(changes: &[u64], ctx: &mut Context<'_>) -> HandlerOutcome {
        match (changes, ctx.attempt()) {
            ([1, ..], 1 | 2) => HandlerOutcome::retry(),
            ([3, ..], _) => HandlerOutcome::drop(),
            _ => HandlerOutcome::ack(),
        }
    }

    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let app = RustStream::new(AppInfo::new("inventory", "0.1.0"))
        .with_broker(KinesisBroker::new(), |b| {
            b.include(apply);
        })
        .on_delivery(move |delivery| {
            let payloads = delivery.payloads().concat();
            sink.lock()
                .unwrap()
                .push(String::from_utf8(payloads).unwrap());
        });
    let app = TestApp::start(app).await.unwrap();
    let kinesis = app.broker::<KinesisBroker>();
    for payloads in [["1", "no", "2"], ["3", "no", "4"]] {
        let published = kinesis.payloads(payloads).to("inventory").publish();
        published.await.unwrap();
    }
    let told = told.lock().unwrap().clone();
    assert_eq!(told, ["1", "1", "1", "no", "2", "3", "no", "4"]);
}
