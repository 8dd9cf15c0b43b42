//! What notes the calls on their way to a store.

#![deny(clippy::missing_trait_methods)]

use std::time::Duration;

use async_trait::async_trait;

use super::history::{Answer, Call, History};
use crate::{Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal};

/// A store that notes each call and its answer in a [`History`]. It counts on tokio's clock.
///
/// One recorder goes round one instance of a store; a clone is the same. Any number of tasks may use it, as long as
/// the checkpoints of one holder are sent by one task: their order counts.
///
/// ```
/// # #[derive(Debug, Clone)]
/// # struct YourStore;
/// # #[lease_core::async_trait]
/// # impl LeaseStore for YourStore {
/// #     async fn acquire(&self, _: &LeaseKey, _: &str, _: Duration) -> Result<Option<lease_core::Holder>, lease_core::LeaseError> { Ok(None) }
/// #     async fn renew(&self, _: &LeaseKey, _: &lease_core::Holder, _: Duration) -> Result<lease_core::Renewal, lease_core::LeaseError> { Ok(lease_core::Renewal::Lost) }
/// #     async fn checkpoint(&self, _: &LeaseKey, _: &lease_core::Holder, _: &lease_core::Checkpoint) -> Result<bool, lease_core::LeaseError> { Ok(false) }
/// #     async fn read(&self, _: &LeaseKey) -> Result<lease_core::LeaseState, lease_core::LeaseError> { Ok(Default::default()) }
/// #     async fn release(&self, _: &LeaseKey, _: &lease_core::Holder) -> Result<(), lease_core::LeaseError> { Ok(()) }
/// # }
/// use std::time::Duration;
///
/// use lease_core::conformance::linearizability::{History, Recorder};
/// use lease_core::{LeaseKey, LeaseStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let history = History::new();
/// let store = Recorder::new(YourStore, &history);
/// let key = LeaseKey::new("inventory", "shardId-000000000000");
/// let ttl = Duration::from_secs(10);
/// let (a, b) = tokio::join!(store.acquire(&key, "a", ttl), store.acquire(&key, "b", ttl));
/// assert!(a.is_ok() && b.is_ok());
///
/// // This store refused both, and no order of the two explains that.
/// let violation = history.check().unwrap_err();
/// assert!(violation.to_string().contains(": refused"));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Recorder<S> {
    store: S,
    history: History,
    instance: usize,
}

impl<S: LeaseStore> Recorder<S> {
    /// Notes the calls to this instance of a store.
    #[must_use]
    pub fn new(store: S, history: &History) -> Self {
        Self {
            store,
            history: history.clone(),
            instance: history.instance(),
        }
    }

    fn recording(&self) -> Recording<'_> {
        Recording {
            store: &self.store,
            history: &self.history,
            instance: self.instance,
            now: &|history| history.elapsed(),
        }
    }
}

#[async_trait]
impl<S: LeaseStore> LeaseStore for Recorder<S> {
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        self.recording().acquire(key, owner, ttl).await
    }

    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        self.recording().renew(key, holder, ttl).await
    }

    async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        self.recording().checkpoint(key, holder, at).await
    }

    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        self.recording().read(key).await
    }

    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        self.recording().release(key, holder).await
    }

    async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
        self.recording().read_all(keys).await
    }

    async fn ask(&self, key: &LeaseKey, owner: &str) -> Result<bool, LeaseError> {
        self.recording().ask(key, owner).await
    }

    async fn forget(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
        self.recording().forget(key).await
    }
}

/// The same round a store that is borrowed, on whatever clock.
#[derive(Clone, Copy)]
pub(super) struct Recording<'a> {
    pub(super) store: &'a dyn LeaseStore,
    pub(super) history: &'a History,
    pub(super) instance: usize,
    pub(super) now: &'a (dyn Fn(&History) -> Duration + Sync),
}

impl Recording<'_> {
    /// Notes a call when it is sent, which is when this is first polled, and its answer if one comes.
    async fn noted<T>(
        &self,
        key: &LeaseKey,
        call: Call,
        sent: impl Future<Output = Result<T, LeaseError>>,
        answer: impl FnOnce(&T) -> Answer,
    ) -> Result<T, LeaseError> {
        let number = self
            .history
            .begin(self.instance, key, call, (self.now)(self.history));
        let answered = sent.await?;
        self.history
            .end(number, answer(&answered), (self.now)(self.history));
        Ok(answered)
    }

    pub(super) async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        let call = Call::Acquire {
            owner: owner.to_owned(),
            ttl,
        };
        let sent = self.store.acquire(key, owner, ttl);
        self.noted(key, call, sent, |granted| Answer::Acquired(granted.clone()))
            .await
    }

    pub(super) async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        let call = Call::Renew {
            holder: holder.clone(),
            ttl,
        };
        let sent = self.store.renew(key, holder, ttl);
        self.noted(key, call, sent, |renewal| Answer::Renewed(renewal.clone()))
            .await
    }

    pub(super) async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        let call = Call::Checkpoint {
            holder: holder.clone(),
            at: at.clone(),
        };
        let sent = self.store.checkpoint(key, holder, at);
        self.noted(key, call, sent, |accepted| Answer::Checkpointed(*accepted))
            .await
    }

    pub(super) async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        let sent = self.store.read(key);
        self.noted(key, Call::Read, sent, |state| Answer::State(state.clone()))
            .await
    }

    pub(super) async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        let call = Call::Release {
            holder: holder.clone(),
        };
        let sent = self.store.release(key, holder);
        self.noted(key, call, sent, |()| Answer::Released).await
    }

    pub(super) async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
        let began = (self.now)(self.history);
        let begin = |key| self.history.begin(self.instance, key, Call::Read, began);
        let numbers: Vec<usize> = keys.iter().map(begin).collect();
        let states = self.store.read_all(keys).await?;
        let ended = (self.now)(self.history);
        for (number, state) in numbers.into_iter().zip(&states) {
            self.history
                .end(number, Answer::State(state.clone()), ended);
        }
        Ok(states)
    }

    pub(super) async fn ask(&self, key: &LeaseKey, owner: &str) -> Result<bool, LeaseError> {
        let call = Call::Ask {
            owner: owner.to_owned(),
        };
        let sent = self.store.ask(key, owner);
        self.noted(key, call, sent, |asked| Answer::Asked(*asked))
            .await
    }

    pub(super) async fn forget(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
        let sent = self.store.forget(key);
        self.noted(key, Call::Forget, sent, |gone| Answer::Forgotten(*gone))
            .await
    }
}
