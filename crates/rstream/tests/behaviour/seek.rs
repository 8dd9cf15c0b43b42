//! Subscriptions that are moved while they run.

use std::sync::Arc;

use rstream::broker::Position;
use rstream::{AppError, AppInfo, Running, RustStream, subscriber};

use crate::support::{Events, Memory, Offset, Other, Refused, Topic};

#[subscriber(Topic::new("numbers"))]
async fn numbers(_: &u64) {}

#[subscriber(Topic::new("words"))]
async fn words(_: &String) {}

async fn running() -> (Running, Events) {
    let events = Events::default();
    let memory = |name| Memory {
        name,
        events: Arc::clone(&events),
        ..Memory::default()
    };
    let app = RustStream::new(AppInfo::new("numbers", "0.1.0"))
        .with_broker(memory("first"), |b| {
            b.include(numbers);
        })
        .with_broker(memory("second"), |b| {
            b.include(words);
        });
    let running = app.start().await.unwrap();
    events.lock().unwrap().clear();
    (running, events)
}

#[tokio::test]
async fn a_subscription_is_moved_by_its_name() {
    let (running, events) = running().await;
    running.seek("words", Offset(7)).await.unwrap();
    assert_eq!(*events.lock().unwrap(), ["second moves words to 7"]);
}

#[tokio::test]
async fn an_unknown_subscription_is_told_with_those_that_there_are() {
    let (running, events) = running().await;
    let error = running.seek("letters", Offset(7)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "behaviour::support::Memory has no subscription to \"letters\" to be moved; subscriptions: [\"numbers\", \
         \"words\"]"
    );
    assert!(events.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_position_of_another_broker_moves_nothing() {
    struct Elsewhere;

    impl Position for Elsewhere {
        type Broker = Other;
    }

    let (running, events) = running().await;
    let error = running.seek("words", Elsewhere).await.unwrap_err();
    assert!(
        matches!(error, AppError::NoSuchSubscription { broker, .. } if broker.ends_with("Other"))
    );
    assert!(events.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_the_broker_says_to_a_move_is_its_error() {
    let (running, _) = running().await;
    let AppError::Broker { source, .. } = running.seek("words", Offset(0)).await.unwrap_err()
    else {
        panic!("not the broker's error");
    };
    assert_eq!(source.downcast_ref(), Some(&Refused("second")));
}
