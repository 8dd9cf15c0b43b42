//! What an observer makes of the rows that it sees, case by case.

use std::time::Duration;

use lease_core::Checkpoint;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::row::{self, Ask, Held};

mod overtaken;
mod vanished;

const TTL: Duration = Duration::from_secs(10);
const INSTANT: Duration = Duration::from_nanos(1);

fn key() -> LeaseKey {
    row::tests::key()
}

/// A row that `owner` holds, by the acquisition of this epoch.
fn held(owner: &str, epoch: u64, counter: u64) -> Row {
    Row {
        held: Some(Held {
            owner: owner.to_owned(),
            grant: format!("grant-{epoch}"),
        }),
        ..free(epoch, counter)
    }
}

fn free(epoch: u64, counter: u64) -> Row {
    Row {
        held: None,
        epoch,
        counter,
        ttl: TTL,
        cp_no: 0,
        checkpoint: None,
        ask: None,
    }
}

/// What `free` is, reserved for somebody.
fn reserved(asker: &str, epoch: u64, counter: u64) -> Row {
    Row {
        ask: Some(Ask {
            by: asker.to_owned(),
            lapses: counter + 4,
        }),
        ..free(epoch, counter)
    }
}

fn finished(row: Row) -> Row {
    Row {
        checkpoint: Some(Checkpoint::shard_end()),
        ..row
    }
}

fn at(row: Row, cp_no: u64) -> Row {
    Row {
        cp_no,
        checkpoint: Some(Checkpoint::at(cp_no.to_string())),
        ..row
    }
}

/// Sends a call and hears its answer at once.
fn see(sightings: &mut Sightings, row: Option<&Row>, now: Instant) -> LeaseState {
    let sent = sightings.send(now);
    sightings.observe(&key(), row, sent, now)
}

/// Acquires or renews a lease, with a call that is sent and answered at these times.
fn keep(sightings: &mut Sightings, row: &Row, sent: Instant, answered: Instant) {
    let sent = sightings.send(sent);
    sightings.kept(&key(), row, sent, answered);
}

fn attempt(sightings: &Sightings, owner: &str, now: Instant) -> (bool, Attempt) {
    let Outlook { free, attempt } = sightings.outlook(&key(), owner, now);
    (free, attempt)
}

/// The take-over of what `held` is.
fn take_over(row: &Row) -> Attempt {
    Attempt::Expired {
        from: row.holder().unwrap(),
        seen: Expired {
            grant: row.grant().unwrap().to_owned(),
            counter: row.counter,
        },
    }
}

#[test]
fn a_lease_expires_one_lease_time_after_the_answer_that_first_showed_it() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let row = held("a", 1, 1);
    assert!(see(&mut sightings, Some(&row), start).live);

    let last = start + TTL - INSTANT;
    let state = see(&mut sightings, Some(&row), last);
    assert_eq!((state.live, state.expires_in), (true, Some(INSTANT)));
    assert!(!attempt(&sightings, "b", last).0);
    assert_eq!(sightings.expired(&key(), last), None);

    let over = start + TTL;
    let state = see(&mut sightings, Some(&row), over);
    assert_eq!((state.live, state.expires_in), (false, None));
    assert_eq!(state.holder.unwrap().owner, "a");
    let attempt = attempt(&sightings, "b", over);
    assert_eq!(attempt, (true, take_over(&row)));
    let seen = sightings.expired(&key(), over).unwrap();
    assert_eq!((seen.grant.as_str(), seen.counter), ("grant-1", 1));
}

#[test]
fn what_nobody_holds_does_not_expire() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    assert_eq!(sightings.expired(&key(), start), None);
    see(&mut sightings, Some(&free(1, 1)), start);
    assert_eq!(sightings.expired(&key(), start + TTL), None);
}

#[test]
fn every_change_of_counter_or_holder_counts_from_its_own_arrival() {
    let start = Instant::now();
    let later = start + TTL / 2;
    let mut begun_anew = held("a", 1, 1);
    begun_anew.held.as_mut().unwrap().grant = "another".to_owned();
    let changes = [
        held("a", 1, 2),
        held("b", 2, 2),
        held("a", 2, 2),
        begun_anew,
    ];
    for next in changes {
        let mut sightings = Sightings::default();
        see(&mut sightings, Some(&held("a", 1, 1)), start);
        let state = see(&mut sightings, Some(&next), later);
        assert_eq!(state.expires_in, Some(TTL));
        assert!(!attempt(&sightings, "c", start + TTL).0);
        let attempt = attempt(&sightings, "c", later + TTL);
        assert_eq!(attempt, (true, take_over(&next)));
    }
}

