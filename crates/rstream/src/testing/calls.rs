//! What a test can ask about the calls of a handler.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Format;
use crate::broker::{Handler, Verdict};
use crate::{HandlerOutcome, observe};

/// The calls of one handler up to the moment at which this was taken; see
/// [`TestBroker::subscriber`](super::TestBroker::subscriber).
#[derive(Clone, Debug)]
pub struct TestSubscriber {
    pub(super) name: String,
    pub(super) handler: Handler,
    pub(super) calls: Vec<Call>,
}

impl TestSubscriber {
    /// Asserts that the handler was called once.
    ///
    /// # Panics
    ///
    /// If it was not; every delivery counts, so a message that was retried once is two calls. A batch is one call.
    #[track_caller]
    pub fn assert_called_once(&self) -> TestCalls {
        self.assert_called(1)
    }

    /// Asserts that the handler was called `n` times.
    ///
    /// # Panics
    ///
    /// If it was not; every delivery counts.
    #[track_caller]
    pub fn assert_called(&self, n: usize) -> TestCalls {
        let called = self.calls.len();
        assert!(
            called == n,
            "the handler of {:?} was called {called} times, not {n}",
            self.name
        );
        TestCalls(self.clone())
    }

    /// Asserts that the handler was not called.
    ///
    /// # Panics
    ///
    /// If it was.
    #[track_caller]
    pub fn assert_not_called(&self) {
        self.assert_called(0);
    }

    /// The messages that the handler was called with, in order, batch after batch; decoded by the subscription's
    /// codec, or as they are where `T` is [`Bytes`].
    ///
    /// # Panics
    ///
    /// If one of them is no `T`.
    #[track_caller]
    #[must_use]
    pub fn received<T: DeserializeOwned + 'static>(&self) -> Vec<T> {
        self.batches().into_iter().flatten().collect()
    }

    /// The messages of each call of the handler, in order.
    ///
    /// # Panics
    ///
    /// If one of them is no `T`.
    #[track_caller]
    #[must_use]
    pub fn batches<T: DeserializeOwned + 'static>(&self) -> Vec<Vec<T>> {
        let format = Format::of(&self.handler);
        let decoded = self.calls.iter().map(|call| {
            let payloads = call.payloads.iter();
            payloads.map(|payload| format.decode(payload)).collect()
        });
        match decoded.collect() {
            Ok(batches) => batches,
            Err(error) => panic!(
                "the handler of {:?} received something else: {error}",
                self.name
            ),
        }
    }
}

/// Calls to look closer at.
#[derive(Clone, Debug)]
pub struct TestCalls(TestSubscriber);

impl TestCalls {
    /// Asserts that the handler was called with `value`, and keeps those calls; of batches, those with `value` among
    /// them.
    ///
    /// `value` is written by the subscription's codec; what stands for the same JSON is the same.
    ///
    /// # Panics
    ///
    /// If it was not, or if the codec cannot write `value`.
    #[track_caller]
    pub fn with<T: Serialize + ?Sized>(self, value: &T) -> Self {
        let handler = self.0.handler.clone();
        let format = Format::of(&handler);
        let wanted = match format.encode(value) {
            Ok(wanted) => wanted,
            Err(error) => panic!("the expected value cannot be encoded: {error}"),
        };
        let as_json = |payload: &Bytes| format.decode::<serde_json::Value>(payload).ok();
        let json = as_json(&wanted);
        let shown = match &json {
            Some(json) => json.to_string(),
            None => format!("{wanted:?}"),
        };
        self.keep(&shown, |payload| {
            *payload == wanted || json.is_some() && as_json(payload) == json
        })
    }

    /// Asserts that the handler was called with this payload, byte by byte, and keeps those calls.
    ///
    /// # Panics
    ///
    /// If it was not.
    #[track_caller]
    pub fn with_payload(self, payload: impl AsRef<[u8]>) -> Self {
        let wanted = Bytes::copy_from_slice(payload.as_ref());
        self.keep(&format!("{wanted:?}"), |payload| *payload == wanted)
    }

    #[track_caller]
    fn keep(mut self, wanted: &str, same: impl Fn(&Bytes) -> bool) -> Self {
        let got: Vec<_> = (self.0.calls.iter().flat_map(|call| &call.payloads))
            .map(|payload| String::from_utf8_lossy(payload).into_owned())
            .collect();
        self.0.calls.retain(|call| call.payloads.iter().any(&same));
        assert!(
            !self.0.calls.is_empty(),
            "the handler of {:?} was not called with {wanted}, but with {got:?}",
            self.0.name
        );
        self
    }

    /// Asserts that the last of these calls ended in `outcome`. A panic counts as a retry.
    ///
    /// # Panics
    ///
    /// If it did not, or if there is no call.
    #[track_caller]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "an outcome is written where it is expected"
    )]
    pub fn settled(self, outcome: HandlerOutcome) -> Self {
        let last = self.0.calls.last().map(|call| &call.outcome);
        assert!(
            last == Some(&outcome),
            "the handler of {:?} settled with {last:?}, not {outcome:?}",
            self.0.name
        );
        self
    }
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    payloads: Vec<Bytes>,
    outcome: HandlerOutcome,
}

/// Where the calls of one handler are written down.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<Call>>>);

impl Log {
    /// What writes a handler's calls down. A payload that could not be decoded is no call.
    pub(super) fn hook(&self) -> Arc<observe::Hook> {
        let Self(calls) = self.clone();
        Arc::new(move |delivery| {
            let outcome = match delivery.verdict() {
                Verdict::Outcome(outcome) => outcome.clone(),
                Verdict::Panicked(_) => HandlerOutcome::retry(),
                Verdict::Undecodable(_) => return,
            };
            let call = Call {
                payloads: delivery.payloads().to_vec(),
                outcome,
            };
            (calls.lock().unwrap_or_else(PoisonError::into_inner)).push(call);
        })
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner)).clone()
    }
}
