//! The reader of one shard: hands its records over one after the other until it ends, is given up or is
//! lost. It is part of one task, so that nothing that one shard waits for keeps another waiting.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use aws_sdk_kinesis::types::Record;
use lease_core::Checkpoint;
use rstream::broker::{Handler, Reports};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::leasing::tenure::{Progress, Tenure};
use crate::reading::assignment::{Assignment, End, Notice, Opening, Order};
use crate::reading::cursor::{Cursor, Event};
use crate::reading::delivery::{Delivery, Next};
use crate::reading::record::RecordInfo;
use crate::reading::watermark::{Ticket, Watermark};
use crate::sabotage::{self, Sabotage};

/// A shard that is open, under a lease that this owns.
pub(super) struct Reader {
    tenure: Tenure,
    cursor: Cursor,
    handler: Handler,
    reports: Reports,
    orders: watch::Receiver<Order>,
    notices: mpsc::UnboundedSender<Notice>,
    limit: CancellationToken,
    /// A position has to be in the store before the first record is handed over: the tip, for one.
    awaits_writing: bool,
    watermark: Watermark<String>,
    queue: VecDeque<Record>,
    millis_behind: u64,
    in_hand: Option<(Delivery, Ticket)>,
    info: RecordInfo,
    backoff: Backoff,
}

/// Why something that was waited for did not come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interrupt {
    /// The coordinator has given another order.
    Ordered,
    /// Another instance has the lease.
    Lost,
    /// The shutdown's limit was reached, or the coordinator is gone.
    Limit,
}

impl Interrupt {
    /// How the reader ends by it; `None` where it looks at its orders first.
    fn end(self) -> Option<End> {
        match self {
            Self::Ordered => None,
            Self::Lost => Some(End::Lost),
            Self::Limit => Some(End::Unsettled),
        }
    }
}

impl Reader {
    pub(super) fn new(given: Assignment, tenure: Tenure, opening: Opening) -> Self {
        let info = RecordInfo::of_shard(
            given.key.stream(),
            given.key.shard(),
            tenure.holder().clone(),
        );
        let mut reader = Self {
            cursor: Cursor::new(
                given.service,
                given.reports.clone(),
                given.key,
                given.listing,
                given.pause,
                opening.at,
                given.seed,
            ),
            tenure,
            handler: given.handler,
            reports: given.reports,
            orders: given.orders,
            notices: given.notices,
            limit: given.limit,
            awaits_writing: false,
            watermark: Watermark::new(),
            queue: VecDeque::new(),
            millis_behind: 0,
            in_hand: None,
            info,
            backoff: Backoff::of_handlers(given.seed),
        };
        if let Some(position) = opening.write_first {
            reader.tenure.settle(position);
            reader.awaits_writing = true;
        }
        reader
    }

    /// Takes the first iterator, or fails to for the first time, and tells the coordinator so.
    pub(super) async fn open(&mut self) -> Option<End> {
        let end = match self.next_event().await {
            Ok(event) => self.take_in(event).await,
            Err(interrupt) => interrupt.end(),
        };
        // A coordinator that is gone waits for nothing.
        let _ = self.notices.send(Notice::Opened(self.tenure.key().clone()));
        end
    }

    pub(super) async fn read(&mut self) -> End {
        loop {
            if let Some(end) = self.read_on().await {
                return end;
            }
        }
    }

    /// One step: an order, a record, or more records.
    async fn read_on(&mut self) -> Option<End> {
        if *self.orders.borrow_and_update() != Order::Read {
            return self.leave().await;
        }
        if self.in_hand.is_none()
            && let Some(record) = self.queue.pop_front()
        {
            let ticket = self.watermark.hand_out(record.sequence_number.clone());
            let delivery = Delivery::of(record, self.millis_behind, &mut self.info);
            self.in_hand = Some((delivery, ticket));
        }
        if self.in_hand.is_some() {
            return self.deliver().await;
        }
        match self.next_event().await {
            Ok(event) => self.take_in(event).await,
            Err(interrupt) => interrupt.end(),
        }
    }

