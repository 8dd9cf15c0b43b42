//! Which acknowledgement moves a shard's checkpoint, and to where.
//!
//! Records of one shard are handed out in order and settle in any order. The *settled prefix* ends
//! before the first record that is still unsettled, and the checkpoint is the last record of that
//! prefix: everything up to it is handled, and a crash redelivers only what lies behind it. An
//! acknowledgement behind an unsettled record therefore moves nothing, and the one that closes the
//! gap moves the checkpoint past all that had settled behind it, at once.
//!
//! This module knows that and nothing else: not what a position is (a sequence number, or one with
//! a place inside an aggregated record), nor how a checkpoint is written.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sabotage::{self, Sabotage};

/// Tells the watermarks of one process apart, so that no ticket passes for another's.
static WATERMARKS: AtomicU64 = AtomicU64::new(0);

/// What one reader of one shard has handed out, and how far it is settled without a gap.
///
/// A new one is made each time a shard is opened or moved. It holds every position from the first
/// unsettled record on, so whoever hands out bounds how many that may be. Nothing is allocated per
/// record once the ring has grown to that bound.
#[derive(Debug)]
pub(crate) struct Watermark<P> {
    id: u64,
    /// The records from the first unsettled one on, in the order in which they were handed out.
    ring: VecDeque<Slot<P>>,
    /// How many records lie before the ring: the number of the record at its front.
    passed: u64,
    /// One behind the newest record that is settled, wherever it is.
    settled_before: u64,
}

#[derive(Debug)]
struct Slot<P> {
    position: P,
    settled: bool,
}

/// The right to settle one record, once.
///
/// It can be neither copied nor cloned, and [`Watermark::settle`] consumes it. A record whose
/// ticket is dropped (its handler was abandoned) never settles, and the watermark stays before it.
#[derive(Debug)]
#[must_use = "a record whose ticket is dropped never settles"]
pub(crate) struct Ticket {
    watermark: u64,
    record: u64,
}

impl<P> Watermark<P> {
    /// A watermark that has handed out nothing.
    pub(crate) fn new() -> Self {
        Self {
            id: WATERMARKS.fetch_add(1, Ordering::Relaxed),
            ring: VecDeque::new(),
            passed: 0,
            settled_before: 0,
        }
    }

    /// Notes that the record at `position`, the next one of the shard, goes to a handler.
    pub(crate) fn hand_out(&mut self, position: P) -> Ticket {
        let ticket = Ticket {
            watermark: self.id,
            record: self.passed + self.ring.len() as u64,
        };
        self.ring.push_back(Slot {
            position,
            settled: false,
        });
        ticket
    }

    /// Settles the ticket's record, and returns the new checkpoint position if that moves it.
    ///
    /// A ticket of another watermark, such as that of the same shard before it was opened anew,
    /// settles nothing here.
    pub(crate) fn settle(&mut self, ticket: Ticket) -> Option<P>
    where
        P: Clone,
    {
        if ticket.watermark != self.id {
            return None;
        }
        let place = usize::try_from(ticket.record.checked_sub(self.passed)?).ok()?;
        self.ring.get_mut(place)?.settled = true;
        self.settled_before = self.settled_before.max(ticket.record + 1);
        if place > 0 {
            let passed = self.ring.get(place);
            let passed = passed.filter(|_| sabotage::is(Sabotage::PassesGaps));
            return passed.map(|slot| slot.position.clone());
        }
        let mut last = None;
        while let Some(slot) = self.ring.pop_front_if(|slot| slot.settled) {
            last = Some(slot.position);
            self.passed += 1;
        }
        last
    }

    /// How many records were handed out from the first unsettled one on.
    pub(crate) fn span(&self) -> usize {
        self.ring.len()
    }

    /// Whether a record behind the ticket's is settled, which is handled again unless the ticket's is settled too.
    pub(crate) fn has_settled_behind(&self, ticket: &Ticket) -> bool {
        ticket.watermark == self.id && ticket.record < self.settled_before
    }

    /// How many records are handed out and not settled.
    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> usize {
        self.ring.iter().filter(|slot| !slot.settled).count()
    }

