//! Sequence numbers. It alone knows how one is made, written and read back.

use std::fmt;

use crate::clock::Timestamp;

/// What every number begins with, so that it has the 56 digits of the service's and fits in no integer type.
const PREFIX: &str = "496000000000000000";
/// Digits after the prefix: thirteen of milliseconds, fifteen of a serial, ten of the shard's index.
const DIGITS: usize = 38;

const SHARD_SPAN: u128 = 10_u128.pow(10);
const SERIAL_SPAN: u128 = 10_u128.pow(15);
const TIME_SPAN: u128 = 10_u128.pow(13);

/// A place in one shard of one stream; numbers are ordered as their records were stored.
///
/// Like the service's, a number embeds the time and the shard it was given out for, so a stream that is
/// deleted and created again has none of the old one's numbers in its ranges.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SequenceNumber(u128);

impl SequenceNumber {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        if digits.len() != DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok().map(Self)
    }

    /// The lowest place above this one.
    pub(crate) fn successor(self) -> Self {
        Self(self.0 + 1)
    }

    /// The index of the shard that this number was given out for.
    pub(crate) fn shard(self) -> u128 {
        self.0 % SHARD_SPAN
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:0width$}", self.0, width = DIGITS)
    }
}

impl fmt::Debug for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for SequenceNumber {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Gives out numbers, each above every one before it, whatever the stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequencer {
    serial: u64,
}

impl Sequencer {
    /// The next number, for a record or a boundary of the shard at `shard`. Time must not run backwards
    /// between calls.
    pub(crate) fn next(&mut self, now: Timestamp, shard: usize) -> SequenceNumber {
        self.serial += 1;
        let time = u128::from(now.millis()) % TIME_SPAN;
        let serial = u128::from(self.serial) % SERIAL_SPAN;
        SequenceNumber((time * SERIAL_SPAN + serial) * SHARD_SPAN + shard as u128 % SHARD_SPAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_with_each_call_and_read_back_as_written() {
        let mut sequencer = Sequencer::default();
        let noon = Timestamp::from_seconds(1_767_225_600.0);
        let numbers = [
            sequencer.next(noon, 7),
            sequencer.next(noon, 0),
            sequencer.next(noon.plus(std::time::Duration::from_millis(1)), 3),
        ];
        assert!(numbers.is_sorted());
        for number in numbers {
            let text = number.to_string();
            assert_eq!(text.len(), 56);
            assert_eq!(SequenceNumber::parse(&text), Some(number));
        }
        assert_eq!(numbers[0].shard(), 7);
    }

    #[test]
    fn text_that_is_no_number_of_ours_is_refused() {
        for text in [
            "",
            "0",
            "TRIM_HORIZON",
            "49600000000000000012",
            "-49600000000000000",
        ] {
            assert_eq!(SequenceNumber::parse(text), None, "{text}");
        }
        let signed = format!("{PREFIX}+{:037}", 5);
        assert_eq!(SequenceNumber::parse(&signed), None);
    }
}
