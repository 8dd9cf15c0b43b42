//! The task of one stream: it makes the PutRecords calls, and acts on what they bring.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::PutRecordsRequestEntry;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep_until};

use super::batch::Entry;
use super::outbox::{Next, Outbox, Outcome, Parcel};
use super::{PublishError, Published};
use crate::backoff::Backoff;
use crate::error::{ServiceError, ServiceErrorKind};
use crate::service::Service;

type Results = Result<Vec<Result<Published, ServiceError>>, ServiceError>;

/// Puts the records of one stream until there are none and never will be.
pub(crate) struct Worker {
    service: Service,
    outbox: Arc<Outbox>,
    max_calls: usize,
    give_up_after: Option<Duration>,
    backoff: Backoff,
    calls: FuturesUnordered<BoxFuture<'static, (Vec<Entry<Parcel>>, Results)>>,
    /// How many records were put, are not stored, and are not given up.
    failing: usize,
    /// The last failure since nothing was left that had failed.
    last_failure: Option<ServiceError>,
}

/// However the task ends, nobody is left waiting for it.
struct StopsAtEnd(Arc<Outbox>);

impl Drop for StopsAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Worker {
    pub(crate) fn new(
        service: Service,
        outbox: Arc<Outbox>,
        max_calls: usize,
        give_up_after: Option<Duration>,
        seed: u64,
    ) -> Self {
        Self {
            service,
            outbox,
            max_calls,
            give_up_after,
            backoff: Backoff::of_puts(seed),
            calls: FuturesUnordered::new(),
            failing: 0,
            last_failure: None,
        }
    }

    pub(crate) async fn run(mut self) {
        let outbox = Arc::clone(&self.outbox);
        let _stops = StopsAtEnd(Arc::clone(&outbox));
        loop {
            let may_call = self.calls.len() < self.max_calls;
            let until = match outbox.next(Instant::now(), may_call) {
                Next::Call(batch) => {
                    self.call(batch);
                    continue;
                }
                Next::GiveUp(entries) => {
                    self.give_up(entries);
                    continue;
                }
                Next::Wait(until) => until,
                Next::End => return,
            };
            let wait = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some((batch, results)) = self.calls.next() => self.answered(batch, results),
                () = outbox.changed() => {}
                () = wait => {}
            }
        }
    }

    fn call(&self, batch: Vec<Entry<Parcel>>) {
        let again = batch.iter().filter(|entry| entry.failures > 0).count();
        if again > 0 {
            count("kinesis_publish_retries_total", &self.outbox, again);
        }
        let (service, stream) = (self.service.clone(), Arc::clone(self.outbox.stream()));
        self.calls.push(Box::pin(async move {
            let entries = batch.iter().map(|entry| request_entry(&entry.payload));
            let results = service.put(&stream, entries.collect()).await;
            (batch, results)
        }));
    }

    fn answered(&mut self, batch: Vec<Entry<Parcel>>, results: Results) {
        let results = match results {
            Ok(results) => results,
            Err(error) if error.kind() == ServiceErrorKind::InvalidArgument && batch.len() > 1 => {
                self.failed(&batch, &error);
                return self.outbox.halve(batch);
            }
            Err(error) => vec![Err(error); batch.len()],
        };
        let mut settled: Vec<(_, Outcome)> = Vec::with_capacity(batch.len());
        let mut again = Vec::new();
        let mut failure = None;
        for (entry, result) in batch.into_iter().zip(results) {
            match result {
                Ok(published) => settled.push((entry, Ok(published))),
                Err(error) if error.is_retryable() => {
                    failure = Some(error);
                    again.push(entry);
                }
                Err(source) => {
                    let stream = self.outbox.stream().to_string();
                    settled.push((entry, Err(PublishError::Refused { stream, source })));
                }
            }
        }
        if let Some(failure) = failure {
            self.failed(&again, &failure);
        }
        self.settle(settled);
        if !again.is_empty() {
            // One moment for all, so that they go together again.
            let failures = again.iter().map(|entry| entry.failures + 1).max();
            let pause = self.backoff.after(failures.unwrap_or(1));
            let too_late = self.outbox.again(again, Instant::now() + pause);
            self.give_up(too_late);
        }
    }

    fn give_up(&mut self, entries: Vec<Entry<Parcel>>) {
        let gave_up = |entry| {
            let error = PublishError::GaveUp {
                stream: self.outbox.stream().to_string(),
                after: self.give_up_after.unwrap_or_default(),
                source: self.last_failure.clone(),
            };
            (entry, Err(error))
        };
        let settled = entries.into_iter().map(gave_up).collect();
        self.settle(settled);
    }

    fn settle(&mut self, settled: Vec<(Entry<Parcel>, Outcome)>) {
        let (mut stored, mut bytes, mut unstored) = (0, 0, 0);
        for (entry, outcome) in &settled {
            self.failing -= usize::from(entry.failures > 0);
            match outcome {
                Ok(_) => {
                    stored += 1;
                    bytes += entry.bytes();
                }
                Err(_) => unstored += 1,
            }
        }
        for (counter, by) in [
            ("kinesis_records_published_total", stored),
            ("kinesis_bytes_published_total", bytes),
            ("kinesis_records_unpublished_total", unstored),
        ] {
            if by > 0 {
                count(counter, &self.outbox, by);
            }
        }
        self.outbox.settle(settled);
        // Those behind what was given up are told the same.
        if self.failing == 0 && stored > 0 && self.last_failure.take().is_some() {
            let stream = &**self.outbox.stream();
            tracing::info!(stream, "no record waits for a retry any more");
        }
    }

    /// Says so of the first of a run of failures.
    fn failed(&mut self, entries: &[Entry<Parcel>], error: &ServiceError) {
        let stream = &**self.outbox.stream();
        let records = entries.len();
        if self.failing == 0 {
            tracing::warn!(stream, records, %error, "records are not stored yet, and are put again");
        } else {
            tracing::debug!(stream, records, %error, "records are put again");
        }
        self.failing += entries.iter().filter(|entry| entry.failures == 0).count();
        self.last_failure = Some(error.clone());
    }
}

fn request_entry(parcel: &Parcel) -> PutRecordsRequestEntry {
    PutRecordsRequestEntry::builder()
        .partition_key(&*parcel.partition_key)
        .set_explicit_hash_key(parcel.explicit_hash_key.map(|key| key.to_string()))
        .data(Blob::new(&*parcel.data))
        .build()
        .expect("data and partition key are all that it asks for")
}

fn count(counter: &'static str, outbox: &Outbox, by: usize) {
    let stream = outbox.stream().to_string();
    metrics::counter!(counter, "stream" => stream).increment(by as u64);
}
