//! What an observer makes of the rows that it sees, case by case.

use aws_sdk_dynamodb::types::AttributeValue;
use lease_core::Checkpoint;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::row::{self, Item};

const TTL: Duration = Duration::from_secs(10);
const INSTANT: Duration = Duration::from_nanos(1);

fn key() -> LeaseKey {
    row::tests::key()
}

/// A row that `owner` holds, by the acquisition of this epoch.
fn held(owner: &str, epoch: u64, counter: u64) -> Row {
    let mut row = free(epoch, counter);
    row.owner = Some(owner.to_owned());
    row.grant = Some(format!("grant-{epoch}"));
    row
}

fn free(epoch: u64, counter: u64) -> Row {
    let mut item = row::tests::item();
    for name in ["owner", "grant", "asked_by", "ask_lapses", "checkpoint"] {
        item.remove(name);
    }
    numbered(&item, epoch, counter)
}

/// What `free` is, reserved for somebody.
fn reserved(asker: &str, epoch: u64, counter: u64) -> Row {
    let mut item = row::tests::item();
    for name in ["owner", "grant"] {
        item.remove(name);
    }
    let asker = AttributeValue::S(asker.to_owned());
    item.insert("asked_by".to_owned(), asker);
    numbered(&item, epoch, counter)
}

fn numbered(item: &Item, epoch: u64, counter: u64) -> Row {
    let mut row = Row::decode("leases", &key(), item).unwrap();
    row.epoch = epoch;
    row.counter = counter;
    row
}

fn finished(mut row: Row) -> Row {
    row.checkpoint = Some(Checkpoint::shard_end());
    row
}

/// Sends a call and hears its answer at once.
fn see(sightings: &mut Sightings, row: Option<&Row>, now: Instant) -> LeaseState {
    let sent = sightings.send();
    sightings.observe(&key(), row, sent, now)
}

fn attempt(sightings: &Sightings, owner: &str, now: Instant) -> (bool, Attempt) {
    let Outlook { free, attempt } = sightings.outlook(&key(), owner, now);
    (free, attempt)
}

#[test]
fn a_lease_expires_one_lease_time_after_the_answer_that_first_showed_it() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    assert!(see(&mut sightings, Some(&held("a", 1, 1)), start).live);

    let last = start + TTL - INSTANT;
    let state = see(&mut sightings, Some(&held("a", 1, 1)), last);
    assert_eq!((state.live, state.expires_in), (true, Some(INSTANT)));
    assert!(!attempt(&sightings, "b", last).0);

    let over = start + TTL;
    let state = see(&mut sightings, Some(&held("a", 1, 1)), over);
    assert_eq!((state.live, state.expires_in), (false, None));
    assert_eq!(state.holder.unwrap().owner, "a");
    let from = held("a", 1, 1).holder().unwrap();
    assert_eq!(
        attempt(&sightings, "b", over),
        (true, Attempt::Expired { from, counter: 1 })
    );
}

#[test]
fn every_change_of_counter_or_holder_counts_from_its_own_arrival() {
    let start = Instant::now();
    let later = start + TTL / 2;
    for next in [held("a", 1, 2), held("b", 2, 2), held("a", 2, 2)] {
        let mut sightings = Sightings::default();
        see(&mut sightings, Some(&held("a", 1, 1)), start);
        let state = see(&mut sightings, Some(&next), later);
        assert_eq!(state.expires_in, Some(TTL));
        assert!(!attempt(&sightings, "c", start + TTL).0);
        assert!(attempt(&sightings, "c", later + TTL).0);
    }
}

#[test]
fn an_older_answer_that_arrives_late_is_no_news() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let slow = sightings.send();
    see(&mut sightings, Some(&held("a", 1, 2)), start);

    let later = start + TTL / 2;
    for older in [Some(&held("a", 1, 1)), Some(&free(0, 0)), None] {
        sightings.observe(&key(), older, slow, later);
        assert!(!attempt(&sightings, "b", start + TTL - INSTANT).0);
        assert!(attempt(&sightings, "b", start + TTL).0, "{older:?}");
    }
}

#[test]
fn a_newer_answer_counts_even_where_its_call_was_sent_before_the_last_sighting() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let slow = sightings.send();
    see(&mut sightings, Some(&held("a", 1, 2)), start);
    let state = sightings.observe(&key(), Some(&held("a", 1, 3)), slow, start + TTL / 2);
    assert_eq!(state.expires_in, Some(TTL));
}

