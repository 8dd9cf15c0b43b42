//! Runs a plan: every instance in a runtime of its own, the world in another, all on paused clocks that one thread
//! drives forward side by side in small steps.
//!
//! In each step every instance runs to the step's end, in an order that the seed draws; then the world does, and
//! carries out what they sent, each call at the moment at which it was sent; then come the mishaps. An instance that
//! is paused is simply not run, and one that is killed loses its runtime: there is no hook in the product for either.
//!
//! In real time the runtimes run by themselves, and a step is a look at what has happened.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use lease_core::{LeaseKey, LeaseStore};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::drive::{self, Drive, Pace};
use crate::history::{Event, History, InstanceId, Recorder};
use crate::instance::{Birth, Instance};
use crate::plan::{Mishap, Plan, What};
use crate::progress::Progress;
use crate::wire::Parcel;
use crate::world::{Service, producer};

/// The step in which the clocks are driven forward, and the least time that an answer takes.
const STEP: Duration = Duration::from_millis(10);
/// How many instances there may be at a time.
const CROWD: usize = 6;
/// How long the fleet is watched after all is healed.
const REST: Duration = Duration::from_secs(95);
/// How long it may take, at most, to catch up after all is healed.
const CATCH_UP: Duration = Duration::from_secs(300);
/// How long everybody may take to stop.
const STOPPING: Duration = Duration::from_secs(90);

/// Opens the store for an instance.
pub(crate) type Stores = Box<dyn FnMut(InstanceId) -> Arc<dyn LeaseStore>>;

/// Runs the plan to its end.
pub(crate) fn run(plan: &Plan, pace: Pace, stores: Stores) -> History {
    // The SDK draws the jitter of its retries from the thread's generator.
    fastrand::seed(plan.seed);
    Conductor::new(plan, pace, stores).run()
}

struct Conductor<'a> {
    plan: &'a Plan,
    pace: Pace,
    stores: Stores,
    rng: Rng,
    recorder: Recorder,
    now: Duration,
    instances: Vec<Instance>,
    /// Who is paused, and until when.
    paused: BTreeMap<InstanceId, Duration>,
    /// The names of those that were killed, and that nobody has taken yet.
    free_names: Vec<String>,
    joined: usize,
    out: mpsc::UnboundedSender<Parcel>,
    service: Arc<Service>,
    /// Last, so that whatever else is dropped finds its world.
    world: Runtime,
}

/// The runtime of the world: of a thread that drives it, or of threads of its own.
fn runtime_of_world(pace: Pace) -> Runtime {
    match pace {
        Pace::Stepped => drive::stepped(),
        Pace::Real => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("there are resources for a runtime"),
    }
}

impl<'a> Conductor<'a> {
    fn new(plan: &'a Plan, pace: Pace, stores: Stores) -> Self {
        let recorder = Recorder::default();
        let world = runtime_of_world(pace);
        let (out, parcels) = mpsc::unbounded_channel();
        let service = {
            let _in = world.enter();
            Service::new(plan, recorder.clone())
        };
        world.spawn(Arc::clone(&service).serve(parcels));
        Self {
            plan,
            pace,
            stores,
            rng: Rng::with_seed(plan.seed ^ 0xC0DD_0C70_12A6_B5E3),
            recorder,
            now: Duration::ZERO,
            instances: Vec::new(),
            paused: BTreeMap::new(),
            free_names: Vec::new(),
            joined: 0,
            out,
            service,
            world,
        }
    }

    fn run(mut self) -> History {
        for _ in 0..self.plan.instances {
            self.join(false);
        }
        let producer = producer::produce(
            Arc::clone(&self.service),
            self.plan.producer,
            self.rng.u64(..),
            self.plan.lasts,
        );
        let producer = self.world.spawn(producer);
        for Mishap { at, what } in &self.plan.mishaps {
            self.run_until(*at);
            self.strike(what);
        }
        self.run_until(self.plan.lasts);
        self.heal();
        let healed = self.now;
        while !producer.is_finished() {
            self.step();
        }
        let mut progress = Progress::default();
        while self.now < healed + REST
            || (!self.is_caught_up(&mut progress) && self.now < healed + CATCH_UP)
        {
            self.step();
        }
        self.stop_all();
        self.finish()
    }

