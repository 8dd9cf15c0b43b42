//! What makes a runtime run, and stand still.
//!
//! A stepped runtime runs only while it is driven, on a paused clock. A runtime in real time has a thread of its own,
//! which is what stands still when an instance is paused.

use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::clock::Clock;

/// How time passes in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// In steps of paused clocks, all on one thread: the same each time.
    Stepped,
    /// As it does, for stores that do I/O.
    Real,
}

/// An instance's runtime. Dropping it drops everything that runs in it.
#[derive(Debug)]
pub(crate) enum Drive {
    Stepped(Runtime),
    /// With the world's clock, by which an instance goes too: one of its own would be off by the time that passed
    /// while it was set.
    Real(Own, Clock),
}

/// A runtime on a thread of its own.
#[derive(Debug)]
pub(crate) struct Own {
    handle: Handle,
    /// Ends the thread, and with it the runtime.
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// A runtime that runs while it is driven, on a paused clock.
pub(crate) fn stepped() -> Runtime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O takes nothing that could be missing")
}

impl Drive {
    pub(crate) fn stepped() -> Self {
        Self::Stepped(stepped())
    }

    pub(crate) fn real(world: Clock) -> Self {
        Self::Real(Own::new(), world)
    }

    /// The clock of an instance that joins at the world's time `now`. In real time it is the world's, and nobody's drifts.
    pub(crate) fn clock(&self, now: Duration, ppm: i32) -> Clock {
        match self {
            Self::Stepped(runtime) => {
                let _in = runtime.enter();
                Clock::starting_at(now, ppm)
            }
            Self::Real(_, world) => *world,
        }
    }

    pub(crate) fn handle(&self) -> &Handle {
        match self {
            Self::Stepped(runtime) => runtime.handle(),
            Self::Real(own, _) => &own.handle,
        }
    }

    /// Lets it run until the world's time is `at`, and whatever is due by then happen.
    pub(crate) fn run_until(&self, clock: Clock, at: Duration) {
        if let Self::Stepped(runtime) = self {
            runtime.block_on(async { tokio::time::sleep_until(clock.instant(at)).await });
        }
    }

    /// Lets it stand still for so long. A stepped runtime does while it is not driven.
    pub(crate) fn pause(&self, lasts: Duration) {
        if let Self::Real(own, _) = self {
            #[expect(
                clippy::disallowed_methods,
                reason = "the thread is meant to stand still"
            )]
            own.handle.spawn(async move { thread::sleep(lasts) });
        }
    }

    /// Lets it find, all at once, that the world's time is `at`.
    pub(crate) fn wake_at(&self, clock: Clock, at: Duration) {
        if let Self::Stepped(runtime) = self {
            runtime.block_on(async {
                let now = tokio::time::Instant::now();
                tokio::time::advance(clock.instant(at).saturating_duration_since(now)).await;
            });
        }
    }
}

impl Own {
    fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("there are resources for a runtime");
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let thread = thread::spawn(move || {
            // An end that nobody tells any more is an end too.
            let _ = runtime.block_on(ended);
        });
        Self {
            handle,
            end: Some(end),
            thread: Some(thread),
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // What panicked in it was told by its tasks.
            let _ = thread.join();
        }
    }
}
