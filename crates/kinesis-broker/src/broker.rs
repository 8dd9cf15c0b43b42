//! What the user configures, and how it becomes a broker that runs.

use std::any::Any;
use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use futures_util::FutureExt as _;
use lease_core::LeaseStore;
use lease_memory::MemoryLeaseStore;
use rstream::broker::{BoxFuture, Broker, Connection, InProcess, Reports, Result, Subscription};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::connect::Connect;
use crate::leasing::Leases;
use crate::leasing::coordinator::{Coordinator, Setup};
use crate::outlet::{self, Outlet};
use crate::publisher::{Publisher, Settings};
use crate::reading::handling::Handling;
use crate::reading::seek::{Moving, SeekStream, Shards};
use crate::testing::InProcessKinesis;
use crate::{KinesisError, KinesisStream, ShardPosition, StartPosition};

/// Amazon Kinesis Data Streams, as a broker of an [`RustStream`](rstream::RustStream) app.
///
/// It reads every shard of the streams that are subscribed to, under leases that it keeps in a
/// [`LeaseStore`]: several instances on one store share the shards.
///
/// ```
/// use kinesis_broker::prelude::*;
/// use kinesis_sim::KinesisSim;
/// use tokio::sync::mpsc;
///
/// /// Passes each change on.
/// struct Forward(mpsc::UnboundedSender<i64>);
///
/// impl Handle<i64> for Forward {
///     async fn handle(&self, change: &i64, _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
///         self.0.send(*change).map_err(|_| HandlerOutcome::retry())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rstream::AppError> {
/// // In a service: `KinesisBroker::new()`. Here, a Kinesis in this process.
/// let kinesis = KinesisSim::new();
/// kinesis.create_stream("inventory", 2);
/// let broker = KinesisBroker::from_config(&kinesis.sdk_config());
///
/// let (changes, mut handled) = mpsc::unbounded_channel();
/// let running = RustStream::new(AppInfo::new("inventory", "0.1.0"))
///     .with_broker(broker, |b| {
///         b.include(subscriber(KinesisStream::new("inventory"), Forward(changes)).build());
///     })
///     .start()
///     .await?;
///
/// kinesis.put("inventory", "sku-7", "-3");
/// assert_eq!(handled.recv().await, Some(-3));
/// running.shutdown().await
/// # }
/// ```
#[must_use = "a broker does nothing until an app with it is run"]
pub struct KinesisBroker {
    kinesis: Connect,
    store: Option<Arc<dyn LeaseStore>>,
    owner_id: Option<String>,
    hand_over_timeout: Duration,
    shutdown_timeout: Duration,
    seed: Option<u64>,
}

impl KinesisBroker {
    /// A broker that finds its region and credentials when it starts, as the AWS SDK does by default: from
    /// the environment, a profile, a web identity, the container or the instance.
    pub fn new() -> Self {
        Self {
            kinesis: Connect::default(),
            store: None,
            owner_id: None,
            hand_over_timeout: Duration::from_secs(10),
            shutdown_timeout: Duration::from_secs(30),
            seed: None,
        }
    }

    /// A broker on this configuration of the AWS SDK: its region, credentials, endpoint, HTTP client and
    /// sleep.
    pub fn from_config(config: &SdkConfig) -> Self {
        let mut broker = Self::new();
        broker.kinesis.config = Some(config.clone());
        broker
    }

