//! One measurement of one side.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kinesis_broker::KinesisStream;
use kinesis_sim::KinesisSim;
use lease_core::LeaseStore;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::clock::{Stopwatch, Taken};
use crate::library::{Handler, Service};
use crate::plain;
use crate::workload::{Tally, Workload};

/// By when a reading must be over.
const LIMIT: Duration = Duration::from_secs(3_600);

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Side {
    /// The loop over the SDK.
    Plain,
    /// The library.
    Library,
}

impl Side {
    /// As a command line says it.
    pub(crate) fn args(self) -> [&'static str; 2] {
        let side = match self {
            Self::Plain => "plain",
            Self::Library => "library",
        };
        ["--side", side]
    }
}

/// A runtime of one thread whose clock stands still while there is anything to do, and jumps to the next timer when
/// there is not. What is measured is then work alone: the pauses that the service's quotas ask of a reader are kept,
/// and take no time.
pub(crate) fn paused_runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
}

/// A runtime of one thread, in real time.
pub(crate) fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_time().build()
}

/// A service with a workload, and the runtime to read it on.
#[derive(Debug)]
pub struct Stage {
    workload: Workload,
    runtime: Runtime,
    sim: KinesisSim,
}

impl Stage {
    /// Puts everything there, to be read on a paused clock: see `docs/performance.md`.
    ///
    /// # Errors
    ///
    /// Where no runtime can be had.
    pub fn set(workload: Workload) -> anyhow::Result<Self> {
        Ok(Self::on(paused_runtime()?, workload))
    }

    pub(crate) fn on(runtime: Runtime, workload: Workload) -> Self {
        let sim = runtime.block_on(async { workload.stage() });
        Self {
            workload,
            runtime,
            sim,
        }
    }

    /// How many records a reading reads.
    pub(crate) fn records(&self) -> usize {
        self.workload.total()
    }

    /// Reads everything from the first record on, opening included.
    ///
    /// # Errors
    ///
    /// Where the side fails.
    pub fn read(&self, side: Side) -> anyhow::Result<Taken> {
        match side {
            Side::Plain => self.read_plain(None),
            Side::Library => self.read_by_library(None, |stream| stream),
        }
    }

    pub(crate) fn read_plain(&self, store: Option<Arc<dyn LeaseStore>>) -> anyhow::Result<Taken> {
        self.runtime.block_on(async {
            let watch = Stopwatch::start();
            plain::read(&self.sim, &self.workload, store).await?;
            Ok(watch.taken())
        })
    }

    pub(crate) fn read_by_library(
        &self,
        store: Option<Arc<dyn LeaseStore>>,
        configure: impl FnOnce(KinesisStream) -> KinesisStream,
    ) -> anyhow::Result<Taken> {
        self.runtime.block_on(async {
            let tally = Arc::new(Tally::of(self.workload.total()));
            let handler = Handler::Count(self.workload.kind, Arc::clone(&tally));
            let service = Service::new(handler);
            let service = Service {
                stream: configure(service.stream),
                store,
                ..service
            };
            let watch = Stopwatch::start();
            let running = service.start(&self.sim).await?;
            // An hour of tokio's clock, which passes at once where nothing is left to do.
            timeout(LIMIT, tally.done())
                .await
                .with_context(|| format!("{tally:?} after {LIMIT:?}"))?;
            let taken = watch.taken();
            running.shutdown().await?;
            Ok(taken)
        })
    }
}
