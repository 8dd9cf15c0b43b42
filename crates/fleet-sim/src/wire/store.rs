//! The instance's lease store: each call is carried out by the world's store, if the line lets it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lease_core::{
    Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal, async_trait,
};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::Line;
use crate::history::{Answer, Ask, CallId, Event};
use crate::plan::Trouble;
use crate::world::Service;

type Called<T> = Pin<Box<dyn Future<Output = Result<T, LeaseError>> + Send>>;

/// Reaches the store over a line.
pub(crate) struct RemoteStore {
    pub(crate) line: Line,
    /// The world's store, as this instance opens it.
    pub(crate) store: Arc<dyn LeaseStore>,
}

/// A call where it takes effect.
struct Passage {
    call: CallId,
    store: Arc<dyn LeaseStore>,
    world: Arc<Service>,
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteStore")
            .field(&self.line.instance)
            .finish()
    }
}

impl RemoteStore {
    async fn call<T: Send + 'static>(
        &self,
        ask: Ask,
        told: fn(&T) -> Answer,
        call: impl Fn(Passage) -> Called<T> + Send + Sync + 'static,
    ) -> Result<T, LeaseError> {
        let line = &self.line;
        let id = line.recorder.next_call();
        let sent = line.clock.now();
        let instance = line.instance;
        line.recorder.note(
            sent,
            Event::Sent {
                call: id,
                instance,
                ask,
            },
        );
        let store = Arc::clone(&self.store);
        let (answer, answered) = oneshot::channel();
        let job = move |world: Arc<Service>| {
            let job: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
                let fate = world.fate_of_call(instance);
                sleep(fate.on_the_way).await;
                let carried_out = async || {
                    let passage = Passage {
                        call: id,
                        store: Arc::clone(&store),
                        world: Arc::clone(&world),
                    };
                    let answer = call(passage).await;
                    world.note(Event::Took {
                        call: id,
                        answer: said(&answer, told),
                    });
                    answer
                };
                let result = match fate.trouble {
                    None => carried_out().await,
                    Some(Trouble::Fails) => {
                        Err(LeaseError::unavailable("the store is out of reach"))
                    }
                    Some(Trouble::Throttles) => Err(LeaseError::throttled("too many calls")),
                    Some(Trouble::LosesAnswer) => {
                        let _ = carried_out().await;
                        Err(LeaseError::unavailable("the answer was lost"))
                    }
                    Some(Trouble::Repeats) => {
                        let _ = carried_out().await;
                        sleep(fate.on_the_way).await;
                        carried_out().await
                    }
                    Some(Trouble::Hangs) => return,
                    Some(Trouble::Late(by)) => {
                        sleep(by).await;
                        carried_out().await
                    }
                    Some(Trouble::AnswersLate(by)) => {
                        let result = carried_out().await;
                        sleep(by).await;
                        result
                    }
                };
                sleep(fate.on_the_way_back).await;
                // Nobody may be there any more to hear it.
                let _ = answer.send((result, world.clock.now()));
            });
            job
        };
        line.send(sent, Box::new(job));
        let Ok((result, answered_at)) = answered.await else {
            return std::future::pending().await;
        };
        // Nothing is heard before it is said, however two clocks are rounded.
        let heard_at = line.clock.now().max(answered_at);
        let answer = said(&result, told);
        line.recorder
            .note(heard_at, Event::Answered { call: id, answer });
        result
    }
}

fn said<T>(result: &Result<T, LeaseError>, told: fn(&T) -> Answer) -> Answer {
    match result {
        Ok(answer) => told(answer),
        Err(error) => Answer::Failed(error.to_string()),
    }
}

fn yes(is_so: bool) -> Answer {
    if is_so { Answer::Yes } else { Answer::No }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LeaseStore for RemoteStore {
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        let (key, owner) = (key.clone(), owner.to_owned());
        let ask = Ask::Acquire {
            key: key.clone(),
            owner: owner.clone(),
        };
        let told = |granted: &Option<Holder>| match granted {
            Some(holder) => Answer::Granted(holder.clone()),
            None => Answer::No,
        };
        self.call(ask, told, move |Passage { store, .. }| {
            let (key, owner) = (key.clone(), owner.clone());
            Box::pin(async move { store.acquire(&key, &owner, ttl).await })
        })
        .await
    }

    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        let (key, holder) = (key.clone(), holder.clone());
        let ask = Ask::Renew {
            key: key.clone(),
            holder: holder.clone(),
        };
        let told = |renewal: &Renewal| yes(*renewal != Renewal::Lost);
        self.call(ask, told, move |Passage { store, .. }| {
            let (key, holder) = (key.clone(), holder.clone());
            Box::pin(async move { store.renew(&key, &holder, ttl).await })
        })
        .await
    }

    async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        let (key, holder, at) = (key.clone(), holder.clone(), at.clone());
        let ask = Ask::Checkpoint {
            key: key.clone(),
            holder: holder.clone(),
            at: at.clone(),
        };
        self.call(
            ask,
            |is_so| yes(*is_so),
            move |Passage { call, store, world }| {
                let (key, holder, at) = (key.clone(), holder.clone(), at.clone());
                Box::pin(async move {
                    // A store numbers the checkpoints of a holder as they are sent; this line, which lies before the
                    // store, does it in its place.
                    if world.is_overtaken(&key, &holder, call) {
                        return Ok(store.read(&key).await?.holder == Some(holder));
                    }
                    store.checkpoint(&key, &holder, &at).await
                })
            },
        )
        .await
    }

    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        let key = key.clone();
        self.call(
            Ask::Read { key: key.clone() },
            |_| Answer::Yes,
            move |Passage { store, .. }| {
                let key = key.clone();
                Box::pin(async move { store.read(&key).await })
            },
        )
        .await
    }

    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        let (key, holder) = (key.clone(), holder.clone());
        let ask = Ask::Release {
            key: key.clone(),
            holder: holder.clone(),
        };
        self.call(
            ask,
            |()| Answer::Yes,
            move |Passage { store, .. }| {
                let (key, holder) = (key.clone(), holder.clone());
                Box::pin(async move { store.release(&key, &holder).await })
            },
        )
        .await
    }

    async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
        let keys: Arc<[LeaseKey]> = keys.into();
        self.call(
            Ask::ReadAll { keys: keys.len() },
            |_| Answer::Yes,
            move |Passage { store, .. }| {
                let keys = Arc::clone(&keys);
                Box::pin(async move { store.read_all(&keys).await })
            },
        )
        .await
    }

    async fn ask(&self, key: &LeaseKey, owner: &str) -> Result<bool, LeaseError> {
        let (key, owner) = (key.clone(), owner.to_owned());
        let ask = Ask::Ask {
            key: key.clone(),
            owner: owner.clone(),
        };
        self.call(
            ask,
            |is_so| yes(*is_so),
            move |Passage { store, .. }| {
                let (key, owner) = (key.clone(), owner.clone());
                Box::pin(async move { store.ask(&key, &owner).await })
            },
        )
        .await
    }

    async fn forget(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
        let key = key.clone();
        self.call(
            Ask::Forget { key: key.clone() },
            |is_so| yes(*is_so),
            move |Passage { store, .. }| {
                let key = key.clone();
                Box::pin(async move { store.forget(&key).await })
            },
        )
        .await
    }
}
