//! An app in process, without a network: publish to its handlers and look at what they did.
//!
//! The crate's first page has an example.

mod calls;

use std::any::{TypeId, type_name};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::broker::{Broker, Handler, InProcess};
use crate::codec::{self, AnyCodec, Json};
use crate::error::BoxError;
use crate::{AppError, DecodeError, RustStream, payload};

use calls::Log;
pub use calls::{TestCalls, TestSubscriber};

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
        let states = Arc::new(app.states);
        let mut brokers = Vec::with_capacity(app.brokers.len());
        for mut included in app.brokers {
            let mut tested = Vec::with_capacity(included.subscriptions.len());
            for subscription in &mut included.subscriptions {
                let log = Log::default();
                let mut hooks = app.delivery_hooks.clone();
                hooks.push(log.hook());
                subscription.equip(&states, hooks);
                let policy = subscription.policy();
                let publishes_to = policy.reply_to.iter().chain(&policy.dead_letter);
                tested.push(Tested {
                    name: subscription.name().to_owned(),
                    publishes_to: publishes_to.cloned().collect(),
                    handler: subscription.handler().clone(),
                    log,
                });
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
                    subscriptions: tested,
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
    subscriptions: Vec<Tested>,
}

/// A subscription under test.
struct Tested {
    name: String,
    /// The names of where its replies and its dead letters go.
    publishes_to: Vec<String>,
    handler: Handler,
    log: Log,
}

impl TestBroker {
    /// A message to publish, written by the codec of the subscription that it is sent to, and as JSON where nobody
    /// subscribes.
    pub fn message<'a, T: Serialize + ?Sized>(&'a self, value: &T) -> TestMessage<'a> {
        self.encoded(|format| Ok(vec![format.encode(value)?]))
    }

    /// Messages to publish one after another, written as [`message`](Self::message) does. A subscription that takes
    /// batches is handed them in batches, as full as they can be.
    pub fn messages<'a, T: Serialize>(&'a self, values: &[T]) -> TestMessage<'a> {
        self.encoded(|format| values.iter().map(|value| format.encode(value)).collect())
    }

    fn encoded(
        &self,
        encode: impl Fn(Format<'_>) -> Result<Vec<Bytes>, BoxError>,
    ) -> TestMessage<'_> {
        // Only `to` tells the destination, and the value is borrowed until here alone.
        let written = (self.subscriptions.iter())
            .map(|tested| (tested.name.clone(), encode(Format::of(&tested.handler))));
        TestMessage {
            broker: self,
            written: written.collect(),
            otherwise: encode(Format::JSON),
        }
    }

    /// A message to publish, as these bytes: what a producer of something else might send.
    pub fn payload(&self, bytes: impl Into<Vec<u8>>) -> TestMessage<'_> {
        self.payloads([bytes])
    }

    /// Messages to publish one after another, as these bytes.
    pub fn payloads(
        &self,
        payloads: impl IntoIterator<Item = impl Into<Vec<u8>>>,
    ) -> TestMessage<'_> {
        let payloads = payloads.into_iter().map(|bytes| bytes.into().into());
        TestMessage {
            broker: self,
            written: Vec::new(),
            otherwise: Ok(payloads.collect()),
        }
    }

    /// What the handler of the subscription to `name` was called with so far.
    ///
    /// # Panics
    ///
    /// If there is no such subscription.
    #[must_use]
    pub fn subscriber(&self, name: &str) -> TestSubscriber {
        let found = self.subscriptions.iter().find(|tested| tested.name == name);
        let Some(tested) = found else {
            let names = self.subscriptions.iter().map(|tested| &tested.name);
            panic!(
                "nobody subscribes to {name:?} on {}; subscriptions: {:?}",
                self.broker,
                names.collect::<Vec<_>>()
            );
        };
        TestSubscriber {
            name: name.to_owned(),
            handler: tested.handler.clone(),
            calls: tested.log.calls(),
        }
    }

    /// What handlers published to `destination` so far, and what went there as dead letters, in order; decoded by the
    /// codec of the subscription that publishes there (the first, where several do), or as it is where `T` is
    /// [`Bytes`].
    ///
    /// # Panics
    ///
    /// If one of them is no `T`.
    #[track_caller]
    #[must_use]
    pub fn published<T: DeserializeOwned + 'static>(&self, destination: &str) -> Vec<T> {
        let mut subscriptions = self.subscriptions.iter();
        let publisher =
            subscriptions.find(|tested| tested.publishes_to.iter().any(|to| to == destination));
        let format = publisher.map_or(Format::JSON, |tested| Format::of(&tested.handler));
        let payloads = self.transport.published(destination);
        match (payloads.iter().map(|payload| format.decode(payload))).collect() {
            Ok(values) => values,
            Err(error) => panic!("something else was published to {destination:?}: {error}"),
        }
    }

    /// The payloads that handlers published to `destination` so far, and those that went there as dead letters, in
    /// order.
    #[must_use]
    pub fn published_payloads(&self, destination: &str) -> Vec<Bytes> {
        self.transport.published(destination)
    }
}

