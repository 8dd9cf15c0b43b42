//! The item of one lease: its attributes, as the crate's documentation makes them public, and what they mean.
//!
//! An item that does not say what this module understands is an error, never a guess.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use lease_core::{Checkpoint, Holder, LeaseError, LeaseKey};

use crate::error::damaged;
use crate::names;

/// The format that this version writes, and the only one that it understands.
pub(crate) const FORMAT: u64 = 1;

/// An item as DynamoDB's API has it.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// One lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// `None` after a release.
    pub(crate) held: Option<Held>,
    /// The number of its last acquisition.
    pub(crate) epoch: u64,
    /// Goes up with every acquisition and renewal.
    pub(crate) counter: u64,
    pub(crate) ttl: Duration,
    /// The number of the holder's last checkpoint call that took effect.
    pub(crate) cp_no: u64,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) ask: Option<Ask>,
}

/// By whom a lease is held, and by which acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) owner: String,
    /// The token of the acquisition.
    pub(crate) grant: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) by: String,
    /// The counter at which it lapses.
    pub(crate) lapses: u64,
}

/// A holder as a call presents it to the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Presented<'a> {
    pub(crate) holder: &'a Holder,
    /// The token of its acquisition, where this instance knows it. Owner and epoch alone can come twice, where
    /// rows are deleted by hand and two processes bear one name.
    pub(crate) grant: Option<&'a str>,
}

impl Row {
    /// Reads the item that the table holds for a key.
    pub(crate) fn decode(table: &str, key: &LeaseKey, item: &Item) -> Result<Self, LeaseError> {
        Self::read(key, item).map_err(|what| damaged(table, key, &what))
    }

    /// The same, with nothing but what is wrong for an error.
    ///
    /// As much of it as a condition can tell is also `expressions::UNDERSTOOD`.
    pub(crate) fn read(key: &LeaseKey, item: &Item) -> Result<Self, String> {
        let format = required(number(item, names::FORMAT)?, names::FORMAT)?;
        if format != FORMAT {
            return Err(format!(
                "its {} is {format}, and this version understands {FORMAT} alone",
                names::FORMAT
            ));
        }
        let named = text(item, names::LEASE_KEY)?;
        if named.is_none_or(|named| named != key.to_string()) {
            return Err(format!("its {} is {named:?}", names::LEASE_KEY));
        }
        let held = match (text(item, names::OWNER)?, text(item, names::GRANT)?) {
            (None, None) => None,
            (Some(owner), Some(grant)) => Some(Held {
                owner: owner.to_owned(),
                grant: grant.to_owned(),
            }),
            (Some(_), None) => return Err(without(names::OWNER, names::GRANT)),
            (None, Some(_)) => return Err(without(names::GRANT, names::OWNER)),
        };
        let checkpoint = match text(item, names::CHECKPOINT)? {
            None => None,
            Some(text) => Some(
                text.parse()
                    .map_err(|error| format!("its {}: {error}", names::CHECKPOINT))?,
            ),
        };
        let ask = match text(item, names::ASKED_BY)? {
            None => None,
            Some(by) => Some(Ask {
                by: by.to_owned(),
                lapses: required(number(item, names::ASK_LAPSES)?, names::ASK_LAPSES)?,
            }),
        };
        let ttl_ms = required(number(item, names::TTL_MS)?, names::TTL_MS)?;
        if ttl_ms == 0 {
            return Err(format!("its {} is 0", names::TTL_MS));
        }
        Ok(Self {
            held,
            epoch: required(number(item, names::EPOCH)?, names::EPOCH)?,
            counter: required(number(item, names::COUNTER)?, names::COUNTER)?,
            ttl: Duration::from_millis(ttl_ms),
            cp_no: required(number(item, names::CP_NO)?, names::CP_NO)?,
            checkpoint,
            ask,
        })
    }

    /// The present holder, whether its lease is live or has expired.
    pub(crate) fn holder(&self) -> Option<Holder> {
        let owner = self.held.as_ref()?.owner.clone();
        Some(Holder {
            owner,
            epoch: self.epoch,
        })
    }

    /// The token of the acquisition that holds it.
    pub(crate) fn grant(&self) -> Option<&str> {
        Some(self.held.as_ref()?.grant.as_str())
    }

