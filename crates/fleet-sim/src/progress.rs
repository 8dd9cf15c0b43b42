//! How far a fleet has come in what there is to be handled, looked at while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lease_core::LeaseKey;
use rstream::HandlerOutcome;

use crate::history::{DeliveryId, Event, Recorder, Sequence};

/// A fleet in which nobody has been at work for so long has nothing left that it would work on: no handler of a plan
/// takes so long, nor a take-over after it.
const IDLE: Duration = Duration::from_secs(60);

/// What is settled so far.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    seen: usize,
    handed: BTreeMap<DeliveryId, (LeaseKey, Sequence)>,
    settled: BTreeSet<(LeaseKey, Sequence)>,
    /// When something was last handed over or settled.
    at_work_at: Duration,
}

impl Progress {
    /// Takes in what has happened since the last time.
    pub(crate) fn take_in(&mut self, recorder: &Recorder, now: Duration) {
        let Self {
            seen,
            handed,
            settled,
            at_work_at,
        } = self;
        recorder.since(*seen, |event| {
            *seen += 1;
            match event {
                Event::Handed(delivery) => {
                    *at_work_at = now;
                    let record = (delivery.key.clone(), delivery.sequence.clone());
                    handed.insert(delivery.id, record);
                }
                Event::Said { delivery, outcome } => {
                    *at_work_at = now;
                    let settles = [HandlerOutcome::ack(), HandlerOutcome::drop()].map(Some);
                    let record = handed.remove(delivery);
                    settled.extend(record.filter(|_| settles.contains(outcome)));
                }
                _ => {}
            }
        });
    }

    /// Whether everything that is stored is settled, or nobody is at work any more: of a stream that is read from its
    /// tip some records are nobody's.
    pub(crate) fn is_complete(
        &self,
        stored: impl IntoIterator<Item = (LeaseKey, Sequence)>,
        now: Duration,
    ) -> bool {
        now > self.at_work_at + IDLE
            || stored
                .into_iter()
                .all(|record| self.settled.contains(&record))
    }
}
