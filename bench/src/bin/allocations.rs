//! Counts the allocations of a reading: prints how many there were, and their bytes.

use std::alloc::System;

use bench::{Side, Stage, Workload};
use clap::Parser;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Counts the allocations of a reading.
#[derive(Debug, Parser)]
struct Cli {
    /// Who reads
    #[arg(long, value_enum)]
    side: Side,
    #[command(flatten)]
    workload: Workload,
}

fn main() -> anyhow::Result<()> {
    let Cli { side, workload } = Cli::parse();
    let stage = Stage::set(workload)?;
    // What is allocated once in a process is of no record.
    stage.read(side)?;
    let region = Region::new(ALLOCATOR);
    stage.read(side)?;
    let counted = region.change();
    println!(
        "{} {}",
        counted.allocations + counted.reallocations,
        counted.bytes_allocated
    );
    Ok(())
}
