//! One record, from its first delivery until it is settled.

use std::time::Duration;

use bytes::Bytes;
use lease_core::Holder;
use rstream::HandlerOutcome;
use rstream::broker::{Handler, Reports, Settlement, Verdict};

use crate::KinesisError;
use crate::backoff::Backoff;
use crate::reading::record::{Item, RecordInfo};

/// From this attempt on a retry is said aloud, at every doubling.
const RETRIED_OFTEN: u32 = 8;

/// A record that is being handled.
#[derive(Debug)]
pub(crate) struct Delivery {
    info: RecordInfo,
    payload: Bytes,
    attempt: u32,
}

/// What is to be done after one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The record is settled.
    Settled,
    /// Hand it over again after this long.
    Again(Duration),
}

impl Delivery {
    /// Room for the records of a shard, one after the other.
    pub(crate) fn of_shard(stream: &str, shard: &str, holder: Holder) -> Self {
        Self {
            info: RecordInfo::of_shard(stream, shard, holder),
            payload: Bytes::new(),
            attempt: 0,
        }
    }

    /// A record that nobody was handed yet takes the place of the last one.
    pub(crate) fn turn_to(&mut self, item: Item) {
        self.payload = self.info.turn_to(item);
        self.attempt = 0;
    }

    /// Whether the handler was given it before.
    pub(crate) fn was_tried(&self) -> bool {
        self.attempt > 0
    }

    /// Notes under which lease the record is handed over.
    pub(crate) fn under(&mut self, holder: &Holder) {
        if self.info.holder.epoch != holder.epoch {
            self.info.holder = holder.clone();
        }
    }

    /// Hands the record to the handler once more.
    pub(crate) async fn attempt(&mut self, handler: &Handler) -> Verdict {
        self.attempt = self.attempt.saturating_add(1);
        handler
            .deliver(&self.payload, self.attempt, &self.info)
            .await
    }

    /// What a verdict means; what a person should know of it is said here.
    pub(crate) fn judge(&self, verdict: Verdict, reports: &Reports, backoff: &mut Backoff) -> Next {
        let RecordInfo {
            stream,
            shard,
            sequence_number,
            ..
        } = &self.info;
        match verdict {
            Verdict::Outcome(outcome) => self.follow(outcome, backoff),
            Verdict::Panicked(message) => {
                let attempt = self.attempt;
                tracing::error!(
                    stream,
                    shard,
                    sequence_number,
                    attempt,
                    message,
                    "the handler panicked; the record is tried again"
                );
                Next::Again(backoff.after(attempt))
            }
            Verdict::Undecodable(source) => {
                count_dropped(&self.info, "undecodable");
                reports.report(&KinesisError::Undecodable {
                    stream: stream.clone(),
                    shard: shard.clone(),
                    sequence_number: sequence_number.clone(),
                    source,
                });
                Next::Settled
            }
            // A verdict of a later version of rstream: trying again loses nothing.
            _ => Next::Again(backoff.after(self.attempt)),
        }
    }

    fn follow(&self, outcome: HandlerOutcome, backoff: &mut Backoff) -> Next {
        let RecordInfo {
            stream,
            shard,
            sequence_number,
            ..
        } = &self.info;
        match outcome.settlement() {
            Settlement::Ack => Next::Settled,
            Settlement::Drop => {
                count_dropped(&self.info, "handler");
                tracing::warn!(
                    stream,
                    shard,
                    sequence_number,
                    "the handler dropped a record"
                );
                Next::Settled
            }
            Settlement::Retry { after } => {
                let attempt = self.attempt;
                let pause = after.unwrap_or_else(|| backoff.after(attempt));
                if attempt >= RETRIED_OFTEN && attempt.is_power_of_two() {
                    tracing::warn!(
                        stream,
                        shard,
                        sequence_number,
                        attempt,
                        "a record is retried again and again, and those behind it wait"
                    );
                } else {
                    tracing::debug!(
                        stream,
                        shard,
                        sequence_number,
                        attempt,
                        ?pause,
                        "to be tried again"
                    );
                }
                Next::Again(pause)
            }
            _ => Next::Again(backoff.after(self.attempt)),
        }
    }
}

/// Counts a record that is settled without having been handled, under the name that the crate's
/// documentation gives.
fn count_dropped(info: &RecordInfo, by: &'static str) {
    let stream = info.stream.clone();
    metrics::counter!("kinesis_records_dropped_total", "stream" => stream, "by" => by).increment(1);
}
