//! Many runs at a time: each is of one thread, and depends on nothing but its seed.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use fleet_sim::plan::Plan;
use fleet_sim::{Run, Simulation};

use crate::clock::Stopwatch;
use crate::failure::Failure;

/// How often progress is told.
const SELDOM: Duration = Duration::from_secs(15);
/// Of so many seeds that fail the plans are made smaller: each takes as long as a hundred runs.
const SHRUNK: usize = 3;

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps panics off the terminal: most are of handlers, which panic as the plan has it.
pub(crate) fn keep_panics_quiet() {
    std::panic::set_hook(Box::new(|info| {
        LAST_PANIC.with_borrow_mut(|last| *last = info.to_string().replace('\n', " "));
    }));
}

/// Runs a fleet to its end; a panic of the run is its message.
pub(crate) fn run(simulation: Simulation) -> Result<Run, String> {
    catch_unwind(AssertUnwindSafe(|| simulation.run()))
        .map_err(|_| LAST_PANIC.with_borrow(Clone::clone))
}

/// How long a run lasted in the world's time.
pub(crate) fn fleet_time(run: &Run) -> Duration {
    run.history
        .events
        .last()
        .map_or(Duration::ZERO, |(at, _)| *at)
}

/// How to run many seeds.
#[derive(Debug)]
pub(crate) struct Fleets {
    pub(crate) jobs: usize,
    pub(crate) shrinks: bool,
    /// No run begins after this.
    pub(crate) limit: Option<Duration>,
}

/// What came of many runs.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    passed: usize,
    /// The seeds that failed.
    pub(crate) failed: Vec<u64>,
    took: Duration,
    fleet_time: Duration,
}

/// What came of one.
struct Outcome {
    seed: u64,
    fleet_time: Duration,
    failed: bool,
}

impl Fleets {
    /// Runs the seeds, telling of failures as they come and of progress now and then.
    pub(crate) fn run(&self, seeds: impl Iterator<Item = u64> + Send) -> Sum {
        let stopwatch = Stopwatch::start();
        let seeds = Mutex::new(seeds);
        let failed = AtomicUsize::new(0);
        let (sender, outcomes) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                let (sender, seeds, failed) = (sender.clone(), &seeds, &failed);
                scope.spawn(move || {
                    let is_over = || self.limit.is_some_and(|limit| stopwatch.elapsed() >= limit);
                    let next = || seeds.lock().unwrap_or_else(PoisonError::into_inner).next();
                    while let Some(seed) = next().filter(|_| !is_over()) {
                        if sender.send(self.run_one(seed, failed)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            Self::sum_up(&outcomes, stopwatch)
        })
    }

    fn sum_up(outcomes: &mpsc::Receiver<Outcome>, stopwatch: Stopwatch) -> Sum {
        let mut sum = Sum::default();
        let mut told = Duration::ZERO;
        for Outcome {
            seed,
            fleet_time,
            failed,
        } in outcomes
        {
            sum.fleet_time += fleet_time;
            if failed {
                sum.failed.push(seed);
            } else {
                sum.passed += 1;
            }
            sum.took = stopwatch.elapsed();
            if sum.took >= told + SELDOM {
                told = sum.took;
                eprintln!("... {sum}");
            }
        }
        sum.failed.sort_unstable();
        sum.took = stopwatch.elapsed();
        sum
    }

    fn run_one(&self, seed: u64, failed: &AtomicUsize) -> Outcome {
        let plan = Plan::from_seed(seed);
        let ran = run(Simulation::of(plan.clone()));
        let failure = Failure::of(&ran);
        if let Some(failure) = &failure {
            println!("{}", failure.tell(seed));
            if self.shrinks && failed.fetch_add(1, Ordering::Relaxed) < SHRUNK {
                println!("seed {seed}, {}", failure.tell_shrunk(&plan));
            }
        }
        let fleet_time = ran.as_ref().map_or(Duration::ZERO, fleet_time);
        Outcome {
            seed,
            fleet_time,
            failed: failure.is_some(),
        }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            took,
            fleet_time,
        } = self;
        write!(
            f,
            "{passed} seeds passed, {} failed, in {:.1} s ({:.0} s of fleet time)",
            failed.len(),
            took.as_secs_f64(),
            fleet_time.as_secs_f64()
        )?;
        if !failed.is_empty() {
            let seeds: Vec<_> = failed.iter().map(u64::to_string).collect();
            write!(f, "; failed: {}", seeds.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_and_names_what_failed() {
        let (took, fleet_time) = (Duration::from_millis(12_340), Duration::from_secs(4_000));
        let mut sum = Sum {
            passed: 3,
            failed: Vec::new(),
            took,
            fleet_time,
        };
        assert_eq!(
            sum.to_string(),
            "3 seeds passed, 0 failed, in 12.3 s (4000 s of fleet time)"
        );
        sum.failed = vec![7, 9];
        assert!(
            sum.to_string()
                .ends_with("2 failed, in 12.3 s (4000 s of fleet time); failed: 7, 9")
        );
    }
}
