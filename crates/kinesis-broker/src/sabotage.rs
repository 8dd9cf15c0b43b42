//! Deliberate faults, for the simulation's proof alone: one for each thing that must never happen, so that a
//! simulation can show that it would see it.
//!
//! Each is asked for where the broken decision is taken. Without the feature `sabotage` the answer is a constant
//! `false`, and nothing of it is left in the program.

#![cfg_attr(
    not(any(test, feature = "sabotage")),
    expect(
        unreachable_pub,
        dead_code,
        reason = "all of it is used with the feature alone"
    )
)]

/// A fault that every broker on this thread commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Records are handed over, and checkpoints written, though the holder's own deadline has passed.
    PastDeadline,
    /// The deadline is counted from a renewal's answer instead of its sending.
    DeadlineFromAnswer,
    /// A renewal that says "lost" passes for one that succeeded, and a refused checkpoint for one accepted.
    UnfencedHandOver,
    /// A checkpoint is written whatever the deadline, under whichever holder the row has at that moment.
    BorrowedFence,
    /// An acknowledgement checkpoints the last record that was fetched, handled or not.
    CheckpointAhead,
    /// The tip is not checkpointed, and each reader without a checkpoint takes a new one.
    TipAnew,
    /// After an expired iterator the shard is reopened at its tip.
    ReopenAhead,
    /// After an expired iterator the shard is reopened at its oldest record.
    ReopenBehind,
    /// A record that is to be retried waits for the one behind it to be handled.
    SkipRetried,
    /// No parent stands in a child's way.
    ChildBeforeParent,
    /// A checkpoint call that failed is made again three seconds later, whatever was written since.
    CheckpointBackwards,
    /// A checkpoint call that failed counts as made, and is not made again before the next acknowledgement.
    ForgetsFailed,
    /// An expired lease is never taken; a released one is.
    NeverTakesOver,
    /// A hand-over and a shutdown drop the handler that runs, and release without waiting for its outcome or for
    /// the last checkpoint.
    ReleaseBeforeSettle,
    /// What is asked for is never handed over.
    NeverGives,
    /// A shard is asked for, and given, also where that only turns one more into one less.
    AlwaysMoves,
    /// Each checkpoint is written twice.
    TwoCallsAnAck,
    /// The task that renews leases outlives its broker.
    KeepsTask,
    /// A shutdown gives no lease back.
    KeepsLease,
    /// Records of one partition key are in handlers at once.
    TwoOfOneKey,
    /// More records of a shard are in handlers at once than may be.
    MoreAtOnce,
    /// An acknowledgement checkpoints its own record, whatever is unsettled before it.
    PassesGaps,
    /// A hand-over and a shutdown leave records unsettled that have settled ones behind them.
    LeavesGaps,
    /// With an interval, a hand-over and a shutdown forget what it has kept back.
    LeavesUnwritten,
    /// The interval between checkpoints is twenty times what was asked for.
    WritesSeldom,
    /// There is no interval between checkpoints, whatever was asked for.
    WritesOften,
    /// What settles while a checkpoint is under way is not written before the next acknowledgement.
    ForgetsShared,
    /// No checkpoint is waited for before the next record is handed over.
    AwaitsNothing,
    /// What was read ahead is dropped when a hand-over is begun, also of one that is declined.
    DropsReadAhead,
    /// A shard is read on however much of it is held.
    ReadsWithoutEnd,
}

impl Sabotage {
    /// All of them.
    #[cfg(any(test, feature = "sabotage"))]
    pub const ALL: [Self; 30] = [
        Self::PastDeadline,
        Self::DeadlineFromAnswer,
        Self::UnfencedHandOver,
        Self::BorrowedFence,
        Self::CheckpointAhead,
        Self::TipAnew,
        Self::ReopenAhead,
        Self::ReopenBehind,
        Self::SkipRetried,
        Self::ChildBeforeParent,
        Self::CheckpointBackwards,
        Self::ForgetsFailed,
        Self::NeverTakesOver,
        Self::ReleaseBeforeSettle,
        Self::NeverGives,
        Self::AlwaysMoves,
        Self::TwoCallsAnAck,
        Self::KeepsTask,
        Self::KeepsLease,
        Self::TwoOfOneKey,
        Self::MoreAtOnce,
        Self::PassesGaps,
        Self::LeavesGaps,
        Self::LeavesUnwritten,
        Self::WritesSeldom,
        Self::WritesOften,
        Self::ForgetsShared,
        Self::AwaitsNothing,
        Self::DropsReadAhead,
        Self::ReadsWithoutEnd,
    ];
}

#[cfg(any(test, feature = "sabotage"))]
thread_local! {
    static COMMITTED: std::cell::Cell<Option<Sabotage>> = const { std::cell::Cell::new(None) };
}

/// From now on every broker on this thread commits this fault, or none.
#[cfg(any(test, feature = "sabotage"))]
pub fn commit(fault: Option<Sabotage>) {
    COMMITTED.set(fault);
}

/// Whether this fault is to be committed here and now.
#[cfg(any(test, feature = "sabotage"))]
pub(crate) fn is(fault: Sabotage) -> bool {
    COMMITTED.get() == Some(fault)
}

/// Never, without the feature.
#[cfg(not(any(test, feature = "sabotage")))]
#[inline(always)]
pub(crate) const fn is(_: Sabotage) -> bool {
    false
}
