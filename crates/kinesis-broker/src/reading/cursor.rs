//! One shard's iterator: where it was opened, when it is read next, and what a failed read means.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_sdk_kinesis::types::Record;
use lease_core::{Checkpoint, LeaseKey};
use rstream::broker::Reports;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::KinesisError;
use crate::backoff::Backoff;
use crate::error::{ServiceError, ServiceErrorKind};
use crate::leasing::after;
use crate::leasing::lineage::{Listing, Position};
use crate::sabotage::{self, Sabotage};
use crate::service::Service;

/// The least time between the starts of two reads of a shard. The service takes five a second
/// ([GetRecords]) and counts them as they arrive; this leaves the network 100 ms to bunch six of them.
///
/// [GetRecords]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html
const READS_APART: Duration = Duration::from_millis(220);
/// What a shard gives in a second. The service refuses reads until an answer of more is paid off: for five
/// seconds after one of 10 MiB.
const BYTES_A_SECOND: u64 = 2 * 1024 * 1024;

/// What reading on brought.
#[derive(Debug)]
pub(crate) enum Event {
    /// The shard is open; at its tip, if that is what was asked for, which was this moment.
    Opened { tip: Option<SystemTime> },
    /// Records, at least one.
    Batch {
        records: Vec<Record>,
        millis_behind: u64,
    },
    /// The service failed, and that is reported; reading on tries again.
    Failed,
    /// The shard is closed, and all of it was read.
    Ended,
    /// The shard is no longer there: its unread rest has passed out of retention.
    Gone,
}

/// The place in a shard from which records are read.
#[derive(Debug)]
pub(crate) struct Cursor {
    service: Service,
    reports: Reports,
    key: LeaseKey,
    /// The last complete listing of the stream.
    listing: watch::Receiver<Arc<Listing>>,
    /// The pause between two reads of an idle shard.
    pause: Duration,
    /// Where to open again: after the last record that was fetched.
    at: Position,
    iterator: Option<String>,
    ended: bool,
    not_before: Instant,
    backoff: Backoff,
    /// Whether this run of failures is reported.
    is_reported: bool,
    /// Whether the iterator has expired since the last read.
    has_expired: bool,
}

impl Cursor {
    /// A cursor that opens `key`'s shard at `at` when it is first read.
    pub(crate) fn new(
        service: Service,
        reports: Reports,
        key: LeaseKey,
        listing: watch::Receiver<Arc<Listing>>,
        pause: Duration,
        at: Position,
        seed: u64,
    ) -> Self {
        Self {
            service,
            reports,
            key,
            listing,
            pause,
            at,
            iterator: None,
            ended: false,
            not_before: Instant::now(),
            backoff: Backoff::of_reads(seed),
            is_reported: false,
            has_expired: false,
        }
    }

