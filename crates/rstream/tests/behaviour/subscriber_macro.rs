//! What `#[subscriber(..)]` makes of a function.

use rstream::broker::Verdict;
use rstream::testing::TestApp;
use rstream::{AppInfo, Context, HandlerOutcome, IntoSubscription, RustStream, State, subscriber};
use serde::Deserialize;

use crate::support::{Memory, Topic, attempt, deliver, said};

#[derive(Deserialize)]
struct Change {
    sku: u64,
    delta: i64,
}

const CHANGE: &str = r#"{"sku":7,"delta":-2}"#;

#[subscriber(Topic::new("inventory"))]
async fn drops(change: &Change) -> HandlerOutcome {
    if change.sku == 7 {
        HandlerOutcome::drop()
    } else {
        HandlerOutcome::ack()
    }
}

#[subscriber(Topic::new("inventory"))]
async fn says_nothing(_: &Change) {}

#[subscriber(Topic::new("inventory"))]
async fn says_unit(_: &Change) -> () {}

#[subscriber(Topic::new("inventory"))]
async fn fails(change: &Change) -> Result<(), HandlerOutcome> {
    i32::try_from(change.delta).map_err(|_| HandlerOutcome::drop())?;
    Err(HandlerOutcome::retry())
}

struct OutOfStock;

impl From<OutOfStock> for HandlerOutcome {
    fn from(_: OutOfStock) -> Self {
        Self::drop()
    }
}

type Sold = Result<(), OutOfStock>;

#[subscriber(Topic::new("inventory"))]
async fn fails_in_its_own_words(change: &Change) -> Sold {
    if change.delta < 0 {
        Err(OutOfStock)
    } else {
        Ok(())
    }
}

#[tokio::test]
async fn a_function_returns_an_outcome_or_nothing_or_a_result() {
    assert_eq!(deliver(drops, CHANGE).await, said(HandlerOutcome::drop()));
    assert_eq!(
        deliver(says_nothing, CHANGE).await,
        said(HandlerOutcome::ack())
    );
    assert_eq!(
        deliver(says_unit, CHANGE).await,
        said(HandlerOutcome::ack())
    );
    assert_eq!(deliver(fails, CHANGE).await, said(HandlerOutcome::retry()));
    assert_eq!(
        deliver(fails_in_its_own_words, CHANGE).await,
        said(HandlerOutcome::drop())
    );
    assert_eq!(
        deliver(fails_in_its_own_words, r#"{"sku":7,"delta":2}"#).await,
        said(HandlerOutcome::ack())
    );
}

#[subscriber(Topic::new("inventory"))]
async fn takes_its_context(
    Change { sku, delta, .. }: &Change,
    ctx: &mut Context<'_>,
) -> Result<(), HandlerOutcome> {
    tokio::task::yield_now().await;
    assert_eq!((*sku, *delta), (7, -2));
    assert_eq!(ctx.get::<u8>(), Some(&5));
    match ctx.attempt() {
        1 => Err(HandlerOutcome::retry()),
        _ => Ok(()),
    }
}

#[tokio::test]
async fn a_function_takes_its_context_and_any_pattern_for_its_message() {
    let subscription = takes_its_context.into_subscription();
    let handler = subscription.handler();
    assert_eq!(
        attempt(handler, CHANGE, 1, &5_u8).await,
        said(HandlerOutcome::retry())
    );
    assert_eq!(
        attempt(handler, CHANGE, 2, &5_u8).await,
        said(HandlerOutcome::ack())
    );
}

#[subscriber(Topic::new("words"))]
async fn shortens(mut words: &Vec<String>, mut _ctx: &mut rstream::Context<'_>) {
    while let [first, rest @ ..] = words.as_slice() {
        tokio::task::yield_now().await;
        assert!(!first.is_empty());
        let _ = rest;
        words = const { &Vec::new() };
    }
}

#[tokio::test]
async fn a_parameter_may_be_mut_and_a_message_is_borrowed_across_an_await() {
    assert_eq!(
        deliver(shortens, r#"["a"]"#).await,
        said(HandlerOutcome::ack())
    );
}

mod handlers {
    use super::{Change, Topic};

    pub(crate) mod inner {
        use super::*;

        /// Uses names of the module that it stands in, and of the one above.
        #[rstream::subscriber(Topic::new(NAME))]
        pub(in crate::subscriber_macro) async fn apply(change: &Change) {
            assert_eq!(change.sku, SKU);
            assert_eq!(super::above(), 1);
        }

        const NAME: &str = "inner";
        const SKU: u64 = 7;
    }

    fn above() -> u8 {
        1
    }

    #[rstream::subscriber(Topic::new("outer"))]
    pub(crate) async fn apply(_: &super::Change) {}
}

#[tokio::test]
async fn handlers_of_other_modules_are_included_by_path_and_by_name() {
    use handlers::inner::apply as renamed;

    let app = RustStream::new(AppInfo::new("inventory", "0.1.0"));
    let app = app.with_broker(Memory::default(), |b| {
        b.include(handlers::apply).include(renamed);
    });
    let app = TestApp::start(app).await.unwrap();
    let broker = app.broker::<Memory>();
    for name in ["inner", "outer"] {
        let message = broker.payload(CHANGE).to(name);
        message.publish().await.unwrap();
        let calls = broker.subscriber(name).assert_called_once();
        calls.settled(HandlerOutcome::ack());
    }
}

#[tokio::test]
async fn a_handler_may_stand_in_a_function() {
    #[derive(Deserialize)]
    struct Local(u64);

    const LIMIT: u64 = 3;

    fn name() -> &'static str {
        "local"
    }

    #[subscriber(Topic::new(name()))]
    async fn apply(Local(number): &Local) -> HandlerOutcome {
        if *number > LIMIT {
            HandlerOutcome::drop()
        } else {
            HandlerOutcome::ack()
        }
    }

    assert_eq!(apply.into_subscription().name(), "local");
    assert_eq!(deliver(apply, "4").await, said(HandlerOutcome::drop()));
}

struct Inventory;

impl Inventory {
    const LIMIT: u64 = 3;

    #[subscriber(Topic::new("associated"))]
    async fn apply(number: &u64) -> HandlerOutcome {
        if *number > Inventory::LIMIT {
            HandlerOutcome::drop()
        } else {
            HandlerOutcome::ack()
        }
    }
}

#[tokio::test]
async fn a_handler_may_be_an_associated_function() {
    assert_eq!(Inventory::apply.into_subscription().name(), "associated");
    assert_eq!(
        deliver(Inventory::apply, "4").await,
        said(HandlerOutcome::drop())
    );
}

#[subscriber(Topic::new("numbers"))]
async fn counts_down(number: &u64) {
    if let Some(next) = number.checked_sub(1) {
        Box::pin(counts_down(&next)).await;
    }
}

#[tokio::test]
async fn a_function_may_call_itself() {
    assert_eq!(deliver(counts_down, "3").await, said(HandlerOutcome::ack()));
}

#[subscriber(
    if cfg!(test) {
        Topic::new("a").renamed("b")
    } else {
        Topic::new("c")
    },
)]
async fn from_an_expression(_: &u64) {}

