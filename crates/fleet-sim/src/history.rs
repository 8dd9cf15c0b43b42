//! What happened in a run: plain data, noted while it ran and read once it is over.
//!
//! Every entry bears the world's time, which no instance knows. Two runs of one seed give histories whose text is
//! the same, byte for byte.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_core::{Checkpoint, Holder, LeaseKey};
use rstream::HandlerOutcome;

/// An instance by the order in which it joined; never used again, even where an owner's name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub usize);

/// One call of a store, from its sending to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// One delivery of a record to a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

/// What an instance asked of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `acquire`, in this owner's name.
    Acquire {
        /// The shard.
        key: LeaseKey,
        /// The name.
        owner: String,
    },
    /// `renew`.
    Renew {
        /// The shard.
        key: LeaseKey,
        /// The acquisition that it presents.
        holder: Holder,
    },
    /// `checkpoint`.
    Checkpoint {
        /// The shard.
        key: LeaseKey,
        /// The acquisition that it presents.
        holder: Holder,
        /// The position to be written.
        at: Checkpoint,
    },
    /// `release`.
    Release {
        /// The shard.
        key: LeaseKey,
        /// The acquisition that it presents.
        holder: Holder,
    },
    /// `read`.
    Read {
        /// The shard.
        key: LeaseKey,
    },
    /// `read_all`, of so many shards.
    ReadAll {
        /// How many.
        keys: usize,
    },
    /// `ask`, in this owner's name.
    Ask {
        /// The shard.
        key: LeaseKey,
        /// The name.
        owner: String,
    },
    /// `forget`.
    Forget {
        /// The shard.
        key: LeaseKey,
    },
}

impl Ask {
    /// The shard that it is for; none for `read_all`.
    #[must_use]
    pub fn key(&self) -> Option<&LeaseKey> {
        match self {
            Self::Acquire { key, .. }
            | Self::Renew { key, .. }
            | Self::Checkpoint { key, .. }
            | Self::Release { key, .. }
            | Self::Read { key }
            | Self::Ask { key, .. }
            | Self::Forget { key } => Some(key),
            Self::ReadAll { .. } => None,
        }
    }

    /// The acquisition that it presents.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Renew { holder, .. }
            | Self::Checkpoint { holder, .. }
            | Self::Release { holder, .. } => Some(holder),
            _ => None,
        }
    }
}

/// What the store answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `acquire` granted the shard.
    Granted(Holder),
    /// Held, accepted, asked, forgotten, released, read.
    Yes,
    /// Refused, lost.
    No,
    /// An error, with its text.
    Failed(String),
}

/// An event of the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An instance begins to start.
    Joined {
        /// Which.
        instance: InstanceId,
        /// Under which owner's name.
        owner: String,
    },
    /// Its start returned.
    Started(InstanceId),
    /// It is dropped where it is.
    Killed(InstanceId),
    /// It stands still, whatever it was doing.
    Paused(InstanceId),
    /// It goes on, and finds that time has passed.
    Woken(InstanceId),
    /// It is told to stop.
    Stopping(InstanceId),
    /// Its shutdown returned.
    Stopped {
        /// Which.
        instance: InstanceId,
        /// The tasks that it left behind.
        tasks: usize,
        /// The handlers, stores and clients of it that somebody still holds.
        kept: usize,
    },
    /// An error reached `on_error`.
    Reported {
        /// Of which instance.
        instance: InstanceId,
        /// Its text, with its causes.
        error: String,
    },
    /// Something begins to go wrong with the store, with Kinesis, or with somebody's clock.
    Fault(String),
    /// All that went wrong is right again, and stays so.
    Healed,
    /// A shard was split or two were merged.
    Resharded {
        /// The shards that were closed.
        parents: Vec<LeaseKey>,
        /// The shards that were opened.
        children: Vec<LeaseKey>,
    },
    /// Records passed out of retention.
    Trimmed {
        /// Of this shard.
        key: LeaseKey,
        /// Their sequence numbers.
        records: Vec<Sequence>,
        /// Whether the shard is still listed.
        listed: bool,
    },
    /// An instance sent a call to the store.
    Sent {
        /// Which call.
        call: CallId,
        /// Of which instance.
        instance: InstanceId,
        /// What it asks.
        ask: Ask,
    },
    /// A call took effect in the store. A call that is sent twice by the network takes effect twice.
    Took {
        /// Which call.
        call: CallId,
        /// What the store answered, whether the answer arrives or not.
        answer: Answer,
    },
    /// The instance got an answer.
    Answered {
        /// To which call.
        call: CallId,
        /// What it got, which is a failure where the answer was lost.
        answer: Answer,
    },
    /// An instance read a shard, and got records.
    Fetched {
        /// Which.
        instance: InstanceId,
        /// When it asked for them.
        sent: Duration,
        /// Their sequence numbers.
        records: Vec<Sequence>,
    },
    /// A record was handed to a handler.
    Handed(Delivery),
    /// The handler ended.
    Said {
        /// Of which delivery.
        delivery: DeliveryId,
        /// With which outcome; none where it panicked.
        outcome: Option<HandlerOutcome>,
    },
}

