//! The rules that can be left out, to prove that the model notices.

use crate::invariant::Invariant;
use crate::world::World;

/// A rule of the protocol that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// A holder goes on handing over, renewed or not.
    DeadlineIgnored,
    /// A holder counts its deadline from the arrival of the answer.
    DeadlineFromArrival,
    /// An observer counts a lease from when it sent the call whose answer showed it.
    ExpiryFromSent,
    /// An observer begins to count anew with each answer, also where it shows nothing new.
    EachAnswerStartsAnew,
    /// A lease that has expired is taken over whatever its counter.
    TakeOverWithoutCounter,
    /// A renewal leaves the counter as it is.
    RenewalCountsNothing,
    /// A take-over leaves the epoch as it is.
    EpochStays,
    /// A free lease is taken whatever epoch was seen.
    FreeWithoutEpoch,
    /// A renewal is accepted from an earlier acquisition of the same name.
    RenewWithoutEpoch,
    /// A checkpoint is accepted from an earlier acquisition of the same name.
    CheckpointWithoutEpoch,
    /// A release is accepted from an earlier acquisition of the same name.
    ReleaseWithoutEpoch,
    /// A checkpoint is accepted after a later one.
    CheckpointWithoutNumber,
    /// The number of the last checkpoint outlives the acquisition that numbered it.
    NumberOutlivesItsGrant,
    /// A live lease is adopted by whoever bears its owner's name.
    AdoptionWithoutToken,
    /// An adopted lease is read at once.
    AdoptedIsReadAtOnce,
    /// The absence of a row that was seen before frees it at once.
    VanishedIsNotWaitedFor,
    /// A row that vanished is its last holder's own, however long that has not renewed it.
    VanishedIsItsOwnForEver,
    /// An acquisition of a released row is granted where the row is absent as well.
    VanishedRowIsFree,
    /// A shard is opened where its checkpoint stood before it was acquired.
    OpensWhereItStoodBefore,
    /// A shard without a checkpoint is opened at its tip.
    OpensAtTheTip,
    /// What was handed over is checkpointed, settled or not.
    CheckpointsUnsettled,
    /// A reservation counts until its asker comes.
    ReservationForEver,
    /// A person deletes a row that an instance has never seen.
    DeletesAnUnseenRow,
    /// A person deletes a row while a call is on its way that found none.
    DeletesUnderAFirstCall,
    /// A row is forgotten while calls on it are on their way.
    ForgetsUnderACall,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::DeadlineIgnored,
        Self::DeadlineFromArrival,
        Self::ExpiryFromSent,
        Self::EachAnswerStartsAnew,
        Self::TakeOverWithoutCounter,
        Self::RenewalCountsNothing,
        Self::EpochStays,
        Self::FreeWithoutEpoch,
        Self::RenewWithoutEpoch,
        Self::CheckpointWithoutEpoch,
        Self::ReleaseWithoutEpoch,
        Self::CheckpointWithoutNumber,
        Self::NumberOutlivesItsGrant,
        Self::AdoptionWithoutToken,
        Self::AdoptedIsReadAtOnce,
        Self::VanishedIsNotWaitedFor,
        Self::VanishedIsItsOwnForEver,
        Self::VanishedRowIsFree,
        Self::OpensWhereItStoodBefore,
        Self::OpensAtTheTip,
        Self::CheckpointsUnsettled,
        Self::ReservationForEver,
        Self::DeletesAnUnseenRow,
        Self::DeletesUnderAFirstCall,
        Self::ForgetsUnderACall,
    ];
}

