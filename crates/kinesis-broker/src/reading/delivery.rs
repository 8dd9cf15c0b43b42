//! A record, or a batch of them, from its first delivery until it is settled.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use lease_core::Holder;
use rstream::DecodeError;
use rstream::broker::{Delivered, DeliveredBatch, Reply, Reports, Verdict};
use tokio_util::sync::CancellationToken;

use crate::KinesisError;
use crate::reading::handling::{Handling, NotStored, Storing};
use crate::reading::judgement::{Again, Judgement, Said, Then, judge, judge_undecodable};
use crate::reading::record::{BatchInfo, Item, RecordInfo};
use crate::reading::seek::Seeker;

/// What tells of records is kept to be used again for so many, and not for every record of the largest batch.
const SPARE: usize = 64;
/// From this attempt on a retry is said aloud, at every doubling.
const RETRIED_OFTEN: u32 = 8;

/// Records of one shard that are given to the handler at once: one, unless it takes batches. Each has a tag, which
/// is given back when it is settled.
#[derive(Debug)]
pub(crate) struct Delivery<T> {
    stream: String,
    shard: String,
    is_batch: bool,
    payloads: Vec<Bytes>,
    /// What tells of each. Of one that is given alone it stays, and tells of the next one then.
    infos: BatchInfo,
    tags: VecDeque<T>,
    /// Records that wait until those before them were tried alone.
    behind: VecDeque<(Bytes, RecordInfo)>,
    /// So many of those, from the first on, are to be tried alone; nobody was given the others yet.
    alone: usize,
    /// How often they were tried since the policy counts for them.
    attempt: u32,
    /// How often the handler had been given them before that, with others.
    earlier: u32,
    /// Whether it was said that the first of them ought to be a dead letter and there is no place for any.
    wants_place: bool,
    /// What tells of records, to be used again.
    spare: Vec<RecordInfo>,
    seeker: Seeker,
}

/// What a delivery is done with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct With<'a> {
    pub(crate) handling: &'a Handling,
    pub(crate) reports: &'a Reports,
    /// Ends what is not the handler's: the lease is another's.
    pub(crate) lost: &'a CancellationToken,
    /// Drawn evenly from 0 to 1.
    pub(crate) random: f64,
}

/// What is to be done after one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// So many records, from the first on, are settled.
    pub(crate) settled: usize,
    /// How long the rest waits before it is handed over again.
    pub(crate) pause: Duration,
}

/// What one call of the handler gave.
struct Called {
    /// On how many records it has decided.
    given: usize,
    said: Said,
    replies: Vec<Reply>,
    /// Why it was given none.
    undecodable: Option<DecodeError>,
}

impl Called {
    /// Whether all was handled, and there is nothing to do but to settle it.
    fn leaves_nothing(&self) -> bool {
        self.said == Said::Handled(self.given)
            && self.replies.is_empty()
            && self.undecodable.is_none()
    }
}

impl<T> Delivery<T> {
    /// Room for records of a shard.
    pub(crate) fn of_shard(stream: &str, shard: &str, is_batch: bool) -> Self {
        Self {
            stream: stream.to_owned(),
            shard: shard.to_owned(),
            is_batch,
            payloads: Vec::new(),
            infos: BatchInfo::default(),
            tags: VecDeque::new(),
            behind: VecDeque::new(),
            alone: 0,
            attempt: 0,
            earlier: 0,
            wants_place: false,
            spare: Vec::new(),
            seeker: Seeker::default(),
        }
    }

    /// Lets handlers ask for moves.
    pub(crate) fn with_seeker(mut self, seeker: Seeker) -> Self {
        self.seeker = seeker;
        self
    }

    /// Adds a record that nobody was handed yet.
    pub(crate) fn push(&mut self, item: Item, tag: T) {
        self.tags.push_back(tag);
        if !self.is_batch
            && let Some(last) = self.infos.records.first_mut()
        {
            self.payloads.push(last.turn_to(item));
            return;
        }
        let mut info = self.spare.pop().unwrap_or_else(|| RecordInfo {
            seeker: self.seeker.clone(),
            ..RecordInfo::of_shard(&self.stream, &self.shard)
        });
        self.payloads.push(info.turn_to(item));
        self.infos.records.push(info);
    }

