//! What a handler wants published, encoded; and what a handler may return to be published.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use crate::error::BoxError;
use crate::{Codec, HandlerOutcome, Outgoing};

/// A message that the handler wants published; the broker settles what it handed over only after this is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The name of where it goes: for a stream, the stream's name.
    pub to: Arc<str>,
    /// What keeps it in order with others of that key.
    pub partition_key: String,
    /// The value, written by the subscription's codec.
    pub payload: Bytes,
}

impl Reply {
    pub(crate) fn new<T>(
        to: &Arc<str>,
        partition_key: impl Into<String>,
        value: &T,
        encode: impl FnOnce(&T) -> Result<Vec<u8>, BoxError>,
    ) -> Result<Self, SendError> {
        let payload = encode(value).map_err(|source| SendError {
            to: Arc::clone(to),
            type_name: type_name::<T>(),
            source,
        })?;
        Ok(Self {
            to: Arc::clone(to),
            partition_key: partition_key.into(),
            payload: payload.into(),
        })
    }
}

/// Why a value could not be sent, or returned as a reply.
///
/// As an outcome (`outs.send(&value)?`) it is [`HandlerOutcome::dead_letter`], since no retry makes a value another
/// one.
#[derive(Debug, thiserror::Error)]
#[error("a {type_name} for {to:?} cannot be encoded: {source}")]
pub struct SendError {
    to: Arc<str>,
    type_name: &'static str,
    source: BoxError,
}

impl SendError {
    /// The name of where the value was to go.
    #[must_use]
    pub fn to(&self) -> &str {
        &self.to
    }
}

impl From<SendError> for HandlerOutcome {
    fn from(error: SendError) -> Self {
        // Without the source, which may quote the value.
        let SendError { to, type_name, .. } = error;
        Self::dead_letter(format!("a {type_name} for {to:?} cannot be encoded"))
    }
}

/// What a handler can return to be published: a `T: Serialize + Outgoing`, an `Option` of it (nothing is published for
/// `None`), or a `Vec` of it (each is published, in order).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be published as a reply",
    label = "not a reply",
    note = "a reply is a type with `#[derive(serde::Serialize, rstream::Outgoing)]` and `#[outgoing(partition_key = \"field\")]`, \
            or an `Option` or a `Vec` of one"
)]
pub trait Answer: Send + 'static {
    /// Writes what is to be published, behind what was sent before.
    #[doc(hidden)]
    fn answer<C: Codec>(
        self,
        to: &Arc<str>,
        codec: &C,
        replies: &mut Vec<Reply>,
    ) -> Result<(), SendError>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + Outgoing + Send + 'static> Answer for T {
    fn answer<C: Codec>(
        self,
        to: &Arc<str>,
        codec: &C,
        replies: &mut Vec<Reply>,
    ) -> Result<(), SendError> {
        replies.push(Reply::new(to, self.partition_key(), &self, |value| {
            codec.encode(value)
        })?);
        Ok(())
    }
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + Outgoing + Send + 'static> Answer for Option<T> {
    fn answer<C: Codec>(
        self,
        to: &Arc<str>,
        codec: &C,
        replies: &mut Vec<Reply>,
    ) -> Result<(), SendError> {
        self.map_or(Ok(()), |value| value.answer(to, codec, replies))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + Outgoing + Send + 'static> Answer for Vec<T> {
    fn answer<C: Codec>(
        self,
        to: &Arc<str>,
        codec: &C,
        replies: &mut Vec<Reply>,
    ) -> Result<(), SendError> {
        self.into_iter()
            .try_for_each(|value| value.answer(to, codec, replies))
    }
}

/// Where what a handler returns goes.
pub trait Returned: Send + Sync + 'static {
    /// What the handler returns.
    type Reply;

    #[doc(hidden)]
    fn destination(&self) -> Option<&str>;

    /// Writes it, behind what was sent before; an `Err` is the outcome in its place.
    #[doc(hidden)]
    fn collect<C: Codec>(
        &self,
        reply: Self::Reply,
        codec: &C,
        replies: &mut Vec<Reply>,
    ) -> Result<(), HandlerOutcome>;
}

/// The handler returns nothing to be published.
#[derive(Debug)]
pub struct Nothing;

impl Returned for Nothing {
    type Reply = ();

    fn destination(&self) -> Option<&str> {
        None
    }

    fn collect<C: Codec>(&self, (): (), _: &C, _: &mut Vec<Reply>) -> Result<(), HandlerOutcome> {
        Ok(())
    }
}

/// The handler returns an `R` to be published.
pub struct ReplyTo<R> {
    to: Arc<str>,
    reply: PhantomData<fn() -> R>,
}

impl<R> ReplyTo<R> {
    pub(crate) fn new(to: String) -> Self {
        Self {
            to: to.into(),
            reply: PhantomData,
        }
    }
}

impl<R> fmt::Debug for ReplyTo<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplyTo").field(&self.to).finish()
    }
}

impl<R: Answer> Returned for ReplyTo<R> {
    type Reply = R;

    fn destination(&self) -> Option<&str> {
        Some(&self.to)
    }

    fn collect<C: Codec>(
        &self,
        reply: R,
        codec: &C,
        replies: &mut Vec<Reply>,
    ) -> Result<(), HandlerOutcome> {
        let answered = reply.answer(&self.to, codec, replies);
        answered.map_err(|error| {
            // Without the source, which may quote the value.
            let SendError { to, type_name, .. } = &error;
            tracing::error!(
                to = &**to,
                type_name,
                "a reply cannot be encoded, and is not published"
            );
            error.into()
        })
    }
}
