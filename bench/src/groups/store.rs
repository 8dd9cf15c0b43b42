//! Records a second with a store that takes its time.

use std::sync::Arc;
use std::time::Duration;

use kinesis_broker::{Checkpointing, KinesisStream};
use lease_core::LeaseStore;

use super::Effort;
use crate::measure::{Side, Stage, runtime};
use crate::spread::{alternate, spread};
use crate::store::WatchedStore;
use crate::table::Table;
use crate::workload::{Kind, Workload};

const NOTE: &str = "A store whose checkpoints take 5 ms, 4 shards, 1 KiB JSON records, in real time; a handler that \
    returns at once. The other side is a plain loop that writes each record's position to the same store before it \
    handles the next.";

const COLUMNS: &[&str] = &[
    "checkpointing",
    "plain SDK and a write a record, records/s",
    "library, records/s",
    "ratio",
];

const CHECKPOINT_TAKES: Duration = Duration::from_millis(5);
const SHARDS: usize = 4;

/// A way to write checkpoints.
struct Mode {
    label: &'static str,
    configure: fn(KinesisStream) -> KinesisStream,
    /// So many that a reading takes a second or so; no more than one call of a shard gives.
    records_a_shard: usize,
}

const MODES: &[Mode] = &[
    Mode {
        label: "`EveryAck`, `concurrency(1)`",
        configure: |stream| stream,
        records_a_shard: 150,
    },
    Mode {
        label: "`EveryAck`, `concurrency(16)`",
        configure: |stream| stream.concurrency(16),
        records_a_shard: 2_000,
    },
    Mode {
        label: "`Interval` of 1 s, `concurrency(1)`",
        configure: |stream| stream.checkpointing(AT_INTERVALS),
        records_a_shard: 10_000,
    },
    Mode {
        label: "`Interval` of 1 s, `concurrency(16)`",
        configure: |stream| stream.concurrency(16).checkpointing(AT_INTERVALS),
        records_a_shard: 10_000,
    },
];

const AT_INTERVALS: Checkpointing = Checkpointing::Interval(Duration::from_secs(1));

/// As many as the loop handles in a second or so.
const PLAIN_RECORDS_A_SHARD: usize = 150;

pub(super) fn run(effort: Effort) -> anyhow::Result<Table> {
    let mut table = Table::new("Records a second with a slow store", NOTE, COLUMNS);
    for mode in MODES {
        let plain = stage(effort.of(PLAIN_RECORDS_A_SHARD, 2))?;
        let library = stage(effort.of(mode.records_a_shard, 2))?;
        let pairs = alternate(effort.repetitions, |side| {
            let store: Arc<dyn LeaseStore> = Arc::new(WatchedStore::slow(CHECKPOINT_TAKES));
            let (records, taken) = match side {
                Side::Plain => (plain.records(), plain.read_plain(Some(store))?),
                Side::Library => (
                    library.records(),
                    library.read_by_library(Some(store), mode.configure)?,
                ),
            };
            Ok(records as f64 / taken.wall)
        })?;
        table.push([
            mode.label.to_owned(),
            spread(&pairs, |pair| pair.plain).decimals(0).middle(),
            spread(&pairs, |pair| pair.library).decimals(0).middle(),
            spread(&pairs, |pair| pair.library / pair.plain).to_string(),
        ]);
    }
    Ok(table)
}

fn stage(records_a_shard: usize) -> anyhow::Result<Stage> {
    let workload = Workload {
        kind: Kind::Json,
        size: 1_024,
        shards: SHARDS,
        records: records_a_shard * SHARDS,
    };
    Ok(Stage::on(runtime()?, workload))
}
