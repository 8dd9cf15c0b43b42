//! The only clock of xtask: how long a step took, and the pause between two looks at a server.
//! Nothing here runs under a paused clock, so tokio's has no place.

use std::{
    thread,
    time::{Duration, Instant},
};

#[derive(Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "seconds printed for a person, and the bound of a wait"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a server that starts can only be asked again; callers bound the asking"
)]
pub(crate) fn pause(duration: Duration) {
    thread::sleep(duration);
}
