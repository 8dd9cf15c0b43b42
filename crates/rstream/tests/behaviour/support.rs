//! A broker in memory: it hands over what a test publishes, and starts and stops as it is told.

use std::fmt;
use std::sync::{Arc, Mutex};

use rstream::broker::{
    BoxFuture, Broker, Connection, InProcess, Reports, Result, Settlement, Source, Subscription,
    Verdict,
};
use rstream::{HandlerOutcome, IntoSubscription};

/// What happened to brokers, in order.
pub(crate) type Events = Arc<Mutex<Vec<String>>>;

/// A source of [`Memory`].
#[derive(Clone, Debug)]
pub(crate) struct Topic(&'static str);

impl Topic {
    pub(crate) fn new(name: &'static str) -> Self {
        Self(name)
    }

    pub(crate) fn renamed(self, name: &'static str) -> Self {
        Self(name)
    }
}

impl Source for Topic {
    type Broker = Memory;

    fn name(&self) -> &str {
        self.0
    }
}

/// What a broker says when it was told to end badly.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) &'static str);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} refused", self.0)
    }
}

impl std::error::Error for Refused {}

/// How a call of a broker ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ends {
    #[default]
    Well,
    Badly,
    Never,
}

/// The broker.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) name: &'static str,
    /// What happens to it is written here, and to the standard output besides.
    pub(crate) events: Events,
    pub(crate) start: Ends,
    pub(crate) shutdown: Ends,
    /// Reported once started.
    pub(crate) report: Option<Refused>,
    /// Handed over to each subscription once started.
    pub(crate) hand_over: Option<&'static str>,
}

impl Memory {
    fn connected(self, subscriptions: Vec<Subscription>) -> Connected {
        Connected {
            name: self.name,
            events: self.events,
            shutdown: self.shutdown,
            subscriptions,
        }
    }
}

impl Broker for Memory {
    fn start(
        mut self: Box<Self>,
        subscriptions: Vec<Subscription>,
        reports: Reports,
    ) -> BoxFuture<'static, Result<Box<dyn Connection>>> {
        Box::pin(async move {
            let (name, start, report) = (self.name, self.start, self.report.take());
            let hand_over = self.hand_over;
            let connected = self.connected(subscriptions);
            connected.event("starts");
            end(name, start).await?;
            if let Some(error) = report {
                reports.report(&error);
            }
            for (payload, subscription) in hand_over.iter().cycle().zip(&connected.subscriptions) {
                let handler = subscription.handler();
                handler.deliver(payload.as_bytes(), 1, &"attached").await;
            }
            connected.event("started");
            Ok(Box::new(connected) as Box<dyn Connection>)
        })
    }

    fn start_in_process(
        self: Box<Self>,
        subscriptions: Vec<Subscription>,
        _: Reports,
    ) -> Result<Box<dyn InProcess>> {
        if self.start == Ends::Badly {
            return Err(Refused(self.name).into());
        }
        Ok(Box::new(self.connected(subscriptions)))
    }
}

async fn end(name: &'static str, ends: Ends) -> Result<()> {
    match ends {
        Ends::Well => Ok(()),
        Ends::Badly => Err(Refused(name).into()),
        Ends::Never => std::future::pending().await,
    }
}

struct Connected {
    name: &'static str,
    events: Events,
    shutdown: Ends,
    subscriptions: Vec<Subscription>,
}

impl Connected {
    fn event(&self, what: &str) {
        let event = format!("{} {what}", self.name);
        println!("{event}");
        self.events.lock().unwrap().push(event);
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.event("is gone");
    }
}

impl Connection for Connected {
    fn shutdown(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            self.event("shuts down");
            end(self.name, self.shutdown).await?;
            self.event("shut down");
            Ok(())
        })
    }
}

impl InProcess for Connected {
    fn publish<'a>(&'a self, destination: &'a str, payload: Vec<u8>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let subscription = self
                .subscriptions
                .iter()
                .find(|subscription| subscription.name() == destination)
                .ok_or_else(|| format!("no topic {destination:?}"))?;
            let mut attempt = 1;
            while !settles(&subscription.handler().deliver(&payload, attempt, &()).await) {
                attempt += 1;
            }
            Ok(())
        })
    }
}

/// Another broker, that no source belongs to.
#[derive(Debug)]
pub(crate) struct Other;

impl Broker for Other {
    fn start(
        self: Box<Self>,
        _: Vec<Subscription>,
        _: Reports,
    ) -> BoxFuture<'static, Result<Box<dyn Connection>>> {
        Box::pin(async { Err(Refused("other").into()) })
    }

    fn start_in_process(
        self: Box<Self>,
        _: Vec<Subscription>,
        _: Reports,
    ) -> Result<Box<dyn InProcess>> {
        Err(Refused("other").into())
    }
}

fn settles(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Outcome(outcome) => !matches!(outcome.settlement(), Settlement::Retry { .. }),
        Verdict::Panicked(_) => false,
        _ => true,
    }
}

/// What comes of a first delivery of `payload` to the subscription's handler.
pub(crate) async fn deliver(subscription: impl IntoSubscription, payload: &str) -> Verdict {
    let subscription = subscription.into_subscription();
    let handler = subscription.handler();
    handler.deliver(payload.as_bytes(), 1, &()).await
}

/// What comes of a handler that says `outcome`.
pub(crate) fn said(outcome: HandlerOutcome) -> Verdict {
    Verdict::Outcome(outcome)
}