impl Flaw {
    /// The smallest world in which it shows.
    #[must_use]
    pub fn world(self) -> World {
        let leases = World {
            records: 0,
            ..World::new("")
        };
        let records = World {
            renewals: 0,
            ..World::new("")
        };
        let world = match self {
            Self::DeadlineIgnored
            | Self::DeadlineFromArrival
            | Self::ExpiryFromSent
            | Self::TakeOverWithoutCounter
            | Self::RenewalCountsNothing
            | Self::EpochStays => leases,
            Self::EachAnswerStartsAnew => World {
                crashes: 1,
                progress: true,
                ..leases
            },
            Self::FreeWithoutEpoch => World {
                duplicates: 1,
                renewals: 0,
                grants: 3,
                ..leases
            },
            Self::RenewWithoutEpoch | Self::ReleaseWithoutEpoch | Self::AdoptedIsReadAtOnce => {
                World {
                    lost_answers: 1,
                    ..leases
                }
            }
            Self::CheckpointWithoutEpoch | Self::CheckpointWithoutNumber => World {
                lost_answers: 1,
                ..records
            },
            Self::AdoptionWithoutToken => World {
                twins: true,
                ..leases
            },
            Self::VanishedIsNotWaitedFor | Self::VanishedRowIsFree => World {
                deletions: 1,
                hasty: true,
                ..leases
            },
            Self::NumberOutlivesItsGrant
            | Self::OpensWhereItStoodBefore
            | Self::OpensAtTheTip
            | Self::CheckpointsUnsettled => records,
            Self::VanishedIsItsOwnForEver => World {
                deletions: 1,
                grants: 3,
                renewals: 0,
                ..leases
            },
            Self::DeletesAnUnseenRow => World {
                deletions: 1,
                ..leases
            },
            Self::DeletesUnderAFirstCall => World {
                deletions: 1,
                lost_answers: 1,
                ..leases
            },
            Self::ForgetsUnderACall => World {
                twins: true,
                forgets: 1,
                records: 1,
                lost_answers: 1,
                ..records
            },
            Self::ReservationForEver => World {
                asks: 1,
                crashes: 1,
                progress: true,
                ..leases
            },
        };
        World {
            flaw: Some(self),
            ..world
        }
    }

    /// The invariant that it breaks first.
    #[must_use]
    pub fn breaks(self) -> Invariant {
        match self {
            Self::DeadlineIgnored
            | Self::DeadlineFromArrival
            | Self::ExpiryFromSent
            | Self::TakeOverWithoutCounter
            | Self::RenewalCountsNothing
            | Self::AdoptionWithoutToken
            | Self::AdoptedIsReadAtOnce
            | Self::VanishedIsNotWaitedFor
            | Self::VanishedIsItsOwnForEver
            | Self::VanishedRowIsFree
            | Self::DeletesAnUnseenRow
            | Self::DeletesUnderAFirstCall => Invariant::Exclusive,
            Self::RenewWithoutEpoch
            | Self::CheckpointWithoutEpoch
            | Self::ReleaseWithoutEpoch
            | Self::ForgetsUnderACall => Invariant::Fenced,
            Self::CheckpointWithoutNumber | Self::OpensWhereItStoodBefore => {
                Invariant::MonotonicCheckpoint
            }
            Self::CheckpointsUnsettled => Invariant::Settled,
            Self::OpensAtTheTip => Invariant::NoLoss,
            Self::NumberOutlivesItsGrant => Invariant::Kept,
            Self::FreeWithoutEpoch => Invariant::GrantedOnce,
            Self::EpochStays => Invariant::NewEpoch,
            Self::EachAnswerStartsAnew | Self::ReservationForEver => Invariant::Progress,
        }
    }
}

/// The rules that hold: all of them, or all but one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules(pub(crate) Option<Flaw>);

impl Rules {
    /// Whether this is the rule that is broken.
    pub(crate) fn lack(self, flaw: Flaw) -> bool {
        self.0 == Some(flaw)
    }

    /// Whether a call is refused for ever once the row has moved on.
    pub(crate) fn refuse_what_is_late(self) -> bool {
        !matches!(
            self.0,
            Some(
                Flaw::TakeOverWithoutCounter
                    | Flaw::EpochStays
                    | Flaw::FreeWithoutEpoch
                    | Flaw::RenewWithoutEpoch
                    | Flaw::CheckpointWithoutEpoch
                    | Flaw::ReleaseWithoutEpoch
                    | Flaw::CheckpointWithoutNumber
                    | Flaw::NumberOutlivesItsGrant
            )
        )
    }
}
