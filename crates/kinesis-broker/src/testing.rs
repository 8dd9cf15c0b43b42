//! The in-process transport of `TestApp`: one shard a stream, no store, no network.

use std::collections::HashMap;

use aws_sdk_kinesis::primitives::{Blob, DateTime};
use aws_sdk_kinesis::types::Record;
use lease_core::Holder;
use rstream::broker::{BoxFuture, Handler, InProcess, Reports, Result, Source as _};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::reading::delivery::{Delivery, Next};
use crate::reading::record::Item;
use crate::{KinesisError, KinesisStream};

/// The shard that every record of a test comes from.
const SHARD: &str = "shardId-000000000000";

/// Streams of one shard each, in this process.
pub(crate) struct InProcessKinesis {
    streams: HashMap<String, (Handler, Mutex<Shard>)>,
    reports: Reports,
    started: Instant,
}

/// One record at a time is handled, as of a real shard.
struct Shard {
    delivery: Delivery,
    backoff: Backoff,
    put: u64,
}

impl InProcessKinesis {
    pub(crate) fn new(
        subscriptions: Vec<(KinesisStream, Handler)>,
        reports: Reports,
        owner: &str,
        seed: u64,
    ) -> Self {
        let streams = subscriptions.into_iter().map(|(stream, handler)| {
            let holder = Holder {
                owner: owner.to_owned(),
                epoch: 1,
            };
            let shard = Shard {
                delivery: Delivery::of_shard(stream.name(), SHARD, holder),
                backoff: Backoff::of_handlers(seed),
                put: 0,
            };
            (stream.name().to_owned(), (handler, Mutex::new(shard)))
        });
        Self {
            streams: streams.collect(),
            reports,
            started: Instant::now(),
        }
    }

    fn record(&self, payload: Vec<u8>, put: u64) -> Result<Record> {
        // Counted from the epoch: by a wall clock one test would differ from run to run.
        let millis = i64::try_from(self.started.elapsed().as_millis())?;
        Ok(Record::builder()
            .sequence_number(put.to_string())
            .partition_key("test")
            .approximate_arrival_timestamp(DateTime::from_millis(millis))
            .data(Blob::new(payload))
            .build()?)
    }
}

impl InProcess for InProcessKinesis {
    fn publish<'a>(&'a self, destination: &'a str, payload: Vec<u8>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let Some((handler, shard)) = self.streams.get(destination) else {
                let stream = destination.to_owned();
                return Err(KinesisError::NoSubscription { stream }.into());
            };
            let mut shard = shard.lock().await;
            let Shard {
                delivery,
                backoff,
                put,
            } = &mut *shard;
            *put += 1;
            let record = self.record(payload, *put)?;
            delivery.turn_to(Item::of(record, 0));
            loop {
                let verdict = delivery.attempt(handler).await;
                match delivery.judge(verdict, &self.reports, backoff) {
                    Next::Settled => return Ok(()),
                    Next::Again(pause) => sleep(pause).await,
                }
            }
        })
    }
}
