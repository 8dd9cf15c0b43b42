//! Lease stores that break one promise each, to prove that the checks see it. For that proof alone.

#![deny(clippy::missing_trait_methods)]

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_core::{
    Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal, async_trait,
};
use lease_memory::MemoryLeaseStore;

use crate::check::Invariant;

/// The promise that a store breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breach {
    /// It writes a checkpoint whoever sends it, as where the epoch is not compared.
    AnybodysCheckpoint,
    /// Now and then the checkpoint before the last lands once more, over the last.
    LateCheckpoint,
    /// A new holder is not shown the sequence number that the last one wrote.
    LostCheckpoint,
    /// It grants a lease that is live.
    LiveGrant,
    /// A lease lasts half as long as it was asked for.
    EarlyExpiry,
    /// Two acquisitions in a row have one epoch.
    StandingEpoch,
    /// A release by a former holder frees the row.
    FormersRelease,
    /// A release is answered and does nothing.
    NoRelease,
    /// An ask is answered with yes, and nobody hears of it.
    NoAsk,
}

impl Breach {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::AnybodysCheckpoint,
        Self::LateCheckpoint,
        Self::LostCheckpoint,
        Self::LiveGrant,
        Self::EarlyExpiry,
        Self::StandingEpoch,
        Self::FormersRelease,
        Self::NoRelease,
        Self::NoAsk,
    ];

    /// The rule that it breaks.
    #[must_use]
    pub fn breaks(self) -> Invariant {
        match self {
            Self::LateCheckpoint | Self::LostCheckpoint => Invariant::MonotonicCheckpoint,
            Self::AnybodysCheckpoint
            | Self::LiveGrant
            | Self::EarlyExpiry
            | Self::StandingEpoch
            | Self::FormersRelease => Invariant::Fenced,
            Self::NoRelease => Invariant::NoLeak,
            Self::NoAsk => Invariant::BalancedAndStill,
        }
    }
}

/// A memory store that breaks a promise. A clone is the same store.
#[derive(Clone)]
pub struct BrokenStore {
    inner: MemoryLeaseStore,
    breach: Breach,
    rows: Arc<Mutex<HashMap<LeaseKey, Row>>>,
}

/// What a store has to remember of a row to break its promises.
#[derive(Debug, Default)]
struct Row {
    /// The checkpoint that was accepted last, and whose it was.
    last: Option<(Holder, Checkpoint)>,
    written: usize,
    /// Whether the holder before has written what the present one is not to see.
    is_hidden: bool,
    /// The present holder, as the inner store has it.
    holder: Option<Holder>,
}

