//! A publisher that runs: its streams, and how it ends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fastrand::Rng;
use futures_util::future::join_all;
use tokio::runtime;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::outbox::Outbox;
use super::stream::Handle;
use super::worker::Worker;
use super::{Settings, StreamPublisher, Unstored};
use crate::service::Service;
use crate::{KinesisError, KinesisStream};

/// A publisher that runs; made by [`KinesisPublisher::start`](crate::KinesisPublisher::start).
///
/// End it with [`shutdown`](Self::shutdown). Where it is dropped instead, with every handle on its streams, what was
/// accepted is put all the same, for as long as the runtime runs; but nobody waits for it.
pub struct Publisher {
    service: Service,
    settings: Settings,
    runtime: runtime::Handle,
    streams: Mutex<Streams>,
}

struct Streams {
    by_name: BTreeMap<Arc<str>, Running>,
    rng: Rng,
}

struct Running {
    handle: Arc<Handle>,
    task: JoinHandle<()>,
}

impl Publisher {
    pub(crate) fn new(service: Service, settings: Settings, seed: u64) -> Self {
        Self {
            service,
            settings,
            runtime: runtime::Handle::current(),
            streams: Mutex::new(Streams {
                by_name: BTreeMap::new(),
                rng: Rng::with_seed(seed),
            }),
        }
    }

    /// A stream to publish to. Every handle on one stream shares its order, its batches and its room.
    ///
    /// That there is such a stream is not looked into: publishing to one that is missing tells.
    ///
    /// # Errors
    ///
    /// A name that no stream can have.
    pub fn stream(&self, name: &str) -> Result<StreamPublisher, KinesisError> {
        KinesisStream::new(name).check()?;
        let Streams { by_name, rng } =
            &mut *self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = by_name.get(name) {
            return Ok(StreamPublisher::new(Arc::clone(&running.handle)));
        }
        let name: Arc<str> = name.into();
        let outbox = Arc::new(Outbox::new(Arc::clone(&name), self.settings.limits()));
        let worker = Worker::new(
            self.service.clone(),
            Arc::clone(&outbox),
            self.settings.max_calls,
            self.settings.give_up_after,
            rng.u64(..),
        );
        let running = Running {
            handle: Arc::new(Handle(outbox)),
            task: self.runtime.spawn(worker.run()),
        };
        let stream = StreamPublisher::new(Arc::clone(&running.handle));
        by_name.insert(name, running);
        Ok(stream)
    }

    /// Waits until everything that was published before this call, to any stream, is stored or never will be. None of
    /// it waits for company any more.
    ///
    /// # Errors
    ///
    /// How many of these records are not stored.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future of this call ends the wait, and nothing else.
    pub async fn flush(&self) -> Result<(), Unstored> {
        let outboxes: Vec<_> = {
            let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            let running = streams.by_name.values();
            running
                .map(|running| Arc::clone(&running.handle.0))
                .collect()
        };
        flush(&outboxes).await
    }

    /// Stores what was published before this call, and stops. What is published from now on is refused
    /// ([`PublishError::Stopped`]). At the end of [`KinesisPublisher::shutdown_timeout`] what is not stored yet is given
    /// up.
    ///
    /// [`PublishError::Stopped`]: crate::PublishError::Stopped
    /// [`KinesisPublisher::shutdown_timeout`]: crate::KinesisPublisher::shutdown_timeout
    ///
    /// # Errors
    ///
    /// How many of these records are not stored; those that were under way at the end perhaps are.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future of this call is like dropping the publisher and all its handles.
    pub async fn shutdown(self) -> Result<(), Unstored> {
        let streams = self
            .streams
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let (mut outboxes, mut tasks) = (Vec::new(), Vec::new());
        for Running { handle, task } in streams.by_name.into_values() {
            handle.0.drain();
            outboxes.push(Arc::clone(&handle.0));
            tasks.push(task);
        }
        let mut flushing = std::pin::pin!(flush(&outboxes));
        let flushed = match timeout(self.settings.shutdown_timeout, &mut flushing).await {
            Ok(flushed) => flushed,
            Err(_) => {
                for outbox in &outboxes {
                    outbox.stop();
                }
                flushing.await
            }
        };
        // A task that panicked has told those who wait for its records.
        join_all(tasks).await;
        flushed
    }
}

async fn flush(outboxes: &[Arc<Outbox>]) -> Result<(), Unstored> {
    let flushes: Vec<_> = outboxes.iter().map(|outbox| outbox.flush()).collect();
    let mut unstored = Vec::new();
    for (outbox, records) in outboxes.iter().zip(join_all(flushes).await) {
        // Without an answer nothing is left that could be stored.
        let records = records.unwrap_or(0);
        if records > 0 {
            unstored.push((outbox.stream().to_string(), records));
        }
    }
    if unstored.is_empty() {
        Ok(())
    } else {
        Err(Unstored { streams: unstored })
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Publisher")
            .field("streams", &streams.by_name.keys())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
