//! What of a shard is handed over next: the records that were read, those that wait for another of their key or for
//! their next try, and the batch that gathers. And what it moves when one of them comes back.
//!
//! It decides that and makes no call: whether anything may be handed over at all is its reader's business.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;

use aws_sdk_kinesis::types::Record;
use lease_core::Checkpoint;
use rstream::broker::BatchLimits;
use tokio::time::Instant;

use crate::leasing::after;
use crate::reading::assignment::Order;
use crate::reading::delivery::Delivery;
use crate::reading::feed::{Appetite, Feed, Held, Shard};
use crate::reading::in_flight::{Handled, InHand};
use crate::reading::lanes::{Lane, LaneKey, Lanes};
use crate::reading::record::Item;
use crate::reading::seek::Seeker;
use crate::reading::watermark::{Ticket, Watermark};
use crate::sabotage::{self, Sabotage};

/// So many records are handed over from the oldest unsettled one on, and no more: what goes past a record that
/// is retried again and again comes once more after a crash. Batches go past nothing, and may be larger.
const AHEAD: usize = 4_096;

/// The records of one shard from their read until they are settled.
#[derive(Debug)]
pub(crate) struct Queue {
    feed: Feed,
    lanes: Lanes<(Item, Ticket)>,
    watermark: Watermark<Checkpoint>,
    /// Records that have a lane and wait to be handed over: again, or for the first time.
    ready: VecDeque<InHand>,
    /// Records that are to be tried again, by when.
    pausing: BTreeMap<(Instant, u64), InHand>,
    paused: u64,
    /// How many are handed over and have not come back.
    out: usize,
    batch: Option<BatchLimits>,
    /// The next batch, while it waits for more records.
    gathering: Option<Gathering>,
    /// Nothing more will be read.
    has_ended: bool,
    room: Room,
}

/// A batch that is not complete.
#[derive(Debug)]
struct Gathering {
    batch: Box<Delivery<Ticket>>,
    /// What its records count for in the feed.
    held: Held,
    /// How long it waits for more.
    until: Instant,
}

/// What deliveries are made of.
#[derive(Debug)]
struct Room {
    stream: Arc<str>,
    shard: Arc<str>,
    /// Whether they are of batches.
    is_batch: bool,
    seeker: Seeker,
    /// Those that are done with, to be used again.
    #[expect(clippy::vec_box, reason = "the boxes are what is used again")]
    spare: Vec<Box<Delivery<Ticket>>>,
}

impl Room {
    fn of_shard(shard: &Shard, is_batch: bool, seeker: Seeker) -> Self {
        Self {
            stream: Arc::clone(&shard.stream),
            shard: Arc::clone(&shard.id),
            is_batch,
            seeker,
            spare: Vec::new(),
        }
    }

    fn take(&mut self) -> Box<Delivery<Ticket>> {
        self.spare.pop().unwrap_or_else(|| {
            let delivery = Delivery::of_shard(&self.stream, &self.shard, self.is_batch);
            Box::new(delivery.with_seeker(self.seeker.clone()))
        })
    }
}

impl Queue {
    /// Of a shard whose records are handed over one by one, up to `concurrency` at once, or in batches, to handlers that
    /// may ask the `seeker` for moves.
    pub(crate) fn new(
        feed: Feed,
        concurrency: NonZeroUsize,
        batch: Option<BatchLimits>,
        seeker: Seeker,
    ) -> Self {
        let room = Room::of_shard(feed.shard(), batch.is_some(), seeker);
        Self {
            feed,
            lanes: Lanes::new(concurrency),
            watermark: Watermark::new(),
            ready: VecDeque::new(),
            pausing: BTreeMap::new(),
            paused: 0,
            out: 0,
            batch,
            gathering: None,
            has_ended: false,
            room,
        }
    }

    /// Takes in what a read brought.
    pub(crate) fn push(&mut self, records: Vec<Record>, millis_behind: u64) {
        self.feed.push(records, millis_behind);
    }

