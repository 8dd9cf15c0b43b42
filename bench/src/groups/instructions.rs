//! Instructions a record, counted by valgrind.

use std::process::Command;

use anyhow::Context as _;

use super::Effort;
use crate::child;
use crate::measure::Side;
use crate::spread::grouped;
use crate::table::Table;
use crate::workload::{Kind, Workload};

const NOTE: &str = "Counted by `valgrind --tool=callgrind`: the difference between reading twice as many records and \
    reading them once. The service's own work and putting the records there are in both sides.";

const COLUMNS: &[&str] = &[
    "payload",
    "record",
    "plain SDK, instructions/record",
    "library adds, instructions/record",
];

/// What callgrind says before the number of instructions.
const COLLECTED: &str = "Collected :";

pub(super) fn run(effort: Effort) -> anyhow::Result<Table> {
    let mut table = Table::new("Instructions a record", NOTE, COLUMNS);
    let has_valgrind = child::read(valgrind(["--version"])).is_ok();
    for kind in [Kind::Bytes, Kind::Json] {
        let workload = Workload {
            kind,
            size: 1_024,
            shards: 4,
            records: effort.of(8_000, 40),
        };
        let (plain, adds) = if has_valgrind {
            let plain = count(Side::Plain, workload)?;
            let library = count(Side::Library, workload)?;
            (grouped(plain, 0), grouped(library - plain, 0))
        } else {
            let missing = "**NOT MEASURED: valgrind is not installed**".to_owned();
            (missing.clone(), missing)
        };
        table.push([kind.label().to_owned(), workload.size_label(), plain, adds]);
    }
    Ok(table)
}

fn valgrind<const N: usize>(args: [&str; N]) -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(args);
    valgrind
}

fn count(side: Side, workload: Workload) -> anyhow::Result<f64> {
    let once = read(side, workload)?;
    let twice = read(
        side,
        Workload {
            records: 2 * workload.records,
            ..workload
        },
    )?;
    Ok((twice - once) / workload.total() as f64)
}

fn read(side: Side, workload: Workload) -> anyhow::Result<f64> {
    let mut watched = valgrind(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    watched
        .arg(child::this_program()?)
        .arg("read")
        .args(side.args())
        .args(workload.args());
    let said = child::read_stderr(watched)?;
    let (_, rest) = said
        .split_once(COLLECTED)
        .with_context(|| format!("callgrind says no {COLLECTED:?}: {said}"))?;
    let figure = rest.split_whitespace().next().context("no figure")?;
    Ok(figure.parse()?)
}
