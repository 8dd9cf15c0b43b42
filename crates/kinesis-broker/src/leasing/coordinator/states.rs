//! The lease states of many shards, also where some of them cannot be read.

use std::collections::{HashMap, HashSet};

use futures_util::stream::StreamExt as _;
use lease_core::{LeaseError, LeaseKey, LeaseState};
use rstream::broker::Reports;
use tokio::time::{Duration, Instant};

use crate::KinesisError;
use crate::leasing::Leases;

/// Where they cannot be read together, at most so many shards are read one by one; more are halved first.
const FEW: usize = 16;
/// Where so many parts fail and none answers, the store counts as out of reach.
const OUT_OF_REACH: usize = 4;
/// After so long the search for what fails goes on with the next listing.
const PATIENCE: Duration = Duration::from_secs(1);
/// Calls under way at once.
const CALLS_AT_ONCE: usize = 32;

/// Reads lease states, and remembers from one listing to the next what could not be read.
///
/// One call reads them all. Where it fails, ever smaller parts are read, all at once, until what fails
/// stands alone; from then on that is read apart, so that one bad row costs the others neither a listing
/// nor, where it hangs, the time.
#[derive(Debug, Default)]
pub(super) struct States {
    /// What failed last time, in the parts that it is to be read in.
    suspects: Vec<Vec<LeaseKey>>,
}

impl States {
    /// The states that could be read, in the order of `keys`.
    ///
    /// Each part that could not be read is reported, by one of its shards; where the store is out of reach
    /// one shard stands for all.
    pub(super) async fn read(
        &mut self,
        leases: &Leases,
        reports: &Reports,
        keys: &[LeaseKey],
    ) -> Vec<(LeaseKey, LeaseState)> {
        let started = Instant::now();
        let mut read = HashMap::with_capacity(keys.len());
        let mut parts = self.parts(keys);
        while !parts.is_empty() {
            let count = parts.len();
            let failed = read_parts(leases, parts, &mut read).await;
            let is_out_of_reach = failed.len() == count && count >= OUT_OF_REACH;
            let is_hopeless = failed.iter().any(|(_, error)| match error {
                LeaseError::Throttled { .. } => true,
                LeaseError::Corrupt { .. } => false,
                _ => is_out_of_reach,
            });
            if is_hopeless {
                if let Some((part, error)) = failed.into_iter().next() {
                    reports.report(&KinesisError::lease(&part[0], error));
                }
                break;
            }
            let is_late = started.elapsed() > PATIENCE;
            parts = Vec::new();
            for (part, error) in failed {
                if part.len() > 1 && !is_late {
                    parts.extend(split(part));
                    continue;
                }
                reports.report(&KinesisError::lease(&part[0], error));
                self.suspects.extend(split(part));
            }
        }
        let in_order = keys.iter();
        in_order.filter_map(|key| read.remove_entry(key)).collect()
    }

    /// What to read in one call each: everything, except for what failed last time.
    fn parts(&mut self, keys: &[LeaseKey]) -> Vec<Vec<LeaseKey>> {
        let mut parts = std::mem::take(&mut self.suspects);
        if parts.is_empty() {
            return if keys.is_empty() {
                parts
            } else {
                vec![keys.to_vec()]
            };
        }
        let known: HashSet<_> = keys.iter().collect();
        for part in &mut parts {
            part.retain(|key| known.contains(key));
        }
        let apart: HashSet<_> = parts.iter().flatten().collect();
        let rest = keys.iter().filter(|key| !apart.contains(key));
        let rest: Vec<_> = rest.cloned().collect();
        parts.push(rest);
        parts.retain(|part| !part.is_empty());
        parts
    }
}

/// Reads all parts at once; gives those that failed.
async fn read_parts(
    leases: &Leases,
    parts: Vec<Vec<LeaseKey>>,
    read: &mut HashMap<LeaseKey, LeaseState>,
) -> Vec<(Vec<LeaseKey>, LeaseError)> {
    let calls = futures_util::stream::iter(parts).map(async |part| {
        let states = match &part[..] {
            [key] => leases.read(key).await.map(|state| vec![state]),
            keys => leases.read_all(keys).await,
        };
        (part, states)
    });
    let mut answers = calls.buffered(CALLS_AT_ONCE);
    let mut failed = Vec::new();
    while let Some((part, states)) = answers.next().await {
        match states {
            Ok(states) => read.extend(part.into_iter().zip(states)),
            Err(error) => failed.push((part, error)),
        }
    }
    failed
}

/// Smaller parts of a part; one shard stays as it is.
fn split(part: Vec<LeaseKey>) -> Vec<Vec<LeaseKey>> {
    let size = if part.len() > FEW {
        part.len().div_ceil(2)
    } else {
        1
    };
    part.chunks(size).map(<[_]>::to_vec).collect()
}