    /// Notes that nothing more will be read: an incomplete batch waits for nothing.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Whether, and how far, to read on.
    pub(crate) fn appetite(&self) -> Option<Appetite> {
        self.feed.appetite().filter(|_| !self.has_ended)
    }

    /// Whether everything that was read is settled.
    pub(crate) fn is_drained(&self) -> bool {
        self.feed.is_empty()
            && self.gathering.is_none()
            && self.ready.is_empty()
            && self.pausing.is_empty()
            && self.out == 0
    }

    /// Whether, under an order to leave, a record that waits has to be settled before the shard is given up.
    pub(crate) fn has_to_settle(&self, order: Order) -> bool {
        let mut waiting = self.ready.iter().chain(self.pausing.values());
        waiting.any(|record| self.has_to_be_settled(record, order))
    }

    /// Whether a record has to be settled before the shard is given up: it has failed before and the reader is not to
    /// stop, or one behind it is settled, which whoever reads on would handle again.
    fn has_to_be_settled(&self, record: &InHand, order: Order) -> bool {
        let is_retried = order == Order::HandOver && record.delivery.was_tried();
        let ticket = record.delivery.first();
        let is_passed = ticket.is_some_and(|ticket| self.watermark.has_settled_behind(ticket));
        is_retried || (is_passed && !sabotage::is(Sabotage::LeavesGaps))
    }

    /// Makes ready what is due to be tried again.
    pub(crate) fn wake(&mut self) {
        // The clock is read for whoever waits for it: each look at it costs what handing a record over does.
        while let Some(due) = self.pausing.first_entry()
            && due.key().0 <= Instant::now()
        {
            self.ready.push_back(due.remove());
        }
    }

    /// When there may be something to hand over that is not there now: the next record that is due to be tried again,
    /// or, where it `may_gather`, the batch that has waited long enough, which it has at once unless its reader
    /// `reads_on`.
    pub(crate) fn wakes_at(&self, may_gather: bool, reads_on: bool) -> Option<Instant> {
        let pause_ends = self.pausing.first_key_value().map(|((until, _), _)| *until);
        let gathering = self.gathering.as_ref();
        let gathering = gathering.filter(|_| may_gather && self.lanes.has_room());
        let gathers_until = gathering.map(|gathering| match reads_on {
            true => gathering.until,
            false => Instant::now().min(gathering.until),
        });
        [pause_ends, gathers_until].into_iter().flatten().min()
    }

    /// Whether [`next`](Self::next) may find something.
    pub(crate) fn has_next(&self, order: Order) -> bool {
        match order {
            Order::Read => {
                let gathers = self.gathering.is_some() && self.lanes.has_room();
                let has_more = !self.feed.is_empty() && self.has_room();
                !self.ready.is_empty() || gathers || has_more || self.overtakes()
            }
            Order::HandOver | Order::Stop => {
                let mut ready = self.ready.iter();
                ready.any(|record| self.has_to_be_settled(record, order))
            }
        }
    }

    fn has_room(&self) -> bool {
        self.lanes.has_room() && self.watermark.span() < AHEAD
    }

    /// The next record to hand over, or batch: of those that are ready, or else of those that were read. Under an order
    /// to leave only what has to be settled first. It comes back by [`settle`](Self::settle).
    pub(crate) fn next(&mut self, order: Order) -> Option<InHand> {
        let next = if order == Order::Read {
            self.next_in_turn()
        } else {
            let mut ready = self.ready.iter();
            let place = ready.position(|record| self.has_to_be_settled(record, order));
            place.and_then(|place| self.ready.remove(place))
        };
        self.out += usize::from(next.is_some());
        next
    }

    fn next_in_turn(&mut self) -> Option<InHand> {
        if let Some(next) = self.ready.pop_front() {
            return Some(next);
        }
        if let Some(limits) = self.batch {
            return self.next_batch(limits);
        }
        if self.overtakes() {
            return self.next_of_any_key();
        }
        let tells_keys_apart =
            self.lanes.tells_keys_apart() && !sabotage::is(Sabotage::TwoOfOneKey);
        while self.has_room() {
            if !tells_keys_apart {
                return self.next_of_any_key();
            }
            let (item, position) = self.feed.pop()?;
            let ticket = self.watermark.hand_out(position);
            let key = LaneKey::of(&item.partition_key);
            if let Some((lane, (item, ticket))) = self.lanes.enter(key, (item, ticket)) {
                return Some(self.in_hand(lane, item, ticket));
            }
        }
        None
    }

