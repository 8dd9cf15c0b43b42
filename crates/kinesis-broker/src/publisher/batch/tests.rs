//! Tables of cases, and random histories that a simple model follows.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const LINGER: Duration = Duration::from_millis(20);

/// Which record it is, and whether it was accepted.
#[derive(Debug)]
struct Probe {
    id: u64,
    is_accepted: bool,
}

impl Payload for Probe {
    fn accepted(&mut self) {
        assert!(!self.is_accepted, "{} is accepted twice", self.id);
        self.is_accepted = true;
    }
}

fn limits() -> Limits {
    Limits {
        records: 4,
        bytes: 100,
        linger: LINGER,
        held: 1_000_000,
        give_up_after: None,
    }
}

/// A queue, its clock, and the number of the next record.
struct Bench {
    queue: Queue<Probe>,
    now: Instant,
    next: u64,
}

impl Bench {
    fn new(limits: Limits) -> Self {
        Self {
            queue: Queue::new(limits),
            now: Instant::now(),
            next: 0,
        }
    }

    fn offer(&mut self, key: Option<&str>, bytes: usize) -> u64 {
        let probe = Probe {
            id: self.next,
            is_accepted: false,
        };
        self.next += 1;
        self.queue
            .offer(key.map(Into::into), bytes, probe, self.now)
    }

