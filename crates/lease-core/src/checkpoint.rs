//! How far a shard was read, and the text that stands for it in a row.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The text of [`Checkpoint::shard_end()`].
pub const SHARD_END: &str = "SHARD_END";

const AT_TIMESTAMP: &str = "AT_TIMESTAMP:";

/// After which record of a shard the next reader goes on.
///
/// It is one of four: the sequence number of the last record handled, a place inside an aggregated
/// record of which the rest is to be handled yet, a moment (where a shard was opened at its tip and
/// nothing has been handled yet), or the end of the shard. Checkpoints have no order: a store keeps
/// the one that its holder sent last, and compares no sequence numbers. Cloning copies no text.
///
/// Its text, which [`Display`](fmt::Display) writes and [`FromStr`] reads, is what a store puts into
/// a row:
///
/// | checkpoint | text |
/// | --- | --- |
/// | a sequence number | its decimal digits alone |
/// | a place inside an aggregated record | the record's sequence number, `:`, and the number of the user record, from 0 |
/// | a moment | `AT_TIMESTAMP:` and Unix seconds, with up to nine decimals where they are not whole |
/// | the end of the shard | [`SHARD_END`] |
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
///
/// use lease_core::Checkpoint;
///
/// let checkpoint = Checkpoint::at("49590338271490256608559692538361571095921575989136588898");
/// assert_eq!(checkpoint.to_string().parse(), Ok(checkpoint));
///
/// let inside = Checkpoint::at_sub("4959033827149025660855969253836157109592", 17);
/// assert_eq!(inside.to_string(), "4959033827149025660855969253836157109592:17");
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
    Sequence(Arc<str>),
    /// The sequence number is a decimal number.
    SubSequence(Arc<str>, u64),
    Timestamp(SystemTime),
    ShardEnd,
}

impl Checkpoint {
    /// After the record with this sequence number, as Kinesis gives it.
    ///
    /// A text that stands for another checkpoint, such as the end of the shard, becomes that. Any other
    /// text is kept as it is; what is no [sequence number][pattern] cannot be read back from a row.
    ///
    /// [pattern]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_SequenceNumberRange.html
    #[must_use]
    pub fn at(sequence_number: impl Into<String>) -> Self {
        Self::from_shared(sequence_number.into().into())
    }

    /// The same as [`at`](Self::at), of a text that is shared already; does not copy it.
    #[must_use]
    pub fn from_shared(sequence_number: Arc<str>) -> Self {
        if is_decimal(&sequence_number) {
            return Self(Position::Sequence(sequence_number));
        }
        let position = Position::read(&sequence_number);
        Self(position.unwrap_or(Position::Sequence(sequence_number)))
    }

    /// After one user record inside the aggregated record with this sequence number.
    ///
    /// User records are numbered from 0, in the order in which the aggregated record has them. After
    /// the last of them [`at`](Self::at) says more: the whole record is handled.
    ///
    /// An `Arc<str>` is not copied. What is no sequence number is taken together with
    /// `sub`, as `at` would take the text of both.
    ///
    /// ```
    /// use lease_core::Checkpoint;
    ///
    /// let checkpoint = Checkpoint::at_sub("42", 7);
    /// assert_eq!((checkpoint.sequence(), checkpoint.sub_sequence()), (Some("42"), Some(7)));
    /// assert_eq!("42:7".parse(), Ok(checkpoint));
    /// ```
    #[must_use]
    pub fn at_sub(sequence_number: impl Into<Arc<str>>, sub: u64) -> Self {
        let number = sequence_number.into();
        if is_decimal(&number) {
            Self(Position::SubSequence(number, sub))
        } else {
            Self::at(format!("{number}:{sub}"))
        }
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

    /// The sequence number of the last record handled, or of the aggregated record of which user
    /// records up to [`sub_sequence`](Self::sub_sequence) are handled, if this is one.
    #[must_use]
    pub fn sequence(&self) -> Option<&str> {
        self.shared_sequence().map(|number| &**number)
    }

    /// The same as [`sequence`](Self::sequence), to share without copying it.
    #[must_use]
    pub fn shared_sequence(&self) -> Option<&Arc<str>> {
        match &self.0 {
            Position::Sequence(number) | Position::SubSequence(number, _) => Some(number),
            Position::Timestamp(_) | Position::ShardEnd => None,
        }
    }

    /// The number of the last user record handled inside the aggregated record, from 0; `None` where
    /// the whole of a record is handled, and where this is no sequence number.
    ///
    /// Whoever opens a shard here reads the record itself once more, as it is only handled in part.
    #[must_use]
    pub fn sub_sequence(&self) -> Option<u64> {
        match self.0 {
            Position::SubSequence(_, sub) => Some(sub),
            Position::Sequence(_) | Position::Timestamp(_) | Position::ShardEnd => None,
        }
    }

    /// The moment to open at, if this is one.
    #[must_use]
    pub fn timestamp(&self) -> Option<SystemTime> {
        match self.0 {
            Position::Timestamp(moment) => Some(moment),
            Position::Sequence(_) | Position::SubSequence(..) | Position::ShardEnd => None,
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
            Position::SubSequence(number, sub) => write!(f, "{number}:{sub}"),
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
    "{text:?} is no checkpoint: it is neither a sequence number, alone or with a colon and the number of a user \
     record, nor {AT_TIMESTAMP} with Unix seconds, nor {SHARD_END}"
)]
pub struct ParseCheckpointError {
    text: String,
}

impl FromStr for Checkpoint {
    type Err = ParseCheckpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let position = Position::read(text).map(Self);
        position.ok_or_else(|| ParseCheckpointError {
            text: text.to_owned(),
        })
    }
}

impl Position {
    fn read(text: &str) -> Option<Self> {
        if text == SHARD_END {
            return Some(Self::ShardEnd);
        }
        if let Some(seconds) = text.strip_prefix(AT_TIMESTAMP) {
            return parse_moment(seconds).map(Self::Timestamp);
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        match text.split_at(digits) {
            ("", _) => None,
            (number, "") => Some(Self::Sequence(number.into())),
            (number, rest) => {
                let sub = parse_sub(rest.strip_prefix(':')?)?;
                Some(Self::SubSequence(number.into(), sub))
            }
        }
    }
}

/// A number in the one text that is written for it.
fn parse_sub(text: &str) -> Option<u64> {
    let is_canonical = is_decimal(text) && (text == "0" || !text.starts_with('0'));
    is_canonical.then(|| text.parse().ok())?
}

fn is_decimal(text: &str) -> bool {
    // Every record's number comes here. Without a way out of the loop it is done many bytes at a time.
    let are_digits = text
        .bytes()
        .fold(true, |are, byte| are & byte.is_ascii_digit());
    are_digits && !text.is_empty()
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
            ("0|[1-9][0-9]{0,128}", subs())
                .prop_map(|(number, sub)| Checkpoint::at_sub(number, sub)),
            moments.prop_map(Checkpoint::at_timestamp),
            proptest::strategy::Just(Checkpoint::shard_end()),
        ]
    }

