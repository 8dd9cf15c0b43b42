//! One shard's iterator: where it was opened, when it is read next, and what a failed read means.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_sdk_kinesis::types::Record;
use lease_core::{Checkpoint, LeaseKey};
use rstream::broker::{BoxFuture, Reports};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::KinesisError;
use crate::backoff::Backoff;
use crate::error::{ServiceError, ServiceErrorKind};
use crate::leasing::after;
use crate::leasing::lineage::{Listing, Position};
use crate::reading::feed::Appetite;
use crate::reading::record::size;
use crate::sabotage::{self, Sabotage};
use crate::service::{Fetched, Opened, Service};

/// The least time between the starts of two reads of a shard. The service takes five a second
/// ([GetRecords]) and counts them as they arrive; this leaves the network 100 ms to bunch six of them.
///
/// [GetRecords]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html
const READS_APART: Duration = Duration::from_millis(220);
/// What a shard gives in a second. The service refuses reads until an answer of more is paid off: for five
/// seconds after one of 10 MiB ([GetRecords]).
///
/// [GetRecords]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html
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
pub(crate) struct Cursor {
    service: Service,
    reports: Reports,
    stream: Arc<str>,
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
    /// Whether it is only for want of anything new that the next read waits.
    is_idle: bool,
    backoff: Backoff,
    /// Whether this run of failures is reported.
    is_reported: bool,
    /// Whether the iterator has expired since the last read.
    has_expired: bool,
    /// The call under way. It lives here so that dropping `next` does not cancel it.
    call: Option<BoxFuture<'static, Answer>>,
}

enum Answer {
    Opened(Result<Opened, ServiceError>),
    /// The shard is there, but no longer has the position.
    NotSoFar(ServiceError),
    Fetched {
        started: Instant,
        fetched: Result<Fetched, ServiceError>,
    },
}

