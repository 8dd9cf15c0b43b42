//! What an app gives a broker for each handler: what it reads, how it is delivered, and whom to call.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::broker::Source;
use crate::delivery::Handler;
use crate::observe::{self, Observed};
use crate::state::{States, Wanted};
use crate::{AppError, RetryPolicy};

/// A handler and what it reads, with their types erased; made by
/// [`SubscriberBuilder::build`](crate::SubscriberBuilder::build).
#[must_use = "a subscription does nothing until it is included"]
pub struct Subscription {
    pub(crate) reads: Reads,
    pub(crate) policy: Policy,
    /// What no app can start with.
    pub(crate) faults: Vec<String>,
    pub(crate) states: Vec<Wanted>,
    pub(crate) handler: Handler,
}

/// What a subscription reads.
pub(crate) struct Reads {
    pub(crate) name: String,
    source: Box<dyn Any + Send + Sync>,
    source_type: &'static str,
    broker: (TypeId, &'static str),
}

impl Reads {
    pub(crate) fn new<S: Source>(source: S) -> Self {
        Self {
            name: source.name().to_owned(),
            source: Box::new(source),
            source_type: type_name::<S>(),
            broker: (TypeId::of::<S::Broker>(), type_name::<S::Broker>()),
        }
    }
}

impl Subscription {
    /// The name of what it reads.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.reads.name
    }

    /// What it reads, if that is an `S`.
    #[must_use]
    pub fn source<S: Source>(&self) -> Option<&S> {
        self.reads.source.downcast_ref()
    }

    /// How its messages are to be delivered.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The handler to call. Cheap to clone.
    #[must_use]
    pub fn handler(&self) -> &Handler {
        &self.handler
    }

    /// What can never work, of itself, on a broker of that type, and with those states.
    pub(crate) fn check(
        &self,
        (broker_id, broker): (TypeId, &'static str),
        states: &States,
    ) -> Result<(), AppError> {
        let subscription = || self.name().to_owned();
        let (wanted_id, wanted) = self.reads.broker;
        if wanted_id != broker_id {
            return Err(AppError::WrongBroker {
                subscription: subscription(),
                source_type: self.reads.source_type,
                wanted,
                broker,
            });
        }
        if let Some(reason) = self.faults.first().cloned().or_else(|| self.policy_fault()) {
            return Err(AppError::Policy {
                subscription: subscription(),
                reason,
            });
        }
        let missing = self.states.iter().find(|wanted| !states.has(**wanted));
        missing.map_or(Ok(()), |wanted| {
            Err(AppError::MissingState {
                subscription: subscription(),
                type_name: wanted.type_name,
            })
        })
    }

    fn policy_fault(&self) -> Option<String> {
        let policy = &self.policy;
        if policy.reply_to.iter().any(String::is_empty) {
            return Some("a reply goes to a destination without a name".to_owned());
        }
        match policy.dead_letter.as_deref() {
            Some("") => return Some("dead letters go to a destination without a name".to_owned()),
            Some(name) if name == self.name() => {
                return Some(format!(
                    "dead letters go to {name:?}, which the handler itself reads: name another destination"
                ));
            }
            None if policy.on_undecodable == OnUndecodable::DeadLetter => {
                return Some(
                    "what cannot be decoded is to be a dead letter, but there is no place for it: name one with \
                     dead_letter(..)"
                        .to_owned(),
                );
            }
            Some(_) | None => {}
        }
        policy.retry.fault()
    }

    /// Gives the handler the app's states, and has `hooks` called after each call of it.
    pub(crate) fn equip(&mut self, states: &Arc<States>, hooks: Vec<Arc<observe::Hook>>) {
        if !hooks.is_empty() {
            let observed = Observed {
                subscription: self.reads.name.clone(),
                handler: self.handler.clone(),
                hooks,
            };
            self.handler = Handler::new(observed);
        }
        self.handler.give(states);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("name", &self.reads.name)
            .field("source", &self.reads.source_type)
            .field("message", &self.handler.message_type())
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// How the messages of a subscription are to be delivered; for authors of brokers.
///
/// [`Subscription`]s that reach a broker have sound ones.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Policy {
    /// How many messages make a batch; `None` where the handler takes one message a call.
    pub batch: Option<BatchLimits>,
    /// When a message that failed is handed over again.
    pub retry: RetryPolicy,
    /// The name of where dead letters go.
    pub dead_letter: Option<String>,
    /// What becomes of a payload that cannot be decoded.
    pub on_undecodable: OnUndecodable,
    /// The name of each destination that replies may go to.
    pub reply_to: Vec<String>,
}

/// When a batch is complete; whatever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchLimits {
    /// The most messages in it.
    pub max_records: NonZeroUsize,
    /// How long its first message may wait for others; zero takes what is there at once.
    pub max_wait: Duration,
}

impl BatchLimits {
    /// Up to so many messages, the first of which waits so long for others.
    #[must_use]
    pub const fn new(max_records: NonZeroUsize, max_wait: Duration) -> Self {
        Self {
            max_records,
            max_wait,
        }
    }
}

/// What becomes of a message whose payload the subscription's codec cannot decode.
///
/// Each is reported as an error that names the type and the place, and quotes nothing of the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnUndecodable {
    /// It is settled and counted, and the handler never sees it: the default.
    #[default]
    Drop,
    /// It is retried as a message is that the handler fails on: a new version of the service may understand it.
    Retry,
    /// It goes to the subscription's [`dead_letter`](crate::SubscriberBuilder::dead_letter) as it is.
    DeadLetter,
}