/// A record handed to a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Which delivery.
    pub id: DeliveryId,
    /// To which instance.
    pub instance: InstanceId,
    /// From which shard.
    pub key: LeaseKey,
    /// Under which acquisition.
    pub epoch: u64,
    /// The record's sequence number.
    pub sequence: Sequence,
    /// The record's partition key.
    pub partition_key: String,
    /// Which delivery of the record this is to this reader; 1 is the first.
    pub attempt: u32,
}

/// A sequence number, ordered as the service orders them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sequence(pub String);

impl Sequence {
    // The service's sequence numbers have no leading zeros.
    fn order(&self) -> (usize, &str) {
        (self.0.len(), &self.0)
    }
}

impl Ord for Sequence {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Sequence {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A record that the service stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// In which shard.
    pub key: LeaseKey,
    /// Its sequence number; the records of one partition key are ordered by it across all shards.
    pub sequence: Sequence,
    /// Its partition key.
    pub partition_key: String,
    /// When it was stored, in the world's time.
    pub at: Duration,
}

/// Everything that happened, in the order of the world's time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The events.
    pub events: Vec<(Duration, Event)>,
    /// Every record that was ever stored, also those that passed out of retention.
    pub records: Vec<Record>,
    /// Every shard that there ever was, in the order in which they were made.
    pub shards: Vec<Shard>,
    /// The shards whose leases were live in the store when everybody had stopped.
    pub left_held: Vec<LeaseKey>,
}

/// A shard of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its stream and id.
    pub key: LeaseKey,
    /// The shards that it came from.
    pub parents: Vec<LeaseKey>,
    /// Whether it takes records at the end.
    pub open: bool,
}

/// Notes what happens. Clones write one history.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    events: Vec<(Duration, Event)>,
    calls: u64,
    deliveries: u64,
}

impl Recorder {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an event.
    pub(crate) fn note(&self, at: Duration, event: Event) {
        self.noted().events.push((at, event));
    }

    /// Numbers a call that is being sent.
    pub(crate) fn next_call(&self) -> CallId {
        let mut noted = self.noted();
        noted.calls += 1;
        CallId(noted.calls)
    }

    /// Numbers a delivery that begins.
    pub(crate) fn next_delivery(&self) -> DeliveryId {
        let mut noted = self.noted();
        noted.deliveries += 1;
        DeliveryId(noted.deliveries)
    }

    /// Looks at what was noted from `index` on.
    pub(crate) fn since(&self, index: usize, mut look: impl FnMut(&Event)) {
        for (_, event) in &self.noted().events[index..] {
            look(event);
        }
    }

    /// All of it, in the order of the world's time; what happened at one moment stays in the order in which it
    /// was noted.
    pub(crate) fn take(&self) -> Vec<(Duration, Event)> {
        let mut events = std::mem::take(&mut self.noted().events);
        events.sort_by_key(|(at, _)| *at);
        events
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i{}", self.0)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