    /// Reads on until something comes of it. After [`Event::Ended`] it says so again.
    ///
    /// Cancel safe: what a dropped call would have fetched is fetched by the next one.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            if self.ended {
                return Event::Ended;
            }
            sleep_until(self.not_before).await;
            let event = match self.iterator.clone() {
                None => self.open().await,
                Some(iterator) => self.fetch(&iterator).await,
            };
            if let Some(event) = event {
                return event;
            }
        }
    }

    async fn fetch(&mut self, iterator: &str) -> Option<Event> {
        let started = Instant::now();
        let fetched = match self.service.fetch(iterator).await {
            Ok(fetched) => fetched,
            Err(error) => return self.failed(error),
        };
        self.backoff.reset();
        self.is_reported = false;
        self.has_expired = false;
        let is_idle = fetched.records.is_empty() && fetched.millis_behind == 0;
        let pause = if is_idle {
            self.pause
        } else {
            time_to_give(&fetched.records)
        };
        self.not_before = after(pause).max(started + READS_APART);
        self.ended = fetched.next.is_none();
        self.iterator = fetched.next;
        let last = fetched.records.last()?;
        self.at = Position::After(Checkpoint::at(last.sequence_number.clone()));
        Some(Event::Batch {
            records: fetched.records,
            millis_behind: fetched.millis_behind,
        })
    }

    async fn open(&mut self) -> Option<Event> {
        let (stream, shard) = (self.key.stream(), self.key.shard());
        let error = match self.service.open(stream, shard, &self.at).await {
            Ok(opened) => {
                self.iterator = Some(opened.iterator);
                let is_tip = self.at == Position::Latest && !sabotage::is(Sabotage::TipAnew);
                let tip = is_tip.then(|| self.tip(opened.answered_at));
                if let Some(tip) = tip {
                    // Not a new tip: what comes between is not to be skipped.
                    self.at = Position::AtTimestamp(tip);
                }
                return Some(Event::Opened { tip });
            }
            Err(error) => error,
        };
        let is_refused = match error.kind() {
            ServiceErrorKind::InvalidArgument => {
                matches!(self.at, Position::After(_) | Position::AtTimestamp(_))
            }
            ServiceErrorKind::NotFound => {
                let was_there = !self.listing.borrow().shards().is_empty();
                if was_there && self.listing.borrow().shard(shard).is_none() {
                    return Some(Event::Gone);
                }
                matches!(self.at, Position::After(_)) && self.is_there_but_not_so_far().await
            }
            _ => false,
        };
        if !is_refused {
            return self.failed(error);
        }
        tracing::warn!(
            stream = self.key.stream(),
            shard = self.key.shard(),
            position = ?self.at,
            %error,
            "the stream no longer has this position; reading from the oldest record (TRIM_HORIZON)"
        );
        self.at = Position::TrimHorizon;
        None
    }

    /// Whether the shard is there, and only the position is not: some servers say "not found" of both.
    async fn is_there_but_not_so_far(&self) -> bool {
        let (stream, shard) = (self.key.stream(), self.key.shard());
        let horizon = &Position::TrimHorizon;
        if self.service.open(stream, shard, horizon).await.is_err() {
            return false;
        }
        let again = self.service.open(stream, shard, &self.at).await;
        again.is_err_and(|error| error.kind() == ServiceErrorKind::NotFound)
    }

    /// The moment of the tip, rounded down to the second as the service's own `Date` is. Where the answer had
    /// none, this machine's clock is the only one there is.
    fn tip(&self, answered_at: Option<SystemTime>) -> SystemTime {
        answered_at.unwrap_or_else(|| {
            let since = (self.service.wall_clock())
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default();
            SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
        })
    }

    fn failed(&mut self, error: ServiceError) -> Option<Event> {
        let has_expired = error.kind() == ServiceErrorKind::ExpiredIterator;
        if has_expired
            || matches!(
                error.kind(),
                ServiceErrorKind::NotFound | ServiceErrorKind::InvalidArgument
            )
        {
            self.iterator = None;
        }
        if has_expired && sabotage::is(Sabotage::ReopenAhead) {
            self.at = Position::Latest;
        }
        if has_expired && sabotage::is(Sabotage::ReopenBehind) {
            self.at = Position::TrimHorizon;
        }
        if has_expired && !std::mem::replace(&mut self.has_expired, true) {
            // Nothing is wrong: a handler took longer than the five minutes that an iterator lasts.
            tracing::debug!(key = %self.key, "the iterator expired; opening after the last record fetched");
            return None;
        }
        self.not_before = Instant::now() + self.backoff.next();
        if std::mem::replace(&mut self.is_reported, true) {
            tracing::debug!(key = %self.key, %error, "reading still fails");
            return None;
        }
        self.reports.report(&KinesisError::Read {
            stream: self.key.stream().to_owned(),
            shard: self.key.shard().to_owned(),
            source: error,
        });
        Some(Event::Failed)
    }
}

/// How long a shard takes to give these records.
fn time_to_give(records: &[Record]) -> Duration {
    let key = |record: &Record| record.partition_key.as_ref().map_or(0, String::len);
    let bytes = records
        .iter()
        .map(|record| record.data.as_ref().len() + key(record));
    let millis = bytes.sum::<usize>() as u64 * 1_000;
    Duration::from_millis(millis.div_ceil(BYTES_A_SECOND))
}
