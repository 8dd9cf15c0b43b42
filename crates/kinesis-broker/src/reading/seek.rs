//! A shard that is moved while it is read: what is asked for, and by whom.

use std::fmt;
use std::sync::Arc;

use lease_core::Checkpoint;
use tokio::sync::{mpsc, oneshot};

use crate::StartPosition;
use crate::leasing::lineage::Position;

/// A move of one shard, asked of its reader.
#[derive(Debug)]
pub(crate) struct Seek {
    pub(crate) to: StartPosition,
    /// Told once the move is in the store; dropped, where it does not come about.
    pub(crate) done: Option<oneshot::Sender<()>>,
}

/// The moves of one shard, from what asks for them until they are in the store. One that comes upon another takes its
/// place; whoever asked for either is told of the last.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// Where the shard is to be moved to, once no handler runs.
    to: Option<StartPosition>,
    /// The tip that it was moved to is not known yet.
    awaits_tip: bool,
    /// Who is told once the move is written.
    movers: Vec<oneshot::Sender<()>>,
}

impl Moves {
    pub(crate) fn ask(&mut self, Seek { to, done }: Seek) {
        self.to = Some(to);
        self.movers.extend(done);
    }

    /// Whether a move is asked for and not begun.
    pub(crate) fn is_asked(&self) -> bool {
        self.to.is_some()
    }

    /// Begins the move that is asked for: where to, and what to write for it. Of a move to the tip that is not known
    /// before the shard is [opened](Self::opened_at_the_tip) there.
    pub(crate) fn begin(&mut self) -> Option<(StartPosition, Position, Option<Checkpoint>)> {
        let to = self.to.take()?;
        let (position, checkpoint) = to.moves_to();
        self.awaits_tip = position == Position::Latest;
        Some((to, position, checkpoint))
    }

    /// Whether the shard is to be opened at the tip, which is to be written then.
    pub(crate) fn awaits_tip(&self) -> bool {
        self.awaits_tip
    }

    pub(crate) fn opened_at_the_tip(&mut self) {
        self.awaits_tip = false;
    }

    /// Tells whoever asked, if the last move is made and, as far as its reader knows, `is_written`.
    pub(crate) fn tell(&mut self, is_written: bool) {
        if self.is_asked() || self.awaits_tip || !is_written {
            return;
        }
        for mover in self.movers.drain(..) {
            // Whoever asked may have given up waiting.
            let _ = mover.send(());
        }
    }
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
