//! The proof that the checks see: brokers and stores that break one rule each, run until that rule is said to be
//! broken.

use std::panic::catch_unwind;
use std::sync::{Mutex, PoisonError};

use anyhow::ensure;
use fleet_sim::broken::Broken;

/// In so many seeds it has to show.
const SEEDS: u64 = 200;

/// In which seed it shows. A run that has no end shows nothing.
fn show(broken: Broken) -> Option<u64> {
    (1..=SEEDS).find(|seed| catch_unwind(|| broken.shows(*seed)).unwrap_or(false))
}

/// Runs all broken fleets, or the one of this name; whether each of them shows.
pub(crate) fn prove(name: Option<&str>, jobs: usize) -> anyhow::Result<bool> {
    let all = Broken::all();
    let is_meant =
        |broken: &Broken| name.is_none_or(|name| broken.to_string().eq_ignore_ascii_case(name));
    let meant: Vec<_> = all.iter().copied().filter(is_meant).collect();
    let names: Vec<_> = all.iter().map(ToString::to_string).collect();
    ensure!(
        !meant.is_empty(),
        "nothing is broken by that name; there is {}",
        names.join(", ")
    );

    println!("{:<20} {:<28} seeds", "broken", "seen by");
    let queue = Mutex::new(meant.into_iter());
    let unseen = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(broken) = next() {
                    match show(broken) {
                        Some(seeds) => println!("{broken:<20} {:<28} {seeds}", broken.breaks()),
                        None => {
                            println!("{broken:<20} {:<28} not in {SEEDS}", "nothing");
                            unseen
                                .lock()
                                .unwrap_or_else(PoisonError::into_inner)
                                .push(broken);
                        }
                    }
                }
            });
        }
    });
    let unseen = unseen.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(unseen.is_empty())
}
