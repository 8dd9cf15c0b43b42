//! Faults on demand. It alone knows what a test can say of a fault: its kind, its aim, and how often it strikes.

mod book;

use std::time::Duration;

pub(crate) use self::book::{Fate, FaultBook, PartialFailure, Target, Verdict};
use crate::error::ServiceError;
use crate::operation::Operation;

/// Something that goes wrong with calls, to be given to [`KinesisSim::inject`](crate::KinesisSim::inject).
///
/// A fault strikes the next call of any operation, once, unless it is aimed ([`on`](Self::on),
/// [`stream`](Self::stream), [`shard`](Self::shard), [`after`](Self::after)) or told how often to strike
/// ([`times`](Self::times), [`always`](Self::always), [`rate`](Self::rate),
/// [`for_duration`](Self::for_duration)).
///
/// ```
/// use std::time::Duration;
/// use kinesis_sim::{Fault, KinesisSim, Operation};
///
/// let sim = KinesisSim::new();
/// sim.inject(Fault::throttle().on(Operation::GetRecords).shard("shardId-000000000000").times(3));
/// sim.inject(Fault::internal().rate(0.01));
/// sim.inject(Fault::reset().for_duration(Duration::from_secs(30)));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a fault strikes once it is injected"]
pub struct Fault {
    kind: Kind,
    operations: Vec<Operation>,
    stream: Option<String>,
    shard: Option<String>,
    skip: u64,
    times: Option<u64>,
    rate: Option<f64>,
    duration: Option<Duration>,
}

#[derive(Clone, Debug)]
enum Kind {
    Refuse(ServiceError),
    Timeout,
    Reset,
    Hang,
    Delay(Duration),
    LateAnswer(Duration),
    LostAnswer,
    Partial(usize),
}

impl Fault {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            operations: Vec::new(),
            stream: None,
            shard: None,
            skip: 0,
            times: Some(1),
            rate: None,
            duration: None,
        }
    }

    /// The call is refused with ProvisionedThroughputExceededException.
    pub fn throttle() -> Self {
        Self::new(Kind::Refuse(ServiceError::throughput_exceeded(
            "Rate exceeded for the shard (injected).",
        )))
    }

    /// The call is refused with LimitExceededException, which is how ListShards and the operations on
    /// streams are throttled.
    pub fn limit_exceeded() -> Self {
        Self::new(Kind::Refuse(ServiceError::limit_exceeded(
            "Rate exceeded for the account (injected).",
        )))
    }

    /// The call is refused with ExpiredIteratorException.
    pub fn expired_iterator() -> Self {
        Self::new(Kind::Refuse(ServiceError::expired_iterator(
            "Iterator expired (injected).",
        )))
    }

    /// The call is answered with status 500, InternalFailure.
    pub fn internal() -> Self {
        Self::new(Kind::Refuse(ServiceError::internal(
            "Internal Service Failure (injected).",
        )))
    }

    /// The call is answered with status 503, ServiceUnavailable.
    pub fn unavailable() -> Self {
        Self::new(Kind::Refuse(ServiceError::unavailable(
            "Service is unavailable (injected).",
        )))
    }

    /// The call is refused with AccessDeniedException.
    pub fn access_denied() -> Self {
        Self::new(Kind::Refuse(ServiceError::access_denied(
            "Not authorized to perform this call (injected).",
        )))
    }

    /// The call is refused with ResourceNotFoundException.
    pub fn not_found() -> Self {
        Self::new(Kind::Refuse(ServiceError::not_found(
            "Stream or shard not found (injected).",
        )))
    }

    /// The connection times out at once, and the call has no effect.
    pub fn timeout() -> Self {
        Self::new(Kind::Timeout)
    }

    /// The connection is reset, and the call has no effect.
    pub fn reset() -> Self {
        Self::new(Kind::Reset)
    }

    /// No answer ever comes, and the call has no effect. The client's own time-outs, or dropping its future,
    /// end the wait.
    pub fn hang() -> Self {
        Self::new(Kind::Hang)
    }

    /// The call reaches the service this much later. Dropping the client's future before then leaves it
    /// without effect.
    pub fn delay(by: Duration) -> Self {
        Self::new(Kind::Delay(by))
    }

    /// The call takes effect in time, but its answer comes this much later.
    pub fn late_answer(by: Duration) -> Self {
        Self::new(Kind::LateAnswer(by))
    }

    /// The call takes effect, and the connection is reset before the answer arrives.
    pub fn lost_answer() -> Self {
        Self::new(Kind::LostAnswer)
    }

    /// So many entries of a PutRecords call, picked by the seed, fail with
    /// ProvisionedThroughputExceededException, while the others are stored. Strikes no other operation. With
    /// [`shard`](Self::shard), only entries for that shard fail.
    pub fn partial(entries: usize) -> Self {
        Self::new(Kind::Partial(entries))
    }

    /// Strikes calls of this operation alone; said again, of that one too.
    pub fn on(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Strikes calls to this stream alone.
    pub fn stream(mut self, name: impl Into<String>) -> Self {
        self.stream = Some(name.into());
        self
    }

    /// Strikes calls to this shard alone: reads and iterators of it, puts with a record for it, splits and
    /// merges of it.
    pub fn shard(mut self, id: impl Into<String>) -> Self {
        self.shard = Some(id.into());
        self
    }

    /// Lets so many calls pass that it would have struck.
    pub fn after(mut self, calls: u64) -> Self {
        self.skip = calls;
        self
    }

    /// Strikes so many times, then is gone. Once is the default.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Strikes until [`KinesisSim::clear_faults`](crate::KinesisSim::clear_faults).
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    /// Strikes this share of the calls, from 0.0 to 1.0, as the seed has it, and without end unless
    /// [`times`](Self::times) is said after it.
    pub fn rate(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self.times = None;
        self
    }

    /// Strikes for so long after it is injected, and without end until then unless [`times`](Self::times) is
    /// said after it.
    pub fn for_duration(mut self, duration: Duration) -> Self {
        self.duration = Some(duration);
        self.times = None;
        self
    }
}
