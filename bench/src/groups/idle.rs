//! What shards cost in which nothing happens: memory and CPU, each side in a process of its own.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kinesis_sim::{KinesisSim, Operation};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::Effort;
use crate::child;
use crate::clock::Stopwatch;
use crate::library::{Handler, Service};
use crate::measure::{Side, paused_runtime};
use crate::plain;
use crate::spread::{Pair, Spread, alternate, grouped, spread};
use crate::table::Table;
use crate::workload::{Kind, STREAM, Tally};

const NOTE: &str = "One process a side. Memory is what the resident set grew by from before the shards were opened. \
    CPU is that of the whole process (leases, renewals and listings of the library included), on a clock that jumps \
    over pauses; the plain loop's, for as many calls of GetRecords as the library made, is taken off. A call takes \
    5 ms to 15 ms; both sides pause a second after an empty read. The start counts until every shard is open.";

const COLUMNS: &[&str] = &[
    "shards",
    "plain SDK, KiB/shard",
    "library, KiB/shard",
    "library adds, KiB/shard",
    "plain SDK, CPU µs/shard and second",
    "library adds, CPU µs/shard and second",
    "library's start, s (CPU s)",
];

const PAUSE: Duration = Duration::from_secs(1);
/// How long after the start it is before CPU is counted.
const SETTLING: Duration = Duration::from_secs(10);

/// A side that idles, for a process of its own.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Idle {
    /// Who reads
    #[arg(long, value_enum)]
    side: Side,
    /// The shards of the stream
    #[arg(long)]
    shards: usize,
    /// How long it idles, on a clock that jumps over pauses
    #[arg(long)]
    seconds: u64,
}

/// What it took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Idling {
    /// By how many bytes the resident set grew.
    grown: f64,
    /// How long the start took on tokio's clock, in seconds.
    start: f64,
    /// Its CPU, in seconds.
    start_cpu: f64,
    /// The CPU of the idle time, in seconds.
    cpu: f64,
    /// The calls of GetRecords in it.
    calls: f64,
}

pub(super) fn run(effort: Effort) -> anyhow::Result<Table> {
    let mut table = Table::new("Idle shards", NOTE, COLUMNS);
    let shards = effort.of(5_000, 20);
    let seconds = effort.of(20, 3) as u64;
    let pairs = alternate(effort.repetitions, |side| {
        let mut child = std::process::Command::new(child::this_program()?);
        child.arg("idle").args(side.args());
        child.args(["--shards", &shards.to_string()]);
        child.args(["--seconds", &seconds.to_string()]);
        Ok(serde_json::from_str::<Idling>(&child::read(child)?)?)
    })?;
    let kib = |idling: Idling| idling.grown / 1_024.0 / shards as f64;
    let per_second = |cpu: f64| cpu * 1e6 / (shards as f64 * seconds as f64);
    let figure = |of: &dyn Fn(&Pair<Idling>) -> f64| -> Spread { spread(&pairs, of).decimals(1) };
    let start = figure(&|pair| pair.library.start);
    let start_cpu = figure(&|pair| pair.library.start_cpu);
    table.push([
        grouped(shards as f64, 0),
        figure(&|pair| kib(pair.plain)).middle(),
        figure(&|pair| kib(pair.library)).middle(),
        figure(&|pair| kib(pair.library) - kib(pair.plain)).to_string(),
        figure(&|pair| per_second(pair.plain.cpu)).middle(),
        figure(&|Pair { plain, library }| {
            per_second(library.cpu - plain.cpu / plain.calls * library.calls)
        })
        .to_string(),
        format!("{} ({})", start.middle(), start_cpu.middle()),
    ]);
    Ok(table)
}

impl Idle {
    /// Idles.
    ///
    /// # Errors
    ///
    /// Where the side fails, or this system does not tell how much memory a process has.
    pub fn run(self) -> anyhow::Result<Idling> {
        paused_runtime()?.block_on(async {
            let sim = KinesisSim::builder()
                .quotas(false)
                .latency_between(Duration::from_millis(5), Duration::from_millis(15))
                .build();
            sim.create_stream(STREAM, self.shards);
            let before = resident()?;
            let (started, watch) = (Instant::now(), Stopwatch::start());
            let plain;
            let library;
            match self.side {
                Side::Plain => {
                    plain = plain::follow(&sim, PAUSE, |_| ()).await?;
                    library = None;
                }
                Side::Library => {
                    plain = tokio::task::JoinSet::new();
                    let handler = Handler::Count(Kind::Json, Arc::new(Tally::of(1)));
                    let service = Service::new(handler);
                    let stream = service.stream.poll_interval(PAUSE);
                    library = Some(Service { stream, ..service }.start(&sim).await?);
                }
            }
            let (start, start_cpu) = (started.elapsed().as_secs_f64(), watch.taken().cpu);
            sleep(SETTLING).await;
            let calls = sim.calls(Operation::GetRecords);
            let watch = Stopwatch::start();
            sleep(Duration::from_secs(self.seconds)).await;
            let cpu = watch.taken().cpu;
            let calls = sim.calls(Operation::GetRecords) - calls;
            let grown = resident()? - before;
            drop((plain, library));
            Ok(Idling {
                grown,
                start,
                start_cpu,
                cpu,
                calls: calls as f64,
            })
        })
    }
}

/// The bytes of this process that are in memory.
fn resident() -> anyhow::Result<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm")
        .context("what a process has in memory is read from /proc, as Linux has it")?;
    let pages = statm
        .split_whitespace()
        .nth(1)
        .context("no second figure")?;
    Ok(pages.parse::<f64>()? * rustix::param::page_size() as f64)
}
