//! What a scenario runs on: a stream and a table of its own, its processes, and the file that they write.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_kinesis::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use aws_sdk_kinesis::types::{Shard, StreamStatus};
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, sleep};

use super::figures::{self, say};
use super::log::{self, Line, Twice};
use super::process::{Process, Signal};
use super::producer::Producer;
use super::service::Orders;
use super::table::{self, Rows};

/// How long anything may take that is bounded by nothing else; a busy machine is slow.
pub(super) const LIMIT: Duration = Duration::from_secs(90);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

pub(super) struct Stage {
    pub(super) kinesis: aws_sdk_kinesis::Client,
    pub(super) dynamodb: aws_sdk_dynamodb::Client,
    pub(super) rng: fastrand::Rng,
    pub(super) orders: Orders,
    scenario: &'static str,
    seed: u64,
    lines: Mutex<Lines>,
    _room: SemaphorePermit<'static>,
}

/// The file as far as it has been read.
#[derive(Debug, Default)]
struct Lines {
    lines: Vec<Line>,
    read: u64,
}

impl Stage {
    /// A stream of so many shards, and a table that the first process will create.
    pub(super) async fn set(scenario: &'static str, shards: i32) -> Self {
        let room = crate::room().await;
        let seed = seed();
        say(&format!("{scenario}: PROCESSES_SEED={seed}"));
        let name = format!("{scenario}-{:x}", log::now());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(&name);
        std::fs::create_dir_all(&folder).unwrap();
        let [kinesis, dynamodb] = ["KINESIS_ENDPOINT", "DYNAMODB_ENDPOINT"].map(crate::endpoint);
        let stage = Self {
            kinesis: aws_sdk_kinesis::Client::new(&config(&kinesis)),
            dynamodb: aws_sdk_dynamodb::Client::new(&config(&dynamodb)),
            rng: fastrand::Rng::with_seed(seed),
            orders: Orders {
                kinesis,
                dynamodb,
                table: name.clone(),
                stream: name.clone(),
                owner: String::new(),
                log: folder.join("handled.jsonl"),
                handler: Duration::from_millis(5),
                ahead: 0,
            },
            scenario,
            seed,
            lines: Mutex::default(),
            _room: room,
        };
        File::create(&stage.orders.log).unwrap();
        let request = stage.kinesis.create_stream().stream_name(&name);
        request.shard_count(shards).send().await.unwrap();
        stage.until_active().await;
        stage
    }

    /// Starts a process of this name.
    pub(super) fn start(&self, owner: impl Into<String>) -> Process {
        self.start_with(owner, |_| {})
    }

    /// Starts a process of this name, with orders that differ.
    pub(super) fn start_with(
        &self,
        owner: impl Into<String>,
        change: impl FnOnce(&mut Orders),
    ) -> Process {
        let mut orders = self.orders.clone();
        orders.owner = owner.into();
        change(&mut orders);
        Process::start(&orders)
    }

    pub(super) fn producer(&self) -> Producer {
        Producer::start(self.kinesis.clone(), self.orders.stream.clone())
    }

    /// Everything that the processes have written so far.
    pub(super) fn lines(&self) -> Vec<Line> {
        self.read().lines.clone()
    }

    /// How many lines there are; what is written later comes after them.
    pub(super) fn mark(&self) -> usize {
        self.read().lines.len()
    }

    /// The lines after a mark.
    pub(super) fn since(&self, mark: usize) -> Vec<Line> {
        self.read().lines[mark..].to_vec()
    }

