//! Rows that are gone: deleted by hand, or cleared away.

use super::*;

#[test]
fn a_row_that_vanished_counts_as_held_for_two_leases_and_its_epoch_goes_on() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let row = held("a", 7, 70);
    see(&mut sightings, Some(&row), start);

    let gone = start + TTL * 3;
    let state = see(&mut sightings, None, gone);
    assert_eq!(state.holder, row.holder());
    assert_eq!((state.live, state.expires_in), (true, Some(TTL * 2)));
    assert_eq!((state.epoch, state.checkpoint), (7, None));
    assert_eq!(sightings.grant(&key()), None);
    assert_eq!(sightings.expired(&key(), gone), None);

    let last = gone + TTL * 2 - INSTANT;
    see(&mut sightings, None, last);
    assert_eq!(attempt(&sightings, "b", last), (false, Attempt::Look));
    let over = gone + TTL * 2;
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
    keep(&mut sightings, &held("a", 7, 70), start, start);
    see(&mut sightings, Some(&held("a", 7, 71)), start);
    see(&mut sightings, None, start);

    assert_eq!(
        attempt(&sightings, "a", start),
        (true, Attempt::Absent { seen: 7 })
    );
    assert_eq!(attempt(&sightings, "b", start), (false, Attempt::Look));
}

#[test]
fn a_holder_that_slept_past_its_lease_waits_too_but_comes_before_any_other() {
    // The answers come late; what counts is when the last call was sent.
    let acquired_only = |sightings: &mut Sightings, start| {
        keep(sightings, &held("a", 7, 70), start, start + TTL / 2);
        start
    };
    let renewed = |sightings: &mut Sightings, start| {
        keep(sightings, &held("a", 7, 70), start, start);
        let sent = start + TTL / 2;
        keep(sightings, &held("a", 7, 71), sent, start + TTL);
        sent
    };
    type Keep = dyn Fn(&mut Sightings, Instant) -> Instant;
    for keep in [&acquired_only as &Keep, &renewed] {
        let start = Instant::now();
        let mut sightings = Sightings::default();
        let sent = keep(&mut sightings, start);

        let last = sent + TTL - INSTANT;
        see(&mut sightings, None, last);
        let at_once = (true, Attempt::Absent { seen: 7 });
        assert_eq!(attempt(&sightings, "a", last), at_once);

        assert_eq!(attempt(&sightings, "a", sent + TTL), (false, Attempt::Look));
        let waited = last + TTL - INSTANT;
        assert_eq!(attempt(&sightings, "a", waited), (false, Attempt::Look));
        assert_eq!(attempt(&sightings, "a", last + TTL), at_once);
        // Another of this very instance of the store knows no more than anybody.
        let others = attempt(&sightings, "b", last + TTL * 2 - INSTANT);
        assert_eq!(others, (false, Attempt::Look));
    }
}

#[test]
fn a_holder_that_saw_its_lease_taken_over_waits_like_any_other() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    keep(&mut sightings, &held("a", 7, 70), start, start);
    see(&mut sightings, Some(&held("b", 8, 71)), start);
    see(&mut sightings, None, start);
    assert_eq!(attempt(&sightings, "a", start), (false, Attempt::Look));
    let last = start + TTL * 2 - INSTANT;
    assert_eq!(attempt(&sightings, "a", last), (false, Attempt::Look));
    assert_eq!(
        attempt(&sightings, "a", start + TTL * 2),
        (true, Attempt::Absent { seen: 8 })
    );
}

#[test]
fn an_owner_of_the_same_name_elsewhere_is_not_the_holder() {
    // Granted here, then taken over by the namesake, in the same epoch where the row was begun anew.
    let mut begun_anew = held("a", 7, 70);
    begun_anew.held.as_mut().unwrap().grant = "another".to_owned();
    for namesakes in [held("a", 8, 71), begun_anew] {
        let (mut sightings, start) = (Sightings::default(), Instant::now());
        keep(&mut sightings, &held("a", 7, 70), start, start);
        see(&mut sightings, Some(&namesakes), start);
        see(&mut sightings, None, start);
        assert_eq!(attempt(&sightings, "a", start), (false, Attempt::Look));
    }
}

#[test]
fn a_lease_that_its_owner_released_is_not_its_own_any_more() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    keep(&mut sightings, &held("a", 7, 70), start, start);
    see(&mut sightings, Some(&free(7, 70)), start);
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
    assert!(!attempt(&sightings, "b", start + TTL * 2 - INSTANT).0);
    assert!(attempt(&sightings, "b", start + TTL * 2).0);
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

/// Clears the row away, which was like this.
fn clear(sightings: &mut Sightings, row: &Row, now: Instant) {
    let sent = sightings.send(now);
    sightings.cleared(&key(), row, sent, now);
}

#[test]
fn a_row_that_this_instance_itself_cleared_away_is_gone_whatever_it_had_seen_before() {
    let start = Instant::now();
    let nothing = |_: &mut Sightings| {};
    let live = |sightings: &mut Sightings| {
        see(sightings, Some(&held("a", 6, 70)), start);
    };
    let vanished = |sightings: &mut Sightings| {
        see(sightings, Some(&held("a", 7, 70)), start);
        see(sightings, None, start);
    };
    for before in [&nothing as &dyn Fn(&mut Sightings), &live, &vanished] {
        let mut sightings = Sightings::default();
        before(&mut sightings);
        clear(&mut sightings, &finished(free(7, 71)), start);
        assert_eq!(see(&mut sightings, None, start), LeaseState::default());
        assert_eq!(
            attempt(&sightings, "b", start),
            (true, Attempt::Absent { seen: 7 })
        );
    }
}

#[test]
fn a_row_that_was_begun_anew_since_it_was_cleared_away_is_not_gone() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    see(&mut sightings, Some(&finished(free(7, 70))), start);
    let slow = sightings.send(start);
    let begun_anew = held("b", 1, 1);
    see(&mut sightings, Some(&begun_anew), start);
    sightings.cleared(&key(), &finished(free(7, 70)), slow, start);

    let (holder, grant) = sightings.grant(&key()).unwrap();
    assert_eq!((Some(holder), grant), (begun_anew.holder(), "grant-1"));
}

#[test]
fn the_absence_is_counted_from_its_first_sighting_and_ends_with_the_row() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    see(&mut sightings, Some(&held("a", 7, 70)), start);
    see(&mut sightings, None, start);
    let state = see(&mut sightings, None, start + TTL / 2);
    assert_eq!(state.expires_in, Some(TTL * 3 / 2));

    let back = see(&mut sightings, Some(&held("a", 8, 1)), start + TTL / 2);
    assert_eq!((back.epoch, back.expires_in), (8, Some(TTL)));
    see(&mut sightings, None, start + TTL);
    assert_eq!(
        attempt(&sightings, "b", start + TTL),
        (false, Attempt::Look)
    );
}

#[test]
fn a_row_that_is_put_back_as_it_was_counts_from_its_return() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let row = held("a", 7, 70);
    see(&mut sightings, Some(&row), start);
    see(&mut sightings, None, start);
    let back = see(&mut sightings, Some(&row), start + TTL);
    assert_eq!((back.holder, back.expires_in), (row.holder(), Some(TTL)));
}
