//! The memory store passes the suite: as itself, boxed, shared, on a clock of the author's own and in
//! real time.

use std::sync::Arc;
use std::time::Duration;

use lease_core::conformance::{CASES, Case, Clock, Subject, Violation, run_all};
use lease_core::{LeaseStore, async_trait};
use lease_memory::MemoryLeaseStore;
use tokio::time::Instant;

mod by_value {
    use super::*;

    async fn check(case: Case) -> Result<(), Violation> {
        let store = MemoryLeaseStore::new();
        case.run(&Subject::new(&store)).await
    }

    lease_core::conformance_tests!(
        #[tokio::test(start_paused = true)]
        check
    );
}

mod in_a_box {
    use super::*;

    async fn check(case: Case) -> Result<(), Violation> {
        let store: Box<dyn LeaseStore> = Box::new(MemoryLeaseStore::new());
        case.run(&Subject::new(&store)).await
    }

    lease_core::conformance_tests!(
        #[tokio::test(start_paused = true)]
        check
    );
}

mod shared {
    use super::*;

    async fn check(case: Case) -> Result<(), Violation> {
        let store = MemoryLeaseStore::new();
        let one: Arc<dyn LeaseStore> = Arc::new(store.clone());
        let other: Arc<dyn LeaseStore> = Arc::new(store);
        case.run(&Subject::new(&one).other_instance(&other)).await
    }

    lease_core::conformance_tests!(
        #[tokio::test(start_paused = true)]
        check
    );
}

/// A clock that is set by hand: here tokio's, which the store happens to count on.
#[derive(Debug)]
struct SetByHand(Instant);

#[async_trait]
impl Clock for SetByHand {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    async fn pass(&self, span: Duration) {
        tokio::time::advance(span).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_suite_passes_on_a_clock_that_is_set_by_hand() {
    let store = MemoryLeaseStore::new();
    let clock = SetByHand(Instant::now());
    let subject = Subject::new(&store)
        .clock(&clock)
        .ttl(Duration::from_secs(3_600));
    assert!(run_all(&subject).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_passes_in_real_time_with_all_cases_at_once_on_one_store() {
    let store = MemoryLeaseStore::new();
    let cases: Vec<_> = CASES
        .iter()
        .map(|case| {
            let store = store.clone();
            tokio::spawn(async move {
                let subject = Subject::new(&store).ttl(Duration::from_millis(200));
                case.run(&subject).await
            })
        })
        .collect();
    for case in cases {
        case.await.unwrap().unwrap();
    }
}
