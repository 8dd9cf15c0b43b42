//! The text of the table: columns, their order, and the counts at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use lease_core::{Checkpoint, LeaseKey};

const NOTHING: &str = "-";
const HEAD: [&str; 7] = [
    "STREAM",
    "SHARD",
    "OWNER",
    "EPOCH",
    "RENEWED",
    "CHECKPOINT",
    "ASKED BY",
];
/// The column of numbers, which is aligned to the right.
const EPOCH: usize = 3;

/// What is known of an item of the table.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    Lease {
        key: LeaseKey,
        owner: Option<String>,
        epoch: u64,
        /// How long ago; `None` if not while it was watched.
        renewed: Option<Duration>,
        checkpoint: Option<Checkpoint>,
        asked_by: Option<String>,
    },
    Unknown {
        lease_key: String,
        reason: String,
    },
}

/// How many leases are in which state; each is in one.
#[derive(Debug, Default)]
struct Counts {
    held: BTreeMap<String, usize>,
    free: usize,
    reserved: usize,
    finished: usize,
}

/// The whole text, sorted by stream and shard, of a table that was watched for so long.
pub(crate) fn render(lines: Vec<Line>, watched: Duration) -> String {
    let mut leases = Vec::new();
    let mut unknown = Vec::new();
    let mut counts = Counts::default();
    for line in lines {
        match line {
            Line::Lease {
                key,
                owner,
                epoch,
                renewed,
                checkpoint,
                asked_by,
            } => {
                counts.add(owner.as_deref(), checkpoint.as_ref(), asked_by.as_deref());
                let cells = [
                    key.stream().to_owned(),
                    key.shard().to_owned(),
                    owner.clone().unwrap_or_else(|| NOTHING.to_owned()),
                    epoch.to_string(),
                    when(owner.is_some(), renewed, watched),
                    checkpoint.map_or_else(|| NOTHING.to_owned(), |at| at.to_string()),
                    match (asked_by, owner) {
                        (None, _) => NOTHING.to_owned(),
                        (Some(by), Some(_)) => by,
                        (Some(by), None) => format!("{by} (reserved)"),
                    },
                ];
                leases.push((key, cells));
            }
            Line::Unknown { lease_key, reason } => unknown.push((lease_key, reason)),
        }
    }
    leases.sort_by(|(a, _), (b, _)| a.cmp(b));
    unknown.sort();

    let mut text = String::new();
    if !leases.is_empty() {
        let head = HEAD.map(str::to_owned);
        let rows: Vec<_> = [head]
            .into_iter()
            .chain(leases.into_iter().map(|(_, cells)| cells))
            .collect();
        text = aligned(&rows);
        text.push('\n');
    }
    for (lease_key, reason) in &unknown {
        text.push_str(&format!("not understood: {lease_key}: {reason}\n"));
    }
    text.push_str(&counts.summary(unknown.len()));
    text
}

fn when(is_held: bool, renewed: Option<Duration>, watched: Duration) -> String {
    match renewed {
        _ if !is_held => NOTHING.to_owned(),
        Some(ago) => format!("{:.1} s ago", ago.as_secs_f64()),
        None => format!("not within {} s", watched.as_secs()),
    }
}

fn aligned(rows: &[[String; HEAD.len()]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| match column {
                EPOCH => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

impl Counts {
    fn add(&mut self, owner: Option<&str>, at: Option<&Checkpoint>, asked_by: Option<&str>) {
        match (owner, asked_by) {
            _ if at.is_some_and(Checkpoint::is_shard_end) => self.finished += 1,
            (Some(owner), _) => *self.held.entry(owner.to_owned()).or_default() += 1,
            (None, Some(_)) => self.reserved += 1,
            (None, None) => self.free += 1,
        }
    }

    fn summary(&self, unknown: usize) -> String {
        let held: usize = self.held.values().sum();
        let leases = held + self.free + self.reserved + self.finished;
        let noun = if leases == 1 { "lease" } else { "leases" };
        let mut text = format!(
            "{leases} {noun}: {held} held, {} free, {} reserved, {} finished",
            self.free, self.reserved, self.finished
        );
        if unknown > 0 {
            text.push_str(&format!("; {unknown} not understood"));
        }
        text.push('\n');
        for (owner, shards) in &self.held {
            text.push_str(&format!("{shards} held by {owner}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCHED: Duration = Duration::from_secs(4);

    fn lease(shard: &str, owner: Option<&str>, renewed: Option<u64>) -> Line {
        Line::Lease {
            key: LeaseKey::new("inventory", shard),
            owner: owner.map(str::to_owned),
            epoch: 1,
            renewed: renewed.map(Duration::from_millis),
            checkpoint: None,
            asked_by: None,
        }
    }

    fn with(line: Line, at: Option<Checkpoint>, by: Option<&str>, number: u64) -> Line {
        match line {
            Line::Lease {
                key,
                owner,
                renewed,
                ..
            } => Line::Lease {
                key,
                owner,
                renewed,
                epoch: number,
                checkpoint: at,
                asked_by: by.map(str::to_owned),
            },
            unknown @ Line::Unknown { .. } => unknown,
        }
    }

    #[test]
    fn the_table_is_aligned_sorted_and_counted() {
        let lines = vec![
            with(
                lease("shard-3", None, Some(500)),
                Some(Checkpoint::shard_end()),
                None,
                12,
            ),
            with(lease("shard-2", None, None), None, Some("host-a"), 4),
            Line::Unknown {
                lease_key: "inventory:shard-9".to_owned(),
                reason: "its format is 2".to_owned(),
            },
            with(
                lease("shard-1", Some("host-a"), Some(1_240)),
                Some(Checkpoint::at("4959")),
                Some("host-b"),
                7,
            ),
            lease("shard-0", Some("b"), None),
            lease("shard-4", None, None),
        ];
        let expected = "\
STREAM     SHARD    OWNER   EPOCH  RENEWED         CHECKPOINT  ASKED BY
inventory  shard-0  b           1  not within 4 s  -           -
inventory  shard-1  host-a      7  1.2 s ago       4959        host-b
inventory  shard-2  -           4  -               -           host-a (reserved)
inventory  shard-3  -          12  -               SHARD_END   -
inventory  shard-4  -           1  -               -           -

not understood: inventory:shard-9: its format is 2
5 leases: 2 held, 1 free, 1 reserved, 1 finished; 1 not understood
1 held by b
1 held by host-a
";
        assert_eq!(render(lines, WATCHED), expected);
    }

    #[test]
    fn streams_come_one_after_another() {
        let of = |stream: &str, shard: &str| Line::Lease {
            key: LeaseKey::new(stream, shard),
            owner: None,
            epoch: 1,
            renewed: None,
            checkpoint: None,
            asked_by: None,
        };
        let text = render(vec![of("b", "0"), of("a", "1"), of("a", "0")], WATCHED);
        let keys: Vec<&str> = text
            .lines()
            .skip(1)
            .take(3)
            .map(|line| &line[..9])
            .collect();
        assert_eq!(keys, ["a       0", "a       1", "b       0"]);
    }

    #[test]
    fn an_empty_table_is_said_to_be_empty() {
        let expected = "0 leases: 0 held, 0 free, 0 reserved, 0 finished\n";
        assert_eq!(render(Vec::new(), WATCHED), expected);
    }
}