    fn offer_all(&mut self, keys: &[&str]) {
        for key in keys {
            self.offer(Some(key), 1);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn take(&mut self) -> Option<Vec<Entry<Probe>>> {
        self.queue.take(self.now)
    }

    #[track_caller]
    fn takes(&mut self, ids: &[u64]) -> Vec<Entry<Probe>> {
        let batch = self.take().expect("a call is due");
        assert_eq!(self::ids(&batch), ids);
        batch
    }

    fn settle(&mut self, batch: Vec<Entry<Probe>>) {
        for entry in batch {
            self.queue.settled(entry);
        }
    }
}

fn ids(batch: &[Entry<Probe>]) -> Vec<u64> {
    batch.iter().map(|entry| entry.payload.id).collect()
}

#[test]
fn a_record_waits_for_company_until_it_has_lingered() {
    let mut bench = Bench::new(limits());
    bench.offer(Some("a"), 1);
    assert!(bench.take().is_none());
    assert_eq!(bench.queue.wakes_at(true), Some(bench.now + LINGER));
    bench.pass(LINGER / 2);
    bench.offer(Some("b"), 1);
    assert!(bench.take().is_none());
    bench.pass(LINGER / 2);
    bench.takes(&[0, 1]);
}

#[test]
fn a_call_that_is_full_waits_for_nothing() {
    let mut bench = Bench::new(limits());
    bench.offer_all(&["a", "b", "c"]);
    assert!(bench.take().is_none());
    bench.offer_all(&["d", "e"]);
    bench.takes(&[0, 1, 2, 3]);
    assert!(bench.take().is_none());

    let mut bench = Bench::new(limits());
    bench.offer(Some("a"), 60);
    assert!(bench.take().is_none());
    bench.offer(Some("b"), 60);
    bench.takes(&[0]);
    assert!(bench.take().is_none());
    bench.offer(Some("c"), 40);
    bench.takes(&[1, 2]);
}

#[test]
fn a_record_larger_than_a_call_goes_alone() {
    let mut bench = Bench::new(limits());
    bench.offer(Some("a"), 1);
    bench.offer(Some("b"), 300);
    bench.offer(Some("c"), 1);
    bench.takes(&[0]);
    bench.takes(&[1]);
    assert!(bench.take().is_none());
}

#[test]
fn a_key_has_one_record_under_way_and_the_others_go_on() {
    let mut bench = Bench::new(limits());
    bench.offer_all(&["a", "a", "b", "a"]);
    bench.pass(LINGER);
    let first = bench.takes(&[0, 2]);
    assert!(bench.take().is_none());
    bench.settle(first);
    let second = bench.takes(&[1]);
    bench.settle(second);
    let third = bench.takes(&[3]);
    assert!(bench.take().is_none());
    bench.settle(third);
    assert_eq!(bench.queue.outstanding(), 0);
    assert!(
        bench.queue.lines.is_empty(),
        "no key is remembered for ever"
    );
}

#[test]
fn records_without_order_wait_behind_nothing() {
    let mut bench = Bench::new(limits());
    bench.offer(Some("a"), 1);
    bench.offer(Some("a"), 1);
    bench.offer(None, 1);
    bench.offer(None, 1);
    bench.pass(LINGER);
    bench.takes(&[0, 2, 3]);
}

#[test]
fn a_retry_waits_for_its_time_and_holds_its_key_back() {
    let mut bench = Bench::new(limits());
    bench.offer_all(&["a", "a", "b"]);
    bench.pass(LINGER);
    let mut batch = bench.takes(&[0, 2]);
    let again = batch.remove(0);
    bench.settle(batch);
    bench.queue.again(again, bench.now + 5 * LINGER).unwrap();
    assert!(bench.take().is_none());
    assert_eq!(bench.queue.wakes_at(true), Some(bench.now + 5 * LINGER));
    bench.offer(Some("c"), 1);
    bench.pass(LINGER);
    bench.takes(&[3]);
    bench.pass(4 * LINGER);
    let again = bench.takes(&[0]);
    assert_eq!(again[0].failures, 1);
    bench.settle(again);
    bench.takes(&[1]);
}

#[test]
fn a_retry_does_not_linger_behind_an_older_record_that_does() {
    let hour = Duration::from_secs(3_600);
    let mut bench = Bench::new(Limits {
        linger: hour,
        ..limits()
    });
    bench.offer(Some("a"), 1);
    bench.pass(hour - LINGER);
    bench.offer_all(&["a", "b"]);
    bench.pass(LINGER);
    let mut batch = bench.takes(&[0, 2]);
    let again = batch.remove(1);
    bench.settle(batch);
    bench.queue.again(again, bench.now + LINGER).unwrap();
    bench.pass(LINGER);
    bench.takes(&[1, 2]);
}

#[test]
fn a_refused_call_is_halved_until_each_record_goes_alone() {
    let mut bench = Bench::new(limits());
    bench.offer_all(&["a", "b", "c", "d"]);
    let batch = bench.takes(&[0, 1, 2, 3]);
    bench.queue.halve(batch);
    let left = bench.takes(&[0, 1]);
    let right = bench.takes(&[2, 3]);
    bench.queue.halve(right);
    bench.settle(left);
    bench.takes(&[2]);
    bench.takes(&[3]);
}

#[test]
fn what_is_over_the_room_waits_in_order_and_a_later_small_one_does_not_pass() {
    let mut bench = Bench::new(Limits {
        held: 2 * OVERHEAD + 100,
        ..limits()
    });
    for (key, bytes) in [("a", 60), ("b", 60), ("c", 1)] {
        bench.offer(Some(key), bytes);
    }
    assert!(bench.queue.outside(0).is_none());
    assert!(!bench.queue.outside(1).unwrap().is_accepted);
    assert!(!bench.queue.outside(2).unwrap().is_accepted);
    bench.pass(LINGER);
    let first = bench.takes(&[0]);
    assert!(bench.take().is_none());
    bench.settle(first);
    bench.takes(&[1, 2]);
}

#[test]
fn a_record_larger_than_the_room_is_held_alone() {
    let mut bench = Bench::new(Limits {
        held: 10,
        ..limits()
    });
    bench.offer_all(&["a", "b"]);
    bench.pass(LINGER);
    let first = bench.takes(&[0]);
    assert!(bench.take().is_none());
    bench.settle(first);
    bench.takes(&[1]);
}

#[test]
fn a_record_that_is_withdrawn_makes_room_for_those_behind_it() {
    let mut bench = Bench::new(Limits {
        held: 2 * OVERHEAD + 100,
        ..limits()
    });
    bench.offer(Some("a"), 50);
    let large = bench.offer(Some("a"), 90);
    bench.offer(Some("b"), 50);
    assert_eq!(bench.queue.withdraw(large).unwrap().id, 1);
    assert!(bench.queue.withdraw(large).is_none());
    assert!(bench.queue.withdraw(0).is_none(), "it is accepted");
    bench.pass(LINGER);
    bench.takes(&[0, 2]);
    assert_eq!(bench.queue.outstanding(), 2);
}

#[test]
fn what_waits_for_too_long_is_given_up_wherever_it_waits() {
    let mut bench = Bench::new(Limits {
        give_up_after: Some(10 * LINGER),
        ..limits()
    });
    bench.offer_all(&["a", "a", "b"]);
    let offered = bench.now;
    bench.pass(LINGER);
    let mut batch = bench.takes(&[0, 2]);
    // One whose retry would come too late, and one whose retry finds no call.
    let late = bench.queue.again(batch.remove(0), offered + 10 * LINGER);
    let retry = offered + 9 * LINGER;
    bench.queue.again(batch.remove(0), retry).unwrap();
    let late = late.unwrap_err();
    assert_eq!(late.payload.id, 0);
    bench.pass(8 * LINGER);
    assert!(bench.queue.expired(bench.now).is_empty());
    assert_eq!(bench.queue.wakes_at(false), Some(offered + 10 * LINGER));
    bench.pass(LINGER);
    assert_eq!(ids(&bench.queue.expired(bench.now)), [2]);
    bench.queue.settled(late);
    assert_eq!(
        ids(&bench.queue.expired(bench.now)),
        [1],
        "the next of its key"
    );
    assert!(bench.take().is_none());
}

#[test]
fn what_is_hurried_waits_for_no_company_and_what_comes_after_does() {
    let mut bench = Bench::new(limits());
    bench.offer_all(&["a", "a"]);
    assert_eq!(bench.queue.hurry(), 2);
    let first = bench.takes(&[0]);
    bench.offer(Some("b"), 1);
    assert!(bench.take().is_none());
    bench.settle(first);
    bench.takes(&[1, 2]);
    bench.offer(Some("c"), 1);
    assert!(bench.take().is_none());
}

/// A step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Offer {
        key: Option<u8>,
        bytes: usize,
    },
    Withdraw {
        at: usize,
    },
    Call,
    /// The oldest call is answered: which of its records fail.
    Answer {
        fails: u8,
    },
    Pass {
        millis: u64,
    },
    Hurry,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (prop::option::weighted(0.8, 0..4_u8), 1..120_usize)
            .prop_map(|(key, bytes)| Step::Offer { key, bytes }),
        1 => (0..8_usize).prop_map(|at| Step::Withdraw { at }),
        3 => Just(Step::Call),
        3 => any::<u8>().prop_map(|fails| Step::Answer { fails }),
        2 => (0..30_u64).prop_map(|millis| Step::Pass { millis }),
        1 => Just(Step::Hurry),
    ]
}

