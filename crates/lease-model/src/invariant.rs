//! What must hold in every state, by name.

use std::fmt;

/// A promise of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invariant {
    /// A record is handed over by the process to which the last grant went, and under that grant.
    Exclusive,
    /// No write is accepted from a grant once a later one has taken effect.
    Fenced,
    /// The checkpoint in a row goes forward alone, until the row is deleted.
    MonotonicCheckpoint,
    /// What is checkpointed was settled by who sends it, under that grant.
    Settled,
    /// No checkpoint, and no reader, goes past what somebody has settled.
    NoLoss,
    /// A checkpoint that is answered `true` is in the row, or a later one of the same grant is.
    Kept,
    /// A call that was granted the lease is not granted it again, however often it is sent.
    GrantedOnce,
    /// No epoch is granted twice, until the row is deleted.
    NewEpoch,
    /// From every state, if nothing more goes wrong, some instance comes to hold the lease and knows it.
    Progress,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Exclusive,
        Self::Fenced,
        Self::MonotonicCheckpoint,
        Self::Settled,
        Self::NoLoss,
        Self::Kept,
        Self::GrantedOnce,
        Self::NewEpoch,
        Self::Progress,
    ];
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusive => "exclusive",
            Self::Fenced => "fenced",
            Self::MonotonicCheckpoint => "monotonic checkpoint",
            Self::Settled => "settled",
            Self::NoLoss => "no loss",
            Self::Kept => "kept",
            Self::GrantedOnce => "granted once",
            Self::NewEpoch => "new epoch",
            Self::Progress => "progress",
        })
    }
}
