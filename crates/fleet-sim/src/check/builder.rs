//! Histories written by hand, for the tests of the checks: a shard is a number, an owner is its instance's name, time
//! is where [`Tale::at`] has put it, and every call takes effect and is answered at once unless a test says otherwise.

use std::time::{Duration, UNIX_EPOCH};

use lease_core::{Checkpoint, Holder, LeaseKey};
use rstream::HandlerOutcome;

use crate::check::{Invariant, violations};
use crate::history::{
    Answer, Ask, CallId, Delivery, DeliveryId, Event, History, InstanceId, Record, Sequence, Shard,
};
use crate::plan::{Handlers, Plan, Producer, Reading, Start};

pub(super) struct Tale {
    pub(super) plan: Plan,
    pub(super) history: History,
    now: Duration,
    calls: u64,
    deliveries: u64,
}

pub(super) fn key(shard: usize) -> LeaseKey {
    LeaseKey::new("inventory", format!("shardId-{shard:012}"))
}

pub(super) fn holder(instance: usize, epoch: u64) -> Holder {
    Holder {
        owner: InstanceId(instance).to_string(),
        epoch,
    }
}

pub(super) fn end() -> Checkpoint {
    Checkpoint::shard_end()
}

pub(super) fn moment(seconds: u64) -> Checkpoint {
    Checkpoint::at_timestamp(UNIX_EPOCH + Duration::from_secs(seconds))
}

pub(super) fn seq(number: u64) -> Checkpoint {
    Checkpoint::at(number.to_string())
}

fn seconds(at: f64) -> Duration {
    Duration::from_secs_f64(at)
}

impl Tale {
    /// A run that starts at the oldest record, with nobody in it.
    pub(super) fn new() -> Self {
        let second = Duration::from_secs(1);
        Self {
            plan: Plan {
                seed: 0,
                shards: 1,
                start: Start::TrimHorizon,
                instances: 1,
                drift_ppm: 0,
                producer: Producer {
                    keys: 1,
                    per_second: 1,
                },
                handlers: Handlers {
                    usual: second,
                    slow_in_1000: 0,
                    slow: second,
                    unhappy_in_1000: 0,
                },
                reading: Reading::default(),
                store_noise: 0,
                kinesis_noise: 0,
                mishaps: Vec::new(),
                lasts: Duration::from_secs(60),
            },
            history: History::default(),
            now: Duration::ZERO,
            calls: 0,
            deliveries: 0,
        }
    }

    pub(super) fn at_the_tip() -> Self {
        let mut tale = Self::new();
        tale.plan.start = Start::Latest;
        tale
    }

    /// One open shard, and as many instances, all started at time zero.
    pub(super) fn with(instances: usize) -> Self {
        let mut tale = Self::new();
        tale.shard(0, &[]);
        (0..instances).for_each(|instance| tale.join(instance));
        tale
    }

    /// The violations of one rule.
    pub(super) fn broken(&self, invariant: Invariant) -> Vec<String> {
        let violations = violations(&self.plan, &self.history).into_iter();
        violations
            .filter(|violation| violation.invariant == invariant)
            .map(|violation| violation.text)
            .collect()
    }

    #[track_caller]
    pub(super) fn keeps(&self, invariant: Invariant) {
        assert_eq!(self.broken(invariant), Vec::<String>::new());
    }

    /// There is one violation, and its text contains this.
    #[track_caller]
    pub(super) fn breaks(&self, invariant: Invariant, text: &str) {
        let broken = self.broken(invariant);
        assert_eq!(broken.len(), 1, "{broken:#?}");
        assert!(broken[0].contains(text), "{:?} has no {text:?}", broken[0]);
    }

    pub(super) fn note(&mut self, event: Event) {
        self.history.events.push((self.now, event));
    }

    /// It is so many seconds now.
    pub(super) fn at(&mut self, at: f64) -> &mut Self {
        let at = seconds(at);
        assert!(at >= self.now, "a tale is told in the order of time");
        self.now = at;
        self
    }

    pub(super) fn shard(&mut self, shard: usize, parents: &[usize]) {
        let parents: Vec<_> = parents.iter().map(|parent| key(*parent)).collect();
        for shard in &mut self.history.shards {
            shard.open &= !parents.contains(&shard.key);
        }
        self.history.shards.push(Shard {
            key: key(shard),
            parents: parents.clone(),
            open: true,
        });
        if !parents.is_empty() {
            self.note(Event::Resharded {
                parents,
                children: vec![key(shard)],
            });
        }
    }

    pub(super) fn join(&mut self, instance: usize) {
        let instance = InstanceId(instance);
        self.note(Event::Joined {
            instance,
            owner: instance.to_string(),
        });
        self.note(Event::Started(instance));
    }

    pub(super) fn kill(&mut self, instance: usize) {
        self.note(Event::Killed(InstanceId(instance)));
    }

    pub(super) fn pause(&mut self, instance: usize) {
        self.note(Event::Paused(InstanceId(instance)));
    }

    pub(super) fn wake(&mut self, instance: usize) {
        self.note(Event::Woken(InstanceId(instance)));
    }

    pub(super) fn stop(&mut self, instance: usize) {
        self.note(Event::Stopping(InstanceId(instance)));
    }

    pub(super) fn stopped(&mut self, instance: usize) {
        self.note(Event::Stopped {
            instance: InstanceId(instance),
            tasks: 0,
            kept: 0,
        });
    }

