//! `TestApp`: what its assertions let pass, and what they say when they do not.

use std::sync::{Arc, Mutex};

use rstream::testing::{TestApp, TestBroker};
use rstream::{AppError, AppInfo, Context, HandlerOutcome, RustStream, subscriber};
use serde::{Serialize, Serializer};

use crate::support::{Ends, Memory, Other, Refused, Topic};

/// Acks small numbers at once, 10 at the third attempt, 20 after a panic, and drops the rest.
#[subscriber(Topic::new("numbers"))]
async fn settle(number: &u64, ctx: &mut Context<'_>) -> HandlerOutcome {
    match number {
        ..10 => HandlerOutcome::ack(),
        10 if ctx.attempt() < 3 => HandlerOutcome::retry(),
        10 => HandlerOutcome::ack(),
        20 if ctx.attempt() < 2 => panic!("twenty"),
        20 => HandlerOutcome::ack(),
        _ => HandlerOutcome::drop(),
    }
}

#[subscriber(Topic::new("words"))]
async fn ignore(_: &String) {}

fn app() -> RustStream {
    RustStream::new(AppInfo::new("numbers", "0.1.0")).with_broker(Memory::default(), |b| {
        b.include(settle).include(ignore);
    })
}

async fn with_numbers(numbers: &[u64]) -> TestApp {
    let app = TestApp::start(app()).await.unwrap();
    for number in numbers {
        let message = app.broker::<Memory>().message(number).to("numbers");
        message.publish().await.unwrap();
    }
    app
}

#[tokio::test]
async fn calls_are_counted_per_subscription() {
    let app = with_numbers(&[1, 2]).await;
    let broker = app.broker::<Memory>();

    broker.subscriber("numbers").assert_called(2);
    broker.subscriber("words").assert_not_called();
    assert_eq!(broker.subscriber("numbers").received::<u64>(), [1, 2]);
    assert_eq!(broker.subscriber("words").received::<String>(), [""; 0]);
}

#[tokio::test]
async fn publish_returns_once_a_retried_message_is_settled_and_each_delivery_counts() {
    let app = with_numbers(&[10]).await;
    app.broker::<Memory>()
        .subscriber("numbers")
        .assert_called(3)
        .with(&10)
        .settled(HandlerOutcome::ack());
}

#[tokio::test]
async fn a_panic_counts_as_a_retry() {
    let app = with_numbers(&[20]).await;
    let calls = app.broker::<Memory>().subscriber("numbers");
    calls.assert_called(2).settled(HandlerOutcome::ack());
    assert_eq!(calls.received::<u64>(), [20, 20]);
}

#[tokio::test]
async fn with_keeps_the_calls_with_that_value_and_settled_looks_at_the_last_of_them() {
    let app = with_numbers(&[1, 30, 2]).await;
    let calls = app
        .broker::<Memory>()
        .subscriber("numbers")
        .assert_called(3);

    calls.clone().with(&30).settled(HandlerOutcome::drop());
    calls.clone().with(&2).settled(HandlerOutcome::ack());
    calls.settled(HandlerOutcome::ack());
}

#[tokio::test]
async fn what_a_subscriber_shows_is_of_the_moment_at_which_it_was_taken() {
    let app = with_numbers(&[]).await;
    let before = app.broker::<Memory>().subscriber("numbers");
    let message = app.broker::<Memory>().message(&1).to("numbers");
    message.publish().await.unwrap();

    before.assert_not_called();
    app.broker::<Memory>()
        .subscriber("numbers")
        .assert_called_once();
}

#[tokio::test]
async fn the_apps_own_hooks_see_deliveries_in_process_too() {
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&attempts);
    let app = app().on_delivery(move |delivery| sink.lock().unwrap().push(delivery.attempt()));
    let app = TestApp::start(app).await.unwrap();
    let message = app.broker::<Memory>().message(&10).to("numbers");

    message.publish().await.unwrap();

    assert_eq!(*attempts.lock().unwrap(), [1, 2, 3]);
}

#[tokio::test]
async fn bytes_are_published_as_they_are_and_undecodable_ones_call_nobody() {
    let app = with_numbers(&[]).await;
    let broker = app.broker::<Memory>();

    broker.payload("{oh").to("numbers").publish().await.unwrap();
    broker.subscriber("numbers").assert_not_called();

    broker.payload(" 3 ").to("numbers").publish().await.unwrap();
    broker
        .subscriber("numbers")
        .assert_called_once()
        .with(&3)
        .settled(HandlerOutcome::ack());
}

