//! `fleet-sim`: runs simulated fleets from seeds, and tells of those that break a rule. `cargo xtask sim` starts it.
//!
//! A store of your own is put to the test by a program, or a test, of yours: see `fleet_sim::Simulation::stores`.

mod args;
#[cfg(feature = "sabotage")]
mod broken;
mod clock;
mod failure;
mod fleets;

use std::process::ExitCode;

use clap::Parser as _;
use fleet_sim::Simulation;
use fleet_sim::plan::Plan;
use fleet_sim::story::Story;

use crate::args::Args;
use crate::clock::Stopwatch;
use crate::failure::Failure;
use crate::fleets::Fleets;

fn main() -> ExitCode {
    let args = Args::parse();
    fleets::keep_panics_quiet();
    let all_is_well = match &args.broken {
        Some(name) => prove(name.as_deref(), args.jobs()),
        None => match args.seed {
            Some(seed) => one(seed, &args),
            None => many(&args),
        },
    };
    match all_is_well {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one seed, and tells its story where that is asked for.
fn one(seed: u64, args: &Args) -> anyhow::Result<bool> {
    let plan = Plan::from_seed(seed);
    let stopwatch = Stopwatch::start();
    let ran = fleets::run(Simulation::of(plan.clone()));
    let took = stopwatch.elapsed();
    println!("{plan}");
    if let Ok(run) = &ran {
        if args.exact {
            print!("{}", run.history);
        } else if args.trace {
            let story = Story::of(&run.history);
            match &args.shard {
                Some(shard) => print!("{}", story.of_shard(shard)),
                None => print!("{story}"),
            }
        }
        let ran = fleets::fleet_time(run);
        println!(
            "{:.1} s of fleet time in {:.1} s",
            ran.as_secs_f64(),
            took.as_secs_f64()
        );
    }
    let Some(failure) = Failure::of(&ran) else {
        println!("seed {seed} passes");
        return Ok(true);
    };
    println!("{}", failure.tell(seed));
    if args.shrinks() && !args.trace && !args.exact {
        println!("{}", failure.tell_shrunk(&plan));
    }
    Ok(false)
}

/// Runs many seeds, and sums up.
fn many(args: &Args) -> anyhow::Result<bool> {
    let fleets = Fleets {
        jobs: args.jobs(),
        shrinks: args.shrinks(),
        limit: args.limit(),
    };
    let sum = fleets.run(args.seeds_to_run()?);
    println!("{sum}");
    Ok(sum.failed.is_empty())
}

/// Proves that the checks see.
#[cfg(feature = "sabotage")]
fn prove(name: Option<&str>, jobs: usize) -> anyhow::Result<bool> {
    broken::prove(name, jobs)
}

/// Without brokers that break a rule the proof would be half of one.
#[cfg(not(feature = "sabotage"))]
fn prove(_: Option<&str>, _: usize) -> anyhow::Result<bool> {
    anyhow::bail!(
        "this was built without the feature `sabotage`; `cargo xtask sim --broken` turns it on"
    )
}
