//! The contract of a store, call by call.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{StreamExt as _, TryStreamExt as _};

use crate::{Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, Renewal};

/// Calls that the provided `read_all` has under way at once.
const READS_AT_ONCE: usize = 64;

/// Where leases and checkpoints are kept.
///
/// Five calls make a store; the other three have provided bodies. A wrapper must forward all eight
/// (deny `clippy::missing_trait_methods` on it), or the store inside silently loses what it can do.
/// `lease_core::conformance`, behind the feature `conformance`, checks what is promised here as far as
/// it shows from outside.
///
/// # What holds for every call
///
/// - **One row per key.** Calls on one key take effect one after the other, each of them whole or
///   not at all. Calls on different keys have nothing to do with each other.
/// - **The present holder.** A row's present holder is the last acquisition that was granted and not
///   released, whether its lease is live or has expired. `renew`, `checkpoint` and `release` are
///   accepted from it alone: owner *and* epoch must be its own. Nothing that a stale [`Holder`]
///   presents changes anything.
/// - **A refusal is an answer.** Being refused, having lost the lease and coming too late are
///   answers. An error means that the store could not answer; it says nothing about the lease, and
///   the call may or may not have taken effect.
/// - **Sent twice.** A call that already took effect may be sent again (its answer was lost, or a
///   client below retries): the second time it changes nothing and answers as the first did, unless
///   the row has changed since. Only `acquire` cannot be told from another process's that bears the
///   same owner's name; what it answers stands with it.
/// - **Cancelled.** Dropping a future before it is ready leaves the call as one whose answer was
///   lost: it took effect whole, will still do so, or never will. A checkpoint that was cancelled
///   never takes effect after one that was sent later.
/// - **Sent.** A call is sent when its future is first polled.
///
/// # Time
///
/// A lease is live until its `ttl` has passed since the acquisition or the last renewal took
/// effect; at exactly `ttl` it has expired. A store compares no two machines' clocks: it either has
/// one clock of its own, or every observer counts on its own monotonic clock how long it has seen
/// the row unchanged, from the arrival of the answer that first showed it. Such an observer finds a
/// lease expired later than it did, never sooner. Every answer that shows the row counts as a
/// sighting, a refused `acquire` included. Where somebody deletes rows by hand, an observer that saw
/// a row held counts it as held for at least one lease time from the first sighting of its absence,
/// and the epoch goes on from the highest that it saw.
///
/// A holder does not ask the store whether its lease is still live: it keeps a deadline of its own,
/// one `ttl` after it *sent* its last successful acquisition or renewal.
#[async_trait]
pub trait LeaseStore: fmt::Debug + Send + Sync + 'static {
    /// Takes the lease of a free shard for `owner`, to last for `ttl`.
    ///
    /// Granted, with the epoch one higher than the highest so far, where the row is absent, was
    /// released and is not reserved for another owner, or has expired. Of several that race exactly
    /// one is granted. The checkpoint stays as it is; an ask and a reservation end.
    ///
    /// `None` where the lease is live, even under `owner`'s own name (two processes may bear one
    /// name), or is reserved for another.
    ///
    /// **Sent twice**, it is granted once, and the second time refused, which changes nothing. A
    /// store that can lose answers may adopt instead: where it knows by a token of its own that the
    /// live lease answers a call of its own whose answer it never had, it answers with that lease.
    /// **Cancelled**, it may have taken the lease, which then expires after `ttl`.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Misconfigured`] where `owner` is empty or `ttl` is zero ([`check_owner`],
    /// [`check_ttl`]); otherwise where the store could not answer.
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError>;

    /// Keeps the lease for another `ttl`, and says whether somebody asks for it.
    ///
    /// Accepted from the present holder alone, even if its lease has expired, as long as nobody has
    /// taken it: the lease is live again. [`Renewal::Asked`] while an ask has not lapsed, otherwise
    /// [`Renewal::Held`]. [`Renewal::Lost`] after a release, a take-over, or where the row is gone,
    /// and nothing changes. Of a renewal and an acquisition that race for an expired lease exactly
    /// one succeeds.
    ///
    /// **Sent twice**, it is accepted twice, and the lease lasts from the second. **Cancelled**, it
    /// may have prolonged the lease; the holder must count from its last renewal that was answered.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Misconfigured`] where `ttl` is zero; otherwise where the store could not answer.
    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError>;

    /// Notes how far the shard has been handled.
    ///
    /// `true` from the present holder alone, even if its lease has expired, as long as nobody has
    /// taken it. `false` from anybody else, and nothing changes. It renews nothing.
    ///
    /// Checkpoints of one holder take effect in the order in which they were sent: one that lands
    /// after a later one is answered `true` and changes nothing. The store compares no sequence
    /// numbers, so a position before the last one is accepted like any other.
    ///
    /// **Sent twice** in a row, it is `true` twice. **Cancelled**, it may have taken effect, or do so
    /// until a later one does.
    ///
    /// # Errors
    ///
    /// Where the store could not answer.
    async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError>;

    /// What the store knows of the shard; [`LeaseState::default()`] where it knows nothing.
    ///
    /// Linearizable: it shows every call that was answered before it was sent. Whether the lease is
    /// live, and for how long, is what this observer knows (see *Time* above).
    ///
    /// # Errors
    ///
    /// [`LeaseError::Corrupt`] where the row cannot be understood; otherwise where the store could
    /// not answer.
    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError>;

    /// Gives the lease back, so that the next owner need not wait for it to expire.
    ///
    /// From the present holder alone; from anybody else it is `Ok(())` too, and changes nothing.
    /// Checkpoint and epoch stay. An ask that has not lapsed becomes a reservation: for half of the
    /// lease's `ttl` nobody but the asker is granted the shard.
    ///
    /// **Sent twice**, it is `Ok(())` twice; a reservation, or a lease that another has acquired
    /// since, is left alone. **Cancelled**, it may have taken effect; otherwise the lease expires.
    ///
    /// # Errors
    ///
    /// Where the store could not answer.
    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError>;

    /// What the store knows of many shards, in the order of the keys.
    ///
    /// One state for each key, each of them as [`read`](Self::read) would answer; they need not
    /// belong to one moment. Thousands of keys at once are to be expected; a key that is named
    /// twice is answered twice. The provided body reads key by key, many at once.
    ///
    /// # Errors
    ///
    /// As `read`; one key that fails fails the call.
    async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
        let reads: Vec<_> = keys.iter().map(|key| self.read(key)).collect();
        futures_util::stream::iter(reads)
            .buffered(READS_AT_ONCE)
            .try_collect()
            .await
    }

    /// Asks the holder of a live lease to hand it over to `owner`; whether `owner` now is the asker.
    ///
    /// `true` where the lease is live and another's, the shard is not finished, and nobody asks for
    /// it, or `owner` itself does, or the ask of another has lapsed. The holder learns of it from its
    /// next renewal. `false` otherwise, and nothing changes. Of several that race at most one becomes
    /// the asker. An ask takes nothing: whether to release is for the holder to decide, and a lease
    /// that expires is free for everybody.
    ///
    /// An ask lapses one lease time (the `ttl` in the row) after it was last made, so an asker that
    /// died blocks nobody. A store without one clock of its own may count that time in renewals, of
    /// which the first few must still speak of the ask, and may answer `true` for a lease of which it
    /// cannot tell that it has expired. **Sent twice**, it is `true` twice, and lapses one lease time
    /// after the second. **Cancelled**, it may have been made; it lapses.
    ///
    /// The provided body answers `false`: such a store hands nothing over, and shards change hands
    /// only when they are released or expire.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Misconfigured`] where `owner` is empty; otherwise where the store could not
    /// answer.
    async fn ask(&self, key: &LeaseKey, owner: &str) -> Result<bool, LeaseError> {
        let _ = (key, owner);
        Ok(false)
    }

    /// Clears away the row of a finished shard; whether the row is gone.
    ///
    /// `true` where the checkpoint was the end of the shard and nobody held it, live or expired, or
    /// where there was no row. `false` otherwise, and nothing changes. Whoever acquires the key later
    /// starts a new row.
    ///
    /// **Sent twice**, it is `true` twice. **Cancelled**, it may have taken effect.
    ///
    /// The provided body answers `false`: such a store keeps its rows for ever.
    ///
    /// # Errors
    ///
    /// Where the store could not answer.
    async fn forget(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
        let _ = key;
        Ok(false)
    }
}

