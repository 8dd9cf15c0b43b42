//! What several owners send at once, drawn from a seed.

use std::collections::BTreeMap;
use std::task::Poll;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::join_all;

use super::history::History;
use super::recorder::Recording;
use crate::conformance::Violation;
use crate::conformance::subject::Subject;
use crate::conformance::trial::{Call, send};
use crate::{Checkpoint, Holder, LeaseError, LeaseKey};

/// How much of what is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    pub(super) seed: u64,
    /// The calls of each owner.
    pub(super) calls: usize,
    /// Of a hundred calls so many are cancelled once they are sent.
    pub(super) cancelled: u64,
    /// An owner waits up to so many hundredths of a lease before each call, and renews seldom.
    pub(super) pauses: u64,
}

/// Numbers from a seed, by Vigna's splitmix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// An owner and what it knows.
struct Owner<'a> {
    name: &'static str,
    recording: Recording<'a>,
    subject: &'a Subject<'a>,
    keys: &'a [LeaseKey],
    workload: Workload,
    numbers: Numbers,
    /// The leases that it has, as far as it knows, and had before.
    held: BTreeMap<LeaseKey, Holder>,
    earlier: BTreeMap<LeaseKey, Holder>,
    checkpoints: u64,
}

impl Workload {
    /// Sends it, and looks whether the answers can be explained.
    pub(super) async fn run(
        self,
        subject: &Subject<'_>,
        keys: &[LeaseKey],
    ) -> Result<(), Violation> {
        let history = History::new();
        let now = |_: &History| subject.now();
        let is_one = std::ptr::addr_eq(subject.one, subject.other);
        let stores = [subject.one, subject.other];
        // Two of one name, as two processes may have; through two instances of the store if there are two.
        let owners = [("a", 0), ("b", 1), ("c", 0), ("a", 1)];
        let mut working = Vec::new();
        for ((name, instance), number) in owners.into_iter().zip(1..) {
            let recording = Recording {
                store: stores[instance],
                history: &history,
                instance: if is_one { 1 } else { instance + 1 },
                now: &now,
            };
            let owner = Owner {
                name,
                recording,
                subject,
                keys,
                workload: self,
                numbers: Numbers((self.seed << 8) | number),
                held: BTreeMap::new(),
                earlier: BTreeMap::new(),
                checkpoints: number * 1_000,
            };
            working.push(owner.work());
        }
        for worked in join_all(working).await {
            worked?;
        }
        history.check().map_err(|violation| {
            violation.and(&format!("\nThe calls are those of seed {}.", self.seed))
        })
    }
}

impl Owner<'_> {
    async fn work(mut self) -> Result<(), Violation> {
        for _ in 0..self.workload.calls {
            self.wait().await;
            let key = &self.keys[self.drawn(self.keys.len())];
            let worked = match self.held.get(key).cloned() {
                Some(holder) => self.as_holder(key, &holder).await,
                None => self.as_anybody(key).await,
            };
            // A call that failed is one without an answer.
            match worked {
                Err(error) if !error.is_retryable() => {
                    return Err(Violation::failed("a call among many", error));
                }
                Err(_) | Ok(()) => {}
            }
        }
        Ok(())
    }

    fn drawn(&mut self, limit: usize) -> usize {
        let drawn = self.numbers.below(limit as u64);
        usize::try_from(drawn).unwrap_or_default()
    }

    async fn wait(&mut self) {
        let hundredths = u32::try_from(self.numbers.below(self.workload.pauses + 1)).unwrap_or(0);
        if hundredths > 0 {
            let span = self.subject.ttl * hundredths / 100;
            self.subject.pass(span.max(Duration::from_millis(1))).await;
        } else {
            give_way().await;
        }
    }

    async fn as_holder(&mut self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        let draw = self.numbers.below(100);
        // Whoever takes its time is to lose its lease rather than to give it back.
        let (renews, releases) = match self.workload.pauses {
            0 => (40, 15),
            _ => (10, 3),
        };
        if draw < renews {
            self.renew(key, holder).await
        } else if draw < renews + releases {
            self.forget_about(key);
            self.release(key, holder).await
        } else if draw < 90 {
            self.checkpoint(key, holder).await
        } else {
            self.look(key).await
        }
    }

    async fn as_anybody(&mut self, key: &LeaseKey) -> Result<(), LeaseError> {
        match self.numbers.below(100) {
            0..50 => self.acquire(key).await,
            50..65 if self.subject.hands_over => {
                let asked = self.recording.ask(key, self.name).await;
                asked.map(|_| ())
            }
            65..72 if self.subject.forgets => {
                let forgotten = self.recording.forget(key).await;
                forgotten.map(|_| ())
            }
            // What a stale holder presents changes nothing.
            72..84 => match self.earlier.get(key).cloned() {
                Some(stale) => match self.numbers.below(3) {
                    0 => self.renew(key, &stale).await,
                    1 => self.checkpoint(key, &stale).await,
                    _ => self.release(key, &stale).await,
                },
                None => self.look(key).await,
            },
            _ => self.look(key).await,
        }
    }

    async fn acquire(&mut self, key: &LeaseKey) -> Result<(), LeaseError> {
        let (recording, ttl) = (self.recording, self.subject.ttl);
        let call = recording.acquire(key, self.name, ttl);
        if let Some(Some(holder)) = self.waited_for(Box::pin(call)).await? {
            self.held.insert(key.clone(), holder);
        }
        Ok(())
    }

    async fn renew(&mut self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        let (recording, ttl) = (self.recording, self.subject.ttl);
        let call = recording.renew(key, holder, ttl);
        if let Some(crate::Renewal::Lost) = self.waited_for(Box::pin(call)).await? {
            self.forget_about(key);
        }
        Ok(())
    }

    async fn checkpoint(&mut self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        self.checkpoints += 1;
        let at = match self.numbers.below(8) {
            0 => Checkpoint::shard_end(),
            1 => Checkpoint::at_timestamp(UNIX_EPOCH + Duration::from_millis(self.checkpoints)),
            2 => Checkpoint::at_sub("1", self.checkpoints),
            _ => Checkpoint::at(self.checkpoints.to_string()),
        };
        let recording = self.recording;
        let call = recording.checkpoint(key, holder, &at);
        if let Some(false) = self.waited_for(Box::pin(call)).await? {
            self.forget_about(key);
        }
        Ok(())
    }

    async fn release(&mut self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        let recording = self.recording;
        let call = recording.release(key, holder);
        self.waited_for(Box::pin(call)).await?;
        Ok(())
    }

    async fn look(&mut self, key: &LeaseKey) -> Result<(), LeaseError> {
        if self.numbers.below(3) == 0 {
            return self.recording.read_all(self.keys).await.map(|_| ());
        }
        self.recording.read(key).await.map(|_| ())
    }

    /// It does not count on the lease any more, and will present it as a stale one now and then.
    fn forget_about(&mut self, key: &LeaseKey) {
        if let Some(holder) = self.held.remove(key) {
            self.earlier.insert(key.clone(), holder);
        }
    }

    /// Sends a call, and waits for the answer unless the call is to be cancelled.
    async fn waited_for<T>(&mut self, mut call: Call<'_, T>) -> Result<Option<T>, LeaseError> {
        if self.numbers.below(100) < self.workload.cancelled {
            return send(&mut call).await.transpose();
        }
        call.await.map(Some)
    }
}

/// Lets the others go on.
async fn give_way() {
    let mut gave_way = false;
    std::future::poll_fn(|context| {
        if gave_way {
            return Poll::Ready(());
        }
        gave_way = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
