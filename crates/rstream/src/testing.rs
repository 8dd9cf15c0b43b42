//! An app in process, without a network: publish to its handlers and look at what they did.
//!
//! The crate's first page has an example.

use std::any::{TypeId, type_name};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::broker::{Broker, InProcess, Verdict};
use crate::{AppError, HandlerOutcome, RustStream, observe, payload};

/// An app whose brokers are connected in process.
///
/// What a broker says of its configuration is an error here too; what needs a network is not tried.
#[derive(Debug)]
pub struct TestApp {
    brokers: Vec<(TypeId, TestBroker)>,
}

impl TestApp {
    /// Connects every broker of `app` in process.
    ///
    /// # Errors
    ///
    /// Those of [`RustStream::start`].
    pub async fn start(app: RustStream) -> Result<Self, AppError> {
        app.check()?;
        let mut brokers = Vec::with_capacity(app.brokers.len());
        for mut included in app.brokers {
            let mut calls = Vec::with_capacity(included.subscriptions.len());
            for subscription in &mut included.subscriptions {
                let log = Log::default();
                let mut hooks = app.delivery_hooks.clone();
                hooks.push(log.hook());
                subscription.observe(hooks);
                calls.push((subscription.name().to_owned(), log));
            }
            let broker = included.broker_type;
            let transport = included
                .broker
                .start_in_process(included.subscriptions, app.reports.clone())
                .map_err(|source| AppError::Broker { broker, source })?;
            brokers.push((
                included.broker_id,
                TestBroker {
                    broker,
                    transport,
                    calls,
                },
            ));
        }
        Ok(Self { brokers })
    }

    /// The app's broker of type `B`; the first, where it has several.
    ///
    /// # Panics
    ///
    /// If the app has no such broker.
    #[must_use]
    pub fn broker<B: Broker>(&self) -> &TestBroker {
        let found = self.brokers.iter().find(|(id, _)| *id == TypeId::of::<B>());
        let Some((_, broker)) = found else {
            panic!("the app has no broker of type {}", type_name::<B>());
        };
        broker
    }

    /// Ends the app.
    ///
    /// # Errors
    ///
    /// None today; the type is [`Running::shutdown`](crate::Running::shutdown)'s.
    pub async fn shutdown(self) -> Result<(), AppError> {
        Ok(())
    }
}

/// One broker of a [`TestApp`].
pub struct TestBroker {
    broker: &'static str,
    transport: Box<dyn InProcess>,
    calls: Vec<(String, Log)>,
}

impl TestBroker {
    /// A message to publish, encoded as JSON.
    pub fn message<'a, T: Serialize + ?Sized>(&'a self, value: &T) -> TestMessage<'a> {
        TestMessage {
            broker: self,
            payload: serde_json::to_vec(value),
        }
    }

    /// A message to publish, as these bytes: what a producer of something else might send.
    pub fn payload(&self, bytes: impl Into<Vec<u8>>) -> TestMessage<'_> {
        TestMessage {
            broker: self,
            payload: Ok(bytes.into()),
        }
    }

    /// What the handler of the subscription to `name` was called with so far.
    ///
    /// # Panics
    ///
    /// If there is no such subscription.
    #[must_use]
    pub fn subscriber(&self, name: &str) -> TestSubscriber {
        let found = self
            .calls
            .iter()
            .find(|(subscription, _)| subscription == name);
        let Some((_, log)) = found else {
            let names: Vec<_> = self
                .calls
                .iter()
                .map(|(subscription, _)| subscription)
                .collect();
            panic!(
                "nobody subscribes to {name:?} on {}; subscriptions: {names:?}",
                self.broker
            );
        };
        TestSubscriber {
            name: name.to_owned(),
            calls: log.snapshot(),
        }
    }
}

impl fmt::Debug for TestBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestBroker")
            .field("broker", &self.broker)
            .finish_non_exhaustive()
    }
}

/// A message being published; see [`TestBroker::message`].
#[derive(Debug)]
#[must_use = "a message goes nowhere until it is published"]
pub struct TestMessage<'a> {
    broker: &'a TestBroker,
    payload: Result<Vec<u8>, serde_json::Error>,
}

impl<'a> TestMessage<'a> {
    /// Where it goes: the name of what a subscription reads.
    pub fn to(self, destination: &'a str) -> TestPublish<'a> {
        TestPublish {
            message: self,
            destination,
        }
    }
}

/// A message with a destination; see [`TestMessage::to`].
#[derive(Debug)]
#[must_use = "a message goes nowhere until it is published"]
pub struct TestPublish<'a> {
    message: TestMessage<'a>,
    destination: &'a str,
}

