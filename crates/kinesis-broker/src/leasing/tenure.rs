//! One lease from its acquisition to its release: the position to write, and what a refusal means.
//!
//! A reader owns its tenure. While it does anything else it polls [`Tenure::progress`] beside it: that is
//! what sends a checkpoint again after a failure, and what finds out that a lost lease is one whose row has
//! vanished, which its old holder acquires anew.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lease_core::{Checkpoint, Holder, LeaseError, LeaseKey};
use rstream::broker::Reports;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::ReusableBoxFuture;

use crate::KinesisError;
use crate::backoff::Backoff;
use crate::leasing::keeper::{Claim, Keeper, Lease};
use crate::leasing::lineage::Listing;
use crate::leasing::{Leases, after};
use crate::sabotage::{self, Sabotage};

/// What one step of a tenure brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The store has the position that was to be written.
    Written,
    /// It could not be written; that is reported, and it will be sent again.
    Failed,
    /// The row had vanished, and this instance has acquired the lease anew: the holder is another.
    Reclaimed,
    /// Another instance has the lease.
    Lost,
}

/// A held lease and the position that its reader has settled.
pub(crate) struct Tenure {
    leases: Leases,
    keeper: Arc<Keeper>,
    reports: Reports,
    lease: Lease,
    /// The last complete listing of the stream.
    listing: watch::Receiver<Arc<Listing>>,
    /// The newest settled position, written or not.
    settled: Option<Checkpoint>,
    /// Whether it has yet to be sent.
    unsent: bool,
    /// Whether it is to be sent at once, whatever the pace.
    hurries: bool,
    /// Whether the call under way carries it, or an older one.
    writing: bool,
    /// The least time between the positions that acknowledgements have written; `None` writes each.
    pace: Option<Duration>,
    /// When a position was last sent.
    sent_at: Option<Instant>,
    /// The call under way. It lives here so that dropping `progress` does not cancel it, and each is made in the
    /// place of the last, so that a checkpoint allocates nothing here.
    call: ReusableBoxFuture<'static, Answer>,
    is_calling: bool,
    backoff: Backoff,
    not_before: Option<Instant>,
}

enum Answer {
    Checkpoint(Result<bool, LeaseError>),
    /// Whether the row of the lost lease had vanished, and the lease that took its place.
    Reclaim(Result<Option<Lease>, LeaseError>),
}

impl Tenure {
    /// Acquires the lease of a shard that nobody holds; `None` where somebody does.
    pub(crate) async fn begin(
        leases: Leases,
        keeper: Arc<Keeper>,
        reports: Reports,
        key: LeaseKey,
        listing: watch::Receiver<Arc<Listing>>,
        pace: Option<Duration>,
        seed: u64,
    ) -> Result<Option<Self>, LeaseError> {
        let Some(lease) = acquire(&leases, &keeper, &key).await? else {
            return Ok(None);
        };
        Ok(Some(Self {
            leases,
            keeper,
            reports,
            lease,
            listing,
            settled: None,
            unsent: false,
            hurries: false,
            writing: false,
            pace: match pace {
                Some(_) if sabotage::is(Sabotage::WritesOften) => None,
                Some(pace) if sabotage::is(Sabotage::WritesSeldom) => Some(pace * 20),
                pace => pace,
            },
            sent_at: None,
            call: ReusableBoxFuture::new(std::future::pending()),
            is_calling: false,
            backoff: Backoff::of_leases(seed),
            not_before: None,
        }))
    }

    pub(crate) fn key(&self) -> &LeaseKey {
        self.lease.key()
    }

    pub(crate) fn holder(&self) -> &Holder {
        self.lease.holder()
    }

    /// Whether a record may be handed over at this moment.
    pub(crate) fn is_firm(&mut self) -> bool {
        self.lease.is_firm()
    }

    /// Whether the store has everything that was settled.
    pub(crate) fn is_written(&self) -> bool {
        !self.unsent && !self.writing
    }

    /// Whether the last call failed and its next try has yet to come.
    fn is_backing_off(&self) -> bool {
        !self.is_calling && self.not_before.is_some_and(|at| Instant::now() < at)
    }

