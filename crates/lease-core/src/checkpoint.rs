//! How far a shard was read, and the text that stands for it in a row.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The text of [`Checkpoint::shard_end()`].
pub const SHARD_END: &str = "SHARD_END";

const AT_TIMESTAMP: &str = "AT_TIMESTAMP:";

/// After which record of a shard the next reader goes on.
///
/// It is one of three: the sequence number of the last record handled, a moment (where a shard was
/// opened at its tip and nothing has been handled yet), or the end of the shard. Checkpoints have
/// no order: a store keeps the one that its holder sent last, and compares no sequence numbers.
///
/// Its text, which [`Display`](fmt::Display) writes and [`FromStr`] reads, is what a store puts into
/// a row:
///
/// | checkpoint | text |
/// | --- | --- |
/// | a sequence number | its decimal digits alone |
/// | a moment | `AT_TIMESTAMP:` and Unix seconds, with up to nine decimals where they are not whole |
/// | the end of the shard | [`SHARD_END`] |
///
/// A sequence number followed by a colon is kept free for a place inside an aggregated record; this
/// version refuses to read it rather than to take it for something else.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
///
/// use lease_core::Checkpoint;
///
/// let checkpoint = Checkpoint::at("49590338271490256608559692538361571095921575989136588898");
/// assert_eq!(checkpoint.to_string().parse(), Ok(checkpoint));
///
/// let tip = Checkpoint::at_timestamp(UNIX_EPOCH + Duration::from_millis(1_700_000_000_250));
/// assert_eq!(tip.to_string(), "AT_TIMESTAMP:1700000000.25");
///
/// assert!("SHARD_END".parse::<Checkpoint>()?.is_shard_end());
/// # Ok::<(), lease_core::ParseCheckpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Checkpoint(Position);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Position {
    Sequence(String),
    Timestamp(SystemTime),
    ShardEnd,
}

impl Checkpoint {
    /// After the record with this sequence number, as Kinesis gives it.
    ///
    /// A text that stands for a moment or for the end of the shard becomes that. Any other text is
    /// kept as it is; what is no [sequence number][pattern] cannot be read back from a row.
    ///
    /// [pattern]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_SequenceNumberRange.html
    #[must_use]
    pub fn at(sequence_number: impl Into<String>) -> Self {
        let text = sequence_number.into();
        text.parse().unwrap_or(Self(Position::Sequence(text)))
    }

    /// At the first record that arrived at this moment or later.
    #[must_use]
    pub fn at_timestamp(moment: SystemTime) -> Self {
        Self(Position::Timestamp(moment))
    }

    /// After the last record of a closed shard, with every record of it settled.
    #[must_use]
    pub fn shard_end() -> Self {
        Self(Position::ShardEnd)
    }

    /// The sequence number of the last record handled, if this is one.
    #[must_use]
    pub fn sequence(&self) -> Option<&str> {
        match &self.0 {
            Position::Sequence(number) => Some(number),
            Position::Timestamp(_) | Position::ShardEnd => None,
        }
    }

    /// The moment to open at, if this is one.
    #[must_use]
    pub fn timestamp(&self) -> Option<SystemTime> {
        match self.0 {
            Position::Timestamp(moment) => Some(moment),
            Position::Sequence(_) | Position::ShardEnd => None,
        }
    }

    /// Whether this is the end of the shard.
    #[must_use]
    pub fn is_shard_end(&self) -> bool {
        self.0 == Position::ShardEnd
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Position::Sequence(number) => f.write_str(number),
            Position::Timestamp(moment) => {
                let (sign, distance) = match moment.duration_since(UNIX_EPOCH) {
                    Ok(after) => ("", after),
                    Err(before) => ("-", before.duration()),
                };
                write!(f, "{AT_TIMESTAMP}{sign}{}", distance.as_secs())?;
                match distance.subsec_nanos() {
                    0 => Ok(()),
                    nanos => write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0')),
                }
            }
            Position::ShardEnd => f.write_str(SHARD_END),
        }
    }
}

/// A text that is no checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no checkpoint: it is neither a sequence number, nor {AT_TIMESTAMP} with Unix seconds, nor {SHARD_END}"
)]
pub struct ParseCheckpointError {
    text: String,
}

