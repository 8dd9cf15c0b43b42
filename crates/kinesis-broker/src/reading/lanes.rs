//! Which records of a shard may be in handlers at once: up to so many, and never two of one partition key.
//!
//! Records are offered in the order of the shard. One whose key has a record in hand is parked behind it, and
//! gets its turn when that one is settled; until then the key stays taken, through every retry. So the records
//! of one key are handled in their order, one after the other, whatever the others do.
//!
//! This module knows that and nothing else: not what a record is, nor what a handler made of it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::num::NonZeroUsize;

use crate::sabotage::{self, Sabotage};

/// How many records may be parked for each lane. It bounds how far the newest record in hand is ahead of the oldest
/// one, and so what is handled twice after a crash and what has to be handled before a shard is given up.
const PARKED_FOR_EACH: usize = 8;

/// What a partition key comes to here. Two keys that come to the same are treated as one, which costs them
/// nothing but their concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaneKey(u64);

impl LaneKey {
    pub(crate) fn of(partition_key: &str) -> Self {
        // Without a random state: a seed replays a run.
        Self(BuildHasherDefault::<DefaultHasher>::default().hash_one(partition_key))
    }
}

/// The right of one record to be in a handler, given back by [`Lanes::leave`].
#[derive(Debug)]
#[must_use = "a lane that is not left stays taken"]
pub(crate) struct Lane(Option<LaneKey>);

/// The lanes of one shard, and what is parked behind their records.
#[derive(Debug)]
pub(crate) struct Lanes<T> {
    width: usize,
    taken: usize,
    /// The keys that have a record in hand, and the records parked behind it.
    parked: HashMap<LaneKey, VecDeque<T>, BuildHasherDefault<DefaultHasher>>,
    parked_count: usize,
}

impl<T> Lanes<T> {
    pub(crate) fn new(width: NonZeroUsize) -> Self {
        Self {
            width: width.get(),
            taken: 0,
            parked: HashMap::default(),
            parked_count: 0,
        }
    }

    /// Whether another record can be in hand, or be looked at to see whether it can.
    pub(crate) fn has_room(&self) -> bool {
        let has_lane = self.taken < self.width || sabotage::is(Sabotage::MoreAtOnce);
        has_lane && self.parked_count < self.width.saturating_mul(PARKED_FOR_EACH)
    }

    /// Whether records are told apart by their keys: not, where only one is in hand at a time.
    pub(crate) fn tells_keys_apart(&self) -> bool {
        self.width > 1
    }

    /// Takes a lane, where there [is room](Self::has_room), for a record of any key.
    pub(crate) fn enter_any(&mut self) -> Lane {
        self.taken += 1;
        Lane(None)
    }

    /// Takes a lane, where there [is room](Self::has_room), for the next record of the shard, or parks the record
    /// behind another of its key.
    pub(crate) fn enter(&mut self, key: LaneKey, record: T) -> Option<(Lane, T)> {
        if let Some(parked) = self.parked.get_mut(&key) {
            parked.push_back(record);
            self.parked_count += 1;
            return None;
        }
        self.parked.insert(key, VecDeque::new());
        self.taken += 1;
        Some((Lane(Some(key)), record))
    }

    /// Gives back the lane of a record that is settled; the next record of its key, if one is parked, has it then.
    pub(crate) fn leave(&mut self, lane: Lane) -> Option<(Lane, T)> {
        let next = lane.0.and_then(|key| {
            let parked = self.parked.get_mut(&key)?;
            let next = parked.pop_front();
            if next.is_none() {
                self.parked.remove(&key);
            }
            next
        });
        match next {
            Some(record) => {
                self.parked_count -= 1;
                Some((lane, record))
            }
            None => {
                self.taken -= 1;
                None
            }
        }
    }

