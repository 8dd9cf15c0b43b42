//! How a handler becomes a subscription, and what can be said about its deliveries on the way.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::broker::{BatchLimits, OnUndecodable, Policy, Source, Subscription};
use crate::delivery::{self, Call, Deliver, Handler};
use crate::outs::Outs;
use crate::payload::Message;
use crate::reply::{Nothing, ReplyTo, Returned};
use crate::state::Wanted;
use crate::subscription::Reads;
use crate::{Codec, Handle, Json, RetryPolicy};

/// Starts a subscription: `handler` is given every message of `source`. End it with
/// [`build`](SubscriberBuilder::build).
pub fn subscriber<S: Source, H>(source: S, handler: H) -> SubscriberBuilder<H> {
    SubscriberBuilder {
        reads: Reads::new(source),
        policy: Policy::default(),
        faults: Vec::new(),
        states: Vec::new(),
        handler,
        codec: Json,
        mode: Single,
        returned: Nothing,
        outs: (),
    }
}

/// One message a call.
#[derive(Debug)]
pub struct Single;

/// A batch a call.
#[derive(Debug)]
pub struct Batch;

/// A subscription being made; see [`subscriber()`]. What can never work about it is an error when the app starts.
///
/// ```
/// use std::time::Duration;
/// use rstream::{Context, Handle, HandlerOutcome, RetryPolicy, subscriber};
/// # use rstream::broker::{self, BoxFuture, Broker, Connection, InProcess, Reports, Source, Subscription};
/// # #[derive(Debug)] struct Topic(&'static str);
/// # impl Source for Topic { type Broker = Lines; fn name(&self) -> &str { self.0 } }
/// # struct Lines;
/// # impl Broker for Lines {
/// #     fn start(self: Box<Self>, _: Vec<Subscription>, _: Reports) -> BoxFuture<'static, broker::Result<Box<dyn Connection>>> { unimplemented!() }
/// #     fn start_in_process(self: Box<Self>, _: Vec<Subscription>, _: Reports) -> broker::Result<Box<dyn InProcess>> { unimplemented!() }
/// # }
///
/// struct Sum;
///
/// impl Handle<[u64]> for Sum {
///     async fn handle(&self, numbers: &[u64], _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
///         // Up to the first that is too large.
///         let handled = numbers.iter().take_while(|number| **number < 100).count();
///         Err(HandlerOutcome::ack_until(handled))
///     }
/// }
///
/// let subscription = subscriber(Topic("numbers"), Sum)
///     .batch(500, Duration::from_millis(50))
///     .retry(RetryPolicy::exponential().max_attempts(5))
///     .dead_letter("numbers-failed")
///     .build();
/// assert_eq!(subscription.policy().dead_letter.as_deref(), Some("numbers-failed"));
/// ```
#[must_use = "a subscription does nothing until it is built and included"]
pub struct SubscriberBuilder<H, C = Json, M = Single, R = Nothing, O = ()> {
    reads: Reads,
    policy: Policy,
    faults: Vec<String>,
    states: Vec<Wanted>,
    handler: H,
    codec: C,
    mode: M,
    returned: R,
    outs: O,
}

impl<H, C, M, R, O> SubscriberBuilder<H, C, M, R, O> {
    /// Hands over up to `max_records` messages a call, in order, to an `impl Handle<[T]>`: those that are there once
    /// the first of them has waited for `max_wait`. With zero that is what is there at once.
    ///
    /// One outcome covers the batch; [`HandlerOutcome::ack_until`](crate::HandlerOutcome::ack_until) settles a first
    /// part of it. A message that cannot be decoded ends the batch before it.
    ///
    /// Batches of no messages are an error at start.
    pub fn batch(
        mut self,
        max_records: usize,
        max_wait: Duration,
    ) -> SubscriberBuilder<H, C, Batch, R, O> {
        let records = NonZeroUsize::new(max_records);
        if records.is_none() {
            let fault = "a batch has up to 0 messages: it is given at least 1";
            self.faults.push(fault.to_owned());
        }
        let records = records.unwrap_or(NonZeroUsize::MIN);
        self.policy.batch = Some(BatchLimits::new(records, max_wait));
        SubscriberBuilder {
            reads: self.reads,
            policy: self.policy,
            faults: self.faults,
            states: self.states,
            handler: self.handler,
            codec: self.codec,
            mode: Batch,
            returned: self.returned,
            outs: self.outs,
        }
    }

