//! Start, reports and shutdown of an app.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use rstream::broker::Verdict;
use rstream::{AppError, AppInfo, HandlerOutcome, RustStream, subscriber};

use crate::support::{Ends, Events, Memory, Other, Refused, Topic, said};

#[subscriber(Topic::new("words"))]
async fn ignore(_: &String) {}

fn empty() -> RustStream {
    RustStream::new(AppInfo::new("greeter", "0.1.0"))
}

/// An app on brokers that write into one record what happens to them.
fn app(brokers: impl IntoIterator<Item = Memory>) -> (RustStream, Events) {
    let events = Events::default();
    let app = brokers.into_iter().fold(empty(), |app, broker| {
        let events = Arc::clone(&events);
        app.with_broker(Memory { events, ..broker }, |b| {
            b.include(ignore);
        })
    });
    (app, events)
}

fn named(name: &'static str) -> Memory {
    Memory {
        name,
        ..Memory::default()
    }
}

fn take(events: &Events) -> Vec<String> {
    std::mem::take(&mut events.lock().unwrap())
}

#[tokio::test]
async fn an_app_without_a_broker_does_not_start() {
    let error = empty().start().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"the app "greeter" has no broker: give it one with RustStream::with_broker"#
    );
}

#[tokio::test]
async fn a_broker_without_a_subscription_does_not_start_and_nor_do_the_others() {
    let (app, events) = app([named("first")]);
    let error = app.with_broker(Other, |_| {}).start().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"the app "greeter" includes no subscription on behaviour::support::Other: call b.include(..) in with_broker"#
    );
    assert_eq!(take(&events), [""; 0]);
}

#[tokio::test]
async fn a_subscription_on_the_wrong_broker_does_not_start() {
    let app = empty().with_broker(Other, |b| {
        b.include(ignore);
    });
    let error = app.start().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"behaviour::support::Topic ("words") is read by behaviour::support::Memory, but it was included on behaviour::support::Other"#
    );
}

#[tokio::test]
async fn brokers_start_in_order_and_shut_down() {
    let (app, events) = app([named("first"), named("second")]);

    let running = app.start().await.unwrap();
    assert_eq!(
        take(&events),
        [
            "first starts",
            "first started",
            "second starts",
            "second started"
        ]
    );

    running.shutdown().await.unwrap();
    assert_eq!(
        take(&events),
        [
            "first shuts down",
            "first shut down",
            "first is gone",
            "second shuts down",
            "second shut down",
            "second is gone"
        ]
    );
}

#[tokio::test]
async fn a_broker_that_fails_to_start_shuts_down_those_that_had_started() {
    let broken = Memory {
        start: Ends::Badly,
        ..named("second")
    };
    let (app, events) = app([named("first"), broken, named("third")]);

    let error = app.start().await.unwrap_err();

    let AppError::Broker { broker, source } = error else {
        panic!("{error:?}");
    };
    assert_eq!(broker, "behaviour::support::Memory");
    assert_eq!(source.downcast_ref(), Some(&Refused("second")));
    assert_eq!(
        take(&events),
        [
            "first starts",
            "first started",
            "second starts",
            "second is gone",
            "first shuts down",
            "first shut down",
            "first is gone"
        ]
    );
}

/// An app that keeps what each error that is reported to it says.
fn reporting(app: RustStream) -> (RustStream, Arc<Mutex<Vec<String>>>) {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&reported);
    let app = app.on_error(move |error| sink.lock().unwrap().push(error.to_string()));
    (app, reported)
}

#[tokio::test]
async fn a_shutdown_that_fails_after_a_failed_start_is_reported_and_the_start_is_the_error() {
    let stuck = Memory {
        shutdown: Ends::Badly,
        ..named("first")
    };
    let broken = Memory {
        start: Ends::Badly,
        ..named("second")
    };
    let (app, reported) = reporting(app([stuck, broken]).0);

    let error = app.start().await.unwrap_err();

    assert_eq!(error.to_string(), "second refused");
    assert_eq!(*reported.lock().unwrap(), ["first refused"]);
}

