//! The calls of the handler that are under way, for one record at a time or for several.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rstream::broker::BoxFuture;
use tokio_util::sync::ReusableBoxFuture;

use crate::reading::delivery::{Delivery, Next};
use crate::reading::lanes::Lane;
use crate::reading::watermark::Ticket;

/// A record in hand, or a batch: in a handler, or about to be, once more or for the first time.
#[derive(Debug)]
pub(crate) struct InHand {
    pub(crate) delivery: Box<Delivery<Ticket>>,
    pub(crate) lane: Lane,
}

/// What came of one call of the handler.
#[derive(Debug)]
pub(crate) struct Handled {
    pub(crate) record: InHand,
    pub(crate) next: Next,
}

/// The calls under way.
#[derive(Debug)]
pub(crate) struct InFlight {
    calls: Calls,
}

#[derive(Debug)]
enum Calls {
    /// One at a time: each call is made in the place of the last, and nothing is allocated for it.
    One {
        call: ReusableBoxFuture<'static, Handled>,
        is_running: bool,
    },
    Many(FuturesUnordered<BoxFuture<'static, Handled>>),
}

impl InFlight {
    pub(crate) fn one_at_a_time() -> Self {
        Self {
            calls: Calls::One {
                call: nothing(),
                is_running: false,
            },
        }
    }

    pub(crate) fn many() -> Self {
        Self {
            calls: Calls::Many(FuturesUnordered::new()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match &self.calls {
            Calls::One { is_running, .. } => !is_running,
            Calls::Many(calls) => calls.is_empty(),
        }
    }

    /// Begins a call of the handler; [`next`](Self::next) runs it.
    pub(crate) fn start(&mut self, call: impl Future<Output = Handled> + Send + 'static) {
        match &mut self.calls {
            Calls::One {
                call: last,
                is_running,
            } if !*is_running => {
                last.set(call);
                *is_running = true;
            }
            Calls::One { call: last, .. } => {
                // Only a deliberate fault hands over two at once.
                let last = std::mem::replace(last, nothing());
                let calls = FuturesUnordered::<BoxFuture<'static, Handled>>::new();
                calls.push(Box::pin(last));
                calls.push(Box::pin(call));
                self.calls = Calls::Many(calls);
            }
            Calls::Many(calls) => calls.push(Box::pin(call)),
        }
    }

    /// Runs the handlers until one of them returns; for ever, where none runs. Cancel safe.
    pub(crate) async fn next(&mut self) -> Handled {
        let handled = match &mut self.calls {
            Calls::One { call, is_running } => {
                if *is_running {
                    let handled = call.get_pin().await;
                    *is_running = false;
                    Some(handled)
                } else {
                    None
                }
            }
            Calls::Many(calls) => calls.next().await,
        };
        match handled {
            Some(handled) => handled,
            None => std::future::pending().await,
        }
    }
}

fn nothing() -> ReusableBoxFuture<'static, Handled> {
    ReusableBoxFuture::new(std::future::pending())
}
