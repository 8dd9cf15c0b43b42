//! What several operations' inputs and outputs have in common. It alone knows how a stream is named in a
//! request, and how a shard is written in an answer.

use std::borrow::Cow;
use std::fmt::Display;

use aws_smithy_types::base64;
use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::ServiceError;
use crate::sequence::SequenceNumber;
use crate::shard::{self, ShardId};
use crate::stream::{ACCOUNT, REGION};

/// `StreamName` and `StreamARN`: one of them, or both where they agree.
#[derive(Debug, Default, Deserialize)]
pub(super) struct StreamRef {
    #[serde(rename = "StreamName")]
    pub(super) name: Option<String>,
    #[serde(rename = "StreamARN")]
    pub(super) arn: Option<String>,
}

impl StreamRef {
    /// The name that was meant, if it can be made out at all.
    pub(super) fn hint(&self) -> Option<String> {
        let arn = self
            .arn
            .as_deref()
            .and_then(|arn| arn.rsplit_once(":stream/"));
        self.name
            .clone()
            .or_else(|| arn.map(|(_, name)| name.to_owned()))
    }

    /// The name of the stream, if what is given is well formed.
    pub(super) fn resolve(&self) -> Result<String, ServiceError> {
        if let Some(name) = &self.name {
            check_name("streamName", name)?;
        }
        let in_arn = self.arn.as_deref().map(name_in_arn).transpose()?;
        match (&self.name, in_arn) {
            (Some(name), Some(in_arn)) if *name != in_arn => {
                Err(ServiceError::invalid_argument(format!(
                    "StreamName {name} and StreamARN {} are of different streams.",
                    self.arn.as_deref().unwrap_or_default()
                )))
            }
            (Some(name), _) => Ok(name.clone()),
            (None, Some(in_arn)) => Ok(in_arn.to_owned()),
            (None, None) => Err(ServiceError::invalid_argument(
                "Either StreamName or StreamARN must be provided.",
            )),
        }
    }
}

/// CreateStream, StreamName: 1 to 128 of the characters `a-zA-Z0-9_.-`.
pub(super) fn check_name(field: &str, name: &str) -> Result<(), ServiceError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if name.is_empty() {
        let rule = "have length greater than or equal to 1";
        Err(ServiceError::constraint(field, name, rule))
    } else if name.len() > 128 {
        Err(ServiceError::constraint(
            field,
            name,
            "have length less than or equal to 128",
        ))
    } else if !name.bytes().all(allowed) {
        let rule = "satisfy regular expression pattern: [a-zA-Z0-9_.-]+";
        Err(ServiceError::constraint(field, name, rule))
    } else {
        Ok(())
    }
}

fn name_in_arn(arn: &str) -> Result<&str, ServiceError> {
    let rule = "satisfy regular expression pattern: arn:aws.*:kinesis:.*:\\d{12}:stream/\\S+";
    let malformed = || ServiceError::constraint("streamARN", arn, rule);
    let mut parts = arn.splitn(6, ':');
    let (prefix, partition, service) = (parts.next(), parts.next(), parts.next());
    let (region, account) = (parts.next(), parts.next());
    let name = parts
        .next()
        .and_then(|resource| resource.strip_prefix("stream/"))
        .ok_or_else(malformed)?;
    let aws = partition.is_some_and(|partition| partition.starts_with("aws"));
    if prefix != Some("arn") || !aws || service != Some("kinesis") {
        return Err(malformed());
    }
    check_name("streamARN", name)?;
    if region != Some(REGION) || account != Some(ACCOUNT) {
        return Err(ServiceError::not_found(format!("Stream {arn} not found.")));
    }
    Ok(name)
}

/// `HashKeyRange`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct HashKeyRange {
    #[serde(serialize_with = "as_text")]
    starting_hash_key: u128,
    #[serde(serialize_with = "as_text")]
    ending_hash_key: u128,
}

impl HashKeyRange {
    pub(super) fn of(shard: &shard::Shard) -> Self {
        Self {
            starting_hash_key: shard.hash_keys.start,
            ending_hash_key: shard.hash_keys.end,
        }
    }
}

/// `SequenceNumberRange`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct SequenceNumberRange {
    starting_sequence_number: SequenceNumber,
    #[serde(skip_serializing_if = "Option::is_none")]
    ending_sequence_number: Option<SequenceNumber>,
}

/// `Shard`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Shard {
    shard_id: ShardId,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_shard_id: Option<ShardId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    adjacent_parent_shard_id: Option<ShardId>,
    hash_key_range: HashKeyRange,
    sequence_number_range: SequenceNumberRange,
}

impl Shard {
    pub(super) fn of(shard: &shard::Shard) -> Self {
        Self {
            shard_id: shard.id,
            parent_shard_id: shard.origin.parent(),
            adjacent_parent_shard_id: shard.origin.adjacent_parent(),
            hash_key_range: HashKeyRange::of(shard),
            sequence_number_range: SequenceNumberRange {
                starting_sequence_number: shard.starting,
                ending_sequence_number: shard.closing.as_ref().map(|closing| closing.ending),
            },
        }
    }
}

/// Writes a value as the string that it displays as.
pub(super) fn as_text<T: Display, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// A blob, which JSON carries in base64.
#[derive(Clone, Debug)]
pub(super) struct Blob(pub(super) Bytes);

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        base64::decode(text)
            .map(|data| Self(data.into()))
            .map_err(D::Error::custom)
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64::encode(&self.0))
    }
}

/// `DryRun`: the call ends here where it is set, having been found good.
pub(super) fn stop_dry_run(dry_run: Option<bool>) -> Result<(), ServiceError> {
    match dry_run {
        Some(true) => Err(ServiceError::dry_run(
            "Request would have succeeded, but DryRun flag is set.",
        )),
        _ => Ok(()),
    }
}
