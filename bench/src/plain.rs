//! The other side of every comparison: a loop over the AWS SDK as somebody who knows it would write it. One task a
//! shard, the next iterator from the last answer, nothing copied, no lease, no retry of a record.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::config::StalledStreamProtectionConfig;
use aws_sdk_kinesis::types::{Record, ShardIteratorType};
use kinesis_sim::KinesisSim;
use lease_core::{Checkpoint, Holder, LeaseKey, LeaseStore};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::workload::{Kind, STREAM, StockChange, Tally, Workload, look_at};

/// What a shard allows: five reads a second.
const READS_APART: Duration = Duration::from_millis(200);
/// Shards opened at once.
const OPENINGS: usize = 32;

/// A client like the library's own. Stalled-stream protection costs something with every call, and neither side has
/// it.
pub(crate) fn client(sim: &KinesisSim) -> Client {
    let config = aws_sdk_kinesis::config::Builder::from(&sim.sdk_config())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .build();
    Client::from_conf(config)
}

/// Reads everything; with a store, each record's position is written before the next record is handled.
pub(crate) async fn read(
    sim: &KinesisSim,
    workload: &Workload,
    store: Option<Arc<dyn LeaseStore>>,
) -> anyhow::Result<()> {
    let client = client(sim);
    let tally = Arc::new(Tally::of(workload.total()));
    let mut shards = JoinSet::new();
    for shard in sim.shards(STREAM) {
        let (client, store, tally) = (client.clone(), store.clone(), Arc::clone(&tally));
        let (kind, records) = (workload.kind, workload.records_a_shard());
        shards.spawn(async move {
            let positions = match store {
                Some(store) => Some(Positions::of(store, &shard.id).await?),
                None => None,
            };
            read_shard(&client, shard.id, kind, records, positions, &tally).await
        });
    }
    while let Some(read) = shards.join_next().await {
        read??;
    }
    Ok(())
}

async fn read_shard(
    client: &Client,
    shard: String,
    kind: Kind,
    mut left: usize,
    positions: Option<Positions>,
    tally: &Tally,
) -> anyhow::Result<()> {
    let mut iterator = open(client, shard).await?;
    while left > 0 {
        let request = client.get_records().set_shard_iterator(iterator);
        let read = request.send().await?;
        for record in &read.records {
            handle(kind, record)?;
            tally.handled();
            if let Some(positions) = &positions {
                positions.write(record).await?;
            }
        }
        left -= read.records.len();
        iterator = read.next_shard_iterator;
    }
    Ok(())
}

fn handle(kind: Kind, record: &Record) -> serde_json::Result<()> {
    let payload = record.data().as_ref();
    match kind {
        Kind::Json => {
            black_box(serde_json::from_slice::<StockChange>(payload)?);
        }
        Kind::Bytes => look_at(payload),
    }
    Ok(())
}

/// Where a loop notes how far it got.
struct Positions {
    store: Arc<dyn LeaseStore>,
    key: LeaseKey,
    holder: Holder,
}

impl Positions {
    async fn of(store: Arc<dyn LeaseStore>, shard: &str) -> anyhow::Result<Self> {
        let key = LeaseKey::new(STREAM, shard);
        let holder = store.acquire(&key, "plain", Duration::from_secs(3_600));
        let holder = holder.await?.context("the lease is another's")?;
        Ok(Self { store, key, holder })
    }

    async fn write(&self, record: &Record) -> anyhow::Result<()> {
        let at = Checkpoint::at(record.sequence_number());
        self.store.checkpoint(&self.key, &self.holder, &at).await?;
        Ok(())
    }
}

/// Tasks that follow every shard of the stream, each record of which goes to `handle`; they end when this is
/// dropped. Resolves once each shard is open.
pub(crate) async fn follow(
    sim: &KinesisSim,
    pause: Duration,
    handle: impl Fn(&Record) + Clone + Send + 'static,
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let client = client(sim);
    let openings = Arc::new(Semaphore::new(OPENINGS));
    let mut shards = JoinSet::new();
    let listed = sim.shards(STREAM);
    let count = u32::try_from(listed.len())?;
    let opened = Arc::new(Semaphore::new(0));
    for shard in listed {
        let (client, handle) = (client.clone(), handle.clone());
        let (openings, opened) = (Arc::clone(&openings), Arc::clone(&opened));
        shards.spawn(async move {
            let permit = openings.acquire().await?;
            let mut iterator = open(&client, shard.id).await?;
            drop(permit);
            opened.add_permits(1);
            while iterator.is_some() {
                let started = Instant::now();
                let request = client.get_records().set_shard_iterator(iterator);
                let read = request.send().await?;
                read.records.iter().for_each(&handle);
                iterator = read.next_shard_iterator;
                if read.records.is_empty() {
                    sleep(pause).await;
                } else {
                    sleep_until(started + READS_APART).await;
                }
            }
            Ok(())
        });
    }
    opened.acquire_many(count).await?.forget();
    Ok(shards)
}

/// The first iterator of a shard.
async fn open(client: &Client, shard: String) -> anyhow::Result<Option<String>> {
    let opened = client
        .get_shard_iterator()
        .stream_name(STREAM)
        .shard_id(shard)
        .shard_iterator_type(ShardIteratorType::TrimHorizon)
        .send()
        .await?;
    Ok(opened.shard_iterator)
}

/// Lists the shards of the stream, all pages of them; how many there are.
pub(crate) async fn list(client: &Client) -> anyhow::Result<usize> {
    let mut pages = None;
    let mut shards = 0;
    loop {
        let request = match pages {
            None => client.list_shards().stream_name(STREAM),
            Some(token) => client.list_shards().next_token(token),
        };
        let page = request.send().await?;
        shards += page.shards().len();
        pages = page.next_token;
        if pages.is_none() {
            return Ok(shards);
        }
    }
}
