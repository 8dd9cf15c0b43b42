//! One instance: a runtime of its own, with a broker as a service has it, and a handler that notes what it is given.

use std::sync::Arc;
use std::time::Duration;

use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_types::SdkConfig;
use futures_util::FutureExt as _;
use kinesis_broker::{
    Checkpointing, KinesisBroker, KinesisStream, Prefetch, RecordInfo, StartPosition,
};
use lease_core::{LeaseKey, LeaseStore};
use rstream::{AppInfo, Context, Handle, HandlerOutcome, RustStream, subscriber};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::clock::{Clock, WallClock};
use crate::drive::Drive;
use crate::history::{Delivery, Event, InstanceId, Recorder, Sequence};
use crate::plan::{Handlers, Plan, Reading, Start};
use crate::wire::http::RemoteHttp;
use crate::wire::store::RemoteStore;
use crate::wire::{Line, Parcel};
use crate::world::{STREAM, Service};

/// An instance that runs, or that has stopped and is still looked at. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) id: InstanceId,
    pub(crate) owner: String,
    pub(crate) wall: WallClock,
    clock: Clock,
    line: Line,
    stop: Option<oneshot::Sender<()>>,
    main: Option<JoinHandle<()>>,
    drive: Drive,
}

/// What an instance is made with.
#[derive(Debug)]
pub(crate) struct Birth<'a> {
    pub(crate) id: InstanceId,
    pub(crate) owner: String,
    pub(crate) plan: &'a Plan,
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) service: &'a Service,
    pub(crate) recorder: &'a Recorder,
    pub(crate) out: mpsc::UnboundedSender<Parcel>,
    pub(crate) ppm: i32,
    /// What everything that chance decides in it is drawn from.
    pub(crate) seed: u64,
    /// The world's time.
    pub(crate) now: Duration,
}

impl Instance {
    /// Starts an instance in a runtime of its own.
    pub(crate) fn start(drive: Drive, birth: Birth<'_>) -> Self {
        let Birth {
            id,
            owner,
            plan,
            store,
            service,
            recorder,
            out,
            ppm,
            seed,
            now,
        } = birth;
        recorder.note(
            now,
            Event::Joined {
                instance: id,
                owner: owner.clone(),
            },
        );
        let clock = drive.clock(now, ppm);
        let wall = WallClock::new(clock);
        let line = Line::new(id, clock, recorder.clone(), out);
        let app = app(plan, &owner, seed, store, service, &line, &wall);
        let (stop, told_to_stop) = oneshot::channel();
        let main = drive
            .handle()
            .spawn(main(app, recorder.clone(), clock, id, told_to_stop));
        Self {
            id,
            owner,
            wall,
            clock,
            line,
            stop: Some(stop),
            main: Some(main),
            drive,
        }
    }

    /// Lets it run until the world's time is `at`, and whatever is due by then happen.
    pub(crate) fn run_until(&self, at: Duration) {
        self.drive.run_until(self.clock, at);
    }

    /// Lets it stand still for so long.
    pub(crate) fn pause(&self, lasts: Duration) {
        self.drive.pause(lasts);
    }

    /// Lets it find, all at once, that the world's time is `at`.
    pub(crate) fn wake_at(&self, at: Duration) {
        self.drive.wake_at(self.clock, at);
    }

    /// Tells it to stop.
    pub(crate) fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have come to its end already.
            let _ = stop.send(());
        }
    }

    /// Whether it was told to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_none()
    }

    /// Whether its shutdown has returned.
    ///
    /// # Panics
    ///
    /// If it panicked.
    pub(crate) fn has_ended(&mut self) -> bool {
        if let Some(main) = &mut self.main {
            match main.now_or_never() {
                None => return false,
                Some(Ok(())) => self.main = None,
                Some(Err(error)) => panic!("{} panicked: {error}", self.id),
            }
        }
        true
    }

    /// What it left behind: tasks that run, and ends of its line that somebody holds.
    pub(crate) fn left_behind(&self) -> (usize, usize) {
        (
            self.drive.handle().metrics().num_alive_tasks(),
            self.line.ends() - 1,
        )
    }
}

async fn main(
    app: RustStream,
    recorder: Recorder,
    clock: Clock,
    id: InstanceId,
    told_to_stop: oneshot::Receiver<()>,
) {
    let running = app.start().await.expect("the configuration is right");
    recorder.note(clock.now(), Event::Started(id));
    let _ = told_to_stop.await;
    running.shutdown().await.expect("it stops");
}

