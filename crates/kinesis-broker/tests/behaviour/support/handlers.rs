//! Handlers of more than one record a call, and handlers that publish.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinesis_broker::{BatchInfo, KinesisStream, RecordInfo};
use rstream::broker::Subscription;
use rstream::{Context, Handle, HandlerOutcome, Out, Outgoing, subscriber};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Act, Recorder};

/// A batch that was handed over.
#[derive(Clone, Debug)]
pub(crate) struct SeenBatch {
    /// The instance that was given it.
    pub(crate) owner: String,
    pub(crate) values: Vec<u64>,
    /// One for each value, and perhaps more.
    pub(crate) records: Vec<RecordInfo>,
    pub(crate) attempt: u32,
    /// When the handler was called.
    pub(crate) at: Instant,
    /// When it returned; `None` while it runs, or if it was dropped.
    pub(crate) done_at: Option<Instant>,
}

type Behaviour = Arc<dyn Fn(&SeenBatch) -> Act + Send + Sync>;

/// A handler of batches, and what it was given. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Batches {
    seen: Arc<Mutex<Vec<SeenBatch>>>,
    behaviour: Behaviour,
}

impl Batches {
    /// One that does this with each batch.
    pub(crate) fn new(act: impl Fn(&SeenBatch) -> Act + Send + Sync + 'static) -> Self {
        Self {
            seen: Arc::default(),
            behaviour: Arc::new(act),
        }
    }

    /// All batches so far, in the order in which they were handed over.
    pub(crate) fn seen(&self) -> Vec<SeenBatch> {
        self.seen.lock().unwrap().clone()
    }

    /// The values of each batch so far.
    pub(crate) fn values(&self) -> Vec<Vec<u64>> {
        self.seen().into_iter().map(|seen| seen.values).collect()
    }

    /// All values so far, the smallest first.
    pub(crate) fn sorted(&self) -> Vec<u64> {
        let mut values = self.values().concat();
        values.sort_unstable();
        values
    }

    /// A subscription of it, with batches of so many at most.
    pub(crate) fn up_to(
        &self,
        max_records: usize,
        max_wait: Duration,
    ) -> impl Fn(KinesisStream, Recorder) -> Subscription + 'static {
        let handler = self.clone();
        move |stream, _| {
            subscriber(stream, handler.clone())
                .batch(max_records, max_wait)
                .build::<u64>()
        }
    }
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Batches").field(&self.values()).finish()
    }
}

impl Handle<[u64]> for Batches {
    async fn handle(
        &self,
        values: &[u64],
        _: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        let info = ctx.get::<BatchInfo>().expect("the broker attaches it");
        let seen = SeenBatch {
            owner: info.records()[0].holder.owner.clone(),
            values: values.to_vec(),
            records: info.records().to_vec(),
            attempt: ctx.attempt(),
            at: Instant::now(),
            done_at: None,
        };
        let act = (self.behaviour)(&seen);
        let index = {
            let mut all = self.seen.lock().unwrap();
            all.push(seen);
            all.len() - 1
        };
        let done = || self.seen.lock().unwrap()[index].done_at = Some(Instant::now());
        act.make(done).await
    }
}

/// What a handler publishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Outgoing)]
#[outgoing(partition_key = "key")]
pub(crate) struct Receipt {
    pub(crate) key: String,
    pub(crate) value: u64,
    pub(crate) attempt: u32,
}

/// Publishes so many receipts for each record, under these keys, and ends as its recorder does.
#[derive(Clone, Debug)]
pub(crate) struct Replies {
    pub(crate) recorder: Recorder,
    pub(crate) keys: Vec<String>,
}

impl Replies {
    pub(crate) fn new<K: Into<String>>(
        recorder: Recorder,
        keys: impl IntoIterator<Item = K>,
    ) -> Self {
        Self {
            recorder,
            keys: keys.into_iter().map(Into::into).collect(),
        }
    }

    fn receipts(&self, value: u64, attempt: u32) -> Vec<Receipt> {
        let receipt = |key: &String| Receipt {
            key: key.clone(),
            value,
            attempt,
        };
        self.keys.iter().map(receipt).collect()
    }
}

/// It returns them.
impl Handle<u64, Vec<Receipt>> for Replies {
    async fn handle(
        &self,
        value: &u64,
        outs: &(),
        ctx: &mut Context<'_>,
    ) -> Result<Vec<Receipt>, HandlerOutcome> {
        Handle::<u64>::handle(&self.recorder, value, outs, ctx).await?;
        Ok(self.receipts(*value, ctx.attempt()))
    }
}

/// It sends them, and then a note, before it says how it ends.
impl Handle<u64, (), (Out<Receipt>, Out<String>)> for Replies {
    async fn handle(
        &self,
        value: &u64,
        (receipts, notes): &(Out<Receipt>, Out<String>),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        for receipt in self.receipts(*value, ctx.attempt()) {
            receipts.send(&receipt)?;
        }
        notes.send_keyed("notes", &format!("{value} at attempt {}", ctx.attempt()))?;
        Handle::<u64>::handle(&self.recorder, value, &(), ctx).await
    }
}
