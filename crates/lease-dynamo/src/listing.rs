//! Many rows at once: by their keys or by a scan of the whole table, whichever costs fewer read units.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::{StreamExt, TryStreamExt, stream};
use lease_core::{LeaseError, LeaseKey};
use tokio::time::sleep;

use crate::calls::{Calls, key_of};
use crate::error::wrong_key;
use crate::row::{Item, Row};

/// The most keys of one [BatchGetItem].
///
/// [BatchGetItem]: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html
const BATCH: usize = 100;
/// Batches under way at once.
const BATCHES_AT_ONCE: usize = 8;
/// How often a batch is sent again for the keys that the service left out.
const TRIES: usize = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_millis(800);
/// So many items of a scan cost at least one read unit.
const ROWS_A_UNIT: f64 = 8.0;
/// After so many listings by keys the table is looked at again; it may have become smaller.
const LOOK_AGAIN: u32 = 100;

/// How to read a number of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// By their keys: a read unit each.
    Keys,
    /// By a scan, given up where it has cost so many read units.
    Scan { at_most: f64 },
}

/// What is known of the size of the table.
#[derive(Debug, Default)]
pub(crate) struct Economy {
    /// The read units of a whole scan, or of the part that was enough to give it up.
    scan: Option<f64>,
    listings_by_keys: u32,
}

impl Economy {
    /// The way that costs less, as far as is known. A table of unknown size is scanned, at no more than the
    /// other way would cost.
    fn choose(&mut self, keys: usize) -> Way {
        #[expect(clippy::cast_precision_loss, reason = "a number of shards")]
        let by_keys = keys as f64;
        if keys <= 1 {
            return Way::Keys;
        }
        let look_again = self.listings_by_keys >= LOOK_AGAIN;
        let at_most = by_keys;
        if self.scan.is_some_and(|scan| scan < by_keys) {
            return Way::Scan { at_most };
        }
        if self.scan.is_none() || look_again {
            // The worst, in case the caller waits no longer: the next listing must not try the same.
            self.scan = Some(by_keys);
            self.listings_by_keys = 0;
            return Way::Scan { at_most };
        }
        self.listings_by_keys += 1;
        Way::Keys
    }

    /// What a scan has cost, given up or not; `None` where nothing was learned.
    fn scanned(&mut self, units: Option<f64>) {
        self.scan = units;
    }

    /// A scan failed where the keys could be read: it costs more than any number of them, for a while.
    fn scan_failed(&mut self) {
        self.scan = Some(f64::INFINITY);
        self.listings_by_keys = 0;
    }
}

/// Reads the rows of these keys that there are.
pub(crate) async fn read(
    calls: &Calls,
    economy: &Mutex<Economy>,
    keys: &BTreeMap<String, LeaseKey>,
    seed: u64,
) -> Result<HashMap<LeaseKey, Row>, LeaseError> {
    let Way::Scan { at_most } = lock(economy).choose(keys.len()) else {
        return by_keys(calls, keys, seed).await;
    };
    match scan(calls, keys, at_most).await {
        Ok(Scanned { units, rows }) => {
            lock(economy).scanned(Some(units));
            match rows {
                Some(rows) => Ok(rows),
                None => by_keys(calls, keys, seed).await,
            }
        }
        // Asking for each key would say the same, or make it worse.
        Err(error @ (LeaseError::Corrupt { .. } | LeaseError::Throttled { .. })) => {
            lock(economy).scanned(None);
            Err(error)
        }
        // The keys may be within reach where a scan is not: it may not be allowed, or never make it within its
        // time limit.
        Err(_) => {
            let rows = by_keys(calls, keys, seed).await;
            match rows {
                Ok(_) => lock(economy).scan_failed(),
                Err(_) => lock(economy).scanned(None),
            }
            rows
        }
    }
}

fn lock(economy: &Mutex<Economy>) -> MutexGuard<'_, Economy> {
    // Every change is made whole or not at all.
    economy.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The items of a scan by their keys.
#[derive(Debug)]
struct Scanned {
    units: f64,
    /// `None` where the scan was given up.
    rows: Option<HashMap<LeaseKey, Row>>,
}

/// Scans the table, and keeps what was asked for.
async fn scan(
    calls: &Calls,
    keys: &BTreeMap<String, LeaseKey>,
    at_most: f64,
) -> Result<Scanned, LeaseError> {
    let mut rows = HashMap::with_capacity(keys.len());
    let (mut units, mut from) = (0.0, None);
    loop {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it saturates, at more than a page can hold"
        )]
        let limit = ((at_most - units) * ROWS_A_UNIT).max(1.0) as i32;
        let page = calls.scan(from, Some(limit)).await?;
        units += page.units;
        for item in &page.items {
            let Some(name) = key_of(item) else {
                return Err(wrong_key(calls.table(), "of something else than leases"));
            };
            if let Some(key) = keys.get(name) {
                rows.insert(key.clone(), Row::decode(calls.table(), key, item)?);
            }
        }
        from = page.next;
        if from.is_none() {
            return Ok(Scanned {
                units,
                rows: Some(rows),
            });
        }
        if units >= at_most {
            return Ok(Scanned { units, rows: None });
        }
    }
}

