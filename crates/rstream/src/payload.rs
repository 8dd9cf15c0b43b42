//! From the bytes that a broker hands over to the value that a handler is given.

use std::any::{Any, type_name};

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::Codec;
use crate::codec::{DecodeFault, Place};

/// Why a payload could not be decoded: the wanted type and where decoding failed.
///
/// It carries nothing of the payload, which decoders' own messages quote and which may be private.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot decode a {} from {}: {}", .0.type_name, .0.codec, .0.fault)]
pub struct DecodeError(Box<Parts>);

/// Boxed, since every error that can carry it would be as large.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    type_name: &'static str,
    codec: &'static str,
    fault: DecodeFault,
}

impl DecodeError {
    pub(crate) fn new<T: ?Sized>(codec: &'static str, fault: DecodeFault) -> Self {
        Self(Box::new(Parts {
            type_name: type_name::<T>(),
            codec,
            fault,
        }))
    }

    /// The type that the handler takes.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        self.0.type_name
    }

    /// The name of the codec that refused it: `JSON`, unless the subscription chose another.
    #[must_use]
    pub fn codec(&self) -> &'static str {
        self.0.codec
    }

    /// What kind of fault it is: `syntax` (not the codec's format), `data` (of another shape), `eof` (cut short), or
    /// a word of the codec's own.
    #[must_use]
    pub fn category(&self) -> &'static str {
        self.0.fault.category
    }

    /// The line of the payload at which decoding failed, from 1; 0 where the codec tells no lines, as all but JSON.
    #[must_use]
    pub fn line(&self) -> usize {
        match self.0.fault.place {
            Place::Line { line, .. } => line,
            Place::Byte(_) | Place::Unknown => 0,
        }
    }

    /// The column of that line, from 1; 0 where the line is empty, or the codec tells no lines.
    #[must_use]
    pub fn column(&self) -> usize {
        match self.0.fault.place {
            Place::Line { column, .. } => column,
            Place::Byte(_) | Place::Unknown => 0,
        }
    }

    /// The byte of the payload at which decoding failed, from 0, where the codec tells it; JSON tells line and column
    /// instead.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        match self.0.fault.place {
            Place::Byte(offset) => Some(offset),
            Place::Line { .. } | Place::Unknown => None,
        }
    }
}

/// What a handler can take: any `T: DeserializeOwned + Send + Sync + 'static`, which the subscription's codec decodes,
/// or the payload as it is, without decoding and without copying it: `[u8]` or [`Bytes`].
///
/// Nothing else can implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no message",
    label = "cannot be decoded",
    note = "write `#[derive(serde::Deserialize)]` on `{Self}`; it is `Send`, `Sync`, and borrows nothing",
    note = "a slice is a batch, which `.batch(max_records, max_wait)` asks for"
)]
pub trait Message: sealed::Sealed + Send + Sync + 'static {
    /// What holds the message while the handler runs.
    #[doc(hidden)]
    type Held: Send + Sync;

    #[doc(hidden)]
    fn decode<C: Codec>(codec: &C, payload: &Bytes) -> Result<Self::Held, DecodeError>;

    #[doc(hidden)]
    fn of<'a>(held: &'a Self::Held, payload: &'a Bytes) -> &'a Self;
}

mod sealed {
    use serde::de::DeserializeOwned;

    pub trait Sealed {}

    #[diagnostic::do_not_recommend]
    impl<T: DeserializeOwned + Send + Sync + 'static> Sealed for T {}

    impl Sealed for [u8] {}
}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + Send + Sync + 'static> Message for T {
    type Held = T;

    fn decode<C: Codec>(codec: &C, payload: &Bytes) -> Result<T, DecodeError> {
        match raw(payload) {
            Some(payload) => Ok(payload),
            None => decode(codec, payload),
        }
    }

    fn of<'a>(held: &'a T, _: &'a Bytes) -> &'a T {
        held
    }
}

impl Message for [u8] {
    // The payload is there as long as the message: a clone would allocate.
    type Held = ();

    fn decode<C: Codec>(_: &C, _: &Bytes) -> Result<(), DecodeError> {
        Ok(())
    }

    fn of<'a>((): &'a (), payload: &'a Bytes) -> &'a [u8] {
        payload
    }
}

fn decode<T: DeserializeOwned>(codec: &impl Codec, payload: &[u8]) -> Result<T, DecodeError> {
    (codec.decode(payload)).map_err(|fault| DecodeError::new::<T>(codec.name(), fault))
}

/// The payload itself, where `T` is `Bytes`; a comparison of constants, that compiles to one of the two.
pub(crate) fn raw<T: 'static>(payload: &Bytes) -> Option<T> {
    let mut slot = None::<T>;
    let any: &mut dyn Any = &mut slot;
    if let Some(slot) = any.downcast_mut::<Option<Bytes>>() {
        *slot = Some(payload.clone());
    }
    slot
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Json;

    #[test]
    fn a_payload_of_another_shape_says_where_and_quotes_nothing() {
        let error = decode::<u64>(&Json, br#""4111-1111-1111-1111""#).unwrap_err();

        assert_eq!(
            error.to_string(),
            "cannot decode a u64 from JSON: data error at line 1, column 21"
        );
        assert!(!format!("{error:?}").contains("4111"));
    }

    #[test]
    fn a_payload_cut_short_is_told_from_one_that_is_not_json() {
        let category = |payload| decode::<Vec<u8>>(&Json, payload).unwrap_err().category();
        assert_eq!(category(b"[1,"), "eof");
        assert_eq!(category(b"\x00\xff"), "syntax");
        assert_eq!(category(b""), "eof");
    }

    #[test]
    fn raw_payloads_are_neither_decoded_nor_copied() {
        let payload = Bytes::from_static(b"{no json");

        let bytes = <Bytes as Message>::decode(&Json, &payload).unwrap();
        <[u8] as Message>::decode(&Json, &payload).unwrap();

        assert_eq!(bytes.as_ptr(), payload.as_ptr());
        assert_eq!(
            <[u8] as Message>::of(&(), &payload).as_ptr(),
            payload.as_ptr()
        );
        assert_eq!(raw::<Vec<u8>>(&payload), None);
    }
}
