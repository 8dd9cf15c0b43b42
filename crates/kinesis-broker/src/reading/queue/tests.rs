//! What is handed over when, by itself, and what it moves.

use std::time::Duration;

use aws_sdk_kinesis::primitives::Blob;
use tokio::time::advance;

use super::*;
use crate::Prefetch;
use crate::reading::delivery::Next;
use crate::reading::feed::{Budget, Shard};

const PAUSE: Duration = Duration::from_secs(1);

fn queue_of(concurrency: usize, batch: Option<BatchLimits>, prefetch: Prefetch) -> Queue {
    queue_on(Budget::new(prefetch), concurrency, batch)
}

fn queue_on(budget: Budget, concurrency: usize, batch: Option<BatchLimits>) -> Queue {
    let shard = Shard {
        stream: "inventory".into(),
        id: "shardId-000000000000".into(),
        hash_keys: None,
    };
    let feed = Feed::new(budget, shard, None);
    let concurrency = NonZeroUsize::new(concurrency).unwrap();
    Queue::new(feed, concurrency, batch, Seeker::default())
}

fn queue(concurrency: usize) -> Queue {
    queue_of(concurrency, None, Prefetch::default())
}

fn batches(max_records: usize) -> BatchLimits {
    BatchLimits::new(NonZeroUsize::new(max_records).unwrap(), PAUSE)
}

/// Reads records of these keys, numbered on from `first`.
fn read(queue: &mut Queue, first: usize, keys: &[&str]) {
    let record = |(place, key): (usize, &&str)| {
        Record::builder()
            .sequence_number((first + place).to_string())
            .partition_key(*key)
            .data(Blob::new(b"{}"))
            .build()
            .unwrap()
    };
    queue.push(keys.iter().enumerate().map(record).collect(), 0);
}

/// Which records are handed over next.
fn numbers(record: &InHand) -> Vec<usize> {
    let numbers = record.delivery.sequence_numbers();
    numbers.map(|number| number.parse().unwrap()).collect()
}

fn next(queue: &mut Queue) -> InHand {
    assert!(queue.has_next(Order::Read));
    queue.next(Order::Read).unwrap()
}

/// The record comes back handled; where the shard is settled up to then.
fn handled(queue: &mut Queue, record: InHand) -> Option<usize> {
    let next = Next {
        settled: record.delivery.len(),
        pause: Duration::ZERO,
    };
    let moved = queue.settle(Handled { record, next })?;
    Some(moved.sequence().unwrap().parse().unwrap())
}

