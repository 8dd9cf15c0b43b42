//! What is measured: each group is a module, and gives tables.

mod allocations;
mod idle;
mod instructions;
mod latency;
mod listing;
mod store;
mod throughput;

use crate::table::Table;

pub use self::idle::{Idle, Idling};

/// A group of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Group {
    /// Records a second and CPU a record
    Throughput,
    /// Allocations a record, counted
    Allocations,
    /// Instructions a record, counted by valgrind
    Instructions,
    /// Records a second with a store that takes its time
    Store,
    /// From put to handler
    Latency,
    /// What thousands of idle shards cost
    Idle,
    /// What a listing takes
    Listing,
}

/// How much is done for a table.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How often each side runs, the first time apart.
    pub repetitions: usize,
    /// Whether to do so little that the figures mean nothing, to see that all works.
    pub is_quick: bool,
}

impl Effort {
    /// So many of something, or few enough for a quick run.
    fn of(self, many: usize, few: usize) -> usize {
        if self.is_quick { few } else { many }
    }
}

impl Group {
    /// Measures.
    ///
    /// # Errors
    ///
    /// Where a side fails, or a program that a group starts.
    pub fn run(self, effort: Effort) -> anyhow::Result<Table> {
        match self {
            Self::Throughput => throughput::run(effort),
            Self::Allocations => allocations::run(effort),
            Self::Instructions => instructions::run(effort),
            Self::Store => store::run(effort),
            Self::Latency => latency::run(effort),
            Self::Idle => idle::run(effort),
            Self::Listing => listing::run(effort),
        }
    }
}
