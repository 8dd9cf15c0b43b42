//! The reader of one shard: hands its records over, and reads on meanwhile, until the shard ends, is given up or
//! is lost. It is part of one task, so that nothing that one shard waits for keeps another waiting.
//!
//! Every turn of it looks at its orders, hands over what may be handed over, and waits for the next thing to
//! happen: an order, the store's answer, more records, a handler that returns, the end of a pause.

use std::sync::Arc;
use std::task::Poll;

use futures_util::poll;
use lease_core::Checkpoint;
use rstream::broker::Reports;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use crate::leasing::lineage::Position;
use crate::leasing::tenure::{Progress, Tenure};
use crate::reading::assignment::{Assignment, End, Notice, Opening, Order};
use crate::reading::cursor::{Cursor, Event};
use crate::reading::delivery::With;
use crate::reading::feed::{Feed, Shard};
use crate::reading::handling::Handling;
use crate::reading::in_flight::{Handled, InFlight, InHand};
use crate::reading::queue::Queue;
use crate::reading::seek::{Moves, Seek};
use crate::sabotage::{self, Sabotage};

/// So many records are handed over in a row to handlers that return at once before the rest has its turn: more
/// records, orders, renewals.
const IN_A_ROW: u32 = 32;

/// A shard that is open, under a lease that this owns.
pub(super) struct Reader {
    /// The stream's name.
    stream: Arc<str>,
    tenure: Tenure,
    cursor: Cursor,
    shared: Arc<Shared>,
    orders: watch::Receiver<Order>,
    /// The last of them that was looked at.
    order: Order,
    notices: mpsc::UnboundedSender<Notice>,
    seeks: mpsc::UnboundedReceiver<Seek>,
    moves: Moves,
    limit: CancellationToken,
    /// A position has to be in the store before the first record is handed over: the tip, for one.
    awaits_writing: bool,
    /// Each acknowledgement is in the store before the next record is handed over.
    awaits_each: bool,
    /// There was something to hand over, and the lease was not firm.
    is_held_up: bool,
    queue: Queue,
    in_flight: InFlight,
    /// What is left to do once everything that was read is settled.
    last: Option<Last>,
    rng: fastrand::Rng,
    in_a_row: u32,
}

/// What each call of the handler needs of its reader.
struct Shared {
    handling: Arc<Handling>,
    reports: Reports,
    /// Ends what goes on after a handler has returned: the lease is another's.
    lost: CancellationToken,
}

/// Why nothing more will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// The shard was read to its end.
    Ended,
    /// It is no longer there.
    Gone,
}

/// What a reader waited for.
enum Woken {
    /// There may be something to hand over, or another order, or something was settled.
    Look,
    Progress(Progress),
    Seek(Seek),
    Read(Event),
    Handled(Handled),
    /// The shutdown's limit was reached, or the coordinator is gone.
    Limit,
}

impl Reader {
    pub(super) fn new(given: Assignment, tenure: Tenure, opening: Opening) -> Self {
        let concurrency = given.terms.concurrency;
        let shard = Shard {
            stream: Arc::clone(&given.stream),
            id: Arc::clone(given.key.shared_shard()),
            hash_keys: opening.hash_keys,
        };
        let opened_at = match &opening.at {
            Position::After(checkpoint) => Some(checkpoint),
            _ => None,
        };
        let feed = Feed::new(given.budget, shard, opened_at);
        let batch = given.handling.policy.batch;
        let queue = Queue::new(feed, concurrency, batch, given.seeker);
        let mut reader = Self {
            cursor: Cursor::new(
                given.service,
                given.reports.clone(),
                Arc::clone(&given.stream),
                given.key,
                given.listing,
                given.terms.pause,
                opening.at,
                given.seed,
            ),
            stream: given.stream,
            tenure,
            shared: Arc::new(Shared {
                handling: given.handling,
                reports: given.reports,
                lost: CancellationToken::new(),
            }),
            orders: given.orders,
            order: Order::Read,
            notices: given.notices,
            seeks: given.seeks,
            moves: Moves::default(),
            limit: given.limit,
            awaits_writing: false,
            is_held_up: false,
            awaits_each: concurrency.get() == 1
                && given.terms.checkpoint_every.is_none()
                && !sabotage::is(Sabotage::AwaitsNothing),
            queue,
            in_flight: if concurrency.get() == 1 {
                InFlight::one_at_a_time()
            } else {
                InFlight::many()
            },
            last: None,
            rng: fastrand::Rng::with_seed(given.seed),
            in_a_row: 0,
        };
        reader.orders.mark_changed();
        if let Some(position) = opening.write_first {
            reader.tenure.settle_at_once(position);
            reader.awaits_writing = true;
        }
        reader
    }

