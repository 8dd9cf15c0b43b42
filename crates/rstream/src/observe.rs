//! Who looks on while handlers are called: the app's `on_delivery` hooks, and `TestApp`.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;

use crate::Context;
use crate::broker::{BoxFuture, Delivered, DeliveredBatch, Handler, Verdict};
use crate::delivery::Deliver;

/// A hook given to `RustStream::on_delivery`.
pub(crate) type Hook = dyn Fn(&Delivery<'_>) + Send + Sync;

/// One call of a handler, looked at after it returned; see
/// [`RustStream::on_delivery`](crate::RustStream::on_delivery).
pub struct Delivery<'a> {
    subscription: &'a str,
    /// At least one.
    payloads: &'a [Bytes],
    ctx: Context<'a>,
    verdict: &'a Verdict,
}

impl Delivery<'_> {
    /// The name of what the subscription reads.
    #[must_use]
    pub fn subscription(&self) -> &str {
        self.subscription
    }

    /// The message's bytes; of a batch, the first message's.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.payloads.first().map_or(&[], |payload| payload)
    }

    /// The bytes of each message that the verdict is on, in order: one, unless it was a batch.
    #[must_use]
    pub fn payloads(&self) -> &[Bytes] {
        self.payloads
    }

    /// Which delivery of the message this was: 1 on the first.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.ctx.attempt()
    }

    /// What the broker attached to the message, or to the batch, if it is a `T`.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.ctx.get()
    }

    /// What came of it.
    #[must_use]
    pub fn verdict(&self) -> &Verdict {
        self.verdict
    }
}

impl fmt::Debug for Delivery<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("subscription", &self.subscription)
            .field("attempt", &self.attempt())
            .field("verdict", &self.verdict)
            .finish_non_exhaustive()
    }
}

/// A handler, and the hooks that are called after it.
pub(crate) struct Observed {
    pub(crate) subscription: String,
    pub(crate) handler: Handler,
    pub(crate) hooks: Vec<Arc<Hook>>,
}

impl Observed {
    fn tell(&self, payloads: &[Bytes], ctx: &Context<'_>, verdict: &Verdict) {
        let delivery = Delivery {
            subscription: &self.subscription,
            payloads,
            ctx: ctx.clone(),
            verdict,
        };
        for hook in &self.hooks {
            if catch_unwind(AssertUnwindSafe(|| hook(&delivery))).is_err() {
                tracing::error!("an on_delivery hook panicked");
            }
        }
    }
}

impl Deliver for Observed {
    fn deliver<'a>(&'a self, payload: &'a Bytes, ctx: Context<'a>) -> BoxFuture<'a, Delivered> {
        Box::pin(async move {
            let delivered = self.handler.inner().deliver(payload, ctx.clone()).await;
            self.tell(std::slice::from_ref(payload), &ctx, &delivered.verdict);
            delivered
        })
    }

    fn deliver_batch<'a>(
        &'a self,
        payloads: &'a [Bytes],
        ctx: Context<'a>,
    ) -> BoxFuture<'a, DeliveredBatch> {
        Box::pin(async move {
            let inner = self.handler.inner();
            let delivered = inner.deliver_batch(payloads, ctx.clone()).await;
            let (given, behind) = payloads.split_at(delivered.given);
            if let Some(verdict) = &delivered.verdict {
                self.tell(given, &ctx, verdict);
            }
            // Until those before it are acknowledged it is handed over again, and told of then.
            let is_due = delivered.verdict.as_ref().is_none_or(|verdict| {
                matches!(verdict, Verdict::Outcome(outcome) if outcome.acks_all(given.len()))
            });
            if let (true, Some(error), Some(payload)) =
                (is_due, &delivered.undecodable, behind.first())
            {
                let verdict = Verdict::Undecodable(error.clone());
                self.tell(std::slice::from_ref(payload), &ctx, &verdict);
            }
            delivered
        })
    }

    fn message_type(&self) -> &'static str {
        self.handler.message_type()
    }

    #[cfg(feature = "testing")]
    fn codec(&self) -> &dyn crate::codec::AnyCodec {
        self.handler.inner().codec()
    }
}
