//! The demonstration: two instances of a service while records are put, the stream is resharded, and one
//! of the instances is stopped.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::config::{Credentials, SharedCredentialsProvider};
use kinesis_broker::prelude::*;
use kinesis_sim::KinesisSim;
use lease_core::LeaseKey;
use lease_memory::MemoryLeaseStore;
use rstream::Running;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use crate::inventory::BATCH;
use crate::{Args, Inventory, Report, Service, StockChange, Tally};

const SHARDS: i32 = 4;
/// Made-up changes: so many, and so many a second.
const MADE_UP: usize = 5_000;
const A_SECOND: usize = 200;
/// How long the last records may take without one of them being handled.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a second instance is waited for to get its share.
const SHARE: Duration = Duration::from_secs(30);

/// Why a demonstration could not be given.
#[derive(Debug)]
pub struct DemoError(pub(crate) String);

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DemoError {}

/// What a demonstration runs on.
#[derive(Debug)]
pub struct Demo {
    server: Server,
    config: SdkConfig,
    inventory: Inventory,
    leases: Arc<MemoryLeaseStore>,
    tally: Tally,
    changes: Vec<StockChange>,
    is_made_up: bool,
    follow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Embedded,
    Endpoint,
    Aws,
}

impl Demo {
    /// Reads the input, connects, and makes sure that there is a stream.
    ///
    /// # Errors
    ///
    /// An input that cannot be read, with the line that is wrong; a server that does not answer.
    pub async fn new(args: Args) -> Result<Self, DemoError> {
        let changes = match &args.input {
            Some(file) => read(file)?,
            None => (0..MADE_UP).map(made_up).collect(),
        };
        let (server, config) = match &args.endpoint {
            Some(url) => {
                let loader = aws_config::defaults(BehaviorVersion::latest())
                    .region(Region::new("us-east-1"))
                    .endpoint_url(url)
                    .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
                        "test", "test", None, None, "test",
                    )));
                (Server::Endpoint, loader.load().await)
            }
            None if args.aws => {
                let config = aws_config::load_defaults(BehaviorVersion::latest()).await;
                (Server::Aws, config)
            }
            None => (Server::Embedded, KinesisSim::new().sdk_config()),
        };
        let inventory = Inventory::new(Client::new(&config));
        if server != Server::Aws {
            inventory.create(SHARDS).await?;
        }
        Ok(Self {
            server,
            config,
            inventory,
            leases: Arc::new(MemoryLeaseStore::new()),
            tally: Tally::default(),
            changes,
            is_made_up: args.input.is_none(),
            follow: args.follow,
        })
    }

    /// Runs two instances of `service` until everything is handled, or until interrupted.
    ///
    /// # Errors
    ///
    /// An instance that does not start or stop, a server that fails.
    pub async fn run(&self, service: Service) -> Result<Report, DemoError> {
        let one = self.start("one", service).await?;
        let two = Mutex::new(Some(self.start("two", service).await?));
        say("two instances run");

        let work = async {
            if timeout(SHARE, self.until_shared()).await.is_ok() {
                say("the instances share the shards");
            }
            tokio::try_join!(self.put_all(), self.script(&two))?;
            self.until_handled().await;
            if self.follow {
                say("going on until interrupted");
                self.go_on().await?;
            }
            Ok(())
        };
        let worked = tokio::select! {
            worked = work => worked,
            interrupted = tokio::signal::ctrl_c() => {
                say("interrupted: what was put is handled, and the instances stop");
                interrupted.map_err(|error| DemoError(error.to_string()))
            }
        };
        self.until_handled().await;
        let two = two.lock().await.take();
        for instance in std::iter::once(one).chain(two) {
            stop(instance).await?;
        }
        worked?;
        Ok(self.tally.report())
    }

    /// Starts one instance of the service.
    ///
    /// # Errors
    ///
    /// An instance that does not start.
    pub async fn start(&self, owner: &str, service: Service) -> Result<Running, DemoError> {
        self.tally.name(owner);
        let broker = KinesisBroker::from_config(&self.config).owner_id(owner);
        let leases = Arc::clone(&self.leases);
        let service = self.tally.watch(service(broker, leases));
        service
            .start()
            .await
            .map_err(|error| DemoError(error.to_string()))
    }

    /// What has been counted so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The stream.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Waits until everything that was put is handled, or nothing has been for long.
    pub async fn until_handled(&self) {
        let mut outstanding = self.tally.outstanding();
        let mut since = Instant::now();
        while outstanding > 0 && since.elapsed() < PATIENCE {
            sleep(Duration::from_millis(50)).await;
            let now = self.tally.outstanding();
            if now != outstanding {
                (outstanding, since) = (now, Instant::now());
            }
        }
    }

    /// Waits until the second instance has its share of the shards.
    async fn until_shared(&self) -> Result<(), DemoError> {
        loop {
            let shards = self.inventory.open_shards().await?;
            let mut of_two = 0;
            for shard in &shards {
                let key = LeaseKey::new("inventory", shard.shard_id());
                let state = self.leases.read(&key).await;
                let state = state.map_err(|error| DemoError(error.to_string()))?;
                let holder = state.holder.filter(|_| state.live);
                of_two += usize::from(holder.is_some_and(|holder| holder.owner == "two"));
            }
            if of_two >= shards.len() / 2 {
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// A split after a third of the records, a stop after half, a merge after two thirds.
    async fn script(&self, two: &Mutex<Option<Running>>) -> Result<(), DemoError> {
        let all = self.changes.len();
        if self.server == Server::Aws {
            return Ok(());
        }
        self.until_put(all / 3).await;
        let shards = self.inventory.open_shards().await?;
        let Some(shard) = shards.first() else {
            return Err(DemoError("the stream has no open shard".to_owned()));
        };
        let halves = self.inventory.split(shard).await?;
        say(&format!(
            "{} is split into {} and {}",
            shard.shard_id(),
            halves[0],
            halves[1]
        ));

        self.until_put(all / 2).await;
        if let Some(two) = two.lock().await.take() {
            stop(two).await?;
        }
        say("instance two is stopped");

        self.until_put(all * 2 / 3).await;
        self.inventory.merge(&halves).await?;
        say(&format!("{} and {} are merged", halves[0], halves[1]));
        Ok(())
    }

    async fn put_all(&self) -> Result<(), DemoError> {
        // At an even pace, so that there is time to watch; a long file as fast as the stream takes it.
        let batch = if self.is_made_up {
            A_SECOND / 10
        } else {
            (self.changes.len() / 30).clamp(1, BATCH)
        };
        let pause = Duration::from_millis(100);
        for changes in self.changes.chunks(batch) {
            self.inventory.put(changes, &self.tally).await?;
            sleep(pause).await;
        }
        Ok(())
    }

    /// Goes on with made-up changes, if there were any, for ever.
    async fn go_on(&self) -> Result<(), DemoError> {
        if !self.is_made_up {
            std::future::pending::<()>().await;
        }
        for n in self.changes.len().. {
            self.inventory.put(&[made_up(n)], &self.tally).await?;
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn until_put(&self, count: usize) {
        while self.tally.count_put() < count {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn stop(instance: Running) -> Result<(), DemoError> {
    let stopped = instance.shutdown().await;
    stopped.map_err(|error| DemoError(error.to_string()))
}

fn made_up(n: usize) -> StockChange {
    let n = n as u64;
    StockChange {
        sku: n * 7 % 101,
        delta: if n.is_multiple_of(3) { -1 } else { 2 },
    }
}

fn read(file: &Path) -> Result<Vec<StockChange>, DemoError> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| DemoError(format!("cannot read {name}: {error}")))?;
    let lines = text.lines().enumerate();
    let changes: Result<Vec<_>, _> = lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|error| {
                let number = index + 1;
                DemoError(format!(
                    "line {number} of {name} is no {{\"sku\":..,\"delta\":..}}: {error}"
                ))
            })
        })
        .collect();
    match changes {
        Ok(changes) if changes.is_empty() => Err(DemoError(format!("{name} has no stock change"))),
        changes => changes,
    }
}

fn say(event: &str) {
    println!("- {event}");
}
