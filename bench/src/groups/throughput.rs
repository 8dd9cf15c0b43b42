//! Records a second, and CPU a record.

use super::Effort;
use crate::clock::Taken;
use crate::measure::Stage;
use crate::spread::{Pair, alternate, spread};
use crate::table::Table;
use crate::workload::{Kind, Workload};

const NOTE: &str = "Reading everything that a stream holds, opening included, from a service in the same process that \
    answers up to 10,000 records or 10 MiB a call, with a checkpoint at every acknowledgement. One thread, which never \
    waits (the pauses that the service's quotas ask of a reader are kept, on a clock that jumps over them), so that a \
    second is one of CPU, and what else the machine does matters little. The service's own work (JSON, base64) is in \
    both sides. The ratio is of records a second; in brackets the least and the greatest of the repetitions.";

const COLUMNS: &[&str] = &[
    "payload",
    "record",
    "shards",
    "plain SDK, records/s",
    "library, records/s",
    "ratio",
    "plain SDK, CPU µs/record",
    "library adds, CPU µs/record",
];

/// Each size of a record, and how many of them take a side half a second or so.
const SIZES: [(usize, usize); 3] = [(100, 400_000), (1_024, 160_000), (10 * 1_024, 24_000)];
const SHARDS: [usize; 3] = [1, 4, 64];

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
                table.push(row(&workload, effort)?);
            }
        }
    }
    Ok(table)
}

fn row(workload: &Workload, effort: Effort) -> anyhow::Result<[String; 8]> {
    let stage = Stage::set(*workload)?;
    let pairs = alternate(effort.repetitions, |side| stage.read(side))?;
    let records = workload.total() as f64;
    let micros = |taken: Taken| taken.cpu / records * 1e6;
    let figure = |of: &dyn Fn(&Pair<Taken>) -> f64| spread(&pairs, of);
    Ok([
        workload.kind.label().to_owned(),
        workload.size_label(),
        workload.shards.to_string(),
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
