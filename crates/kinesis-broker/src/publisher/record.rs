//! A record before it is stored, and what the service takes in one.

use std::any::type_name;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::PublishError;

/// The characters of a partition key ([PutRecordsRequestEntry]).
///
/// [PutRecordsRequestEntry]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecordsRequestEntry.html
const KEY_LENGTH: std::ops::RangeInclusive<usize> = 1..=256;

/// A record to be put.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) partition_key: Arc<str>,
    pub(crate) explicit_hash_key: Option<u128>,
    pub(crate) data: Bytes,
}

impl Record {
    /// Its size as the service counts it: data before base64, and partition key.
    pub(crate) fn bytes(&self) -> usize {
        self.data.len() + self.partition_key.len()
    }

    /// Refuses what the service would, where one call would be refused for one record.
    pub(crate) fn check(&self, stream: &str, limit: usize) -> Result<(), PublishError> {
        let length = self.partition_key.chars().count();
        if !KEY_LENGTH.contains(&length) {
            return Err(PublishError::PartitionKey {
                stream: stream.to_owned(),
                length,
            });
        }
        if self.bytes() > limit {
            return Err(PublishError::TooLarge {
                stream: stream.to_owned(),
                size: self.bytes(),
                limit,
            });
        }
        Ok(())
    }
}

/// A value as the data of a record.
pub(crate) fn encode<T: Serialize + ?Sized>(
    stream: &str,
    value: &T,
) -> Result<Bytes, PublishError> {
    let encoded = serde_json::to_vec(value).map_err(|error| PublishError::Encode {
        stream: stream.to_owned(),
        type_name: type_name::<T>(),
        source: error.into(),
    })?;
    Ok(encoded.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(partition_key: &str, data: usize) -> Record {
        Record {
            partition_key: partition_key.into(),
            explicit_hash_key: None,
            data: vec![0; data].into(),
        }
    }

    #[test]
    fn a_partition_key_has_1_to_256_characters_whatever_their_bytes() {
        for good in ["k", &"k".repeat(256), &"ß".repeat(256), "🦀"] {
            record(good, 1).check("inventory", 2_000).unwrap();
        }
        for (bad, said) in [("", "0 characters"), (&*"ß".repeat(257), "257 characters")] {
            let error = record(bad, 1).check("inventory", 2_000).unwrap_err();
            let error = error.to_string();
            assert!(
                error.contains(said) && error.contains("inventory"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_size_of_a_record_is_that_of_its_data_and_its_key_in_bytes() {
        record("ßß", 96).check("inventory", 100).unwrap();
        let error = record("ßß", 97).check("inventory", 100).unwrap_err();
        let PublishError::TooLarge { size, limit, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!((*size, *limit), (101, 100));
    }
}