#[tokio::test]
async fn publishing_to_a_name_that_the_broker_does_not_know_is_its_error() {
    let app = with_numbers(&[]).await;
    let message = app.broker::<Memory>().message(&1).to("nothing");

    let error = message.publish().await.unwrap_err();

    assert!(matches!(error, AppError::Broker { .. }));
    assert_eq!(error.to_string(), r#"no topic "nothing""#);
}

struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not today"))
    }
}

#[tokio::test]
async fn publishing_a_value_that_is_no_json_is_an_error() {
    let app = with_numbers(&[]).await;
    let message = app.broker::<Memory>().message(&Unwritable).to("numbers");

    let error = message.publish().await.unwrap_err();

    assert_eq!(
        error.to_string(),
        "the message cannot be encoded: not today"
    );
}

#[tokio::test]
async fn an_app_that_cannot_start_cannot_start_in_process_either() {
    let empty = RustStream::new(AppInfo::new("empty", "0.1.0"));
    assert!(matches!(
        TestApp::start(empty).await.unwrap_err(),
        AppError::NoBroker { .. }
    ));

    let broken = Memory {
        name: "first",
        start: Ends::Badly,
        ..Memory::default()
    };
    let broken = RustStream::new(AppInfo::new("broken", "0.1.0")).with_broker(broken, |b| {
        b.include(ignore);
    });
    let AppError::Broker { source, .. } = TestApp::start(broken).await.unwrap_err() else {
        panic!("not the broker's error");
    };
    assert_eq!(source.downcast_ref(), Some(&Refused("first")));
}

/// The message with which `assertion` panics over an app that was given `numbers`.
async fn complaint(numbers: &[u64], assertion: impl FnOnce(&TestBroker)) -> String {
    let app = with_numbers(numbers).await;
    let broker = app.broker::<Memory>();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assertion(broker)));
    *caught.unwrap_err().downcast::<String>().unwrap()
}

#[tokio::test]
async fn an_assertion_on_the_number_of_calls_says_both_numbers() {
    let once = complaint(&[10], |b| {
        b.subscriber("numbers").assert_called_once();
    });
    assert_eq!(
        once.await,
        r#"the handler of "numbers" was called 3 times, not 1"#
    );
    let twice = complaint(&[], |b| {
        b.subscriber("numbers").assert_called(2);
    });
    assert_eq!(
        twice.await,
        r#"the handler of "numbers" was called 0 times, not 2"#
    );
    let never = complaint(&[1], |b| b.subscriber("numbers").assert_not_called());
    assert_eq!(
        never.await,
        r#"the handler of "numbers" was called 1 times, not 0"#
    );
}

#[tokio::test]
async fn an_assertion_on_the_value_says_what_came_instead() {
    let said = complaint(&[1, 2], |b| {
        b.subscriber("numbers").assert_called(2).with(&3);
    });
    assert_eq!(
        said.await,
        r#"the handler of "numbers" was not called with 3, but with ["1", "2"]"#
    );
    let said = complaint(&[1], |b| {
        b.subscriber("numbers")
            .assert_called_once()
            .with(&Unwritable);
    });
    assert_eq!(
        said.await,
        "the expected value cannot be encoded: not today"
    );
}

#[tokio::test]
async fn an_assertion_on_the_outcome_says_both() {
    let said = complaint(&[30], |b| {
        let calls = b.subscriber("numbers").assert_called_once();
        calls.settled(HandlerOutcome::ack());
    });
    assert_eq!(
        said.await,
        format!(
            r#"the handler of "numbers" settled with Some({:?}), not {:?}"#,
            HandlerOutcome::drop(),
            HandlerOutcome::ack()
        )
    );
    let said = complaint(&[], |b| {
        let calls = b.subscriber("numbers").assert_called(0);
        calls.settled(HandlerOutcome::ack());
    });
    assert!(said.await.contains("settled with None"));
}

#[tokio::test]
async fn receiving_another_type_says_so() {
    let said = complaint(&[1], |b| {
        let _ = b.subscriber("numbers").received::<String>();
    });
    assert!(
        said.await
            .starts_with(r#"the handler of "numbers" received something else: cannot decode"#)
    );
}

#[tokio::test]
async fn an_unknown_subscription_is_told_with_those_that_there_are() {
    let said = complaint(&[], |b| {
        let _ = b.subscriber("nobody");
    })
    .await;
    assert!(
        said.starts_with(r#"nobody subscribes to "nobody" on "#),
        "{said}"
    );
    assert!(
        said.ends_with(r#"; subscriptions: ["numbers", "words"]"#),
        "{said}"
    );
}

#[tokio::test]
#[should_panic(expected = "the app has no broker of type behaviour::support::Other")]
async fn an_unknown_broker_is_told_by_its_type() {
    let app = with_numbers(&[]).await;
    let _ = app.broker::<Other>();
}
