//! The library's side of every comparison.

use std::hint::black_box;
use std::sync::Arc;

use aws_sdk_kinesis::config::SharedHttpClient;
use kinesis_broker::{KinesisBroker, KinesisStream, StartPosition};
use kinesis_sim::KinesisSim;
use lease_core::LeaseStore;
use rstream::{
    AppError, AppInfo, Context, Handle, HandlerOutcome, Running, RustStream, subscriber,
};

use crate::latencies::Latencies;
use crate::workload::{Kind, STREAM, StockChange, Tally, look_at};

/// A service; what is not said is the library's default.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) stream: KinesisStream,
    pub(crate) handler: Handler,
    /// Without it, a store in memory of its own.
    pub(crate) store: Option<Arc<dyn LeaseStore>>,
    /// Without it, the simulation's own.
    pub(crate) http_client: Option<SharedHttpClient>,
    /// What tells it from others on its store.
    pub(crate) number: u64,
}

/// What is done with a record.
#[derive(Clone, Debug)]
pub(crate) enum Handler {
    /// Counts it.
    Count(Kind, Arc<Tally>),
    /// Looks how old it is.
    Time(Arc<Latencies>),
}

impl Service {
    /// From the oldest record on.
    pub(crate) fn new(handler: Handler) -> Self {
        Self {
            stream: KinesisStream::new(STREAM).start_at(StartPosition::trim_horizon()),
            handler,
            store: None,
            http_client: None,
            number: 0,
        }
    }

    /// Starts it. It is open when this returns.
    pub(crate) async fn start(self, sim: &KinesisSim) -> Result<Running, AppError> {
        let mut config = sim.sdk_config();
        if let Some(http_client) = self.http_client {
            config = config.into_builder().http_client(http_client).build();
        }
        let mut broker = KinesisBroker::from_config(&config)
            .owner_id(format!("instance-{}", self.number))
            .seed(self.number);
        if let Some(store) = self.store {
            broker = broker.lease_store(store);
        }
        let app = RustStream::new(AppInfo::new("bench", "0.1.0"));
        let app = app.with_broker(broker, |b| match self.handler {
            Handler::Count(Kind::Json, tally) => {
                b.include(subscriber(self.stream, CountJson(tally)).build());
            }
            Handler::Count(Kind::Bytes, tally) => {
                b.include(subscriber(self.stream, CountBytes(tally)).build());
            }
            Handler::Time(latencies) => {
                b.include(subscriber(self.stream, Time(latencies)).build());
            }
        });
        app.start().await
    }
}

struct CountJson(Arc<Tally>);

impl Handle<StockChange> for CountJson {
    async fn handle(
        &self,
        change: &StockChange,
        _: &(),
        _: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        black_box(change);
        self.0.handled();
        Ok(())
    }
}

struct CountBytes(Arc<Tally>);

impl Handle<[u8]> for CountBytes {
    async fn handle(
        &self,
        payload: &[u8],
        _: &(),
        _: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        look_at(payload);
        self.0.handled();
        Ok(())
    }
}

struct Time(Arc<Latencies>);

impl Handle<StockChange> for Time {
    async fn handle(
        &self,
        change: &StockChange,
        _: &(),
        _: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        self.0.handled(change.delta);
        Ok(())
    }
}
