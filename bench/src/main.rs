//! The program behind `cargo xtask bench`.

use std::fs;

use bench::{Effort, Group, Idle, Side, Stage, Workload};
use clap::{Parser, Subcommand, ValueEnum as _};

/// Measures what the library adds to a plain loop over the AWS SDK, and prints tables in Markdown.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask bench",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Measure this group alone; may be given several times
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<Group>,
    /// Do so little that the figures mean nothing, to see that all works
    #[arg(long)]
    quick: bool,
    /// How often each side runs, by turns
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read a workload, for a profiler to watch
    Read {
        /// Who reads
        #[arg(long, value_enum)]
        side: Side,
        #[command(flatten)]
        workload: Workload,
        /// How often
        #[arg(long, default_value_t = 1)]
        times: usize,
    },
    /// Have shards idle, in this process
    #[command(hide = true)]
    Idle(Idle),
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Read {
            side,
            workload,
            times,
        }) => read(side, workload, times),
        Some(Command::Idle(idle)) => {
            println!("{}", serde_json::to_string(&idle.run()?)?);
            Ok(())
        }
        None => measure(&cli),
    }
}

fn read(side: Side, workload: Workload, times: usize) -> anyhow::Result<()> {
    let stage = Stage::set(workload)?;
    for _ in 0..times {
        let taken = stage.read(side)?;
        println!("{:.3} s, {:.3} s of CPU", taken.wall, taken.cpu);
    }
    Ok(())
}

fn measure(cli: &Cli) -> anyhow::Result<()> {
    let groups = match &*cli.only {
        [] => Group::value_variants(),
        only => only,
    };
    let effort = Effort {
        repetitions: if cli.quick { 1 } else { cli.repetitions.max(1) },
        is_quick: cli.quick,
    };
    println!("{}\n", machine());
    for group in groups {
        println!("{}", group.run(effort)?);
    }
    Ok(())
}

/// What all this ran on.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("an unknown processor", |line| {
        line.trim_start_matches([' ', '\t', ':'])
    });
    format!("Measured on {model}, {cores} cores.")
}