    /// Takes the first iterator, or fails to for the first time, and tells the coordinator so.
    pub(super) async fn open(&mut self) -> Option<End> {
        let end = loop {
            match self.wait(Order::Read).await {
                Woken::Read(event) => break self.take_in(event).await,
                Woken::Progress(Progress::Lost) => break Some(End::Lost),
                Woken::Limit => break Some(End::Unsettled),
                Woken::Look if self.order() != Order::Read => break None,
                Woken::Seek(seek) => {
                    self.moves.ask(seek);
                    // Nothing is in hand yet that it would have to wait for.
                    self.make_the_move();
                }
                Woken::Look | Woken::Progress(_) | Woken::Handled(_) => {}
            }
        };
        // A coordinator that is gone waits for nothing.
        let _ = self.notices.send(Notice::Opened(self.tenure.key().clone()));
        end
    }

    pub(super) async fn read(&mut self) -> End {
        loop {
            if let Some(end) = self.turn().await {
                return end;
            }
        }
    }

    /// What is ordered now; the last order, where whoever gives them is gone.
    fn order(&mut self) -> Order {
        if self.orders.has_changed().unwrap_or(true) {
            self.order = *self.orders.borrow_and_update();
        }
        self.order
    }

    async fn turn(&mut self) -> Option<End> {
        let order = self.order();
        if self.in_flight.is_empty() {
            self.make_the_move();
        }
        if order != Order::Read && self.is_quiet(order) {
            return self.leave().await;
        }
        if order != Order::Read {
            // The handlers that still run may run past the limit.
            self.tenure.hurry();
        }
        #[cfg(any(test, feature = "sabotage"))]
        if order == Order::HandOver && sabotage::is(Sabotage::DropsReadAhead) {
            self.queue.drop_read_ahead();
        }
        self.is_held_up = false;
        if !self.moves.is_asked() {
            self.hand_over(order);
        }
        self.moves.tell(self.tenure.is_written());
        // Where each acknowledgement is a call, the last one is too.
        let awaits = self.awaits_each && self.tenure.is_writing();
        if order == Order::Read
            && !awaits
            && !self.moves.is_asked()
            && self.queue.is_drained()
            && let Some(last) = self.last
        {
            return self.finish(last).await;
        }
        let woken = match self.at_once(order).await {
            Some(woken) => woken,
            None => self.wait(order).await,
        };
        match woken {
            Woken::Look => None,
            Woken::Progress(Progress::Lost) => Some(self.lose().await),
            Woken::Progress(_) => None,
            Woken::Seek(seek) => {
                self.moves.ask(seek);
                None
            }
            Woken::Read(event) => self.take_in(event).await,
            Woken::Handled(handled) => {
                self.settle(handled);
                None
            }
            Woken::Limit => Some(End::Unsettled),
        }
    }

    /// Whether, ordered to leave, nothing has to be settled first.
    fn is_quiet(&self, order: Order) -> bool {
        // What was forgotten for the sake of the tip is handled again unless the tip is written.
        let awaits_tip = self.moves.awaits_tip() && self.last.is_none();
        let is_done = self.in_flight.is_empty() && !awaits_tip && !self.queue.has_to_settle(order);
        is_done || sabotage::is(Sabotage::ReleaseBeforeSettle)
    }

    /// Whether nothing is handed over before the store has answered.
    fn awaits_the_store(&mut self) -> bool {
        self.awaits_writing &= !self.tenure.is_written();
        self.awaits_writing || (self.awaits_each && self.tenure.is_writing())
    }

    /// Hands over what may be handed over at this moment.
    fn hand_over(&mut self, order: Order) {
        self.queue.wake();
        if !self.queue.has_next(order) || self.awaits_the_store() {
            return;
        }
        self.is_held_up = !self.tenure.is_firm();
        if self.is_held_up {
            return;
        }
        while let Some(next) = self.queue.next(order) {
            self.start(next);
        }
    }

