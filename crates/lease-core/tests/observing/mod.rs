//! A store over a table on the far side of a network, without clocks of its own: what the suite is
//! tried on. It keeps the contract, unless it is told to break one rule of it.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lease_core::{
    Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal, async_trait,
    check_owner, check_ttl,
};
use tokio::time::{Instant, sleep};

/// How many renewals an ask outlives.
const RENEWALS_ASKED: u64 = 4;

/// A rule that the store breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    AcceptsAnyEpoch,
    AcceptsAnyOwner,
    AcceptsNoName,
    AcceptsNoTime,
    AdoptsItsOwnName,
    AskIsNotTold,
    AskNeverLapses,
    AskOfAFinishedShard,
    AskReplacesTheAsker,
    AskSurvivesATakeOver,
    CheckpointRenews,
    CheckpointsLandLate,
    CheckpointOrderOutlivesTheHolder,
    ComparesSequenceNumbers,
    DropsSubSequenceNumbers,
    EpochRestartsAfterRelease,
    EpochStaysAtATakeOver,
    ExpiredHolderIsLost,
    ExpiresEarly,
    ForgetsHeldShards,
    ForgetsUnfinishedShards,
    ForgetOfNothingIsRefused,
    GrantsWithoutACondition,
    IgnoresTheStream,
    LosesCheckpointsAtATakeOver,
    LosesCheckpointsAtRelease,
    NeverExpires,
    NumbersCheckpointsAsTheyAreMade,
    ReadAllInOrderOfKeys,
    ReadAllOfAHundred,
    ReadsFromAReplica,
    ReleasesForAnybody,
    ReleasingTwiceFails,
    RenewalDoesNotProlong,
    ReservesForEver,
    ReservesNothing,
    RoundsTimestamps,
    SightingsStartAnew,
}

/// A row, as a table without clocks has it.
#[derive(Clone, Debug, Default)]
struct Item {
    owner: Option<String>,
    epoch: u64,
    counter: u64,
    ttl: Duration,
    checkpoint: Option<Checkpoint>,
    checkpoint_number: usize,
    /// Who asks, and the counter at which the ask lapses.
    asked: Option<(String, u64)>,
}

impl Item {
    fn holder(&self) -> Option<Holder> {
        let owner = self.owner.clone()?;
        let epoch = self.epoch;
        Some(Holder { owner, epoch })
    }

    fn asker(&self) -> Option<&str> {
        let (asker, lapses_at) = self.asked.as_ref()?;
        (self.counter < *lapses_at).then_some(asker.as_str())
    }

    fn is_finished(&self) -> bool {
        self.checkpoint
            .as_ref()
            .is_some_and(Checkpoint::is_shard_end)
    }

    /// What changes with every acquisition, renewal and release.
    fn version(&self) -> (u64, u64, bool) {
        (self.epoch, self.counter, self.owner.is_some())
    }
}

/// The rows that all instances share, each with what a lagging replica still shows.
#[derive(Debug, Default)]
pub(crate) struct Table {
    items: Mutex<HashMap<LeaseKey, Item>>,
    replica: Mutex<HashMap<LeaseKey, Item>>,
}

#[derive(Clone, Debug)]
struct Sighting {
    version: (u64, u64, bool),
    since: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics under a lock")
}

/// One instance of the store.
#[derive(Clone, Debug)]
pub(crate) struct ObservingStore {
    table: Arc<Table>,
    seen: Arc<Mutex<HashMap<LeaseKey, Sighting>>>,
    calls: Arc<AtomicUsize>,
    checkpoints: Arc<AtomicUsize>,
    latency: Duration,
    fault: Option<Fault>,
}

impl ObservingStore {
    pub(crate) fn new(
        table: &Arc<Table>,
        latency: Duration,
        seed: usize,
        fault: Option<Fault>,
    ) -> Self {
        Self {
            table: Arc::clone(table),
            seen: Arc::default(),
            calls: Arc::new(AtomicUsize::new(seed)),
            checkpoints: Arc::default(),
            latency,
            fault,
        }
    }

