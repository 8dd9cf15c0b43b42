//! The opaque strings that callers hand back: shard iterators and page tokens. It alone knows what they hold.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use aws_smithy_types::base64;

use crate::clock::Timestamp;
use crate::sequence::SequenceNumber;
use crate::shard::ShardId;

/// GetShardIterator: an iterator expires five minutes after it was returned.
pub(crate) const ITERATOR_LIFETIME: Duration = Duration::from_secs(300);
/// ListShards: a token expires after 300 seconds.
pub(crate) const PAGE_TOKEN_LIFETIME: Duration = Duration::from_secs(300);

/// A position in a shard, with when it was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardIterator {
    pub(crate) stream: String,
    pub(crate) incarnation: u64,
    pub(crate) shard: ShardId,
    pub(crate) from: SequenceNumber,
    pub(crate) issued_at: Timestamp,
    /// The how-manyth iterator this is, so that all issued so far can be made to expire.
    pub(crate) serial: u64,
}

impl ShardIterator {
    pub(crate) fn encode(&self) -> String {
        let issued_at = self.issued_at.millis();
        seal(&[
            &"iterator",
            &self.stream,
            &self.incarnation,
            &self.shard,
            &self.from,
            &issued_at,
            &self.serial,
        ])
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut fields = Fields::open("iterator", text)?;
        let iterator = Self {
            stream: fields.parse()?,
            incarnation: fields.parse()?,
            shard: ShardId::parse(&fields.parse::<String>()?)?,
            from: SequenceNumber::parse(&fields.parse::<String>()?)?,
            issued_at: fields.timestamp()?,
            serial: fields.parse()?,
        };
        fields.done().then_some(iterator)
    }
}

/// Which shards a listing wants (ListShards, ShardFilter).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShardSelection {
    /// All that are still listed: FROM_TRIM_HORIZON.
    All,
    /// AT_TRIM_HORIZON.
    AtTrimHorizon,
    /// AT_LATEST.
    AtLatest,
    /// AT_TIMESTAMP.
    At(Timestamp),
    /// FROM_TIMESTAMP.
    From(Timestamp),
}

/// Where a listing of shards goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardPage {
    pub(crate) stream: String,
    pub(crate) incarnation: u64,
    /// The last shard of the page before.
    pub(crate) after: Option<ShardId>,
    pub(crate) selection: ShardSelection,
    pub(crate) issued_at: Timestamp,
}

impl ShardPage {
    pub(crate) fn encode(&self) -> String {
        let (selection, time) = match self.selection {
            ShardSelection::All => ("all", 0),
            ShardSelection::AtTrimHorizon => ("at-trim-horizon", 0),
            ShardSelection::AtLatest => ("at-latest", 0),
            ShardSelection::At(time) => ("at", time.millis()),
            ShardSelection::From(time) => ("from", time.millis()),
        };
        let issued_at = self.issued_at.millis();
        let after = self
            .after
            .map_or_else(|| "-".to_owned(), |after| after.to_string());
        seal(&[
            &"shards",
            &self.stream,
            &self.incarnation,
            &after,
            &selection,
            &time,
            &issued_at,
        ])
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut fields = Fields::open("shards", text)?;
        let stream = fields.parse()?;
        let incarnation = fields.parse()?;
        let after = ShardId::parse(&fields.parse::<String>()?);
        let selection: String = fields.parse()?;
        let time = fields.timestamp()?;
        let issued_at = fields.timestamp()?;
        let selection = match selection.as_str() {
            "all" => ShardSelection::All,
            "at-trim-horizon" => ShardSelection::AtTrimHorizon,
            "at-latest" => ShardSelection::AtLatest,
            "at" => ShardSelection::At(time),
            "from" => ShardSelection::From(time),
            _ => return None,
        };
        fields.done().then_some(Self {
            stream,
            incarnation,
            after,
            selection,
            issued_at,
        })
    }
}

/// Writes fields that hold no space into one string.
fn seal(fields: &[&dyn Display]) -> String {
    let fields: Vec<_> = fields.iter().map(ToString::to_string).collect();
    base64::encode(fields.join(" "))
}

/// The fields of a sealed string, read one by one.
struct Fields {
    text: String,
    at: usize,
}

impl Fields {
    fn open(kind: &str, sealed: &str) -> Option<Self> {
        let text = String::from_utf8(base64::decode(sealed).ok()?).ok()?;
        let mut fields = Self { text, at: 0 };
        (fields.parse::<String>()? == kind).then_some(fields)
    }

    fn parse<T: FromStr>(&mut self) -> Option<T> {
        let rest = self.text.get(self.at..)?;
        let field = rest.split(' ').next()?;
        self.at += field.len() + 1;
        field.parse().ok()
    }

    fn timestamp(&mut self) -> Option<Timestamp> {
        self.parse().map(Timestamp::from_millis)
    }

    fn done(&self) -> bool {
        self.at > self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::Sequencer;

    #[test]
    fn tokens_read_back_as_written_and_not_as_each_other() {
        let noon = Timestamp::from_millis(1_767_225_600_000);
        let iterator = ShardIterator {
            stream: "inventory".to_owned(),
            incarnation: 3,
            shard: ShardId(7),
            from: Sequencer::default().next(noon, 7),
            issued_at: noon,
            serial: 12,
        };
        assert_eq!(
            ShardIterator::decode(&iterator.encode()),
            Some(iterator.clone())
        );
        assert_eq!(ShardPage::decode(&iterator.encode()), None);

        for selection in [
            ShardSelection::All,
            ShardSelection::AtTrimHorizon,
            ShardSelection::AtLatest,
            ShardSelection::At(noon),
            ShardSelection::From(noon),
        ] {
            let page = ShardPage {
                stream: "inventory".to_owned(),
                incarnation: 3,
                after: Some(ShardId(999)),
                selection,
                issued_at: noon,
            };
            assert_eq!(ShardPage::decode(&page.encode()), Some(page.clone()));
            assert_eq!(ShardIterator::decode(&page.encode()), None);
        }
    }

    #[test]
    fn text_that_was_never_handed_out_is_no_token() {
        for text in ["", "AAAA", "not base64!", "aXRlcmF0b3I="] {
            assert_eq!(ShardIterator::decode(text), None, "{text}");
            assert_eq!(ShardPage::decode(text), None, "{text}");
        }
    }
}