    fn start(&mut self, mut record: InHand) {
        record.delivery.under(self.tenure.holder());
        let (shared, random) = (Arc::clone(&self.shared), self.rng.f64());
        self.in_flight.start(async move {
            let with = With {
                handling: &shared.handling,
                reports: &shared.reports,
                lost: &shared.lost,
                random,
            };
            let next = record.delivery.attempt(with).await;
            Handled { record, next }
        });
    }

    /// Takes in what there is without waiting: the answer of a handler or a store that answers at once. `None` after so
    /// many in a row that it is the others' turn.
    async fn at_once(&mut self, order: Order) -> Option<Woken> {
        if !self.in_flight.is_empty() {
            // A handler that always fails at once, and is retried at once, keeps the thread to itself otherwise.
            tokio::task::consume_budget().await;
        }
        self.in_a_row += 1;
        if order != Order::Read || self.in_a_row >= IN_A_ROW {
            self.in_a_row = 0;
            return None;
        }
        if self.awaits_each && self.tenure.is_writing() {
            return match poll!(std::pin::pin!(self.tenure.progress())) {
                Poll::Ready(progress) => Some(Woken::Progress(progress)),
                Poll::Pending => None,
            };
        }
        if self.in_flight.is_empty() {
            return None;
        }
        let Poll::Ready(handled) = poll!(std::pin::pin!(self.in_flight.next())) else {
            return None;
        };
        self.settle(handled);
        if self.awaits_each
            && self.tenure.is_writing()
            && let Poll::Ready(progress) = poll!(std::pin::pin!(self.tenure.progress()))
        {
            return Some(Woken::Progress(progress));
        }
        Some(Woken::Look)
    }

