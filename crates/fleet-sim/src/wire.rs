//! What lies between an instance and the world: calls go out with the moment at which they were sent, are carried
//! out in the world's runtime whether anybody still waits for them or not, and may come back with an answer.

pub(crate) mod http;
pub(crate) mod store;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::history::{InstanceId, Recorder};
use crate::world::Service;

/// Something that the world carries out for an instance.
pub(crate) type Job =
    Box<dyn FnOnce(Arc<Service>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A call under way.
pub(crate) struct Parcel {
    /// When it was sent, in the world's time.
    pub(crate) sent: Duration,
    pub(crate) job: Job,
}

/// An instance's end of the line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) instance: InstanceId,
    pub(crate) clock: Clock,
    pub(crate) recorder: Recorder,
    out: mpsc::UnboundedSender<Parcel>,
    /// Whoever holds the line holds this, so that what an instance leaves behind can be counted.
    held: Arc<()>,
}

impl Line {
    pub(crate) fn new(
        instance: InstanceId,
        clock: Clock,
        recorder: Recorder,
        out: mpsc::UnboundedSender<Parcel>,
    ) -> Self {
        Self {
            instance,
            clock,
            recorder,
            out,
            held: Arc::default(),
        }
    }

    /// How many ends of this line there are.
    pub(crate) fn ends(&self) -> usize {
        Arc::strong_count(&self.held)
    }

    fn send(&self, sent: Duration, job: Job) {
        // A world that is over takes nothing.
        let _ = self.out.send(Parcel { sent, job });
    }
}
