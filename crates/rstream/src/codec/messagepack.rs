//! `MessagePack`, by `rmp-serde`.

use std::io::Cursor;

use rmp_serde::decode::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Codec, DecodeFault};
use crate::error::BoxError;

/// [`MessagePack`](https://msgpack.org), behind the feature `messagepack`. Structs are written as maps by their fields'
/// names, and read from maps and from arrays.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessagePack;

impl Codec for MessagePack {
    fn name(&self) -> &'static str {
        "MessagePack"
    }

    fn decode<T: DeserializeOwned>(&self, payload: &[u8]) -> Result<T, DecodeFault> {
        let mut decoder = rmp_serde::Deserializer::new(Cursor::new(payload));
        let value = T::deserialize(&mut decoder);
        let at = usize::try_from(decoder.position()).unwrap_or(payload.len());
        match value {
            Ok(value) if at == payload.len() => Ok(value),
            Ok(_) => Err(DecodeFault::new("syntax").at_byte(at)),
            Err(error) => Err(DecodeFault::new(category(&error)).at_byte(at)),
        }
    }

    fn encode<T: Serialize + ?Sized>(&self, value: &T) -> Result<Vec<u8>, BoxError> {
        Ok(rmp_serde::to_vec_named(value)?)
    }
}

fn category(error: &Error) -> &'static str {
    match error {
        Error::InvalidMarkerRead(_) | Error::InvalidDataRead(_) => "eof",
        Error::DepthLimitExceeded => "depth",
        _ => "data",
    }
}
