//! A codec whose type is forgotten, for `TestApp`, which learns at run time where a value goes and comes from.

use std::cell::RefCell;
use std::rc::Rc;

use serde::de::{DeserializeOwned, Deserializer, Error as _};

use super::{Codec, DecodeFault};
use crate::error::BoxError;

/// What takes a value out of a decoder of whatever type.
type Take = dyn FnMut(&mut dyn erased_serde::Deserializer<'_>) -> Result<(), erased_serde::Error>;

/// A [`Codec`], object-safe.
pub(crate) trait AnyCodec: Send + Sync {
    fn encode_any(&self, value: &dyn erased_serde::Serialize) -> Result<Vec<u8>, BoxError>;

    fn decode_any(&self, payload: &[u8], take: Box<Take>) -> Result<(), DecodeFault>;

    fn name(&self) -> &'static str;
}

impl<C: Codec> AnyCodec for C {
    fn encode_any(&self, value: &dyn erased_serde::Serialize) -> Result<Vec<u8>, BoxError> {
        self.encode(value)
    }

    fn decode_any(&self, payload: &[u8], take: Box<Take>) -> Result<(), DecodeFault> {
        TAKE.set(Some(take));
        let decoded = self.decode::<Taken>(payload);
        TAKE.set(None);
        decoded.map(|Taken| ())
    }

    fn name(&self) -> &'static str {
        Codec::name(self)
    }
}

thread_local! {
    /// A codec takes a type and no value, so this is the way into a `Deserialize`.
    static TAKE: RefCell<Option<Box<Take>>> = const { RefCell::new(None) };
}

/// A value that gives the decoder to what is in `TAKE`.
struct Taken;

impl<'de> serde::Deserialize<'de> for Taken {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        let Some(mut take) = TAKE.take() else {
            return Err(D::Error::custom("nobody takes this value"));
        };
        take(&mut <dyn erased_serde::Deserializer<'_>>::erase(decoder))
            .map_err(D::Error::custom)?;
        Ok(Self)
    }
}

/// Decodes a `T` with `codec`.
pub(crate) fn decode<T: DeserializeOwned + 'static>(
    codec: &dyn AnyCodec,
    payload: &[u8],
) -> Result<T, DecodeFault> {
    let slot = Rc::new(RefCell::new(None));
    let into = Rc::clone(&slot);
    codec.decode_any(
        payload,
        Box::new(move |decoder| {
            *into.borrow_mut() = Some(erased_serde::deserialize(decoder)?);
            Ok(())
        }),
    )?;
    let value = slot.borrow_mut().take();
    // A codec that gives a value without reading one has none to give here.
    value.ok_or(DecodeFault::new("data"))
}
