//! Seeds: one replays a run, a fixed set keeps every rule, and those that failed once are run for good.
//! `cargo xtask sim` runs as many as one likes.

use std::thread;

use fleet_sim::{Run, Simulation, regressions};

/// Runs seeds on two threads, and gives those that break a rule, with what they break.
fn failures(seeds: Vec<u64>) -> Vec<String> {
    let run = |seeds: Vec<u64>| {
        let failed = |seed| {
            let run: Run = Simulation::from_seed(seed).run();
            (!run.violations.is_empty()).then(|| run.report())
        };
        thread::spawn(move || seeds.into_iter().filter_map(failed).collect::<Vec<_>>())
    };
    let (some, others): (Vec<_>, Vec<_>) = seeds.into_iter().partition(|seed| seed % 2 == 0);
    let threads = [run(some), run(others)];
    threads
        .into_iter()
        .flat_map(|thread| thread.join().expect("a run has an end"))
        .collect()
}

#[test]
fn one_seed_gives_the_same_history_twice_byte_for_byte() {
    // Between them: clocks that drift, noise, pauses, kills, resharding, retention that passes, and many records in
    // hand at once.
    for seed in [1, 3, 13] {
        let history = |seed| Simulation::from_seed(seed).run().history.to_string();
        let (one, other) = (history(seed), history(seed));
        assert!(
            one.lines().count() > 1_000,
            "seed {seed} says something:\n{one}"
        );
        if one != other {
            let differ = one
                .lines()
                .zip(other.lines())
                .find(|(one, other)| one != other);
            panic!("seed {seed} gives another history: {differ:?}");
        }
    }
}

#[test]
fn a_fixed_set_of_seeds_keeps_every_rule() {
    assert_eq!(failures((1..=40).collect()), Vec::<String>::new());
}

#[test]
fn seeds_that_failed_once_keep_every_rule() {
    assert_eq!(failures(regressions::seeds()), Vec::<String>::new());
}