/// What a history must never do, noted while it goes on.
#[derive(Default)]
struct Model {
    /// The records of each key that are not settled, in order; and all of them.
    keys: BTreeMap<u8, Vec<u64>>,
    records: BTreeMap<u64, (Option<u8>, usize)>,
    withdrawn: BTreeSet<u64>,
    calls: Vec<Vec<Entry<Probe>>>,
    /// Whether PutRecords would have stored each key's records in order.
    stored: Vec<u64>,
}

impl Model {
    fn check_call(&self, batch: &[Entry<Probe>], limits: Limits) {
        assert!(!batch.is_empty() && batch.len() <= limits.records);
        let bytes: usize = batch.iter().map(Entry::bytes).sum();
        assert!(bytes <= limits.bytes || batch.len() == 1, "{bytes} bytes");
        let mut under_way = BTreeSet::new();
        let all = self.calls.iter().flatten().chain(batch);
        for entry in all {
            assert!(entry.payload.is_accepted);
            let id = entry.payload.id;
            if let (Some(key), _) = self.records[&id] {
                assert!(under_way.insert(key), "two records of key {key} under way");
                assert_eq!(self.keys[&key][0], id, "it is not the oldest of its key");
            }
        }
    }

    fn settle(&mut self, id: u64) {
        let (key, _) = self.records[&id];
        if let Some(key) = key {
            let line = self.keys.get_mut(&key).unwrap();
            assert_eq!(line.remove(0), id);
        }
        self.stored.push(id);
    }
}

