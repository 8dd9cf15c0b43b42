//! A history for people, and a history to compare.
//!
//! [`Story`] tells who held what when, one event a line, and leaves out what says nothing: renewals that succeed,
//! looks at rows, calls that are under way. `History`'s own text leaves out nothing, so two runs are the same where
//! their texts are.

mod teller;
#[cfg(test)]
mod tests;

use std::fmt;

use lease_core::LeaseKey;

use self::teller::{Line, Teller};
use crate::history::History;

/// How a shard is called: by its number, where its id is one of Kinesis's.
pub(crate) fn short(key: &LeaseKey) -> String {
    format!("shard {}", number(key))
}

fn number(key: &LeaseKey) -> &str {
    match key.shard().strip_prefix("shardId-") {
        Some(digits) => match digits.trim_start_matches('0') {
            "" => "0",
            number => number,
        },
        None => key.shard(),
    }
}

/// A readable story of a history, one event a line.
#[derive(Clone, Debug)]
pub struct Story<'a> {
    history: &'a History,
    shard: Option<String>,
}

impl<'a> Story<'a> {
    /// The story of everything.
    #[must_use]
    pub fn of(history: &'a History) -> Self {
        Self {
            history,
            shard: None,
        }
    }

    /// The story of one shard alone, by its number or its id, and of what befell the whole fleet.
    #[must_use]
    pub fn of_shard(self, shard: impl Into<String>) -> Self {
        Self {
            shard: Some(shard.into()),
            ..self
        }
    }

    fn is_about(&self, key: &LeaseKey) -> bool {
        self.shard
            .as_ref()
            .is_none_or(|shard| number(key) == shard || key.shard() == shard)
    }
}

impl fmt::Display for Story<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut teller = Teller::of(self.history);
        for (at, event) in &self.history.events {
            let Some(Line { who, key, text }) = teller.tell(*at, event) else {
                continue;
            };
            if key.is_some_and(|key| !self.is_about(key)) {
                continue;
            }
            let who = who.map_or(String::new(), |who| who.to_string());
            let shard = key.map_or(String::new(), short);
            writeln!(
                f,
                "{:>9.3} s  {who:<4} {shard:<10} {text}",
                at.as_secs_f64()
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for History {
    /// Everything, exactly, one event, shard or record a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, event) in &self.events {
            writeln!(f, "{}.{:09} {event:?}", at.as_secs(), at.subsec_nanos())?;
        }
        for shard in &self.shards {
            writeln!(f, "{shard:?}")?;
        }
        for record in &self.records {
            writeln!(f, "{record:?}")?;
        }
        for key in &self.left_held {
            writeln!(f, "left held: {key}")?;
        }
        Ok(())
    }
}
