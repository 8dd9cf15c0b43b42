//! What a user writes: a handler. And what can be included to be called.

use std::marker::PhantomData;

use crate::broker::Subscription;
use crate::{Context, HandlerOutcome};

/// Handles the messages of a subscription: one a call, an `In`, or a batch of them, an `In` = `[T]`.
///
/// `Reply` is what it returns to be published, an [`Answer`](crate::Answer), and `Outs` what it can send to, an
/// [`Out`](crate::Out) or a tuple of them.
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
    note = "a batch is handed over after `.batch(..)`, what is returned is published after `.reply(..)`, and what can be sent to is given by `.outs(..)`",
    note = "what is under `#[subscriber(..)]` has its source: include it by its name alone"
)]
pub trait Handle<In: ?Sized, Reply = (), Outs = ()>: Send + Sync + 'static {
    /// Handles one message, or one batch.
    fn handle(
        &self,
        message: &In,
        outs: &Outs,
        ctx: &mut Context<'_>,
    ) -> impl Future<Output = Result<Reply, HandlerOutcome>> + Send;
}

/// What [`Scope::include`](crate::Scope::include) takes: a handler under `#[subscriber(..)]`, a [`Subscription`], or any
/// function or closure that makes one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be included",
    label = "not a subscription",
    note = "include a handler under `#[subscriber(..)]`, or `subscriber(source, handler).build()`"
)]
pub trait IntoSubscription {
    /// Makes the subscription.
    fn into_subscription(self) -> Subscription;
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
