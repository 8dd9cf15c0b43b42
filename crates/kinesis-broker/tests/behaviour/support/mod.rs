//! A fleet of instances in one process: a simulated Kinesis, a store whose calls can be made to fail, and
//! a log of everything that any handler was given.

mod counters;
mod handlers;
mod history;
mod logs;
mod store;

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinesis_broker::{KinesisBroker, KinesisError, KinesisStream, RecordInfo, StartPosition};
use kinesis_sim::{KinesisSim, SimRecord};
use lease_core::{Checkpoint, LeaseKey, LeaseState, LeaseStore as _};
use rstream::broker::{Position, Subscription};
use rstream::{
    AppError, AppInfo, Context, Handle, HandlerOutcome, Running, RustStream, subscriber,
};
use tokio::time::Instant;

pub(crate) use counters::Counters;
pub(crate) use handlers::{Batches, Receipt, Replies, SeenBatch};
pub(crate) use logs::Logs;
pub(crate) use store::{Call, Made, Outcome, TestStore, Trouble};

/// The stream that most tests read.
pub(crate) const STREAM: &str = "inventory";

/// The id of the `n`th shard of a stream.
pub(crate) fn shard(n: usize) -> String {
    format!("shardId-{n:012}")
}

/// One delivery.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The instance that was given it.
    pub(crate) owner: String,
    pub(crate) stream: String,
    pub(crate) shard: String,
    pub(crate) sequence_number: String,
    pub(crate) partition_key: String,
    pub(crate) epoch: u64,
    pub(crate) value: u64,
    pub(crate) attempt: u32,
    /// When the handler was called.
    pub(crate) at: Instant,
    /// When it returned; `None` while it runs, or if it was dropped.
    pub(crate) done_at: Option<Instant>,
}

/// What a handler does with a delivery.
#[derive(Clone, Debug)]
pub(crate) struct Act {
    pub(crate) takes: Duration,
    pub(crate) says: Says,
}

/// How a handler ends.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    Outcome(HandlerOutcome),
    Panic,
}

/// Settles at once.
pub(crate) fn ack() -> Act {
    Act {
        takes: Duration::ZERO,
        says: Says::Outcome(HandlerOutcome::ack()),
    }
}

/// Settles after a while.
pub(crate) fn ack_after(takes: Duration) -> Act {
    Act { takes, ..ack() }
}

/// Ends with another outcome, at once.
pub(crate) fn say(outcome: HandlerOutcome) -> Act {
    Act {
        takes: Duration::ZERO,
        says: Says::Outcome(outcome),
    }
}

/// Ends with a panic, at once.
pub(crate) fn panics() -> Act {
    Act {
        takes: Duration::ZERO,
        says: Says::Panic,
    }
}

impl Act {
    /// Makes a handler end so; `done` is called when it does.
    async fn make(self, done: impl FnOnce()) -> Result<(), HandlerOutcome> {
        if !self.takes.is_zero() {
            tokio::time::sleep(self.takes).await;
        }
        done();
        match self.says {
            Says::Outcome(outcome) if outcome == HandlerOutcome::ack() => Ok(()),
            Says::Outcome(outcome) => Err(outcome),
            Says::Panic => panic!("a handler of a test panics"),
        }
    }
}

type Behaviour = Arc<dyn Fn(&Seen) -> Act + Send + Sync>;
type Subscribe = dyn Fn(KinesisStream, Recorder) -> Subscription;

/// A simulated Kinesis, a store, and what the handlers of all instances were given.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    pub(crate) sim: KinesisSim,
    pub(crate) store: Arc<TestStore>,
    log: Arc<Mutex<Vec<Seen>>>,
}

impl Fleet {
    /// A fleet over [`STREAM`] with so many shards, without the service's quotas.
    pub(crate) fn of_shards(shards: usize) -> Self {
        let fleet = Self::empty();
        fleet.sim.create_stream(STREAM, shards);
        fleet
    }