#[test]
fn a_replica_that_lags_prolongs_nothing() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    see(&mut sightings, Some(&held("a", 1, 2)), start);
    see(&mut sightings, Some(&held("a", 1, 1)), start + TTL / 2);
    assert!(attempt(&sightings, "b", start + TTL).0);
}

#[test]
fn a_row_that_was_begun_anew_counts_though_its_epoch_is_lower() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    see(&mut sightings, Some(&held("a", 7, 70)), start);
    let state = see(&mut sightings, Some(&held("b", 1, 1)), start + TTL);
    assert_eq!((state.epoch, state.live), (1, true));
    let from = held("b", 1, 1).holder().unwrap();
    assert_eq!(
        attempt(&sightings, "c", start + TTL * 2),
        (true, Attempt::Expired { from, counter: 1 })
    );
}

#[test]
fn a_lease_that_is_held_as_far_as_is_known_is_tried_in_case_it_was_released() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    see(&mut sightings, Some(&held("a", 3, 9)), start);
    let released = Attempt::Released {
        epoch: 3,
        reservation_counts: true,
    };
    assert_eq!(attempt(&sightings, "b", start), (false, released.clone()));

    see(&mut sightings, Some(&free(3, 9)), start);
    assert_eq!(attempt(&sightings, "b", start), (true, released));
}

#[test]
fn a_reservation_lasts_half_a_lease_from_the_first_sight_of_the_release() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    see(&mut sightings, Some(&held("a", 3, 9)), start);
    let released = start + TTL;
    let state = see(&mut sightings, Some(&reserved("b", 3, 9)), released);
    assert_eq!(state.reserved_for(), Some("b"));
    assert_eq!(state.expires_in, Some(TTL / 2));

    let last = released + TTL / 2 - INSTANT;
    assert!(attempt(&sightings, "b", last).0);
    assert!(!attempt(&sightings, "c", last).0);

    let over = released + TTL / 2;
    assert_eq!(
        attempt(&sightings, "c", over),
        (
            true,
            Attempt::Released {
                epoch: 3,
                reservation_counts: false
            }
        )
    );
    let state = see(&mut sightings, Some(&reserved("b", 3, 9)), over);
    assert_eq!((state.asked_by, state.expires_in), (None, None));
}

#[test]
fn a_key_that_nobody_saw_is_taken_where_there_is_no_row() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let absent = (true, Attempt::Absent { seen: 0 });
    assert_eq!(attempt(&sightings, "a", start), absent);
    assert_eq!(see(&mut sightings, None, start), LeaseState::default());
    assert_eq!(attempt(&sightings, "a", start), absent);
}

#[test]
fn a_row_that_vanished_counts_as_held_for_one_lease_and_its_epoch_goes_on() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let row = held("a", 7, 70);
    see(&mut sightings, Some(&row), start);

    let gone = start + TTL * 3;
    let state = see(&mut sightings, None, gone);
    assert_eq!(state.holder, row.holder());
    assert_eq!((state.live, state.expires_in), (true, Some(TTL)));
    assert_eq!((state.epoch, state.checkpoint), (7, None));

    let last = gone + TTL - INSTANT;
    see(&mut sightings, None, last);
    assert_eq!(attempt(&sightings, "b", last), (false, Attempt::Look));
    let over = gone + TTL;
    assert_eq!(
        attempt(&sightings, "b", over),
        (true, Attempt::Absent { seen: 7 })
    );
    let state = see(&mut sightings, None, over);
    assert_eq!((state.holder, state.live, state.epoch), (None, false, 7));
}

#[test]
fn a_row_that_vanished_is_its_own_holders_at_once() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let row = held("a", 7, 70);
    let sent = sightings.send();
    sightings.granted(&key(), &row, sent, start);
    see(&mut sightings, Some(&held("a", 7, 71)), start);
    see(&mut sightings, None, start);

    assert_eq!(
        attempt(&sightings, "a", start),
        (true, Attempt::Absent { seen: 7 })
    );
    assert_eq!(attempt(&sightings, "b", start), (false, Attempt::Look));
}

