//! A memory store whose calls can be made to fail, hang, come late or lose their answers.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lease_core::{Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal};
use lease_memory::MemoryLeaseStore;
use tokio::time::{Instant, sleep};

/// A call of the trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Acquire,
    Renew,
    Checkpoint,
    Read,
    ReadAll,
    Release,
    Ask,
    Forget,
}

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It fails, and changes nothing.
    Fails,
    /// As `Fails`, with the error of a store that throttles.
    Throttles,
    /// It takes effect, and its answer is lost.
    LosesAnswer,
    /// It is never answered, and changes nothing.
    Hangs,
    /// It takes effect after this long.
    Late(Duration),
    /// It takes effect at once, and is answered after this long.
    AnswersLate(Duration),
    /// It takes effect at once; then the whole process stands still for this long before the answer is
    /// looked at.
    Freezes(Duration),
}

/// A call that was made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) call: Call,
    /// The shard's key; empty for `read_all`.
    pub(crate) key: String,
    /// The instance that made it.
    pub(crate) owner: String,
    /// The epoch that it presented; for `acquire`, the one that was granted.
    pub(crate) epoch: u64,
    /// How many keys it was for.
    pub(crate) keys: usize,
    pub(crate) checkpoint: Option<String>,
    pub(crate) at: Instant,
    pub(crate) outcome: Outcome,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has no answer yet, or never will.
    Pending,
    /// Granted, held, accepted.
    Yes,
    /// Refused, lost.
    No,
    Failed,
}

struct Rule {
    call: Option<Call>,
    shard: Option<String>,
    owner: Option<String>,
    trouble: Trouble,
    /// How many calls it lets pass first.
    skip: usize,
    times: Option<usize>,
}

/// A store with troubles, and a history of its calls. A clone is the same store.
#[derive(Clone, Default)]
pub(crate) struct TestStore {
    pub(crate) inner: MemoryLeaseStore,
    /// The instance that makes the calls.
    instance: String,
    rules: Arc<Mutex<Vec<Rule>>>,
    made: Arc<Mutex<Vec<Made>>>,
    /// How often the row of a shard has vanished.
    vanished: Arc<Mutex<HashMap<LeaseKey, usize>>>,
}

impl fmt::Debug for TestStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestStore").finish_non_exhaustive()
    }
}

impl TestStore {
    /// This store, as the instance of this name calls it.
    pub(crate) fn of(&self, instance: &str) -> Self {
        Self {
            instance: instance.to_owned(),
            ..self.clone()
        }
    }

    /// What the store says of a shard, whatever its troubles.
    pub(crate) async fn state(&self, key: &LeaseKey) -> LeaseState {
        self.inner.read(&self.row(key)).await.unwrap()
    }

    /// The row of this shard is gone: checkpoint, holder, epoch and all.
    pub(crate) fn vanish(&self, key: &LeaseKey) {
        *self
            .vanished
            .lock()
            .unwrap()
            .entry(key.clone())
            .or_default() += 1;
    }

    /// Under which key the inner store keeps the row of a shard.
    pub(crate) fn row(&self, key: &LeaseKey) -> LeaseKey {
        match self.vanished.lock().unwrap().get(key) {
            None => key.clone(),
            Some(times) => LeaseKey::new(key.stream(), format!("{}#{times}", key.shard())),
        }
    }

    /// Every call of this instance is without an answer and without an effect, until `recover`.
    pub(crate) fn partition(&self, owner: &str) {
        self.add_of(None, None, Some(owner.to_owned()), Trouble::Hangs, None);
    }

    /// Every call of this kind by this instance meets this trouble, until `recover`.
    pub(crate) fn always_of(&self, call: Call, owner: &str, trouble: Trouble) {
        self.add_of(Some(call), None, Some(owner.to_owned()), trouble, None);
    }

    /// The next `times` calls of this kind by this instance meet this trouble.
    pub(crate) fn trouble_of(&self, call: Call, owner: &str, trouble: Trouble, times: usize) {
        self.add_of(
            Some(call),
            None,
            Some(owner.to_owned()),
            trouble,
            Some(times),
        );
    }

    /// Every call of any kind that includes this shard meets this trouble, until `recover`.
    pub(crate) fn outage_on(&self, shard: &str, trouble: Trouble) {
        self.add(None, Some(shard.to_owned()), trouble, None);
    }