    fn read(&self) -> MutexGuard<'_, Lines> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = File::open(&self.orders.log).unwrap();
        file.seek(SeekFrom::Start(lines.read)).unwrap();
        let mut text = Vec::new();
        file.read_to_end(&mut text).unwrap();
        let whole = text.iter().rposition(|byte| *byte == b'\n');
        let whole = &text[..whole.map_or(0, |end| end + 1)];
        lines.read += whole.len() as u64;
        for line in whole.split(|byte| *byte == b'\n') {
            if !line.is_empty() {
                lines.lines.push(serde_json::from_slice(line).unwrap());
            }
        }
        lines
    }

    pub(super) async fn rows(&self) -> Rows {
        table::rows(&self.dynamodb, &self.orders.table).await
    }

    /// The shards whose row bears this name.
    pub(super) async fn held_by(&self, owner: &str) -> BTreeSet<String> {
        let rows = self.rows().await.into_iter();
        rows.filter(|(_, row)| row.is_of(owner))
            .map(|(shard, _)| shard)
            .collect()
    }

    pub(super) async fn shards(&self) -> Vec<Shard> {
        let mut shards = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let request = self.kinesis.list_shards();
            let request = match token.take() {
                Some(token) => request.next_token(token),
                None => request.stream_name(&self.orders.stream),
            };
            let page = request.send().await.unwrap();
            shards.extend(page.shards.unwrap_or_default());
            token = page.next_token;
            if token.is_none() {
                return shards;
            }
        }
    }

    pub(super) async fn open_shards(&self) -> Vec<Shard> {
        let mut shards = self.shards().await;
        shards.retain(|shard| {
            let range = shard.sequence_number_range().unwrap();
            range.ending_sequence_number().is_none()
        });
        shards
    }

    pub(super) async fn until_active(&self) {
        self.until("the stream is active", LIMIT, async || {
            let request = self.kinesis.describe_stream_summary();
            let answer = request.stream_name(&self.orders.stream).send().await;
            let answer = answer.unwrap();
            let summary = answer.stream_description_summary().unwrap();
            (*summary.stream_status() == StreamStatus::Active).then_some(())
        })
        .await;
    }

    /// How many of the open shards each holds; `None` while one is held by nobody of these.
    async fn shares(&self, among: &[&str]) -> Option<BTreeMap<String, usize>> {
        let mut shares: BTreeMap<_, _> = among.iter().map(|name| (name.to_string(), 0)).collect();
        let (rows, open) = (self.rows().await, self.open_shards().await);
        for shard in &open {
            let owner = rows.get(shard.shard_id())?.owner.as_ref()?;
            *shares.get_mut(owner)? += 1;
        }
        Some(shares)
    }

    /// Waits until these and nobody else hold all open shards, none two more than another.
    pub(super) async fn until_shared(&self, among: &[&str]) {
        let what = format!("the shards are shared evenly among {among:?}");
        self.until(&what, LIMIT, async || {
            let shares = self.shares(among).await?;
            let (least, most) = (shares.values().min()?, shares.values().max()?);
            (most - least <= 1).then_some(())
        })
        .await;
    }

    /// Waits until whoever has a row has begun a record of the shard.
    pub(super) async fn until_read_by_holders(&self) {
        self.until("whoever holds a shard reads it", LIMIT, async || {
            let lines = self.lines();
            let begun: HashSet<_> = lines
                .iter()
                .filter_map(|line| Some((&*line.owner, line.began()?)))
                .map(|(owner, handled)| (owner, &*handled.shard, handled.epoch))
                .collect();
            let rows = self.rows().await;
            rows.iter()
                .filter(|(_, row)| !row.is_finished())
                .all(|(shard, row)| {
                    let owner = row.owner.as_deref().unwrap_or_default();
                    begun.contains(&(owner, shard, row.epoch))
                })
                .then_some(())
        })
        .await;
    }

    /// Waits until each of these holds an open shard, and nobody else does.
    pub(super) async fn until_each_has_one(&self, among: &[&str]) {
        let what = format!("each of {among:?} has a shard");
        self.until(&what, LIMIT, async || {
            let shares = self.shares(among).await?;
            shares.values().all(|share| *share > 0).then_some(())
        })
        .await;
    }

    /// Waits until each of these shards has a record that anybody else has begun since the mark, or has been read
    /// to its end. Gives the first such record of each.
    pub(super) async fn until_read_elsewhere(
        &self,
        shards: &BTreeSet<String>,
        than: &str,
        mark: usize,
    ) -> BTreeMap<String, Line> {
        let what = format!("the shards {shards:?} of {than} are read elsewhere");
        self.until(&what, LIMIT, async || {
            let lines = self.since(mark);
            let first = log::first_begun(&lines, |owner| owner != than);
            let is_read = |shard: &&String| first.contains_key(shard.as_str());
            if !shards.iter().all(|shard| is_read(&shard)) {
                let rows = self.rows().await;
                let is_over = |shard: &String| rows.get(shard).is_none_or(|row| row.is_finished());
                if !shards.iter().all(|shard| is_read(&shard) || is_over(shard)) {
                    return None;
                }
            }
            let of_these = shards.iter().filter(is_read);
            Some(
                of_these
                    .map(|shard| (shard.clone(), first[shard.as_str()].clone()))
                    .collect(),
            )
        })
        .await
    }

    /// Waits until a look finds what it looks for.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        limit: Duration,
        mut look: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let end = Instant::now() + limit;
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(
                Instant::now() < end,
                "{}: not within {limit:?}: {what}. Rows: {:#?}. {}",
                self.scenario,
                self.rows().await,
                self.replay()
            );
            sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Ends a scenario: everything that was put gets settled, the processes stop gracefully, every row is left
    /// released, and the order was kept throughout. Gives what was handed over twice.
    pub(super) async fn end(&self, producer: Producer, processes: Vec<Process>) -> Vec<Twice> {
        let put = producer.stop().await;
        let missing = async || {
            let missing = log::missing(&self.lines(), &put);
            missing.is_empty().then_some(())
        };
        self.until("every record that was put is settled", LIMIT, missing)
            .await;
        for mut process in processes {
            process.check_alive();
            process.signal(Signal::TERM);
            let owner = process.owner().to_owned();
            let ended = process.ended().await;
            assert!(ended.success(), "{owner}: {ended}. {}", self.replay());
        }
        for (shard, row) in self.rows().await {
            assert_eq!(row.owner, None, "{shard} is released. {}", self.replay());
        }
        let lines = self.lines();
        let wrong = log::out_of_order(&lines);
        assert!(wrong.is_empty(), "{wrong:#?}. {}", self.replay());
        self.delete_stream().await;
        self.delete_table(&self.orders.table).await;
        figures::print();
        let twice = log::handled_twice(&lines);
        say(&format!(
            "{}: {} records put, {} handed over again",
            self.scenario,
            put.iter().sum::<i64>(),
            twice.len()
        ));
        twice
    }

    pub(super) async fn delete_stream(&self) {
        let request = self.kinesis.delete_stream();
        let request = request.stream_name(&self.orders.stream);
        request.send().await.unwrap();
    }

    pub(super) async fn delete_table(&self, table: &str) {
        let request = self.dynamodb.delete_table().table_name(table);
        request.send().await.unwrap();
    }

    /// What a person needs to look into a failure.
    pub(super) fn replay(&self) -> String {
        format!(
            "PROCESSES_SEED={}, {}",
            self.seed,
            self.orders.log.display()
        )
    }
}

impl Drop for Stage {
    /// What the processes wrote is kept where a scenario failed.
    fn drop(&mut self) {
        if let Some(folder) = self.orders.log.parent()
            && !std::thread::panicking()
        {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn seed() -> u64 {
    match std::env::var("PROCESSES_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        // Whatever the time is, it is another one each time.
        Err(_) => log::now(),
    }
}

/// A local server's, at this URL.
pub(super) fn config(url: &str) -> SdkConfig {
    let credentials = Credentials::new("test", "test", None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(url)
        .build()
}
