//! Every held lease: when it is renewed, and until when it may be relied on.
//!
//! One task renews them all, so that no handler, listing or slow stream can keep a renewal waiting. Each
//! lease comes due on a phase of its own; of those that are due, the one whose deadline is nearest goes
//! first. The holder counts its deadline from the moment at which it *sent* its last successful call: the
//! store, which counts from a later moment, can give the shard to another only after it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use lease_core::{Holder, LeaseError, LeaseKey, Renewal};
use rstream::broker::{BoxFuture, Reports};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::KinesisError;
use crate::backoff::Backoff;
use crate::leasing::{Leases, RELIED_ON, RENEW_EVERY};
use crate::sabotage::{self, Sabotage};

/// Renewals under way at once. At 5,000 leases it takes 1,667 renewals a second; a store that answers in
/// 20 ms has 33 of them in hand.
const RENEWALS_AT_ONCE: usize = 128;
/// A wake-up this late means that the runtime was blocked, or the process was stopped.
const LATE: Duration = Duration::from_secs(1);

/// What the holder of a lease may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grasp {
    /// Until when nobody else can have the lease.
    deadline: Instant,
    /// Somebody else has it, or nobody.
    lost: bool,
}

impl Grasp {
    fn is_firm(self) -> bool {
        let is_past = Instant::now() >= self.deadline && !sabotage::is(Sabotage::PastDeadline);
        !self.lost && !is_past
    }
}

/// Which lease it is, and the acquisition that every call under it presents.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) key: LeaseKey,
    pub(crate) holder: Holder,
}

/// A lease that is being kept; dropping it ends the renewals.
#[derive(Debug)]
pub(crate) struct Lease {
    id: u64,
    claim: Arc<Claim>,
    grasp: Arc<watch::Sender<Grasp>>,
    /// What it was when it was last looked at: that is done for each record, and the lock is taken only where it has
    /// changed since.
    seen: Grasp,
    changes: watch::Receiver<Grasp>,
    keeper: mpsc::UnboundedSender<Command>,
}

impl Lease {
    pub(crate) fn key(&self) -> &LeaseKey {
        &self.claim.key
    }

    pub(crate) fn holder(&self) -> &Holder {
        &self.claim.holder
    }

    pub(crate) fn claim(&self) -> &Arc<Claim> {
        &self.claim
    }

    /// Whether records may be handed over, and checkpoints written, at this moment.
    pub(crate) fn is_firm(&mut self) -> bool {
        if self.changes.has_changed().unwrap_or(true) {
            self.seen = *self.changes.borrow_and_update();
        }
        self.seen.is_firm()
    }

    /// Whether so long has passed since the last successful call that another may have had the lease.
    pub(crate) fn has_run_out(&self) -> bool {
        self.grasp.borrow().deadline <= Instant::now()
    }

    /// Waits until the lease [is firm](Self::is_firm); for ever, where it is lost. Cancel safe.
    pub(crate) fn firm(&self) -> impl Future<Output = ()> + use<> {
        let mut grasp = self.grasp.subscribe();
        async move {
            if grasp.wait_for(|grasp| grasp.is_firm()).await.is_err() {
                // The lease was given back meanwhile.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until the lease is lost. Cancel safe.
    pub(crate) async fn lost(&self) {
        let mut grasp = self.grasp.subscribe();
        let _ = grasp.wait_for(|grasp| grasp.lost).await;
    }

    /// Notes what a refused checkpoint tells.
    pub(crate) fn lose(&self) {
        self.grasp.send_modify(|grasp| grasp.lost = true);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A keeper that is gone keeps nothing.
        let _ = self.keeper.send(Command::Drop(self.id));
    }
}

enum Command {
    Keep {
        id: u64,
        claim: Arc<Claim>,
        grasp: Arc<watch::Sender<Grasp>>,
    },
    Drop(u64),
}

/// Starts to keep leases that were acquired; dropping it ends all renewals.
#[derive(Debug)]
pub(crate) struct Keeper {
    next_id: AtomicU64,
    commands: mpsc::UnboundedSender<Command>,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Starts the keeper's task. It sends the key of a lease to `asked` when a renewal shows an asker that
    /// it has not shown before.
    pub(crate) fn start(
        leases: Leases,
        reports: Reports,
        asked: mpsc::UnboundedSender<LeaseKey>,
        seed: u64,
    ) -> Self {
        let (commands, received) = mpsc::unbounded_channel();
        let keeping = Keeping {
            leases,
            reports,
            asked,
            rng: fastrand::Rng::with_seed(seed),
            held: HashMap::new(),
            waiting: BTreeSet::new(),
            due: BTreeSet::new(),
            under_way: FuturesUnordered::new(),
        };
        Self {
            next_id: 0.into(),
            commands,
            task: tokio::spawn(keeping.run(received)),
        }
    }

    /// Keeps a lease whose acquisition was sent at `sent`.
    pub(crate) fn keep(&self, key: LeaseKey, holder: Holder, sent: Instant) -> Lease {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let seen = Grasp {
            deadline: sent + RELIED_ON,
            lost: false,
        };
        let (grasp, changes) = watch::channel(seen);
        let lease = Lease {
            id,
            claim: Arc::new(Claim { key, holder }),
            grasp: Arc::new(grasp),
            seen,
            changes,
            keeper: self.commands.clone(),
        };
        // Where the keeper is gone the lease simply runs out.
        let _ = self.commands.send(Command::Keep {
            id,
            claim: Arc::clone(&lease.claim),
            grasp: Arc::clone(&lease.grasp),
        });
        lease
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if sabotage::is(Sabotage::KeepsTask) {
            return std::mem::forget(self.commands.clone());
        }
        self.task.abort();
    }
}

struct Held {
    claim: Arc<Claim>,
    grasp: Arc<watch::Sender<Grasp>>,
    retries: Backoff,
    asked_by: Option<String>,
}

struct Keeping {
    leases: Leases,
    reports: Reports,
    asked: mpsc::UnboundedSender<LeaseKey>,
    rng: fastrand::Rng,
    held: HashMap<u64, Held>,
    /// Leases by when they come due.
    waiting: BTreeSet<(Instant, u64)>,
    /// Leases that are due, by their deadlines.
    due: BTreeSet<(Instant, u64)>,
    under_way: FuturesUnordered<BoxFuture<'static, Renewed>>,
}

struct Renewed {
    id: u64,
    sent: Instant,
    answer: Result<Renewal, LeaseError>,
}

impl Keeping {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        loop {
            let next = self.waiting.first().map(|&(at, _)| at);
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(Command::Keep { id, claim, grasp }) => self.keep(id, claim, grasp),
                    Some(Command::Drop(id)) => self.forget(id),
                    None => return,
                },
                Some(renewed) = self.under_way.next(), if !self.under_way.is_empty() => {
                    self.renewed(renewed);
                }
                expected = at(next) => self.come_due(expected),
            }
            self.renew_what_is_due();
        }
    }