/// The record comes back, to be tried again.
fn failed(queue: &mut Queue, record: InHand) {
    let next = Next {
        settled: 0,
        pause: PAUSE,
    };
    assert_eq!(queue.settle(Handled { record, next }), None);
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time_each_comes_once_the_one_before_is_settled() {
    let mut queue = queue(1);
    assert!(queue.is_drained() && !queue.has_next(Order::Read));
    read(&mut queue, 1, &["a", "b"]);
    let first = next(&mut queue);
    assert_eq!(numbers(&first), [1]);
    assert!(!queue.has_next(Order::Read));
    assert!(queue.next(Order::Read).is_none());
    assert_eq!(handled(&mut queue, first), Some(1));

    let second = next(&mut queue);
    assert_eq!(numbers(&second), [2]);
    assert!(!queue.is_drained(), "it is not settled");
    assert_eq!(handled(&mut queue, second), Some(2));
    assert!(queue.is_drained());
}

#[tokio::test(start_paused = true)]
async fn several_at_once_are_of_different_keys_and_move_the_position_without_a_gap() {
    let mut queue = queue(2);
    read(&mut queue, 1, &["a", "a", "b", "c"]);
    let (first, third) = (next(&mut queue), next(&mut queue));
    assert_eq!((numbers(&first), numbers(&third)), (vec![1], vec![3]));
    assert!(queue.next(Order::Read).is_none(), "two are in hand");

    assert_eq!(handled(&mut queue, third), None);
    let fourth = next(&mut queue);
    assert_eq!(numbers(&fourth), [4]);
    assert_eq!(handled(&mut queue, first), Some(1));
    let second = next(&mut queue);
    assert_eq!(numbers(&second), [2], "its key is free");
    assert_eq!(handled(&mut queue, fourth), None);
    assert_eq!(handled(&mut queue, second), Some(4));
}

#[tokio::test(start_paused = true)]
async fn what_failed_comes_again_after_its_pause_and_before_what_is_newer() {
    let mut queue = queue(1);
    read(&mut queue, 1, &["a", "b"]);
    let first = next(&mut queue);
    failed(&mut queue, first);
    assert!(!queue.has_next(Order::Read));
    assert_eq!(queue.wakes_at(true, true), Some(Instant::now() + PAUSE));

    advance(PAUSE - Duration::from_millis(1)).await;
    queue.wake();
    assert!(!queue.has_next(Order::Read));
    advance(Duration::from_millis(1)).await;
    queue.wake();
    assert_eq!(numbers(&next(&mut queue)), [1]);
    assert_eq!(queue.wakes_at(true, true), None);
}

#[tokio::test(start_paused = true)]
async fn no_record_goes_too_far_past_one_that_is_not_settled() {
    let mut queue = queue_of(2, None, Prefetch::default());
    read(&mut queue, 1, &["stuck"]);
    let stuck = next(&mut queue);
    let others = vec!["other"; AHEAD + 10];
    read(&mut queue, 2, &others);
    let mut passed = 0;
    while queue.has_next(Order::Read) {
        let other = next(&mut queue);
        assert_eq!(handled(&mut queue, other), None);
        passed += 1;
    }
    assert_eq!(passed, AHEAD - 1);
    assert_eq!(handled(&mut queue, stuck), Some(AHEAD));
    assert!(queue.has_next(Order::Read));
}

#[tokio::test(start_paused = true)]
async fn ordered_to_leave_only_what_others_went_past_is_handed_over() {
    for order in [Order::HandOver, Order::Stop] {
        let mut queue = queue(2);
        read(&mut queue, 1, &["a", "b", "c"]);
        assert!(!queue.has_to_settle(order), "nobody was given anything");
        let (first, second) = (next(&mut queue), next(&mut queue));
        failed(&mut queue, first);
        assert_eq!(handled(&mut queue, second), None);

        assert!(queue.has_to_settle(order));
        assert!(!queue.has_next(order), "it waits for its next try");
        advance(PAUSE).await;
        queue.wake();
        assert!(queue.has_next(order));
        let first = queue.next(order).unwrap();
        assert_eq!(numbers(&first), [1]);
        assert_eq!(handled(&mut queue, first), Some(2));
        assert!(!queue.has_to_settle(order) && !queue.has_next(order));
        assert!(queue.next(order).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_handed_over_full_or_when_it_has_waited_or_when_no_more_comes() {
    let mut queue = queue_of(1, Some(batches(3)), Prefetch::default());
    read(&mut queue, 1, &["a", "b", "c", "d"]);
    let full = next(&mut queue);
    assert_eq!(numbers(&full), [1, 2, 3]);
    assert_eq!(handled(&mut queue, full), Some(3));

    assert!(queue.next(Order::Read).is_none(), "it gathers");
    let waits_until = Instant::now() + PAUSE;
    assert_eq!(queue.wakes_at(true, true), Some(waits_until));
    assert_eq!(queue.wakes_at(false, true), None);
    advance(PAUSE).await;
    let waited = next(&mut queue);
    assert_eq!(numbers(&waited), [4]);
    assert_eq!(handled(&mut queue, waited), Some(4));

    read(&mut queue, 5, &["a"]);
    assert!(queue.next(Order::Read).is_none());
    assert!(queue.appetite().is_some() && !queue.is_drained());
    queue.end();
    assert_eq!(queue.appetite(), None);
    assert_eq!(numbers(&next(&mut queue)), [5]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_for_no_more_once_other_shards_have_left_no_room_to_read_on() {
    let limits = BatchLimits::new(NonZeroUsize::new(10).unwrap(), Duration::MAX);
    let budget = Budget::new(Prefetch::default().total_bytes(4));
    let [mut gathers, mut other] = [(); 2].map(|()| queue_on(budget.clone(), 1, Some(limits)));
    read(&mut gathers, 1, &["a"]);
    assert!(gathers.next(Order::Read).is_none());
    assert!(gathers.wakes_at(true, gathers.appetite().is_some()) > Some(Instant::now()));
    read(&mut other, 1, &["a"]);
    assert_eq!(gathers.appetite(), None);
    assert_eq!(gathers.wakes_at(true, false), Some(Instant::now()));
    assert_eq!(numbers(&next(&mut gathers)), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_may_be_larger_than_what_goes_past_one_record() {
    let most = AHEAD + 10;
    let mut queue = queue_of(1, Some(batches(most)), Prefetch::default());
    read(&mut queue, 1, &vec!["a"; most - 1]);
    assert!(queue.next(Order::Read).is_none(), "it gathers");
    assert!(queue.has_next(Order::Read));
    read(&mut queue, most, &["a"]);
    let full = next(&mut queue);
    assert_eq!(numbers(&full).len(), most);
    assert!(!queue.has_next(Order::Read), "one at a time");
    assert_eq!(handled(&mut queue, full), Some(most));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_leaves_no_room_to_read_on_waits_no_longer() {
    let prefetch = Prefetch::default().records(2);
    let mut queue = queue_of(1, Some(batches(10)), prefetch);
    read(&mut queue, 1, &["a"]);
    assert!(queue.next(Order::Read).is_none());
    read(&mut queue, 2, &["b"]);
    assert_eq!(queue.appetite(), None);
    assert_eq!(numbers(&next(&mut queue)), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn what_is_forgotten_neither_comes_again_nor_moves_anything() {
    let mut queue = queue(2);
    read(&mut queue, 1, &["a", "a", "b", "c"]);
    let (first, third) = (next(&mut queue), next(&mut queue));
    failed(&mut queue, first);
    assert_eq!(handled(&mut queue, third), None);
    queue.end();

    queue.clear();
    assert!(queue.is_drained() && !queue.has_next(Order::Read));
    assert_eq!(
        (queue.wakes_at(true, true), queue.has_to_settle(Order::Stop)),
        (None, false)
    );
    read(&mut queue, 7, &["a", "b"]);
    let (seventh, eighth) = (next(&mut queue), next(&mut queue));
    assert_eq!(handled(&mut queue, seventh), Some(7));
    assert_eq!(handled(&mut queue, eighth), Some(8));
}