    fn subs() -> impl Strategy<Value = u64> {
        prop_oneof![0..20_u64, any::<u64>()]
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
        fn a_text_never_reads_back_as_another_position(
            text in "(AT_TIMESTAMP|SHARD_END)?(.{0,40}|[0-9:]{0,8})",
            sub in subs(),
        ) {
            let at = Checkpoint::at(text.as_str());
            prop_assert_eq!(&Checkpoint::from_shared(text.as_str().into()), &at);
            for written in [at, Checkpoint::at_sub(text.as_str(), sub)] {
                if let Ok(read) = written.to_string().parse::<Checkpoint>() {
                    prop_assert_eq!(read, written);
                }
            }
        }

        #[test]
        fn a_place_inside_a_record_is_the_text_of_both_numbers(number in "[0-9]{1,130}", sub in subs()) {
            let text = format!("{number}:{sub}");
            let inside = Checkpoint::at_sub(number.as_str(), sub);
            prop_assert_eq!(&Checkpoint::at(text.as_str()), &inside);
            prop_assert_eq!(inside.to_string(), text);
            prop_assert_eq!((inside.sequence(), inside.sub_sequence()), (Some(&*number), Some(sub)));
        }
    }

    #[test]
    fn each_form_has_its_text_and_its_accessor() {
        let moment = UNIX_EPOCH + Duration::from_millis(1_500);
        let table = [
            (Checkpoint::at("42"), "42", Some("42"), None, None, false),
            (
                Checkpoint::at_sub("42", 7),
                "42:7",
                Some("42"),
                Some(7),
                None,
                false,
            ),
            (
                Checkpoint::at_timestamp(moment),
                "AT_TIMESTAMP:1.5",
                None,
                None,
                Some(moment),
                false,
            ),
            (Checkpoint::shard_end(), SHARD_END, None, None, None, true),
        ];
        for (checkpoint, text, sequence, sub, timestamp, end) in table {
            assert_eq!(checkpoint.to_string(), text);
            assert_eq!(checkpoint.sequence(), sequence);
            assert_eq!(checkpoint.sub_sequence(), sub);
            assert_eq!(checkpoint.timestamp(), timestamp);
            assert_eq!(checkpoint.is_shard_end(), end);
        }
    }

    #[test]
    fn the_name_of_the_shard_end_is_no_sequence_number() {
        assert_eq!(Checkpoint::at(SHARD_END), Checkpoint::shard_end());
    }

    #[test]
    fn a_place_inside_no_record_is_what_the_text_of_both_stands_for() {
        let inside = Checkpoint::at_sub("AT_TIMESTAMP", 5);
        assert_eq!(inside, Checkpoint::at("AT_TIMESTAMP:5"));
        assert_eq!(inside.to_string().parse(), Ok(inside));
    }

    #[test]
    fn a_clone_and_a_place_inside_share_the_sequence_number() {
        let number: Arc<str> = "42".into();
        let inside = Checkpoint::at_sub(Arc::clone(&number), 7);
        let whole = Checkpoint::from_shared(Arc::clone(&number));
        for checkpoint in [&whole, &inside, &inside.clone()] {
            assert!(Arc::ptr_eq(checkpoint.shared_sequence().unwrap(), &number));
        }
    }

    #[test]
    fn what_is_no_checkpoint_is_refused_by_name() {
        let refused = [
            "",
            " 42",
            ":",
            ":1",
            "1:",
            "1:x",
            "1:+1",
            "1:-1",
            "1:01",
            "1:00",
            "1: 1",
            "1:1 ",
            "1:1:1",
            "1::1",
            "x:1",
            "1:18446744073709551616",
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
