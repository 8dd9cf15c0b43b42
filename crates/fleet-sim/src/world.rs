//! The world that all instances live in: the simulated Kinesis, the store behind the lines, the trouble that both
//! meet with, and what happens to streams and shards. All of it runs in one runtime, on a clock that is right.

pub(crate) mod producer;
mod reshard;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::SharedHttpClient;
use kinesis_sim::{Fault, KinesisSim, Operation};
use lease_core::{Holder, LeaseKey};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::clock::{Clock, epoch};
use crate::history::{CallId, Event, History, InstanceId, Record, Recorder, Sequence, Shard};
use crate::plan::{KinesisTrouble, Plan, Trouble, draw};
use crate::wire::Parcel;

/// The stream that every fleet reads.
pub(crate) const STREAM: &str = "inventory";

/// What becomes of a call on its way.
pub(crate) struct Fate {
    pub(crate) on_the_way: Duration,
    pub(crate) trouble: Option<Trouble>,
    pub(crate) on_the_way_back: Duration,
}

/// Rounded up to what tokio's timers count in, so that nothing takes effect before it was sent.
fn whole_millis(at: Duration) -> Duration {
    Duration::from_millis(u64::try_from(at.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// The world, as calls and mishaps find it.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) clock: Clock,
    pub(crate) kinesis: KinesisSim,
    recorder: Recorder,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rng: fastrand::Rng,
    /// Of a thousand calls, how many meet with trouble at any time.
    noise: u32,
    spells: Vec<Spell>,
    /// The checkpoint call sent last of those that each holder's took effect.
    landed: HashMap<(LeaseKey, Holder), CallId>,
    /// Records that passed out of retention, which the service no longer shows.
    trimmed: Vec<Record>,
    /// Every shard that there ever was, in the order in which they were made.
    shards: Vec<Shard>,
}

/// A time of trouble.
#[derive(Debug)]
struct Spell {
    until: Duration,
    victim: Option<InstanceId>,
    trouble: Trouble,
}

impl Service {
    /// The world of a plan, in the runtime that runs it.
    pub(crate) fn new(plan: &Plan, recorder: Recorder) -> Arc<Self> {
        let mut rng = fastrand::Rng::with_seed(plan.seed ^ 0x5EED_0F7E_0CE4_17D0);
        let kinesis = KinesisSim::builder()
            .seed(rng.u64(..))
            .wall_clock(epoch())
            .latency_between(Duration::from_millis(1), Duration::from_millis(30))
            .build();
        kinesis.create_stream(STREAM, plan.shards);
        if plan.kinesis_noise > 0 {
            let rate = f64::from(plan.kinesis_noise) / 1_000.0 / 4.0;
            kinesis.inject(Fault::internal().rate(rate));
            kinesis.inject(Fault::reset().rate(rate));
            kinesis.inject(Fault::throttle().on(Operation::GetRecords).rate(rate));
            kinesis.inject(Fault::lost_answer().rate(rate));
        }
        let service = Arc::new(Self {
            clock: Clock::starting_at(Duration::ZERO, 0),
            kinesis,
            recorder,
            state: Mutex::new(State {
                rng,
                noise: plan.store_noise,
                spells: Vec::new(),
                landed: HashMap::new(),
                trimmed: Vec::new(),
                shards: Vec::new(),
            }),
        });
        service.note_new_shards();
        service
    }

    /// Carries out what arrives, each parcel at the moment at which it was sent.
    pub(crate) async fn serve(self: Arc<Self>, mut parcels: mpsc::UnboundedReceiver<Parcel>) {
        while let Some(Parcel { sent, job }) = parcels.recv().await {
            let service = Arc::clone(&self);
            tokio::spawn(async move {
                sleep_until(service.clock.instant(whole_millis(sent))).await;
                job(service).await;
            });
        }
    }

    pub(crate) fn http_client(&self) -> SharedHttpClient {
        self.kinesis.http_client()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what happens now.
    pub(crate) fn note(&self, event: Event) {
        self.recorder.note(self.clock.now(), event);
    }

    /// What becomes of a call of the store that this instance makes now.
    pub(crate) fn fate_of_call(&self, instance: InstanceId) -> Fate {
        let now = self.clock.now();
        let mut state = self.state();
        let State {
            rng, noise, spells, ..
        } = &mut *state;
        spells.retain(|spell| spell.until > now);
        let spell =
            (spells.iter()).find(|spell| spell.victim.is_none_or(|victim| victim == instance));
        let by_chance = *noise > 0 && rng.u32(0..1_000) < *noise;
        Fate {
            on_the_way: Duration::from_millis(rng.u64(0..=15)),
            trouble: match spell {
                Some(spell) => Some(spell.trouble),
                None => by_chance.then(|| draw::store_trouble(rng)),
            },
            on_the_way_back: Duration::from_millis(rng.u64(0..=15)),
        }
    }

    /// Whether a checkpoint that this holder sent later has taken effect before this one; if not, this one has.
    pub(crate) fn is_overtaken(&self, key: &LeaseKey, holder: &Holder, call: CallId) -> bool {
        let mut state = self.state();
        let landed = state
            .landed
            .entry((key.clone(), holder.clone()))
            .or_insert(call);
        let is_overtaken = *landed > call;
        *landed = call.max(*landed);
        is_overtaken
    }

    /// The store meets with trouble for a while.
    pub(crate) fn trouble(&self, trouble: Trouble, victim: Option<InstanceId>, lasts: Duration) {
        let until = self.clock.now() + lasts;
        self.state().spells.push(Spell {
            until,
            victim,
            trouble,
        });
    }

    /// Kinesis meets with trouble for a while.
    pub(crate) fn kinesis_trouble(&self, trouble: KinesisTrouble, lasts: Duration) {
        let faults = match trouble {
            KinesisTrouble::Throttles => {
                vec![
                    (Fault::throttle().on(Operation::GetRecords), 0.5),
                    (Fault::limit_exceeded().on(Operation::ListShards), 0.5),
                ]
            }
            KinesisTrouble::Fails => vec![(Fault::internal(), 0.3), (Fault::unavailable(), 0.3)],
            KinesisTrouble::Outage => vec![(Fault::reset(), 1.0)],
            KinesisTrouble::Hangs => vec![(Fault::hang(), 0.1)],
            KinesisTrouble::Slow(by) => vec![(Fault::late_answer(by), 0.5)],
            KinesisTrouble::PartialPuts => vec![(Fault::partial(1).on(Operation::PutRecords), 0.5)],
            KinesisTrouble::LosesAnswers => vec![(Fault::lost_answer(), 0.2)],
        };
        for (fault, rate) in faults {
            self.kinesis.inject(fault.rate(rate).for_duration(lasts));
        }
    }

    /// All trouble ends. What is on its way already stays late, or lost.
    pub(crate) fn heal(&self) {
        self.kinesis.clear_faults();
        let mut state = self.state();
        state.noise = 0;
        state.spells.clear();
    }

    /// The records and shards of the whole run.
    pub(crate) fn complete(&self, history: &mut History) {
        let mut records = std::mem::take(&mut self.state().trimmed);
        let listed = self.kinesis.shards(STREAM);
        for shard in &listed {
            records.extend(self.stored(&shard.id));
        }
        records.sort_by(|one, other| one.sequence.cmp(&other.sequence));
        history.records = records;
        history.shards.clone_from(&self.state().shards);
        for shard in &mut history.shards {
            shard.open = listed
                .iter()
                .any(|listed| listed.open && listed.id == shard.key.shard());
        }
    }

    /// The records that the service still stores.
    pub(crate) fn stored_records(&self) -> impl Iterator<Item = (LeaseKey, Sequence)> {
        let shards = self.kinesis.shards(STREAM).into_iter();
        shards.flat_map(|shard| {
            let key = LeaseKey::new(STREAM, &shard.id);
            let records = self.kinesis.records(STREAM, &shard.id).into_iter();
            records.map(move |record| (key.clone(), Sequence(record.sequence_number)))
        })
    }

    fn stored(&self, shard: &str) -> Vec<Record> {
        let records = self.kinesis.records(STREAM, shard).into_iter();
        records
            .map(|record| Record {
                key: LeaseKey::new(STREAM, shard),
                sequence: Sequence(record.sequence_number),
                partition_key: record.partition_key,
                at: record
                    .arrived_at
                    .duration_since(epoch())
                    .unwrap_or_default(),
            })
            .collect()
    }
}