    async fn take_in(&mut self, event: Event) -> Option<End> {
        match event {
            Event::Opened { tip: None } | Event::Failed => None,
            Event::Opened { tip: Some(moment) } => {
                self.tenure.settle(Checkpoint::at_timestamp(moment));
                self.awaits_writing = true;
                self.try_to_write().await
            }
            Event::Batch {
                records,
                millis_behind,
            } => {
                self.queue = records.into();
                self.millis_behind = millis_behind;
                None
            }
            Event::Ended => {
                self.tenure.settle(Checkpoint::shard_end());
                match self.write().await {
                    Ok(()) => Some(End::Finished),
                    Err(Interrupt::Limit) => Some(End::Released),
                    Err(interrupt) => interrupt.end(),
                }
            }
            Event::Gone => {
                tracing::warn!(
                    stream = self.tenure.key().stream(),
                    shard = self.tenure.key().shard(),
                    "the shard is no longer there: its unread rest has passed out of retention"
                );
                Some(End::Gone)
            }
        }
    }

    /// Hands the record in hand over until it is settled, and then writes its position, or leaves that to the
    /// next try.
    async fn deliver(&mut self) -> Option<End> {
        loop {
            if let Err(interrupt) = self.until_ready().await {
                return interrupt.end();
            }
            if self.info.holder.epoch != self.tenure.holder().epoch {
                self.info.holder = self.tenure.holder().clone();
            }
            #[cfg(any(test, feature = "sabotage"))]
            let orders = self.orders.clone();
            let attempt = self.attempt();
            #[cfg(any(test, feature = "sabotage"))]
            let attempt = cut_short(orders, attempt);
            let next = match attempt.await {
                Ok(next) => next,
                Err(interrupt) => return interrupt.end(),
            };
            match next {
                Next::Settled => break,
                Next::Again(pause) => {
                    #[cfg(any(test, feature = "sabotage"))]
                    self.overtake().await;
                    match self.wait_to_retry(pause).await {
                        Ok(()) => {}
                        Err(Interrupt::Ordered) => return self.leave().await,
                        Err(interrupt) => return interrupt.end(),
                    }
                }
            }
        }
        let (_, ticket) = self.in_hand.take()?;
        if let Some(position) = self.watermark.settle(ticket) {
            let ahead = (self.queue.back()).filter(|_| sabotage::is(Sabotage::CheckpointAhead));
            let position = ahead.map_or(position, |last| &last.sequence_number);
            self.tenure.settle(Checkpoint::at(position.clone()));
            return self.try_to_write().await;
        }
        None
    }

    /// Reads on, until an order other than [`Order::Read`].
    async fn next_event(&mut self) -> Result<Event, Interrupt> {
        loop {
            let orders = self.orders.wait_for(|order| *order != Order::Read);
            tokio::select! {
                biased;
                interrupted = interrupt(&self.limit, orders, &mut self.tenure) => interrupted?,
                event = self.cursor.next() => return Ok(event),
            }
        }
    }

    /// Waits until a record may be handed over, or an order other than [`Order::Read`].
    async fn until_ready(&mut self) -> Result<(), Interrupt> {
        loop {
            self.awaits_writing &= !self.tenure.is_written();
            if self.tenure.is_firm() && !self.awaits_writing {
                return Ok(());
            }
            let is_firm = self.tenure.is_firm();
            let firm = self.tenure.firm();
            let orders = self.orders.wait_for(|order| *order != Order::Read);
            tokio::select! {
                biased;
                interrupted = interrupt(&self.limit, orders, &mut self.tenure) => interrupted?,
                () = firm, if !is_firm => {}
            }
        }
    }

    /// Hands the record in hand over once. Where the lease is lost meanwhile the handler still runs to its
    /// end, without effect.
    async fn attempt(&mut self) -> Result<Next, Interrupt> {
        let Self {
            in_hand: Some((delivery, _)),
            handler,
            info,
            tenure,
            notices,
            limit,
            reports,
            backoff,
            ..
        } = self
        else {
            return Ok(Next::Settled);
        };
        let verdict = {
            let mut attempt = pin!(delivery.attempt(handler, info));
            let mut lost = false;
            loop {
                tokio::select! {
                    biased;
                    () = limit.cancelled() => return Err(Interrupt::Limit),
                    verdict = &mut attempt => {
                        if lost {
                            return Err(Interrupt::Lost);
                        }
                        break verdict;
                    }
                    progress = tenure.progress(), if !lost => {
                        if progress == Progress::Lost {
                            lost = true;
                            let _ = notices.send(Notice::Lost(tenure.key().clone()));
                        }
                    }
                }
            }
        };
        Ok(delivery.judge(verdict, info, reports, backoff))
    }

