//! What a call looks like beneath the operations: dates, request ids, latency, unknown operations.

use std::time::{Duration, SystemTime};

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::config::retry::RetryConfig;
use aws_sdk_kinesis::error::ProvideErrorMetadata;
use aws_sdk_kinesis::operation::RequestId;
use aws_sdk_kinesis::types::ShardIteratorType::Latest;
use kinesis_sim::{Fault, KinesisSim, Operation};
use tokio::time::{Instant, advance};

use crate::support::{FIRST, client, code, inventory, open, read};

/// The Date header of an answer, which only an error shows.
async fn date(client: &Client) -> String {
    let refused = client
        .list_shards()
        .stream_name("missing")
        .send()
        .await
        .unwrap_err();
    let headers = refused.raw_response().unwrap().headers();
    headers.get("date").unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn an_answer_carries_the_date_of_the_simulations_clock() {
    let (sim, client) = inventory(1);
    assert_eq!(date(&client).await, "Thu, 01 Jan 2026 00:00:00 GMT");
    advance(Duration::from_millis(24 * 3_600_000 + 1_999)).await;
    assert_eq!(date(&client).await, "Fri, 02 Jan 2026 00:00:01 GMT");
    let since = sim
        .wall_clock()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    assert_eq!(
        since,
        Duration::from_millis(1_767_225_600_000 + 86_400_000 + 1_999)
    );
}

#[tokio::test(start_paused = true)]
async fn the_wall_clock_starts_where_it_is_told_to() {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(951_827_696);
    let sim = KinesisSim::builder().wall_clock(then).build();
    assert_eq!(sim.wall_clock(), then);
    assert_eq!(date(&client(&sim)).await, "Tue, 29 Feb 2000 12:34:56 GMT");
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_a_request_id_of_its_own() {
    let (_sim, client) = inventory(1);
    let id = async || {
        let listed = client
            .list_shards()
            .stream_name("inventory")
            .send()
            .await
            .unwrap();
        listed.request_id().unwrap().to_owned()
    };
    assert_ne!(id().await, id().await);
    let refused = client
        .list_shards()
        .stream_name("missing")
        .send()
        .await
        .unwrap_err();
    assert!(refused.into_service_error().meta().request_id().is_some());
}

#[tokio::test(start_paused = true)]
async fn latency_is_spent_on_every_call() {
    let sim = KinesisSim::builder()
        .latency(Duration::from_millis(20))
        .build();
    sim.create_stream("inventory", 1);
    let started = Instant::now();
    let client = client(&sim);
    let iterator = open(&client, FIRST, Latest).await;
    read(&client, iterator).await;
    assert_eq!(started.elapsed(), Duration::from_millis(40));
}

#[tokio::test(start_paused = true)]
async fn latency_may_vary_between_bounds() {
    let (shortest, longest) = (Duration::from_millis(5), Duration::from_millis(50));
    let sim = KinesisSim::builder()
        .latency_between(shortest, longest)
        .build();
    sim.create_stream("inventory", 1);
    let client = client(&sim);
    let mut taken = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        client
            .list_shards()
            .stream_name("inventory")
            .send()
            .await
            .unwrap();
        taken.push(started.elapsed());
    }
    // The paused clock goes by whole milliseconds, rounding up.
    assert!(
        taken
            .iter()
            .all(|taken| (shortest..=longest).contains(taken)),
        "{taken:?}"
    );
    taken.dedup();
    assert!(taken.len() > 10);
}

#[tokio::test(start_paused = true)]
async fn a_loop_of_calls_without_latency_lets_other_tasks_run() {
    let (_sim, client) = inventory(1);
    let other = tokio::spawn(async {});
    while !other.is_finished() {
        client
            .list_shards()
            .stream_name("inventory")
            .send()
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_is_not_simulated_is_unknown() {
    let (_sim, client) = inventory(1);
    assert_eq!(
        code(client.describe_limits().send().await),
        "UnknownOperationException"
    );
    assert_eq!(
        code(client.list_channels().send().await),
        "UnknownOperationException"
    );
}

/// A clock that is an hour behind the simulation's, when that was built.
#[derive(Debug)]
struct Behind;

impl aws_smithy_async::time::TimeSource for Behind {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600 - 3_600)
    }
}

#[tokio::test(start_paused = true)]
async fn a_signature_of_another_hour_is_refused_and_the_sdk_corrects_itself() {
    let sim = KinesisSim::builder()
        .clock_skew_limit(Duration::from_secs(300))
        .build();
    sim.create_stream("inventory", 1);
    client(&sim)
        .list_shards()
        .stream_name("inventory")
        .send()
        .await
        .unwrap();

    let config = sim.sdk_config().into_builder().time_source(Behind).build();
    let config = aws_sdk_kinesis::config::Builder::from(&config);
    let config = config.retry_config(RetryConfig::disabled());
    let behind = Client::from_conf(config.build());
    let list = behind.list_shards().stream_name("inventory");
    assert_eq!(code(list.clone().send().await), "InvalidSignatureException");
    list.send().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn clones_share_one_service() {
    let (sim, client) = inventory(1);
    let clone = sim.clone();
    clone.put("inventory", "k", b"x");
    clone.inject(Fault::internal());
    assert_eq!(sim.records("inventory", FIRST).len(), 1);
    let refused = client
        .list_shards()
        .stream_name("inventory")
        .send()
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some("InternalFailure"));
    assert_eq!(clone.calls(Operation::ListShards), 1);
    assert_eq!(
        format!("{sim:?}"),
        r#"KinesisSim { streams: ["inventory"], .. }"#
    );
}

#[test]
fn a_service_outlives_the_runtimes_that_use_it() {
    let sim = KinesisSim::new();
    sim.create_stream("inventory", 1);
    let mut dates = Vec::new();
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            advance(Duration::from_secs(60)).await;
            client(&sim)
                .list_shards()
                .stream_name("inventory")
                .send()
                .await
                .unwrap();
            dates.push(sim.wall_clock());
        });
    }
    assert!(dates.is_sorted());
}

#[tokio::test(start_paused = true)]
#[should_panic = "ResourceNotFoundException: Stream orders under account 000000000000 not found."]
async fn a_test_that_names_a_stream_that_is_not_there_is_told_so() {
    KinesisSim::new().put("orders", "k", b"x");
}