proptest! {
    #[test]
    fn any_history_keeps_the_limits_and_the_order_of_each_key_and_loses_nothing(
        steps in prop::collection::vec(step(), 1..200),
        held in 1..2_000_usize,
    ) {
        let limits = Limits { held, ..limits() };
        let mut bench = Bench::new(limits);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Offer { key, bytes } => {
                    let text = key.map(|key| key.to_string());
                    let place = bench.offer(text.as_deref(), bytes);
                    model.records.insert(place, (key, bytes));
                    if let Some(key) = key {
                        model.keys.entry(key).or_default().push(place);
                    }
                }
                Step::Withdraw { at } => {
                    let outside: Vec<_> = bench.queue.outside.keys().copied().collect();
                    if let Some(place) = outside.get(at) {
                        prop_assert!(bench.queue.withdraw(*place).is_some());
                        model.withdrawn.insert(*place);
                        if let Some(key) = model.records[place].0 {
                            model.keys.get_mut(&key).unwrap().retain(|id| id != place);
                        }
                    }
                }
                Step::Call => {
                    if let Some(batch) = bench.take() {
                        model.check_call(&batch, limits);
                        model.calls.push(batch);
                    }
                }
                Step::Answer { fails } => {
                    if model.calls.is_empty() {
                        continue;
                    }
                    let batch = model.calls.remove(0);
                    if fails == u8::MAX && batch.len() > 1 {
                        bench.queue.halve(batch);
                        continue;
                    }
                    for (at, entry) in batch.into_iter().enumerate() {
                        if fails & (1 << at) == 0 {
                            model.settle(entry.payload.id);
                            bench.queue.settled(entry);
                        } else {
                            bench.queue.again(entry, bench.now + LINGER).unwrap();
                        }
                    }
                }
                Step::Pass { millis } => bench.pass(Duration::from_millis(millis)),
                Step::Hurry => {
                    bench.queue.hurry();
                }
            }
            let queue = &bench.queue;
            let accepted: Vec<_> = (model.records.iter())
                .filter(|(place, _)| !queue.outside.contains_key(*place))
                .filter(|(place, _)| !model.withdrawn.contains(*place) && !model.stored.contains(*place))
                .map(|(_, (_, bytes))| bytes + OVERHEAD)
                .collect();
            let cost: usize = accepted.iter().sum();
            prop_assert_eq!(cost, queue.held);
            prop_assert!(cost <= held || accepted.len() == 1, "{} of {}", cost, held);
            if let Some((first, waiting)) = queue.outside.iter().next() {
                prop_assert!(cost > 0 && cost + waiting.cost() > held, "{} waits for no reason", first);
            }
            prop_assert_eq!(
                queue.outstanding(),
                model.records.len() - model.withdrawn.len() - model.stored.len()
            );
            let ready = queue.ready.values();
            prop_assert_eq!(queue.ready_bytes, ready.clone().map(Entry::bytes).sum::<usize>());
            prop_assert_eq!(queue.ready_again, ready.filter(|entry| entry.failures > 0).count());
        }

        // From here on everything succeeds, and nothing happens but at the times that the queue names.
        let mut rounds = 0;
        while bench.queue.outstanding() > 0 {
            rounds += 1;
            prop_assert!(rounds < 10_000, "it is stuck");
            if let Some(batch) = bench.take() {
                model.check_call(&batch, limits);
                model.calls.push(batch);
            } else if !model.calls.is_empty() {
                for entry in model.calls.remove(0) {
                    model.settle(entry.payload.id);
                    bench.queue.settled(entry);
                }
            } else {
                let wakes = bench.queue.wakes_at(true);
                prop_assert!(wakes.is_some_and(|at| at > bench.now), "{:?} is no time to wake", wakes);
                bench.now = wakes.unwrap();
            }
        }
        let mut stored = model.stored.clone();
        stored.sort_unstable();
        let all: Vec<_> = model.records.keys().filter(|id| !model.withdrawn.contains(id)).copied().collect();
        prop_assert_eq!(stored, all);
        prop_assert!(bench.queue.lines.is_empty());
    }
}