    /// The next `times` calls of this kind meet this trouble.
    pub(crate) fn trouble(&self, call: Call, trouble: Trouble, times: usize) {
        self.add(Some(call), None, trouble, Some(times));
    }

    /// The call of this kind after the next `skip` meets this trouble.
    pub(crate) fn trouble_after(&self, skip: usize, call: Call, trouble: Trouble) {
        self.rules.lock().unwrap().push(Rule {
            call: Some(call),
            shard: None,
            owner: None,
            trouble,
            skip,
            times: Some(1),
        });
    }

    /// The next `times` calls of this kind for this shard meet this trouble; for `read_all`, those that
    /// include it.
    pub(crate) fn trouble_on(&self, call: Call, shard: &str, trouble: Trouble, times: usize) {
        self.add(Some(call), Some(shard.to_owned()), trouble, Some(times));
    }

    /// Every call of this kind for this shard meets this trouble, until `recover`.
    pub(crate) fn always_on(&self, call: Call, shard: &str, trouble: Trouble) {
        self.add(Some(call), Some(shard.to_owned()), trouble, None);
    }

    /// Every call meets this trouble, until `recover`.
    pub(crate) fn outage(&self, trouble: Trouble) {
        self.add(None, None, trouble, None);
    }

    /// All troubles end.
    pub(crate) fn recover(&self) {
        self.rules.lock().unwrap().clear();
    }

    /// All calls so far, in the order in which they were made.
    pub(crate) fn made(&self) -> Vec<Made> {
        self.made.lock().unwrap().clone()
    }

    /// The calls of one kind so far.
    pub(crate) fn made_of(&self, call: Call) -> Vec<Made> {
        let mut made = self.made();
        made.retain(|made| made.call == call);
        made
    }

    /// The calls of one kind for one shard so far.
    pub(crate) fn made_on(&self, call: Call, shard: &str) -> Vec<Made> {
        let mut made = self.made_of(call);
        made.retain(|made| made.key.ends_with(shard));
        made
    }

    /// The calls of one kind by one instance so far.
    pub(crate) fn made_by(&self, call: Call, owner: &str) -> Vec<Made> {
        let mut made = self.made_of(call);
        made.retain(|made| made.owner == owner);
        made
    }

    /// How many leases were granted so far.
    pub(crate) fn grants(&self) -> usize {
        let acquired = self.made_of(Call::Acquire);
        let granted = acquired.iter().filter(|made| made.outcome == Outcome::Yes);
        granted.count()
    }

    fn add(
        &self,
        call: Option<Call>,
        shard: Option<String>,
        trouble: Trouble,
        times: Option<usize>,
    ) {
        self.add_of(call, shard, None, trouble, times);
    }

    fn add_of(
        &self,
        call: Option<Call>,
        shard: Option<String>,
        owner: Option<String>,
        trouble: Trouble,
        times: Option<usize>,
    ) {
        self.rules.lock().unwrap().push(Rule {
            call,
            shard,
            owner,
            trouble,
            skip: 0,
            times,
        });
    }

    fn strike(&self, call: Call, keys: &[LeaseKey]) -> Option<Trouble> {
        let mut rules = self.rules.lock().unwrap();
        let index = rules.iter().position(|rule| {
            rule.call.is_none_or(|of| of == call)
                && (rule.owner.as_ref()).is_none_or(|owner| *owner == self.instance)
                && (rule.shard.as_ref())
                    .is_none_or(|shard| keys.iter().any(|key| key.shard() == shard))
        })?;
        let rule = &mut rules[index];
        if rule.skip > 0 {
            rule.skip -= 1;
            return None;
        }
        let trouble = rule.trouble;
        if let Some(times) = &mut rule.times {
            *times -= 1;
            if *times == 0 {
                rules.remove(index);
            }
        }
        Some(trouble)
    }

    fn note(&self, made: Made) -> usize {
        let mut all = self.made.lock().unwrap();
        all.push(made);
        all.len() - 1
    }

