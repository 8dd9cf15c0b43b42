//! What a service writes to, in the example of fencing. It stands for a database, and its lock for a transaction.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kinesis_broker::prelude::*;

use crate::StockChange;

/// Where changes are written to: each once, and none under a lease that another instance has by now. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Warehouse(Arc<Mutex<Tables>>);

#[derive(Debug, Default)]
struct Tables {
    stock: BTreeMap<u64, i64>,
    fences: BTreeMap<String, Fence>,
}

/// For a shard, the highest epoch that has written, and the last record that it wrote.
#[derive(Debug, Default)]
struct Fence {
    epoch: u64,
    last: Place,
}

/// Where a record is in its shard, in order. Sequence numbers are decimal, without leading zeros, and too long for a
/// `u128`; the records that a producer packed into one have one sequence number.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    digits: usize,
    sequence_number: String,
    inside: Option<u64>,
}

impl From<&RecordInfo> for Place {
    fn from(record: &RecordInfo) -> Self {
        Self {
            digits: record.sequence_number.len(),
            sequence_number: record.sequence_number.clone(),
            inside: record.sub_sequence_number,
        }
    }
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// The change is applied.
    Done,
    /// It was done before.
    Again,
    /// Another instance holds the shard by now.
    Refused,
}

impl Warehouse {
    /// Applies a change, and notes which and under which lease: both or neither.
    pub fn write(&self, change: &StockChange, record: &RecordInfo) -> Write {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Tables { stock, fences } = &mut *tables;
        let fence = fences.entry(record.shard.clone()).or_default();
        if record.holder.epoch < fence.epoch {
            return Write::Refused;
        }
        fence.epoch = record.holder.epoch;
        let place = Place::from(record);
        if place <= fence.last {
            return Write::Again;
        }
        fence.last = place;
        *stock.entry(change.sku).or_default() += change.delta;
        Write::Done
    }

    /// How many there are of an article.
    #[must_use]
    pub fn of(&self, sku: u64) -> i64 {
        let tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables.stock.get(&sku).copied().unwrap_or_default()
    }
}
