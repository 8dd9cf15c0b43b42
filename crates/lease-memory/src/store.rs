//! The map of rows behind its lock, and the one clock that they count on.

#![deny(clippy::missing_trait_methods)]

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease_core::{
    Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal, async_trait,
    check_owner, check_ttl,
};
use tokio::time::Instant;

use crate::row::Row;

/// Leases in the memory of this process; a clone is the same store.
///
/// Time is [`tokio::time::Instant`]'s, so a paused clock drives the leases. A call takes effect when
/// it is first polled and is ready at once, at a cost that does not grow with the number of leases.
/// A panic elsewhere in the process, even one that poisons the lock, costs nobody a lease.
///
/// ```
/// use std::sync::Arc;
///
/// use lease_core::LeaseStore;
/// use lease_memory::MemoryLeaseStore;
///
/// let store = MemoryLeaseStore::new();
/// let of_one_instance: Arc<dyn LeaseStore> = Arc::new(store.clone());
/// let of_another: Arc<dyn LeaseStore> = Arc::new(store); // the same rows
/// ```
#[derive(Clone, Default)]
pub struct MemoryLeaseStore {
    rows: Arc<Mutex<HashMap<LeaseKey, Row>>>,
}

impl MemoryLeaseStore {
    /// A store without a row.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<LeaseKey, Row>> {
        // Every change to a row is made whole or not at all, so a poisoned map is a sound one.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryLeaseStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLeaseStore")
            .field("rows", &self.rows().len())
            .finish()
    }
}

#[async_trait]
impl LeaseStore for MemoryLeaseStore {
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        check_owner(owner)?;
        check_ttl(ttl)?;
        let mut rows = self.rows();
        let now = Instant::now();
        if let Some(row) = rows.get_mut(key) {
            return Ok(row.acquire(owner, ttl, now));
        }
        let mut row = Row::default();
        let granted = row.acquire(owner, ttl, now);
        rows.insert(key.clone(), row);
        Ok(granted)
    }

    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        check_ttl(ttl)?;
        Ok(match self.rows().get_mut(key) {
            Some(row) => row.renew(holder, ttl, Instant::now()),
            None => Renewal::Lost,
        })
    }

    async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        Ok(match self.rows().get_mut(key) {
            Some(row) => row.checkpoint(holder, at),
            None => false,
        })
    }

    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        Ok(state_of(self.rows().get(key), Instant::now()))
    }

    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        if let Some(row) = self.rows().get_mut(key) {
            row.release(holder, Instant::now());
        }
        Ok(())
    }

    async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
        let rows = self.rows();
        let now = Instant::now();
        Ok(keys
            .iter()
            .map(|key| state_of(rows.get(key), now))
            .collect())
    }

    async fn ask(&self, key: &LeaseKey, owner: &str) -> Result<bool, LeaseError> {
        check_owner(owner)?;
        Ok(match self.rows().get_mut(key) {
            Some(row) => row.ask(owner, Instant::now()),
            None => false,
        })
    }

    async fn forget(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
        let mut rows = self.rows();
        if rows.get(key).is_some_and(|row| !row.may_be_forgotten()) {
            return Ok(false);
        }
        rows.remove(key);
        Ok(true)
    }
}

fn state_of(row: Option<&Row>, now: Instant) -> LeaseState {
    row.map(|row| row.state(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn key(shard: &str) -> LeaseKey {
        LeaseKey::new("inventory", shard)
    }

    #[tokio::test(start_paused = true)]
    async fn a_poisoned_lock_costs_nobody_a_lease() {
        let store = MemoryLeaseStore::new();
        let holder = store.acquire(&key("0"), "a", TTL).await.unwrap().unwrap();

        let shared = store.clone();
        let panicked = thread::spawn(move || {
            let _rows = shared.rows();
            panic!("in the middle of a call");
        });
        assert!(panicked.join().is_err());
        assert!(store.rows.is_poisoned());

        assert_eq!(
            store.renew(&key("0"), &holder, TTL).await.unwrap(),
            Renewal::Held
        );
        assert_eq!(store.acquire(&key("0"), "b", TTL).await.unwrap(), None);
        assert!(store.acquire(&key("1"), "b", TTL).await.unwrap().is_some());
        assert_eq!(format!("{store:?}"), "MemoryLeaseStore { rows: 2 }");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_a_caller_costs_nobody_a_lease() {
        let store = MemoryLeaseStore::new();
        let held = store.acquire(&key("0"), "a", TTL).await.unwrap().unwrap();

        let shared = store.clone();
        let caller = tokio::spawn(async move {
            let _lost = shared.acquire(&key("1"), "b", TTL).await;
            panic!("with a lease in its hands");
        });
        assert!(caller.await.unwrap_err().is_panic());

        assert_eq!(
            store.renew(&key("0"), &held, TTL).await.unwrap(),
            Renewal::Held
        );
        assert!(store.read(&key("1")).await.unwrap().live);
        tokio::time::advance(TTL).await;
        let next = store.acquire(&key("1"), "c", TTL).await.unwrap().unwrap();
        assert_eq!(next.epoch, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_takes_effect_when_it_is_first_polled_and_not_before() {
        let store = MemoryLeaseStore::new();
        drop(store.acquire(&key("0"), "a", TTL));
        assert_eq!(store.read(&key("0")).await.unwrap(), LeaseState::default());
        assert_eq!(format!("{store:?}"), "MemoryLeaseStore { rows: 0 }");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_call_on_an_unknown_key_makes_no_row() {
        let store = MemoryLeaseStore::new();
        let nobody = Holder {
            owner: "a".to_owned(),
            epoch: 1,
        };
        let at = Checkpoint::at("1");
        assert!(!store.checkpoint(&key("0"), &nobody, &at).await.unwrap());
        assert!(!store.ask(&key("0"), "b").await.unwrap());
        store.release(&key("0"), &nobody).await.unwrap();
        assert_eq!(
            store.renew(&key("0"), &nobody, TTL).await.unwrap(),
            Renewal::Lost
        );
        assert_eq!(format!("{store:?}"), "MemoryLeaseStore { rows: 0 }");
    }
}
