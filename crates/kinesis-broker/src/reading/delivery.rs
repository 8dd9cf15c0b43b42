//! One record, from its first delivery until it is settled.

use std::time::Duration;

use aws_sdk_kinesis::types::Record;
use rstream::HandlerOutcome;
use rstream::broker::{Handler, Reports, Settlement, Verdict};

use crate::KinesisError;
use crate::backoff::Backoff;
use crate::reading::record::RecordInfo;

/// From this attempt on a retry is said aloud, at every doubling.
const RETRIED_OFTEN: u32 = 8;

/// A record that is being handled.
#[derive(Debug)]
pub(crate) struct Delivery {
    payload: Vec<u8>,
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
    /// A record that nobody was handed yet; `info` tells of it from now on.
    pub(crate) fn of(record: Record, millis_behind: u64, info: &mut RecordInfo) -> Self {
        Self {
            payload: info.turn_to(record, millis_behind),
            attempt: 0,
        }
    }

    /// Hands the record to the handler once more.
    pub(crate) async fn attempt(&mut self, handler: &Handler, info: &RecordInfo) -> Verdict {
        self.attempt = self.attempt.saturating_add(1);
        handler.deliver(&self.payload, self.attempt, info).await
    }

    /// What a verdict means; what a person should know of it is said here.
    pub(crate) fn judge(
        &self,
        verdict: Verdict,
        info: &RecordInfo,
        reports: &Reports,
        backoff: &mut Backoff,
    ) -> Next {
        let RecordInfo {
            stream,
            shard,
            sequence_number,
            ..
        } = info;
        let next = match verdict {
            Verdict::Outcome(outcome) => self.follow(outcome, info, backoff),
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
                Next::Again(backoff.next())
            }
            Verdict::Undecodable(source) => {
                count_dropped(info, "undecodable");
                reports.report(&KinesisError::Undecodable {
                    stream: stream.clone(),
                    shard: shard.clone(),
                    sequence_number: sequence_number.clone(),
                    source,
                });
                Next::Settled
            }
            // A verdict of a later version of rstream: trying again loses nothing.
            _ => Next::Again(backoff.next()),
        };
        if next == Next::Settled {
            backoff.reset();
        }
        next
    }

    fn follow(&self, outcome: HandlerOutcome, info: &RecordInfo, backoff: &mut Backoff) -> Next {
        let RecordInfo {
            stream,
            shard,
            sequence_number,
            ..
        } = info;
        match outcome.settlement() {
            Settlement::Ack => Next::Settled,
            Settlement::Drop => {
                count_dropped(info, "handler");
                tracing::warn!(
                    stream,
                    shard,
                    sequence_number,
                    "the handler dropped a record"
                );
                Next::Settled
            }
            Settlement::Retry { after } => {
                let pause = after.unwrap_or_else(|| backoff.next());
                let attempt = self.attempt;
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
            _ => Next::Again(backoff.next()),
        }
    }
}

/// Counts a record that is settled without having been handled, under the name that the crate's
/// documentation gives.
fn count_dropped(info: &RecordInfo, by: &'static str) {
    let stream = info.stream.clone();
    metrics::counter!("kinesis_records_dropped_total", "stream" => stream, "by" => by).increment(1);
}
