//! The faults in force. It alone knows which of them strike a call, and what several of them do together.

use std::time::Duration;

use super::{Fault, Kind};
use crate::clock::Timestamp;
use crate::error::ServiceError;
use crate::operation::Operation;

/// What a call is aimed at, whether or not that exists.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) operation: Operation,
    pub(crate) stream: Option<String>,
    pub(crate) shards: Vec<String>,
}

impl Target {
    pub(crate) fn new(
        operation: Operation,
        stream: Option<String>,
        shards: impl IntoIterator<Item = String>,
    ) -> Self {
        Self {
            operation,
            stream,
            shards: shards.into_iter().collect(),
        }
    }
}

/// Entries of one PutRecords call that are to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartialFailure {
    pub(crate) entries: usize,
    pub(crate) shard: Option<String>,
}

impl Fault {
    fn matches(&self, call: &Target) -> bool {
        let operation = self.operations.is_empty() || self.operations.contains(&call.operation);
        let stream = self.stream.is_none() || self.stream == call.stream;
        let shard = self
            .shard
            .as_ref()
            .is_none_or(|shard| call.shards.contains(shard));
        let kind =
            !matches!(self.kind, Kind::Partial(_)) || call.operation == Operation::PutRecords;
        operation && stream && shard && kind
    }
}

/// What becomes of a call.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    Served {
        partial: Option<PartialFailure>,
        answer_lost: bool,
    },
    Refused(ServiceError),
    TimedOut,
    Reset,
    Hung,
}

/// What the faults do to one call.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) fate: Fate,
    pub(crate) delay: Duration,
    pub(crate) answer_delay: Duration,
}

impl Verdict {
    pub(crate) fn of(fate: Fate) -> Self {
        Self {
            fate,
            delay: Duration::ZERO,
            answer_delay: Duration::ZERO,
        }
    }

    pub(crate) fn served() -> Self {
        Self::of(Fate::Served {
            partial: None,
            answer_lost: false,
        })
    }
}

/// The faults in force, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultBook {
    faults: Vec<(Fault, Option<Timestamp>)>,
    struck: u64,
}

impl FaultBook {
    pub(crate) fn inject(&mut self, fault: Fault, now: Timestamp) {
        let until = fault.duration.map(|duration| now.plus(duration));
        self.faults.push((fault, until));
    }

    pub(crate) fn clear(&mut self) {
        self.faults.clear();
    }

    pub(crate) fn struck(&self) -> u64 {
        self.struck
    }

    /// Delays add up; of the others, the oldest that strikes decides.
    pub(crate) fn judge(
        &mut self,
        call: &Target,
        rng: &mut fastrand::Rng,
        now: Timestamp,
    ) -> Verdict {
        self.faults.retain(|(fault, until)| {
            until.is_none_or(|until| now < until) && fault.times != Some(0)
        });
        let mut verdict = Verdict::served();
        for (fault, _) in &mut self.faults {
            if !fault.matches(call) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            if fault.rate.is_some_and(|rate| rng.f64() >= rate) {
                continue;
            }
            if let Some(times) = &mut fault.times {
                *times -= 1;
            }
            self.struck += 1;
            verdict.fate = match &fault.kind {
                Kind::Delay(by) => {
                    verdict.delay += *by;
                    continue;
                }
                Kind::LateAnswer(by) => {
                    verdict.answer_delay += *by;
                    continue;
                }
                Kind::Refuse(error) => Fate::Refused(error.clone()),
                Kind::Timeout => Fate::TimedOut,
                Kind::Reset => Fate::Reset,
                Kind::Hang => Fate::Hung,
                Kind::LostAnswer => Fate::Served {
                    partial: None,
                    answer_lost: true,
                },
                Kind::Partial(entries) => {
                    let partial = PartialFailure {
                        entries: *entries,
                        shard: fault.shard.clone(),
                    };
                    Fate::Served {
                        partial: Some(partial),
                        answer_lost: false,
                    }
                }
            };
            break;
        }
        verdict
    }
}