impl FromStr for Checkpoint {
    type Err = ParseCheckpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let position = if text == SHARD_END {
            Some(Position::ShardEnd)
        } else if let Some(seconds) = text.strip_prefix(AT_TIMESTAMP) {
            parse_moment(seconds).map(Position::Timestamp)
        } else {
            is_decimal(text).then(|| Position::Sequence(text.to_owned()))
        };
        position.map(Self).ok_or_else(|| ParseCheckpointError {
            text: text.to_owned(),
        })
    }
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn parse_moment(text: &str) -> Option<SystemTime> {
    let (before_epoch, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, "0"));
    if !is_decimal(seconds) || !is_decimal(decimals) || decimals.len() > 9 {
        return None;
    }
    let nanos = format!("{decimals:0<9}").parse().ok()?;
    let distance = Duration::new(seconds.parse().ok()?, nanos);
    if before_epoch {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};

    use super::*;

    fn checkpoints() -> impl Strategy<Value = Checkpoint> {
        let moments = (any::<bool>(), 0..=u64::from(u32::MAX), 0..1_000_000_000_u32).prop_map(
            |(before, seconds, nanos)| {
                let distance = Duration::new(seconds, nanos);
                if before {
                    UNIX_EPOCH - distance
                } else {
                    UNIX_EPOCH + distance
                }
            },
        );
        prop_oneof![
            "0|[1-9][0-9]{0,128}".prop_map(Checkpoint::at),
            moments.prop_map(Checkpoint::at_timestamp),
            proptest::strategy::Just(Checkpoint::shard_end()),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_as_it_was(checkpoint in checkpoints()) {
            prop_assert_eq!(checkpoint.to_string().parse(), Ok(checkpoint));
        }

        #[test]
        fn any_text_either_reads_as_what_it_writes_or_is_named_in_the_error(text in ".{0,40}") {
            match text.parse::<Checkpoint>() {
                Ok(checkpoint) => prop_assert_eq!(checkpoint.to_string().parse(), Ok(checkpoint)),
                Err(error) => assert!(error.to_string().starts_with(&format!("{text:?}"))),
            }
        }

        #[test]
        fn a_text_never_reads_back_as_another_position(text in ".{0,40}") {
            let written = Checkpoint::at(text.as_str());
            if let Ok(read) = written.to_string().parse::<Checkpoint>() {
                prop_assert_eq!(read, written);
            }
        }
    }

    #[test]
    fn each_form_has_its_text_and_its_accessor() {
        let moment = UNIX_EPOCH + Duration::from_millis(1_500);
        let table = [
            (Checkpoint::at("42"), "42", Some("42"), None, false),
            (
                Checkpoint::at_timestamp(moment),
                "AT_TIMESTAMP:1.5",
                None,
                Some(moment),
                false,
            ),
            (Checkpoint::shard_end(), SHARD_END, None, None, true),
        ];
        for (checkpoint, text, sequence, timestamp, end) in table {
            assert_eq!(checkpoint.to_string(), text);
            assert_eq!(checkpoint.sequence(), sequence);
            assert_eq!(checkpoint.timestamp(), timestamp);
            assert_eq!(checkpoint.is_shard_end(), end);
        }
    }

    #[test]
    fn the_name_of_the_shard_end_is_no_sequence_number() {
        assert_eq!(Checkpoint::at(SHARD_END), Checkpoint::shard_end());
    }

    #[test]
    fn what_is_no_checkpoint_is_refused_by_name() {
        let refused = [
            "",
            " 42",
            "42:7",
            "-42",
            "LATEST",
            "shard_end",
            "AT_TIMESTAMP:",
            "AT_TIMESTAMP:1.",
            "AT_TIMESTAMP:.5",
            "AT_TIMESTAMP:+1",
            "AT_TIMESTAMP:--1",
            "AT_TIMESTAMP:1.0000000001",
            "AT_TIMESTAMP:18446744073709551615",
            "AT_TIMESTAMP:99999999999999999999",
        ];
        for text in refused {
            let error = text.parse::<Checkpoint>().unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
