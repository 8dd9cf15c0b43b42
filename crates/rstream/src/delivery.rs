//! One delivery: decoding, the call of the user's handler, and what came of it.

use std::any::{Any, type_name};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;

use crate::broker::BoxFuture;
#[cfg(feature = "testing")]
use crate::codec::AnyCodec;
use crate::outs::sealed::Opened;
use crate::outs::{self, Outs};
use crate::payload::Message;
use crate::reply::{Reply, Returned};
use crate::state::States;
use crate::{Codec, Context, DecodeError, Handle, HandlerOutcome};

/// A user's handler behind its decoder. Cheap to clone; all clones call the one handler.
#[derive(Clone)]
pub struct Handler {
    deliver: Arc<dyn Deliver>,
    states: Arc<States>,
}

impl Handler {
    pub(crate) fn new(deliver: impl Deliver + 'static) -> Self {
        Self {
            deliver: Arc::new(deliver),
            states: Arc::default(),
        }
    }

    /// Lets the handler's contexts find `states`.
    pub(crate) fn give(&mut self, states: &Arc<States>) {
        self.states = Arc::clone(states);
    }

    /// Decodes `payload` and hands it to the user's handler, once. A handler of batches is handed a batch of one.
    ///
    /// `attempt` is 1 on the first delivery of a message; the handler finds `attached` in
    /// [`Context::get`]. Dropping the future drops the handler's.
    pub async fn deliver(
        &self,
        payload: &Bytes,
        attempt: u32,
        attached: &(dyn Any + Send + Sync),
    ) -> Delivered {
        let ctx = Context::with_states(attempt, attached, &self.states);
        self.deliver.deliver(payload, ctx).await
    }

    /// Decodes `payloads` and hands them to the user's handler, once and at once; for a subscription whose
    /// [`policy`](crate::broker::Policy) has a batch.
    ///
    /// Decoding stops at the first payload that cannot be decoded: the handler is given those before it, and is not
    /// called where there are none. A handler of single messages is given the first alone.
    pub async fn deliver_batch(
        &self,
        payloads: &[Bytes],
        attempt: u32,
        attached: &(dyn Any + Send + Sync),
    ) -> DeliveredBatch {
        let ctx = Context::with_states(attempt, attached, &self.states);
        self.deliver.deliver_batch(payloads, ctx).await
    }

    pub(crate) fn inner(&self) -> &dyn Deliver {
        &*self.deliver
    }

    /// The type that the handler takes; of a batch, the type of one message.
    #[must_use]
    pub fn message_type(&self) -> &'static str {
        self.deliver.message_type()
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
pub struct Delivered {
    /// What became of the message.
    pub verdict: Verdict,
    /// What the handler wants published: to be stored before the message is settled. Empty unless the verdict settles
    /// the message.
    pub replies: Vec<Reply>,
}

/// What came of handing several messages over once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliveredBatch {
    /// How many messages, from the first on, the verdict is on; nothing is decided of those behind them.
    pub given: usize,
    /// What became of those; `None` where there are none.
    pub verdict: Option<Verdict>,
    /// What is wrong with the message behind the given ones, where that is why it was not given. Where the verdict
    /// acknowledges all of those, hooks have been told of it, and it need not be handed over again for that; otherwise
    /// hand it over again, behind what is left of them.
    pub undecodable: Option<DecodeError>,
    /// What the handler wants published: to be stored before anything is settled. Empty unless the verdict settles
    /// something.
    pub replies: Vec<Reply>,
}

/// What became of a message, or of several that were handed over at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The handler ran to its end and said this.
    Outcome(HandlerOutcome),
    /// The handler panicked with this message: what it was given is to be retried.
    Panicked(String),
    /// The payload is not what the handler takes, and the handler was not called: the policy's
    /// [`on_undecodable`](crate::broker::Policy::on_undecodable) says what becomes of it.
    Undecodable(DecodeError),
}

/// A handler whose types are forgotten.
pub(crate) trait Deliver: Send + Sync {
    fn deliver<'a>(&'a self, payload: &'a Bytes, ctx: Context<'a>) -> BoxFuture<'a, Delivered>;

    fn deliver_batch<'a>(
        &'a self,
        payloads: &'a [Bytes],
        ctx: Context<'a>,
    ) -> BoxFuture<'a, DeliveredBatch>;

    fn message_type(&self) -> &'static str;

    #[cfg(feature = "testing")]
    fn codec(&self) -> &dyn AnyCodec;
}

/// A user's handler and what it needs to be called.
pub(crate) struct Call<H, C, R, O> {
    pub(crate) handler: H,
    pub(crate) codec: Arc<C>,
    pub(crate) returned: R,
    pub(crate) outs: O,
}

