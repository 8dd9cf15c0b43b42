//! Explores every world and every flaw, and prints what came of it.
//!
//! `flaws` as an argument tells for each flaw the shortest history that shows it; the name of a world explores that
//! one alone.

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use lease_model::{Exploration, Flaw, World, explore};

fn main() -> ExitCode {
    let argument = env::args().nth(1);
    let tells = argument.as_deref() == Some("flaws");
    let mut as_expected = true;
    if !tells {
        println!(
            "{:28}{:>10}{:>12}{:>7}{:>9}  progress",
            "world", "states", "steps", "depth", "seconds"
        );
        let worlds = World::ALL
            .iter()
            .filter(|world| argument.as_deref().is_none_or(|name| name == world.name));
        for world in worlds {
            let (explored, took) = timed(world);
            println!(
                "{:28}{:>10}{:>12}{:>7}{:>9.1}  {}",
                world.name,
                explored.states,
                explored.steps,
                explored.depth,
                took.as_secs_f64(),
                if world.progress { "checked" } else { "" },
            );
            if let Some(finding) = explored.finding {
                as_expected = false;
                println!("not {}:", finding.invariant);
                tell(&finding.history);
            }
        }
    }
    if tells || argument.is_none() {
        println!(
            "\n{:28}{:>10}{:>12}  breaks",
            "flaw", "states", "steps to it"
        );
        for flaw in Flaw::ALL {
            let (explored, _) = timed(&flaw.world());
            let name = format!("{flaw:?}");
            let Some(finding) = explored.finding else {
                as_expected = false;
                println!("{name:28}{:>10}  not found", explored.states);
                continue;
            };
            as_expected &= finding.invariant == flaw.breaks();
            println!(
                "{name:28}{:>10}{:>12}  {}",
                explored.states,
                finding.history.len(),
                finding.invariant
            );
            if tells {
                tell(&finding.history);
            }
        }
    }
    match as_expected {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn tell(history: &[String]) {
    for (number, step) in history.iter().enumerate() {
        println!("    {:>2}. {step}", number + 1);
    }
}

fn timed(world: &World) -> (Exploration, Duration) {
    #[expect(
        clippy::disallowed_methods,
        reason = "a figure to print; no decision rests on it"
    )]
    let start = std::time::Instant::now();
    (explore(world), start.elapsed())
}