#[tokio::test]
async fn a_shutdown_shuts_down_every_broker_although_one_fails() {
    let broken = Memory {
        shutdown: Ends::Badly,
        ..named("first")
    };
    let (app, events) = app([broken, named("second")]);
    let running = app.start().await.unwrap();
    take(&events);

    let error = running.shutdown().await.unwrap_err();

    let AppError::Broker { source, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(source.downcast_ref(), Some(&Refused("first")));
    assert_eq!(
        take(&events),
        [
            "first shuts down",
            "first is gone",
            "second shuts down",
            "second shut down",
            "second is gone"
        ]
    );
}

#[tokio::test]
async fn of_two_shutdowns_that_fail_the_second_is_reported() {
    let broken = |name| Memory {
        shutdown: Ends::Badly,
        ..named(name)
    };
    let (app, reported) = reporting(app([broken("first"), broken("second")]).0);

    let error = app.start().await.unwrap().shutdown().await.unwrap_err();

    assert_eq!(error.to_string(), "first refused");
    assert_eq!(*reported.lock().unwrap(), ["second refused"]);
}

#[tokio::test]
async fn brokers_shut_down_at_the_same_time() {
    let stuck = Memory {
        shutdown: Ends::Never,
        ..named("first")
    };
    let (app, events) = app([stuck, named("second")]);
    let mut shutdown = Box::pin(app.start().await.unwrap().shutdown());
    take(&events);

    assert!((&mut shutdown).now_or_never().is_none());
    assert_eq!(
        take(&events),
        [
            "first shuts down",
            "second shuts down",
            "second shut down",
            "second is gone"
        ]
    );

    drop(shutdown);
    assert_eq!(take(&events), ["first is gone"]);
}

#[tokio::test]
async fn dropping_a_running_app_drops_its_connections() {
    let (app, events) = app([named("first"), named("second")]);
    let running = app.start().await.unwrap();
    take(&events);

    drop(running);

    assert_eq!(take(&events), ["first is gone", "second is gone"]);
}

#[tokio::test]
async fn dropping_a_start_drops_what_had_started() {
    let slow = Memory {
        start: Ends::Never,
        ..named("second")
    };
    let (app, events) = app([named("first"), slow]);
    let mut start = Box::pin(app.start());
    assert!((&mut start).now_or_never().is_none());
    take(&events);

    drop(start);

    let mut gone = take(&events);
    gone.sort();
    assert_eq!(gone, ["first is gone", "second is gone"]);
}

#[tokio::test]
async fn every_hook_is_given_the_brokers_error_itself() {
    let broker = Memory {
        report: Some(Refused("first")),
        ..named("first")
    };
    let (app, reported) = reporting(app([broker]).0);
    let refused = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&refused);
    let app = app.on_error(move |error| {
        let name = error.downcast_ref::<Refused>().map(|refused| refused.0);
        sink.lock().unwrap().push(name);
    });

    let running = app.start().await.unwrap();

    assert_eq!(*reported.lock().unwrap(), ["first refused"]);
    assert_eq!(*refused.lock().unwrap(), [Some("first")]);
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn every_hook_sees_every_delivery_and_what_came_of_it() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    for payload in [r#""a""#, "1"] {
        let broker = Memory {
            hand_over: Some(payload),
            ..named("first")
        };
        let sink = Arc::clone(&seen);
        let app = app([broker])
            .0
            .on_delivery(|_| panic!("a hook of the user's"));
        let app = app.on_delivery(move |delivery| {
            assert_eq!(delivery.subscription(), "words");
            assert_eq!(delivery.attempt(), 1);
            assert_eq!(delivery.get(), Some(&"attached"));
            let payload = String::from_utf8_lossy(delivery.payload()).into_owned();
            sink.lock()
                .unwrap()
                .push((payload, delivery.verdict().clone()));
        });
        let running = app.start().await.unwrap();
        running.shutdown().await.unwrap();
    }

    let seen = seen.lock().unwrap();
    let [(word, handled), (number, undecodable)] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert_eq!((word.as_str(), number.as_str()), (r#""a""#, "1"));
    assert_eq!(*handled, said(HandlerOutcome::ack()));
    assert!(matches!(undecodable, Verdict::Undecodable(_)));
}

#[test]
fn an_app_tells_its_brokers_and_subscriptions() {
    let debug = format!("{:?}", app([named("first")]).0);
    assert!(
        debug.contains("Memory") && debug.contains("words"),
        "{debug}"
    );
}
