//! A shard that is moved while it is read: what is asked for, and by whom.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::StartPosition;

/// A move of one shard, asked of its reader.
#[derive(Debug)]
pub(crate) struct Seek {
    pub(crate) to: StartPosition,
    /// Told once the move is in the store; dropped, where it does not come about.
    pub(crate) done: Option<oneshot::Sender<()>>,
}

/// A move of a stream's shards, asked of the coordinator.
#[derive(Debug)]
pub(crate) struct SeekStream {
    pub(crate) stream: Arc<str>,
    /// Those of them that this instance holds.
    pub(crate) shards: Shards,
    pub(crate) to: StartPosition,
    /// Told which shards are being moved, and when each is.
    pub(crate) moves: Option<oneshot::Sender<Vec<Moving>>>,
}

/// Shards of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shards {
    All,
    One(String),
    AllBut(String),
}

impl Shards {
    pub(crate) fn has(&self, shard: &str) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one == shard,
            Self::AllBut(but) => but != shard,
        }
    }
}

/// A shard that is being moved.
#[derive(Debug)]
pub(crate) struct Moving {
    pub(crate) shard: String,
    /// Ends with an error where the move does not come about.
    pub(crate) done: oneshot::Receiver<()>,
}

/// Asks for moves from inside a handler. It tells nothing of records: all are equal.
#[derive(Clone, Default)]
pub(crate) struct Seeker(Option<Ways>);

#[derive(Clone)]
struct Ways {
    shard: mpsc::UnboundedSender<Seek>,
    stream: mpsc::UnboundedSender<SeekStream>,
}

impl Seeker {
    pub(crate) fn new(
        shard: mpsc::UnboundedSender<Seek>,
        stream: mpsc::UnboundedSender<SeekStream>,
    ) -> Self {
        Self(Some(Ways { shard, stream }))
    }

    pub(crate) fn shard(&self, to: StartPosition) {
        if let Some(ways) = &self.0 {
            // A reader that is gone moves nothing.
            let _ = ways.shard.send(Seek { to, done: None });
        }
    }

    /// Moves the whole stream: the handler's own shard by itself, so that nothing is handed over in between.
    pub(crate) fn stream(&self, stream: &str, own_shard: &str, to: StartPosition) {
        self.shard(to);
        if let Some(ways) = &self.0 {
            let _ = ways.stream.send(SeekStream {
                stream: stream.into(),
                shards: Shards::AllBut(own_shard.to_owned()),
                to,
                moves: None,
            });
        }
    }
}

impl PartialEq for Seeker {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Seeker {}

impl fmt::Debug for Seeker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seeker").finish_non_exhaustive()
    }
}
