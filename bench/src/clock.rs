//! The clocks of a measurement: how long it took and how much CPU it used. Tokio's clock is no use for either, since
//! a measurement may run while that one is paused.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Started at the beginning of what is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    started: Instant,
    cpu: Duration,
}

/// What a measurement took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    /// Seconds by the clock on the wall.
    pub wall: f64,
    /// Seconds of CPU, of all threads of this process.
    pub cpu: f64,
}

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is what is measured")]
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            cpu: cpu_used(),
        }
    }

    pub(crate) fn taken(self) -> Taken {
        Taken {
            wall: self.started.elapsed().as_secs_f64(),
            cpu: cpu_used().saturating_sub(self.cpu).as_secs_f64(),
        }
    }
}

fn cpu_used() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(used.tv_sec).unwrap_or(0),
        u32::try_from(used.tv_nsec).unwrap_or(0),
    )
}
