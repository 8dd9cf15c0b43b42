//! The records of one stream between those who publish and the task that puts them: one lock, and whom to tell.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::batch::{Entry, Limits, Payload, Queue};
use super::publish::Published;
use super::{PublishError, Record};

/// What became of a record.
pub(crate) type Outcome = Result<Published, PublishError>;

/// The records of one stream that are not stored yet.
pub(crate) struct Outbox {
    stream: Arc<str>,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    queue: Queue<Parcel>,
    flushes: Vec<Flush>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Nothing more is taken; what is there is put.
    Draining,
    /// Nothing more is put.
    Stopped,
}

/// A record and who waits for it.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) partition_key: Arc<str>,
    pub(crate) explicit_hash_key: Option<u128>,
    pub(crate) data: Bytes,
    accepted: Option<oneshot::Sender<()>>,
    told: oneshot::Sender<Outcome>,
}

impl Payload for Parcel {
    fn accepted(&mut self) {
        if let Some(accepted) = self.accepted.take() {
            // Whoever waited may have gone since.
            let _ = accepted.send(());
        }
    }
}

/// A record that was taken.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) place: u64,
    /// Tells when there is room for it; `None` where there was at once.
    pub(crate) accepted: Option<oneshot::Receiver<()>>,
    pub(crate) told: oneshot::Receiver<Outcome>,
}

/// Someone waits for everything that was published before.
struct Flush {
    before: u64,
    left: usize,
    unstored: usize,
    done: oneshot::Sender<usize>,
}

/// What is to be done next.
#[derive(Debug)]
pub(crate) enum Next {
    /// Put these.
    Call(Vec<Entry<Parcel>>),
    /// Give these up: they have waited for too long.
    GiveUp(Vec<Entry<Parcel>>),
    /// Nothing, until something changes or this moment comes.
    Wait(Option<Instant>),
    /// Nothing ever again.
    End,
}

impl Outbox {
    pub(crate) fn new(stream: Arc<str>, limits: Limits) -> Self {
        Self {
            stream,
            state: Mutex::new(State {
                queue: Queue::new(limits),
                flushes: Vec::new(),
                phase: Phase::Open,
            }),
            changed: Notify::new(),
        }
    }

    pub(crate) fn stream(&self) -> &Arc<str> {
        &self.stream
    }

    /// Takes a record into its place in the order.
    pub(crate) fn offer(&self, record: Record, is_ordered: bool) -> Result<Taken, PublishError> {
        let now = Instant::now();
        let key = is_ordered.then(|| Arc::clone(&record.partition_key));
        let bytes = record.bytes();
        let (told, outcome) = oneshot::channel();
        let parcel = Parcel {
            partition_key: record.partition_key,
            explicit_hash_key: record.explicit_hash_key,
            data: record.data,
            accepted: None,
            told,
        };
        let mut state = self.lock();
        if state.phase != Phase::Open {
            return Err(self.stopped());
        }
        let place = state.queue.offer(key, bytes, parcel, now);
        let accepted = state.queue.outside(place).map(|parcel| {
            let (sender, receiver) = oneshot::channel();
            parcel.accepted = Some(sender);
            receiver
        });
        if accepted.is_none() && state.queue.is_worth_a_look(now) {
            self.changed.notify_one();
        }
        Ok(Taken {
            place,
            accepted,
            told: outcome,
        })
    }

    /// Takes back a record for which there was no room yet; without effect on any other.
    pub(crate) fn withdraw(&self, place: u64) {
        let mut state = self.lock();
        if state.queue.withdraw(place).is_some() {
            state.count(place, true);
            state.tell_flushed();
            self.changed.notify_one();
        }
    }

    /// Tells how many of the records published so far are not stored, once each has been stored or given up.
    pub(crate) fn flush(&self) -> oneshot::Receiver<usize> {
        let (done, flushed) = oneshot::channel();
        let mut state = self.lock();
        let before = state.queue.hurry();
        let flush = Flush {
            before,
            left: state.queue.outstanding(),
            unstored: 0,
            done,
        };
        state.flushes.push(flush);
        state.tell_flushed();
        self.changed.notify_one();
        flushed
    }

    /// From now on nothing more is taken, and what is there waits for no company.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Draining;
        }
        state.queue.hurry();
        self.changed.notify_one();
    }

    /// Gives up what is left; whoever waits is told that the publisher has stopped.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.phase = Phase::Stopped;
        let left = state.queue.clear();
        for flush in state.flushes.drain(..) {
            // Whoever waited may have gone since.
            let _ = flush.done.send(flush.unstored + flush.left);
        }
        drop(state);
        self.changed.notify_one();
        // This tells those who wait.
        drop(left);
    }

    /// What the task has to do now, where `may_call` says whether it may put anything.
    pub(crate) fn next(&self, now: Instant, may_call: bool) -> Next {
        let State { queue, phase, .. } = &mut *self.lock();
        if *phase == Phase::Stopped {
            return Next::End;
        }
        let expired = queue.expired(now);
        if !expired.is_empty() {
            return Next::GiveUp(expired);
        }
        if may_call && let Some(batch) = queue.take(now) {
            return Next::Call(batch);
        }
        if *phase == Phase::Draining && queue.outstanding() == 0 {
            return Next::End;
        }
        Next::Wait(queue.wakes_at(may_call))
    }

    /// Until something has changed since the last call of [`next`](Self::next).
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Tells what became of these, and lets those behind them go.
    pub(crate) fn settle(&self, settled: impl IntoIterator<Item = (Entry<Parcel>, Outcome)>) {
        let mut parcels = Vec::new();
        {
            let mut state = self.lock();
            for (entry, outcome) in settled {
                let place = entry.place;
                let parcel = match state.phase {
                    Phase::Stopped => entry.payload,
                    Phase::Open | Phase::Draining => {
                        state.count(place, outcome.is_ok());
                        state.queue.settled(entry)
                    }
                };
                parcels.push((parcel, outcome));
            }
            state.tell_flushed();
        }
        for (parcel, outcome) in parcels {
            if let Err(Err(error)) = parcel.told.send(outcome) {
                let stream = &*self.stream;
                tracing::error!(stream, %error, "a record that nobody waits for any more is not stored");
            }
        }
    }

    /// Lets these be put again at this moment, and gives back those for which that is too late.
    pub(crate) fn again(&self, entries: Vec<Entry<Parcel>>, at: Instant) -> Vec<Entry<Parcel>> {
        let mut state = self.lock();
        let again = entries.into_iter();
        again
            .filter_map(|entry| state.queue.again(entry, at).err())
            .collect()
    }

    /// Lets these be put again in calls half as large.
    pub(crate) fn halve(&self, batch: Vec<Entry<Parcel>>) {
        self.lock().queue.halve(batch);
    }

    pub(crate) fn stopped(&self) -> PublishError {
        PublishError::Stopped {
            stream: self.stream.to_string(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a record that is there no more, for those who wait for all.
    fn count(&mut self, place: u64, is_well: bool) {
        for flush in &mut self.flushes {
            if place < flush.before {
                flush.left -= 1;
                flush.unstored += usize::from(!is_well);
            }
        }
    }

    fn tell_flushed(&mut self) {
        for flush in self.flushes.extract_if(.., |flush| flush.left == 0) {
            // Whoever waited may have gone since.
            let _ = flush.done.send(flush.unstored);
        }
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox")
            .field("stream", &self.stream)
            .field("outstanding", &self.lock().queue.outstanding())
            .finish_non_exhaustive()
    }
}