    /// A fleet over no stream yet.
    pub(crate) fn empty() -> Self {
        Self::on(KinesisSim::builder().seed(7).quotas(false).build())
    }

    /// A fleet over this service.
    pub(crate) fn on(sim: KinesisSim) -> Self {
        Self {
            sim,
            store: Arc::new(TestStore::default()),
            log: Arc::default(),
        }
    }

    /// An instance that reads [`STREAM`] from its oldest record and settles everything at once.
    pub(crate) fn instance(&self, owner: &str) -> Builder {
        Builder {
            fleet: self.clone(),
            owner: owner.to_owned(),
            name: owner.to_owned(),
            streams: vec![from_the_start(STREAM)],
            behaviour: Arc::new(|_| ack()),
            subscribe: Box::new(|stream, handler| subscriber(stream, handler).build::<u64>()),
            configure: Box::new(|broker| broker),
        }
    }

    /// Puts a record of this value into a shard of [`STREAM`].
    pub(crate) fn put(&self, shard: &str, value: u64) -> String {
        let stored = self
            .sim
            .put_to_shard(STREAM, shard, &value.to_string(), value.to_string());
        stored.sequence_number
    }

    /// Puts a record of this value into the shard of [`STREAM`] that has this partition key.
    pub(crate) fn put_key(&self, partition_key: &str, value: u64) {
        self.sim.put(STREAM, partition_key, value.to_string());
    }

    /// Everything that lies in a stream, in the order of the sequence numbers.
    pub(crate) fn stored(&self, stream: &str) -> Vec<SimRecord> {
        let shards = self.sim.shards(stream).into_iter();
        let mut records: Vec<_> = shards
            .flat_map(|shard| self.sim.records(stream, &shard.id))
            .collect();
        records.sort_by_key(|record| {
            let number = &record.sequence_number;
            (number.len(), number.clone())
        });
        records
    }

    /// Puts records of these values into a shard of [`STREAM`].
    pub(crate) fn put_all(&self, shard: &str, values: impl IntoIterator<Item = u64>) {
        for value in values {
            self.put(shard, value);
        }
    }

    /// Waits until so many records of [`STREAM`] are handled.
    pub(crate) async fn until_handled(&self, count: usize) {
        until(format_args!("{count} are handled"), async || {
            let seen = self.seen();
            seen.iter().filter(|seen| seen.done_at.is_some()).count() >= count
        })
        .await;
    }

    /// The name of the lease of a shard of [`STREAM`].
    pub(crate) fn key(&self, shard: &str) -> LeaseKey {
        LeaseKey::new(STREAM, shard)
    }

    /// All deliveries so far, in the order in which they began.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.log.lock().unwrap().clone()
    }

    /// The values of all deliveries so far, in the order in which they began.
    pub(crate) fn values(&self) -> Vec<u64> {
        self.seen().iter().map(|seen| seen.value).collect()
    }

    /// The deliveries of one shard so far.
    pub(crate) fn seen_of(&self, shard: &str) -> Vec<Seen> {
        let mut seen = self.seen();
        seen.retain(|seen| seen.shard == shard);
        seen
    }

    /// The values of all deliveries so far, each once, the smallest first.
    pub(crate) fn handled(&self) -> Vec<u64> {
        let mut values = self.values();
        values.sort_unstable();
        values.dedup();
        values
    }

    /// What the store says of a shard of [`STREAM`].
    pub(crate) async fn state(&self, shard: &str) -> LeaseState {
        let key = LeaseKey::new(STREAM, shard);
        self.store.state(&key).await
    }

    /// The text of a shard's checkpoint; empty where there is none.
    pub(crate) async fn checkpoint(&self, shard: &str) -> String {
        let checkpoint = self.state(shard).await.checkpoint;
        checkpoint.map(|at| at.to_string()).unwrap_or_default()
    }

    /// Writes a checkpoint as an earlier owner left it.
    pub(crate) async fn leave_checkpoint(&self, shard: &str, at: &Checkpoint) {
        let (key, store) = (LeaseKey::new(STREAM, shard), &self.store.inner);
        let ttl = Duration::from_secs(10);
        let holder = store.acquire(&key, "earlier", ttl).await.unwrap().unwrap();
        assert!(store.checkpoint(&key, &holder, at).await.unwrap());
        store.release(&key, &holder).await.unwrap();
    }

    /// Who holds a live lease on a shard; empty where nobody does.
    pub(crate) async fn owner(&self, shard: &str) -> String {
        let state = self.state(shard).await;
        let holder = state.holder.filter(|_| state.live);
        holder.map(|holder| holder.owner).unwrap_or_default()
    }
}

