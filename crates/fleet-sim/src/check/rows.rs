//! What the calls that took effect made of the store's rows, by the contract of the trait and not by any store.
//!
//! Where a store breaks the contract this follows its answer, so that one breach does not hide the next; what was
//! wrong is noted beside it.

use std::collections::HashMap;
use std::time::Duration;

use lease_core::{Checkpoint, Holder};

use crate::check::LEASE;
use crate::check::facts::{Call, Moment};
use crate::history::{Answer, Ask, InstanceId, Sequence};

/// An acquisition that was granted.
#[derive(Debug)]
pub(super) struct Grant<'h> {
    pub(super) shard: usize,
    pub(super) holder: &'h Holder,
    pub(super) instance: InstanceId,
    pub(super) took: Moment,
    /// When it took effect, and each accepted renewal of it.
    pub(super) renewed: Vec<Moment>,
    pub(super) ended: Option<(Moment, Ended)>,
    /// When the instance heard that it holds the lease, and the latest sending of what it had heard of by then.
    heard: Vec<(Moment, Duration)>,
}

/// How an acquisition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By this call.
    Released(usize),
    /// By the next acquisition.
    Taken,
    /// With its row.
    Forgotten,
}

impl Grant<'_> {
    /// Until when its lease is live, by what had taken effect before this moment.
    pub(super) fn live_until(&self, moment: Moment) -> Duration {
        let before = self.renewed.partition_point(|renewed| *renewed < moment);
        self.renewed[..before]
            .last()
            .map_or(Duration::ZERO, |renewed| renewed.at + LEASE)
    }

    /// When the newest call was sent by which the instance, at this moment, knew that it holds the lease.
    pub(super) fn relied_on(&self, moment: Moment) -> Option<Duration> {
        let before = self.heard.partition_point(|(heard, _)| *heard < moment);
        self.heard[..before].last().map(|(_, sent)| *sent)
    }

    /// Whether it has the row at this moment, live or expired.
    pub(super) fn is_present(&self, moment: Moment) -> bool {
        self.took < moment && self.ended.is_none_or(|(ended, _)| ended > moment)
    }
}

/// What one call did, one of the times that it took effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect {
    pub(super) at: Moment,
    pub(super) call: usize,
    pub(super) did: Did,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    /// It was granted the lease.
    Granted {
        grant: usize,
        /// The epoch that was due.
        due: u64,
        /// Until when the lease of the holder before was live, which had not released it.
        live_until: Option<Duration>,
    },
    /// Something was accepted from the present holder.
    Accepted { grant: usize },
    /// Something was accepted from somebody who is not the present holder.
    AcceptedStale,
    /// The present holder was refused.
    Refused,
    /// The second time it was answered otherwise than the first, though its holder had the row both times.
    AnsweredOtherwise,
    /// The row was forgotten; whether it was finished and nobody held it, or there was none.
    Forgot { rightly: bool },
}

/// The rows through the whole history.
#[derive(Debug, Default)]
pub(super) struct Rows<'h> {
    /// In the order in which they were granted.
    pub(super) grants: Vec<Grant<'h>>,
    /// In the order in which they took effect; calls that changed nothing by right are left out.
    pub(super) effects: Vec<Effect>,
    /// By shard: its acquisitions.
    pub(super) of_shard: Vec<Vec<usize>>,
    /// By shard: its checkpoint from each moment on; none where the row was forgotten.
    pub(super) checkpoints: Vec<Vec<(Moment, Option<&'h Checkpoint>)>>,
    by_epoch: HashMap<(usize, u64), Vec<usize>>,
}

#[derive(Clone, Debug, Default)]
struct Row {
    epoch: u64,
    present: Option<usize>,
    /// When the checkpoint of the present holder was sent that took effect.
    checkpoint_sent: Option<Moment>,
}

