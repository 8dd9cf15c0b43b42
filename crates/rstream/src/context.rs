//! What a handler can ask about the delivery that it serves.

use std::any::Any;
use std::fmt;

use crate::State;
use crate::state::States;

/// One delivery of one message, or of one batch: which attempt it is, what the broker attached to it, and the app's
/// state.
///
/// ```
/// use rstream::{Context, Handle, HandlerOutcome};
///
/// struct GiveUpAfterThree;
///
/// impl Handle<String> for GiveUpAfterThree {
///     async fn handle(&self, _: &String, _: &(), ctx: &mut Context<'_>) -> Result<(), HandlerOutcome> {
///         if ctx.attempt() > 3 { Err(HandlerOutcome::drop()) } else { Err(HandlerOutcome::retry()) }
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Context<'a> {
    attempt: u32,
    attached: &'a (dyn Any + Send + Sync),
    states: &'a States,
}

impl<'a> Context<'a> {
    /// A context for attempt number `attempt` (the first is 1) with what the broker attaches to the message, and
    /// without state.
    #[must_use]
    pub fn new(attempt: u32, attached: &'a (dyn Any + Send + Sync)) -> Self {
        Self::with_states(attempt, attached, States::NONE)
    }

    pub(crate) fn with_states(
        attempt: u32,
        attached: &'a (dyn Any + Send + Sync),
        states: &'a States,
    ) -> Self {
        Self {
            attempt,
            attached,
            states,
        }
    }

    /// Which delivery of this message this is, counted in this process since the message was read: 1 on the
    /// first.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// What the broker attached to the message, if it is a `T`.
    ///
    /// `kinesis-broker` attaches a `RecordInfo`: stream, shard, sequence number, partition key and more.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&'a T> {
        self.attached.downcast_ref()
    }

    /// The value of type `T` that was given to [`RustStream::with_state`](crate::RustStream::with_state).
    ///
    /// A subscription that says
    /// [`requires_state`](crate::SubscriberBuilder::requires_state) can count on it.
    #[must_use]
    pub fn state<T: 'static>(&self) -> Option<&'a T> {
        self.states.get()
    }

    pub(crate) fn state_handle<T: 'static>(&self) -> Option<State<T>> {
        self.states.handle()
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
