//! What was called and what was answered, in which order and when.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::checker;
use crate::conformance::Violation;
use crate::{Checkpoint, Holder, LeaseKey, LeaseState, Renewal};

/// A call on one row. A listing is a read of each of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Acquire { owner: String, ttl: Duration },
    Renew { holder: Holder, ttl: Duration },
    Checkpoint { holder: Holder, at: Checkpoint },
    Read,
    Release { holder: Holder },
    Ask { owner: String },
    Forget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Acquired(Option<Holder>),
    Renewed(Renewal),
    Checkpointed(bool),
    State(LeaseState),
    Released,
    Asked(bool),
    Forgotten(bool),
}

/// A place in the order of all that was seen, and the time by the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    pub(super) order: usize,
    pub(super) at: Duration,
}

/// A call and its answer, if one came. Without one it may have taken effect, may still do so, or never will.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// Which instance of the store was called.
    pub(super) instance: usize,
    pub(super) call: Call,
    pub(super) began: Moment,
    pub(super) ended: Option<(Moment, Answer)>,
}

impl Operation {
    /// Whether its answer says that it changed nothing.
    pub(super) fn changes_nothing(&self) -> bool {
        let answer = self.ended.as_ref().map(|(_, answer)| answer);
        matches!(
            answer,
            Some(
                Answer::Acquired(None)
                    | Answer::Renewed(Renewal::Lost)
                    | Answer::Checkpointed(false)
                    | Answer::State(_)
                    | Answer::Asked(false)
                    | Answer::Forgotten(false)
            )
        )
    }
}

/// The calls that were made through [`Recorder`](super::Recorder)s, by any number of tasks; a clone is the same
/// history.
#[derive(Clone, Debug)]
pub struct History {
    inner: Arc<Mutex<Inner>>,
    since: Instant,
}

#[derive(Debug, Default)]
struct Inner {
    moments: usize,
    instances: usize,
    operations: Vec<(LeaseKey, Operation)>,
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl History {
    /// One in which nothing has happened yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            inner: Arc::default(),
            since: Instant::now(),
        }
    }

    /// The number of calls; a listing counts once for each of its keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().operations.len()
    }

    /// Whether nothing was called.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the calls could have taken effect one after the other, each between its sending and its answer, in an
    /// order that explains all answers.
    ///
    /// # Errors
    ///
    /// For the first key whose answers no order explains: the fewest of them that none explains.
    pub fn check(&self) -> Result<(), Violation> {
        let mut operations = self.lock().operations.clone();
        operations.sort_by(|(one, _), (other, _)| one.cmp(other));
        for of_one_key in operations.chunk_by(|(one, _), (other, _)| one == other) {
            let key = &of_one_key[0].0;
            let operations = of_one_key.iter().map(|(_, operation)| operation.clone());
            checker::check(key, operations.collect())?;
        }
        Ok(())
    }

    /// How long it has lasted, on tokio's clock.
    pub(super) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// A number for one more instance of the store.
    pub(super) fn instance(&self) -> usize {
        let mut inner = self.lock();
        inner.instances += 1;
        inner.instances
    }

    /// A call is about to be sent; its number.
    pub(super) fn begin(&self, instance: usize, key: &LeaseKey, call: Call, at: Duration) -> usize {
        let mut inner = self.lock();
        let operation = Operation {
            instance,
            call,
            began: inner.moment(at),
            ended: None,
        };
        inner.operations.push((key.clone(), operation));
        inner.operations.len() - 1
    }

    /// Its answer has come.
    pub(super) fn end(&self, number: usize, answer: Answer, at: Duration) {
        let mut inner = self.lock();
        let moment = inner.moment(at);
        inner.operations[number].1.ended = Some((moment, answer));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is made whole or not at all.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn moment(&mut self, at: Duration) -> Moment {
        self.moments += 1;
        let order = self.moments;
        Moment { order, at }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |moment: &Moment| moment.at.as_secs_f64();
        let began = seconds(&self.began);
        match &self.ended {
            Some((ended, answer)) => write!(
                f,
                "{began:9.4} s to {:9.4} s, store {}: {}: {answer}",
                seconds(ended),
                self.instance,
                self.call
            ),
            None => write!(
                f,
                "{began:9.4} s, store {}: {}: no answer",
                self.instance, self.call
            ),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire { owner, .. } => write!(f, "acquire by {owner}"),
            Self::Renew { holder, .. } => write!(f, "renew by {}", short(holder)),
            Self::Checkpoint { holder, at } => write!(f, "checkpoint {at} by {}", short(holder)),
            Self::Read => f.write_str("read"),
            Self::Release { holder } => write!(f, "release by {}", short(holder)),
            Self::Ask { owner } => write!(f, "ask by {owner}"),
            Self::Forget => f.write_str("forget"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquired(Some(holder)) => write!(f, "granted, {}", short(holder)),
            Self::Acquired(None) => f.write_str("refused"),
            Self::Renewed(Renewal::Held) => f.write_str("held"),
            Self::Renewed(Renewal::Asked { by }) => write!(f, "held, and asked for by {by}"),
            Self::Renewed(Renewal::Lost) => f.write_str("lost"),
            Self::Checkpointed(answer) | Self::Asked(answer) | Self::Forgotten(answer) => {
                write!(f, "{answer}")
            }
            Self::Released => f.write_str("done"),
            Self::State(state) => write_state(f, state),
        }
    }
}

fn write_state(f: &mut fmt::Formatter<'_>, state: &LeaseState) -> fmt::Result {
    let by = match &state.holder {
        Some(holder) => {
            let live = if state.live { "live" } else { "expired" };
            write!(f, "held by {}, {live}", short(holder))?;
            "asked for by"
        }
        None => {
            write!(f, "held by nobody, epoch {}", state.epoch)?;
            "reserved for"
        }
    };
    if let Some(asker) = &state.asked_by {
        write!(f, ", {by} {asker}")?;
    }
    match &state.checkpoint {
        Some(at) => write!(f, ", checkpoint {at}")?,
        None => f.write_str(", no checkpoint")?,
    }
    match state.expires_in {
        Some(left) => write!(f, ", for {left:?} more"),
        None => Ok(()),
    }
}

/// An owner and its epoch.
pub(super) fn short(holder: &Holder) -> String {
    format!("{}/{}", holder.owner, holder.epoch)
}
