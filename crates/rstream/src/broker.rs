//! For authors of brokers: what an app asks of a broker, and what it gives to it.
//!
//! A broker is given [`Subscription`]s and calls their [`Handler`]s. It hands over bytes and what it wants to
//! attach to them; it gets a [`Verdict`]. Retrying, ordering and settling are the broker's business.

use std::any::{Any, TypeId, type_name};
use std::error::Error;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::de::DeserializeOwned;

use crate::observe::{self, Observed};
use crate::{Context, DecodeError, Handle, HandlerOutcome, payload};

pub use crate::outcome::Settlement;
pub use crate::reports::Reports;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a broker's calls give.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync + 'static>>;

/// A message broker that an app can be put on.
pub trait Broker: Any + Send {
    /// Checks the configuration, connects, and starts to call the handlers of `subscriptions` (at least one).
    ///
    /// Returns once every subscription has tried to start: what the service does not give at that moment is
    /// reported and tried again, and only a configuration that can never work is an error.
    fn start(
        self: Box<Self>,
        subscriptions: Vec<Subscription>,
        reports: Reports,
    ) -> BoxFuture<'static, Result<Box<dyn Connection>>>;

    /// Checks the configuration as `start` does and connects `subscriptions` in process: no network.
    fn start_in_process(
        self: Box<Self>,
        subscriptions: Vec<Subscription>,
        reports: Reports,
    ) -> Result<Box<dyn InProcess>>;
}

/// A broker that runs. Dropping it aborts: no handler is called any more, and nothing is settled.
pub trait Connection: Send + Sync {
    /// Stops handing over, settles what is in flight, and gives back what the broker holds.
    fn shutdown(self: Box<Self>) -> BoxFuture<'static, Result<()>>;

    /// Resolves with the reason once the broker cannot go on and nothing but a new start can help; never,
    /// unless overridden. Cancel safe.
    fn failed(&mut self) -> BoxFuture<'_, Box<dyn Error + Send + Sync + 'static>> {
        Box::pin(std::future::pending())
    }
}

/// A broker's in-process transport, for tests.
pub trait InProcess: Send + Sync {
    /// Hands `payload` to the subscription to `destination`; returns once it is settled.
    fn publish<'a>(&'a self, destination: &'a str, payload: Vec<u8>) -> BoxFuture<'a, Result<()>>;
}

/// What a subscription reads: a stream, a topic, a queue of some broker.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no source of messages",
    label = "not a source",
    note = "give a source of a broker, such as `KinesisStream::new(\"inventory\")`"
)]
pub trait Source: fmt::Debug + Send + Sync + 'static {
    /// The broker that reads it.
    type Broker: Broker;

    /// Its name at the broker: for a stream, the stream's name.
    fn name(&self) -> &str;
}

/// A handler and what it reads, with their types erased.
#[must_use = "a subscription does nothing until it is included"]
pub struct Subscription {
    name: String,
    source: Box<dyn Any + Send + Sync>,
    source_type: &'static str,
    broker: (TypeId, &'static str),
    handler: Handler,
}

impl Subscription {
    pub(crate) fn new<S: Source>(source: S, handler: Handler) -> Self {
        Self {
            name: source.name().to_owned(),
            source: Box::new(source),
            source_type: type_name::<S>(),
            broker: (TypeId::of::<S::Broker>(), type_name::<S::Broker>()),
            handler,
        }
    }

    /// The name of what it reads.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it reads, if that is an `S`.
    #[must_use]
    pub fn source<S: Source>(&self) -> Option<&S> {
        self.source.downcast_ref()
    }

    /// The handler to call. Cheap to clone.
    #[must_use]
    pub fn handler(&self) -> &Handler {
        &self.handler
    }

    pub(crate) fn source_type(&self) -> &'static str {
        self.source_type
    }

    pub(crate) fn broker(&self) -> (TypeId, &'static str) {
        self.broker
    }

    /// Has `hooks` called after each call of the handler.
    pub(crate) fn observe(&mut self, hooks: Vec<Arc<observe::Hook>>) {
        if !hooks.is_empty() {
            let observed = Observed {
                subscription: self.name.clone(),
                handler: self.handler.clone(),
                hooks,
            };
            self.handler = Handler(Arc::new(observed));
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("name", &self.name)
            .field("source", &self.source_type)
            .field("message", &self.handler.message_type())
            .finish_non_exhaustive()
    }
}

/// A user's handler behind its decoder. Cheap to clone; all clones call the one handler.
#[derive(Clone)]
pub struct Handler(Arc<dyn Deliver>);

impl Handler {
    pub(crate) fn new<H, In>(handler: H) -> Self
    where
        H: Handle<In>,
        In: DeserializeOwned + Send + Sync + 'static,
    {
        Self(Arc::new(Typed {
            handler,
            message: std::marker::PhantomData::<fn(In)>,
        }))
    }

    /// Decodes `payload` and hands it to the user's handler, once.
    ///
    /// `attempt` is 1 on the first delivery of a message; the handler finds `attached` in
    /// [`Context::get`]. Dropping the future drops the handler's.
    pub async fn deliver(
        &self,
        payload: &[u8],
        attempt: u32,
        attached: &(dyn Any + Send + Sync),
    ) -> Verdict {
        self.0
            .deliver(payload, Context::new(attempt, attached))
            .await
    }

    pub(crate) async fn deliver_in(&self, payload: &[u8], ctx: Context<'_>) -> Verdict {
        self.0.deliver(payload, ctx).await
    }

    /// The type that the handler takes.
    #[must_use]
    pub fn message_type(&self) -> &'static str {
        self.0.message_type()
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handler")
            .field(&self.message_type())
            .finish()
    }
}

/// What came of handing a message over once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The handler ran to its end and said this.
    Outcome(HandlerOutcome),
    /// The handler panicked with this message: the message is to be retried.
    Panicked(String),
    /// The payload is not what the handler takes: the handler was not called, and no retry can help.
    Undecodable(DecodeError),
}

pub(crate) trait Deliver: Send + Sync {
    fn deliver<'a>(&'a self, payload: &'a [u8], ctx: Context<'a>) -> BoxFuture<'a, Verdict>;

    fn message_type(&self) -> &'static str;
}

struct Typed<H, In> {
    handler: H,
    message: std::marker::PhantomData<fn(In)>,
}

impl<H, In> Deliver for Typed<H, In>
where
    H: Handle<In>,
    In: DeserializeOwned + Send + Sync + 'static,
{
    fn deliver<'a>(&'a self, payload: &'a [u8], mut ctx: Context<'a>) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            let handled = async {
                let message = payload::decode::<In>(payload)?;
                Ok(self.handler.handle(&message, &(), &mut ctx).await)
            };
            match AssertUnwindSafe(handled).catch_unwind().await {
                Ok(Ok(Ok(()))) => Verdict::Outcome(HandlerOutcome::ack()),
                Ok(Ok(Err(outcome))) => Verdict::Outcome(outcome),
                Ok(Err(undecodable)) => Verdict::Undecodable(undecodable),
                Err(panic) => Verdict::Panicked(panic_message(&*panic)),
            }
        })
    }

    fn message_type(&self) -> &'static str {
        type_name::<In>()
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is no text")
        .to_owned()
}