impl TestPublish<'_> {
    /// Publishes it. Returns once the handler has settled it: a handler that asks for a retry is called again
    /// after the broker's back-off, so that one that asks for ever never lets this return.
    ///
    /// # Errors
    ///
    /// [`AppError::Encode`] where the value cannot be written as JSON; [`AppError::Broker`] where the broker
    /// knows no such destination.
    pub async fn publish(self) -> Result<(), AppError> {
        let TestMessage { broker, payload } = self.message;
        let payload = payload.map_err(AppError::Encode)?;
        let published = broker.transport.publish(self.destination, payload).await;
        published.map_err(|source| AppError::Broker {
            broker: broker.broker,
            source,
        })
    }
}

/// The calls of one handler up to the moment at which this was taken; see [`TestBroker::subscriber`].
#[derive(Clone, Debug)]
pub struct TestSubscriber {
    name: String,
    calls: Vec<Call>,
}

impl TestSubscriber {
    /// Asserts that the handler was called once.
    ///
    /// # Panics
    ///
    /// If it was not; every delivery counts, so a message that was retried once is two calls.
    #[track_caller]
    pub fn assert_called_once(&self) -> TestCalls {
        self.assert_called(1)
    }

    /// Asserts that the handler was called `n` times.
    ///
    /// # Panics
    ///
    /// If it was not; every delivery counts.
    #[track_caller]
    pub fn assert_called(&self, n: usize) -> TestCalls {
        let called = self.calls.len();
        assert!(
            called == n,
            "the handler of {:?} was called {called} times, not {n}",
            self.name
        );
        TestCalls {
            name: self.name.clone(),
            calls: self.calls.clone(),
        }
    }

    /// Asserts that the handler was not called.
    ///
    /// # Panics
    ///
    /// If it was.
    #[track_caller]
    pub fn assert_not_called(&self) {
        self.assert_called(0);
    }

    /// The messages that the handler was called with, in order.
    ///
    /// # Panics
    ///
    /// If one of them is no `T`.
    #[track_caller]
    #[must_use]
    pub fn received<T: DeserializeOwned>(&self) -> Vec<T> {
        let decoded = self.calls.iter().map(|call| payload::decode(&call.payload));
        match decoded.collect() {
            Ok(values) => values,
            Err(error) => panic!(
                "the handler of {:?} received something else: {error}",
                self.name
            ),
        }
    }
}

/// Calls to look closer at.
#[derive(Clone, Debug)]
pub struct TestCalls {
    name: String,
    calls: Vec<Call>,
}

impl TestCalls {
    /// Asserts that the handler was called with `value` (compared as JSON), and keeps those calls.
    ///
    /// # Panics
    ///
    /// If it was not, or if `value` cannot be written as JSON.
    #[track_caller]
    pub fn with<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        let wanted = match serde_json::to_value(value) {
            Ok(wanted) => wanted,
            Err(error) => panic!("the expected value cannot be encoded: {error}"),
        };
        let got: Vec<_> = self
            .calls
            .iter()
            .map(|call| String::from_utf8_lossy(&call.payload).into_owned())
            .collect();
        self.calls.retain(|call| {
            serde_json::from_slice::<serde_json::Value>(&call.payload)
                .ok()
                .as_ref()
                == Some(&wanted)
        });
        assert!(
            !self.calls.is_empty(),
            "the handler of {:?} was not called with {wanted}, but with {got:?}",
            self.name
        );
        self
    }

    /// Asserts that the last of these calls ended in `outcome`. A panic counts as a retry.
    ///
    /// # Panics
    ///
    /// If it did not, or if there is no call.
    #[track_caller]
    pub fn settled(self, outcome: HandlerOutcome) -> Self {
        let last = self.calls.last().map(|call| call.outcome);
        assert!(
            last == Some(outcome),
            "the handler of {:?} settled with {last:?}, not {outcome:?}",
            self.name
        );
        self
    }
}

#[derive(Clone, Debug)]
struct Call {
    payload: Vec<u8>,
    outcome: HandlerOutcome,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Call>>>);

impl Log {
    fn push(&self, call: Call) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(call);
    }

    /// What writes a handler's calls down. A payload that could not be decoded is no call.
    fn hook(&self) -> Arc<observe::Hook> {
        let log = self.clone();
        Arc::new(move |delivery| {
            let outcome = match delivery.verdict() {
                Verdict::Outcome(outcome) => *outcome,
                Verdict::Panicked(_) => HandlerOutcome::retry(),
                Verdict::Undecodable(_) => return,
            };
            log.push(Call {
                payload: delivery.payload().to_vec(),
                outcome,
            });
        })
    }

    fn snapshot(&self) -> Vec<Call> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
