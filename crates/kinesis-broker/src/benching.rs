//! The door for the micro-benchmarks, and for nobody else: no part of this crate's interface.
//!
//! Each function sets a decision up and gives a closure that takes it once.

use std::collections::HashMap;
use std::sync::Arc;

use lease_core::{Checkpoint, Holder, LeaseKey, LeaseState};
use tokio::time::Instant;

use crate::leasing::LIST_EVERY;
use crate::leasing::balance::{Balance, Claim, Shard};
use crate::leasing::lineage::{History, ShardInfo, Standing, Start};
use crate::reading::watermark::Watermark;

const STREAM: &str = "inventory";

/// Hands one record out and settles the oldest of so many in flight. Gives the new position.
pub fn watermark(in_flight: usize) -> impl FnMut() -> Option<u64> {
    let mut watermark = Watermark::new();
    let mut next = 0..;
    let mut hand_out = move |watermark: &mut Watermark<u64>| {
        let position = next.next()?;
        Some(watermark.hand_out(position))
    };
    let mut tickets: std::collections::VecDeque<_> = (0..in_flight)
        .filter_map(|_| hand_out(&mut watermark))
        .collect();
    move || {
        tickets.extend(hand_out(&mut watermark));
        watermark.settle(tickets.pop_front()?)
    }
}

/// Takes in a listing of so many shards, half of them closed and finished with one child each.
pub fn listing(shards: usize) -> impl FnMut() -> usize {
    let infos = infos(shards);
    let mut history = History::default();
    move || {
        history.list(infos.clone());
        history.shards_to_read().count()
    }
}

/// Draws the lineage of such a listing, and looks at where each shard stands. Gives how many may be read.
pub fn lineage(shards: usize) -> impl FnMut() -> usize {
    let infos = infos(shards);
    let states: HashMap<Arc<str>, LeaseState> = (infos.iter())
        .map(|info| {
            let checkpoint = match info.ending_sequence_number {
                Some(_) => Checkpoint::shard_end(),
                None => Checkpoint::at("1500"),
            };
            let state = LeaseState {
                checkpoint: Some(checkpoint),
                epoch: 1,
                ..LeaseState::default()
            };
            (Arc::clone(&info.id), state)
        })
        .collect();
    let mut history = History::default();
    history.list(infos);
    move || {
        let lineage = history.lineage(Start::Latest, |shard| states.get(shard));
        let standings = lineage.standings(|shard| states.get(shard));
        standings
            .filter(|(_, standing)| matches!(standing, Standing::Readable { .. }))
            .count()
    }
}

fn infos(shards: usize) -> Vec<ShardInfo> {
    let closed = shards / 2;
    let id = |number: usize| Arc::<str>::from(format!("shardId-{number:012}"));
    (0..shards)
        .map(|number| ShardInfo {
            id: id(number),
            parent: number.checked_sub(closed).map(id),
            adjacent_parent: None,
            starting_sequence_number: "1000".to_owned(),
            ending_sequence_number: (number < closed).then(|| "2000".to_owned()),
            hash_keys: None,
            ended_before_start: false,
        })
        .collect()
}

/// Decides after a listing of so many shards that so many instances hold evenly; where `joins`, this one is one more
/// and has none. Gives how many it asks for.
pub fn balance(shards: usize, instances: usize, joins: bool) -> impl FnMut() -> usize {
    let names: Vec<String> = (0..instances).map(|n| format!("instance-{n:03}")).collect();
    let me = if joins { "newcomer" } else { names[0].as_str() };
    let mut balance = Balance::new(me);
    let holders: Vec<Holder> = (0..shards)
        .map(|number| Holder {
            owner: names[number % instances].clone(),
            epoch: 1,
        })
        .collect();
    let keys: Vec<LeaseKey> = (0..shards)
        .map(|number| LeaseKey::new(STREAM, format!("shardId-{number:012}")))
        .collect();
    let mut now = Instant::now();
    move || {
        now += LIST_EVERY;
        let shards: Vec<_> = (keys.iter().zip(&holders).enumerate())
            .map(|(number, (key, holder))| Shard {
                key,
                claim: match number % instances {
                    0 if !joins => Claim::Mine,
                    _ => Claim::Held {
                        owner: &holder.owner,
                    },
                },
                asked_by: None,
            })
            .collect();
        balance.decide(now, &shards).ask.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_does_what_it_says() {
        let mut watermark = watermark(16);
        assert_eq!([watermark(), watermark()], [Some(0), Some(1)]);
        assert_eq!(listing(100)(), 100);
        assert_eq!(lineage(100)(), 50);
        assert_eq!(balance(100, 10, false)(), 0);
        let mut joining = balance(100, 10, true);
        let asked = (0..5).map(|_| joining()).last();
        assert_eq!(asked, Some(9));
    }
}