#[test]
fn an_owner_of_the_same_name_elsewhere_is_not_the_holder() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    // Granted here, then taken over by the namesake.
    let sent = sightings.send();
    sightings.granted(&key(), &held("a", 7, 70), sent, start);
    see(&mut sightings, Some(&held("a", 8, 71)), start);
    see(&mut sightings, None, start);
    assert_eq!(attempt(&sightings, "a", start), (false, Attempt::Look));
}

#[test]
fn a_free_row_that_vanished_unfinished_may_have_been_taken_meanwhile() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    see(&mut sightings, Some(&free(7, 70)), start);
    let state = see(&mut sightings, None, start);
    assert_eq!((state.holder, state.live), (None, true));
    assert_eq!(attempt(&sightings, "b", start), (false, Attempt::Look));
    assert!(attempt(&sightings, "b", start + TTL).0);
}

#[test]
fn the_row_of_a_finished_shard_that_is_cleared_away_is_no_surprise() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    see(&mut sightings, Some(&finished(free(7, 70))), start);
    assert_eq!(see(&mut sightings, None, start), LeaseState::default());
    assert_eq!(
        attempt(&sightings, "b", start),
        (true, Attempt::Absent { seen: 7 })
    );
}

#[test]
fn the_absence_is_counted_from_its_first_sighting_and_ends_with_the_row() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    see(&mut sightings, Some(&held("a", 7, 70)), start);
    see(&mut sightings, None, start);
    let state = see(&mut sightings, None, start + TTL / 2);
    assert_eq!(state.expires_in, Some(TTL / 2));

    let back = see(&mut sightings, Some(&held("a", 8, 1)), start + TTL / 2);
    assert_eq!((back.epoch, back.expires_in), (8, Some(TTL)));
    see(&mut sightings, None, start + TTL);
    assert_eq!(
        attempt(&sightings, "b", start + TTL),
        (false, Attempt::Look)
    );
}

#[test]
fn what_is_remembered_is_bounded_and_fits_what_is_listed() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    sightings.capacity = 100;
    let row = held("a", 1, 1);
    let shard = |number: usize| LeaseKey::new("s", number.to_string());
    for number in 0..1_000 {
        let sent = sightings.send();
        sightings.observe(&shard(number), Some(&row), sent, start);
        let sent = sightings.send();
        sightings.observe(&shard(0), Some(&row), sent, start);
        assert!(sightings.rows.len() <= 100);
    }
    assert!(sightings.rows.contains_key(&shard(0)), "in use throughout");
    assert!(sightings.rows.contains_key(&shard(999)));

    sightings.fit(CAPACITY);
    assert_eq!(sightings.capacity, CAPACITY * 2);
    sightings.fit(1);
    assert_eq!(sightings.capacity, CAPACITY * 2, "a listing in parts");
}

/// What one answer shows: how far the row had come when its call took effect, and how late it arrives.
fn histories() -> impl Strategy<Value = Vec<(u64, u64)>> {
    proptest::collection::vec((0..4_u64, 0..15_u64), 1..40)
}

proptest! {
    /// The row of a holder that renews, seen through answers that overtake one another: it is found expired
    /// exactly where its newest counter has been known for a lease time.
    #[test]
    fn a_lease_expires_when_its_newest_known_counter_has_stood_still(history in histories()) {
        let start = Instant::now();
        let mut sightings = Sightings::default();
        let (mut counter, mut clock) = (1, start);
        let (mut newest, mut since) = (0, start);
        let mut under_way = Vec::new();
        for (renewals, seconds) in history {
            counter += renewals;
            under_way.push((sightings.send(), counter));
            clock += Duration::from_secs(seconds);
            if seconds % 2 == 0 {
                // The last call's answer comes first, as if it had overtaken the others.
                for (sent, counter) in under_way.drain(..).rev() {
                    sightings.observe(&key(), Some(&held("a", 1, counter)), sent, clock);
                    if counter > newest {
                        (newest, since) = (counter, clock);
                    }
                }
            }
            if newest > 0 {
                let outlook = sightings.outlook(&key(), "b", clock);
                prop_assert_eq!(outlook.free, clock - since >= TTL);
                if let Attempt::Expired { counter, .. } = outlook.attempt {
                    prop_assert_eq!(counter, newest);
                }
            }
        }
        prop_assert!(sightings.rows.len() <= 1);
    }
}
