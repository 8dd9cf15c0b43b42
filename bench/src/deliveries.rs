//! The way of one record through `rstream` to its handler, for micro-benchmarks: nothing is read, and nothing settled.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use bytes::Bytes;
use rstream::broker::{
    BoxFuture, Broker, Connection, Delivered, Handler, InProcess, Reports, Result, Source,
    Subscription,
};
use rstream::{AppInfo, Context, Handle, HandlerOutcome, RustStream, subscriber};
use tokio::runtime::Runtime;

use crate::measure::runtime;
use crate::workload::{StockChange, payload};

/// A handler and what it is given.
#[derive(Debug)]
pub struct Deliveries {
    handler: Handler,
    payload: Bytes,
    runtime: Runtime,
}

impl Deliveries {
    /// Of payloads of so many bytes.
    ///
    /// # Errors
    ///
    /// Where no runtime can be had, or the handler not be reached.
    pub fn of(size: usize) -> anyhow::Result<Self> {
        let runtime = runtime()?;
        let taken = Taken::default();
        let app = RustStream::new(AppInfo::new("bench", "0.1.0"));
        let app = app.with_broker(Taking(taken.clone()), |b| {
            b.include(subscriber(Anything, Acknowledge).build());
        });
        drop(runtime.block_on(app.start())?);
        let mut handler = taken.0.lock().unwrap_or_else(PoisonError::into_inner);
        let handler = handler.take().context("no subscription came")?;
        Ok(Self {
            handler,
            payload: payload(size, 1).into(),
            runtime,
        })
    }

    /// Decodes the payload.
    #[must_use]
    pub fn decode(&self) -> Option<StockChange> {
        serde_json::from_slice(&self.payload).ok()
    }

    /// Decodes the payload and hands it to the handler.
    #[must_use]
    pub fn deliver(&self) -> Delivered {
        self.runtime
            .block_on(self.handler.deliver(&self.payload, 1, &()))
    }
}

struct Acknowledge;

impl Handle<StockChange> for Acknowledge {
    async fn handle(
        &self,
        change: &StockChange,
        _: &(),
        _: &mut Context<'_>,
    ) -> std::result::Result<(), HandlerOutcome> {
        std::hint::black_box(change);
        Ok(())
    }
}

#[derive(Debug)]
struct Anything;

impl Source for Anything {
    type Broker = Taking;

    fn name(&self) -> &str {
        "anything"
    }
}

/// Where a broker leaves the handler that it was given.
#[derive(Clone, Debug, Default)]
struct Taken(Arc<Mutex<Option<Handler>>>);

/// A broker that takes a handler and reads nothing.
#[derive(Debug)]
struct Taking(Taken);

struct Nothing;

impl Connection for Nothing {
    fn shutdown(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

impl Broker for Taking {
    fn start(
        self: Box<Self>,
        subscriptions: Vec<Subscription>,
        _: Reports,
    ) -> BoxFuture<'static, Result<Box<dyn Connection>>> {
        let handler = subscriptions.first().map(|one| one.handler().clone());
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = handler;
        Box::pin(async { Ok(Box::new(Nothing) as Box<dyn Connection>) })
    }

    fn start_in_process(
        self: Box<Self>,
        _: Vec<Subscription>,
        _: Reports,
    ) -> Result<Box<dyn InProcess>> {
        Err("this broker has no in-process transport".into())
    }
}