    pub(crate) fn is_held_by(&self, presented: Presented<'_>) -> bool {
        self.epoch == presented.holder.epoch
            && self.held.as_ref().is_some_and(|held| {
                held.owner == presented.holder.owner
                    && presented.grant.is_none_or(|grant| held.grant == grant)
            })
    }

    /// Who asks for the lease, or had asked for it when it was released.
    pub(crate) fn asker(&self) -> Option<&str> {
        let ask = self.ask.as_ref()?;
        (self.counter < ask.lapses).then_some(ask.by.as_str())
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.checkpoint
            .as_ref()
            .is_some_and(Checkpoint::is_shard_end)
    }
}

/// The whole milliseconds that are at least as long as a lease.
pub(crate) fn ttl_ms(ttl: Duration) -> u64 {
    let nanos = ttl.as_nanos().div_ceil(1_000_000);
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

fn text<'a>(item: &'a Item, name: &str) -> Result<Option<&'a str>, String> {
    match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::S(text)) if text.is_empty() => Err(format!("its {name} is empty")),
        Some(AttributeValue::S(text)) => Ok(Some(text)),
        Some(_) => Err(format!("its {name} is no string")),
    }
}

fn number(item: &Item, name: &str) -> Result<Option<u64>, String> {
    match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::N(digits)) => match digits.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("its {name} is {digits}, which is no whole number")),
        },
        Some(_) => Err(format!("its {name} is no number")),
    }
}

fn without(there: &str, missing: &str) -> String {
    format!("it has {there} and no {missing}, which come and go together")
}

fn required<T>(value: Option<T>, name: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("it has no {name}"))
}

