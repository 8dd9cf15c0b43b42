//! Faults: each kind, each way to aim one, and each way to say how often it strikes.

use std::time::Duration;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::config::timeout::TimeoutConfig;
use aws_sdk_kinesis::error::SdkError;
use aws_sdk_kinesis::operation::list_shards::{ListShardsError, ListShardsOutput};
use aws_sdk_kinesis::operation::put_record::{PutRecordError, PutRecordOutput};
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::ShardIteratorType::Latest;
use kinesis_sim::{Fault, KinesisSim, Operation};
use tokio::time::{Instant, advance, timeout};

use crate::support::{FIRST, SECOND, client, code, inventory, open, read};

type Listed = Result<ListShardsOutput, SdkError<ListShardsError>>;
type Put = Result<PutRecordOutput, SdkError<PutRecordError>>;

async fn list(client: &Client) -> Listed {
    client.list_shards().stream_name("inventory").send().await
}

async fn put(client: &Client) -> Put {
    let put = client
        .put_record()
        .stream_name("inventory")
        .partition_key("k");
    put.data(Blob::new("x")).send().await
}

fn stored(sim: &KinesisSim) -> usize {
    sim.records("inventory", FIRST).len()
}

#[tokio::test(start_paused = true)]
async fn each_refusal_has_its_code_and_status() {
    let (sim, client) = inventory(1);
    for (fault, expected, status) in [
        (
            Fault::throttle(),
            "ProvisionedThroughputExceededException",
            400,
        ),
        (Fault::limit_exceeded(), "LimitExceededException", 400),
        (Fault::expired_iterator(), "ExpiredIteratorException", 400),
        (Fault::access_denied(), "AccessDeniedException", 400),
        (Fault::not_found(), "ResourceNotFoundException", 400),
        (Fault::internal(), "InternalFailure", 500),
        (Fault::unavailable(), "ServiceUnavailable", 503),
    ] {
        sim.inject(fault);
        let refused = put(&client).await;
        let raw = refused.as_ref().unwrap_err().raw_response().unwrap();
        assert_eq!(raw.status().as_u16(), status);
        assert_eq!(code(refused), expected);
    }
    assert_eq!((stored(&sim), sim.faults_struck()), (0, 7));
    put(&client).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn refusals_are_the_sdks_own_errors() {
    let (sim, client) = inventory(1);
    let iterator = open(&client, FIRST, Latest).await;
    let refused = async |fault| {
        sim.inject(fault);
        let read = client.get_records().shard_iterator(&iterator).send().await;
        read.unwrap_err().into_service_error()
    };
    assert!(
        refused(Fault::throttle())
            .await
            .is_provisioned_throughput_exceeded_exception()
    );
    assert!(
        refused(Fault::expired_iterator())
            .await
            .is_expired_iterator_exception()
    );
    assert!(
        refused(Fault::access_denied())
            .await
            .is_access_denied_exception()
    );
    assert!(
        refused(Fault::not_found())
            .await
            .is_resource_not_found_exception()
    );
}

#[tokio::test(start_paused = true)]
async fn a_timeout_or_a_reset_reaches_the_sdk_as_such_and_has_no_effect() {
    let (sim, client) = inventory(1);
    sim.inject(Fault::timeout());
    let SdkError::DispatchFailure(failure) = put(&client).await.unwrap_err() else {
        panic!()
    };
    assert!(failure.is_timeout());
    sim.inject(Fault::reset());
    let SdkError::DispatchFailure(failure) = put(&client).await.unwrap_err() else {
        panic!()
    };
    assert!(failure.is_io());
    assert_eq!(stored(&sim), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_ends_when_its_future_is_dropped() {
    let (sim, client) = inventory(1);
    sim.inject(Fault::hang());
    let waited = timeout(Duration::from_secs(600), put(&client)).await;
    assert!(waited.is_err());
    assert_eq!(stored(&sim), 0);
    put(&client).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_ends_with_the_sdks_own_timeouts() {
    let (sim, _) = inventory(1);
    let timeouts = [
        TimeoutConfig::builder()
            .operation_timeout(Duration::from_secs(7))
            .build(),
        TimeoutConfig::builder()
            .operation_attempt_timeout(Duration::from_secs(7))
            .build(),
        TimeoutConfig::builder()
            .read_timeout(Duration::from_secs(7))
            .build(),
    ];
    for timeouts in timeouts {
        let config = aws_sdk_kinesis::config::Builder::from(&sim.sdk_config());
        let config = config.retry_config(aws_sdk_kinesis::config::retry::RetryConfig::disabled());
        let impatient = Client::from_conf(config.timeout_config(timeouts).build());
        sim.inject(Fault::hang());
        let started = Instant::now();
        let ended = list(&impatient).await.unwrap_err();
        assert!(started.elapsed() >= Duration::from_secs(7));
        assert!(started.elapsed() < Duration::from_secs(8));
        let timed_out = match &ended {
            SdkError::TimeoutError(_) => true,
            SdkError::DispatchFailure(failure) => failure.is_timeout(),
            _ => false,
        };
        assert!(timed_out, "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_call_takes_effect_after_its_delay() {
    let (sim, client) = inventory(1);
    sim.inject(Fault::delay(Duration::from_secs(5)).times(2));
    let started = Instant::now();
    put(&client).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(5));
    assert_eq!(stored(&sim), 1);
    assert!(timeout(Duration::from_secs(4), put(&client)).await.is_err());
    advance(Duration::from_secs(5)).await;
    assert_eq!(stored(&sim), 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_belongs_to_a_call_that_took_effect_in_time() {
    let (sim, client) = inventory(1);
    sim.inject(Fault::late_answer(Duration::from_secs(5)));
    assert!(timeout(Duration::from_secs(4), put(&client)).await.is_err());
    assert_eq!(stored(&sim), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_belongs_to_a_call_that_took_effect() {
    let (sim, client) = inventory(1);
    sim.inject(Fault::lost_answer());
    let SdkError::DispatchFailure(failure) = put(&client).await.unwrap_err() else {
        panic!()
    };
    assert!(failure.is_io());
    assert_eq!(stored(&sim), 1);
}

#[tokio::test(start_paused = true)]
async fn a_partial_failure_leaves_other_operations_alone() {
    let (sim, client) = inventory(1);
    sim.inject(Fault::partial(1));
    put(&client).await.unwrap();
    list(&client).await.unwrap();
    assert_eq!(sim.faults_struck(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_fault_aimed_at_an_operation_spares_the_others() {
    let (sim, client) = inventory(1);
    sim.inject(
        Fault::internal()
            .on(Operation::PutRecord)
            .on(Operation::GetRecords)
            .times(2),
    );
    list(&client).await.unwrap();
    assert_eq!(code(put(&client).await), "InternalFailure");
    let iterator = open(&client, FIRST, Latest).await;
    let refused = client.get_records().shard_iterator(&iterator).send().await;
    assert_eq!(code(refused), "InternalFailure");
    read(&client, iterator).await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_aimed_at_a_shard_spares_the_others() {
    let (sim, client) = inventory(2);
    let first = open(&client, FIRST, Latest).await;
    let second = open(&client, SECOND, Latest).await;
    sim.inject(Fault::throttle().shard(SECOND).always());
    read(&client, first).await;
    let refused = "ProvisionedThroughputExceededException";
    assert_eq!(
        code(client.get_records().shard_iterator(second).send().await),
        refused
    );
    let put = |key: &str| {
        let put = client
            .put_record()
            .stream_name("inventory")
            .partition_key(key);
        put.data(Blob::new("x")).send()
    };
    assert_eq!(put("a").await.unwrap().shard_id(), FIRST);
    assert_eq!(code(put("abc").await), refused);
    list(&client).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fault_aimed_at_a_stream_spares_the_others() {
    let (sim, client) = inventory(1);
    sim.create_stream("orders", 1);
    sim.inject(Fault::access_denied().stream("orders").always());
    list(&client).await.unwrap();
    let by_name = client.list_shards().stream_name("orders").send().await;
    assert_eq!(code(by_name), "AccessDeniedException");
    let arn = "arn:aws:kinesis:us-east-1:000000000000:stream/orders";
    let by_arn = client.list_shards().stream_arn(arn).send().await;
    assert_eq!(code(by_arn), "AccessDeniedException");
}

/// Which of so many calls failed.
async fn failures(client: &Client, calls: usize) -> Vec<usize> {
    let mut failed = Vec::new();
    for call in 0..calls {
        if list(client).await.is_err() {
            failed.push(call);
        }
    }
    failed
}

#[tokio::test(start_paused = true)]
async fn a_fault_strikes_once_unless_it_is_told_how_often() {
    let (sim, client) = inventory(1);
    sim.inject(Fault::internal());
    assert_eq!(failures(&client, 3).await, [0]);
    sim.inject(Fault::internal().times(2).after(3));
    assert_eq!(failures(&client, 7).await, [3, 4]);
    sim.inject(Fault::internal().always());
    assert_eq!(failures(&client, 5).await, [0, 1, 2, 3, 4]);
    sim.clear_faults();
    assert!(failures(&client, 5).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_fault_for_a_while_ends_by_itself() {
    let (sim, client) = inventory(1);
    sim.inject(Fault::unavailable().for_duration(Duration::from_secs(30)));
    assert_eq!(failures(&client, 2).await, [0, 1]);
    advance(Duration::from_millis(29_999)).await;
    assert_eq!(failures(&client, 1).await, [0]);
    advance(Duration::from_millis(1)).await;
    assert!(failures(&client, 2).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_rate_strikes_its_share_of_the_calls() {
    let sim = KinesisSim::builder().quotas(false).seed(3).build();
    sim.create_stream("inventory", 1);
    let client = client(&sim);
    sim.inject(Fault::internal().rate(0.25));
    let failed = failures(&client, 300).await.len();
    assert!((45..105).contains(&failed), "{failed}");
    sim.clear_faults();
    sim.inject(Fault::internal().rate(0.25).times(3));
    assert_eq!(failures(&client, 100).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn delays_add_up_and_then_the_oldest_fault_decides() {
    let (sim, client) = inventory(1);
    sim.inject(Fault::delay(Duration::from_secs(2)));
    sim.inject(Fault::internal());
    sim.inject(Fault::access_denied());
    sim.inject(Fault::delay(Duration::from_secs(3)));
    let started = Instant::now();
    assert_eq!(code(list(&client).await), "InternalFailure");
    assert_eq!(started.elapsed(), Duration::from_secs(2));
    assert_eq!(code(list(&client).await), "AccessDeniedException");
    list(&client).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn an_outage_fails_every_call_until_it_is_over() {
    let (sim, client) = inventory(1);
    sim.outage();
    assert_eq!(failures(&client, 3).await, [0, 1, 2]);
    let SdkError::DispatchFailure(failure) = put(&client).await.unwrap_err() else {
        panic!()
    };
    assert!(failure.is_io());
    sim.recover();
    assert!(failures(&client, 3).await.is_empty());
    assert_eq!(stored(&sim), 0);
}

#[tokio::test(start_paused = true)]
async fn the_sdk_retries_what_it_takes_for_transient() {
    let (sim, _) = inventory(1);
    let patient = Client::new(&sim.sdk_config());
    for fault in [
        Fault::throttle(),
        Fault::internal(),
        Fault::unavailable(),
        Fault::reset(),
    ] {
        sim.inject(fault.times(2).on(Operation::PutRecord));
        put(&patient).await.unwrap();
    }
    assert_eq!(sim.calls(Operation::PutRecord), 12);
    sim.inject(Fault::access_denied());
    put(&patient).await.unwrap_err();
    assert_eq!(sim.calls(Operation::PutRecord), 13);
}
