//! What a broker is told of a handler's call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use rstream::broker::Verdict;
use rstream::{Context, Handle, HandlerOutcome, IntoSubscription, subscriber};
use tokio::sync::Barrier;

use crate::support::{Topic, attempt, deliver, said};

/// A handler of `T` that is a closure.
struct By<F>(F);

impl<T: Sync + 'static, F, Fut> Handle<T> for By<F>
where
    F: Fn(&T) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), HandlerOutcome>> + Send,
{
    fn handle(
        &self,
        message: &T,
        _: &(),
        _: &mut Context<'_>,
    ) -> impl Future<Output = Result<(), HandlerOutcome>> + Send {
        (self.0)(message)
    }
}

async fn verdict_of<F, Fut>(handler: F) -> Verdict
where
    F: Fn(&u64) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), HandlerOutcome>> + Send + 'static,
{
    let subscription = subscriber(Topic::new("numbers"), By(handler)).build::<u64>();
    deliver(subscription, "1").await
}

#[tokio::test]
async fn an_ok_is_an_ack() {
    assert_eq!(
        verdict_of(|_| async { Ok(()) }).await,
        said(HandlerOutcome::ack())
    );
}

#[tokio::test]
async fn each_outcome_reaches_the_broker_as_it_was_said() {
    for outcome in [
        HandlerOutcome::ack(),
        HandlerOutcome::retry(),
        HandlerOutcome::retry_after(Duration::ZERO),
        HandlerOutcome::retry_after(Duration::from_secs(7)),
        HandlerOutcome::drop(),
        HandlerOutcome::ack_until(0),
        HandlerOutcome::ack_until(1),
        HandlerOutcome::dead_letter("not ours"),
    ] {
        let says = outcome.clone();
        let verdict = verdict_of(move |_| std::future::ready(Err(says.clone()))).await;
        assert_eq!(verdict, said(outcome));
    }
}

#[tokio::test]
async fn a_panic_before_the_future_is_a_verdict_with_its_message() {
    let verdict = verdict_of(|number| {
        assert!(*number != 1, "number {number} at once");
        async { Ok(()) }
    })
    .await;
    assert_eq!(verdict, Verdict::Panicked("number 1 at once".to_owned()));
}

#[tokio::test]
async fn a_panic_after_an_await_is_a_verdict_with_its_message() {
    let verdict = verdict_of(|_| async {
        tokio::task::yield_now().await;
        panic!("later")
    })
    .await;
    assert_eq!(verdict, Verdict::Panicked("later".to_owned()));
}

#[tokio::test]
async fn a_panic_with_a_value_that_is_no_text_is_a_verdict_too() {
    let verdict = verdict_of(|_| async { std::panic::panic_any(5_u8) }).await;
    assert_eq!(
        verdict,
        Verdict::Panicked("a value that is no text".to_owned())
    );
}

#[tokio::test]
async fn a_handler_that_panicked_is_called_again() {
    let subscription = subscriber(
        Topic::new("numbers"),
        By(|number: &u64| {
            let number = *number;
            async move {
                assert!(number != 1, "not this one");
                Ok(())
            }
        }),
    )
    .build::<u64>()
    .into_subscription();
    let handler = subscription.handler();

    assert!(matches!(
        attempt(handler, "1", 1, &()).await,
        Verdict::Panicked(_)
    ));
    assert_eq!(
        attempt(handler, "2", 1, &()).await,
        said(HandlerOutcome::ack())
    );
}

#[tokio::test]
async fn an_undecodable_payload_calls_no_handler_and_is_not_quoted() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let subscription = subscriber(
        Topic::new("numbers"),
        By(move |_: &u64| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok(()) }
        }),
    )
    .build::<u64>();

    let verdict = deliver(subscription, r#" "4111-1111" "#).await;

    let Verdict::Undecodable(error) = &verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(
        (
            error.type_name(),
            error.category(),
            error.line(),
            error.column()
        ),
        ("u64", "data", 1, 12)
    );
    assert!(!format!("{verdict:?} {error}").contains("4111"));
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

/// Says by its outcome what its context held.
struct Reads;

impl Handle<u64> for Reads {
    async fn handle(
        &self,
        message: &u64,
        _: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        let shard = ctx.get::<&'static str>().copied();
        tokio::task::yield_now().await;
        assert_eq!(
            (*message, ctx.attempt(), shard, ctx.get::<String>()),
            (5, 3, Some("shard 4"), None)
        );
        Ok(())
    }
}

#[tokio::test]
async fn a_handler_sees_the_attempt_and_what_the_broker_attached() {
    let subscription = subscriber(Topic::new("numbers"), Reads)
        .build()
        .into_subscription();
    assert_eq!(
        attempt(subscription.handler(), "5", 3, &"shard 4").await,
        said(HandlerOutcome::ack())
    );
}

/// Waits until as many are in it at once as the barrier wants, with the message borrowed.
struct Meets(Barrier);

impl Handle<Vec<u64>> for Meets {
    async fn handle(
        &self,
        message: &Vec<u64>,
        _: &(),
        _: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        let first = &message[0];
        self.0.wait().await;
        if *first < 3 {
            Ok(())
        } else {
            Err(HandlerOutcome::drop())
        }
    }
}

#[tokio::test]
async fn one_handler_serves_many_deliveries_at_once_and_borrows_each_message_across_an_await() {
    let subscription = subscriber(Topic::new("numbers"), Meets(Barrier::new(4)))
        .build()
        .into_subscription();

    let deliveries = (0..4_u64).map(|number| {
        let handler = subscription.handler().clone();
        let payload = format!("[{number}]");
        tokio::spawn(async move { attempt(&handler, &payload, 1, &()).await })
    });
    let verdicts = futures_util::future::try_join_all(deliveries)
        .await
        .unwrap();

    let ack = said(HandlerOutcome::ack());
    assert_eq!(
        verdicts,
        [ack.clone(), ack.clone(), ack, said(HandlerOutcome::drop())]
    );
}

#[tokio::test]
async fn dropping_a_delivery_drops_the_handlers_future() {
    let held = Arc::new(());
    let inside = Arc::clone(&held);
    let subscription = subscriber(
        Topic::new("numbers"),
        By(move |_: &u64| {
            let inside = Arc::clone(&inside);
            async move {
                std::future::pending::<()>().await;
                drop(inside);
                Ok(())
            }
        }),
    )
    .build::<u64>()
    .into_subscription();

    let mut delivery = Box::pin(attempt(subscription.handler(), "1", 1, &()));
    assert!((&mut delivery).now_or_never().is_none());
    assert_eq!(Arc::strong_count(&held), 3);
    drop(delivery);

    assert_eq!(Arc::strong_count(&held), 2);
}

#[test]
fn a_subscription_tells_its_name_its_source_and_its_message() {
    let subscription = subscriber(Topic::new("numbers").renamed("primes"), Reads)
        .build()
        .into_subscription();

    assert_eq!(subscription.name(), "primes");
    assert_eq!(subscription.handler().message_type(), "u64");
    assert_eq!(
        format!("{:?}", subscription.source::<Topic>().unwrap()),
        r#"Topic("primes")"#
    );
}

#[test]
fn a_subscription_can_be_included_as_it_is_or_as_what_makes_it() {
    let name = String::from("inventory");
    let make = move || {
        assert_eq!(name, "inventory");
        let built = subscriber(Topic::new("inventory"), Reads).build();
        built.into_subscription()
    };
    assert_eq!(make.into_subscription().name(), "inventory");
}