/// The size of an item as the service counts it towards capacity units, to a few bytes: [names and values in
/// UTF-8, a number about a byte for two digits and one more][sizes].
///
/// [sizes]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
pub(crate) fn size(item: &Item) -> usize {
    let mut bytes = 0;
    #[expect(
        clippy::iter_over_hash_type,
        reason = "a sum does not depend on the order"
    )]
    for (name, value) in item {
        bytes += name.len();
        bytes += match value {
            AttributeValue::S(text) => text.len(),
            AttributeValue::N(digits) => digits.len().div_ceil(2) + 1,
            _ => 0,
        };
    }
    bytes
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::{Strategy, any, prop_assert, proptest};

    use super::*;

    pub(crate) fn key() -> LeaseKey {
        LeaseKey::new("inventory", "shardId-000000000000")
    }

    fn s(text: &str) -> AttributeValue {
        AttributeValue::S(text.to_owned())
    }

    fn n(number: u64) -> AttributeValue {
        AttributeValue::N(number.to_string())
    }

    /// A held lease that somebody asks for, with everything that an item may have.
    pub(crate) fn item() -> Item {
        [
            ("lease_key", s("inventory:shardId-000000000000")),
            ("format", n(1)),
            ("owner", s("ip-10-0-1-17.eu-central-1-4242-9f3c1a")),
            ("epoch", n(7)),
            ("counter", n(123_456)),
            ("ttl_ms", n(10_000)),
            ("grant", s("0123456789abcdef")),
            ("cp_no", n(98_765)),
            (
                "checkpoint",
                s("49590338271490256608559692538361571095921575989136588898"),
            ),
            ("asked_by", s("ip-10-0-1-18.eu-central-1-4242-77aa01")),
            ("ask_lapses", n(123_460)),
            ("acquired_at", s("2026-01-31T12:00:00Z")),
            ("renewed_at", s("2026-01-31T12:00:00Z")),
            ("checkpointed_at", s("2026-01-31T12:00:00Z")),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    #[test]
    fn an_item_reads_as_the_lease_that_it_is() {
        let row = Row::decode("leases", &key(), &item()).unwrap();
        let holder = row.holder().unwrap();
        assert_eq!(holder.epoch, 7);
        let presented = |holder, grant| Presented { holder, grant };
        assert!(row.is_held_by(presented(&holder, None)));
        assert!(row.is_held_by(presented(&holder, Some("0123456789abcdef"))));
        assert!(!row.is_held_by(presented(&holder, Some("another"))));
        assert_eq!(row.ttl, Duration::from_secs(10));
        assert_eq!(row.asker(), Some("ip-10-0-1-18.eu-central-1-4242-77aa01"));
        assert!(!row.is_finished());
    }

    #[test]
    fn a_released_item_of_a_finished_shard_reads_as_such() {
        let mut item = item();
        for name in ["owner", "grant", "asked_by", "ask_lapses", "renewed_at"] {
            item.remove(name);
        }
        item.insert("checkpoint".to_owned(), s("SHARD_END"));
        let row = Row::decode("leases", &key(), &item).unwrap();
        assert_eq!(row.holder(), None);
        assert_eq!(row.asker(), None);
        assert!(row.is_finished());
    }

    #[test]
    fn an_ask_lapses_at_its_counter() {
        let mut item = item();
        item.insert("counter".to_owned(), n(123_459));
        assert!(Row::decode("t", &key(), &item).unwrap().asker().is_some());
        item.insert("counter".to_owned(), n(123_460));
        assert_eq!(Row::decode("t", &key(), &item).unwrap().asker(), None);
    }

    #[test]
    fn what_cannot_be_understood_is_named_with_its_table_and_its_key() {
        let table: [(&str, Option<AttributeValue>, &str); 18] = [
            ("format", None, "has no format"),
            ("format", Some(n(2)), "format is 2"),
            ("format", Some(s("1")), "format is no number"),
            (
                "lease_key",
                Some(s("other:0")),
                "lease_key is Some(\"other:0\")",
            ),
            ("owner", Some(s("")), "owner is empty"),
            ("owner", Some(n(1)), "owner is no string"),
            ("owner", None, "has grant and no owner"),
            ("grant", None, "has owner and no grant"),
            ("asked_by", Some(s("")), "asked_by is empty"),
            ("epoch", None, "has no epoch"),
            (
                "epoch",
                Some(AttributeValue::N("-1".to_owned())),
                "epoch is -1",
            ),
            (
                "counter",
                Some(AttributeValue::N("1.5".to_owned())),
                "counter is 1.5",
            ),
            ("ttl_ms", Some(n(0)), "ttl_ms is 0"),
            ("ttl_ms", None, "has no ttl_ms"),
            (
                "cp_no",
                Some(AttributeValue::Bool(true)),
                "cp_no is no number",
            ),
            (
                "checkpoint",
                Some(s("LATEST")),
                "checkpoint: \"LATEST\" is no checkpoint",
            ),
            ("ask_lapses", None, "has no ask_lapses"),
            (
                "grant",
                Some(AttributeValue::Null(true)),
                "grant is no string",
            ),
        ];
        for (name, value, said) in table {
            let mut item = item();
            match value {
                Some(value) => item.insert(name.to_owned(), value),
                None => item.remove(name),
            };
            let error = Row::decode("leases", &key(), &item).unwrap_err();
            assert!(matches!(error, LeaseError::Corrupt { .. }));
            let text = error.to_string();
            for part in [said, "table leases", "inventory:shardId-000000000000"] {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
    }

    #[test]
    fn attributes_of_others_are_left_alone() {
        let mut item = item();
        item.insert("note".to_owned(), s("do not touch before Monday"));
        Row::decode("leases", &key(), &item).unwrap();
    }

    #[test]
    fn a_lease_time_is_never_shortened() {
        let table = [
            (Duration::from_nanos(1), 1),
            (Duration::from_secs(10), 10_000),
            (Duration::from_micros(10_000_001), 10_001),
            (Duration::MAX, u64::MAX),
        ];
        for (ttl, ms) in table {
            assert_eq!(ttl_ms(ttl), ms);
        }
    }

    #[test]
    fn a_lease_takes_three_hundred_bytes_and_an_ask_sixty() {
        let asked = item();
        let mut held = asked.clone();
        held.remove("asked_by");
        held.remove("ask_lapses");
        // The figures of the crate's documentation rest on these.
        assert_eq!((size(&held), size(&asked)), (309, 368));
    }

    fn values() -> impl Strategy<Value = AttributeValue> {
        proptest::prop_oneof![
            any::<u64>().prop_map(n),
            ".{0,12}".prop_map(|text| s(&text)),
            any::<bool>().prop_map(AttributeValue::Bool),
        ]
    }

    proptest! {
        #[test]
        fn whatever_stands_in_an_item_it_reads_or_is_corrupt(
            name in proptest::sample::select(names::ALL.to_vec()),
            value in values(),
        ) {
            let mut item = item();
            item.insert(name.to_owned(), value);
            let read = Row::decode("leases", &key(), &item);
            let is_fine = matches!(read, Ok(_) | Err(LeaseError::Corrupt { .. }));
            prop_assert!(is_fine, "{read:?}");
        }
    }
}
