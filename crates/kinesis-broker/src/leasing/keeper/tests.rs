//! What the keeper promises, on a paused clock.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use lease_core::{Checkpoint, LeaseState, LeaseStore};
use lease_memory::MemoryLeaseStore;
use tokio::time::{advance, sleep};

use super::*;
use crate::leasing::LEASE;

const SECOND: Duration = Duration::from_secs(1);

/// Notes when what was renewed; each call takes a while.
#[derive(Debug, Default)]
struct Slow {
    inner: MemoryLeaseStore,
    takes: Duration,
    renewed: Mutex<Vec<(Instant, String)>>,
    fails: AtomicBool,
}

#[async_trait]
impl LeaseStore for Slow {
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
        let call = (Instant::now(), key.shard().to_owned());
        self.renewed.lock().unwrap().push(call);
        sleep(self.takes).await;
        if self.fails.load(Ordering::Relaxed) {
            return Err(LeaseError::unavailable("out of reach"));
        }
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

    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        self.inner.read(key).await
    }

    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        self.inner.release(key, holder).await
    }
}

struct Kept {
    store: Arc<Slow>,
    keeper: Keeper,
    asked: mpsc::UnboundedReceiver<LeaseKey>,
}

impl Kept {
    fn new() -> Self {
        Self::on_a_store_that_takes(SECOND)
    }

    fn on_a_store_that_takes(takes: Duration) -> Self {
        let store = Arc::new(Slow {
            takes,
            ..Slow::default()
        });
        let leases = Leases::new(Arc::clone(&store) as _, "a");
        let (asked_sender, asked) = mpsc::unbounded_channel();
        let keeper = Keeper::start(leases, Reports::default(), asked_sender, 7);
        Self {
            store,
            keeper,
            asked,
        }
    }

    /// Acquires a shard and keeps it as if that had been sent some time ago.
    async fn keep(&self, shard: &str, ago: Duration) -> Lease {
        let key = LeaseKey::new("inventory", shard);
        let holder = self.store.acquire(&key, "a", LEASE).await.unwrap().unwrap();
        self.keeper.keep(key, holder, Instant::now() - ago)
    }