impl<'h> Rows<'h> {
    /// Replays all calls, which are in the order of their sending.
    pub(super) fn replay(calls: &[Call<'h>], shards: usize) -> Self {
        let mut rows = Self {
            of_shard: vec![Vec::new(); shards],
            checkpoints: vec![Vec::new(); shards],
            ..Self::default()
        };
        let mut took: Vec<_> = (calls.iter().enumerate())
            .flat_map(|(call, facts)| {
                let times = facts.took.iter().enumerate();
                times.map(move |(time, (at, answer))| (*at, call, time, *answer))
            })
            .collect();
        took.sort_by_key(|(at, ..)| *at);
        let mut state = vec![Row::default(); shards];
        // Who had the row when a call took effect for the first time.
        let mut first = HashMap::new();
        for (at, call, time, answer) in took {
            let Some(shard) = calls[call].shard else {
                continue;
            };
            let row = &mut state[shard];
            let present = row.present;
            let before = (time > 0)
                .then(|| first.get(&call).copied().flatten())
                .flatten();
            first.entry(call).or_insert(present);
            let again = (time > 0).then(|| calls[call].took[0].1);
            let did = rows.take(row, (&calls[call], call), shard, at, answer, again);
            let holder = calls[call].ask.holder();
            let stays = holder.is_some_and(|holder| rows.has(present, holder)) && before == present;
            let did = match again {
                Some(again)
                    if stays && again != answer && !is_failure(again) && !is_failure(answer) =>
                {
                    Some(Did::AnsweredOtherwise)
                }
                _ => did,
            };
            rows.effects.extend(did.map(|did| Effect { at, call, did }));
        }
        rows.take_in_answers(calls);
        rows
    }

    fn has(&self, present: Option<usize>, holder: &Holder) -> bool {
        present.is_some_and(|grant| self.grants[grant].holder == holder)
    }

    fn take(
        &mut self,
        row: &mut Row,
        (call, number): (&Call<'h>, usize),
        shard: usize,
        at: Moment,
        answer: &'h Answer,
        again: Option<&Answer>,
    ) -> Option<Did> {
        let holds = call
            .ask
            .holder()
            .and_then(|holder| row.present.filter(|_| self.has(row.present, holder)));
        match (call.ask, answer) {
            (Ask::Acquire { .. }, Answer::Granted(holder)) => {
                // A store may answer a call whose answer was lost with the lease that it was granted.
                if self.has(row.present, holder)
                    && row
                        .present
                        .is_some_and(|grant| self.grants[grant].instance == call.instance)
                {
                    return None;
                }
                let due = row.epoch + 1;
                let live_until = row.present.map(|grant| self.grants[grant].live_until(at));
                self.end(row, at, Ended::Taken);
                *row = Row {
                    epoch: holder.epoch,
                    present: Some(self.grants.len()),
                    checkpoint_sent: None,
                };
                let grant = self.grants.len();
                self.of_shard[shard].push(grant);
                self.by_epoch
                    .entry((shard, holder.epoch))
                    .or_default()
                    .push(grant);
                self.grants.push(Grant {
                    shard,
                    holder,
                    instance: call.instance,
                    took: at,
                    renewed: vec![at],
                    ended: None,
                    heard: Vec::new(),
                });
                Some(Did::Granted {
                    grant,
                    due,
                    live_until,
                })
            }
            (Ask::Renew { .. }, Answer::Yes) => match holds {
                Some(grant) => {
                    self.grants[grant].renewed.push(at);
                    Some(Did::Accepted { grant })
                }
                None => (again != Some(answer)).then_some(Did::AcceptedStale),
            },
            (Ask::Renew { .. } | Ask::Checkpoint { .. }, Answer::No) => holds.map(|_| Did::Refused),
            (Ask::Checkpoint { at: position, .. }, Answer::Yes) => {
                let is_newest = row.checkpoint_sent.is_none_or(|newest| call.sent > newest);
                match holds {
                    Some(grant) => {
                        if is_newest {
                            row.checkpoint_sent = Some(call.sent);
                            self.checkpoints[shard].push((at, Some(position)));
                        }
                        Some(Did::Accepted { grant })
                    }
                    None if again == Some(answer) => None,
                    None => {
                        self.checkpoints[shard].push((at, Some(position)));
                        Some(Did::AcceptedStale)
                    }
                }
            }
            // It is answered so to everybody, and changes the row for the present holder alone.
            (Ask::Release { .. }, Answer::Yes) => holds.map(|grant| {
                self.end(row, at, Ended::Released(number));
                Did::Accepted { grant }
            }),
            (Ask::Forget { .. }, Answer::Yes) => {
                let checkpoint = self.checkpoints[shard]
                    .last()
                    .and_then(|(_, checkpoint)| *checkpoint);
                let is_row = row.epoch > 0;
                let is_finished = checkpoint.is_some_and(Checkpoint::is_shard_end);
                let rightly = !is_row || (is_finished && row.present.is_none());
                self.end(row, at, Ended::Forgotten);
                *row = Row::default();
                if checkpoint.is_some() {
                    self.checkpoints[shard].push((at, None));
                }
                Some(Did::Forgot { rightly })
            }
            _ => None,
        }
    }

    fn end(&mut self, row: &mut Row, at: Moment, how: Ended) {
        if let Some(grant) = row.present.take() {
            self.grants[grant].ended = Some((at, how));
        }
    }

    /// Notes what each holder heard of its lease.
    fn take_in_answers(&mut self, calls: &[Call<'h>]) {
        let mut answered: Vec<_> = (calls.iter())
            .filter_map(|call| {
                let (at, answer) = call.answered?;
                let holder = match (call.ask, answer) {
                    (Ask::Acquire { .. }, Answer::Granted(holder)) => holder,
                    (Ask::Renew { holder, .. }, Answer::Yes) => holder,
                    _ => return None,
                };
                Some((at, call, holder))
            })
            .collect();
        answered.sort_by_key(|(at, ..)| *at);
        for (at, call, holder) in answered {
            let Some(shard) = call.shard else { continue };
            let Some(grant) = self.grant_of(shard, holder.epoch, at) else {
                continue;
            };
            let grant = &mut self.grants[grant];
            if grant.instance != call.instance || grant.holder != holder {
                continue;
            }
            let newest = grant
                .heard
                .last()
                .map_or(call.sent.at, |(_, sent)| call.sent.at.max(*sent));
            grant.heard.push((at, newest));
        }
    }

    /// The acquisition that had this epoch last before this moment.
    pub(super) fn grant_of(&self, shard: usize, epoch: u64, before: Moment) -> Option<usize> {
        let grants = self.by_epoch.get(&(shard, epoch))?;
        let granted = grants.partition_point(|grant| self.grants[*grant].took < before);
        grants[..granted].last().copied()
    }

    /// The acquisition that has the row at this moment, live or expired.
    pub(super) fn present(&self, shard: usize, moment: Moment) -> Option<usize> {
        let grants = &self.of_shard[shard];
        let granted = grants.partition_point(|grant| self.grants[*grant].took < moment);
        grants[..granted]
            .last()
            .copied()
            .filter(|grant| self.grants[*grant].is_present(moment))
    }

    /// The checkpoint in the row at this moment.
    pub(super) fn checkpoint(&self, shard: usize, moment: Moment) -> Option<&'h Checkpoint> {
        let checkpoints = &self.checkpoints[shard];
        let written = checkpoints.partition_point(|(at, _)| *at < moment);
        checkpoints[..written]
            .last()
            .and_then(|(_, checkpoint)| *checkpoint)
    }

    /// Whether the shard was read to its end before this moment. It stays so when its row is forgotten.
    pub(super) fn is_finished(&self, shard: usize, moment: Moment) -> bool {
        let checkpoints = &self.checkpoints[shard];
        let written = checkpoints.partition_point(|(at, _)| *at < moment);
        checkpoints[..written]
            .iter()
            .rev()
            .find_map(|(_, checkpoint)| *checkpoint)
            .is_some_and(Checkpoint::is_shard_end)
    }
}

/// Whether a record lies at or before a checkpoint.
pub(super) fn covers(checkpoint: &Checkpoint, sequence: &Sequence) -> bool {
    checkpoint.is_shard_end()
        || checkpoint
            .sequence()
            .is_some_and(|last| *sequence <= Sequence(last.to_owned()))
}

fn is_failure(answer: &Answer) -> bool {
    matches!(answer, Answer::Failed(_))
}
