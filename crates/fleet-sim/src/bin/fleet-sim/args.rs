//! What the command line says.

use std::num::NonZero;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{ArgGroup, Parser};
use fleet_sim::regressions;

/// Runs fleets of Kinesis consumers in simulation, each drawn from a seed, and checks what must hold of them.
#[derive(Debug, Parser)]
#[command(name = "fleet-sim", group(ArgGroup::new("what").required(true)))]
pub(crate) struct Args {
    /// The seeds to run: `A..B` without B, `A..=B` with it, or one
    #[arg(long, value_name = "RANGE", group = "what")]
    seeds: Option<Seeds>,
    /// Run this seed
    #[arg(long, value_name = "N", group = "what")]
    pub(crate) seed: Option<u64>,
    /// Run seeds until so many minutes are over
    #[arg(long, value_name = "MINUTES", group = "what")]
    minutes: Option<f64>,
    /// Run the seeds that failed once
    #[arg(long, group = "what")]
    regressions: bool,
    /// Prove that the checks see: run brokers and stores that break one rule each (or the one of this name) until it
    /// shows, for at most 200 seeds each
    #[arg(long, value_name = "NAME", num_args = 0..=1, group = "what")]
    pub(crate) broken: Option<Option<String>>,
    /// Tell the story of the seed: who held what when
    #[arg(long, conflicts_with_all = ["seeds", "minutes", "regressions", "broken"])]
    pub(crate) trace: bool,
    /// Tell of this shard alone, by its number or id
    #[arg(long, value_name = "SHARD", requires = "trace")]
    pub(crate) shard: Option<String>,
    /// Print everything that happened, as it is compared between two runs
    #[arg(long, conflicts_with_all = ["seeds", "minutes", "regressions", "broken", "trace"])]
    pub(crate) exact: bool,
    /// The first seed of `--minutes`
    #[arg(long, value_name = "N", default_value_t = 1)]
    from: u64,
    /// How many runs at a time; as many as there are cores, if not said
    #[arg(long, value_name = "JOBS")]
    jobs: Option<NonZero<usize>>,
    /// Do not make the plan of a seed that fails smaller
    #[arg(long)]
    no_shrink: bool,
}

/// Seeds from the first to before the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seeds {
    from: u64,
    to: u64,
}

impl FromStr for Seeds {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let number = |text: &str| {
            text.parse::<u64>()
                .with_context(|| format!("{text:?} is no seed"))
        };
        let after = |last: u64| {
            last.checked_add(1)
                .context("there is no seed after the last one")
        };
        let (from, to) = match text.split_once("..") {
            Some((from, to)) => match to.strip_prefix('=') {
                Some(last) => (number(from)?, after(number(last)?)?),
                None => (number(from)?, number(to)?),
            },
            None => (number(text)?, after(number(text)?)?),
        };
        ensure!(from < to, "there is no seed in {text}");
        Ok(Self { from, to })
    }
}

impl Args {
    pub(crate) fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
        self.jobs.map_or_else(cores, NonZero::get)
    }

    pub(crate) fn shrinks(&self) -> bool {
        !self.no_shrink
    }

    /// How long to go on.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.minutes
            .map(|minutes| Duration::from_secs_f64((minutes * 60.0).max(0.0)))
    }

    pub(crate) fn seeds_to_run(&self) -> anyhow::Result<Box<dyn Iterator<Item = u64> + Send>> {
        if self.regressions {
            return Ok(Box::new(regressions::seeds().into_iter()));
        }
        let Seeds { from, to } = match (self.seeds, self.minutes) {
            (Some(seeds), _) => seeds,
            (None, Some(_)) => Seeds {
                from: self.from,
                to: u64::MAX,
            },
            (None, None) => anyhow::bail!("no seeds are said"),
        };
        Ok(Box::new(from..to))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_range_of_seeds_is_half_open_unless_it_says_otherwise() {
        let table = [("1..1000", 1, 1000), ("1..=1000", 1, 1001), ("7", 7, 8)];
        for (text, from, to) in table {
            assert_eq!(text.parse::<Seeds>().unwrap(), Seeds { from, to }, "{text}");
        }
        for text in [
            "",
            "1..",
            "..3",
            "3..3",
            "4..3",
            "x",
            "1..x",
            "0..=18446744073709551615",
        ] {
            assert!(text.parse::<Seeds>().is_err(), "{text}");
        }
    }

    #[test]
    fn one_thing_is_asked_for_and_a_story_of_one_seed_alone() {
        let parse = |line: &str| Args::try_parse_from(line.split_whitespace());
        for line in [
            "",
            "--seeds 1..3 --seed 4",
            "--seeds 1..3 --trace",
            "--regressions --exact",
            "--seed 1 --shard 3",
            "--minutes 1 --regressions",
        ] {
            assert!(parse(&format!("fleet-sim {line}")).is_err(), "{line}");
        }
        for line in [
            "--seeds 1..3",
            "--seed 1 --trace --shard 3",
            "--minutes 0.5 --from 9",
            "--regressions",
            "--broken",
            "--broken TipAnew --jobs 2",
        ] {
            assert!(parse(&format!("fleet-sim {line}")).is_ok(), "{line}");
        }
    }
}