/// Reads each key, a hundred at a time.
async fn by_keys(
    calls: &Calls,
    keys: &BTreeMap<String, LeaseKey>,
    seed: u64,
) -> Result<HashMap<LeaseKey, Row>, LeaseError> {
    let names: Vec<String> = keys.keys().cloned().collect();
    // Batches that are throttled together must not come back together.
    let mut jitter = fastrand::Rng::with_seed(seed);
    let batches: Vec<(Vec<String>, u64)> = names
        .chunks(BATCH)
        .map(|batch| (batch.to_vec(), jitter.u64(..)))
        .collect();
    let items: Vec<Vec<Item>> = stream::iter(batches)
        .map(|(batch, jitter)| whole_batch(calls.clone(), batch, jitter))
        .buffer_unordered(BATCHES_AT_ONCE)
        .try_collect()
        .await?;
    let mut rows = HashMap::with_capacity(keys.len());
    for item in items.iter().flatten() {
        if let Some(key) = key_of(item).and_then(|name| keys.get(name)) {
            rows.insert(key.clone(), Row::decode(calls.table(), key, item)?);
        }
    }
    Ok(rows)
}

/// One batch, sent again for what the service left out.
async fn whole_batch(
    calls: Calls,
    mut wanted: Vec<String>,
    jitter: u64,
) -> Result<Vec<Item>, LeaseError> {
    let mut pauses = ExponentialBuilder::new()
        .with_min_delay(FIRST_PAUSE)
        .with_max_delay(LAST_PAUSE)
        .with_jitter()
        .with_jitter_seed(jitter)
        .with_max_times(TRIES - 1)
        .build();
    let mut read = Vec::with_capacity(wanted.len());
    loop {
        let (items, left) = calls.get_batch(wanted).await?;
        read.extend(items);
        if left.is_empty() {
            return Ok(read);
        }
        let Some(pause) = pauses.next() else {
            return Err(LeaseError::throttled(format!(
                "BatchGetItem on DynamoDB table {}: {} keys still unread after {TRIES} calls",
                calls.table(),
                left.len()
            )));
        };
        sleep(pause).await;
        wanted = left;
    }
}

/// The keys by their texts, each once.
pub(crate) fn by_name(keys: &[LeaseKey]) -> BTreeMap<String, LeaseKey> {
    keys.iter()
        .map(|key| (key.to_string(), key.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_unknown_size_is_scanned_at_no_more_than_its_keys_would_cost() {
        let mut economy = Economy::default();
        assert_eq!(economy.choose(100), Way::Scan { at_most: 100.0 });
    }

    #[test]
    fn a_first_scan_that_nobody_waited_for_is_not_tried_again_at_once() {
        let mut economy = Economy::default();
        economy.choose(100);
        assert_eq!(economy.choose(100), Way::Keys);
        economy.scanned(None);
        assert_eq!(economy.choose(100), Way::Scan { at_most: 100.0 });
    }

    #[test]
    fn one_key_is_read_by_itself() {
        let mut economy = Economy::default();
        assert_eq!(economy.choose(1), Way::Keys);
        economy.scanned(Some(1.0));
        assert_eq!(economy.choose(1), Way::Keys);
    }

    #[test]
    fn the_cheaper_way_is_taken_for_each_number_of_keys() {
        let mut economy = Economy::default();
        economy.scanned(Some(375.0));
        let table = [
            (2, Way::Keys),
            (375, Way::Keys),
            (376, Way::Scan { at_most: 376.0 }),
            (5_000, Way::Scan { at_most: 5_000.0 }),
        ];
        for (keys, way) in table {
            assert_eq!(economy.choose(keys), way, "{keys}");
        }
    }

    #[test]
    fn a_large_table_is_looked_at_again_once_in_a_while() {
        let mut economy = Economy::default();
        economy.scanned(Some(100.0));
        let ways: Vec<Way> = (0..=2 * LOOK_AGAIN + 1)
            .map(|_| economy.choose(10))
            .collect();
        let scans = ways.iter().filter(|way| **way != Way::Keys).count();
        assert_eq!(scans, 2);
        assert_eq!(ways[0], Way::Keys);

        economy.scanned(Some(1.0));
        assert_eq!(economy.choose(10), Way::Scan { at_most: 10.0 });
    }

    #[test]
    fn a_scan_that_failed_is_tried_again_a_hundred_listings_later_whatever_their_size() {
        let mut economy = Economy::default();
        economy.scanned(Some(1.0));
        economy.scan_failed();
        for keys in 2..=LOOK_AGAIN as usize + 1 {
            assert_eq!(economy.choose(keys), Way::Keys);
        }
        assert_eq!(economy.choose(10), Way::Scan { at_most: 10.0 });
    }

    #[test]
    fn the_figures_of_the_documentation_follow_from_the_size_of_a_row() {
        const ROW: usize = 309;
        const PAGE: usize = 1 << 20;
        let units = |mut rows: usize| {
            let mut pages = Vec::new();
            while rows > 0 {
                let page = rows.min(PAGE / ROW);
                pages.push((page * ROW).div_ceil(4_096));
                rows -= page;
            }
            (pages.len(), pages.iter().sum::<usize>())
        };
        assert_eq!(units(100), (1, 8));
        assert_eq!(units(5_000), (2, 378));
    }

    #[test]
    fn a_key_that_is_named_twice_is_read_once() {
        let key = LeaseKey::new("s", "0");
        let names = by_name(&[key.clone(), LeaseKey::new("s", "1"), key.clone()]);
        assert_eq!(names.len(), 2);
        assert_eq!(names["s:0"], key);
    }
}