fn app(
    plan: &Plan,
    owner: &str,
    seed: u64,
    store: Arc<dyn LeaseStore>,
    service: &Service,
    line: &Line,
    wall: &WallClock,
) -> RustStream {
    let http = RemoteHttp {
        kinesis: service.http_client(),
        line: line.clone(),
    };
    let config: SdkConfig = service
        .kinesis
        .sdk_config()
        .into_builder()
        .http_client(SharedHttpClient::new(http))
        .sleep_impl(TokioSleep::new())
        .time_source(wall.clone())
        .build();
    let store = RemoteStore {
        line: line.clone(),
        store,
    };
    let broker = KinesisBroker::from_config(&config)
        .lease_store(Arc::new(store))
        .owner_id(owner)
        .seed(seed);
    let handler = Witness {
        line: line.clone(),
        handlers: plan.handlers,
        seed: plan.seed,
    };
    let (stream, reports) = (stream(plan), line.clone());
    RustStream::new(AppInfo::new("fleet", "0.0.0"))
        .with_broker(broker, |b| {
            b.include(subscriber(stream, handler).build::<u64>());
        })
        .on_error(move |error| {
            let error = chain(error);
            let event = Event::Reported {
                instance: reports.instance,
                error,
            };
            reports.recorder.note(reports.clock.now(), event);
        })
}

fn stream(plan: &Plan) -> KinesisStream {
    let Reading {
        concurrency,
        interval,
        prefetch,
    } = plan.reading;
    KinesisStream::new(STREAM)
        .start_at(match plan.start {
            Start::TrimHorizon => StartPosition::trim_horizon(),
            Start::Latest => StartPosition::latest(),
        })
        .concurrency(concurrency)
        .checkpointing(interval.map_or(Checkpointing::EveryAck, Checkpointing::Interval))
        .prefetch(match prefetch {
            None => Prefetch::default(),
            Some(0) => Prefetch::none(),
            Some(records) => Prefetch::default().records(records),
        })
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// A handler that notes each delivery, takes its time, and ends as the seed has it.
#[derive(Debug)]
struct Witness {
    line: Line,
    handlers: Handlers,
    seed: u64,
}

/// How a delivery is to end.
#[derive(Debug)]
enum End {
    Ack,
    Say(HandlerOutcome),
    Panic,
}

impl Witness {
    /// How long a delivery takes and how it ends: the same for the same record and attempt, whoever gets it.
    fn act(&self, number: u64, attempt: u32) -> (Duration, End) {
        let mut rng = fastrand::Rng::with_seed(
            self.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(attempt),
        );
        let Handlers {
            usual,
            slow_in_1000,
            slow,
            unhappy_in_1000,
        } = self.handlers;
        let longest = if rng.u32(0..1_000) < slow_in_1000 {
            slow
        } else {
            usual
        };
        let takes = longest.mul_f64(rng.f64());
        let is_happy = attempt > 2 || rng.u32(0..1_000) >= unhappy_in_1000;
        let end = match rng.u8(0..5) {
            _ if is_happy => End::Ack,
            0 | 1 => End::Say(HandlerOutcome::retry()),
            2 => End::Say(HandlerOutcome::retry_after(Duration::from_millis(
                rng.u64(0..=6_000),
            ))),
            3 => End::Say(HandlerOutcome::drop()),
            _ => End::Panic,
        };
        (takes, end)
    }

    fn note(&self, event: Event) {
        self.line.recorder.note(self.line.clock.now(), event);
    }
}

impl Handle<u64> for Witness {
    fn handle(
        &self,
        number: &u64,
        _outs: &(),
        ctx: &mut Context<'_>,
    ) -> impl Future<Output = Result<(), HandlerOutcome>> + Send {
        let attempt = ctx.attempt();
        let info = ctx.get::<RecordInfo>().expect("the broker attaches it");
        let id = self.line.recorder.next_delivery();
        self.note(Event::Handed(Delivery {
            id,
            instance: self.line.instance,
            key: LeaseKey::new(&info.stream, &info.shard),
            epoch: info.holder.epoch,
            sequence: Sequence(info.sequence_number.clone()),
            partition_key: info.partition_key.clone(),
            attempt,
        }));
        let (takes, end) = self.act(*number, attempt);
        async move {
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            let outcome = match &end {
                End::Ack => Some(HandlerOutcome::ack()),
                End::Say(outcome) => Some(outcome.clone()),
                End::Panic => None,
            };
            self.note(Event::Said {
                delivery: id,
                outcome,
            });
            match end {
                End::Ack => Ok(()),
                End::Say(outcome) => Err(outcome),
                End::Panic => panic!("the handler panics, as the plan has it"),
            }
        }
    }
}