/// Refuses the name of an owner that no store accepts; for authors of stores.
///
/// # Errors
///
/// [`LeaseError::Misconfigured`] where the name is empty.
pub fn check_owner(owner: &str) -> Result<(), LeaseError> {
    if owner.is_empty() {
        return Err(LeaseError::misconfigured(
            "the owner of a lease is \"\"; give each instance a name of its own",
        ));
    }
    Ok(())
}

/// Refuses the lease time that no store accepts; for authors of stores.
///
/// # Errors
///
/// [`LeaseError::Misconfigured`] where it is zero.
pub fn check_ttl(ttl: Duration) -> Result<(), LeaseError> {
    if ttl.is_zero() {
        return Err(LeaseError::misconfigured(format!(
            "the ttl of a lease is {ttl:?}; it must be longer than zero"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_store_accepts_is_named_in_the_error() {
        let nameless = check_owner("").unwrap_err();
        assert!(nameless.to_string().contains("\"\""), "{nameless}");
        let timeless = check_ttl(Duration::ZERO).unwrap_err();
        assert!(timeless.to_string().contains("0ns"), "{timeless}");
        for error in [nameless, timeless] {
            assert!(matches!(error, LeaseError::Misconfigured { .. }));
        }
        check_owner("a").unwrap();
        check_ttl(Duration::from_nanos(1)).unwrap();
    }
}