impl<H, C: Codec, R: Returned, O: Outs> Call<H, C, R, O> {
    async fn call<In: ?Sized>(&self, message: &In, ctx: &mut Context<'_>) -> Delivered
    where
        H: Handle<In, R::Reply, O>,
    {
        let opened = O::ANY.then(Opened::default);
        let outs = self.outs.open(opened.as_ref());
        let sent = || outs::sent(opened.as_ref().map(|Opened(sink)| sink));
        let handled = async {
            let reply = self.handler.handle(message, &outs, ctx).await?;
            let mut replies = sent();
            (self.returned).collect(reply, &*self.codec, &mut replies)?;
            Ok::<_, HandlerOutcome>(replies)
        };
        match AssertUnwindSafe(handled).catch_unwind().await {
            Ok(Ok(replies)) => Delivered {
                verdict: Verdict::Outcome(HandlerOutcome::ack()),
                replies,
            },
            Ok(Err(outcome)) => Delivered {
                replies: if outcome.publishes() {
                    sent()
                } else {
                    Vec::new()
                },
                verdict: Verdict::Outcome(outcome),
            },
            Err(panic) => Verdict::Panicked(panic_message(&*panic)).into(),
        }
    }

    /// Decodes a payload; an `Err` is why there is no message.
    fn decode<In: Message + ?Sized>(&self, payload: &Bytes) -> Result<In::Held, Verdict> {
        let decode = || In::decode(&*self.codec, payload);
        match catch_unwind(AssertUnwindSafe(decode)) {
            Ok(decoded) => decoded.map_err(Verdict::Undecodable),
            Err(panic) => Err(Verdict::Panicked(panic_message(&*panic))),
        }
    }
}

impl From<Verdict> for Delivered {
    fn from(verdict: Verdict) -> Self {
        Self {
            verdict,
            replies: Vec::new(),
        }
    }
}

/// A handler of one message a call.
pub(crate) struct Single<H, In: ?Sized, C, R, O> {
    pub(crate) call: Call<H, C, R, O>,
    pub(crate) message: PhantomData<fn(&In)>,
}

impl<H, In, C, R, O> Deliver for Single<H, In, C, R, O>
where
    H: Handle<In, R::Reply, O>,
    In: Message + ?Sized,
    C: Codec,
    R: Returned,
    O: Outs,
{
    fn deliver<'a>(&'a self, payload: &'a Bytes, mut ctx: Context<'a>) -> BoxFuture<'a, Delivered> {
        Box::pin(async move {
            match self.call.decode::<In>(payload) {
                Ok(held) => self.call.call(In::of(&held, payload), &mut ctx).await,
                Err(verdict) => verdict.into(),
            }
        })
    }

    fn deliver_batch<'a>(
        &'a self,
        payloads: &'a [Bytes],
        ctx: Context<'a>,
    ) -> BoxFuture<'a, DeliveredBatch> {
        Box::pin(async move {
            let Some(first) = payloads.first() else {
                return DeliveredBatch::none();
            };
            match self.deliver(first, ctx).await {
                Delivered {
                    verdict: Verdict::Undecodable(error),
                    ..
                } => DeliveredBatch {
                    undecodable: Some(error),
                    ..DeliveredBatch::none()
                },
                Delivered { verdict, replies } => DeliveredBatch {
                    given: 1,
                    verdict: Some(verdict),
                    undecodable: None,
                    replies,
                },
            }
        })
    }

    fn message_type(&self) -> &'static str {
        type_name::<In>()
    }

    #[cfg(feature = "testing")]
    fn codec(&self) -> &dyn AnyCodec {
        &*self.call.codec
    }
}

/// A handler of batches.
pub(crate) struct Batched<H, T, C, R, O> {
    pub(crate) call: Call<H, C, R, O>,
    pub(crate) message: PhantomData<fn(&T)>,
}

impl<H, T, C, R, O> Deliver for Batched<H, T, C, R, O>
where
    H: Handle<[T], R::Reply, O>,
    T: Message<Held = T>,
    C: Codec,
    R: Returned,
    O: Outs,
{
    fn deliver<'a>(&'a self, payload: &'a Bytes, ctx: Context<'a>) -> BoxFuture<'a, Delivered> {
        Box::pin(async move {
            let DeliveredBatch {
                verdict,
                undecodable,
                replies,
                ..
            } = self.deliver_batch(std::slice::from_ref(payload), ctx).await;
            let verdict = verdict.or(undecodable.map(Verdict::Undecodable));
            Delivered {
                verdict: verdict.unwrap_or(Verdict::Outcome(HandlerOutcome::retry())),
                replies,
            }
        })
    }

    fn deliver_batch<'a>(
        &'a self,
        payloads: &'a [Bytes],
        mut ctx: Context<'a>,
    ) -> BoxFuture<'a, DeliveredBatch> {
        Box::pin(async move {
            let mut batch = Vec::with_capacity(payloads.len());
            let mut fault = None;
            for payload in payloads {
                match self.call.decode::<T>(payload) {
                    Ok(message) => batch.push(message),
                    Err(verdict) => {
                        fault = Some(verdict);
                        break;
                    }
                }
            }
            let undecodable = match fault {
                Some(Verdict::Undecodable(error)) => Some(error),
                // What cannot even be tried fails alone, once those before it are out of the way.
                Some(verdict) if batch.is_empty() => {
                    return DeliveredBatch {
                        given: 1,
                        verdict: Some(verdict),
                        ..DeliveredBatch::none()
                    };
                }
                Some(_) | None => None,
            };
            if batch.is_empty() {
                return DeliveredBatch {
                    undecodable,
                    ..DeliveredBatch::none()
                };
            }
            let Delivered { verdict, replies } = self.call.call(batch.as_slice(), &mut ctx).await;
            DeliveredBatch {
                given: batch.len(),
                verdict: Some(verdict),
                undecodable,
                replies,
            }
        })
    }

    fn message_type(&self) -> &'static str {
        type_name::<T>()
    }

    #[cfg(feature = "testing")]
    fn codec(&self) -> &dyn AnyCodec {
        &*self.call.codec
    }
}

impl DeliveredBatch {
    /// Nothing was given.
    fn none() -> Self {
        Self {
            given: 0,
            verdict: None,
            undecodable: None,
            replies: Vec::new(),
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is no text")
        .to_owned()
}
