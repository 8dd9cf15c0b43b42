//! What a tenure does with its lease: positions written, leases lost, rows that vanish.

use std::time::Duration;

use lease_core::{LeaseState, LeaseStore, Renewal};
use lease_memory::MemoryLeaseStore;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::*;
use crate::leasing::LEASE;
use crate::leasing::lineage::ShardInfo;

/// A store by observation, on which the row of the first acquisition has vanished.
#[derive(Debug)]
struct Remembering {
    inner: MemoryLeaseStore,
    /// What it shows of the row that is gone.
    shown: LeaseState,
}

#[lease_core::async_trait]
impl LeaseStore for Remembering {
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        let granted = self.inner.acquire(key, owner, ttl).await?;
        if let Some(first) = granted.as_ref().filter(|holder| holder.epoch == 1) {
            self.inner.release(key, first).await?;
        }
        Ok(granted)
    }

    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        self.inner.renew(key, holder, ttl).await
    }

    async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        self.inner.checkpoint(key, holder, at).await
    }

    async fn read(&self, _: &LeaseKey) -> Result<LeaseState, LeaseError> {
        Ok(self.shown.clone())
    }

    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        self.inner.release(key, holder).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_vanished_row_that_its_store_remembers_is_acquired_anew() {
    let own = |epoch| {
        let owner = "a".to_owned();
        Some(Holder { owner, epoch })
    };
    let states = [(own(1), 1), (None, 1), (None, 0)];
    for (holder, epoch) in states {
        let shown = LeaseState {
            holder,
            epoch,
            ..LeaseState::default()
        };
        let inner = MemoryLeaseStore::new();
        let store = Remembering {
            inner: inner.clone(),
            shown,
        };
        let mut tenure = tenure_on(Arc::new(store)).await;
        tenure.settle(Checkpoint::at("7"));
        assert_eq!(tenure.progress().await, Progress::Reclaimed);
        assert_eq!(tenure.progress().await, Progress::Written);
        assert_eq!(checkpoint(&inner, &tenure).await.as_deref(), Some("7"));
    }
}

async fn tenure(store: &MemoryLeaseStore) -> Tenure {
    tenure_on(Arc::new(store.clone())).await
}

async fn tenure_on(store: Arc<dyn LeaseStore>) -> Tenure {
    tenure_of(store, &[]).await
}

/// A tenure of shard 0 while these shards are listed.
async fn tenure_of(store: Arc<dyn LeaseStore>, listed: &[&str]) -> Tenure {
    let listed = listed.iter().map(|id| ShardInfo {
        id: Arc::from(*id),
        parent: None,
        adjacent_parent: None,
        hash_keys: None,
        starting_sequence_number: "0".to_owned(),
        ending_sequence_number: None,
        ended_before_start: false,
    });
    let (_, listing) = watch::channel(Arc::new(Listing::new(listed.collect())));
    let leases = Leases::new(store, "a");
    let (asked, _) = mpsc::unbounded_channel();
    let keeper = Keeper::start(leases.clone(), Reports::default(), asked, 7);
    let key = LeaseKey::new("inventory", "0");
    let keeper = Arc::new(keeper);
    let begun = Tenure::begin(leases, keeper, Reports::default(), key, listing, None, 7);
    begun.await.unwrap().unwrap()
}

/// Out of touch for longer than its lease, another instance reads the shard to its end and forgets its row.
async fn overslept_with(listed: &[&str]) -> (MemoryLeaseStore, Progress) {
    let store = MemoryLeaseStore::new();
    let mut tenure = tenure_of(Arc::new(store.clone()), listed).await;
    tenure.settle(Checkpoint::at("7"));
    assert_eq!(tenure.progress().await, Progress::Written);
    // The whole process stands still.
    tokio::time::advance(LEASE + LEASE).await;
    let key = tenure.key().clone();
    let other = store.acquire(&key, "x", LEASE).await.unwrap().unwrap();
    let end = Checkpoint::shard_end();
    assert!(store.checkpoint(&key, &other, &end).await.unwrap());
    store.release(&key, &other).await.unwrap();
    assert!(store.forget(&key).await.unwrap());
    (store, tenure.progress().await)
}

#[tokio::test(start_paused = true)]
async fn the_row_of_a_shard_that_another_finished_and_forgot_is_not_acquired_anew() {
    let (store, progress) = overslept_with(&["1"]).await;
    assert_eq!(progress, Progress::Lost);
    let state = store.read(&LeaseKey::new("inventory", "0")).await.unwrap();
    assert_eq!(state, LeaseState::default());
}

#[tokio::test(start_paused = true)]
async fn the_row_of_a_listed_shard_is_acquired_anew_however_long_its_holder_slept() {
    let (_, progress) = overslept_with(&["0", "1"]).await;
    assert_eq!(progress, Progress::Reclaimed);
}

async fn checkpoint(store: &MemoryLeaseStore, tenure: &Tenure) -> Option<String> {
    let state = store.read(tenure.key()).await.unwrap();
    state.checkpoint.map(|at| at.to_string())
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_of_several_settled_positions_is_written() {
    let store = MemoryLeaseStore::new();
    let mut tenure = tenure(&store).await;
    assert!(tenure.is_written());
    for n in 1..=3 {
        tenure.settle(Checkpoint::at(n.to_string()));
    }
    assert!(!tenure.is_written());
    assert_eq!(tenure.progress().await, Progress::Written);
    assert!(tenure.is_written());
    assert_eq!(checkpoint(&store, &tenure).await.as_deref(), Some("3"));
}

#[tokio::test(start_paused = true)]
async fn with_nothing_to_do_there_is_no_progress() {
    let store = MemoryLeaseStore::new();
    let mut tenure = tenure(&store).await;
    tenure.opened_at(Checkpoint::at("1"));
    let minute = Duration::from_secs(60);
    assert!(timeout(minute, tenure.progress()).await.is_err());
    assert!(tenure.is_firm());
    assert_eq!(checkpoint(&store, &tenure).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_has_is_lost_and_nothing_more_is_written() {
    let store = MemoryLeaseStore::new();
    let mut tenure = tenure(&store).await;
    let (key, holder) = (tenure.key().clone(), tenure.holder().clone());
    store.release(&key, &holder).await.unwrap();
    store.acquire(&key, "x", LEASE).await.unwrap().unwrap();
    tenure.settle(Checkpoint::at("1"));
    assert_eq!(tenure.progress().await, Progress::Lost);
    assert_eq!(checkpoint(&store, &tenure).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_free_at_once_and_renewed_no_more() {
    let store = MemoryLeaseStore::new();
    let tenure = tenure(&store).await;
    let key = tenure.key().clone();
    tenure.release().await;
    assert_eq!(store.read(&key).await.unwrap().holder, None);
    sleep(LEASE).await;
    assert_eq!(store.read(&key).await.unwrap().holder, None);
}