#[test]
fn the_source_is_any_expression() {
    assert_eq!(from_an_expression.into_subscription().name(), "b");
}

/// Stands for a crate that exports rstream under a path of its own, and can be told from it.
mod facade {
    pub(crate) mod deeper {
        pub(crate) use ::rstream::{
            __private, Context, Handle, HandlerOutcome, OnUndecodable, RetryPolicy, broker,
        };

        use crate::support::Topic;

        pub(crate) fn subscriber<H>(_: Topic, handler: H) -> ::rstream::SubscriberBuilder<H> {
            ::rstream::subscriber(Topic::new("told by the facade"), handler)
        }
    }
}

#[subscriber(
    Topic::new("plain"),
    batch(5, "0ms"),
    retry(max_attempts = 5),
    crate = self::facade::deeper,
    on_undecodable(retry),
)]
async fn through_a_facade(_: &[u64], _: State<u8>) {}

#[subscriber(Topic::new("plain"), crate = ::rstream,)]
async fn through_the_crate(_: &u64) {}

#[test]
fn the_crate_may_be_named() {
    let name = through_a_facade.into_subscription().name().to_owned();
    assert_eq!(name, "told by the facade");
    assert_eq!(through_the_crate.into_subscription().name(), "plain");
}

/// Nothing that the expansion needs goes by a name that a user might have taken.
mod names_taken {
    #![allow(dead_code, non_camel_case_types)]

    use crate::support::Topic;

    struct Result;
    struct Option;
    struct Clone;
    struct Copy;
    struct Debug;
    struct Send;
    struct Context;
    struct Handle;
    struct HandlerOutcome;
    struct IntoSubscription;
    struct Subscription;
    struct message;
    struct outs;
    struct ctx;
    mod core {}
    mod diagnostic {}
    mod std {}
    mod rstream {}

    #[::rstream::subscriber(Topic::new("taken"))]
    pub(super) async fn handle(handle: &u64) {
        assert_eq!(*handle, 1);
    }

    #[::rstream::subscriber(Topic::new("taken"))]
    pub(super) async fn into_subscription(_: &u64) {}

    #[::rstream::subscriber(Topic::new("taken"))]
    pub(super) async fn r#type(r#type: &u64) {
        assert_eq!(*r#type, 1);
    }
}

