//! JSON, by `serde_json`.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::{Codec, DecodeFault};
use crate::error::BoxError;

/// JSON, the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

impl Codec for Json {
    fn name(&self) -> &'static str {
        "JSON"
    }

    fn decode<T: DeserializeOwned>(&self, payload: &[u8]) -> Result<T, DecodeFault> {
        serde_json::from_slice(payload).map_err(|error| {
            let category = match error.classify() {
                Category::Io => "io",
                Category::Syntax => "syntax",
                Category::Data => "data",
                Category::Eof => "eof",
            };
            DecodeFault::new(category).at_line(error.line(), error.column())
        })
    }

    fn encode<T: Serialize + ?Sized>(&self, value: &T) -> Result<Vec<u8>, BoxError> {
        Ok(serde_json::to_vec(value)?)
    }
}
