//! Who looks on while handlers are called: the app's `on_delivery` hooks, and `TestApp`.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::Context;
use crate::broker::{BoxFuture, Deliver, Handler, Verdict};

/// A hook given to `RustStream::on_delivery`.
pub(crate) type Hook = dyn Fn(&Delivery<'_>) + Send + Sync;

/// One call of a handler, looked at after it returned; see
/// [`RustStream::on_delivery`](crate::RustStream::on_delivery).
pub struct Delivery<'a> {
    subscription: &'a str,
    payload: &'a [u8],
    ctx: Context<'a>,
    verdict: &'a Verdict,
}

impl Delivery<'_> {
    /// The name of what the subscription reads.
    #[must_use]
    pub fn subscription(&self) -> &str {
        self.subscription
    }

    /// The message's bytes.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.payload
    }

    /// Which delivery of the message this was: 1 on the first.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.ctx.attempt()
    }

    /// What the broker attached to the message, if it is a `T`.
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

impl Deliver for Observed {
    fn deliver<'a>(&'a self, payload: &'a [u8], ctx: Context<'a>) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            let attached = ctx.clone();
            let verdict = self.handler.deliver_in(payload, ctx).await;
            let delivery = Delivery {
                subscription: &self.subscription,
                payload,
                ctx: attached,
                verdict: &verdict,
            };
            for hook in &self.hooks {
                if catch_unwind(AssertUnwindSafe(|| hook(&delivery))).is_err() {
                    tracing::error!("an on_delivery hook panicked");
                }
            }
            verdict
        })
    }

    fn message_type(&self) -> &'static str {
        self.handler.message_type()
    }
}
