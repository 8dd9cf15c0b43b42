//! One attempt at a case: its keys, its parties, and how long what it relies on is sure to last.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use super::subject::Subject;
use super::violation::{Violation, ensure, ensure_eq};
use crate::{Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal};

/// An instance of a service as the store sees it: a name, and the store object it calls.
#[derive(Clone, Copy)]
pub(super) struct Party<'a> {
    pub(super) owner: &'static str,
    pub(super) store: &'a dyn LeaseStore,
}

/// One attempt at a case.
///
/// A case counts on leases being live while it looks. A lease is sure to be live until its time
/// has passed since its acquisition or renewal was *sent*. An attempt that failed after that has
/// decided nothing, since it may have been too slow; one that failed before has found a violation,
/// however busy the machine is.
pub(super) struct Trial<'a> {
    pub(super) subject: &'a Subject<'a>,
    pub(super) key: LeaseKey,
    /// The first holder of most cases.
    pub(super) a: Party<'a>,
    /// Somebody else, on the other instance of the store.
    pub(super) b: Party<'a>,
    /// A third, on the other instance of the store.
    pub(super) c: Party<'a>,
    /// Another process that bears the name of `a`.
    pub(super) twin: Party<'a>,
    relies_until: BTreeMap<LeaseKey, Duration>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(subject: &'a Subject<'a>) -> Self {
        let party = |owner, store| Party { owner, store };
        Self {
            subject,
            key: fresh_key(subject),
            a: party("a", subject.one),
            b: party("b", subject.other),
            c: party("c", subject.other),
            twin: party("a", subject.other),
            relies_until: BTreeMap::new(),
        }
    }

    /// Another key that nobody has used.
    pub(super) fn another_key(&self) -> LeaseKey {
        fresh_key(self.subject)
    }

    /// Whether something that the case relied on may have run out meanwhile.
    pub(super) fn is_overdue(&self) -> bool {
        let now = self.subject.now();
        self.relies_until.values().any(|until| *until <= now)
    }

    /// From here on the case relies on what lasts for `span` from a call on its key sent at `sent`;
    /// unless it relied on something that has run out already, which then stays overdue.
    pub(super) fn rely(&mut self, sent: Duration, span: Duration) {
        let now = self.subject.now();
        let until = self.relies_until.entry(self.key.clone());
        let until = until.or_insert(sent + span);
        if *until > now {
            *until = sent + span;
        }
    }

    /// From here on the case relies on nothing that lasts a while; when what it relied on runs out,
    /// at the earliest.
    pub(super) fn rely_no_more(&mut self) -> Duration {
        self.relies_until.remove(&self.key).unwrap_or_default()
    }

    pub(super) async fn acquire(&mut self, by: Party<'_>) -> Result<Option<Holder>, Violation> {
        let sent = self.subject.now();
        let granted = by
            .store
            .acquire(&self.key, by.owner, self.subject.ttl)
            .await;
        let granted = granted.map_err(|error| Violation::failed("acquire", error))?;
        if granted.is_some() {
            self.rely(sent, self.subject.ttl);
        }
        Ok(granted)
    }

    /// Acquires a lease that is free.
    pub(super) async fn granted(&mut self, by: Party<'_>) -> Result<Holder, Violation> {
        let Some(holder) = self.acquire(by).await? else {
            let state = self.read(by).await?;
            return Err(Violation::new(format!(
                "acquire refused {:?} a lease that is free: {state:?}",
                by.owner
            )));
        };
        ensure_eq!(holder.owner, by.owner, "the owner of an acquired lease");
        Ok(holder)
    }

    /// Fails to acquire a lease that is not free.
    pub(super) async fn refused(&mut self, to: Party<'_>) -> Result<(), Violation> {
        let relied = self.relies_until.clone();
        if let Some(holder) = self.acquire(to).await? {
            self.relies_until = relied;
            return Err(Violation::new(format!(
                "acquire granted {holder:?} a lease that is live, or reserved for another"
            )));
        }
        Ok(())
    }

    /// Acquires as soon as what the case relied on has run out, and not before.
    pub(super) async fn taken_over(&mut self, by: Party<'_>) -> Result<Holder, Violation> {
        let earliest = self.rely_no_more();
        let give_up = self.give_up();
        loop {
            if let Some(holder) = self.acquire(by).await? {
                ensure!(
                    self.subject.now() >= earliest,
                    "acquire granted {holder:?} a lease or reservation of another before its time was over"
                );
                ensure_eq!(holder.owner, by.owner, "the owner of an acquired lease");
                return Ok(holder);
            }
            self.wait(give_up, "acquire to grant a lease that nobody renews")
                .await?;
        }
    }

    /// Waits until a party sees the lease expired, which must not be before its time.
    pub(super) async fn expired(&mut self, seen_by: Party<'_>) -> Result<LeaseState, Violation> {
        let earliest = self.rely_no_more();
        let give_up = self.give_up();
        loop {
            let state = self.read(seen_by).await?;
            if !state.live {
                ensure!(
                    self.subject.now() >= earliest,
                    "read shows a lease expired before its time was over: {state:?}"
                );
                return Ok(state);
            }
            self.wait(give_up, "read to show a lease expired that nobody renews")
                .await?;
        }
    }

    pub(super) async fn renew(
        &mut self,
        by: Party<'_>,
        holder: &Holder,
    ) -> Result<Renewal, Violation> {
        let sent = self.subject.now();
        let renewal = by.store.renew(&self.key, holder, self.subject.ttl).await;
        let renewal = renewal.map_err(|error| Violation::failed("renew", error))?;
        if renewal != Renewal::Lost {
            self.rely(sent, self.subject.ttl);
        }
        Ok(renewal)
    }

    pub(super) async fn checkpoint(
        &self,
        by: Party<'_>,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, Violation> {
        let accepted = by.store.checkpoint(&self.key, holder, at).await;
        accepted.map_err(|error| Violation::failed("checkpoint", error))
    }

    /// Notes a position that must be accepted.
    pub(super) async fn checkpointed(
        &self,
        by: Party<'_>,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<(), Violation> {
        ensure!(
            self.checkpoint(by, holder, at).await?,
            "checkpoint refused {at} from the present holder {holder:?}"
        );
        Ok(())
    }

    pub(super) async fn read(&self, by: Party<'_>) -> Result<LeaseState, Violation> {
        let state = by.store.read(&self.key).await;
        state.map_err(|error| Violation::failed("read", error))
    }

    pub(super) async fn release(&self, by: Party<'_>, holder: &Holder) -> Result<(), Violation> {
        let released = by.store.release(&self.key, holder).await;
        released.map_err(|error| Violation::failed("release", error))
    }

    pub(super) async fn ask(&self, by: Party<'_>) -> Result<bool, Violation> {
        let asked = by.store.ask(&self.key, by.owner).await;
        asked.map_err(|error| Violation::failed("ask", error))
    }

    pub(super) async fn forget(&self, by: Party<'_>) -> Result<bool, Violation> {
        let forgotten = by.store.forget(&self.key).await;
        forgotten.map_err(|error| Violation::failed("forget", error))
    }

    /// A small part of a lease time: how often the suite looks while it waits.
    pub(super) fn step(&self) -> Duration {
        (self.subject.ttl / 20).max(Duration::from_millis(1))
    }

    /// When to give up on what is due within two lease times.
    pub(super) fn give_up(&self) -> Duration {
        self.subject.now() + self.subject.ttl * 2 + self.subject.patience
    }

    /// Waits a step for a condition, unless it is time to give up.
    pub(super) async fn wait(&self, give_up: Duration, what: &str) -> Result<(), Violation> {
        ensure!(
            self.subject.now() < give_up,
            "waited in vain, for two lease times and {:?}, for {what}",
            self.subject.patience
        );
        self.subject.pass(self.step()).await;
        Ok(())
    }
}

fn fresh_key(subject: &Subject<'_>) -> LeaseKey {
    static KEYS: AtomicU64 = AtomicU64::new(0);
    let number = KEYS.fetch_add(1, Ordering::Relaxed);
    let stream = format!("conformance-{}-{number}", subject.namespace);
    LeaseKey::new(stream, "shardId-000000000000")
}

/// A call of a store under way.
pub(super) type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, LeaseError>> + Send + 'a>>;

/// Sends a call, and no more: polls it once.
pub(super) async fn send<T>(call: &mut Call<'_, T>) -> Option<Result<T, LeaseError>> {
    std::future::poll_fn(|context| {
        Poll::Ready(match call.as_mut().poll(context) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        })
    })
    .await
}
