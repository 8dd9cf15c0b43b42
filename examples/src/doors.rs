//! The lease store of the programs on a stage: one store, which each instance reaches through a door of its own. A
//! door that is shut lets nothing through, as if the instance's process stood still; and all of them count.

#![deny(clippy::missing_trait_methods)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lease_core::{
    Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal, async_trait,
};
use lease_memory::MemoryLeaseStore;
use tokio::sync::watch;

/// A store, and its doors. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doors {
    store: MemoryLeaseStore,
    /// The instances that stand still.
    paused: Arc<watch::Sender<BTreeSet<String>>>,
    checkpoints: Arc<AtomicUsize>,
}

impl Doors {
    /// The door of an instance.
    pub(crate) fn of(&self, owner: &str) -> Door {
        Door {
            owner: owner.to_owned(),
            doors: self.clone(),
        }
    }

    /// The store behind the doors.
    pub(crate) fn store(&self) -> &MemoryLeaseStore {
        &self.store
    }

    /// How many checkpoints have been asked for.
    pub(crate) fn checkpoints(&self) -> usize {
        self.checkpoints.load(Ordering::Relaxed)
    }

    pub(crate) fn shut(&self, owner: &str) {
        self.paused.send_modify(|paused| {
            paused.insert(owner.to_owned());
        });
    }

    pub(crate) fn open(&self, owner: &str) {
        self.paused.send_modify(|paused| {
            paused.remove(owner);
        });
    }

    /// Waits while an instance's door is shut.
    pub(crate) async fn pass(&self, owner: &str) {
        let mut paused = self.paused.subscribe();
        // The sender lives as long as this.
        let _ = paused.wait_for(|paused| !paused.contains(owner)).await;
    }
}

/// The store, as one instance sees it.
#[derive(Debug)]
pub(crate) struct Door {
    owner: String,
    doors: Doors,
}

impl Door {
    async fn store(&self) -> &MemoryLeaseStore {
        self.doors.pass(&self.owner).await;
        &self.doors.store
    }
}

#[async_trait]
impl LeaseStore for Door {
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        self.store().await.acquire(key, owner, ttl).await
    }

    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        self.store().await.renew(key, holder, ttl).await
    }

    async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        self.doors.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.store().await.checkpoint(key, holder, at).await
    }

    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        self.store().await.read(key).await
    }

    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        self.store().await.release(key, holder).await
    }

    async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
        self.store().await.read_all(keys).await
    }

    async fn ask(&self, key: &LeaseKey, owner: &str) -> Result<bool, LeaseError> {
        self.store().await.ask(key, owner).await
    }

    async fn forget(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
        self.store().await.forget(key).await
    }
}