    fn keep(&mut self, id: u64, claim: Arc<Claim>, grasp: Arc<watch::Sender<Grasp>>) {
        // However many are acquired in one moment, the first renewals spread over the whole period, and
        // so do the later ones. Steps of the golden ratio leave no gap for long.
        #[expect(clippy::cast_precision_loss, reason = "a phase, not a count")]
        let phase = (id as f64 * 0.618_033_988_749_895).fract();
        let deadline = grasp.borrow().deadline;
        let due = (Instant::now() + RENEW_EVERY.mul_f64(phase)).min(deadline);
        self.waiting.insert((due, id));
        let held = Held {
            claim,
            grasp,
            retries: Backoff::of_leases(self.rng.u64(..)),
            asked_by: None,
        };
        self.held.insert(id, held);
    }

    fn forget(&mut self, id: u64) {
        self.held.remove(&id);
    }

    /// Moves what is due out of what waits; the first of it was expected at `expected`.
    fn come_due(&mut self, expected: Instant) {
        let now = Instant::now();
        let late = now.saturating_duration_since(expected);
        if late > LATE {
            tracing::warn!(
                ?late,
                "leases were renewed late: the runtime was blocked, or the process was stopped"
            );
        }
        while let Some(&(at, id)) = self.waiting.first() {
            if at > now {
                break;
            }
            self.waiting.pop_first();
            if let Some(held) = self.held.get(&id) {
                self.due.insert((held.grasp.borrow().deadline, id));
            }
        }
    }

    fn renew_what_is_due(&mut self) {
        while self.under_way.len() < RENEWALS_AT_ONCE {
            let Some((_, id)) = self.due.pop_first() else {
                return;
            };
            let Some(held) = self.held.get(&id) else {
                continue;
            };
            let (leases, claim) = (self.leases.clone(), Arc::clone(&held.claim));
            self.under_way.push(Box::pin(async move {
                let sent = Instant::now();
                let answer = leases.renew(&claim.key, &claim.holder).await;
                Renewed { id, sent, answer }
            }));
        }
    }

    fn renewed(&mut self, Renewed { id, sent, answer }: Renewed) {
        // A lease that was given back meanwhile is nobody's business any more.
        let Some(held) = self.held.get_mut(&id) else {
            return;
        };
        let now = Instant::now();
        let asked_by = match answer {
            Ok(Renewal::Held) => None,
            Ok(Renewal::Asked { by }) => Some(by),
            Ok(Renewal::Lost) if sabotage::is(Sabotage::UnfencedHandOver) => None,
            Ok(Renewal::Lost) => {
                held.grasp.send_modify(|grasp| grasp.lost = true);
                self.held.remove(&id);
                return;
            }
            Err(error) => {
                let first = held.retries.is_fresh();
                self.waiting.insert((now + held.retries.next(), id));
                if first {
                    self.reports
                        .report(&KinesisError::lease(&held.claim.key, error));
                }
                return;
            }
        };
        held.retries.reset();
        let counts_from = if sabotage::is(Sabotage::DeadlineFromAnswer) {
            now
        } else {
            sent
        };
        held.grasp
            .send_modify(|grasp| grasp.deadline = counts_from + RELIED_ON);
        self.waiting.insert(((sent + RENEW_EVERY).max(now), id));
        if asked_by != held.asked_by {
            held.asked_by = asked_by;
            if held.asked_by.is_some() {
                // A coordinator that is gone hands nothing over.
                let _ = self.asked.send(held.claim.key.clone());
            }
        }
    }
}

/// Waits for a moment, and gives it; for ever, where there is none.
async fn at(moment: Option<Instant>) -> Instant {
    match moment {
        Some(moment) => {
            sleep_until(moment).await;
            moment
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
