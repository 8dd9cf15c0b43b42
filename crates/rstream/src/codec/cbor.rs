//! CBOR, by `ciborium`.

use ciborium::de::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Codec, DecodeFault};
use crate::error::BoxError;

/// [CBOR](https://www.rfc-editor.org/rfc/rfc8949), behind the feature `cbor`. Structs are maps by their fields' names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cbor;

impl Codec for Cbor {
    fn name(&self) -> &'static str {
        "CBOR"
    }

    fn decode<T: DeserializeOwned>(&self, payload: &[u8]) -> Result<T, DecodeFault> {
        let mut rest = payload;
        let value = ciborium::from_reader(&mut rest).map_err(|error| match error {
            Error::Io(_) => DecodeFault::new("eof").at_byte(payload.len()),
            Error::Syntax(offset) => DecodeFault::new("syntax").at_byte(offset),
            Error::Semantic(Some(offset), _) => DecodeFault::new("data").at_byte(offset),
            Error::Semantic(None, _) => DecodeFault::new("data"),
            Error::RecursionLimitExceeded => DecodeFault::new("depth"),
        })?;
        if rest.is_empty() {
            Ok(value)
        } else {
            Err(DecodeFault::new("syntax").at_byte(payload.len() - rest.len()))
        }
    }

    fn encode<T: Serialize + ?Sized>(&self, value: &T) -> Result<Vec<u8>, BoxError> {
        let mut payload = Vec::new();
        ciborium::into_writer(value, &mut payload)?;
        Ok(payload)
    }
}
