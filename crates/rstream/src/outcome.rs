//! What a handler says became of a message.

use std::time::Duration;

/// What a handler says became of the message that it was given.
///
/// ```
/// use rstream::HandlerOutcome;
///
/// assert_eq!(HandlerOutcome::ack(), HandlerOutcome::ack());
/// assert_ne!(HandlerOutcome::ack(), HandlerOutcome::retry());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an outcome has no effect until the handler returns it"]
pub struct HandlerOutcome(Settlement);

impl HandlerOutcome {
    /// The message is handled: the broker settles it and goes on.
    pub const fn ack() -> Self {
        Self(Settlement::Ack)
    }

    /// The same message again, in place, after the broker's back-off, before any later message that must
    /// stay in order with it.
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

    /// What a broker has to do, for authors of brokers.
    #[must_use]
    pub const fn settlement(self) -> Settlement {
        self.0
    }
}

/// What a broker has to do with a message after a handler's [`HandlerOutcome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// Settle it.
    Ack,
    /// Hand it over again.
    Retry {
        /// How long to wait first; `None` leaves it to the broker's back-off.
        after: Option<Duration>,
    },
    /// Settle it, count it, and warn.
    Drop,
}