impl BrokenStore {
    /// A store without a row.
    #[must_use]
    pub fn new(breach: Breach) -> Self {
        Self {
            inner: MemoryLeaseStore::new(),
            breach,
            rows: Arc::default(),
        }
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<LeaseKey, Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ttl(&self, ttl: Duration) -> Duration {
        if self.breach == Breach::EarlyExpiry {
            ttl / 2
        } else {
            ttl
        }
    }

    /// How an epoch of the inner store is told.
    fn told(&self, epoch: u64) -> u64 {
        if self.breach == Breach::StandingEpoch {
            epoch.div_ceil(2)
        } else {
            epoch
        }
    }

    /// The holder that the inner store knows by what a caller presents.
    fn presented(&self, key: &LeaseKey, holder: &Holder) -> Holder {
        let present = self.rows().get(key).and_then(|row| row.holder.clone());
        let present = present.filter(|present| {
            present.owner == holder.owner && self.told(present.epoch) == holder.epoch
        });
        // No acquisition ever has epoch zero.
        present.unwrap_or_else(|| Holder {
            owner: holder.owner.clone(),
            epoch: 0,
        })
    }

    async fn present(&self, key: &LeaseKey) -> Result<Option<Holder>, LeaseError> {
        Ok(self.inner.read(key).await?.holder)
    }

    /// The checkpoint to write once more, if one is to land late now.
    fn lands_late(&self, key: &LeaseKey, holder: &Holder, at: &Checkpoint) -> Option<Checkpoint> {
        let mut rows = self.rows();
        let row = rows.entry(key.clone()).or_default();
        row.written += 1;
        let before = row.last.replace((holder.clone(), at.clone()));
        let before = before.filter(|(by, before)| by == holder && before != at)?;
        (self.breach == Breach::LateCheckpoint && row.written.is_multiple_of(3)).then_some(before.1)
    }

    fn show(&self, key: &LeaseKey, mut state: LeaseState) -> LeaseState {
        let is_hidden = self.rows().get(key).is_some_and(|row| row.is_hidden);
        if is_hidden
            && state
                .checkpoint
                .as_ref()
                .is_some_and(|at| at.sequence().is_some())
        {
            state.checkpoint = None;
        }
        state.epoch = self.told(state.epoch);
        if let Some(holder) = &mut state.holder {
            holder.epoch = self.told(holder.epoch);
        }
        state
    }
}

impl fmt::Debug for BrokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokenStore")
            .field("breach", &self.breach)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl LeaseStore for BrokenStore {
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        if self.breach == Breach::LiveGrant
            && let Some(present) = self.present(key).await?
        {
            self.inner.release(key, &present).await?;
        }
        let granted = self.inner.acquire(key, owner, self.ttl(ttl)).await?;
        Ok(granted.map(|holder| {
            let mut rows = self.rows();
            let row = rows.entry(key.clone()).or_default();
            row.is_hidden = self.breach == Breach::LostCheckpoint && row.last.is_some();
            row.holder = Some(holder.clone());
            Holder {
                epoch: self.told(holder.epoch),
                ..holder
            }
        }))
    }

    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        let holder = self.presented(key, holder);
        self.inner.renew(key, &holder, self.ttl(ttl)).await
    }

    async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        let holder = match self.present(key).await? {
            Some(present) if self.breach == Breach::AnybodysCheckpoint => present,
            _ => self.presented(key, holder),
        };
        let is_accepted = self.inner.checkpoint(key, &holder, at).await?;
        if is_accepted {
            let late = self.lands_late(key, &holder, at);
            self.rows().entry(key.clone()).or_default().is_hidden = false;
            if let Some(late) = late {
                self.inner.checkpoint(key, &holder, &late).await?;
            }
        }
        Ok(is_accepted)
    }

    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        Ok(self.show(key, self.inner.read(key).await?))
    }

    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        let holder = match self.breach {
            Breach::NoRelease => return Ok(()),
            Breach::FormersRelease => self.present(key).await?.unwrap_or_else(|| holder.clone()),
            _ => self.presented(key, holder),
        };
        self.inner.release(key, &holder).await
    }

    async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
        let states = self.inner.read_all(keys).await?.into_iter();
        Ok(keys
            .iter()
            .zip(states)
            .map(|(key, state)| self.show(key, state))
            .collect())
    }

    async fn ask(&self, key: &LeaseKey, owner: &str) -> Result<bool, LeaseError> {
        if self.breach == Breach::NoAsk {
            return Ok(true);
        }
        self.inner.ask(key, owner).await
    }

    async fn forget(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
        let is_gone = self.inner.forget(key).await?;
        if is_gone {
            self.rows().remove(key);
        }
        Ok(is_gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn key() -> LeaseKey {
        LeaseKey::new("inventory", "0")
    }

    async fn acquire(store: &BrokenStore, owner: &str) -> Option<Holder> {
        store.acquire(&key(), owner, TTL).await.unwrap()
    }

    async fn checkpoint(store: &BrokenStore, holder: &Holder, at: &str) -> bool {
        store
            .checkpoint(&key(), holder, &Checkpoint::at(at))
            .await
            .unwrap()
    }

    /// What one store does where promises may be broken.
    #[derive(Debug, Default, PartialEq)]
    struct Seen {
        live_grant: bool,
        early_expiry: bool,
        former_writes: bool,
        goes_back: bool,
        hides: bool,
        epoch_stands: bool,
        former_frees: bool,
        keeps: bool,
        asks_in_vain: bool,
    }

    async fn look_at(breach: Breach) -> Seen {
        let store = || BrokenStore::new(breach);
        let mut seen = Seen::default();

        let live = store();
        acquire(&live, "a").await.unwrap();
        seen.live_grant = acquire(&live, "b").await.is_some();

        let expiring = store();
        acquire(&expiring, "a").await.unwrap();
        tokio::time::advance(TTL - Duration::from_millis(1)).await;
        seen.early_expiry = !expiring.read(&key()).await.unwrap().live;

        let moved = store();
        let first = acquire(&moved, "a").await.unwrap();
        for at in ["1", "2", "3"] {
            assert!(checkpoint(&moved, &first, at).await);
        }
        let written = moved.read(&key()).await.unwrap().checkpoint;
        seen.goes_back = written != Some(Checkpoint::at("3"));
        tokio::time::advance(TTL).await;
        let second = acquire(&moved, "b").await.unwrap();
        seen.epoch_stands = second.epoch == first.epoch;
        seen.hides = moved.read(&key()).await.unwrap().checkpoint.is_none();
        seen.former_writes = checkpoint(&moved, &first, "3").await;
        moved.release(&key(), &first).await.unwrap();
        seen.former_frees = moved.read(&key()).await.unwrap().holder.is_none();

        let asked = store();
        let holder = acquire(&asked, "a").await.unwrap();
        assert!(asked.ask(&key(), "b").await.unwrap());
        let renewal = asked.renew(&key(), &holder, TTL).await.unwrap();
        seen.asks_in_vain = renewal == Renewal::Held;
        asked.release(&key(), &holder).await.unwrap();
        seen.keeps = asked.read(&key()).await.unwrap().holder.is_some();
        seen
    }

    #[tokio::test(start_paused = true)]
    async fn each_store_breaks_its_own_promise_and_keeps_the_others() {
        for breach in Breach::ALL {
            let mut expected = Seen::default();
            *match breach {
                Breach::AnybodysCheckpoint => &mut expected.former_writes,
                Breach::LateCheckpoint => &mut expected.goes_back,
                Breach::LostCheckpoint => &mut expected.hides,
                Breach::LiveGrant => &mut expected.live_grant,
                Breach::EarlyExpiry => &mut expected.early_expiry,
                Breach::StandingEpoch => &mut expected.epoch_stands,
                Breach::FormersRelease => &mut expected.former_frees,
                Breach::NoRelease => &mut expected.keeps,
                Breach::NoAsk => &mut expected.asks_in_vain,
            } = true;
            assert_eq!(look_at(breach).await, expected, "{breach:?}");
        }
    }
}
