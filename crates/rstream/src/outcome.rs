//! What a handler says became of a message.

use std::borrow::Cow;
use std::time::Duration;

/// What a handler says became of the message, or of the batch, that it was given.
///
/// ```
/// use rstream::HandlerOutcome;
///
/// assert_eq!(HandlerOutcome::ack(), HandlerOutcome::ack());
/// assert_ne!(HandlerOutcome::ack(), HandlerOutcome::retry());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an outcome has no effect until the handler returns it"]
pub struct HandlerOutcome(Settlement);

impl HandlerOutcome {
    /// The message is handled: the broker settles it and goes on.
    pub const fn ack() -> Self {
        Self(Settlement::Ack)
    }

    /// Of a batch, the first `n` messages (`batch[..n]`) are handled; the rest is handed over again, as
    /// [`retry`](Self::retry) would.
    ///
    /// `n` is the batch's length where all of it is handled; more than that counts as that, with a warning. With
    /// `n` = 0 the whole batch is retried. A single message is a batch of one.
    pub const fn ack_until(n: usize) -> Self {
        Self(Settlement::AckUntil(n))
    }

    /// The same message again, in place, after the back-off of the subscription's
    /// [`RetryPolicy`](crate::RetryPolicy), before any later message that must stay in order with it.
    pub const fn retry() -> Self {
        Self(Settlement::Retry { after: None })
    }

    /// The same message again, in place, once `delay` has passed.
    ///
    /// A delay of zero asks for it at once.
    pub const fn retry_after(delay: Duration) -> Self {
        Self(Settlement::Retry { after: Some(delay) })
    }

    /// The message is of no use: the broker settles it, counts it, and says so in a warning.
    pub const fn drop() -> Self {
        Self(Settlement::Drop)
    }

    /// The message goes to the subscription's dead letters at once, with `reason` beside it, and is settled once it
    /// is stored there. Keep private data out of the reason: it is stored and logged.
    ///
    /// A subscription that names no [`dead_letter`](crate::SubscriberBuilder::dead_letter) has none: there this is a
    /// [`retry`](Self::retry), and reported.
    pub fn dead_letter(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(Settlement::DeadLetter {
            reason: reason.into(),
        })
    }

    /// What a broker has to do, for authors of brokers.
    #[must_use]
    pub const fn settlement(&self) -> &Settlement {
        &self.0
    }

    /// Whether all of so many messages are handled.
    pub(crate) const fn acks_all(&self, messages: usize) -> bool {
        match self.0 {
            Settlement::Ack => true,
            Settlement::AckUntil(n) => n >= messages,
            Settlement::Drop | Settlement::Retry { .. } | Settlement::DeadLetter { .. } => false,
        }
    }

    /// Whether what the handler wants published is to be published.
    pub(crate) const fn publishes(&self) -> bool {
        match self.0 {
            Settlement::Ack | Settlement::Drop => true,
            Settlement::AckUntil(n) => n > 0,
            Settlement::Retry { .. } | Settlement::DeadLetter { .. } => false,
        }
    }
}

/// What a broker has to do with a message, or a batch, after a handler's [`HandlerOutcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// Settle it.
    Ack,
    /// Settle the first so many messages of what was handed over, and hand the rest over again. A number past
    /// the end is an `Ack`, with a warning; 0 is a `Retry`.
    AckUntil(usize),
    /// Hand it over again.
    Retry {
        /// How long to wait first; `None` leaves it to the subscription's policy.
        after: Option<Duration>,
    },
    /// Settle it, count it, and warn.
    Drop,
    /// Store it where the subscription's dead letters go, and then settle it; without such a place, say so and
    /// retry.
    DeadLetter {
        /// Why, in the handler's words.
        reason: Cow<'static, str>,
    },
}