    /// The pause before a retry, which a shutdown and the loss of the lease end early.
    async fn wait_to_retry(&mut self, pause: Duration) -> Result<(), Interrupt> {
        let mut pause = pin!(sleep(pause));
        loop {
            let orders = self.orders.wait_for(|order| *order == Order::Stop);
            tokio::select! {
                biased;
                interrupted = interrupt(&self.limit, orders, &mut self.tenure) => interrupted?,
                () = &mut pause => return Ok(()),
            }
        }
    }

    /// Ordered to leave: everything that was settled is written, and the lease can be given back. `None`
    /// where the order is to read on before that is done.
    async fn leave(&mut self) -> Option<End> {
        while !self.tenure.is_written() && !sabotage::is(Sabotage::ReleaseBeforeSettle) {
            tokio::select! {
                biased;
                () = self.limit.cancelled() => break,
                order = self.orders.wait_for(|order| *order == Order::Read) => {
                    return match ordered(order.is_ok()) {
                        Interrupt::Ordered => None,
                        _ => Some(End::Released),
                    };
                }
                progress = self.tenure.progress() => {
                    if progress == Progress::Lost {
                        return Some(End::Lost);
                    }
                }
            }
        }
        Some(End::Released)
    }

    /// Tries once to write the settled position. After a failure reading goes on, and whatever is awaited next
    /// tries again beside it.
    async fn try_to_write(&mut self) -> Option<End> {
        if self.tenure.is_backing_off() {
            return None;
        }
        tokio::select! {
            biased;
            () = self.limit.cancelled() => Some(End::Released),
            progress = self.tenure.progress() => (progress == Progress::Lost).then_some(End::Lost),
        }
    }

    /// Writes the settled position, however often that takes.
    async fn write(&mut self) -> Result<(), Interrupt> {
        while !self.tenure.is_written() {
            tokio::select! {
                biased;
                () = self.limit.cancelled() => return Err(Interrupt::Limit),
                progress = self.tenure.progress() => {
                    if progress == Progress::Lost {
                        return Err(Interrupt::Lost);
                    }
                }
            }
        }
        Ok(())
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
    /// Hands over the record behind the one in hand, which waits for its retry, if that fault is committed.
    async fn overtake(&mut self) {
        if !sabotage::is(Sabotage::SkipRetried) {
            return;
        }
        let Some(record) = self.queue.pop_front() else {
            return;
        };
        let ticket = self.watermark.hand_out(record.sequence_number.clone());
        let mut info = self.info.clone();
        let mut next = Delivery::of(record, self.millis_behind, &mut info);
        while self.tenure.is_firm() {
            let attempt = next.attempt(&self.handler, &info);
            let Some(verdict) = self.limit.run_until_cancelled(attempt).await else {
                return;
            };
            match next.judge(verdict, &info, &self.reports, &mut self.backoff) {
                Next::Again(pause) => sleep(pause).await,
                Next::Settled => {
                    self.watermark.settle(ticket);
                    return;
                }
            }
        }
    }
}

/// An attempt that any order but to read on ends, if that fault is committed.
#[cfg(any(test, feature = "sabotage"))]
async fn cut_short(
    mut orders: watch::Receiver<Order>,
    attempt: impl Future<Output = Result<Next, Interrupt>>,
) -> Result<Next, Interrupt> {
    if !sabotage::is(Sabotage::ReleaseBeforeSettle) {
        return attempt.await;
    }
    tokio::select! {
        biased;
        _ = orders.wait_for(|order| *order != Order::Read) => Err(Interrupt::Ordered),
        next = attempt => next,
    }
}

/// Waits for what interrupts a reader whatever it waits for: the shutdown's limit, the orders that matter to it,
/// the loss of its lease. `Ok` says that its tenure has got on, so that it looks again at what it waits for.
async fn interrupt(
    limit: &CancellationToken,
    orders: impl Future<Output = Result<watch::Ref<'_, Order>, watch::error::RecvError>>,
    tenure: &mut Tenure,
) -> Result<(), Interrupt> {
    tokio::select! {
        biased;
        () = limit.cancelled() => Err(Interrupt::Limit),
        order = orders => Err(ordered(order.is_ok())),
        progress = tenure.progress() => match progress {
            Progress::Lost => Err(Interrupt::Lost),
            Progress::Written | Progress::Failed | Progress::Reclaimed => Ok(()),
        },
    }
}

/// What a change of orders means: another order or, where the coordinator is gone, the end.
fn ordered(has_coordinator: bool) -> Interrupt {
    if has_coordinator {
        Interrupt::Ordered
    } else {
        Interrupt::Limit
    }
}