    /// Forgets every lane and what is parked.
    pub(crate) fn clear(&mut self) {
        self.taken = 0;
        self.parked.clear();
        self.parked_count = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn lanes<T>(width: usize) -> Lanes<T> {
        Lanes::new(NonZeroUsize::new(width).unwrap())
    }

    fn key(key: u64) -> LaneKey {
        LaneKey(key)
    }

    /// How many records are parked behind those of the keys below 10.
    fn parked<T>(lanes: &Lanes<T>) -> usize {
        let parked = (0..10).filter_map(|of| lanes.parked.get(&key(of)));
        parked.map(VecDeque::len).sum()
    }

    #[test]
    fn one_key_has_one_record_in_hand_and_the_rest_wait_in_their_order() {
        let mut lanes = lanes(3);
        let (first, _) = lanes.enter(key(7), 1).unwrap();
        assert!(lanes.enter(key(7), 2).is_none());
        assert!(lanes.enter(key(7), 3).is_none());
        let (other, _) = lanes.enter(key(8), 4).unwrap();
        assert_eq!(parked(&lanes), 2);
        let (second, record) = lanes.leave(first).unwrap();
        assert_eq!(record, 2);
        let (third, record) = lanes.leave(second).unwrap();
        assert_eq!(record, 3);
        assert!(lanes.leave(third).is_none());
        assert!(lanes.leave(other).is_none());
        assert!(lanes.enter(key(7), 5).is_some());
    }

    #[test]
    fn there_is_room_for_as_many_as_it_is_wide() {
        let mut lanes = lanes(2);
        let (first, ()) = lanes.enter(key(1), ()).unwrap();
        assert!(lanes.has_room());
        let _second = lanes.enter(key(2), ()).unwrap();
        assert!(!lanes.has_room());
        assert!(lanes.leave(first).is_none());
        assert!(lanes.has_room());
    }

    #[test]
    fn a_hot_key_parks_so_many_and_no_more() {
        let mut lanes = lanes(2);
        let (first, _) = lanes.enter(key(1), 0).unwrap();
        let mut parked = 0;
        while lanes.has_room() {
            assert!(lanes.enter(key(1), 0).is_none());
            parked += 1;
        }
        assert_eq!(parked, 16);
        let (_second, _) = lanes.leave(first).unwrap();
        assert!(lanes.has_room());
    }

    #[test]
    fn a_key_that_is_done_with_leaves_nothing_behind() {
        let mut lanes = lanes(4);
        for round in 0..1_000 {
            let (lane, ()) = lanes.enter(key(round), ()).unwrap();
            assert!(lanes.leave(lane).is_none());
        }
        assert!(lanes.parked.is_empty());
    }

    proptest! {
        /// Whatever is settled when: the records of a key come in order and one at a time, no lane stays empty that
        /// one of the records offered could have, and in the end every record has had its turn.
        #[test]
        fn each_key_keeps_its_order_and_nothing_is_left_out(
            width in 1..6_usize,
            keys in vec(0..5_u64, 0..120),
            settles in vec(any::<usize>(), 300),
        ) {
            let mut lanes = lanes(width);
            let mut arrivals = keys.iter().copied().enumerate();
            let mut in_hand: Vec<(Lane, u64, usize)> = Vec::new();
            let mut handed: Vec<Vec<usize>> = vec![Vec::new(); 5];
            let mut settles = settles.into_iter().cycle();
            loop {
                while lanes.has_room() {
                    let Some((number, of)) = arrivals.next() else { break };
                    let is_taken = in_hand.iter().any(|(_, key, _)| *key == of);
                    let entered = lanes.enter(key(of), number);
                    prop_assert_eq!(entered.is_none(), is_taken);
                    if let Some((lane, number)) = entered {
                        handed[usize::try_from(of).unwrap()].push(number);
                        in_hand.push((lane, of, number));
                    }
                }
                prop_assert!(in_hand.len() <= width);
                if in_hand.is_empty() {
                    break;
                }
                let which = settles.next().unwrap() % in_hand.len();
                let (lane, of, _) = in_hand.swap_remove(which);
                if let Some((lane, number)) = lanes.leave(lane) {
                    handed[usize::try_from(of).unwrap()].push(number);
                    in_hand.push((lane, of, number));
                }
            }
            prop_assert_eq!(parked(&lanes), 0);
            for (of, handed) in handed.iter().enumerate() {
                let of = u64::try_from(of).unwrap();
                let expected: Vec<_> = (keys.iter().enumerate())
                    .filter(|(_, key)| **key == of)
                    .map(|(number, _)| number)
                    .collect();
                prop_assert_eq!(handed, &expected);
            }
        }
    }
}
