//! Records a second, and CPU a record.

use std::time::Duration;

use kinesis_broker::Checkpointing;

use super::Effort;
use crate::clock::Taken;
use crate::measure::{Side, Stage};
use crate::spread::{Pair, alternate, spread};
use crate::table::Table;
use crate::workload::{Kind, Workload};

const NOTE: &str = "Reading everything that a stream holds, opening included, from a service in the same process that \
    answers up to 10,000 records or 10 MiB a call. The library writes checkpoints to a store in memory, one for every \
    acknowledgement or one a second. One thread, which never waits (the pauses that the service's quotas ask of a reader are kept, on a clock that jumps over them), so that a \
    second is one of CPU, and what else the machine does matters little. The service's own work (JSON, base64) is in \
    both sides. The ratio is of records a second; in brackets the least and the greatest of the repetitions.";

const COLUMNS: &[&str] = &[
    "payload",
    "record",
    "shards",
    "checkpointing",
    "plain SDK, records/s",
    "library, records/s",
    "ratio",
    "plain SDK, CPU µs/record",
    "library adds, CPU µs/record",
];

/// Each size of a record, and how many of them take a side half a second or so.
const SIZES: [(usize, usize); 3] = [(100, 400_000), (1_024, 160_000), (10 * 1_024, 24_000)];
const SHARDS: [usize; 3] = [1, 4, 64];
const AT_INTERVALS: Checkpointing = Checkpointing::Interval(Duration::from_secs(1));

pub(super) fn run(effort: Effort) -> anyhow::Result<Table> {
    let mut table = Table::new("Records a second", NOTE, COLUMNS);
    for kind in [Kind::Bytes, Kind::Json] {
        for (size, records) in SIZES {
            for shards in SHARDS {
                let workload = Workload {
                    kind,
                    size,
                    shards,
                    records: effort.of(records, 2 * shards),
                };
                table.push(row(&workload, Checkpointing::EveryAck, effort)?);
                if size == 1_024 {
                    table.push(row(&workload, AT_INTERVALS, effort)?);
                }
            }
        }
    }
    Ok(table)
}

fn row(
    workload: &Workload,
    checkpointing: Checkpointing,
    effort: Effort,
) -> anyhow::Result<[String; 9]> {
    let stage = Stage::set(*workload)?;
    let pairs = alternate(effort.repetitions, |side| match side {
        Side::Plain => stage.read_plain(None),
        Side::Library => stage.read_by_library(None, |stream| stream.checkpointing(checkpointing)),
    })?;
    let records = workload.total() as f64;
    let micros = |taken: Taken| taken.cpu / records * 1e6;
    let figure = |of: &dyn Fn(&Pair<Taken>) -> f64| spread(&pairs, of);
    Ok([
        workload.kind.label().to_owned(),
        workload.size_label(),
        workload.shards.to_string(),
        match checkpointing {
            Checkpointing::Interval(_) => "`Interval` of 1 s".to_owned(),
            _ => "`EveryAck`".to_owned(),
        },
        figure(&|pair| records / pair.plain.cpu)
            .decimals(0)
            .middle(),
        figure(&|pair| records / pair.library.cpu)
            .decimals(0)
            .middle(),
        figure(&|pair| pair.plain.cpu / pair.library.cpu).to_string(),
        figure(&|pair| micros(pair.plain)).middle(),
        figure(&|pair| micros(pair.library) - micros(pair.plain)).to_string(),
    ])
}