impl Cursor {
    /// A cursor that opens `key`'s shard at `at` when it is first read.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a thing of its own, and it is made in one place"
    )]
    pub(crate) fn new(
        service: Service,
        reports: Reports,
        stream: Arc<str>,
        key: LeaseKey,
        listing: watch::Receiver<Arc<Listing>>,
        pause: Duration,
        at: Position,
        seed: u64,
    ) -> Self {
        Self {
            service,
            reports,
            stream,
            key,
            listing,
            pause,
            at,
            iterator: None,
            ended: false,
            not_before: Instant::now(),
            is_idle: false,
            backoff: Backoff::of_reads(seed),
            is_reported: false,
            has_expired: false,
            call: None,
        }
    }

    /// Reads on until something comes of it. After [`Event::Ended`] it says so again.
    ///
    /// Cancel safe: a call under way goes on with the next `next`.
    pub(crate) async fn next(&mut self, appetite: Appetite) -> Event {
        loop {
            let event = match &mut self.call {
                Some(call) => {
                    let answer = call.await;
                    self.call = None;
                    match answer {
                        Answer::Opened(opened) => self.opened(opened),
                        Answer::NotSoFar(error) => {
                            self.fall_back(&error);
                            None
                        }
                        Answer::Fetched { started, fetched } => self.fetched(started, fetched),
                    }
                }
                None if self.ended => Some(Event::Ended),
                None => {
                    sleep_until(self.not_before).await;
                    self.call = Some(match self.iterator.clone() {
                        None => self.open(),
                        Some(iterator) => self.fetch(iterator, appetite),
                    });
                    None
                }
            };
            if let Some(event) = event {
                return event;
            }
        }
    }

    /// Reads on from `at`, at once where the shard was idle; a call under way is forgotten.
    pub(crate) fn move_to(&mut self, at: Position) {
        if std::mem::take(&mut self.is_idle) {
            self.not_before = self.not_before.min(after(READS_APART));
        }
        self.at = at;
        self.iterator = None;
        self.ended = false;
        self.call = None;
    }

    fn fetch(&self, iterator: String, appetite: Appetite) -> BoxFuture<'static, Answer> {
        let service = self.service.clone();
        let limit = match appetite {
            Appetite::Any => None,
            Appetite::Few(records) => Some(records),
        };
        Box::pin(async move {
            let started = Instant::now();
            let fetched = service.fetch(iterator, limit).await;
            Answer::Fetched { started, fetched }
        })
    }

    fn fetched(
        &mut self,
        started: Instant,
        fetched: Result<Fetched, ServiceError>,
    ) -> Option<Event> {
        let fetched = match fetched {
            Ok(fetched) => fetched,
            Err(error) => return self.failed(error),
        };
        self.backoff.reset();
        self.is_reported = false;
        self.has_expired = false;
        let is_idle = fetched.records.is_empty() && fetched.millis_behind == 0;
        self.is_idle = is_idle;
        let pause = if is_idle {
            self.pause
        } else {
            time_to_give(&fetched.records)
        };
        self.not_before = after(pause).max(started + READS_APART);
        self.ended = fetched.next.is_none();
        self.iterator = fetched.next;
        let last = fetched.records.last()?;
        self.at = Position::After(Checkpoint::from_shared(
            last.sequence_number.as_str().into(),
        ));
        Some(Event::Batch {
            records: fetched.records,
            millis_behind: fetched.millis_behind,
        })
    }

    fn open(&self) -> BoxFuture<'static, Answer> {
        let (service, key, at) = (self.service.clone(), self.key.clone(), self.at.clone());
        let stream = Arc::clone(&self.stream);
        let listing = self.listing.clone();
        Box::pin(async move {
            let error = match service.open(&stream, key.shard(), &at).await {
                Err(error) if error.kind() == ServiceErrorKind::NotFound => error,
                opened => return Answer::Opened(opened),
            };
            let is_gone = is_gone(&listing.borrow(), &key);
            let is_after = matches!(at, Position::After(_));
            if !is_gone
                && is_after
                && is_there_but_not_so_far(&service, &stream, key.shard(), &at).await
            {
                return Answer::NotSoFar(error);
            }
            Answer::Opened(Err(error))
        })
    }

    fn opened(&mut self, opened: Result<Opened, ServiceError>) -> Option<Event> {
        let error = match opened {
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
        match error.kind() {
            ServiceErrorKind::InvalidArgument
                if matches!(self.at, Position::After(_) | Position::AtTimestamp(_)) =>
            {
                self.fall_back(&error);
                None
            }
            ServiceErrorKind::NotFound if is_gone(&self.listing.borrow(), &self.key) => {
                Some(Event::Gone)
            }
            _ => self.failed(error),
        }
    }

    /// The position was refused: from the oldest record, too much rather than too little.
    fn fall_back(&mut self, error: &ServiceError) {
        tracing::warn!(
            stream = &*self.stream,
            shard = self.key.shard(),
            position = ?self.at,
            %error,
            "the stream no longer has this position; reading from the oldest record (TRIM_HORIZON)"
        );
        self.at = Position::TrimHorizon;
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
        self.is_idle = false;
        self.not_before = Instant::now() + self.backoff.next();
        if std::mem::replace(&mut self.is_reported, true) {
            tracing::debug!(key = %self.key, %error, "reading still fails");
            return None;
        }
        self.reports.report(&KinesisError::Read {
            stream: self.stream.to_string(),
            shard: self.key.shard().to_owned(),
            source: error,
        });
        Some(Event::Failed)
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("key", &self.key)
            .field("at", &self.at)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// Whether a shard that the service does not find is not in the last listing either.
fn is_gone(listing: &Listing, key: &LeaseKey) -> bool {
    !listing.shards().is_empty() && listing.shard(key.shard()).is_none()
}

/// Whether the shard is there, and only the position is not: some servers say "not found" of both.
async fn is_there_but_not_so_far(
    service: &Service,
    stream: &str,
    shard: &str,
    at: &Position,
) -> bool {
    let horizon = service.open(stream, shard, &Position::TrimHorizon).await;
    if horizon.is_err() {
        return false;
    }
    let again = service.open(stream, shard, at).await;
    again.is_err_and(|error| error.kind() == ServiceErrorKind::NotFound)
}

/// How long a shard takes to give these records.
fn time_to_give(records: &[Record]) -> Duration {
    let bytes = records.iter().map(size).sum::<usize>() as u64;
    Duration::from_millis((bytes * 1_000).div_ceil(BYTES_A_SECOND))
}
