//! Answers that arrive after the answer to a call that was sent later.

use super::*;

#[test]
fn an_older_answer_that_arrives_late_is_no_news() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let slow = sightings.send(start);
    let row = held("a", 1, 2);
    see(&mut sightings, Some(&row), start);

    let later = start + TTL / 2;
    for older in [Some(&held("a", 1, 1)), Some(&free(0, 0)), None] {
        let state = sightings.observe(&key(), older, slow, later);
        assert_eq!(state.holder, row.holder(), "{older:?}");
        assert_eq!(state.expires_in, Some(TTL / 2), "{older:?}");
        assert!(!attempt(&sightings, "b", start + TTL - INSTANT).0);
        assert!(attempt(&sightings, "b", start + TTL).0, "{older:?}");
    }
}

#[test]
fn a_newer_answer_counts_even_where_its_call_was_sent_before_the_last_sighting() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let slow = sightings.send(start);
    see(&mut sightings, Some(&held("a", 1, 2)), start);
    let state = sightings.observe(&key(), Some(&held("a", 1, 3)), slow, start + TTL / 2);
    assert_eq!(state.expires_in, Some(TTL));
}

#[test]
fn an_older_answer_brings_back_neither_a_checkpoint_nor_an_ask() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let mut asked = at(held("a", 1, 2), 5);
    asked.ask = reserved("b", 1, 2).ask;
    let slow = sightings.send(start);
    let newer = see(&mut sightings, Some(&asked), start);
    for older in [at(held("a", 1, 2), 4), at(held("a", 1, 2), 5)] {
        let state = sightings.observe(&key(), Some(&older), slow, start);
        assert_eq!(state, newer);
    }
    let state = sightings.observe(&key(), Some(&at(asked, 6)), slow, start);
    assert_eq!(state.checkpoint, Some(Checkpoint::at("6")));
    assert_eq!(state.asked_by.as_deref(), Some("b"));
}

#[test]
fn a_checkpoint_that_was_moved_by_hand_is_shown_by_the_next_read() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    see(&mut sightings, Some(&at(free(1, 2), 5)), start);
    let slow = sightings.send(start);
    let mut moved = at(free(1, 2), 5);
    moved.checkpoint = Some(Checkpoint::at("1"));
    let state = see(&mut sightings, Some(&moved), start);
    assert_eq!(state.checkpoint, Some(Checkpoint::at("1")));

    let state = sightings.observe(&key(), Some(&at(free(1, 2), 5)), slow, start);
    assert_eq!(state.checkpoint, Some(Checkpoint::at("1")), "overtaken");
}

#[test]
fn a_row_of_ones_own_is_not_free_because_an_older_answer_shows_none() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let slow = sightings.send(start);
    keep(&mut sightings, &held("a", 1, 1), start, start);
    let state = sightings.observe(&key(), None, slow, start);
    assert_eq!((state.holder, state.live), (held("a", 1, 1).holder(), true));
    assert!(!attempt(&sightings, "b", start).0);
}

#[test]
fn a_row_that_vanished_is_not_back_because_an_older_answer_shows_it() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    let row = held("a", 7, 70);
    see(&mut sightings, Some(&row), start);
    let slow = sightings.send(start);
    see(&mut sightings, None, start);
    let state = sightings.observe(&key(), Some(&row), slow, start + TTL / 2);
    assert_eq!((state.live, state.expires_in), (true, Some(TTL * 3 / 2)));
    assert_eq!(attempt(&sightings, "b", start), (false, Attempt::Look));

    // Nor because it shows how the row went on before it vanished, which is good to know all the same.
    let row = held("c", 8, 71);
    let state = sightings.observe(&key(), Some(&row), slow, start + TTL / 2);
    assert_eq!((state.holder, state.epoch), (row.holder(), 8));
    assert_eq!((state.live, state.expires_in), (true, Some(TTL * 3 / 2)));
    let over = start + TTL * 2;
    assert_eq!(
        attempt(&sightings, "b", over),
        (true, Attempt::Absent { seen: 8 })
    );
}

