//! What is read in a measurement: how many records, how large, in how many shards.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

use kinesis_sim::KinesisSim;
use serde::Deserialize;
use tokio::sync::Notify;

/// The stream that every measurement reads.
pub(crate) const STREAM: &str = "inventory";

/// What a handler is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// A struct, decoded from JSON.
    Json,
    /// The payload as it is; the handler looks at each byte of it.
    Bytes,
}

impl Kind {
    /// What a table says.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Bytes => "bytes",
        }
    }
}

/// The struct of [`Kind::Json`]. Its text makes up for the rest of the record's size.
#[derive(Debug, Deserialize)]
pub struct StockChange {
    /// Which article.
    pub sku: u64,
    /// By how much its stock changes.
    pub delta: i64,
    /// What somebody wrote beside it.
    pub note: String,
}

/// Records in shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct Workload {
    /// What a handler is given
    #[arg(long, value_enum, default_value_t = Kind::Json)]
    pub kind: Kind,
    /// The bytes of a payload, at least 64
    #[arg(long, default_value_t = 1_024)]
    pub size: usize,
    /// The shards of the stream
    #[arg(long, default_value_t = 4)]
    pub shards: usize,
    /// The records in all, evenly in the shards
    #[arg(long, default_value_t = 40_000)]
    pub records: usize,
}

impl Workload {
    /// As a command line says it.
    pub(crate) fn args(&self) -> [String; 8] {
        let kind = match self.kind {
            Kind::Json => "json",
            Kind::Bytes => "bytes",
        };
        let [size, shards, records] = [self.size, self.shards, self.records].map(|n| n.to_string());
        [
            "--kind".to_owned(),
            kind.to_owned(),
            "--size".to_owned(),
            size,
            "--shards".to_owned(),
            shards,
            "--records".to_owned(),
            records,
        ]
    }

    /// The size of a record, as a table says it.
    pub(crate) fn size_label(&self) -> String {
        match self.size {
            size if size % 1_024 == 0 => format!("{} KiB", size / 1_024),
            size => format!("{size} B"),
        }
    }

    /// How many records each shard has.
    pub(crate) fn records_a_shard(&self) -> usize {
        self.records.div_ceil(self.shards)
    }

    /// How many records there are: as many in one shard as in another.
    pub(crate) fn total(&self) -> usize {
        self.records_a_shard() * self.shards
    }

    /// A service that has it all, without quotas. To be called where tokio's clock is the one that will tell the
    /// service's time.
    pub(crate) fn stage(&self) -> KinesisSim {
        let sim = KinesisSim::new().without_quotas();
        sim.create_stream(STREAM, self.shards);
        for shard in sim.shards(STREAM) {
            for number in 0..self.records_a_shard() {
                let key = format!("sku-{number}");
                sim.put_to_shard(STREAM, &shard.id, &key, payload(self.size, number));
            }
        }
        sim
    }
}

/// A JSON text of so many bytes.
pub(crate) fn payload(size: usize, number: usize) -> Vec<u8> {
    let frame = format!(r#"{{"sku":{number},"delta":-3,"note":""}}"#);
    let note = "x".repeat(size.saturating_sub(frame.len()));
    format!(r#"{{"sku":{number},"delta":-3,"note":"{note}"}}"#).into_bytes()
}

/// What both sides do with a payload that is not decoded: each byte is looked at, as a handler would.
pub(crate) fn look_at(payload: &[u8]) {
    black_box(payload.iter().fold(0, |all, byte| all ^ byte));
}

/// Counts what is handled, and tells when it is all.
#[derive(Debug)]
pub(crate) struct Tally {
    left: AtomicUsize,
    done: Notify,
}

impl Tally {
    pub(crate) fn of(records: usize) -> Self {
        Self {
            left: AtomicUsize::new(records),
            done: Notify::new(),
        }
    }

    /// Counts one in.
    pub(crate) fn handled(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.done.notify_one();
        }
    }

    /// Resolves once the last is counted in.
    pub(crate) async fn done(&self) {
        self.done.notified().await;
    }
}
