//! How long things took, over all scenarios of a run: printed beside what is to be reached, and not asserted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Figure {
    LoneStart,
    Joining,
    KillToFirst,
    KillToAll,
    StopToAll,
    ParentToChild,
    TableBack,
    KinesisBack,
}

impl Figure {
    /// What it is called, and the seconds to reach, where somebody has set them.
    fn told(self) -> (&'static str, Option<f64>) {
        match self {
            Self::LoneStart => ("start of a lone instance to its first record", Some(2.0)),
            Self::Joining => ("a second instance joining, until 4 and 4 of 8", Some(15.0)),
            Self::KillToFirst => ("kill -9 to the first record elsewhere", Some(16.0)),
            Self::KillToAll => ("kill -9 to a record of every shard elsewhere", Some(17.0)),
            Self::StopToAll => (
                "last settled before SIGTERM to every shard elsewhere",
                Some(4.0),
            ),
            Self::ParentToChild => ("a parent's last settled to each child's first", Some(1.0)),
            Self::TableBack => ("table back to each shard's next record", Some(4.0)),
            Self::KinesisBack => ("Kinesis back to each shard's next record", None),
        }
    }
}

static NOTED: Mutex<BTreeMap<Figure, Vec<f64>>> = Mutex::new(BTreeMap::new());

/// Notes a time, from one moment to another, in microseconds.
pub(super) fn note(figure: Figure, from: u64, to: u64) {
    let seconds = (to as f64 - from as f64) / 1e6;
    let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
    noted.entry(figure).or_default().push(seconds);
}

/// Prints what has been noted in this run so far.
pub(super) fn print() {
    let mut text = String::new();
    let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
    for (figure, seconds) in noted.iter_mut() {
        seconds.sort_by(f64::total_cmp);
        let (name, target) = figure.told();
        let (least, most) = (seconds[0], seconds[seconds.len() - 1]);
        let median = seconds[seconds.len() / 2];
        let times = seconds.len();
        let target = target.map_or(String::new(), |target| format!(", to reach {target} s"));
        let _ = writeln!(
            text,
            "figure: {name:54} min {least:6.2}  median {median:6.2}  max {most:6.2} s  \
             of {times:3}{target}"
        );
    }
    if !text.is_empty() {
        say(text.trim_end());
    }
}

/// Prints, also where the output of tests that pass is not shown.
pub(super) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
