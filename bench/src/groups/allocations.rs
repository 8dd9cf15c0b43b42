//! Allocations a record, counted in a program of its own whose allocator counts.

use anyhow::Context as _;

use super::Effort;
use crate::child;
use crate::measure::Side;
use crate::spread::grouped;
use crate::table::Table;
use crate::workload::{Kind, Workload};

const NOTE: &str = "Counted, not timed: the difference between reading twice as many records and reading them once, \
    so that what opening a shard takes cancels out. Those of the SDK and of the service in the same process are in \
    both sides, and so is what decoding JSON takes. A reallocation counts as an allocation.";

const COLUMNS: &[&str] = &[
    "payload",
    "record",
    "plain SDK, allocations/record",
    "library adds, allocations/record",
    "plain SDK, bytes/record",
    "library adds, bytes/record",
];

/// The program whose allocator counts.
const COUNTER: &str = "bench-allocations";

/// What was allocated for a record.
#[derive(Clone, Copy, Debug)]
struct Counted {
    allocations: f64,
    bytes: f64,
}

pub(super) fn run(effort: Effort) -> anyhow::Result<Table> {
    let mut table = Table::new("Allocations a record", NOTE, COLUMNS);
    for kind in [Kind::Bytes, Kind::Json] {
        for size in [100, 1_024] {
            let workload = Workload {
                kind,
                size,
                shards: 4,
                records: effort.of(20_000, 40),
            };
            let plain = count(Side::Plain, workload)?;
            let library = count(Side::Library, workload)?;
            table.push([
                kind.label().to_owned(),
                workload.size_label(),
                grouped(plain.allocations, 2),
                grouped(library.allocations - plain.allocations, 2),
                grouped(plain.bytes, 0),
                grouped(library.bytes - plain.bytes, 0),
            ]);
        }
    }
    Ok(table)
}

fn count(side: Side, workload: Workload) -> anyhow::Result<Counted> {
    let once = read(side, workload)?;
    let twice = read(
        side,
        Workload {
            records: 2 * workload.records,
            ..workload
        },
    )?;
    let records = workload.total() as f64;
    Ok(Counted {
        allocations: (twice.allocations - once.allocations) / records,
        bytes: (twice.bytes - once.bytes) / records,
    })
}

fn read(side: Side, workload: Workload) -> anyhow::Result<Counted> {
    let mut counter = child::program(COUNTER)?;
    counter.args(side.args()).args(workload.args());
    let printed = child::read(counter)?;
    let mut figures = printed.split_whitespace().map(str::parse);
    let mut next = || -> anyhow::Result<f64> {
        let figure = figures.next().context("a figure is missing")?;
        figure.with_context(|| format!("{COUNTER} printed {printed:?}"))
    };
    Ok(Counted {
        allocations: next()?,
        bytes: next()?,
    })
}