    /// The URL to reach Kinesis at, instead of the region's own: a VPC endpoint, or a local server such as
    /// `http://127.0.0.1:4567`. One that is no URL is an error at start.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.kinesis.endpoint = Some(url.into());
        self
    }

    /// The AWS region, such as `eu-central-1`, whatever the environment says.
    pub fn region(mut self, name: impl Into<String>) -> Self {
        self.kinesis.region = Some(name.into());
        self
    }

    /// Credentials that a local server takes and AWS refuses. Without an [`endpoint`](Self::endpoint) of
    /// one's own they are an error at start.
    pub fn test_credentials(mut self) -> Self {
        self.kinesis.test_credentials = true;
        self
    }

    /// Where leases and checkpoints are kept; without it in a [`MemoryLeaseStore`] of this broker's own,
    /// which serves one instance and forgets everything when the process ends.
    pub fn lease_store(mut self, store: Arc<dyn LeaseStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// This instance's name in the lease store; without it one that is unique and readable: the host, the
    /// process id and a random number. No two live instances may bear one name; an empty one is an error
    /// at start.
    pub fn owner_id(mut self, name: impl Into<String>) -> Self {
        self.owner_id = Some(name.into());
        self
    }

    /// How long a shard that another instance asked for may take to settle; past it the hand-over is
    /// declined and reading goes on. Ten seconds unless it is set; zero is an error at start.
    pub fn hand_over_timeout(mut self, limit: Duration) -> Self {
        self.hand_over_timeout = limit;
        self
    }

    /// How long a shutdown waits for handlers; those that still run then are dropped, and their shards
    /// given back unsettled. Thirty seconds unless it is set; zero is an error at start.
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.shutdown_timeout = limit;
        self
    }

    /// Seeds all jitter, so that a run on a paused clock can be repeated.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// What can be told without the environment.
    fn check(&self, subscriptions: &[Subscription]) -> Result<Vec<(KinesisStream, Arc<Handling>)>> {
        let timeouts = [
            ("hand_over_timeout", self.hand_over_timeout),
            ("shutdown_timeout", self.shutdown_timeout),
        ];
        for (setting, limit) in timeouts {
            if limit.is_zero() {
                return Err(KinesisError::ZeroDuration {
                    setting,
                    stream: None,
                }
                .into());
            }
        }
        if let Some(owner) = &self.owner_id
            && owner.trim().is_empty()
        {
            let reason = "it is blank; leave it out for a unique one";
            return Err(KinesisError::OwnerId {
                owner: owner.clone(),
                reason,
            }
            .into());
        }
        self.kinesis.check()?;
        let mut names = HashSet::new();
        let mut streams = Vec::with_capacity(subscriptions.len());
        for subscription in subscriptions {
            let Some(stream) = subscription.source::<KinesisStream>() else {
                return Err(format!("{subscription:?} does not read a KinesisStream").into());
            };
            stream.check()?;
            let handling = Handling::of(subscription);
            stream.check_batches(handling.policy.batch.is_some())?;
            handling.stores_in().try_for_each(outlet::check)?;
            if !names.insert(subscription.name()) {
                let stream = subscription.name().to_owned();
                return Err(KinesisError::TwoSubscriptions { stream }.into());
            }
            streams.push((stream.clone(), Arc::new(handling)));
        }
        Ok(streams)
    }

    async fn connect(
        self,
        subscriptions: Vec<Subscription>,
        reports: Reports,
    ) -> Result<Box<dyn Connection>> {
        let subscriptions = self.check(&subscriptions)?;
        let service = self.kinesis.service().await?;
        let mut rng = fastrand::Rng::with_seed(self.seed.unwrap_or_else(ambient_seed));
        let owner = self.owner_id.unwrap_or_else(|| unique_owner(&mut rng));
        let store = self.store.unwrap_or_else(|| {
            tracing::info!(
                "no lease store was given: leases and checkpoints are kept in the memory of this process alone"
            );
            Arc::new(MemoryLeaseStore::new())
        });
        if subscriptions
            .iter()
            .any(|(_, handling)| handling.stores_in().next().is_some())
        {
            let settings = Settings::of_replies(self.shutdown_timeout);
            let outlet = Outlet::Kinesis(Arc::new(Publisher::new(
                service.clone(),
                settings,
                rng.u64(..),
            )));
            for (_, handling) in &subscriptions {
                handling.store_in(outlet.clone());
            }
        }
        tracing::info!(owner, "starting to read under leases");

        let (started, has_started) = oneshot::channel();
        let setup = Setup {
            subscriptions,
            service,
            leases: Leases::new(store, &owner),
            reports: reports.clone(),
            hand_over_timeout: self.hand_over_timeout,
            shutdown_timeout: self.shutdown_timeout,
            seeks: mpsc::unbounded_channel(),
            seed: rng.u64(..),
        };
        let stop = CancellationToken::new();
        let seeks = setup.seeks.0.clone();
        let coordinator = Coordinator::new(setup, started).run(stop.clone());
        let run = async move {
            if let Err(panic) = AssertUnwindSafe(coordinator).catch_unwind().await {
                reports.report(&KinesisError::CoordinatorPanicked);
                resume_unwind(panic);
            }
        };
        let connected = Connected {
            seeks,
            stop,
            coordinator: AbortOnDropHandle::new(tokio::spawn(run)),
            failure: None,
        };
        // A coordinator that ended before it had started has nothing to wait for.
        let _ = has_started.await;
        Ok(Box::new(connected))
    }
}

