//! The app: what it is made of, and how it starts.

use std::any::{TypeId, type_name};
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;

use crate::broker::{Broker, Reports, Subscription};
use crate::running::{Connected, Running};
use crate::signal::Signals;
use crate::state::States;
use crate::{AppError, Delivery, IntoSubscription, observe};

/// What an app is called, for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppInfo {
    name: String,
    version: String,
}

impl AppInfo {
    /// An app's name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
        }
    }

    /// The app's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The app's version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// A service: handlers on brokers.
///
/// Nothing happens until it is [`run`](Self::run) or [`start`](Self::start)ed.
#[must_use = "an app does nothing until it is run or started"]
pub struct RustStream {
    info: AppInfo,
    pub(crate) brokers: Vec<Included>,
    pub(crate) reports: Reports,
    pub(crate) delivery_hooks: Vec<Arc<observe::Hook>>,
    pub(crate) states: States,
}

/// A broker and the subscriptions that were included on it.
pub(crate) struct Included {
    pub(crate) broker: Box<dyn Broker>,
    pub(crate) broker_type: &'static str,
    pub(crate) broker_id: TypeId,
    pub(crate) subscriptions: Vec<Subscription>,
}

impl RustStream {
    /// An app without brokers.
    pub fn new(info: AppInfo) -> Self {
        Self {
            info,
            brokers: Vec::new(),
            reports: Reports::default(),
            delivery_hooks: Vec::new(),
            states: States::default(),
        }
    }

    /// Puts `broker` into the app, with the subscriptions that `include` includes.
    pub fn with_broker<B: Broker>(
        mut self,
        broker: B,
        include: impl FnOnce(&mut Scope<'_, B>),
    ) -> Self {
        let mut subscriptions = Vec::new();
        include(&mut Scope {
            subscriptions: &mut subscriptions,
            broker: PhantomData,
        });
        self.brokers.push(Included {
            broker: Box::new(broker),
            broker_type: type_name::<B>(),
            broker_id: TypeId::of::<B>(),
            subscriptions,
        });
        self
    }

    /// Gives all handlers of the app a value, such as a pool of connections: as
    /// [`Context::state`](crate::Context::state), or as a parameter `State<T>` under `#[subscriber(..)]`.
    ///
    /// It is found by its type, so a second value of one type is an error at start.
    pub fn with_state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.add(value);
        self
    }