    /// Whether everything that was handed out is settled.
    #[cfg(test)]
    pub(crate) fn is_settled(&self) -> bool {
        self.in_flight() == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn a_record_settled_in_order_moves_the_checkpoint_to_itself() {
        let mut watermark = Watermark::new();
        let first = watermark.hand_out("1");
        let second = watermark.hand_out("2");
        assert_eq!(watermark.settle(first), Some("1"));
        assert_eq!(watermark.settle(second), Some("2"));
        assert!(watermark.is_settled());
    }

    #[test]
    fn an_acknowledgement_behind_an_unsettled_record_moves_nothing() {
        let mut watermark = Watermark::new();
        let first = watermark.hand_out("1");
        let second = watermark.hand_out("2");
        let third = watermark.hand_out("3");
        assert_eq!(watermark.settle(third), None);
        assert_eq!(watermark.settle(second), None);
        assert_eq!(watermark.in_flight(), 1);
        assert!(watermark.has_settled_behind(&first));
        let fourth = watermark.hand_out("4");
        assert!(!watermark.has_settled_behind(&fourth));
        assert_eq!(watermark.settle(first), Some("3"));
        assert_eq!(watermark.settle(fourth), Some("4"));
    }

    #[test]
    fn an_abandoned_record_holds_the_checkpoint_before_it_for_ever() {
        let mut watermark = Watermark::new();
        let first = watermark.hand_out("1");
        drop(watermark.hand_out("2"));
        let third = watermark.hand_out("3");
        assert_eq!(watermark.settle(first), Some("1"));
        assert_eq!(watermark.settle(third), None);
        assert!(!watermark.is_settled());
    }

    #[test]
    fn a_ticket_from_before_the_shard_was_opened_anew_settles_nothing() {
        let stale = Watermark::new().hand_out("1");
        let mut reopened = Watermark::new();
        let ticket = reopened.hand_out("1");
        assert_eq!(reopened.settle(stale), None);
        assert_eq!(reopened.in_flight(), 1);
        assert_eq!(reopened.settle(ticket), Some("1"));
    }

    #[test]
    fn a_position_may_name_a_place_inside_an_aggregated_record() {
        let mut watermark = Watermark::new();
        let outer = watermark.hand_out(("7", 0));
        let inner = watermark.hand_out(("7", 1));
        assert_eq!(watermark.settle(outer), Some(("7", 0)));
        assert_eq!(watermark.settle(inner), Some(("7", 1)));
    }

    #[test]
    fn the_ring_does_not_grow_past_what_is_in_flight() {
        let mut watermark = Watermark::new();
        let mut before = watermark.hand_out(0);
        for position in 1..100_000 {
            let ticket = watermark.hand_out(position);
            assert_eq!(watermark.settle(before), Some(position - 1));
            before = ticket;
        }
        assert!(watermark.ring.capacity() <= 8, "{watermark:?}");
    }

    /// What a step of a random history does.
    #[derive(Clone, Debug)]
    enum Step {
        HandOut,
        /// Settles one of the tickets at hand.
        Settle(usize),
        /// Drops one of the tickets at hand.
        Abandon(usize),
        /// Opens the shard anew, keeping the tickets of before.
        Reopen,
    }

    fn steps() -> impl Strategy<Value = Step> {
        (0..40_u8, any::<usize>()).prop_map(|(kind, which)| match kind {
            0..20 => Step::HandOut,
            20..37 => Step::Settle(which),
            37..39 => Step::Abandon(which),
            _ => Step::Reopen,
        })
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_list_that_is_searched_for_its_first_gap(history in vec(steps(), 0..300)) {
            let mut watermark = Watermark::new();
            // Whether each record is settled, in the order in which they were handed out.
            let mut model: Vec<bool> = Vec::new();
            let mut generation = 0;
            let mut tickets = Vec::new();
            for step in history {
                match step {
                    Step::HandOut => {
                        tickets.push((generation, model.len(), watermark.hand_out(model.len())));
                        model.push(false);
                    }
                    Step::Settle(which) if !tickets.is_empty() => {
                        let (of, record, ticket) = tickets.swap_remove(which % tickets.len());
                        let before = prefix(&model);
                        if of == generation {
                            model[record] = true;
                        }
                        let after = prefix(&model);
                        let moved = (after > before).then(|| after - 1);
                        prop_assert_eq!(watermark.settle(ticket), moved);
                    }
                    Step::Abandon(which) if !tickets.is_empty() => {
                        drop(tickets.swap_remove(which % tickets.len()));
                    }
                    Step::Settle(_) | Step::Abandon(_) => {}
                    Step::Reopen => {
                        watermark = Watermark::new();
                        model.clear();
                        generation += 1;
                    }
                }
                let unsettled = model.iter().filter(|settled| !**settled).count();
                prop_assert_eq!(watermark.in_flight(), unsettled);
                prop_assert_eq!(watermark.is_settled(), unsettled == 0);
                prop_assert!(watermark.ring.len() <= model.len() - prefix(&model));
            }
        }
    }

    fn prefix(model: &[bool]) -> usize {
        model.iter().take_while(|settled| **settled).count()
    }
}