impl Default for KinesisBroker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for KinesisBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KinesisBroker")
            .field("endpoint", &self.kinesis.endpoint)
            .field("region", &self.kinesis.region)
            .field("owner_id", &self.owner_id)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl Broker for KinesisBroker {
    fn start(
        self: Box<Self>,
        subscriptions: Vec<Subscription>,
        reports: Reports,
    ) -> BoxFuture<'static, Result<Box<dyn Connection>>> {
        Box::pin(self.connect(subscriptions, reports))
    }

    fn start_in_process(
        self: Box<Self>,
        subscriptions: Vec<Subscription>,
        reports: Reports,
    ) -> Result<Box<dyn InProcess>> {
        let subscriptions = self.check(&subscriptions)?;
        let owner = self.owner_id.as_deref().unwrap_or("test-app");
        let seed = self.seed.unwrap_or(0);
        Ok(Box::new(InProcessKinesis::new(
            subscriptions,
            reports,
            owner,
            seed,
        )))
    }
}

/// A broker that runs; dropping it aborts every task of it.
struct Connected {
    seeks: mpsc::UnboundedSender<SeekStream>,
    stop: CancellationToken,
    coordinator: AbortOnDropHandle<()>,
    /// Why the coordinator ended, once that is known: a task is joined once.
    failure: Option<String>,
}

impl Connection for Connected {
    fn shutdown(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            if let Some(failure) = self.failure {
                return Err(failure.into());
            }
            self.stop.cancel();
            Ok(self.coordinator.await?)
        })
    }

    fn seek<'a>(
        &'a self,
        subscription: &'a str,
        to: Box<dyn Any + Send>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (shards, to) = match to.downcast::<StartPosition>() {
                Ok(to) => (Shards::All, *to),
                Err(to) => match to.downcast::<ShardPosition>() {
                    Ok(to) => (Shards::One(to.shard), to.position),
                    Err(_) => return Err("this is no position of a KinesisBroker".into()),
                },
            };
            let (moves, told) = oneshot::channel();
            let asked = SeekStream {
                stream: subscription.into(),
                shards: shards.clone(),
                to,
                moves: Some(moves),
            };
            let not_moved = |shards| KinesisError::NotMoved {
                stream: subscription.to_owned(),
                shards,
            };
            // A coordinator that has ended moves nothing.
            let _ = self.seeks.send(asked);
            let moving = told.await.unwrap_or_default();
            if moving.is_empty() {
                let named = match shards {
                    Shards::One(shard) => vec![shard],
                    Shards::All | Shards::AllBut(_) => Vec::new(),
                };
                return Err(not_moved(named).into());
            }
            let mut left = Vec::new();
            for Moving { shard, done } in moving {
                if done.await.is_err() {
                    left.push(shard);
                }
            }
            if left.is_empty() {
                Ok(())
            } else {
                Err(not_moved(left).into())
            }
        })
    }

    fn failed(&mut self) -> BoxFuture<'_, Box<dyn Error + Send + Sync + 'static>> {
        Box::pin(async {
            if let Some(failure) = &self.failure {
                return failure.clone().into();
            }
            match (&mut self.coordinator).await {
                Err(error) => {
                    self.failure = Some(error.to_string());
                    error.into()
                }
                Ok(()) => std::future::pending().await,
            }
        })
    }
}

fn unique_owner(rng: &mut fastrand::Rng) -> String {
    let host = gethostname::gethostname();
    let pid = std::process::id();
    format!("{}-{pid}-{:08x}", host.to_string_lossy(), rng.u32(..))
}

/// Randomness from outside, for what is given no seed.
pub(crate) fn ambient_seed() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where randomness comes in; a seed replaces it"
    )]
    let mut rng = fastrand::Rng::new();
    rng.u64(..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_broker_that_failed_says_so_again_and_can_be_shut_down() {
        let coordinator = tokio::spawn(async { panic!("a fault of ours") });
        let mut connected = Connected {
            seeks: mpsc::unbounded_channel().0,
            stop: CancellationToken::new(),
            coordinator: AbortOnDropHandle::new(coordinator),
            failure: None,
        };
        let failed = connected.failed().await.to_string();
        assert!(failed.contains("a fault of ours"), "{failed}");
        assert_eq!(connected.failed().await.to_string(), failed);
        let shut_down = Box::new(connected).shutdown().await;
        assert_eq!(shut_down.unwrap_err().to_string(), failed);
    }

    #[test]
    fn owners_without_a_name_of_their_own_are_told_apart() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (one, other) = (unique_owner(&mut rng), unique_owner(&mut rng));
        assert_ne!(one, other);
        assert!(one.contains(&std::process::id().to_string()));
    }
}
