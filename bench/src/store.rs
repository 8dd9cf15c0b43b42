//! A lease store in memory that takes its time with checkpoints and counts what it is asked.

#![deny(clippy::missing_trait_methods)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_core::{
    Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal, async_trait,
};
use lease_memory::MemoryLeaseStore;
use tokio::time::{Instant, sleep};

/// The store; a clone is the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedStore {
    inner: MemoryLeaseStore,
    checkpoint_takes: Duration,
    asked: Arc<Mutex<Asked>>,
}

/// What a store was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// Calls for many rows at once.
    pub(crate) listings: usize,
    /// Calls for one row.
    pub(crate) reads: usize,
    /// When each renewal came.
    pub(crate) renewals: Vec<Instant>,
}

impl WatchedStore {
    /// A store whose checkpoints take so long.
    pub(crate) fn slow(checkpoint_takes: Duration) -> Self {
        Self {
            checkpoint_takes,
            ..Self::default()
        }
    }

    /// What it was asked since this was called last.
    pub(crate) fn take_asked(&self) -> Asked {
        std::mem::take(&mut *self.asked())
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl LeaseStore for WatchedStore {
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        self.inner.acquire(key, owner, ttl).await
    }

    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        self.asked().renewals.push(Instant::now());
        self.inner.renew(key, holder, ttl).await
    }

    async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        if !self.checkpoint_takes.is_zero() {
            sleep(self.checkpoint_takes).await;
        }
        self.inner.checkpoint(key, holder, at).await
    }

    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        self.asked().reads += 1;
        self.inner.read(key).await
    }

    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        self.inner.release(key, holder).await
    }

    async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
        self.asked().listings += 1;
        self.inner.read_all(keys).await
    }

    async fn ask(&self, key: &LeaseKey, owner: &str) -> Result<bool, LeaseError> {
        self.inner.ask(key, owner).await
    }

    async fn forget(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
        self.inner.forget(key).await
    }
}
