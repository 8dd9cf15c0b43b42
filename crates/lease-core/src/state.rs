//! What a store says about a lease: who holds it, what is left of it, and what a renewal found.

use std::time::Duration;

use crate::Checkpoint;

/// One acquisition of a lease: its owner and its fencing token.
///
/// Every call on a held lease presents it, and a store accepts the call only where owner and epoch
/// are those of the row's present holder. An earlier acquisition of the same owner has a smaller
/// epoch, and so can change nothing either.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Who acquired the lease: unique to one process, never empty.
    pub owner: String,
    /// The fencing token: one more with every acquisition of the key, whoever acquires it.
    pub epoch: u64,
}

/// What a store knows of one shard.
///
/// [`LeaseState::default()`] is the state of a shard that nobody ever leased. The fields are public
/// so that a store outside this crate can build it; build it with `..LeaseState::default()`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseState {
    /// After which record the next reader goes on; `None` where nobody has checkpointed yet.
    pub checkpoint: Option<Checkpoint>,
    /// The row's present holder, whether its lease is live or has expired; `None` after a release.
    pub holder: Option<Holder>,
    /// Whether the holder's lease is live, as far as this observer can tell. Nobody else may
    /// acquire a live lease.
    pub live: bool,
    /// For a live lease, how long until this observer may take it if nobody renews it. For a
    /// released row that is reserved for an asker, how long the reservation still lasts. Otherwise
    /// `None`.
    pub expires_in: Option<Duration>,
    /// Who asks the holder for the lease, or for whom a released row is reserved. `None` once the
    /// ask has lapsed or the reservation has run out.
    pub asked_by: Option<String>,
    /// The highest epoch that the key ever had; outlives release and expiry. 0 where nobody ever
    /// leased the shard.
    pub epoch: u64,
}

impl LeaseState {
    /// Whether the shard was read to its end and every record of it is settled.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.checkpoint
            .as_ref()
            .is_some_and(Checkpoint::is_shard_end)
    }

    /// For whom a released row is reserved, if it is.
    #[must_use]
    pub fn reserved_for(&self) -> Option<&str> {
        match self.holder {
            None => self.asked_by.as_deref(),
            Some(_) => None,
        }
    }

    /// Whether `owner` would be granted the lease now, as far as this observer can tell.
    ///
    /// A live lease is free for nobody, not even for its own owner's name.
    ///
    /// ```
    /// use lease_core::LeaseState;
    ///
    /// let reserved = LeaseState {
    ///     asked_by: Some("b".to_owned()),
    ///     epoch: 7,
    ///     ..LeaseState::default()
    /// };
    /// assert!(reserved.is_free_for("b"));
    /// assert!(!reserved.is_free_for("a"));
    /// ```
    #[must_use]
    pub fn is_free_for(&self, owner: &str) -> bool {
        !self.live && self.reserved_for().is_none_or(|asker| asker == owner)
    }
}

/// What a renewal found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a renewal may have found the lease lost"]
pub enum Renewal {
    /// The lease is the caller's for another lease time.
    Held,
    /// As [`Renewal::Held`], and another owner asks for the lease.
    Asked {
        /// The owner that asks.
        by: String,
    },
    /// The lease is not the caller's any more: it was released, or another acquisition took it.
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder() -> Holder {
        Holder {
            owner: "a".to_owned(),
            epoch: 3,
        }
    }

    #[test]
    fn a_shard_that_nobody_leased_is_free_for_everybody_and_unfinished() {
        let state = LeaseState::default();
        assert!(state.is_free_for("a"));
        assert!(!state.is_finished());
        assert_eq!(state.reserved_for(), None);
        assert_eq!(state.epoch, 0);
    }

    #[test]
    fn a_live_lease_is_free_for_nobody_not_even_for_its_own_name() {
        let state = LeaseState {
            holder: Some(holder()),
            live: true,
            ..LeaseState::default()
        };
        assert!(!state.is_free_for("a"));
        assert!(!state.is_free_for("b"));
    }

    #[test]
    fn an_expired_lease_is_free_for_everybody_even_if_it_was_asked_for() {
        let state = LeaseState {
            holder: Some(holder()),
            asked_by: Some("b".to_owned()),
            ..LeaseState::default()
        };
        assert!(state.is_free_for("c"));
        assert_eq!(state.reserved_for(), None);
    }

    #[test]
    fn only_the_end_of_the_shard_finishes_it() {
        let at = |checkpoint| LeaseState {
            checkpoint: Some(checkpoint),
            ..LeaseState::default()
        };
        assert!(at(Checkpoint::shard_end()).is_finished());
        assert!(!at(Checkpoint::at("1")).is_finished());
    }
}