    /// Calls `hook` with every error that the running app reports: each as itself, so that a broker's error
    /// (`KinesisError`) can be downcast. Each is a tracing event besides.
    ///
    /// Hooks add up; all are called, in order. A hook is called from the broker's tasks and should return
    /// soon; one that panics is cut short.
    pub fn on_error(
        mut self,
        hook: impl Fn(&(dyn Error + Send + Sync + 'static)) + Send + Sync + 'static,
    ) -> Self {
        self.reports.add(Arc::new(hook));
        self
    }

    /// Calls `hook` after every call of a handler: for metrics and audits.
    ///
    /// It sees the payload, or those of a batch, what the broker attached, and what came of it, also where a payload
    /// could not be decoded and the handler was not called. Hooks add up; all are called, in order. A hook is called
    /// from the task that hands the message over and should return soon; one that panics is cut short.
    pub fn on_delivery(mut self, hook: impl Fn(&Delivery<'_>) + Send + Sync + 'static) -> Self {
        self.delivery_hooks.push(Arc::new(hook));
        self
    }

    /// Runs until SIGINT or SIGTERM (Ctrl-C on other systems), then shuts down gracefully. A signal that
    /// comes during the start is heeded once the start is over, since handlers may run by then.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start), [`Running::failed`] and [`Running::shutdown`];
    /// [`AppError::Interrupted`] when a second signal comes before the shutdown is over, which then ends at
    /// once.
    pub async fn run(self) -> Result<(), AppError> {
        let info = self.info.clone();
        let mut signals = Signals::listen().map_err(AppError::Signal)?;
        let mut start = pin!(self.start());
        let mut running = tokio::select! {
            biased;
            running = &mut start => running?,
            signal = signals.next() => {
                // Handlers may run already: what has started is stopped as ever.
                tracing::info!(app = info.name, signal, "stopping before it has started");
                return tokio::select! {
                    biased;
                    done = async { start.await?.shutdown().await } => done,
                    _ = signals.next() => Err(AppError::Interrupted),
                };
            }
        };
        tracing::info!(app = info.name, version = info.version, "running");
        let signal = tokio::select! {
            biased;
            signal = signals.next() => signal,
            failed = running.failed() => {
                // The others still settle what they have.
                return running.shutdown().await.and(Err(failed));
            }
        };
        tracing::info!(app = info.name, signal, "shutting down");
        tokio::select! {
            biased;
            done = running.shutdown() => done,
            _ = signals.next() => Err(AppError::Interrupted),
        }
    }

    /// Starts every broker.
    ///
    /// Returns once every subscription has had its first try: a service that does not answer is reported to
    /// [`on_error`](Self::on_error), tried again for as long as the app runs, and does not fail the start.
    ///
    /// # Errors
    ///
    /// What can never work: an app without a broker, a broker without a subscription, a subscription on the
    /// wrong broker, with a senseless [`AppError::Policy`] or without a state that it needs, two states of one type,
    /// and what the broker says of its own configuration ([`AppError::Broker`]).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts what had started.
    pub async fn start(self) -> Result<Running, AppError> {
        self.check()?;
        let mut running = Running {
            connections: Vec::with_capacity(self.brokers.len()),
            reports: self.reports.clone(),
        };
        let states = Arc::new(self.states);
        for mut included in self.brokers {
            let mut subscriptions = Vec::with_capacity(included.subscriptions.len());
            for subscription in &mut included.subscriptions {
                subscription.equip(&states, self.delivery_hooks.clone());
                subscriptions.push(subscription.name().to_owned());
            }
            let broker = included.broker_type;
            match included
                .broker
                .start(included.subscriptions, self.reports.clone())
                .await
            {
                Ok(connection) => running.connections.push(Connected {
                    broker,
                    broker_id: included.broker_id,
                    subscriptions,
                    connection,
                }),
                Err(source) => {
                    if let Err(error) = running.shutdown().await {
                        self.reports.report(&error);
                    }
                    return Err(AppError::Broker { broker, source });
                }
            }
        }
        Ok(running)
    }

    pub(crate) fn check(&self) -> Result<(), AppError> {
        let app = || self.info.name.clone();
        if self.brokers.is_empty() {
            return Err(AppError::NoBroker { app: app() });
        }
        if let Some(type_name) = self.states.twice() {
            return Err(AppError::DuplicateState {
                app: app(),
                type_name,
            });
        }
        for included in &self.brokers {
            if included.subscriptions.is_empty() {
                return Err(AppError::NoSubscription {
                    app: app(),
                    broker: included.broker_type,
                });
            }
            let broker = (included.broker_id, included.broker_type);
            for subscription in &included.subscriptions {
                subscription.check(broker, &self.states)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RustStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brokers = self
            .brokers
            .iter()
            .map(|included| (included.broker_type, &included.subscriptions));
        f.debug_struct("RustStream")
            .field("info", &self.info)
            .field("brokers", &brokers.collect::<Vec<_>>())
            .field("states", &self.states)
            .finish_non_exhaustive()
    }
}

/// Includes subscriptions on one broker of an app; given to the closure of [`RustStream::with_broker`].
pub struct Scope<'a, B> {
    subscriptions: &'a mut Vec<Subscription>,
    broker: PhantomData<fn(B)>,
}

impl<B: Broker> Scope<'_, B> {
    /// Adds a subscription: a handler under `#[subscriber(..)]`, or `subscriber(source, handler).build()`.
    pub fn include(&mut self, subscription: impl IntoSubscription) -> &mut Self {
        self.subscriptions.push(subscription.into_subscription());
        self
    }
}

impl<B> fmt::Debug for Scope<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scope").field(&self.subscriptions).finish()
    }
}