/// A stream read from its oldest record.
pub(crate) fn from_the_start(name: &str) -> KinesisStream {
    KinesisStream::new(name).start_at(StartPosition::trim_horizon())
}

/// An instance being made.
pub(crate) struct Builder {
    fleet: Fleet,
    owner: String,
    name: String,
    streams: Vec<KinesisStream>,
    behaviour: Behaviour,
    subscribe: Box<Subscribe>,
    configure: Box<dyn FnOnce(KinesisBroker) -> KinesisBroker>,
}

impl Builder {
    /// Reads these streams instead.
    pub(crate) fn streams(mut self, streams: impl IntoIterator<Item = KinesisStream>) -> Self {
        self.streams = streams.into_iter().collect();
        self
    }

    /// The store tells it apart by this name, where two instances have one owner id.
    pub(crate) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Does this with each delivery.
    pub(crate) fn handler(mut self, act: impl Fn(&Seen) -> Act + Send + Sync + 'static) -> Self {
        self.behaviour = Arc::new(act);
        self
    }

    /// Makes this of each stream and the handler.
    pub(crate) fn subscription(
        mut self,
        subscribe: impl Fn(KinesisStream, Recorder) -> Subscription + 'static,
    ) -> Self {
        self.subscribe = Box::new(subscribe);
        self
    }

    /// Sets the broker up further.
    pub(crate) fn configure(
        mut self,
        configure: impl FnOnce(KinesisBroker) -> KinesisBroker + 'static,
    ) -> Self {
        self.configure = Box::new(configure);
        self
    }

    /// Starts it.
    pub(crate) async fn start(self) -> Instance {
        let errors = Arc::new(Mutex::new(Vec::new()));
        let broker = KinesisBroker::from_config(&self.fleet.sim.sdk_config())
            .lease_store(Arc::new(self.fleet.store.of(&self.name)))
            .owner_id(self.owner.clone())
            .seed(7);
        let broker = (self.configure)(broker);
        let log = &self.fleet.log;
        let sink = Arc::clone(&errors);
        let app = RustStream::new(AppInfo::new("test", "0.0.0"))
            .with_broker(broker, |b| {
                for stream in self.streams {
                    let handler = Recorder {
                        log: Arc::clone(log),
                        behaviour: Arc::clone(&self.behaviour),
                    };
                    b.include((self.subscribe)(stream, handler));
                }
            })
            .on_error(move |error| sink.lock().unwrap().push(Reported::new(error)));
        let running = app.start().await.expect("the configuration is right");
        Instance {
            running: Some(running),
            errors,
        }
    }
}

/// An error that reached `on_error`.
#[derive(Clone, Debug)]
pub(crate) struct Reported {
    pub(crate) text: String,
    pub(crate) at: Instant,
    pub(crate) kind: &'static str,
}

