//! Which formats there are between bytes and values, and how one is added.

#[cfg(feature = "cbor")]
mod cbor;
#[cfg(feature = "testing")]
mod erased;
mod json;
#[cfg(feature = "messagepack")]
mod messagepack;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::BoxError;

#[cfg(feature = "cbor")]
pub use cbor::Cbor;
#[cfg(feature = "testing")]
pub(crate) use erased::{AnyCodec, decode};
pub use json::Json;
#[cfg(feature = "messagepack")]
pub use messagepack::MessagePack;

/// A format of messages: how a payload becomes the value that a handler is given, and a reply becomes a payload.
///
/// [`Json`] is the default of a subscription; [`SubscriberBuilder::codec`](crate::SubscriberBuilder::codec) or
/// `codec(..)` in the attribute chooses another. Here is one that adds a version byte to JSON:
///
/// ```
/// use rstream::{Codec, DecodeFault, Json};
/// use serde::{Serialize, de::DeserializeOwned};
///
/// struct Versioned;
///
/// impl Codec for Versioned {
///     fn name(&self) -> &'static str {
///         "versioned JSON"
///     }
///
///     fn decode<T: DeserializeOwned>(&self, payload: &[u8]) -> Result<T, DecodeFault> {
///         match payload.split_first() {
///             Some((1, json)) => Json.decode(json),
///             Some(_) => Err(DecodeFault::new("version").at_byte(0)),
///             None => Err(DecodeFault::new("eof")),
///         }
///     }
///
///     fn encode<T: Serialize + ?Sized>(
///         &self,
///         value: &T,
///     ) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
///         let mut payload = vec![1];
///         payload.extend(Json.encode(value)?);
///         Ok(payload)
///     }
/// }
///
/// assert_eq!(Versioned.encode(&7)?, b"\x017");
/// assert_eq!(Versioned.decode::<u64>(b"\x017")?, 7);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub trait Codec: Send + Sync + 'static {
    /// What the format is called in messages to people.
    fn name(&self) -> &'static str;

    /// Makes a value of the whole of `payload`.
    ///
    /// # Errors
    ///
    /// Where `payload` is no such value. What is wrong is told by its kind and its place alone, since a payload may
    /// be private and the messages of decoders quote it.
    fn decode<T: DeserializeOwned>(&self, payload: &[u8]) -> Result<T, DecodeFault>;

    /// Writes `value`.
    ///
    /// # Errors
    ///
    /// Where the format has no way to.
    fn encode<T: Serialize + ?Sized>(&self, value: &T) -> Result<Vec<u8>, BoxError>;
}

/// Why a [`Codec`] could not decode a payload: the kind of fault, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{category} error{place}")]
pub struct DecodeFault {
    pub(crate) category: &'static str,
    pub(crate) place: Place,
}

/// Where in a payload a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Unknown,
    Line { line: usize, column: usize },
    Byte(usize),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => Ok(()),
            Self::Line { line, column } => write!(f, " at line {line}, column {column}"),
            Self::Byte(offset) => write!(f, " at byte {offset}"),
        }
    }
}

impl DecodeFault {
    /// A fault of some kind: `syntax` (not the format), `data` (of another shape), `eof` (cut short), or a word of
    /// the codec's own.
    #[must_use]
    pub const fn new(category: &'static str) -> Self {
        Self {
            category,
            place: Place::Unknown,
        }
    }

    /// The fault is at that line and column, from 1.
    #[must_use]
    pub const fn at_line(mut self, line: usize, column: usize) -> Self {
        self.place = Place::Line { line, column };
        self
    }

    /// The fault is at that byte, from 0.
    #[must_use]
    pub const fn at_byte(mut self, offset: usize) -> Self {
        self.place = Place::Byte(offset);
        self
    }
}