    async fn call<T>(
        &self,
        made: Made,
        keys: &[LeaseKey],
        is_yes: impl Fn(&T) -> bool,
        call: impl Future<Output = Result<T, LeaseError>>,
    ) -> Result<T, LeaseError> {
        let trouble = self.strike(made.call, keys);
        let index = self.note(made);
        let answer = match trouble {
            None => call.await,
            Some(Trouble::Fails) => Err(LeaseError::unavailable("the store is out of reach")),
            Some(Trouble::Throttles) => Err(LeaseError::throttled("too many calls")),
            Some(Trouble::LosesAnswer) => {
                let _ = call.await;
                Err(LeaseError::unavailable("the answer was lost"))
            }
            Some(Trouble::Hangs) => std::future::pending().await,
            Some(Trouble::Late(by)) => {
                sleep(by).await;
                call.await
            }
            Some(Trouble::AnswersLate(by)) => {
                let answer = call.await;
                sleep(by).await;
                answer
            }
            Some(Trouble::Freezes(by)) => {
                let answer = call.await;
                tokio::time::advance(by).await;
                answer
            }
        };
        self.made.lock().unwrap()[index].outcome = match &answer {
            Ok(answer) if is_yes(answer) => Outcome::Yes,
            Ok(_) => Outcome::No,
            Err(_) => Outcome::Failed,
        };
        answer
    }

    /// Notes the epoch of the acquisition that is under way.
    fn note_grant(&self, key: &LeaseKey, holder: &Holder) {
        let key = key.to_string();
        let mut all = self.made.lock().unwrap();
        let made = all.iter_mut().rev().find(|made| {
            made.call == Call::Acquire && made.key == key && made.owner == self.instance
        });
        made.expect("it was noted").epoch = holder.epoch;
    }

    fn made_call(&self, call: Call, key: &LeaseKey, epoch: u64) -> Made {
        Made {
            call,
            key: key.to_string(),
            owner: self.instance.clone(),
            epoch,
            keys: 1,
            checkpoint: None,
            at: Instant::now(),
            outcome: Outcome::Pending,
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LeaseStore for TestStore {
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        let made = self.made_call(Call::Acquire, key, 0);
        let keys = std::slice::from_ref(key);
        let row = self.row(key);
        let acquire = async {
            let granted = self.inner.acquire(&row, owner, ttl).await;
            if let Ok(Some(holder)) = &granted {
                self.note_grant(key, holder);
            }
            granted
        };
        self.call(made, keys, Option::is_some, acquire).await
    }

    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        let made = self.made_call(Call::Renew, key, holder.epoch);
        let keys = std::slice::from_ref(key);
        let is_yes = |renewal: &Renewal| *renewal != Renewal::Lost;
        self.call(
            made,
            keys,
            is_yes,
            self.inner.renew(&self.row(key), holder, ttl),
        )
        .await
    }

    async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        let made = Made {
            checkpoint: Some(at.to_string()),
            ..self.made_call(Call::Checkpoint, key, holder.epoch)
        };
        let keys = std::slice::from_ref(key);
        self.call(
            made,
            keys,
            |yes| *yes,
            self.inner.checkpoint(&self.row(key), holder, at),
        )
        .await
    }

    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        let made = self.made_call(Call::Read, key, 0);
        let keys = std::slice::from_ref(key);
        self.call(made, keys, |_| true, self.inner.read(&self.row(key)))
            .await
    }

    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        let made = self.made_call(Call::Release, key, holder.epoch);
        let keys = std::slice::from_ref(key);
        self.call(
            made,
            keys,
            |()| true,
            self.inner.release(&self.row(key), holder),
        )
        .await
    }

    async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
        let made = Made {
            call: Call::ReadAll,
            key: String::new(),
            owner: self.instance.clone(),
            epoch: 0,
            keys: keys.len(),
            checkpoint: None,
            at: Instant::now(),
            outcome: Outcome::Pending,
        };
        let rows: Vec<_> = keys.iter().map(|key| self.row(key)).collect();
        self.call(made, keys, |_| true, self.inner.read_all(&rows))
            .await
    }

    async fn ask(&self, key: &LeaseKey, owner: &str) -> Result<bool, LeaseError> {
        let made = self.made_call(Call::Ask, key, 0);
        let keys = std::slice::from_ref(key);
        self.call(
            made,
            keys,
            |yes| *yes,
            self.inner.ask(&self.row(key), owner),
        )
        .await
    }

    async fn forget(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
        let made = self.made_call(Call::Forget, key, 0);
        let keys = std::slice::from_ref(key);
        self.call(made, keys, |yes| *yes, self.inner.forget(&self.row(key)))
            .await
    }
}