impl Reported {
    fn new(error: &(dyn Error + Send + Sync + 'static)) -> Self {
        let kind = match error.downcast_ref::<KinesisError>() {
            Some(KinesisError::Lease { .. }) => "Lease",
            Some(KinesisError::Listing { .. }) => "Listing",
            Some(KinesisError::Read { .. }) => "Read",
            Some(KinesisError::Undecodable { .. }) => "Undecodable",
            Some(KinesisError::Unsettled { .. }) => "Unsettled",
            Some(KinesisError::NotStored { .. }) => "NotStored",
            Some(KinesisError::NoDeadLetters { .. }) => "NoDeadLetters",
            Some(_) => "another KinesisError",
            None => "no KinesisError",
        };
        Self {
            text: error.to_string(),
            at: Instant::now(),
            kind,
        }
    }
}

/// An instance that runs.
pub(crate) struct Instance {
    running: Option<Running>,
    errors: Arc<Mutex<Vec<Reported>>>,
}

impl Instance {
    /// What reached `on_error` so far.
    pub(crate) fn errors(&self) -> Vec<Reported> {
        self.errors.lock().unwrap().clone()
    }

    /// Where everything that reaches `on_error` is kept, also when it has stopped.
    pub(crate) fn reported(&self) -> Arc<Mutex<Vec<Reported>>> {
        Arc::clone(&self.errors)
    }

    /// What reached `on_error` so far, of one kind.
    pub(crate) fn errors_of(&self, kind: &str) -> Vec<Reported> {
        let mut errors = self.errors();
        errors.retain(|error| error.kind == kind);
        errors
    }

    /// Moves the subscription to [`STREAM`].
    pub(crate) async fn seek(&self, to: impl Position) -> Result<(), AppError> {
        let running = self.running.as_ref().expect("it runs");
        running.seek(STREAM, to).await
    }

    /// Stops it gracefully.
    pub(crate) async fn stop(mut self) {
        let running = self.running.take().expect("it runs");
        running.shutdown().await.expect("it stops");
    }

    /// Kills it: everything is dropped where it is.
    pub(crate) fn kill(self) {}
}

/// Notes each delivery in the fleet's log, and ends as it is told to.
#[derive(Clone)]
pub(crate) struct Recorder {
    log: Arc<Mutex<Vec<Seen>>>,
    behaviour: Behaviour,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Handle<u64> for Recorder {
    async fn handle(
        &self,
        value: &u64,
        _: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        let info = ctx.get::<RecordInfo>().expect("the broker attaches it");
        let seen = Seen {
            owner: info.holder.owner.clone(),
            stream: info.stream.clone(),
            shard: info.shard.clone(),
            sequence_number: info.sequence_number.clone(),
            partition_key: info.partition_key.clone(),
            epoch: info.holder.epoch,
            value: *value,
            attempt: ctx.attempt(),
            at: Instant::now(),
            done_at: None,
        };
        let act = (self.behaviour)(&seen);
        let index = {
            let mut log = self.log.lock().unwrap();
            log.push(seen);
            log.len() - 1
        };
        let done = || self.log.lock().unwrap()[index].done_at = Some(Instant::now());
        act.make(done).await
    }
}

/// Waits until `condition` holds, in steps of the paused clock.
///
/// # Panics
///
/// If it does not within `limit` of that clock.
#[track_caller]
pub(crate) fn within<F, T>(
    limit: Duration,
    what: impl fmt::Display,
    mut condition: F,
) -> impl Future<Output = T>
where
    F: AsyncFnMut() -> Option<T>,
{
    let caller = std::panic::Location::caller();
    async move {
        let started = Instant::now();
        loop {
            if let Some(value) = condition().await {
                return value;
            }
            assert!(
                started.elapsed() < limit,
                "{caller}: not within {limit:?}: {what}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Waits until `condition` holds, for up to two minutes of the paused clock.
#[track_caller]
pub(crate) fn until(
    what: impl fmt::Display,
    mut condition: impl AsyncFnMut() -> bool,
) -> impl Future<Output = ()> {
    within(Duration::from_secs(120), what, async move || {
        condition().await.then_some(())
    })
}
