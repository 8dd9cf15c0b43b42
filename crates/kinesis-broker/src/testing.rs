//! The in-process transport of `TestApp`: one shard a stream, no store, no network.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_kinesis::primitives::{Blob, DateTime};
use aws_sdk_kinesis::types::Record;
use bytes::Bytes;
use lease_core::Holder;
use rstream::broker::{BoxFuture, InProcess, Reports, Result, Source as _};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::outlet::Outlet;
use crate::reading::delivery::{Delivery, With};
use crate::reading::feed::{self, Budget, Feed};
use crate::reading::handling::Handling;
use crate::{KinesisError, KinesisStream, Prefetch};

/// The shard that every record of a test comes from.
const SHARD: &str = "shardId-000000000000";

/// Streams of one shard each, in this process.
pub(crate) struct InProcessKinesis {
    streams: HashMap<String, (Arc<Handling>, Mutex<Shard>)>,
    reports: Reports,
    outlet: Outlet,
    holder: Holder,
    started: Instant,
}

/// One record, or one batch, at a time is handled, as of a real shard.
struct Shard {
    feed: Feed,
    delivery: Delivery<()>,
    rng: fastrand::Rng,
    put: u64,
}

impl InProcessKinesis {
    pub(crate) fn new(
        subscriptions: Vec<(KinesisStream, Arc<Handling>)>,
        reports: Reports,
        owner: &str,
        seed: u64,
    ) -> Self {
        let outlet = Outlet::in_process();
        let streams = subscriptions.into_iter().map(|(stream, handling)| {
            handling.store_in(outlet.clone());
            let is_batch = handling.policy.batch.is_some();
            let lies_in = feed::Shard {
                stream: stream.name().into(),
                id: SHARD.into(),
                hash_keys: None,
            };
            let shard = Shard {
                feed: Feed::new(Budget::new(Prefetch::default()), lies_in, None),
                delivery: Delivery::of_shard(stream.name(), SHARD, is_batch),
                rng: fastrand::Rng::with_seed(seed),
                put: 0,
            };
            (stream.name().to_owned(), (handling, Mutex::new(shard)))
        });
        Self {
            streams: streams.collect(),
            reports,
            outlet,
            holder: Holder {
                owner: owner.to_owned(),
                epoch: 1,
            },
            started: Instant::now(),
        }
    }

    fn record(&self, payload: Bytes, put: u64) -> Result<Record> {
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
    fn publish<'a>(
        &'a self,
        destination: &'a str,
        payloads: Vec<Bytes>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let Some((handling, shard)) = self.streams.get(destination) else {
                let stream = destination.to_owned();
                return Err(KinesisError::NoSubscription { stream }.into());
            };
            let mut shard = shard.lock().await;
            let Shard {
                feed,
                delivery,
                rng,
                put,
            } = &mut *shard;
            let limits = handling.policy.batch;
            let most = limits.map_or(1, |limits| limits.max_records.get());
            let never = CancellationToken::new();
            let mut records = Vec::with_capacity(payloads.len());
            for payload in payloads {
                *put += 1;
                records.push(self.record(payload, *put)?);
            }
            feed.push(records, 0);
            loop {
                while delivery.len() < most
                    && let Some((item, _)) = feed.pop()
                {
                    feed.let_go(&item);
                    delivery.push(item, ());
                }
                if delivery.is_empty() {
                    return Ok(());
                }
                while !delivery.is_empty() {
                    delivery.under(&self.holder);
                    let with = With {
                        handling,
                        reports: &self.reports,
                        lost: &never,
                        random: rng.f64(),
                    };
                    let next = delivery.attempt(with).await;
                    delivery.settle(next.settled).for_each(drop);
                    if !delivery.is_empty() {
                        sleep(next.pause).await;
                    }
                }
            }
        })
    }

    fn published(&self, destination: &str) -> Vec<Bytes> {
        self.outlet.stored(destination)
    }
}
