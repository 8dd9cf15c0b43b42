//! What cannot be stored, who is told, and when.

use std::collections::BTreeMap;
use std::error::Error as _;

use kinesis_broker::{KinesisError, ServiceErrorKind};
use kinesis_sim::Fault;
use tokio::time::{Instant, sleep};
use tracing::Level;

use super::*;
use crate::support::Logs;

const MIB: usize = 1024 * 1024;

fn contains(error: &PublishError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_too_large_is_refused_before_it_is_sent() {
    let sim = sim(1);
    let publisher = on(&sim).linger(Duration::ZERO).start().await.unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    let publish = |stream: &kinesis_broker::StreamPublisher, bytes| {
        stream
            .partition_key("sku-7")
            .publish_bytes(vec![0; bytes - 5])
    };
    let error = publish(&inventory, MIB + 1).await.unwrap_err();
    contains(
        &error,
        &[STREAM, "1048577", "1048576", "UpdateMaxRecordSize"],
    );
    let PublishError::TooLarge {
        stream,
        size,
        limit,
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((&*stream, size, limit), (STREAM, MIB + 1, MIB));
    let small = inventory.clone().max_record_bytes(100);
    contains(&publish(&small, 101).await.unwrap_err(), &["101", "100"]);
    let whatever = inventory.clone().max_record_bytes(usize::MAX);
    contains(
        &publish(&whatever, 10 * MIB + 1).await.unwrap_err(),
        &["10485761", "10485760"],
    );
    assert_eq!(calls(&sim), 0);

    publish(&inventory, MIB).await.unwrap();
    publish(&small, 100).await.unwrap();
    assert_eq!(calls(&sim), 2);
}

#[tokio::test(start_paused = true)]
async fn a_partition_key_that_is_none_is_refused_before_it_is_sent() {
    let sim = sim(1);
    let publisher = start(&sim).await;
    let inventory = publisher.stream(STREAM).unwrap();
    for (key, length) in [
        (String::new(), "0 characters"),
        ("ä".repeat(257), "257 characters"),
    ] {
        let error = inventory.partition_key(key).publish(&0).await.unwrap_err();
        contains(&error, &[STREAM, length, "1 to 256"]);
    }
    assert_eq!(calls(&sim), 0);
    inventory
        .partition_key("ä".repeat(256))
        .publish(&0)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_no_json_is_refused_with_its_type() {
    let sim = sim(1);
    let publisher = start(&sim).await;
    let inventory = publisher.stream(STREAM).unwrap();
    let keyed_by_pairs = BTreeMap::from([((1, 2), 3)]);
    let error = inventory
        .partition_key("a")
        .publish(&keyed_by_pairs)
        .await
        .unwrap_err();
    contains(
        &error,
        &[STREAM, "BTreeMap<(i32, i32), i32>", "key must be a string"],
    );
    assert!(error.source().is_some());
    assert_eq!(calls(&sim), 0);
}

#[tokio::test(start_paused = true)]
async fn what_the_service_refuses_for_good_is_told_at_once() {
    for (fault, kind, advice) in [
        (
            Fault::not_found(),
            ServiceErrorKind::NotFound,
            "right name, region and account",
        ),
        (
            Fault::access_denied(),
            ServiceErrorKind::AccessDenied,
            "kinesis:PutRecords",
        ),
    ] {
        let sim = sim(1);
        sim.inject(fault.on(Operation::PutRecords));
        let publisher = start(&sim).await;
        let inventory = publisher.stream(STREAM).unwrap();
        let under_way = (0..3_u64).map(|n| inventory.partition_key(n.to_string()).publish(&n));
        for error in errors(under_way.collect()).await {
            contains(&error, &[STREAM, "PutRecords", advice]);
            assert!(!error.is_retryable());
            let PublishError::Refused { source, .. } = error else {
                panic!("{error}");
            };
            assert_eq!(source.kind(), kind);
        }
        assert_eq!(calls(&sim), 1);
        inventory.partition_key("a").publish(&3).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_missing_is_told_by_name_and_publishing_goes_on_once_it_is_there() {
    let sim = sim(1);
    let publisher = start(&sim).await;
    let orders = publisher.stream("orders").unwrap();
    let error = orders.partition_key("a").publish(&0).await.unwrap_err();
    contains(&error, &["orders", "not found"]);
    sim.create_stream("orders", 1);
    orders.partition_key("a").publish(&1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_the_stream_refuses_fails_alone() {
    for bad in [[0].as_slice(), &[20, 21, 39]] {
        let sim = sim(2);
        let publisher = start(&sim).await;
        // The stream takes 1 MiB, whatever the program believes.
        let inventory = publisher.stream(STREAM).unwrap().max_record_bytes(10 * MIB);
        let under_way = (0..40).map(|n| {
            let key = inventory.partition_key(n.to_string());
            if bad.contains(&n) {
                key.publish_bytes(vec![b' '; MIB + 100])
            } else {
                key.publish(&n)
            }
        });
        let outcomes = join_all(under_way.collect::<Vec<_>>()).await;
        for (n, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(_) => assert!(!bad.contains(&n)),
                Err(error) => {
                    assert!(bad.contains(&n), "{n}: {error}");
                    contains(&error, &[STREAM, "1048576"]);
                }
            }
        }
        assert_eq!(stored(&sim, STREAM).len(), 40 - bad.len(), "nothing twice");
        assert!(
            calls(&sim) <= 1 + 2 * 6 * bad.len() as u64,
            "{}",
            calls(&sim)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_sat_out_and_said_once() {
    let logs = Logs::start();
    let sim = sim(2);
    let publisher = start(&sim).await;
    let inventory = publisher.stream(STREAM).unwrap();
    sim.outage();
    let under_way =
        (0..1_000_u64).map(|n| inventory.partition_key((n % 100).to_string()).publish(&n));
    let under_way: Vec<_> = under_way.collect();
    sleep(600 * SECOND).await;
    // Together they wait for between one and two seconds before they are put again.
    let made = calls(&sim);
    assert!((300..610).contains(&made), "{made}");
    sim.recover();
    let began = Instant::now();
    all(under_way).await;
    assert!(began.elapsed() < 3 * SECOND, "{:?}", began.elapsed());
    let warnings = logs.warnings("records are not stored yet");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in [STREAM, "100", "reset"] {
        assert!(warnings[0].contains(part), "{warnings:?}");
    }
    assert_eq!(logs.at(Level::INFO, "no record waits for a retry").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_record_is_given_up_after_the_time_that_the_user_set() {
    for fault in [
        Fault::reset(),
        Fault::throttle(),
        Fault::partial(500),
        Fault::hang(),
    ] {
        let sim = sim(1);
        let publisher = on(&sim).give_up_after(20 * SECOND).start().await.unwrap();
        let inventory = publisher.stream(STREAM).unwrap();
        sim.inject(fault.always());
        // Two of each key, so that one of them is never put.
        let under_way =
            (0..200_u64).map(|n| inventory.partition_key((n % 100).to_string()).publish(&n));
        let began = Instant::now();
        let told = errors(under_way.collect()).await;
        let took = began.elapsed();
        // An attempt has 10 s.
        assert!(took >= 18 * SECOND && took <= 31 * SECOND, "{took:?}");
        for error in told {
            contains(&error, &[STREAM, "20s", "PutRecords"]);
            assert!(error.is_retryable() && error.source().is_some());
        }
        sim.clear_faults();
        inventory.partition_key("0").publish(&200).await.unwrap();
        assert_eq!(values(&sim), [200]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_is_put_before_it_is_given_up_however_long_it_could_linger() {
    let sim = sim(1);
    let publisher = on(&sim).linger(Duration::MAX).give_up_after(20 * SECOND);
    let publisher = publisher.start().await.unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    let began = Instant::now();
    inventory.partition_key("a").publish(&0).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn more_than_can_be_put_in_time_is_given_up_without_a_failure() {
    let sim = KinesisSim::builder().quotas(false).latency(SECOND).build();
    sim.create_stream(STREAM, 1);
    let publisher = on(&sim).give_up_after(5 * SECOND).start().await.unwrap();
    let inventory = publisher.stream(STREAM).unwrap();
    let under_way: Vec<_> = (0..10_u64)
        .map(|n| inventory.partition_key("a").publish(&n))
        .collect();
    let outcomes = join_all(under_way).await;
    assert_eq!(values(&sim), [0, 1, 2, 3, 4]);
    for outcome in &outcomes[5..] {
        let error = outcome.as_ref().unwrap_err();
        assert!(
            matches!(error, PublishError::GaveUp { source: None, .. }),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_nobody_waits_for_is_logged() {
    let logs = Logs::start();
    let sim = sim(1);
    let publisher = start(&sim).await;
    let orders = publisher.stream("orders").unwrap();
    drop(orders.partition_key("a").publish(&0));
    let unstored = publisher.flush().await.unwrap_err();
    assert_eq!(unstored.records(), 1);
    let said = logs.at(Level::ERROR, "nobody waits for");
    assert_eq!(said.len(), 1, "{:?}", logs.all());
    assert!(said[0].contains("orders"), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_setting_that_can_never_work_is_an_error_at_start_that_names_it() {
    let sim = sim(1);
    for (publisher, parts) in [
        (on(&sim).max_records(0), ["max_records is 0", "1 to 500"]),
        (
            on(&sim).max_records(501),
            ["max_records is 501", "1 to 500"],
        ),
        (on(&sim).max_bytes(0), ["max_bytes is 0", "10,485,760"]),
        (
            on(&sim).max_bytes(10 * MIB + 1),
            ["max_bytes is 10485761", "10,485,760"],
        ),
        (on(&sim).max_calls(0), ["max_calls is 0", "1 or more"]),
        (
            on(&sim).max_in_flight_bytes(0),
            ["max_in_flight_bytes is 0", "1 or more"],
        ),
        (
            on(&sim).give_up_after(Duration::ZERO),
            ["give_up_after", "zero"],
        ),
        (
            on(&sim).shutdown_timeout(Duration::ZERO),
            ["shutdown_timeout", "zero"],
        ),
        (on(&sim).endpoint("localhost"), ["localhost", "no scheme"]),
        (on(&sim).region(" "), ["region", "KinesisPublisher::region"]),
        (
            on(&sim).test_credentials(),
            ["test_credentials", "endpoint"],
        ),
    ] {
        let error = publisher.start().await.unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }
    let publisher = start(&sim).await;
    let error = publisher.stream("in ventory").unwrap_err();
    assert!(matches!(error, KinesisError::StreamName { .. }), "{error}");
}
