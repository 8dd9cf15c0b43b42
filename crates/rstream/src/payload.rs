//! From the bytes that a broker hands over to the value that a handler is given.

use std::any::type_name;

use serde::de::DeserializeOwned;
use serde_json::error::Category;

/// Why a payload could not be decoded: the wanted type and where decoding failed.
///
/// It carries nothing of the payload, which decoders' own messages quote and which may be private.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot decode a {type_name} from JSON: {category} error at line {line}, column {column}")]
pub struct DecodeError {
    type_name: &'static str,
    category: &'static str,
    line: usize,
    column: usize,
}

impl DecodeError {
    /// The type that the handler takes.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        self.type_name
    }

    /// What kind of fault it is: `syntax` (not JSON), `data` (JSON of another shape) or `eof` (cut short).
    #[must_use]
    pub fn category(&self) -> &'static str {
        self.category
    }

    /// The line of the payload at which decoding failed, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column of that line, from 1; 0 where the line is empty.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }
}

pub(crate) fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(payload).map_err(|error| DecodeError {
        type_name: type_name::<T>(),
        category: match error.classify() {
            Category::Io => "io",
            Category::Syntax => "syntax",
            Category::Data => "data",
            Category::Eof => "eof",
        },
        line: error.line(),
        column: error.column(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_another_shape_says_where_and_quotes_nothing() {
        let error = decode::<u64>(br#""4111-1111-1111-1111""#).unwrap_err();

        assert_eq!(
            error.to_string(),
            "cannot decode a u64 from JSON: data error at line 1, column 21"
        );
        assert!(!format!("{error:?}").contains("4111"));
    }

    #[test]
    fn a_payload_cut_short_is_told_from_one_that_is_not_json() {
        assert_eq!(decode::<Vec<u8>>(b"[1,").unwrap_err().category(), "eof");
        assert_eq!(
            decode::<Vec<u8>>(b"\x00\xff").unwrap_err().category(),
            "syntax"
        );
        assert_eq!(decode::<Vec<u8>>(b"").unwrap_err().category(), "eof");
    }
}