#[test]
fn a_checkpoint_or_an_ask_prolongs_nothing() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    see(&mut sightings, Some(&held("a", 1, 1)), start);
    let mut row = at(held("a", 1, 1), 3);
    row.ask = reserved("b", 1, 1).ask;
    let state = see(&mut sightings, Some(&row), start + TTL / 2);
    assert_eq!(state.checkpoint, Some(Checkpoint::at("3")));
    assert_eq!(state.asked_by.as_deref(), Some("b"));
    assert_eq!(state.expires_in, Some(TTL / 2));
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
    let row = held("b", 1, 1);
    let state = see(&mut sightings, Some(&row), start + TTL);
    assert_eq!((state.epoch, state.live), (1, true));
    let attempt = attempt(&sightings, "c", start + TTL * 2);
    assert_eq!(attempt, (true, take_over(&row)));
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
fn the_token_of_an_own_acquisition_is_known_for_its_very_holder() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let (own, others) = (held("a", 7, 70), held("b", 8, 71));
    keep(&mut sightings, &own, start, start);
    let grant = |sightings: &Sightings, row: &Row| {
        let grant = sightings.own_grant(&key(), &row.holder().unwrap());
        grant.map(str::to_owned)
    };
    assert_eq!(grant(&sightings, &own).as_deref(), Some("grant-7"));

    // A renewal of its own keeps it known, and so does a row that is another's by now: it is still its own.
    keep(&mut sightings, &held("a", 7, 71), start, start);
    see(&mut sightings, Some(&others), start);
    assert_eq!(grant(&sightings, &own).as_deref(), Some("grant-7"));
    assert_eq!(grant(&sightings, &others), None);
    assert_eq!(grant(&sightings, &held("a", 8, 71)), None);

    // The answer to an earlier call says nothing of a later acquisition.
    let slow = sightings.send(start);
    keep(&mut sightings, &held("a", 9, 72), start, start);
    sightings.kept(&key(), &own, slow, start);
    assert_eq!(
        grant(&sightings, &held("a", 9, 72)).as_deref(),
        Some("grant-9")
    );
}

#[test]
fn what_is_done_with_is_forgotten_and_what_may_yet_vanish_is_not() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let shard = |number: usize| LeaseKey::new("s", number.to_string());
    let observe = |sightings: &mut Sightings, number: usize, row: Option<&Row>| {
        let sent = sightings.send(start);
        sightings.observe(&shard(number), row, sent, start)
    };
    let unfinished = [
        held("a", 7, 7),
        free(7, 7),
        at(free(7, 7), 1),
        finished(held("a", 7, 7)),
    ];
    for (number, row) in unfinished.iter().enumerate() {
        observe(&mut sightings, number, Some(row));
    }
    // One that has vanished already.
    observe(&mut sightings, 0, None);
    for number in 10..CAPACITY * 3 {
        let row = finished(free(1, 1));
        observe(&mut sightings, number, Some(&row));
        assert!(sightings.rows.len() <= CAPACITY);
    }
    for number in 0..unfinished.len() {
        let state = observe(&mut sightings, number, None);
        assert!(state.live, "{number}");
        assert_eq!(state.epoch, 7, "{number}");
        let outlook = sightings.outlook(&shard(number), "b", start + TTL * 2);
        assert_eq!(outlook.attempt, Attempt::Absent { seen: 7 }, "{number}");
    }
}

#[test]
fn rows_that_are_still_needed_are_not_looked_through_again_and_again() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    for number in 0..=CAPACITY {
        let sent = sightings.send(start);
        let key = LeaseKey::new("s", number.to_string());
        sightings.observe(&key, Some(&held("a", 1, 1)), sent, start);
    }
    assert_eq!(sightings.rows.len(), CAPACITY + 1);
    assert_eq!(sightings.room, CAPACITY * 2);
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
            under_way.push((sightings.send(clock), counter));
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
                if let Attempt::Expired { seen, .. } = outlook.attempt {
                    prop_assert_eq!(seen.counter, newest);
                }
            }
        }
        prop_assert!(sightings.rows.len() <= 1);
    }
}