    /// How many records are not settled.
    pub(crate) fn len(&self) -> usize {
        self.tags.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// The tag of the first record that is not settled.
    pub(crate) fn first(&self) -> Option<&T> {
        self.tags.front()
    }

    /// Which records are not settled.
    #[cfg(test)]
    pub(crate) fn sequence_numbers(&self) -> impl Iterator<Item = &str> {
        let infos = self.infos.records.iter().take(self.len());
        infos.map(|info| &*info.sequence_number)
    }

    /// Whether the handler was given it before.
    pub(crate) fn was_tried(&self) -> bool {
        self.times_given() > 0
    }

    /// How often the handler was given it.
    fn times_given(&self) -> u32 {
        self.earlier.saturating_add(self.attempt)
    }

    /// Notes under which lease the records are handed over.
    pub(crate) fn under(&mut self, holder: &Holder) {
        for info in &mut self.infos.records {
            if info.holder.epoch != holder.epoch || info.holder.owner != holder.owner {
                info.holder.clone_from(holder);
            }
        }
    }

    /// Takes back the tags of the first `count` records, which are settled.
    pub(crate) fn settle(&mut self, count: usize) -> impl Iterator<Item = T> {
        if count == self.payloads.len() {
            self.payloads.clear();
        } else {
            self.payloads.drain(..count);
        }
        if self.is_batch {
            self.spare.extend(self.infos.records.drain(..count));
            self.spare.truncate(SPARE);
        }
        if self.payloads.is_empty() {
            let next = if self.alone > 0 { 1 } else { self.behind.len() };
            self.alone = self.alone.saturating_sub(1);
            for (payload, info) in self.behind.drain(..next) {
                self.payloads.push(payload);
                self.infos.records.push(info);
            }
        }
        if self.payloads.is_empty() {
            self.earlier = 0;
        }
        self.tags.drain(..count)
    }

    /// Hands the records to the handler once more, and does what follows from what it says, but for the settling.
    /// What a person should know of it is said here.
    pub(crate) async fn attempt(&mut self, with: With<'_>) -> Next {
        self.attempt = self.attempt.saturating_add(1);
        let called = self.call(with.handling).await;
        if called.leaves_nothing() {
            return self.go_on(called.given, called.given);
        }
        // Boxed: every record in hand would have room for what seldom happens otherwise.
        Box::pin(self.follow_up(called, with)).await
    }

    /// Does what follows from a call.
    async fn follow_up(&mut self, called: Called, with: With<'_>) -> Next {
        let attempt = self.attempt;
        let Called {
            given,
            mut said,
            replies,
            undecodable,
        } = called;
        if !replies.is_empty() {
            let stored = with.handling.publish(replies, self.storing(with)).await;
            if let Err(NotStored::Hopeless(error)) = stored {
                said = Said::retry(format!("what it wants published cannot be stored: {error}"));
                if attempt.is_power_of_two() {
                    let info = &self.infos.records[0];
                    with.reports.report(&KinesisError::NotStored {
                        stream: info.stream.clone(),
                        shard: info.shard.clone(),
                        sequence_number: info.sequence_number.clone(),
                        source: Box::new(error),
                    });
                }
            }
        }
        if let Said::Handled(handled) = said
            && handled > given
        {
            let (stream, shard) = (&self.stream, &self.shard);
            tracing::warn!(
                stream,
                shard,
                handled,
                given,
                "the handler handled more records than it was given"
            );
        }
        let policy = &with.handling.policy;
        let Judgement { handled, mut then } = judge(policy, said, given, attempt, with.random);
        // The record behind those that were given has its turn once they are settled.
        let undecodable = undecodable.filter(|_| handled == given && then == Then::Afresh);
        let is_undecodable = undecodable.is_some();
        if let Some(error) = undecodable {
            if given > 0 {
                (self.earlier, self.attempt) = (0, 1);
            }
            let attempt = self.attempt;
            let reason = || error.to_string().into();
            then = judge_undecodable(policy, reason, attempt, with.random);
            with.reports.report(&KinesisError::Undecodable {
                stream: self.stream.clone(),
                shard: self.shard.clone(),
                sequence_number: self.infos.records[given].sequence_number.clone(),
                fate: fate(&then),
                source: error.clone(),
            });
        }
        match then {
            Then::Afresh => self.go_on(handled, given),
            Then::Drop(records) => {
                self.dropped(handled..handled + records, is_undecodable);
                self.go_on(handled + records, given)
            }
            Then::DeadLetter { records, reason } => {
                let mut settled = handled;
                for place in handled..handled + records {
                    if !self.give_up(place, &reason, with).await {
                        break;
                    }
                    settled += 1;
                }
                self.go_on(settled, given)
            }
            Then::Again(again) => self.again(handled, given, again, with.reports),
        }
    }

    async fn call(&self, handling: &Handling) -> Called {
        let (payloads, attempt) = (&self.payloads, self.times_given());
        if self.is_batch {
            let called = handling
                .handler
                .deliver_batch(payloads, attempt, &self.infos)
                .await;
            let DeliveredBatch {
                given,
                verdict,
                undecodable,
                replies,
                ..
            } = called;
            self.say(&verdict);
            return Called {
                given,
                said: verdict.map_or(Said::Handled(given), |verdict| Said::by(verdict, given)),
                replies,
                undecodable,
            };
        }
        let called = handling
            .handler
            .deliver(&payloads[0], attempt, &self.infos.records[0])
            .await;
        let Delivered {
            verdict, replies, ..
        } = called;
        if let Verdict::Undecodable(error) = verdict {
            return Called {
                given: 0,
                said: Said::Handled(0),
                replies,
                undecodable: Some(error),
            };
        }
        let verdict = Some(verdict);
        self.say(&verdict);
        Called {
            given: 1,
            said: verdict.map_or(Said::Handled(0), |verdict| Said::by(verdict, 1)),
            replies,
            undecodable: None,
        }
    }

    fn say(&self, verdict: &Option<Verdict>) {
        if let Some(Verdict::Panicked(message)) = verdict {
            let RecordInfo {
                stream,
                shard,
                sequence_number,
                ..
            } = &self.infos.records[0];
            let attempt = self.times_given();
            tracing::error!(
                stream,
                shard,
                sequence_number,
                attempt,
                message,
                "the handler panicked; the record is tried again"
            );
        }
    }

    fn storing<'a>(&'a self, with: With<'a>) -> Storing<'a> {
        Storing {
            reports: with.reports,
            lost: with.lost,
            info: &self.infos.records[0],
        }
    }

    /// So many records are settled, out of those that the handler was given; nothing is decided of the others.
    fn go_on(&mut self, settled: usize, given: usize) -> Next {
        if settled < given {
            self.earlier = self.times_given();
        } else if self.alone == 0 {
            self.earlier = 0;
        }
        self.attempt = 0;
        self.wants_place = false;
        Next {
            settled,
            pause: Duration::ZERO,
        }
    }

    fn again(&mut self, handled: usize, given: usize, again: Again, reports: &Reports) -> Next {
        let info = &self.infos.records[handled];
        let RecordInfo {
            stream,
            shard,
            sequence_number,
            ..
        } = info;
        if handled > 0 {
            self.earlier = self.times_given() - 1;
            self.attempt = 1;
            self.wants_place = false;
        }
        let attempt = self.attempt;
        let pause = again.pause;
        let is_said_aloud = attempt.is_power_of_two();
        let wanted_place = self.wants_place;
        self.wants_place |= again.for_want_of_a_place.is_some();
        match again.for_want_of_a_place {
            Some(reason) if is_said_aloud || !wanted_place => {
                reports.report(&KinesisError::NoDeadLetters {
                    stream: stream.clone(),
                    shard: shard.clone(),
                    sequence_number: sequence_number.clone(),
                    attempts: attempt,
                    reason: reason.into_owned(),
                })
            }
            _ if attempt >= RETRIED_OFTEN && is_said_aloud => tracing::warn!(
                stream,
                shard,
                sequence_number,
                attempt,
                "a record is retried again and again, and those behind it wait"
            ),
            _ => tracing::debug!(
                stream,
                shard,
                sequence_number,
                attempt,
                ?pause,
                "to be tried again"
            ),
        }
        if again.alone {
            self.earlier = self.times_given();
            self.attempt = 0;
            self.alone = given.saturating_sub(1);
            let records = self.payloads.drain(1..).zip(self.infos.records.drain(1..));
            self.behind.extend(records);
        }
        Next {
            settled: handled,
            pause,
        }
    }

    /// Stores a record among the dead letters; `false` where the lease is lost meanwhile.
    async fn give_up(&self, place: usize, reason: &str, with: With<'_>) -> bool {
        let info = &self.infos.records[place];
        let storing = Storing {
            info,
            ..self.storing(with)
        };
        let stored = with
            .handling
            .give_up(&self.payloads[place], self.times_given(), reason, storing)
            .await;
        if stored.is_err() {
            return false;
        }
        let RecordInfo {
            stream,
            shard,
            sequence_number,
            ..
        } = info;
        let attempts = self.times_given();
        metrics::counter!("kinesis_dead_letters_total", "stream" => stream.clone()).increment(1);
        tracing::warn!(
            stream,
            shard,
            sequence_number,
            attempts,
            reason,
            "a record was stored among the dead letters"
        );
        true
    }

    /// Counts records that are settled without having been handled, under the name that the crate's documentation
    /// gives, and says which.
    fn dropped(&self, records: Range<usize>, is_undecodable: bool) {
        let by = if is_undecodable {
            "undecodable"
        } else {
            "handler"
        };
        let stream = self.stream.clone();
        metrics::counter!("kinesis_records_dropped_total", "stream" => stream, "by" => by)
            .increment(records.len() as u64);
        if is_undecodable {
            return;
        }
        for info in &self.infos.records[records] {
            let RecordInfo {
                stream,
                shard,
                sequence_number,
                ..
            } = info;
            tracing::warn!(
                stream,
                shard,
                sequence_number,
                "the handler dropped a record"
            );
        }
    }
}

/// What becomes of a record that cannot be decoded.
fn fate(then: &Then) -> &'static str {
    match then {
        Then::Drop(_) => "was dropped",
        Then::DeadLetter { .. } => "goes to the dead letters",
        Then::Again(_) | Then::Afresh => "is tried again",
    }
}
