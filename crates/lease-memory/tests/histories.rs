//! Whatever several owners send in whatever order, and however time passes meanwhile, the history of
//! their answers is one that a lease may have.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use lease_core::{Checkpoint, Holder, LeaseKey, LeaseStore, Renewal};
use lease_memory::MemoryLeaseStore;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::test_runner::TestCaseError;
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(10);
const OWNERS: [&str; 3] = ["a", "b", "c"];

/// What an owner does. A call on a lease presents one of all the holders so far.
#[derive(Clone, Debug)]
enum Step {
    Acquire { owner: usize },
    Renew { nth_last: usize },
    Checkpoint { nth_last: usize, number: u32 },
    Release { nth_last: usize },
    Ask { owner: usize },
    Pass { seconds: u64 },
}

fn steps() -> impl Strategy<Value = Step> {
    let owner = 0..OWNERS.len();
    // Most calls come from the last holder or from the one before.
    let nth_last = prop_oneof![5 => 0..1_usize, 2 => 1..2_usize, 1 => 2..6_usize];
    prop_oneof![
        owner.clone().prop_map(|owner| Step::Acquire { owner }),
        nth_last
            .clone()
            .prop_map(|nth_last| Step::Renew { nth_last }),
        (nth_last.clone(), any::<u32>())
            .prop_map(|(nth_last, number)| Step::Checkpoint { nth_last, number }),
        nth_last.prop_map(|nth_last| Step::Release { nth_last }),
        owner.prop_map(|owner| Step::Ask { owner }),
        (1..6_u64).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

/// The history so far: who was granted the lease, and what became of the last grant.
#[derive(Default)]
struct History {
    grants: Vec<Holder>,
    released: bool,
    alive_since: Option<Instant>,
    checkpoint: Option<Checkpoint>,
}

impl History {
    fn nth_last(&self, nth: usize) -> Option<(Holder, bool)> {
        let index = self.grants.len().checked_sub(nth + 1)?;
        Some((self.grants[index].clone(), nth == 0 && !self.released))
    }

    async fn step(&mut self, store: &MemoryLeaseStore, step: Step) -> Result<(), TestCaseError> {
        let key = LeaseKey::new("inventory", "shardId-000000000000");
        let before = store.read(&key).await?;
        match step {
            Step::Acquire { owner } => {
                let granted = store.acquire(&key, OWNERS[owner], TTL).await?;
                prop_assert_eq!(granted.is_some(), before.is_free_for(OWNERS[owner]));
                if let Some(holder) = granted {
                    let over = self.alive_since.is_none_or(|since| since.elapsed() >= TTL);
                    prop_assert!(self.released || over, "two live holders");
                    prop_assert_eq!(holder.epoch, self.grants.len() as u64 + 1);
                    self.grants.push(holder);
                    self.released = false;
                    self.alive_since = Some(Instant::now());
                }
            }
            Step::Renew { nth_last } => {
                let Some((holder, is_present)) = self.nth_last(nth_last) else {
                    return Ok(());
                };
                let renewal = store.renew(&key, &holder, TTL).await?;
                prop_assert_eq!(renewal != Renewal::Lost, is_present);
                if is_present {
                    self.alive_since = Some(Instant::now());
                }
            }
            Step::Checkpoint { nth_last, number } => {
                let Some((holder, is_present)) = self.nth_last(nth_last) else {
                    return Ok(());
                };
                let at = Checkpoint::at(number.to_string());
                let accepted = store.checkpoint(&key, &holder, &at).await?;
                prop_assert_eq!(accepted, is_present);
                if accepted {
                    self.checkpoint = Some(at);
                }
            }
            Step::Release { nth_last } => {
                let Some((holder, is_present)) = self.nth_last(nth_last) else {
                    return Ok(());
                };
                store.release(&key, &holder).await?;
                self.released |= is_present;
                let after = store.read(&key).await?;
                if is_present {
                    prop_assert_eq!(after.reserved_for(), before.asked_by.as_deref());
                } else {
                    prop_assert_eq!(after, before);
                }
            }
            Step::Ask { owner } => {
                let asked = store.ask(&key, OWNERS[owner]).await?;
                let anothers = before
                    .holder
                    .is_some_and(|holder| holder.owner != OWNERS[owner]);
                prop_assert!(!asked || (before.live && anothers), "nobody to ask");
            }
            Step::Pass { seconds } => tokio::time::advance(Duration::from_secs(seconds)).await,
        }
        let state = store.read(&key).await?;
        let present = self.grants.last().filter(|_| !self.released);
        prop_assert_eq!(state.holder.as_ref(), present);
        prop_assert_eq!(state.epoch, self.grants.len() as u64);
        prop_assert_eq!(state.checkpoint.as_ref(), self.checkpoint.as_ref());
        let alive = self.alive_since.is_some_and(|since| since.elapsed() < TTL);
        prop_assert_eq!(state.live, present.is_some() && alive);
        Ok(())
    }
}

proptest! {
    #[test]
    fn every_history_is_one_that_a_lease_may_have(
        steps in proptest::collection::vec(steps(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let store = MemoryLeaseStore::new();
            let mut history = History::default();
            for step in steps {
                history.step(&store, step).await?;
            }
            Ok::<(), TestCaseError>(())
        })?;
    }
}

#[test]
fn one_of_sixteen_threads_that_race_wins() {
    let store = MemoryLeaseStore::new();
    let start = Barrier::new(16);
    let granted: Vec<Holder> = thread::scope(|scope| {
        let racers: Vec<_> = (0..16)
            .map(|number| {
                let (store, start) = (&store, &start);
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .build()
                        .unwrap();
                    start.wait();
                    runtime.block_on(async {
                        let key = LeaseKey::new("inventory", "0");
                        let owner = format!("racer-{number}");
                        store.acquire(&key, &owner, TTL).await.unwrap()
                    })
                })
            })
            .collect();
        racers
            .into_iter()
            .filter_map(|racer| racer.join().unwrap())
            .collect()
    });
    assert_eq!(granted.len(), 1);
    assert_eq!(granted[0].epoch, 1);
}
