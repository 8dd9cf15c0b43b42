//! Who reads which shard: the times of a lease, and the store behind a time limit for each call.

pub(crate) mod balance;
pub(crate) mod coordinator;
pub(crate) mod keeper;
pub(crate) mod lineage;
pub(crate) mod tenure;

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::{FutureExt as _, poll};
use lease_core::{Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal};
use tokio::time::{Instant, timeout};

/// How long a lease lasts in the store, and how long an observer waits before it takes one over.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// How long its holder relies on it: a thousandth less. So the holder has stopped before another can begin even
/// where their monotonic clocks differ in rate by 1,000 parts in a million over a lease. That is what two hosts can
/// come to whose clocks are disciplined by up to 500 each, as ntpd and the kernel's own discipline are; undisciplined
/// quartz is off by less than 100.
pub(crate) const RELIED_ON: Duration = Duration::from_millis(LEASE.as_secs() * 999);
/// How often a held lease is renewed.
pub(crate) const RENEW_EVERY: Duration = Duration::from_secs(3);
/// How often shards are listed and leases are read.
pub(crate) const LIST_EVERY: Duration = Duration::from_secs(3);
/// How close two listings may come when something asks for one out of turn.
pub(crate) const LIST_APART: Duration = Duration::from_millis(250);
/// How long a store may take for one call. One that hangs leaves room for two more tries before a lease
/// runs out.
const CALL: Duration = Duration::from_secs(3);

/// The store, under this instance's name. Cheap to clone.
///
/// Its calls are made on the store itself: those on the `Arc` would each box a future of their own.
#[derive(Clone, Debug)]
pub(crate) struct Leases(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn LeaseStore>,
    owner: Box<str>,
}

impl Leases {
    pub(crate) fn new(store: Arc<dyn LeaseStore>, owner: &str) -> Self {
        let owner = owner.into();
        Self(Arc::new(Inner { store, owner }))
    }

    pub(crate) fn owner(&self) -> &str {
        &self.0.owner
    }

    fn store(&self) -> &dyn LeaseStore {
        &*self.0.store
    }

    pub(crate) async fn acquire(&self, key: &LeaseKey) -> Result<Option<Holder>, LeaseError> {
        within(self.store().acquire(key, self.owner(), LEASE)).await
    }

    pub(crate) async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
    ) -> Result<Renewal, LeaseError> {
        within(self.store().renew(key, holder, LEASE)).await
    }

    pub(crate) async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        #[cfg(any(test, feature = "sabotage"))]
        if let Some(answer) = self.sabotage_checkpoint(key, holder, at).await {
            return answer;
        }
        within(self.store().checkpoint(key, holder, at)).await
    }

    pub(crate) async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        within(self.store().release(key, holder)).await
    }

    pub(crate) async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        within(self.store().read(key)).await
    }

    pub(crate) async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
        let states = within(self.store().read_all(keys)).await?;
        if states.len() != keys.len() {
            return Err(LeaseError::corrupt(format!(
                "read_all answered {} states for {} keys",
                states.len(),
                keys.len()
            )));
        }
        Ok(states)
    }

    pub(crate) async fn ask(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
        within(self.store().ask(key, self.owner())).await
    }

    pub(crate) async fn forget(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
        within(self.store().forget(key)).await
    }
}

#[cfg(any(test, feature = "sabotage"))]
impl Leases {
    /// What comes of a checkpoint under a fault that lies in the call itself; `None` leaves the call to be made.
    async fn sabotage_checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Option<Result<bool, LeaseError>> {
        use crate::sabotage::{self, Sabotage};
        let call = async || within(self.store().checkpoint(key, holder, at)).await;
        if sabotage::is(Sabotage::BorrowedFence) {
            let present = self.read(key).await.ok()?.holder?;
            return Some(within(self.store().checkpoint(key, &present, at)).await);
        }
        if sabotage::is(Sabotage::TwoCallsAnAck) {
            let _ = call().await;
        }
        if sabotage::is(Sabotage::CheckpointBackwards) {
            let answer = call().await;
            if answer.is_err() {
                let store = Arc::clone(&self.0.store);
                let (key, holder, at) = (key.clone(), holder.clone(), at.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(CALL).await;
                    let _ = within((*store).checkpoint(&key, &holder, &at)).await;
                });
            }
            return Some(answer);
        }
        None
    }
}

/// The moment `span` from now; for a span that no clock can count, one that never comes.
pub(crate) fn after(span: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(30 * 365 * 86_400);
    let now = Instant::now();
    now.checked_add(span).unwrap_or_else(|| now + NEVER)
}

async fn within<T>(call: impl Future<Output = Result<T, LeaseError>>) -> Result<T, LeaseError> {
    // A store that panics is one that fails: the tasks that call it serve other shards too.
    let mut call = pin!(AssertUnwindSafe(call).catch_unwind());
    // Where it answers at once, as one in memory does, no timer is set, nor room for one kept.
    let answered = match poll!(&mut call) {
        Poll::Ready(answer) => Ok(answer),
        Poll::Pending => Box::pin(timeout(CALL, call)).await,
    };
    match answered {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(LeaseError::unavailable("the store panicked")),
        Err(_) => Err(LeaseError::unavailable(format!(
            "no answer within {CALL:?}"
        ))),
    }
}