#[tokio::test]
async fn names_that_a_user_has_taken_are_in_nobodys_way() {
    let ack = said(HandlerOutcome::ack());
    assert_eq!(deliver(names_taken::handle, "1").await, ack);
    assert_eq!(deliver(names_taken::into_subscription, "1").await, ack);
    assert_eq!(deliver(names_taken::r#type, "1").await, ack);
}

#[subscriber(Topic::new("absent"))]
#[cfg(not(test))]
async fn absent(_: &NoSuchType) {}

#[cfg(not(test))]
#[subscriber(Topic::new("absent"))]
async fn absent(_: &NoSuchType) {}

#[subscriber(Topic::new("present"))]
#[cfg(test)]
async fn absent(_: &u64) {}

#[test]
fn a_function_under_cfg_is_there_when_its_cfg_is() {
    assert_eq!(absent.into_subscription().name(), "present");
}

#[subscriber(Topic::new("spans"))]
#[tracing::instrument(fields(change.sku), skip_all)]
async fn instrumented_below(change: &Change) {
    tokio::task::yield_now().await;
    assert_eq!(span(), Some("instrumented_below"));
    assert_eq!(change.sku, 7);
}

#[tracing::instrument(skip_all)]
#[subscriber(Topic::new("spans"))]
async fn instrumented_above(_: &Change, _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
    tokio::task::yield_now().await;
    assert_eq!(span(), Some("instrumented_above"));
    Ok(())
}

fn span() -> Option<&'static str> {
    tracing::Span::current()
        .metadata()
        .map(tracing::Metadata::name)
}

#[tokio::test]
async fn other_attribute_macros_act_on_the_function() {
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry());
    let ack = said(HandlerOutcome::ack());
    assert_eq!(deliver(instrumented_below, CHANGE).await, ack);
    assert_eq!(deliver(instrumented_above, CHANGE).await, ack);
}

/// Clippy says nothing of what the expansion is, and as much as ever of what the user wrote.
mod quiet {
    #![deny(clippy::all, clippy::pedantic)]

    use super::{Change, HandlerOutcome, Topic};
    use rstream::{Context, subscriber};

    #[subscriber(Topic::new("quiet"))]
    pub(super) async fn never_awaits(_: &u64) {}

    #[subscriber(Topic::new("quiet"))]
    pub(super) async fn takes_a_vector(
        words: &Vec<String>,
        ctx: &mut Context<'_>,
    ) -> HandlerOutcome {
        if words.len() > 1 || ctx.attempt() > 1 {
            HandlerOutcome::drop()
        } else {
            HandlerOutcome::ack()
        }
    }

    #[subscriber(Topic::new("quiet"))]
    #[expect(clippy::needless_return, reason = "the lint sees the user's own code")]
    pub(super) async fn returns(change: &Change) -> Result<(), HandlerOutcome> {
        tokio::task::yield_now().await;
        if change.sku == 0 {
            return Err(HandlerOutcome::drop());
        }
        return Ok(());
    }
}

#[tokio::test]
async fn handlers_under_pedantic_lints_work() {
    let ack = said(HandlerOutcome::ack());
    assert_eq!(deliver(quiet::never_awaits, "1").await, ack);
    assert_eq!(deliver(quiet::takes_a_vector, r#"["a"]"#).await, ack);
    assert_eq!(deliver(quiet::returns, CHANGE).await, ack);
}

#[tokio::test]
async fn a_panic_in_the_function_is_the_handlers() {
    #[subscriber(Topic::new("words"))]
    async fn panics(word: &String) {
        panic!("cannot say {word}");
    }

    assert_eq!(
        deliver(panics, r#""no""#).await,
        Verdict::Panicked("cannot say no".to_owned())
    );
}

/// Where a handler is in scope, everything else may still have its name.
mod homonyms {
    use rstream::broker::Subscription;

    use super::{Change, HandlerOutcome, IntoSubscription, Topic, subscriber};

    #[subscriber(Topic::new("orders"))]
    pub(super) async fn order(order: &Change) -> HandlerOutcome {
        let Change { sku, .. } = order;
        let order = *sku;
        if order == 7 {
            HandlerOutcome::drop()
        } else {
            HandlerOutcome::ack()
        }
    }

    #[subscriber(Topic::new("skus"))]
    pub(super) async fn sku(Change { sku, .. }: &Change) {
        assert_eq!(*sku, 7);
    }

    pub(super) fn parameter(order: &Change) -> u64 {
        let Change { sku, .. } = order;
        let closure = |order: u64| order;
        closure(*sku)
    }

    pub(super) fn field(sku: u64) -> Change {
        let delta = 1;
        Change { sku, delta }
    }

    pub(super) fn variable() -> Subscription {
        let order = order.into_subscription();
        if let Some(sku) = order.name().strip_prefix("sku") {
            unreachable!("{sku}");
        }
        order
    }
}

#[tokio::test]
async fn a_variable_a_parameter_and_a_field_may_be_named_as_a_handler() {
    use homonyms::{order, sku};

    let change = homonyms::field(7);
    assert_eq!(homonyms::parameter(&change), 7);

    let variable = homonyms::variable();
    assert_eq!(variable.name(), "orders");
    let dropped = said(HandlerOutcome::drop());
    assert_eq!(deliver(variable, CHANGE).await, dropped);
    assert_eq!(deliver(order, CHANGE).await, dropped);

    let sku = sku();
    assert_eq!(deliver(sku, CHANGE).await, said(HandlerOutcome::ack()));
}