    /// Whether a position is on its way to the store, or would be at the next [`progress`](Self::progress). Not
    /// after a failure, until it is sent again.
    pub(crate) fn is_writing(&self) -> bool {
        !self.is_written() && !self.is_backing_off()
    }

    /// Notes the position that the shard was opened at, which the store has.
    pub(crate) fn opened_at(&mut self, position: Checkpoint) {
        self.settled = Some(position);
    }

    /// Notes a new settled position, to be written by [`progress`](Self::progress) at the pace that was set.
    pub(crate) fn settle(&mut self, position: Checkpoint) {
        self.settled = Some(position);
        self.unsent = !(self.writing && sabotage::is(Sabotage::ForgetsShared));
    }

    /// As [`settle`](Self::settle), but whatever the pace.
    pub(crate) fn settle_at_once(&mut self, position: Checkpoint) {
        self.settle(position);
        self.hurries = true;
    }

    /// Has what is not sent yet sent at once.
    pub(crate) fn hurry(&mut self) {
        self.unsent &= !(sabotage::is(Sabotage::LeavesUnwritten) && self.pace.is_some());
        self.hurries |= self.unsent;
    }

    /// Waits until a record may be handed over; for ever, where the lease is lost. Cancel safe, and
    /// independent of `self`, so that it can be awaited beside [`progress`](Self::progress).
    pub(crate) fn firm(&self) -> impl Future<Output = ()> + use<> {
        self.lease.firm()
    }

    /// Does what there is to do until something comes of it; waits for ever while there is nothing.
    ///
    /// Cancel safe: a call under way goes on with the next `progress`.
    pub(crate) async fn progress(&mut self) -> Progress {
        loop {
            if !self.is_calling {
                self.next_call().await;
                continue;
            }
            let answer = self.call.get_pin().await;
            self.is_calling = false;
            self.writing = false;
            match answer {
                Answer::Checkpoint(Ok(accepted))
                    if accepted || sabotage::is(Sabotage::UnfencedHandOver) =>
                {
                    self.backoff.reset();
                    return Progress::Written;
                }
                // The lost lease is looked into by the next call.
                Answer::Checkpoint(Ok(_)) => {
                    self.unsent = true;
                    self.lease.lose();
                }
                Answer::Checkpoint(Err(error)) => {
                    self.unsent |= !sabotage::is(Sabotage::ForgetsFailed);
                    self.hurries = true;
                    self.failed(error);
                    return Progress::Failed;
                }
                Answer::Reclaim(Ok(Some(lease))) => {
                    tracing::warn!(
                        stream = lease.key().stream(),
                        shard = lease.key().shard(),
                        epoch = lease.holder().epoch,
                        "the row of a held lease had vanished from the store; acquired anew"
                    );
                    self.backoff.reset();
                    self.lease = lease;
                    self.unsent = self.settled.is_some();
                    self.hurries = true;
                    return Progress::Reclaimed;
                }
                Answer::Reclaim(Ok(None)) => return Progress::Lost,
                Answer::Reclaim(Err(error)) => {
                    self.failed(error);
                    return Progress::Failed;
                }
            }
        }
    }

    /// Waits for something to do, and sets the call.
    async fn next_call(&mut self) {
        let is_due = self.unsent && self.due_at().is_none_or(|at| at <= Instant::now());
        if is_due && self.lease.is_firm() {
            // The common case, without the timers and the listening of the others.
            return self.write();
        }
        tokio::select! {
            biased;
            () = self.lease.lost() => {
                wait(self.not_before).await;
                self.look_into_the_loss();
            }
            // Nothing is written past the deadline.
            () = async {
                wait(self.due_at()).await;
                if !sabotage::is(Sabotage::BorrowedFence) {
                    self.lease.firm().await;
                }
            }, if self.unsent => self.write(),
        }
    }

    /// When what is unsent may be sent, where that is not at once.
    fn due_at(&self) -> Option<Instant> {
        let paced = (self.pace.zip(self.sent_at)).filter(|_| !self.hurries);
        let paced =
            paced.map(|(pace, sent_at)| sent_at.checked_add(pace).unwrap_or_else(|| after(pace)));
        self.not_before.max(paced)
    }

