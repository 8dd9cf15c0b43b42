//! A record that was given up: its payload as it was, and beside it where it came from and why.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::RecordInfo;

/// The version of the form in which dead letters are written.
const VERSION: u32 = 1;

/// A record that a subscription gave up, as it lies in the stream of its
/// [`dead_letter`](rstream::SubscriberBuilder::dead_letter)s.
///
/// It is written as one line of JSON that says where it came from, how often it was tried and why it was given up,
/// and behind the line's end the payload, byte for byte. The dead letter has the record's partition key, so those of
/// one key stay in order. Where both together are larger than the stream takes, the line comes as a record of its own, with
/// `"payload_follows": true`, and the payload as a later record of that key: the next one that this service puts. A record without a
/// partition key is stored under its sequence number.
///
/// ```
/// use kinesis_broker::prelude::*;
/// use kinesis_broker::DeadLetter;
///
/// /// Says what was given up. It takes the bytes as they are.
/// #[subscriber(KinesisStream::new("inventory-dead"))]
/// async fn given_up(letter: &[u8]) -> HandlerOutcome {
///     if let Some(letter) = DeadLetter::parse(letter) {
///         println!("{} of {}: {}", letter.sequence_number, letter.stream, letter.reason);
///     }
///     HandlerOutcome::ack()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The stream that the record was read from.
    pub stream: String,
    /// Its shard.
    pub shard: String,
    /// Its sequence number there.
    pub sequence_number: String,
    /// Its place inside an aggregated record, where it was in one.
    pub sub_sequence_number: Option<u64>,
    /// Its partition key.
    pub partition_key: String,
    /// When the service had stored it, to the millisecond.
    pub arrived_at: SystemTime,
    /// How often it was handed to the handler before it was given up.
    pub attempts: u32,
    /// Why it was given up: the handler's own words, or what came of the last attempt.
    pub reason: String,
    /// The payload, as it was. Empty where it [follows](Self::payload_follows).
    pub payload: Bytes,
    /// Whether the payload is in the next record of this partition key, since both were too large for one.
    pub payload_follows: bool,
}

#[derive(Serialize, Deserialize)]
struct Header<'a> {
    /// Says what it is, and in which form.
    dead_letter: u32,
    #[serde(borrow)]
    stream: Cow<'a, str>,
    #[serde(borrow)]
    shard: Cow<'a, str>,
    #[serde(borrow)]
    sequence_number: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    sub_sequence_number: Option<u64>,
    #[serde(borrow)]
    partition_key: Cow<'a, str>,
    arrived_at_millis: u64,
    attempts: u32,
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    payload_follows: bool,
}

impl DeadLetter {
    /// Reads a dead letter; `None` where it is none.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Self> {
        let end = data.iter().position(|byte| *byte == b'\n')?;
        let header: Header<'_> = serde_json::from_slice(&data[..end]).ok()?;
        if header.dead_letter != VERSION {
            return None;
        }
        Some(Self {
            stream: header.stream.into_owned(),
            shard: header.shard.into_owned(),
            sequence_number: header.sequence_number.into_owned(),
            sub_sequence_number: header.sub_sequence_number,
            partition_key: header.partition_key.into_owned(),
            arrived_at: SystemTime::UNIX_EPOCH + Duration::from_millis(header.arrived_at_millis),
            attempts: header.attempts,
            reason: header.reason.into_owned(),
            payload: Bytes::copy_from_slice(&data[end + 1..]),
            payload_follows: header.payload_follows,
        })
    }
}

/// The data of a dead letter in one record; with `payload_follows`, of the first of its two.
pub(crate) fn write(
    info: &RecordInfo,
    payload: &[u8],
    attempts: u32,
    reason: &str,
    payload_follows: bool,
) -> Bytes {
    let since = info
        .arrived_at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let header = Header {
        dead_letter: VERSION,
        stream: info.stream.as_str().into(),
        shard: info.shard.as_str().into(),
        sequence_number: info.sequence_number.as_str().into(),
        sub_sequence_number: info.sub_sequence_number,
        partition_key: info.partition_key.as_str().into(),
        arrived_at_millis: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        attempts,
        reason: reason.into(),
        payload_follows,
    };
    let payload = if payload_follows { &[] } else { payload };
    let mut data = BytesMut::with_capacity(512 + payload.len()).writer();
    // Writing to memory, of a type that has no other fault, cannot fail.
    let _ = serde_json::to_writer(&mut data, &header);
    let mut data = data.into_inner();
    data.put_u8(b'\n');
    data.extend_from_slice(payload);
    data.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn info(partition_key: &str, sub: Option<u64>) -> RecordInfo {
        RecordInfo {
            stream: "inventory".to_owned(),
            shard: "shardId-000000000000".to_owned(),
            sequence_number: "42".to_owned(),
            sub_sequence_number: sub,
            partition_key: partition_key.to_owned(),
            arrived_at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_767_225_601_234),
            ..RecordInfo::default()
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_the_payload_is_as_it_was(
            key in ".*",
            reason in ".*",
            payload in any::<Vec<u8>>(),
            attempts in any::<u32>(),
            sub in any::<Option<u64>>(),
        ) {
            let info = info(&key, sub);
            let letter = DeadLetter::parse(&write(&info, &payload, attempts, &reason, false)).unwrap();
            prop_assert_eq!(&letter.payload[..], &payload[..]);
            prop_assert_eq!(&letter.partition_key, &key);
            prop_assert_eq!(&letter.reason, &reason);
            prop_assert_eq!((letter.attempts, letter.sub_sequence_number), (attempts, sub));
            prop_assert_eq!(letter.arrived_at, info.arrived_at);
            prop_assert!(!letter.payload_follows);
        }

        #[test]
        fn what_is_none_is_told(data in any::<Vec<u8>>()) {
            prop_assert_eq!(DeadLetter::parse(&data), None);
        }
    }

    #[test]
    fn the_first_line_is_for_people_and_their_tools() {
        let data = write(&info("sku-7", None), b"\x00\n\xff", 3, "no such sku", false);
        let (line, payload) = data.split_at(data.iter().position(|byte| *byte == b'\n').unwrap());
        assert_eq!(
            std::str::from_utf8(line).unwrap(),
            r#"{"dead_letter":1,"stream":"inventory","shard":"shardId-000000000000","sequence_number":"42","partition_key":"sku-7","arrived_at_millis":1767225601234,"attempts":3,"reason":"no such sku"}"#
        );
        assert_eq!(payload, b"\n\x00\n\xff");
    }

    #[test]
    fn a_payload_that_follows_is_not_in_the_first_record() {
        let data = write(&info("k", None), b"large", 1, "why", true);
        let letter = DeadLetter::parse(&data).unwrap();
        assert!(letter.payload_follows && letter.payload.is_empty());
    }
}
