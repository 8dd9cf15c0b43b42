//! A configuration that can never work is an error at start that names the value, in process or not.

use std::time::Duration;

use aws_config::SdkConfig;
use kinesis_broker::{KinesisBroker, KinesisError, KinesisStream};
use kinesis_sim::{Fault, KinesisSim, Operation};
use rstream::broker::{
    self, BoxFuture, Broker, Connection, InProcess, Reports, Source, Subscription,
};
use rstream::testing::TestApp;
use rstream::{AppError, AppInfo, Context, Handle, HandlerOutcome, RustStream, Scope, subscriber};

use tracing::Level;

use crate::support::{Fleet, Logs, STREAM};

struct Ignore;

impl Handle<u64> for Ignore {
    async fn handle(&self, _: &u64, _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
        Ok(())
    }
}

fn broker() -> KinesisBroker {
    KinesisBroker::from_config(&KinesisSim::new().sdk_config())
}

fn app_with<B: Broker>(broker: B, include: impl FnOnce(&mut Scope<'_, B>)) -> RustStream {
    RustStream::new(AppInfo::new("inventory-service", "0.0.0")).with_broker(broker, include)
}

fn app(broker: KinesisBroker) -> RustStream {
    reading(broker, [KinesisStream::new(STREAM)])
}

fn reading<const N: usize>(broker: KinesisBroker, streams: [KinesisStream; N]) -> RustStream {
    app_with(broker, |b| {
        for stream in streams {
            b.include(subscriber(stream, Ignore).build());
        }
    })
}

async fn refused(app: RustStream) -> AppError {
    match app.start().await {
        Err(error) => error,
        Ok(running) => panic!("{running:?} has started"),
    }
}

async fn refused_in_process(app: RustStream) -> AppError {
    match TestApp::start(app).await {
        Err(error) => error,
        Ok(app) => panic!("{app:?} has started"),
    }
}

/// The app is refused both ways, with the same words, which contain each of `parts`; the broker's own
/// error is its source.
async fn is_refused(make: impl Fn() -> RustStream, parts: &[&str]) {
    let error = refused(make()).await;
    let said = error.to_string();
    for part in parts {
        assert!(said.contains(part), "{said:?} lacks {part:?}");
    }
    let AppError::Broker { source, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(source.is::<KinesisError>(), "{source:?}");
    assert_eq!(refused_in_process(make()).await.to_string(), said);
}

#[tokio::test(start_paused = true)]
async fn a_stream_name_that_the_service_refuses_is_named() {
    let long = "x".repeat(129);
    for (name, reason) in [
        ("", "empty"),
        (long.as_str(), "128"),
        ("in ventory", "character"),
        ("lager/regal", "character"),
        (
            "arn:aws:kinesis:eu-central-1:1:stream/inventory",
            "character",
        ),
        ("größe", "character"),
    ] {
        let quoted = format!("{name:?}");
        let make = || reading(broker(), [KinesisStream::new(name)]);
        is_refused(make, &[&quoted, reason]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_duration_of_zero_is_named() {
    let zero = Duration::ZERO;
    is_refused(
        || reading(broker(), [KinesisStream::new(STREAM).poll_interval(zero)]),
        &["poll_interval", "zero", STREAM],
    )
    .await;
    is_refused(
        || app(broker().hand_over_timeout(zero)),
        &["hand_over_timeout", "zero"],
    )
    .await;
    is_refused(
        || app(broker().shutdown_timeout(zero)),
        &["shutdown_timeout", "zero"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn two_subscriptions_of_one_broker_to_one_stream_are_refused_by_its_name() {
    let streams = ["orders", STREAM, STREAM].map(KinesisStream::new);
    is_refused(|| reading(broker(), streams.clone()), &["two", STREAM]).await;
}

#[tokio::test(start_paused = true)]
async fn a_blank_owner_id_is_refused() {
    for owner in ["", " \t"] {
        let quoted = format!("{owner:?}");
        is_refused(|| app(broker().owner_id(owner)), &[&quoted, "owner id"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_no_url_is_named_wherever_it_was_set() {
    for endpoint in [
        "localhost:4567",
        "",
        "ftp://localhost",
        "/tmp/socket",
        "http://",
    ] {
        let quoted = format!("{endpoint:?}");
        is_refused(|| app(broker().endpoint(endpoint)), &[&quoted, "endpoint"]).await;
        let configured = || {
            let config = KinesisSim::new().sdk_config().into_builder();
            let config = config.endpoint_url(endpoint).build();
            app(KinesisBroker::from_config(&config))
        };
        is_refused(configured, &[&quoted, "endpoint"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn test_credentials_without_an_endpoint_of_ones_own_are_refused() {
    let words = ["test_credentials", "endpoint"];
    is_refused(|| app(broker().test_credentials()), &words).await;
    is_refused(|| app(KinesisBroker::new().test_credentials()), &words).await;
    // With one they are fine.
    let config = KinesisSim::new().sdk_config();
    let local = "http://127.0.0.1:4567";
    let running = app(broker().test_credentials().endpoint(local)).start();
    running.await.unwrap().shutdown().await.unwrap();
    let config = config.into_builder().endpoint_url(local).build();
    let running = app(KinesisBroker::from_config(&config).test_credentials()).start();
    running.await.unwrap().shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_region_anywhere_is_refused_with_what_to_do() {
    let config: SdkConfig = KinesisSim::new().sdk_config();
    let config = config.into_builder().region(None).build();
    let error = refused(app(KinesisBroker::from_config(&config))).await;
    let said = error.to_string();
    for part in ["region", "KinesisBroker::region", "AWS_REGION"] {
        assert!(said.contains(part), "{said}");
    }
    // In process there is no region to speak of.
    TestApp::start(app(KinesisBroker::from_config(&config)))
        .await
        .unwrap();
    let with_region = KinesisBroker::from_config(&config).region("eu-central-1");
    let running = app(with_region).start().await.unwrap();
    running.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_blank_region_is_no_region() {
    for region in ["", "  "] {
        let error = refused(app(broker().region(region))).await;
        assert!(error.to_string().contains("region"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_without_a_subscription_and_an_app_without_a_broker_are_refused_by_name() {
    let make = || reading(broker(), []);
    let said = refused(make()).await.to_string();
    assert!(
        said.contains("inventory-service") && said.contains("KinesisBroker"),
        "{said}"
    );
    assert!(said.contains("include"), "{said}");
    assert_eq!(refused_in_process(make()).await.to_string(), said);

    let make = || RustStream::new(AppInfo::new("inventory-service", "0.0.0"));
    let said = refused(make()).await.to_string();
    assert!(
        said.contains("inventory-service") && said.contains("with_broker"),
        "{said}"
    );
    assert_eq!(refused_in_process(make()).await.to_string(), said);
}

#[derive(Debug)]
struct Topic;

impl Source for Topic {
    type Broker = Lines;

    fn name(&self) -> &str {
        "topic"
    }
}

struct Lines;

impl Broker for Lines {
    fn start(
        self: Box<Self>,
        _: Vec<Subscription>,
        _: Reports,
    ) -> BoxFuture<'static, broker::Result<Box<dyn Connection>>> {
        Box::pin(async { Err("never started".into()) })
    }

    fn start_in_process(
        self: Box<Self>,
        _: Vec<Subscription>,
        _: Reports,
    ) -> broker::Result<Box<dyn InProcess>> {
        Err("never started".into())
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_on_a_broker_of_another_type_is_refused_with_both_names() {
    let wrong = || {
        app_with(Lines, |b| {
            b.include(subscriber(KinesisStream::new(STREAM), Ignore).build());
        })
    };
    let said = refused(wrong()).await.to_string();
    for part in [STREAM, "KinesisStream", "KinesisBroker", "Lines"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(refused_in_process(wrong()).await.to_string(), said);

    let wrong = || {
        app_with(broker(), |b| {
            b.include(subscriber(Topic, Ignore).build());
        })
    };
    let said = refused(wrong()).await.to_string();
    for part in ["topic", "Topic", "Lines", "KinesisBroker"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(refused_in_process(wrong()).await.to_string(), said);
}

#[tokio::test(start_paused = true)]
async fn a_store_or_a_stream_that_fails_does_not_fail_the_start() {
    let sim = KinesisSim::new();
    let running = app(KinesisBroker::from_config(&sim.sdk_config())).start();
    running.await.unwrap().shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_start_that_takes_long_says_how_far_it_is() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(3);
    let slow = Fault::delay(Duration::from_secs(8))
        .on(Operation::GetShardIterator)
        .shard("shardId-000000000002");
    fleet.sim.inject(slow.always());
    let instance = fleet.instance("a").start().await;
    let said = logs.at(Level::INFO, "shards are being opened");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("opened=2") && said[0].contains("taken=3"),
        "{said:?}"
    );
    assert_eq!(logs.at(Level::INFO, "started").len(), 1);
    instance.kill();
}