#[test]
fn a_row_that_came_and_went_between_two_sights_of_its_absence_is_not_back() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    see(&mut sightings, Some(&held("a", 7, 70)), start);
    see(&mut sightings, None, start);
    let slow = sightings.send(start);
    see(&mut sightings, None, start);
    let state = sightings.observe(&key(), Some(&free(8, 1)), slow, start + TTL / 2);
    assert_eq!((state.live, state.expires_in), (true, Some(TTL * 3 / 2)));
    let over = start + TTL * 2;
    assert_eq!(
        attempt(&sightings, "b", over),
        (true, Attempt::Absent { seen: 8 })
    );
}

#[test]
fn a_row_that_was_begun_anew_is_not_free_because_the_one_before_was() {
    let (mut sightings, start) = (Sightings::default(), Instant::now());
    see(&mut sightings, Some(&held("a", 7, 70)), start);
    let slow = sightings.send(start);
    let begun_anew = held("b", 1, 1);
    see(&mut sightings, Some(&begun_anew), start);
    let state = sightings.observe(&key(), Some(&free(7, 70)), slow, start);
    assert_eq!((state.holder, state.live), (begun_anew.holder(), true));
}

/// What is done to a row; every step but a deletion makes it a later one.
#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire,
    Renew,
    Checkpoint,
    Release,
    Delete,
}

fn steps() -> impl Strategy<Value = Vec<(Step, bool)>> {
    use Step::{Acquire, Checkpoint, Delete, Release, Renew};
    let step = proptest::sample::select(vec![Acquire, Renew, Checkpoint, Release, Delete]);
    proptest::collection::vec((step, proptest::bool::ANY), 1..30)
}

/// The row after each step, its epochs going on through deletions.
fn history(steps: &[(Step, bool)]) -> Vec<Option<Row>> {
    let mut rows = vec![None];
    let mut epoch = 0;
    for (step, _) in steps {
        let row: Option<Row> = rows.last().cloned().flatten();
        let is_held = row.as_ref().is_some_and(|row| row.held.is_some());
        rows.push(match (step, row) {
            (Step::Delete, _) => None,
            (Step::Acquire, row) if !is_held => {
                epoch += 1;
                let counter = row.map_or(1, |row| row.counter + 1);
                Some(held(&format!("owner-{epoch}"), epoch, counter))
            }
            (Step::Renew, Some(row)) if is_held => Some(Row {
                counter: row.counter + 1,
                ..row
            }),
            (Step::Checkpoint, Some(row)) if is_held => {
                let cp_no = row.cp_no + 1;
                Some(at(row, cp_no))
            }
            (Step::Release, Some(row)) => Some(Row { held: None, ..row }),
            (_, row) => row,
        });
    }
    rows
}

proptest! {
    /// Each state of the row is read by a call of its own, and some answers arrive only after all others: none of
    /// them shows the lease any freer than it was known to be.
    #[test]
    fn whatever_arrives_late_shows_nothing_freer_than_what_was_known(steps in steps()) {
        let now = Instant::now();
        let mut sightings = Sightings::default();
        let mut late = Vec::new();
        let rows = history(&steps);
        for (row, (_, is_late)) in rows.iter().zip(&steps) {
            let sent = sightings.send(now);
            if *is_late {
                late.push((row, sent));
            } else {
                sightings.observe(&key(), row.as_ref(), sent, now);
            }
        }
        let last = rows.last().unwrap();
        let known = see(&mut sightings, last.as_ref(), now);
        let was_seen = known != LeaseState::default();
        for (row, sent) in late.into_iter().take_while(|_| was_seen) {
            let state = sightings.observe(&key(), row.as_ref(), sent, now);
            if last.is_some() {
                prop_assert_eq!(&state, &known);
            } else {
                prop_assert!(state.live && state.epoch >= known.epoch, "{state:?} after {known:?}");
            }
        }
    }
}