    /// When a message that failed is handed over again; [`RetryPolicy::exponential`] without it.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.policy.retry = policy;
        self
    }

    /// Where messages go that failed the last of their
    /// [`max_attempts`](RetryPolicy::max_attempts), or that the handler gives up with
    /// [`HandlerOutcome::dead_letter`](crate::HandlerOutcome::dead_letter): for a stream, the stream's name. The
    /// payload stays as it is, and a message is settled only once it is stored there.
    ///
    /// Without it they are retried, and reported. An empty name, or the subscription's own, is an error at start.
    pub fn dead_letter(mut self, destination: impl Into<String>) -> Self {
        self.policy.dead_letter = Some(destination.into());
        self
    }

    /// What becomes of a message whose payload cannot be decoded; [`OnUndecodable::Drop`] without it.
    ///
    /// [`OnUndecodable::DeadLetter`] without a [`dead_letter`](Self::dead_letter) is an error at start.
    pub fn on_undecodable(mut self, what: OnUndecodable) -> Self {
        self.policy.on_undecodable = what;
        self
    }

    /// Makes an app without a state of type `T` an error at start, so that
    /// [`Context::state`](crate::Context::state) finds one.
    pub fn requires_state<T: 'static>(mut self) -> Self {
        self.states.push(Wanted::of::<T>());
        self
    }

    /// Decodes messages, and writes replies, by `codec`; by [`Json`] without it.
    ///
    /// A handler of `[u8]` or [`Bytes`](bytes::Bytes) is given payloads as they are, whatever the codec.
    pub fn codec<C2: Codec>(self, codec: C2) -> SubscriberBuilder<H, C2, M, R, O> {
        SubscriberBuilder {
            reads: self.reads,
            policy: self.policy,
            faults: self.faults,
            states: self.states,
            handler: self.handler,
            codec,
            mode: self.mode,
            returned: self.returned,
            outs: self.outs,
        }
    }

    /// Publishes what the handler, an `impl Handle<In, Reply>`, returns, which is an [`Answer`](crate::Answer): for a stream, `destination` is its name. The
    /// message is settled only once the reply is stored.
    ///
    /// A reply that the codec cannot write is a
    /// [`HandlerOutcome::dead_letter`](crate::HandlerOutcome::dead_letter). An empty name is an error at start.
    pub fn reply<Reply>(
        self,
        destination: impl Into<String>,
    ) -> SubscriberBuilder<H, C, M, ReplyTo<Reply>, O> {
        let destination = destination.into();
        self.returns(destination.clone(), ReplyTo::new(destination))
    }

    /// What `reply(..)` in an attribute does.
    #[doc(hidden)]
    pub fn returned<R2: Returned>(self, returned: R2) -> SubscriberBuilder<H, C, M, R2, O> {
        let destination = returned.destination().unwrap_or_default().to_owned();
        self.returns(destination, returned)
    }

    fn returns<R2>(
        mut self,
        destination: String,
        returned: R2,
    ) -> SubscriberBuilder<H, C, M, R2, O> {
        self.policy.reply_to.push(destination);
        SubscriberBuilder {
            reads: self.reads,
            policy: self.policy,
            faults: self.faults,
            states: self.states,
            handler: self.handler,
            codec: self.codec,
            mode: self.mode,
            returned,
            outs: self.outs,
        }
    }

    /// Gives the handler, an `impl Handle<In, Reply, Outs>`, what it can send to: an [`Out`](crate::Out), or a tuple of
    /// them.
    pub fn outs<O2: Outs>(mut self, outs: O2) -> SubscriberBuilder<H, C, M, R, O2> {
        self.policy.reply_to.extend(outs.destinations());
        SubscriberBuilder {
            reads: self.reads,
            policy: self.policy,
            faults: self.faults,
            states: self.states,
            handler: self.handler,
            codec: self.codec,
            mode: self.mode,
            returned: self.returned,
            outs,
        }
    }
}

impl<H, C: Codec, M, R: Returned, O: Outs> SubscriberBuilder<H, C, M, R, O> {
    fn subscription<D>(self, deliver: impl FnOnce(Call<H, C, R, O>) -> D) -> Subscription
    where
        D: Deliver + 'static,
    {
        let codec = Arc::new(self.codec);
        let mut outs = self.outs;
        outs.encode_by(&codec);
        let call = Call {
            handler: self.handler,
            codec,
            returned: self.returned,
            outs,
        };
        Subscription {
            reads: self.reads,
            policy: self.policy,
            faults: self.faults,
            states: self.states,
            handler: Handler::new(deliver(call)),
        }
    }
}

impl<H, C: Codec, R: Returned, O: Outs> SubscriberBuilder<H, C, Single, R, O> {
    /// Ends the subscription. `In`, into which payloads are decoded, is inferred where the handler handles one type.
    pub fn build<In>(self) -> Subscription
    where
        H: Handle<In, R::Reply, O>,
        In: Message + ?Sized,
    {
        self.subscription(|call| delivery::Single {
            call,
            message: PhantomData::<fn(&In)>,
        })
    }
}

impl<H, C: Codec, R: Returned, O: Outs> SubscriberBuilder<H, C, Batch, R, O> {
    /// Ends the subscription. `T`, into which each payload is decoded, is inferred where the handler handles batches
    /// of one type.
    pub fn build<T>(self) -> Subscription
    where
        H: Handle<[T], R::Reply, O>,
        T: Message<Held = T>,
    {
        self.subscription(|call| delivery::Batched {
            call,
            message: PhantomData::<fn(&T)>,
        })
    }
}

impl<H, C, M: fmt::Debug, R, O> fmt::Debug for SubscriberBuilder<H, C, M, R, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriberBuilder")
            .field("name", &self.reads.name)
            .field("mode", &self.mode)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