    fn renewed(&self) -> Vec<(Instant, String)> {
        self.store.renewed.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_came_past_its_deadline_becomes_firm_with_its_first_renewal() {
    sleep(60 * SECOND).await;
    let kept = Kept::new();
    let mut lease = kept.keep("0", LEASE + SECOND).await;
    assert!(!lease.is_firm());
    let began = Instant::now();
    lease.firm().await;
    assert_eq!(began.elapsed().as_secs(), 1, "it is renewed at once");
    assert!(lease.is_firm());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_counts_from_the_sending_of_the_last_successful_renewal() {
    let kept = Kept::new();
    let mut lease = kept.keep("0", Duration::ZERO).await;
    sleep(5 * SECOND).await;
    kept.store.fails.store(true, Ordering::Relaxed);
    sleep(2 * SECOND).await;
    let deadline = lease.grasp.borrow().deadline;
    let sent: Vec<_> = kept.renewed().into_iter().map(|(at, _)| at).collect();
    assert!(sent.contains(&(deadline - RELIED_ON)), "{sent:?}");
    sleep(deadline - Instant::now() - SECOND / 2).await;
    assert!(lease.is_firm());
    sleep(SECOND / 2).await;
    assert!(!lease.is_firm());
    // Nothing says that it is lost.
    assert!(!lease.grasp.borrow().lost);
}

#[test]
fn a_slow_clock_of_the_holder_has_stopped_it_before_a_fast_one_of_an_observer_gives_the_lease_away()
{
    let slew = 500e-6;
    let relied_on = RELIED_ON.as_secs_f64() / (1.0 - slew);
    let observed = LEASE.as_secs_f64() / (1.0 + slew);
    assert!(relied_on < observed, "{relied_on} {observed}");
}

#[tokio::test(start_paused = true)]
async fn of_the_leases_that_are_due_those_that_run_out_first_go_first() {
    sleep(60 * SECOND).await;
    let kept = Kept::new();
    let count = 3 * RENEWALS_AT_ONCE as u64;
    let mut leases = Vec::new();
    for n in 0..count {
        // Later ones are nearer to their deadlines, and all of them past it, thus due at once.
        let ago = LEASE + Duration::from_millis(1 + n);
        leases.push(kept.keep(&n.to_string(), ago).await);
    }
    sleep(3 * SECOND).await;
    let order: Vec<u64> = (kept.renewed().iter().take(leases.len()))
        .map(|(_, shard)| shard.parse().unwrap())
        .collect();
    assert_eq!(order, (0..count).rev().collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn leases_acquired_in_one_moment_are_renewed_all_through_the_period() {
    let kept = Kept::new();
    let mut leases = Vec::new();
    for n in 0..120 {
        leases.push(kept.keep(&n.to_string(), Duration::ZERO).await);
    }
    let began = Instant::now();
    sleep(30 * SECOND).await;
    let mut windows = BTreeMap::<_, usize>::new();
    for (at, _) in kept.renewed() {
        *windows.entry((at - began).as_millis() / 250).or_default() += 1;
    }
    assert!(windows.values().all(|count| *count <= 20), "{windows:?}");
    assert!(leases.iter_mut().all(Lease::is_firm));
}

#[tokio::test(start_paused = true)]
async fn renewals_of_five_thousand_leases_come_evenly_and_each_in_its_period() {
    let kept = Kept::on_a_store_that_takes(Duration::from_millis(20));
    let mut leases = Vec::new();
    for n in 0..5_000 {
        leases.push(kept.keep(&n.to_string(), Duration::ZERO).await);
    }
    let began = Instant::now();
    sleep(12 * SECOND).await;
    let mut windows = BTreeMap::<_, usize>::new();
    for (at, _) in kept.renewed() {
        *windows.entry((at - began).as_millis() / 100).or_default() += 1;
    }
    // 167 are due in a tenth of a second.
    let whole: Vec<_> = windows.into_values().skip(1).take(118).collect();
    assert!(
        whole.iter().all(|count| (100..=250).contains(count)),
        "{whole:?}"
    );
    let deadlines: Vec<_> = leases
        .iter()
        .map(|lease| lease.grasp.borrow().deadline)
        .collect();
    let soon = Instant::now() + Duration::from_secs(6);
    assert!(
        deadlines.iter().all(|deadline| *deadline > soon),
        "each was renewed within its period"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_lease_is_renewed_no_more() {
    let kept = Kept::new();
    let lease = kept.keep("0", Duration::ZERO).await;
    sleep(10 * SECOND).await;
    drop(lease);
    let renewals = kept.renewed().len();
    assert!(renewals >= 3);
    sleep(60 * SECOND).await;
    assert!(kept.renewed().len() <= renewals + 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_stays_lost_and_is_renewed_no_more() {
    let kept = Kept::new();
    let mut lease = kept.keep("0", Duration::ZERO).await;
    let store = &kept.store.inner;
    store.release(lease.key(), lease.holder()).await.unwrap();
    lease.lost().await;
    assert!(!lease.is_firm());
    let renewals = kept.renewed().len();
    sleep(60 * SECOND).await;
    assert_eq!(kept.renewed().len(), renewals);
}

#[tokio::test(start_paused = true)]
async fn an_asker_is_told_of_once() {
    let mut kept = Kept::new();
    let lease = kept.keep("0", Duration::ZERO).await;
    for _ in 0..5 {
        assert!(kept.store.inner.ask(lease.key(), "b").await.unwrap());
        sleep(3 * SECOND).await;
    }
    assert_eq!(kept.asked.try_recv().as_ref(), Ok(lease.key()));
    assert!(kept.asked.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_wakes_late_says_that_the_runtime_was_blocked() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let kept = Kept::new();
    let _lease = kept.keep("0", Duration::ZERO).await;
    sleep(30 * SECOND).await;
    assert_eq!(log.text(), "");
    advance(5 * SECOND).await;
    sleep(SECOND).await;
    assert!(log.text().contains("the runtime was blocked"));
}

#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