    /// Waits until something comes about.
    async fn wait(&mut self, order: Order) -> Woken {
        let is_moving = self.moves.is_asked();
        // What was seen when records were to be handed over counts, though it may have changed since on another thread.
        let firm = self.is_held_up.then(|| self.tenure.firm());
        let reads_on = !is_moving && (order == Order::Read || self.moves.awaits_tip());
        let appetite = self.queue.appetite().filter(|_| reads_on);
        let may_gather = order == Order::Read && !self.is_held_up && !self.awaits_the_store();
        // A move waits for handlers alone: a time at which nothing could be done would be looked at again and again once
        // it has come.
        let look_at = self.queue.wakes_at(may_gather, appetite.is_some());
        let look_at = look_at.filter(|_| !is_moving);
        let Self {
            tenure,
            cursor,
            orders,
            seeks,
            limit,
            in_flight,
            ..
        } = self;
        tokio::select! {
            biased;
            () = limit.cancelled() => Woken::Limit,
            ordered = orders.changed() => if ordered.is_ok() {
                orders.mark_changed();
                Woken::Look
            } else {
                Woken::Limit
            },
            Some(seek) = seeks.recv() => Woken::Seek(seek),
            // Before the store, which may always have something to say: the next read is begun here.
            Some(event) = async {
                match appetite {
                    Some(appetite) => Some(cursor.next(appetite).await),
                    None => None,
                }
            } => Woken::Read(event),
            progress = tenure.progress() => Woken::Progress(progress),
            () = async {
                match firm {
                    Some(firm) => firm.await,
                    None => std::future::pending().await,
                }
            } => Woken::Look,
            () = async {
                match look_at {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            } => Woken::Look,
            handled = in_flight.next() => Woken::Handled(handled),
        }
    }

    async fn take_in(&mut self, event: Event) -> Option<End> {
        match event {
            Event::Opened { tip: None } | Event::Failed => None,
            Event::Opened { tip: Some(moment) } => {
                self.moves.opened_at_the_tip();
                self.tenure.settle_at_once(Checkpoint::at_timestamp(moment));
                self.awaits_writing = true;
                self.try_to_write().await
            }
            Event::Batch {
                records,
                millis_behind,
            } => {
                self.queue.push(records, millis_behind);
                None
            }
            Event::Ended => {
                self.last = Some(Last::Ended);
                self.queue.end();
                None
            }
            Event::Gone => {
                tracing::warn!(
                    stream = &*self.stream,
                    shard = self.tenure.key().shard(),
                    "the shard is no longer there: its unread rest has passed out of retention"
                );
                self.last = Some(Last::Gone);
                self.queue.end();
                None
            }
        }
    }

    /// What came of one call of the handler.
    fn settle(&mut self, handled: Handled) {
        if let Some(position) = self.queue.settle(handled) {
            #[cfg(any(test, feature = "sabotage"))]
            let position = self.ahead().unwrap_or(position);
            self.tenure.settle(position);
        }
        // What the handler asked for before it returned comes before the next record.
        while !self.seeks.is_empty()
            && let Ok(seek) = self.seeks.try_recv()
        {
            self.moves.ask(seek);
        }
    }

    /// Forgets what was read of the old position, and goes on at the new one, which is in the store before the first
    /// record of it is handed over.
    fn make_the_move(&mut self) {
        let Some((to, position, checkpoint)) = self.moves.begin() else {
            return;
        };
        tracing::info!(
            stream = &*self.stream,
            shard = self.tenure.key().shard(),
            ?to,
            "moved"
        );
        self.queue.clear();
        self.last = None;
        self.cursor.move_to(position);
        if let Some(checkpoint) = checkpoint {
            self.tenure.settle_at_once(checkpoint);
            self.awaits_writing = true;
        }
    }

    /// Everything that was read is settled, and there is no more.
    async fn finish(&mut self, last: Last) -> Option<End> {
        if last == Last::Gone {
            return Some(End::Gone);
        }
        self.tenure.settle_at_once(Checkpoint::shard_end());
        while !self.tenure.is_written() {
            tokio::select! {
                biased;
                () = self.limit.cancelled() => return Some(End::Released),
                progress = self.tenure.progress() => {
                    if progress == Progress::Lost {
                        return Some(End::Lost);
                    }
                }
            }
        }
        Some(End::Finished)
    }

    /// Another instance has the lease: handlers still run to their ends, without effect.
    async fn lose(&mut self) -> End {
        self.shared.lost.cancel();
        // Nobody is to wait, until handlers return, for a move that cannot come about.
        self.moves = Moves::default();
        self.seeks.close();
        while self.seeks.try_recv().is_ok() {}
        if !self.in_flight.is_empty() {
            let _ = self.notices.send(Notice::Lost(self.tenure.key().clone()));
        }
        while !self.in_flight.is_empty() {
            tokio::select! {
                biased;
                () = self.limit.cancelled() => return End::Unsettled,
                _ = self.in_flight.next() => {}
            }
        }
        End::Lost
    }

    /// Ordered to leave: everything that was settled is written, and the lease can be given back. `None`
    /// where the order is to read on before that is done.
    async fn leave(&mut self) -> Option<End> {
        self.tenure.hurry();
        while !self.tenure.is_written() && !sabotage::is(Sabotage::ReleaseBeforeSettle) {
            tokio::select! {
                biased;
                () = self.limit.cancelled() => break,
                order = self.orders.wait_for(|order| *order == Order::Read) => {
                    self.order = Order::Read;
                    return order.is_err().then_some(End::Released);
                }
                progress = self.tenure.progress() => {
                    if progress == Progress::Lost {
                        return Some(End::Lost);
                    }
                }
            }
        }
        self.moves.tell(self.tenure.is_written());
        Some(End::Released)
    }

    /// Tries once to write the settled position. After a failure reading goes on, and whatever is awaited next
    /// tries again beside it.
    async fn try_to_write(&mut self) -> Option<End> {
        // A lease that is not firm may stay so for as long as the store is out of reach.
        if !self.tenure.is_writing() || !self.tenure.is_firm() {
            return None;
        }
        tokio::select! {
            biased;
            () = self.limit.cancelled() => Some(End::Released),
            progress = self.tenure.progress() => (progress == Progress::Lost).then_some(End::Lost),
        }
    }

    /// Gives the lease back, where it is still there.
    pub(super) async fn end(self, end: End) -> End {
        let keeps = sabotage::is(Sabotage::KeepsLease) && *self.orders.borrow() == Order::Stop;
        if end != End::Lost && !keeps {
            self.tenure.release().await;
        }
        end
    }
}

#[cfg(any(test, feature = "sabotage"))]
impl Reader {
    /// The last record that was fetched, if that fault is committed.
    fn ahead(&self) -> Option<Checkpoint> {
        let newest = self.queue.newest();
        newest.filter(|_| sabotage::is(Sabotage::CheckpointAhead))
    }
}