impl fmt::Debug for TestBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestBroker")
            .field("broker", &self.broker)
            .finish_non_exhaustive()
    }
}

/// A message, or several, being published; see [`TestBroker::message`].
#[derive(Debug)]
#[must_use = "a message goes nowhere until it is published"]
pub struct TestMessage<'a> {
    broker: &'a TestBroker,
    /// As each subscription's codec writes it.
    written: Vec<(String, Result<Vec<Bytes>, BoxError>)>,
    otherwise: Result<Vec<Bytes>, BoxError>,
}

impl<'a> TestMessage<'a> {
    /// Where it goes: the name of what a subscription reads.
    pub fn to(self, destination: &'a str) -> TestPublish<'a> {
        let mut written = self.written.into_iter();
        let found = written.find(|(name, _)| name == destination);
        TestPublish {
            broker: self.broker,
            payloads: found.map_or(self.otherwise, |(_, payloads)| payloads),
            destination,
        }
    }
}

/// A message, or several, with a destination; see [`TestMessage::to`].
#[derive(Debug)]
#[must_use = "a message goes nowhere until it is published"]
pub struct TestPublish<'a> {
    broker: &'a TestBroker,
    payloads: Result<Vec<Bytes>, BoxError>,
    destination: &'a str,
}

impl TestPublish<'_> {
    /// Publishes it. Returns once the handler has settled it: a handler that asks for a retry is called again
    /// after the broker's back-off, so that one that asks for ever never lets this return.
    ///
    /// # Errors
    ///
    /// [`AppError::Encode`] where the codec cannot write the value; [`AppError::Broker`] where the broker knows no
    /// such destination.
    pub async fn publish(self) -> Result<(), AppError> {
        let TestBroker {
            broker, transport, ..
        } = self.broker;
        let payloads = self.payloads.map_err(AppError::Encode)?;
        let published = transport.publish(self.destination, payloads).await;
        published.map_err(|source| AppError::Broker { broker, source })
    }
}

/// How values of some subscription are written.
#[derive(Clone, Copy)]
struct Format<'a>(&'a dyn AnyCodec);

impl<'a> Format<'a> {
    const JSON: Self = Self(&Json);

    fn of(handler: &'a Handler) -> Self {
        Self(handler.inner().codec())
    }

    fn encode<T: Serialize + ?Sized>(self, value: &T) -> Result<Bytes, BoxError> {
        Ok(self.0.encode_any(&value)?.into())
    }

    fn decode<T: DeserializeOwned + 'static>(self, payload: &Bytes) -> Result<T, DecodeError> {
        if let Some(payload) = payload::raw(payload) {
            return Ok(payload);
        }
        let decoded = codec::decode(self.0, payload);
        decoded.map_err(|fault| DecodeError::new::<T>(self.0.name(), fault))
    }
}
