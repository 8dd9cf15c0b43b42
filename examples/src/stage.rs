//! Where the programs that show one thing each run: an embedded Kinesis, one lease store for all instances, and a note
//! of every call of a handler.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kinesis_broker::prelude::*;
use kinesis_sim::KinesisSim;
use lease_core::{Checkpoint, LeaseKey};
use rstream::broker::Verdict;
use rstream::{AppError, Delivery, Running};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::doors::Doors;

/// How often a condition is looked at that is waited for.
const LOOK: Duration = Duration::from_millis(20);

/// A Kinesis and a lease store, in this process. Cheap to clone; all clones are one stage.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    kinesis: KinesisSim,
    doors: Doors,
    calls: Arc<Mutex<Vec<Call>>>,
    said: Arc<Mutex<Vec<String>>>,
}

/// One call of a handler, as it ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// The stream that the subscription reads.
    pub stream: String,
    /// What the record came with; of a batch, its first record.
    pub info: RecordInfo,
    /// The records' bytes: one, unless it was a batch.
    pub payloads: Vec<Bytes>,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// What the handler said.
    pub verdict: Verdict,
    /// When it ended.
    pub ended: Instant,
}

impl Stage {
    /// A stage without a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The Kinesis.
    #[must_use]
    pub fn kinesis(&self) -> &KinesisSim {
        &self.kinesis
    }

    /// Creates streams of one shard each.
    pub fn create_streams(&self, names: &[&str]) {
        for name in names {
            self.kinesis.create_stream(name, 1);
        }
    }

    /// The broker of an instance that goes by this name.
    pub fn broker(&self, owner: &str) -> KinesisBroker {
        KinesisBroker::from_config(&self.kinesis.sdk_config())
            .lease_store(Arc::new(self.doors.of(owner)))
            .owner_id(owner)
            .seed(7)
    }

    /// Starts an instance of a service, and notes each call of its handlers.
    ///
    /// # Errors
    ///
    /// What [`RustStream::start`] says.
    pub async fn start(&self, service: RustStream) -> Result<Running, AppError> {
        let calls = Arc::clone(&self.calls);
        let note = move |delivery: &Delivery<'_>| {
            let call = Call::of(delivery);
            lock(&calls).push(call);
        };
        service.on_delivery(note).start().await
    }

    /// Puts values into a stream, as JSON, each under its own partition key.
    ///
    /// # Errors
    ///
    /// A value that is no JSON.
    pub fn put<T: Outgoing + Serialize>(
        &self,
        stream: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Result<(), serde_json::Error> {
        for value in values {
            let data = serde_json::to_vec(&value)?;
            self.kinesis.put(stream, &value.partition_key(), data);
        }
        Ok(())
    }

    /// Waits until the checkpoint of each shard of a stream is at the shard's last record.
    pub async fn until_settled(&self, stream: &str) {
        self.until_leases_settled(stream, stream).await;
    }

    /// As [`until_settled`](Self::until_settled), under the leases of a generation.
    pub async fn until_settled_in(&self, generation: &str, stream: &str) {
        let leases = format!("{stream}@{generation}");
        self.until_leases_settled(&leases, stream).await;
    }

    async fn until_leases_settled(&self, leases: &str, stream: &str) {
        for shard in self.kinesis.shards(stream) {
            let Some(last) = self.kinesis.records(stream, &shard.id).pop() else {
                continue;
            };
            let key = LeaseKey::new(leases, &shard.id);
            let last = Some(Checkpoint::at(last.sequence_number));
            while self
                .doors
                .store()
                .read(&key)
                .await
                .ok()
                .map(|row| row.checkpoint)
                != Some(last.clone())
            {
                sleep(LOOK).await;
            }
        }
    }

    /// Waits until `holds` of all calls of handlers so far.
    pub async fn until(&self, holds: impl Fn(&[Call]) -> bool) {
        while !holds(&self.calls()) {
            sleep(LOOK).await;
        }
    }

    /// All calls of handlers so far, in the order in which they ended.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.calls).clone()
    }

    /// Prints what a program shows.
    pub fn say(&self, line: impl Into<String>) {
        let line = line.into();
        println!("{line}");
        lock(&self.said).push(line);
    }

    /// Prints what a stream stores: text under its partition keys, shard after shard.
    pub fn say_records(&self, stream: &str) {
        for shard in self.kinesis.shards(stream) {
            for record in self.kinesis.records(stream, &shard.id) {
                let text = String::from_utf8_lossy(&record.data);
                self.say(format!("{stream}, {}: {text}", record.partition_key));
            }
        }
    }

    /// All that was said so far.
    #[must_use]
    pub fn said(&self) -> Vec<String> {
        lock(&self.said).clone()
    }

    /// The checkpoint of a stream's first shard, as it stands in the lease store; empty where there is none.
    pub async fn checkpoint(&self, stream: &str) -> String {
        let shards = self.kinesis.shards(stream);
        let key = shards.first().map(|shard| LeaseKey::new(stream, &shard.id));
        let Some(key) = key else { return String::new() };
        let row = self.doors.store().read(&key).await.unwrap_or_default();
        row.checkpoint.map(|at| at.to_string()).unwrap_or_default()
    }

    /// How many checkpoints instances have asked for.
    #[must_use]
    pub fn checkpoints(&self) -> usize {
        self.doors.checkpoints()
    }

    /// Makes an instance's process stand still, as far as this one process can: its calls to the lease store hang, and
    /// its handlers stop where they [`breathe`](Self::breathe).
    pub fn pause(&self, owner: &str) {
        self.doors.shut(owner);
    }

    /// Lets an instance go on that was [paused](Self::pause).
    pub fn wake(&self, owner: &str) {
        self.doors.open(owner);
    }

    /// A point of a handler at which its process may stand still.
    pub async fn breathe(&self, owner: &str) {
        self.doors.pass(owner).await;
    }
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Call {
    fn of(delivery: &Delivery<'_>) -> Self {
        let first = delivery
            .get::<BatchInfo>()
            .and_then(|batch| batch.records().first());
        let info = delivery.get::<RecordInfo>().or(first);
        Self {
            stream: delivery.subscription().to_owned(),
            info: info.cloned().unwrap_or_default(),
            payloads: delivery.payloads().to_vec(),
            attempt: delivery.attempt(),
            verdict: delivery.verdict().clone(),
            ended: Instant::now(),
        }
    }
}
