//! What the processes of a scenario handled, in the order in which they did, and what must hold of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The time, in microseconds: of one machine, whose processes share it. Nothing is decided by it.
#[expect(
    clippy::disallowed_methods,
    reason = "times that are measured from one process to another"
)]
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// One line of the file.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Line {
    pub(super) at: u64,
    pub(super) owner: String,
    pub(super) event: Event,
}

/// What a process has to say.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) enum Event {
    /// The handler was called.
    Began(Handled),
    /// The handler has returned.
    Settled(Handled),
    /// The service reported an error.
    Reported {
        text: String,
        /// The stream and the shard, where it is an error of a lease.
        lease: Option<(String, String)>,
    },
}

/// One record, as a handler sees it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Handled {
    pub(super) shard: String,
    pub(super) sequence_number: String,
    pub(super) epoch: u64,
    /// The key, and the record's number among the records of this key.
    pub(super) sku: u64,
    pub(super) delta: i64,
    /// When Kinesis stored it, in microseconds.
    pub(super) arrived_at: u64,
}

impl Line {
    pub(super) fn began(&self) -> Option<&Handled> {
        match &self.event {
            Event::Began(handled) => Some(handled),
            _ => None,
        }
    }

    pub(super) fn settled(&self) -> Option<&Handled> {
        match &self.event {
            Event::Settled(handled) => Some(handled),
            _ => None,
        }
    }

    fn touched(&self) -> Option<&Handled> {
        self.began().or(self.settled())
    }
}

/// The end of the file at which a process writes.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    owner: String,
}

impl Log {
    pub(super) fn open(path: &Path, owner: &str) -> io::Result<Self> {
        let file = File::options().append(true).create(true).open(path)?;
        Ok(Self {
            file,
            owner: owner.to_owned(),
        })
    }

    /// Appends a line in one write, so that the lines of several processes do not mix and a kill leaves none
    /// in halves.
    pub(super) fn write(&self, event: Event) {
        let line = Line {
            at: now(),
            owner: self.owner.clone(),
            event,
        };
        let mut text = serde_json::to_vec(&line).unwrap();
        text.push(b'\n');
        (&self.file).write_all(&text).unwrap();
    }
}

/// Two calls of handlers with one record, the second of which was the next after the first.
#[derive(Clone, Debug)]
pub(super) struct Twice {
    pub(super) first: Line,
    #[expect(dead_code, reason = "shown where a check fails")]
    pub(super) second: Line,
    /// Whether the handler of the first had returned before the second was called.
    pub(super) is_settled: bool,
}

impl Twice {
    pub(super) fn record(&self) -> &Handled {
        self.first.began().unwrap()
    }
}

/// Every record that was handed over again.
pub(super) fn handled_twice(lines: &[Line]) -> Vec<Twice> {
    let mut last: HashMap<(&str, &str), (&Line, bool)> = HashMap::new();
    let mut twice = Vec::new();
    for line in lines {
        let Some(handled) = line.touched() else {
            continue;
        };
        let record = (&*handled.shard, &*handled.sequence_number);
        if line.settled().is_some() {
            if let Some((first, is_settled)) = last.get_mut(&record) {
                *is_settled |= first.owner == line.owner;
            }
        } else if let Some((first, is_settled)) = last.insert(record, (line, false)) {
            twice.push(Twice {
                first: first.clone(),
                second: line.clone(),
                is_settled,
            });
        }
    }
    twice
}

/// What is wrong with the order: a record of a key before an earlier one of it was ever begun.
pub(super) fn out_of_order(lines: &[Line]) -> Vec<String> {
    let mut next: HashMap<u64, i64> = HashMap::new();
    let mut wrong = Vec::new();
    for line in lines {
        let Some(handled) = line.began() else {
            continue;
        };
        let next = next.entry(handled.sku).or_default();
        if handled.delta > *next {
            wrong.push(format!("{next} of this key comes first: {line:?}"));
        }
        *next = (*next).max(handled.delta + 1);
    }
    wrong
}

/// The records that were put, so many of each key, and that no handler has settled.
pub(super) fn missing(lines: &[Line], put: &[i64]) -> Vec<(u64, i64)> {
    let settled: HashSet<(u64, i64)> = lines
        .iter()
        .filter_map(Line::settled)
        .map(|handled| (handled.sku, handled.delta))
        .collect();
    let keys = put.iter().zip(0_u64..);
    keys.flat_map(|(count, sku)| (0..*count).map(move |delta| (sku, delta)))
        .filter(|record| !settled.contains(record))
        .collect()
}

/// Of each shard, the first record that is begun in these lines by anybody whom `by` accepts.
pub(super) fn first_begun(lines: &[Line], by: impl Fn(&str) -> bool) -> BTreeMap<&str, &Line> {
    let mut first = BTreeMap::new();
    for line in lines.iter().filter(|line| by(&line.owner)) {
        if let Some(handled) = line.began() {
            first.entry(&*handled.shard).or_insert(line);
        }
    }
    first
}

/// Whether a sequence number lies after another: both are whole numbers without leading zeros.
pub(super) fn is_after(sequence_number: &str, other: &str) -> bool {
    (sequence_number.len(), sequence_number) > (other.len(), other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handled(delta: i64) -> Handled {
        Handled {
            shard: "0".to_owned(),
            sequence_number: delta.to_string(),
            epoch: 1,
            sku: 0,
            delta,
            arrived_at: 0,
        }
    }

    fn line(owner: &str, event: Event) -> Line {
        Line {
            at: 0,
            owner: owner.to_owned(),
            event,
        }
    }

    #[test]
    fn the_checks_find_what_is_wrong() {
        let began = |owner, delta| line(owner, Event::Began(handled(delta)));
        let settled = |owner, delta| line(owner, Event::Settled(handled(delta)));
        let lines = [
            began("a", 0),
            settled("a", 0),
            began("a", 1),
            began("b", 1),
            began("b", 0),
            began("b", 3),
        ];
        let twice = handled_twice(&lines);
        let twice: Vec<_> = twice
            .iter()
            .map(|twice| (twice.record().delta, twice.is_settled))
            .collect();
        assert_eq!(twice, [(1, false), (0, true)]);
        assert_eq!(out_of_order(&lines).len(), 1);
        assert_eq!(missing(&lines, &[3]), [(0, 1), (0, 2)]);
        assert_eq!(
            first_begun(&lines, |owner| owner == "b")["0"]
                .began()
                .unwrap()
                .delta,
            1
        );
        assert!(is_after("10", "9") && !is_after("9", "9"));
    }
}