    fn breaks(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Has something done at the table. Once sent it gets there, whether or not anybody waits for
    /// the answer.
    async fn remote<T, F>(&self, at_table: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&Self, &mut HashMap<LeaseKey, Item>) -> T + Send + 'static,
    {
        let store = self.clone();
        let request = tokio::spawn(async move {
            store.travel().await;
            let answer = at_table(&store, &mut lock(&store.table.items));
            store.travel().await;
            answer
        });
        request.await.expect("no request panics")
    }

    /// The way to the table or back: uneven, so that calls overtake one another.
    async fn travel(&self) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let tenths = [10, 3, 14, 6, 1, 20, 8][call % 7];
        sleep(self.latency * tenths / 10).await;
    }

    fn next_checkpoint_number(&self) -> usize {
        self.checkpoints.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn row(&self, key: &LeaseKey) -> LeaseKey {
        if self.breaks(Fault::IgnoresTheStream) {
            return LeaseKey::new("", key.shard());
        }
        key.clone()
    }

    fn write(&self, items: &mut HashMap<LeaseKey, Item>, key: &LeaseKey, item: Item) {
        if let Some(old) = items.insert(key.clone(), item) {
            lock(&self.table.replica).insert(key.clone(), old);
        }
    }

    /// An answer has come that shows the row; how long this instance has seen it like that.
    fn sighted(&self, key: &LeaseKey, item: &Item) -> Duration {
        let mut seen = lock(&self.seen);
        let new = Sighting {
            version: item.version(),
            since: Instant::now(),
        };
        let sighting = seen.entry(key.clone()).or_insert_with(|| new.clone());
        if sighting.version != new.version {
            *sighting = new;
        }
        sighting.since.elapsed()
    }

    /// The version that this instance has seen for so long that it is over.
    fn outlived(&self, key: &LeaseKey, item: &Item) -> bool {
        let seen = lock(&self.seen);
        let Some(sighting) = seen.get(key) else {
            return false;
        };
        sighting.version == item.version() && sighting.since.elapsed() >= self.lasts(item)
    }

    fn lasts(&self, item: &Item) -> Duration {
        match item.owner {
            Some(_) if self.breaks(Fault::NeverExpires) => Duration::MAX,
            Some(_) if self.breaks(Fault::ExpiresEarly) => item.ttl * 9 / 10,
            Some(_) => item.ttl,
            None if self.breaks(Fault::ReservesForEver) => Duration::MAX,
            None => item.ttl / 2,
        }
    }

    fn is_free(&self, key: &LeaseKey, item: &Item, owner: &str) -> bool {
        match (&item.owner, item.asker()) {
            (Some(_), _) => self.outlived(key, item),
            (None, Some(asker)) => asker == owner || self.outlived(key, item),
            (None, None) => true,
        }
    }

    /// The row, if `holder` is its present holder.
    fn held(
        &self,
        items: &HashMap<LeaseKey, Item>,
        row: &LeaseKey,
        holder: &Holder,
    ) -> Option<Item> {
        let item = items.get(row)?;
        let present = item.holder()?;
        let accepted = (present.owner == holder.owner || self.breaks(Fault::AcceptsAnyOwner))
            && (present.epoch == holder.epoch || self.breaks(Fault::AcceptsAnyEpoch));
        accepted.then(|| item.clone())
    }

    /// The row after an acquisition.
    fn acquired(&self, old: Item, owner: &str, ttl: Duration) -> Item {
        let taken_over = old.owner.is_some();
        let keeps_epoch = taken_over && self.breaks(Fault::EpochStaysAtATakeOver);
        let loses = taken_over && self.breaks(Fault::LosesCheckpointsAtATakeOver);
        Item {
            owner: Some(owner.to_owned()),
            epoch: old.epoch + u64::from(!keeps_epoch),
            counter: old.counter + 1,
            ttl,
            checkpoint: old.checkpoint.filter(|_| !loses),
            checkpoint_number: match self.fault {
                Some(Fault::CheckpointOrderOutlivesTheHolder) => old.checkpoint_number,
                _ => 0,
            },
            asked: old
                .asked
                .filter(|_| self.breaks(Fault::AskSurvivesATakeOver)),
        }
    }

    /// The row after a checkpoint, unless that is too late.
    fn checkpointed(&self, old: Item, number: usize, at: &Checkpoint) -> Option<Item> {
        let late = old.checkpoint_number > number && !self.breaks(Fault::CheckpointsLandLate);
        let behind = self.breaks(Fault::ComparesSequenceNumbers)
            && old.checkpoint.as_ref().and_then(Checkpoint::sequence) > at.sequence();
        if late || behind {
            return None;
        }
        let text = at.to_string();
        let kept = match text.split_once('.') {
            Some((seconds, _)) if self.breaks(Fault::RoundsTimestamps) => Checkpoint::at(seconds),
            _ => match at.shared_sequence() {
                Some(number) if self.breaks(Fault::DropsSubSequenceNumbers) => {
                    Checkpoint::at(&**number)
                }
                _ => at.clone(),
            },
        };
        Some(Item {
            checkpoint: Some(kept),
            checkpoint_number: number,
            counter: old.counter + u64::from(self.breaks(Fault::CheckpointRenews)),
            ..old
        })
    }

    /// The row after a release.
    fn released(&self, old: Item) -> Item {
        let loses = self.breaks(Fault::LosesCheckpointsAtRelease);
        let restarts = self.breaks(Fault::EpochRestartsAfterRelease);
        Item {
            owner: None,
            epoch: if restarts { 0 } else { old.epoch },
            checkpoint: old.checkpoint.filter(|_| !loses),
            asked: old.asked.filter(|_| !self.breaks(Fault::ReservesNothing)),
            ..old
        }
    }

    /// The row after an ask, where that is granted.
    fn asked(&self, old: Item, owner: &str) -> Option<Item> {
        let another_holds = old.owner.as_ref().is_some_and(|holds| holds != owner);
        let another_asks = old.asker().is_some_and(|asker| asker != owner);
        let may = another_holds
            && (!old.is_finished() || self.breaks(Fault::AskOfAFinishedShard))
            && (!another_asks || self.breaks(Fault::AskReplacesTheAsker));
        let lapses_at = match self.fault {
            Some(Fault::AskNeverLapses) => u64::MAX,
            _ => old.counter + RENEWALS_ASKED,
        };
        may.then(|| Item {
            asked: Some((owner.to_owned(), lapses_at)),
            ..old
        })
    }

    fn state(&self, key: &LeaseKey, item: Option<&Item>) -> LeaseState {
        let Some(item) = item else {
            return LeaseState::default();
        };
        let left = self
            .lasts(item)
            .checked_sub(self.sighted(key, item))
            .filter(|left| !left.is_zero());
        let reserved = item.owner.is_none() && item.asker().is_some();
        LeaseState {
            checkpoint: item.checkpoint.clone(),
            holder: item.holder(),
            live: item.owner.is_some() && left.is_some(),
            expires_in: left.filter(|_| item.owner.is_some() || reserved),
            asked_by: item
                .asker()
                .filter(|_| item.owner.is_some() || left.is_some())
                .map(str::to_owned),
            epoch: item.epoch,
        }
    }
}

#[async_trait]
impl LeaseStore for ObservingStore {
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        if !self.breaks(Fault::AcceptsNoName) {
            check_owner(owner)?;
        }
        if !self.breaks(Fault::AcceptsNoTime) {
            check_ttl(ttl)?;
        }
        let (row, owner) = (self.row(key), owner.to_owned());
        let looked_before = self.breaks(Fault::GrantsWithoutACondition).then(|| {
            let old = lock(&self.table.items).get(&row).cloned();
            self.is_free(&row, &old.unwrap_or_default(), &owner)
        });
        let (granted, item) = self
            .remote(move |store, items| {
                let old = items.get(&row).cloned().unwrap_or_default();
                if store.breaks(Fault::AdoptsItsOwnName) && old.owner.as_ref() == Some(&owner) {
                    return (true, old);
                }
                if !looked_before.unwrap_or_else(|| store.is_free(&row, &old, &owner)) {
                    return (false, old);
                }
                let new = store.acquired(old, &owner, ttl);
                store.write(items, &row, new.clone());
                (true, new)
            })
            .await;
        let row = self.row(key);
        if !granted && self.breaks(Fault::SightingsStartAnew) {
            lock(&self.seen).remove(&row);
        }
        self.sighted(&row, &item);
        Ok(item.holder().filter(|_| granted))
    }

    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        if !self.breaks(Fault::AcceptsNoTime) {
            check_ttl(ttl)?;
        }
        let (row, holder) = (self.row(key), holder.clone());
        let renewed = self
            .remote(move |store, items| {
                let mut item = store.held(items, &row, &holder)?;
                if store.breaks(Fault::ExpiredHolderIsLost) && store.outlived(&row, &item) {
                    return None;
                }
                item.counter += u64::from(!store.breaks(Fault::RenewalDoesNotProlong));
                item.ttl = ttl;
                store.write(items, &row, item.clone());
                Some(item)
            })
            .await;
        let Some(item) = renewed else {
            return Ok(Renewal::Lost);
        };
        self.sighted(&self.row(key), &item);
        Ok(match item.asker() {
            Some(by) if !self.breaks(Fault::AskIsNotTold) => Renewal::Asked { by: by.to_owned() },
            _ => Renewal::Held,
        })
    }

    fn checkpoint<'store, 'key, 'holder, 'at, 'call>(
        &'store self,
        key: &'key LeaseKey,
        holder: &'holder Holder,
        at: &'at Checkpoint,
    ) -> Pin<Box<dyn Future<Output = Result<bool, LeaseError>> + Send + 'call>>
    where
        'store: 'call,
        'key: 'call,
        'holder: 'call,
        'at: 'call,
    {
        let made = self
            .breaks(Fault::NumbersCheckpointsAsTheyAreMade)
            .then(|| self.next_checkpoint_number());
        Box::pin(async move {
            let number = made.unwrap_or_else(|| self.next_checkpoint_number());
            let (row, holder, at) = (self.row(key), holder.clone(), at.clone());
            let accepted = self.remote(move |store, items| {
                let Some(item) = store.held(items, &row, &holder) else {
                    return false;
                };
                if let Some(item) = store.checkpointed(item, number, &at) {
                    store.write(items, &row, item);
                }
                true
            });
            Ok(accepted.await)
        })
    }

    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        let row = self.row(key);
        let item = self.remote(move |store, items| {
            let lagging = match store.fault {
                Some(Fault::ReadsFromAReplica) => lock(&store.table.replica).get(&row).cloned(),
                _ => None,
            };
            lagging.or_else(|| items.get(&row).cloned())
        });
        let item = item.await;
        Ok(self.state(&self.row(key), item.as_ref()))
    }

    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        let (row, holder) = (self.row(key), holder.clone());
        let released = self.remote(move |store, items| {
            let held = match store.fault {
                Some(Fault::ReleasesForAnybody) => items.get(&row).cloned(),
                _ => store.held(items, &row, &holder),
            };
            match held {
                Some(item) => store.write(items, &row, store.released(item)),
                None if store.breaks(Fault::ReleasingTwiceFails) => return false,
                None => {}
            }
            true
        });
        match released.await {
            true => Ok(()),
            false => Err(LeaseError::corrupt("the condition of the write failed")),
        }
    }

    async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
        let mut rows: Vec<LeaseKey> = keys.iter().map(|key| self.row(key)).collect();
        match self.fault {
            Some(Fault::ReadAllInOrderOfKeys) => rows.sort(),
            Some(Fault::ReadAllOfAHundred) => rows.truncate(100),
            _ => {}
        }
        let items = self.remote(|_, items| items.clone()).await;
        let states = rows.iter().map(|row| self.state(row, items.get(row)));
        Ok(states.collect())
    }

    async fn ask(&self, key: &LeaseKey, owner: &str) -> Result<bool, LeaseError> {
        if !self.breaks(Fault::AcceptsNoName) {
            check_owner(owner)?;
        }
        let (row, owner) = (self.row(key), owner.to_owned());
        let asked = self.remote(move |store, items| {
            let asked = items
                .get(&row)
                .cloned()
                .and_then(|item| store.asked(item, &owner));
            let granted = asked.is_some();
            if let Some(item) = asked {
                store.write(items, &row, item);
            }
            granted
        });
        Ok(asked.await)
    }

    async fn forget(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
        let row = self.row(key);
        let forgotten = self.remote(move |store, items| {
            let may = match items.get(&row) {
                Some(item) => {
                    (item.is_finished() || store.breaks(Fault::ForgetsUnfinishedShards))
                        && (item.owner.is_none() || store.breaks(Fault::ForgetsHeldShards))
                }
                None => !store.breaks(Fault::ForgetOfNothingIsRefused),
            };
            if may {
                items.remove(&row);
            }
            may
        });
        Ok(forgotten.await)
    }
}
