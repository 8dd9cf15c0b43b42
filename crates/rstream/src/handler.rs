//! What a user writes: a handler, and the subscription that gives it something to handle.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::broker::{Handler, Source, Subscription};
use crate::{Context, HandlerOutcome};

/// Handles the messages of a subscription.
///
/// One handler serves many shards at once, so it is shared and takes `&self`; within one shard it is called
/// for one message after another, in order. `Ok` settles the message ([`HandlerOutcome::ack`]); an `Err` says
/// what else is to become of it. A panic is a [`HandlerOutcome::retry`].
///
/// The message is borrowed for as long as the future runs, across every await point. `async fn handle` in an
/// implementation does as well as the form below, so long as its future is `Send`.
///
/// The future is dropped unfinished where a shutdown reaches its time limit.
///
/// ```
/// use std::future::{Future, ready};
/// use rstream::{Context, Handle, HandlerOutcome};
///
/// struct Apply;
///
/// impl Handle<u64> for Apply {
///     fn handle(
///         &self,
///         change: &u64,
///         _outs: &(),
///         _ctx: &mut Context<'_>,
///     ) -> impl Future<Output = Result<(), HandlerOutcome>> {
///         println!("{change}");
///         ready(Ok(()))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle `{In}`",
    label = "not a handler of `{In}`",
    note = "write `impl Handle<{In}> for {Self}`, or put `#[subscriber(..)]` on an `async fn` that takes `&{In}`",
    note = "what is under `#[subscriber(..)]` has its source: include it by its name alone"
)]
pub trait Handle<In: ?Sized, Reply = (), Outs = ()>: Send + Sync + 'static {
    /// Handles one message.
    fn handle(
        &self,
        message: &In,
        outs: &Outs,
        ctx: &mut Context<'_>,
    ) -> impl Future<Output = Result<Reply, HandlerOutcome>> + Send;
}

/// Starts a subscription: `handler` is given every message of `source`. End it with
/// [`build`](SubscriberBuilder::build).
pub fn subscriber<S: Source, H>(source: S, handler: H) -> SubscriberBuilder<S, H> {
    SubscriberBuilder { source, handler }
}

/// A subscription being made; see [`subscriber()`].
#[must_use = "a subscription does nothing until it is built and included"]
pub struct SubscriberBuilder<S, H> {
    source: S,
    handler: H,
}

impl<S: Source, H> SubscriberBuilder<S, H> {
    /// Ends the subscription. Payloads are decoded from JSON into `In`, which is inferred where the handler
    /// handles one type.
    pub fn build<In>(self) -> Subscriber<S, H, In>
    where
        H: Handle<In>,
        In: DeserializeOwned + Send + Sync + 'static,
    {
        Subscriber {
            source: self.source,
            handler: self.handler,
            message: PhantomData,
        }
    }
}

impl<S: fmt::Debug, H> fmt::Debug for SubscriberBuilder<S, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriberBuilder")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// A handler and what it reads, ready to be included; made by [`SubscriberBuilder::build`].
#[must_use = "a subscription does nothing until it is included"]
pub struct Subscriber<S, H, In> {
    source: S,
    handler: H,
    message: PhantomData<fn(In)>,
}

impl<S: fmt::Debug, H, In> fmt::Debug for Subscriber<S, H, In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// What [`Scope::include`](crate::Scope::include) takes: a handler under `#[subscriber(..)]`, a built
/// [`Subscriber`], a [`Subscription`], or any function or closure that makes one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be included",
    label = "not a subscription",
    note = "include a handler under `#[subscriber(..)]`, or `subscriber(source, handler).build()`"
)]
pub trait IntoSubscription {
    /// Makes the subscription.
    fn into_subscription(self) -> Subscription;
}

impl<S, H, In> IntoSubscription for Subscriber<S, H, In>
where
    S: Source,
    H: Handle<In>,
    In: DeserializeOwned + Send + Sync + 'static,
{
    fn into_subscription(self) -> Subscription {
        Subscription::new(self.source, Handler::new::<H, In>(self.handler))
    }
}

/// A handler under `#[subscriber(..)]` is such a function.
#[diagnostic::do_not_recommend]
impl<F> IntoSubscription for F
where
    F: FnOnce() -> Subscription,
{
    fn into_subscription(self) -> Subscription {
        self()
    }
}

/// Applies to nothing. Beside it, what the implementation above does not take is an `IntoSubscription` that is
/// missing; without it, the compiler would find fault with a function's parameters instead.
#[doc(hidden)]
#[diagnostic::do_not_recommend]
impl<F> IntoSubscription for F
where
    Uncallable<F>: FnOnce(),
{
    fn into_subscription(self) -> Subscription {
        unreachable!("nothing can call what is uncallable")
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct Uncallable<F>(PhantomData<F>);

impl IntoSubscription for Subscription {
    fn into_subscription(self) -> Subscription {
        self
    }
}
