//! The proof that the checks see: each fleet that breaks a rule is caught in the seed that is noted here, the first
//! that shows it. `cargo xtask sim --broken` looks for them anew.
#![cfg(feature = "sabotage")]

use std::sync::Mutex;
use std::thread;

use fleet_sim::broken::Broken;

/// The first seed in which each shows.
const SEEDS: &[(&str, u64)] = &[
    ("PastDeadline", 1),
    ("DeadlineFromAnswer", 1),
    ("BorrowedFence", 1),
    ("UnfencedHandOver", 1),
    ("CheckpointAhead", 1),
    ("ReopenAhead", 3),
    ("ReopenBehind", 3),
    ("SkipRetried", 1),
    ("ChildBeforeParent", 1),
    ("CheckpointBackwards", 1),
    ("TipAnew", 16),
    ("NeverTakesOver", 1),
    ("ForgetsFailed", 3),
    ("ReleaseBeforeSettle", 1),
    ("NeverGives", 1),
    ("AlwaysMoves", 1),
    ("TwoCallsAnAck", 1),
    ("KeepsTask", 1),
    ("KeepsLease", 1),
    ("TwoOfOneKey", 1),
    ("PassesGaps", 1),
    ("MoreAtOnce", 2),
    ("LeavesGaps", 1),
    ("LeavesUnwritten", 1),
    ("WritesOften", 1),
    ("ForgetsShared", 15),
    ("AwaitsNothing", 5),
    ("WritesSeldom", 12),
    ("ReadsWithoutEnd", 1),
    ("AnybodysCheckpoint", 5),
    ("LateCheckpoint", 1),
    ("LostCheckpoint", 1),
    ("LiveGrant", 1),
    ("EarlyExpiry", 1),
    ("StandingEpoch", 1),
    ("DropsReadAhead", 42),
    ("NoRelease", 1),
    ("NoAsk", 1),
    ("FormersRelease", 43),
];

fn seed_of(broken: Broken) -> u64 {
    let found = SEEDS.iter().find(|(name, _)| *name == broken.to_string());
    found
        .unwrap_or_else(|| panic!("no seed is noted for {broken}"))
        .1
}

#[test]
fn every_fleet_that_breaks_a_rule_is_caught() {
    let queue = Mutex::new(Broken::all());
    let next = || queue.lock().expect("no thread panics with it").pop();
    let uncaught = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(broken) = next() {
                    let seed = seed_of(broken);
                    if !broken.shows(seed) {
                        let breaks = broken.breaks();
                        let text = format!("{broken} does not break \"{breaks}\" in seed {seed}");
                        uncaught
                            .lock()
                            .expect("no thread panics with it")
                            .push(text);
                    }
                }
            });
        }
    });
    assert_eq!(
        uncaught.into_inner().expect("no thread panicked"),
        Vec::<String>::new()
    );
}