    fn next_of_any_key(&mut self) -> Option<InHand> {
        let (item, position) = self.feed.pop()?;
        let ticket = self.watermark.hand_out(position);
        let lane = self.lanes.enter_any();
        Some(self.in_hand(lane, item, ticket))
    }

    /// The next batch, once it is complete.
    fn next_batch(&mut self, limits: BatchLimits) -> Option<InHand> {
        if !self.lanes.has_room() {
            return None;
        }
        let most = limits.max_records.get();
        let Gathering {
            mut batch,
            mut held,
            until,
        } = match self.gathering.take() {
            Some(gathering) => gathering,
            None if self.feed.is_empty() => return None,
            None => Gathering {
                batch: self.room.take(),
                held: Held::default(),
                until: after(limits.max_wait),
            },
        };
        while batch.len() < most
            && let Some((item, position)) = self.feed.pop()
        {
            held = held.with(&item);
            let ticket = self.watermark.hand_out(position);
            batch.push(item, ticket);
        }
        let is_complete = batch.len() >= most
            || self.has_ended
            || until <= Instant::now()
            || self.feed.appetite().is_none();
        if batch.is_empty() {
            // What was left is of other shards.
            self.room.spare.push(batch);
            return None;
        }
        if !is_complete {
            self.gathering = Some(Gathering { batch, held, until });
            return None;
        }
        self.feed.let_go_of(held);
        let lane = self.lanes.enter_any();
        Some(InHand {
            delivery: batch,
            lane,
        })
    }

    fn in_hand(&mut self, lane: Lane, item: Item, ticket: Ticket) -> InHand {
        self.feed.let_go(&item);
        let mut delivery = self.room.take();
        delivery.push(item, ticket);
        InHand { delivery, lane }
    }

    /// Takes back what was handed over, with what came of it. Gives the position that the shard is now settled up to,
    /// where that has moved.
    pub(crate) fn settle(&mut self, Handled { mut record, next }: Handled) -> Option<Checkpoint> {
        self.out -= 1;
        let mut moved = None;
        for ticket in record.delivery.settle(next.settled) {
            moved = self.watermark.settle(ticket).or(moved);
        }
        if !record.delivery.is_empty() {
            self.paused += 1;
            let until = after(next.pause);
            self.pausing.insert((until, self.paused), record);
            return moved;
        }
        self.room.spare.push(record.delivery);
        if let Some((lane, (item, ticket))) = self.lanes.leave(record.lane) {
            let next = self.in_hand(lane, item, ticket);
            self.ready.push_back(next);
        }
        moved
    }

    /// Forgets everything, to begin anew elsewhere in the shard. Nothing of it may be handed over at this time.
    pub(crate) fn clear(&mut self) {
        self.feed.clear();
        self.lanes.clear();
        self.watermark = Watermark::new();
        self.ready.clear();
        self.pausing.clear();
        self.gathering = None;
        self.has_ended = false;
    }

    /// Whether a record is handed over while one before it waits for its retry, which is a fault.
    fn overtakes(&self) -> bool {
        sabotage::is(Sabotage::SkipRetried)
            && !self.pausing.is_empty()
            && self.out == 0
            && !self.feed.is_empty()
    }
}

#[cfg(any(test, feature = "sabotage"))]
impl Queue {
    /// Forgets what was read and not handed over, which is a fault.
    pub(crate) fn drop_read_ahead(&mut self) {
        while let Some((item, _)) = self.feed.pop() {
            self.feed.let_go(&item);
        }
    }

    /// The position of the last record that was read.
    pub(crate) fn newest(&self) -> Option<Checkpoint> {
        self.feed.newest().map(Checkpoint::at)
    }
}

#[cfg(test)]
mod tests;