    fn write(&mut self) {
        let Some(position) = self.settled.clone() else {
            return;
        };
        let (leases, claim) = (self.leases.clone(), Arc::clone(self.lease.claim()));
        self.unsent = false;
        self.hurries = false;
        self.sent_at = self.pace.map(|_| Instant::now());
        self.writing = true;
        self.is_calling = true;
        self.call.set(async move {
            Answer::Checkpoint(
                leases
                    .checkpoint(&claim.key, &claim.holder, &position)
                    .await,
            )
        });
    }

    fn look_into_the_loss(&mut self) {
        let (leases, keeper) = (self.leases.clone(), Arc::clone(&self.keeper));
        let claim = Arc::clone(self.lease.claim());
        let may_be_forgotten = self.may_be_forgotten();
        self.is_calling = true;
        self.call.set(async move {
            Answer::Reclaim(if may_be_forgotten {
                Ok(None)
            } else {
                reclaim(&leases, &keeper, &claim.key, &claim.holder).await
            })
        });
    }

    /// Whether the row of the lost lease can have gone because somebody else has read the shard to its end since:
    /// this lease has run out, and the shard is no longer listed. What this instance still has of such a shard is
    /// older than what its children's readers have settled.
    fn may_be_forgotten(&self) -> bool {
        self.lease.has_run_out() && self.listing.borrow().shard(self.key().shard()).is_none()
    }

    fn failed(&mut self, error: LeaseError) {
        self.not_before = Some(Instant::now() + self.backoff.next());
        self.reports.report(&KinesisError::lease(self.key(), error));
    }

    /// Gives the lease back. What is unwritten stays so.
    ///
    /// Tried a few times; a lease that cannot be given back runs out.
    pub(crate) async fn release(mut self) {
        let claim = Arc::clone(self.lease.claim());
        let Claim { key, holder } = &*claim;
        drop(self.lease);
        for last in [false, false, true] {
            match self.leases.release(key, holder).await {
                Ok(()) => return,
                Err(error) => {
                    self.reports.report(&KinesisError::lease(key, error));
                    if last {
                        return;
                    }
                    tokio::time::sleep(self.backoff.next()).await;
                }
            }
        }
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenure")
            .field("lease", &self.lease)
            .field("settled", &self.settled)
            .field("is_written", &self.is_written())
            .finish_non_exhaustive()
    }
}

async fn acquire(
    leases: &Leases,
    keeper: &Keeper,
    key: &LeaseKey,
) -> Result<Option<Lease>, LeaseError> {
    let sent = Instant::now();
    let holder = leases.acquire(key).await?;
    Ok(holder.map(|holder| keeper.keep(key.clone(), holder, sent)))
}

/// Where the row has vanished nobody has the lease, and its old holder takes it anew. `Ok(None)` where
/// another has it.
///
/// A store that expires leases by observation remembers the row that is gone: for one lease time it still shows
/// the holder, whom it has just refused, and after that the epoch. A row in the holder's name into which nobody
/// has written can also be of an acquisition here whose answer was lost: a store that can tell adopts it,
/// otherwise it runs out, and until then this is an error that is tried again.
async fn reclaim(
    leases: &Leases,
    keeper: &Keeper,
    key: &LeaseKey,
    holder: &Holder,
) -> Result<Option<Lease>, LeaseError> {
    let state = leases.read(key).await?;
    let may_be_ours = match &state.holder {
        Some(present) => present.owner == holder.owner,
        None => state.epoch == 0 || state.epoch == holder.epoch,
    };
    if !may_be_ours || state.checkpoint.is_some() {
        return Ok(None);
    }
    match acquire(leases, keeper, key).await? {
        Some(lease) => Ok(Some(lease)),
        None => Err(LeaseError::unavailable(
            "the row had vanished, and is now held in this instance's name or another's; looking again",
        )),
    }
}

async fn wait(until: Option<Instant>) {
    if let Some(until) = until {
        sleep_until(until).await;
    }
}

#[cfg(test)]
mod tests;
