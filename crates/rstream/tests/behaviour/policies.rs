//! What a subscription says about retries, dead letters and what cannot be decoded.

use std::time::Duration;

use rstream::broker::Policy;
use rstream::testing::TestApp;
use rstream::{
    AppError, AppInfo, Context, Handle, HandlerOutcome, IntoSubscription, OnUndecodable,
    RetryPolicy, RustStream, SubscriberBuilder, subscriber,
};

use crate::support::{Memory, Topic};

const LIMIT: u32 = 4;

#[subscriber(
    Topic::new("numbers"),
    on_undecodable(dead_letter),
    dead_letter("failed"),
    retry(max_attempts = LIMIT - 1, first = "10ms", cap = Duration::from_secs(1), factor = 3.0, jitter = 0.0),
)]
async fn refuses(number: &u64, ctx: &mut Context<'_>) -> HandlerOutcome {
    match number {
        0 => HandlerOutcome::dead_letter(format!("zero, at attempt {}", ctx.attempt())),
        _ => HandlerOutcome::retry(),
    }
}

#[subscriber(
    Topic::new("words"),
    retry(RetryPolicy::fixed(Duration::from_secs(2))),
    on_undecodable(retry)
)]
async fn patient(_: &String) {}

#[subscriber(Topic::new("words"), retry(first = "1s"), on_undecodable(drop))]
async fn plain(_: &String) {}

fn of(subscription: impl IntoSubscription) -> Policy {
    subscription.into_subscription().policy().clone()
}

#[test]
fn an_attribute_says_it_all_to_the_broker() {
    let policy = of(refuses);
    let retry = RetryPolicy::exponential()
        .max_attempts(3)
        .first(Duration::from_millis(10))
        .cap(Duration::from_secs(1))
        .factor(3.0)
        .jitter(0.0);
    assert_eq!(policy.retry, retry);
    assert_eq!(policy.dead_letter.as_deref(), Some("failed"));
    assert_eq!(policy.on_undecodable, OnUndecodable::DeadLetter);

    let policy = of(patient);
    assert_eq!(policy.retry, RetryPolicy::fixed(Duration::from_secs(2)));
    assert_eq!(policy.on_undecodable, OnUndecodable::Retry);

    let policy = of(plain);
    assert_eq!(
        policy.retry,
        RetryPolicy::exponential().first(Duration::from_secs(1))
    );
    assert_eq!(policy.on_undecodable, OnUndecodable::Drop);
}

struct Nothing;

impl Handle<String> for Nothing {
    async fn handle(&self, _: &String, _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
        Ok(())
    }
}

fn by_hand() -> SubscriberBuilder<Nothing> {
    subscriber(Topic::new("words"), Nothing)
}

#[test]
fn a_builder_says_it_all_to_the_broker_and_nothing_is_said_without_it() {
    let policy = of(by_hand().build());
    assert_eq!(policy.retry, RetryPolicy::exponential());
    assert_eq!((policy.batch, &policy.dead_letter), (None, &None));
    assert_eq!(policy.on_undecodable, OnUndecodable::Drop);
    assert_eq!(policy.reply_to, [""; 0]);

    let retry = RetryPolicy::fixed(Duration::ZERO);
    let all = by_hand()
        .retry(retry)
        .dead_letter("failed")
        .on_undecodable(OnUndecodable::DeadLetter);
    let policy = of(all.build());
    assert_eq!(policy.retry, retry);
    assert_eq!(policy.dead_letter.as_deref(), Some("failed"));
    assert_eq!(policy.on_undecodable, OnUndecodable::DeadLetter);
}

async fn refusal(subscription: impl IntoSubscription) -> String {
    let app = RustStream::new(AppInfo::new("words", "0.1.0"));
    let app = app.with_broker(Memory::default(), |b| {
        b.include(subscription);
    });
    let error = app.start().await.unwrap_err();
    assert!(matches!(&error, AppError::Policy { subscription, .. } if subscription == "words"));
    let said = error.to_string();
    let reason = said.strip_prefix(r#"the subscription to "words" cannot work: "#);
    reason.unwrap().to_owned()
}

#[tokio::test]
async fn what_can_never_work_is_an_error_at_start_that_says_what() {
    let retry = RetryPolicy::exponential();
    assert_eq!(
        refusal(by_hand().retry(retry.max_attempts(0)).build()).await,
        "max_attempts is 0: a message is handed over at least once"
    );
    assert_eq!(
        refusal(by_hand().retry(retry.jitter(f64::NAN)).build()).await,
        "the jitter of the retries is NaN: it is a number from 0 to 1"
    );
    assert_eq!(
        refusal(by_hand().retry(retry.first(Duration::from_secs(9))).build()).await,
        "the first pause of the retries, 9s, is above their cap, 5s: raise the cap"
    );
    assert_eq!(
        refusal(by_hand().on_undecodable(OnUndecodable::DeadLetter).build()).await,
        "what cannot be decoded is to be a dead letter, but there is no place for it: name one with dead_letter(..)"
    );
    assert_eq!(
        refusal(by_hand().dead_letter("").build()).await,
        "dead letters go to a destination without a name"
    );
    assert_eq!(
        refusal(by_hand().dead_letter("words").build()).await,
        "dead letters go to \"words\", which the handler itself reads: name another destination"
    );
    let empty = move || {
        #[subscriber(Topic::new("words"), batch(usize::MIN, "1s"))]
        async fn never(_: &[String]) {}
        never()
    };
    assert_eq!(
        refusal(empty).await,
        "a batch has up to 0 messages: it is given at least 1"
    );
}

#[tokio::test]
async fn a_test_app_shows_retries_and_dead_letters() {
    let app = RustStream::new(AppInfo::new("numbers", "0.1.0"));
    let app = app.with_broker(Memory::default(), |b| {
        b.include(refuses);
    });
    let app = TestApp::start(app).await.unwrap();
    let broker = app.broker::<Memory>();

    broker.message(&5).to("numbers").publish().await.unwrap();
    broker.message(&0).to("numbers").publish().await.unwrap();
    broker.payload("no").to("numbers").publish().await.unwrap();

    let calls = broker.subscriber("numbers").assert_called(4);
    calls.clone().with(&5).settled(HandlerOutcome::retry());
    let outcome = HandlerOutcome::dead_letter("zero, at attempt 1");
    calls.with(&0).settled(outcome);
    assert_eq!(broker.published_payloads("failed"), ["5", "0", "no"]);
}
