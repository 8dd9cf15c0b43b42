//! A broker in memory: it hands over what a test publishes, and starts and stops as it is told.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rstream::broker::{
    BoxFuture, Broker, Connection, Delivered, DeliveredBatch, Handler, InProcess, Position,
    Reports, Result, Settlement, Source, Subscription, Verdict,
};
use rstream::{HandlerOutcome, IntoSubscription, OnUndecodable};

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
            published: Mutex::default(),
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
                let payload = Bytes::from_static(payload.as_bytes());
                let handler = subscription.handler();
                handler.deliver(&payload, 1, &"attached").await;
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
    /// What replies and dead letters have stored, by destination.
    published: Mutex<BTreeMap<String, Vec<Bytes>>>,
}

/// A position of [`Memory`].
#[derive(Debug)]
pub(crate) struct Offset(pub(crate) u64);

impl Position for Offset {
    type Broker = Memory;
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

    fn seek<'a>(
        &'a self,
        subscription: &'a str,
        to: Box<dyn Any + Send>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let Offset(offset) = *to.downcast().map_err(|_| "not an offset")?;
            end(
                self.name,
                if offset == 0 { Ends::Badly } else { Ends::Well },
            )
            .await?;
            self.event(&format!("moves {subscription} to {offset}"));
            Ok(())
        })
    }
}

impl InProcess for Connected {
    fn publish<'a>(
        &'a self,
        destination: &'a str,
        payloads: Vec<Bytes>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let subscription = self
                .subscriptions
                .iter()
                .find(|subscription| subscription.name() == destination)
                .ok_or_else(|| format!("no topic {destination:?}"))?;
            let mut rest = payloads.as_slice();
            let mut attempt = 1;
            while !rest.is_empty() {
                assert!(attempt < 100, "a handler in a test asks for ever");
                let settled = self.hand_over(subscription, rest, attempt).await;
                attempt = if settled > 0 { 1 } else { attempt + 1 };
                rest = &rest[settled..];
            }
            Ok(())
        })
    }

    fn published(&self, destination: &str) -> Vec<Bytes> {
        let published = self.published.lock().unwrap();
        published.get(destination).cloned().unwrap_or_default()
    }
}

impl Connected {
    /// Hands over as much as the subscription takes at once, and gives how many it settled.
    async fn hand_over(
        &self,
        subscription: &Subscription,
        payloads: &[Bytes],
        attempt: u32,
    ) -> usize {
        let (handler, policy) = (subscription.handler(), subscription.policy());
        let most = policy.batch.map_or(1, |limits| limits.max_records.get());
        let batch = &payloads[..payloads.len().min(most)];
        let delivered = handler.deliver_batch(batch, attempt, &()).await;
        for reply in &delivered.replies {
            self.store(&reply.to, &reply.payload);
        }
        let (given, behind) = batch.split_at(delivered.given);
        let settled = match &delivered.verdict {
            Some(verdict) => self.settle(subscription, given, verdict, attempt),
            None => 0,
        };
        let undecodable = delivered.undecodable.is_some() && settled == given.len();
        if !undecodable {
            return settled;
        }
        match policy.on_undecodable {
            OnUndecodable::Retry if !policy.retry.is_last(attempt) => settled,
            OnUndecodable::Drop => settled + 1,
            _ => settled + self.dead_letters(subscription, &behind[..1]),
        }
    }

    /// Gives how many of `given` are settled.
    fn settle(
        &self,
        subscription: &Subscription,
        given: &[Bytes],
        verdict: &Verdict,
        attempt: u32,
    ) -> usize {
        let settlement = match verdict {
            Verdict::Outcome(outcome) => outcome.settlement(),
            _ => &Settlement::Retry { after: None },
        };
        match settlement {
            Settlement::Ack | Settlement::Drop => given.len(),
            Settlement::AckUntil(n @ 1..) => given.len().min(*n),
            Settlement::DeadLetter { .. } => self.dead_letters(subscription, given),
            _ if subscription.policy().retry.is_last(attempt) => {
                self.dead_letters(subscription, given)
            }
            _ => 0,
        }
    }

    fn dead_letters(&self, subscription: &Subscription, payloads: &[Bytes]) -> usize {
        let destination = subscription.policy().dead_letter.as_deref();
        for payload in payloads {
            self.store(destination.unwrap_or("nowhere"), payload);
        }
        payloads.len()
    }

    fn store(&self, destination: &str, payload: &Bytes) {
        let mut published = self.published.lock().unwrap();
        let stored = published.entry(destination.to_owned()).or_default();
        stored.push(payload.clone());
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

/// What comes of a first delivery of `payload` to the subscription's handler.
pub(crate) async fn deliver(subscription: impl IntoSubscription, payload: &str) -> Verdict {
    delivered(subscription, payload).await.verdict
}

/// The same, with the replies.
pub(crate) async fn delivered(subscription: impl IntoSubscription, payload: &str) -> Delivered {
    let subscription = subscription.into_subscription();
    let payload = Bytes::copy_from_slice(payload.as_bytes());
    subscription.handler().deliver(&payload, 1, &()).await
}

/// What comes of handing `payloads` over as one batch.
pub(crate) async fn deliver_batch(
    subscription: impl IntoSubscription,
    payloads: &[&str],
) -> DeliveredBatch {
    let subscription = subscription.into_subscription();
    let payloads: Vec<_> = (payloads.iter())
        .map(|payload| Bytes::copy_from_slice(payload.as_bytes()))
        .collect();
    subscription
        .handler()
        .deliver_batch(&payloads, 1, &())
        .await
}

/// What comes of one delivery, with what the broker attaches to it.
pub(crate) async fn attempt(
    handler: &Handler,
    payload: &str,
    attempt: u32,
    attached: &(dyn Any + Send + Sync),
) -> Verdict {
    let payload = Bytes::copy_from_slice(payload.as_bytes());
    handler.deliver(&payload, attempt, attached).await.verdict
}

/// What comes of a handler that says `outcome`.
pub(crate) fn said(outcome: HandlerOutcome) -> Verdict {
    Verdict::Outcome(outcome)
}
