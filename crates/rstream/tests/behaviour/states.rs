//! What an app gives to all of its handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rstream::testing::TestApp;
use rstream::{AppError, AppInfo, Context, Handle, HandlerOutcome, RustStream, State, subscriber};

use crate::support::{Memory, Topic, deliver};

type Sum = Arc<AtomicU64>;

struct Factor(u64);

#[subscriber(Topic::new("macro"))]
async fn adds(number: &u64, factor: State<Factor>, ctx: &mut Context<'_>, mut sum: State<Sum>) {
    tokio::task::yield_now().await;
    let same = ctx.state::<Sum>().unwrap();
    assert!(std::ptr::eq(same, &raw const *sum));
    sum = sum.clone();
    sum.fetch_add(number * factor.0, Ordering::Relaxed);
}

struct Adds;

impl Handle<u64> for Adds {
    async fn handle(
        &self,
        number: &u64,
        _: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        let sum = ctx.state::<Sum>().ok_or(HandlerOutcome::drop())?;
        sum.fetch_add(*number, Ordering::Relaxed);
        assert!(ctx.state::<String>().is_none());
        Ok(())
    }
}

fn app() -> RustStream {
    let by_hand = subscriber(Topic::new("by hand"), Adds).requires_state::<Sum>();
    RustStream::new(AppInfo::new("sums", "0.1.0")).with_broker(Memory::default(), |b| {
        b.include(adds).include(by_hand.build());
    })
}

#[tokio::test]
async fn a_state_is_one_value_for_every_handler_in_both_forms() {
    let sum = Sum::default();
    let app = app().with_state(Factor(10)).with_state(Arc::clone(&sum));
    let app = TestApp::start(app).await.unwrap();
    let broker = app.broker::<Memory>();

    for name in ["macro", "by hand"] {
        broker.message(&3).to(name).publish().await.unwrap();
        let calls = broker.subscriber(name).assert_called_once();
        calls.settled(HandlerOutcome::ack());
    }

    assert_eq!(sum.load(Ordering::Relaxed), 33);
}

#[tokio::test]
async fn a_running_app_gives_its_state_too() {
    let sum = Sum::default();
    let broker = Memory {
        hand_over: Some("4"),
        ..Memory::default()
    };
    let app = RustStream::new(AppInfo::new("sums", "0.1.0"))
        .with_broker(broker, |b| {
            b.include(adds);
        })
        .on_delivery(|_| {})
        .with_state(Factor(1))
        .with_state(Arc::clone(&sum));

    let running = app.start().await.unwrap();

    assert_eq!(sum.load(Ordering::Relaxed), 4);
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_state_that_is_missing_is_an_error_at_start_that_names_it() {
    let without_factor = || app().with_state(Sum::default());
    for error in [
        without_factor().start().await.unwrap_err(),
        TestApp::start(without_factor()).await.unwrap_err(),
    ] {
        assert_eq!(
            error.to_string(),
            "the handler of \"macro\" needs a state of type behaviour::states::Factor: give the app one with \
             RustStream::with_state"
        );
    }
    let error = app().with_state(Factor(1)).start().await.unwrap_err();
    assert!(matches!(error, AppError::MissingState { type_name, .. } if type_name.contains("Arc")));
}

#[tokio::test]
async fn two_states_of_one_type_are_an_error_at_start() {
    let app = app().with_state(Factor(1)).with_state(Sum::default());
    let error = app.with_state(Factor(2)).start().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the app \"sums\" was given two states of type behaviour::states::Factor: wrap one in a type of its own"
    );
}

#[tokio::test]
async fn a_handler_outside_of_an_app_says_which_state_it_lacks() {
    let verdict = deliver(adds, "1").await;
    let said = format!("{verdict:?}");
    assert!(
        said.contains("no state of type behaviour::states::Factor"),
        "{said}"
    );
}