    /// Whether the fleet has nothing left to do, which is looked at once a second.
    fn is_caught_up(&self, progress: &mut Progress) -> bool {
        if self.pace == Pace::Stepped && self.now.subsec_millis() != 0 {
            return false;
        }
        let _in = self.world.enter();
        progress.take_in(&self.recorder, self.now);
        progress.is_complete(self.service.stored_records(), self.now)
    }

    fn run_until(&mut self, at: Duration) {
        while self.now < at {
            self.step();
        }
    }

    fn step(&mut self) {
        let clock = self.service.clock;
        if self.pace == Pace::Real {
            #[expect(
                clippy::disallowed_methods,
                reason = "this thread has nothing else to do"
            )]
            std::thread::sleep(STEP);
        }
        let now = match self.pace {
            Pace::Stepped => self.now + STEP,
            Pace::Real => clock.now(),
        };
        self.now = now;
        while let Some((&id, _)) = self.paused.iter().find(|(_, until)| **until <= now) {
            self.wake(id);
        }
        self.rng.shuffle(&mut self.instances);
        for instance in &self.instances {
            if !self.paused.contains_key(&instance.id) {
                instance.run_until(now);
            }
        }
        if self.pace == Pace::Stepped {
            self.world
                .block_on(async { tokio::time::sleep_until(clock.instant(now)).await });
        }
        self.collect();
    }

    /// Looks after those whose shutdown has returned.
    fn collect(&mut self) {
        let paused = &self.paused;
        let (recorder, now) = (&self.recorder, self.time());
        self.instances.retain_mut(|instance| {
            if paused.contains_key(&instance.id) || !instance.has_ended() {
                return true;
            }
            let (tasks, kept) = instance.left_behind();
            recorder.note(
                now,
                Event::Stopped {
                    instance: instance.id,
                    tasks,
                    kept,
                },
            );
            false
        });
    }

    /// The world's time. In real time a step may be over a while ago.
    fn time(&self) -> Duration {
        match self.pace {
            Pace::Stepped => self.now,
            Pace::Real => self.service.clock.now(),
        }
    }

    fn note(&self, event: Event) {
        self.recorder.note(self.time(), event);
    }

    fn join(&mut self, reuses_name: bool) {
        let id = InstanceId(self.joined);
        self.joined += 1;
        let owner = if reuses_name {
            self.free_names.pop()
        } else {
            None
        };
        let drift = i32::try_from(self.plan.drift_ppm).unwrap_or(i32::MAX);
        let birth = Birth {
            id,
            owner: owner.unwrap_or_else(|| id.to_string()),
            plan: self.plan,
            store: (self.stores)(id),
            service: &self.service,
            recorder: &self.recorder,
            out: self.out.clone(),
            ppm: self.rng.i32(-drift..=drift),
            seed: self.rng.u64(..),
            now: self.time(),
        };
        let drive = match self.pace {
            Pace::Stepped => Drive::stepped(),
            Pace::Real => Drive::real(self.service.clock),
        };
        self.instances.push(Instance::start(drive, birth));
        // An order that does not depend on how the last step shuffled them.
        self.instances.sort_by_key(|instance| instance.id);
    }

    /// The instance that a number stands for, of those that `is_meant` says; the numbers wrap.
    fn pick(&mut self, which: usize, is_meant: impl Fn(&Instance) -> bool) -> Option<InstanceId> {
        self.instances.sort_by_key(|instance| instance.id);
        let meant: Vec<_> = (self.instances.iter())
            .filter(|instance| is_meant(instance))
            .collect();
        (!meant.is_empty()).then(|| meant[which % meant.len()].id)
    }

    fn instance(&mut self, id: InstanceId) -> &mut Instance {
        let instance = self.instances.iter_mut().find(|instance| instance.id == id);
        instance.expect("it was picked from those that are there")
    }

    fn strike(&mut self, what: &What) {
        // What is done to the world is done at its time.
        let world = self.world.handle().clone();
        let _in = world.enter();
        match *what {
            What::Join { reuses_name } if self.instances.len() < CROWD => self.join(reuses_name),
            What::Join { .. } => {}
            What::Kill { victim } => {
                // A thread that stands still cannot be killed.
                let spared = if self.pace == Pace::Real {
                    self.paused.clone()
                } else {
                    BTreeMap::new()
                };
                if let Some(id) = self.pick(victim, |instance| !spared.contains_key(&instance.id)) {
                    self.kill(id);
                }
            }
            What::Stop { victim } => {
                if let Some(id) = self.pick(victim, |instance| !instance.is_stopping()) {
                    self.note(Event::Stopping(id));
                    self.instance(id).stop();
                }
            }
            What::Pause { victim, lasts } => {
                let paused = self.paused.clone();
                if let Some(id) = self.pick(victim, |instance| !paused.contains_key(&instance.id)) {
                    self.note(Event::Paused(id));
                    self.paused.insert(id, self.now + lasts);
                    self.instance(id).pause(lasts);
                }
            }
            What::WallClock { victim, seconds } => {
                if let Some(id) = self.pick(victim, |_| true) {
                    self.note(Event::Fault(format!(
                        "the wall clock of {id} jumps by {seconds} s"
                    )));
                    self.instance(id).wall.jump(seconds);
                }
            }
            What::Split { shard } => self.service.split(shard),
            What::Merge { shard } => self.service.merge(shard),
            What::Trim { age } => self.service.trim(age),
            What::Store {
                trouble,
                victim,
                lasts,
            } => {
                let victim = victim.and_then(|victim| self.pick(victim, |_| true));
                let whose = victim.map_or("all".to_owned(), |victim| victim.to_string());
                self.note(Event::Fault(format!(
                    "store calls of {whose} for {lasts:?}: {trouble:?}"
                )));
                self.service.trouble(trouble, victim, lasts);
            }
            What::Kinesis { trouble, lasts } => {
                self.note(Event::Fault(format!(
                    "Kinesis calls for {lasts:?}: {trouble:?}"
                )));
                self.service.kinesis_trouble(trouble, lasts);
            }
            What::ExpireIterators => {
                self.note(Event::Fault("every iterator expires".to_owned()));
                self.service.kinesis.expire_iterators();
            }
        }
    }

    fn kill(&mut self, id: InstanceId) {
        self.paused.remove(&id);
        let index = self.instances.iter().position(|instance| instance.id == id);
        let killed = self
            .instances
            .remove(index.expect("it was picked from those that are there"));
        self.free_names.push(killed.owner.clone());
        drop(killed);
        // In real time it may have gone on until now.
        self.note(Event::Killed(id));
    }

    fn wake(&mut self, id: InstanceId) {
        self.paused.remove(&id);
        self.note(Event::Woken(id));
        let now = self.now;
        self.instance(id).wake_at(now);
    }

    /// Ends all trouble for good, and sees that somebody is there to come to rest.
    fn heal(&mut self) {
        self.service.heal();
        match self.pace {
            Pace::Stepped => {
                for id in self.paused.keys().copied().collect::<Vec<_>>() {
                    self.wake(id);
                }
            }
            Pace::Real => {
                while !self.paused.is_empty() {
                    self.step();
                }
            }
        }
        if self.instances.iter().all(Instance::is_stopping) {
            self.join(false);
        }
        self.note(Event::Healed);
    }

    fn stop_all(&mut self) {
        self.instances.sort_by_key(|instance| instance.id);
        let now = self.time();
        for instance in &mut self.instances {
            if !instance.is_stopping() {
                self.recorder.note(now, Event::Stopping(instance.id));
                instance.stop();
            }
        }
        let limit = self.now + STOPPING;
        while !self.instances.is_empty() {
            assert!(
                self.now < limit,
                "seed {}: {:?} do not stop",
                self.plan.seed,
                self.instances
            );
            self.step();
        }
    }

    fn finish(mut self) -> History {
        let mut history = History {
            events: self.recorder.take(),
            ..History::default()
        };
        {
            let _in = self.world.enter();
            self.service.complete(&mut history);
        }
        let store = (self.stores)(InstanceId(self.joined));
        let keys: Vec<LeaseKey> = history
            .shards
            .iter()
            .map(|shard| shard.key.clone())
            .collect();
        let states = self
            .world
            .block_on(store.read_all(&keys))
            .expect("the store is healed");
        let held = keys.into_iter().zip(states).filter(|(_, state)| state.live);
        history.left_held = held.map(|(key, _)| key).collect();
        history
    }
}