    /// Stores a record of key `k`, now.
    pub(super) fn store(&mut self, shard: usize, sequence: u64) {
        self.store_of(shard, sequence, "k");
    }

    pub(super) fn store_of(&mut self, shard: usize, sequence: u64, partition_key: &str) {
        self.history.records.push(Record {
            key: key(shard),
            sequence: Sequence(sequence.to_string()),
            partition_key: partition_key.to_owned(),
            at: self.now,
        });
    }

    pub(super) fn trim(&mut self, shard: usize, sequences: &[u64]) {
        let records = sequences
            .iter()
            .map(|sequence| Sequence(sequence.to_string()))
            .collect();
        self.note(Event::Trimmed {
            key: key(shard),
            records,
            listed: false,
        });
    }

    pub(super) fn send(&mut self, instance: usize, ask: Ask) -> CallId {
        self.calls += 1;
        let call = CallId(self.calls);
        self.note(Event::Sent {
            call,
            instance: InstanceId(instance),
            ask,
        });
        call
    }

    pub(super) fn took(&mut self, call: CallId, answer: Answer) {
        self.note(Event::Took { call, answer });
    }

    pub(super) fn answered(&mut self, call: CallId, answer: Answer) {
        self.note(Event::Answered { call, answer });
    }

    fn call(&mut self, instance: usize, ask: Ask, answer: Answer) {
        let call = self.send(instance, ask);
        self.took(call, answer.clone());
        self.answered(call, answer);
    }

    pub(super) fn acquire(instance: usize, shard: usize) -> Ask {
        Ask::Acquire {
            key: key(shard),
            owner: InstanceId(instance).to_string(),
        }
    }

    pub(super) fn grant(&mut self, instance: usize, shard: usize, epoch: u64) {
        self.call(
            instance,
            Self::acquire(instance, shard),
            Answer::Granted(holder(instance, epoch)),
        );
    }

    pub(super) fn renewal(instance: usize, shard: usize, epoch: u64) -> Ask {
        Ask::Renew {
            key: key(shard),
            holder: holder(instance, epoch),
        }
    }

    pub(super) fn renew(&mut self, instance: usize, shard: usize, epoch: u64) {
        self.call(instance, Self::renewal(instance, shard, epoch), Answer::Yes);
    }

    /// Renews every 3 s from now until then.
    pub(super) fn renew_until(&mut self, held: &[(usize, usize, u64)], until: f64) {
        let until = seconds(until);
        while self.now + Duration::from_secs(3) <= until {
            self.now += Duration::from_secs(3);
            for (instance, shard, epoch) in held {
                self.renew(*instance, *shard, *epoch);
            }
        }
        self.now = until;
    }

    pub(super) fn position(instance: usize, shard: usize, epoch: u64, at: Checkpoint) -> Ask {
        Ask::Checkpoint {
            key: key(shard),
            holder: holder(instance, epoch),
            at,
        }
    }

    pub(super) fn checkpoint(&mut self, instance: usize, shard: usize, epoch: u64, at: Checkpoint) {
        self.call(
            instance,
            Self::position(instance, shard, epoch, at),
            Answer::Yes,
        );
    }

    pub(super) fn giving_back(instance: usize, shard: usize, epoch: u64) -> Ask {
        Ask::Release {
            key: key(shard),
            holder: holder(instance, epoch),
        }
    }

    pub(super) fn release(&mut self, instance: usize, shard: usize, epoch: u64) {
        self.call(
            instance,
            Self::giving_back(instance, shard, epoch),
            Answer::Yes,
        );
    }

    pub(super) fn hand(
        &mut self,
        instance: usize,
        shard: usize,
        epoch: u64,
        sequence: u64,
    ) -> DeliveryId {
        self.deliveries += 1;
        let id = DeliveryId(self.deliveries);
        let sequence = Sequence(sequence.to_string());
        let mut stored = self.history.records.iter();
        let stored = stored.find(|record| record.sequence == sequence);
        let partition_key = stored
            .map_or("k", |record| &record.partition_key)
            .to_owned();
        self.note(Event::Handed(Delivery {
            id,
            instance: InstanceId(instance),
            key: key(shard),
            epoch,
            sequence,
            partition_key,
            attempt: 1,
        }));
        id
    }

    /// A read that was sent then and brings these records now.
    pub(super) fn fetch(&mut self, instance: usize, sent: f64, sequences: &[u64]) {
        let records = sequences.iter();
        self.note(Event::Fetched {
            instance: InstanceId(instance),
            sent: seconds(sent),
            records: records
                .map(|sequence| Sequence(sequence.to_string()))
                .collect(),
        });
    }

    pub(super) fn say(&mut self, delivery: DeliveryId, outcome: HandlerOutcome) {
        self.note(Event::Said {
            delivery,
            outcome: Some(outcome),
        });
    }

    /// Hands a record over, which is acknowledged at once.
    pub(super) fn settle(&mut self, instance: usize, shard: usize, epoch: u64, sequence: u64) {
        let delivery = self.hand(instance, shard, epoch, sequence);
        self.say(delivery, HandlerOutcome::ack());
    }

    /// Settles a record, and checkpoints it.
    pub(super) fn handle(&mut self, instance: usize, shard: usize, epoch: u64, sequence: u64) {
        self.settle(instance, shard, epoch, sequence);
        self.checkpoint(instance, shard, epoch, seq(sequence));
    }
}
