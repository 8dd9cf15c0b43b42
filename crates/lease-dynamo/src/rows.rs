//! The whole table for whoever looks on: every item, also what cannot be understood.

use std::time::Duration;

use lease_core::{Checkpoint, LeaseError, LeaseKey};

use crate::calls::{Calls, key_of};
use crate::error::wrong_key;
use crate::row::{FORMAT, Item, Row};

/// An item of the table, as [`DynamoLeaseStore::rows`](crate::DynamoLeaseStore::rows) finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseRow {
    /// A lease.
    Lease(LeaseItem),
    /// An item that this version does not understand.
    #[non_exhaustive]
    Unknown {
        /// Its `lease_key`.
        lease_key: String,
        /// What is not as it should be, such as "its format is 2, and this version understands 1 alone".
        reason: String,
    },
}

/// What the item of a lease says, and no more: whether the lease is live shows only in time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseItem {
    /// The stream and the shard.
    pub key: LeaseKey,
    /// Who holds the lease, or held it until it expired; `None` after a release.
    pub owner: Option<String>,
    /// The number of its last acquisition: the fencing token.
    pub epoch: u64,
    /// One more with every acquisition and renewal; one that stands still for `ttl` has expired.
    pub counter: u64,
    /// How long the lease lasts from each of them, in whole milliseconds.
    pub ttl: Duration,
    /// How far the shard is handled; `None` before the first checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Who asks for the lease, unless the ask has lapsed; where `owner` is `None`, who had asked at the release.
    pub asked_by: Option<String>,
    /// The version of the item's format.
    pub format: u64,
}

/// Scans the table to its end.
pub(crate) async fn read(calls: &Calls) -> Result<Vec<LeaseRow>, LeaseError> {
    let (mut rows, mut from) = (Vec::new(), None);
    loop {
        let page = calls.scan(from, None).await?;
        for item in &page.items {
            let Some(name) = key_of(item) else {
                return Err(wrong_key(calls.table(), "of something else than leases"));
            };
            rows.push(row(name, item));
        }
        from = page.next;
        if from.is_none() {
            return Ok(rows);
        }
    }
}

pub(crate) fn row(name: &str, item: &Item) -> LeaseRow {
    let unknown = |reason| LeaseRow::Unknown {
        lease_key: name.to_owned(),
        reason,
    };
    // The name of a stream has no colon.
    let Some((stream, shard)) = name.split_once(':') else {
        return unknown("its lease_key is not stream:shard".to_owned());
    };
    let key = LeaseKey::new(stream, shard);
    match Row::read(&key, item) {
        Ok(row) => LeaseRow::Lease(LeaseItem {
            key,
            epoch: row.epoch,
            counter: row.counter,
            ttl: row.ttl,
            asked_by: row.asker().map(str::to_owned),
            owner: row.held.map(|held| held.owner),
            checkpoint: row.checkpoint,
            format: FORMAT,
        }),
        Err(reason) => unknown(reason),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;
    use crate::row::tests::{item, key};

    #[test]
    fn a_lease_is_shown_as_its_item_says() {
        let LeaseRow::Lease(lease) = row(&key().to_string(), &item()) else {
            panic!("it is a lease");
        };
        assert_eq!(lease.key, key());
        assert_eq!(
            lease.owner.as_deref(),
            Some("ip-10-0-1-17.eu-central-1-4242-9f3c1a")
        );
        assert_eq!((lease.epoch, lease.counter, lease.format), (7, 123_456, 1));
        assert_eq!(lease.ttl, Duration::from_secs(10));
        assert_eq!(
            lease.asked_by.as_deref(),
            Some("ip-10-0-1-18.eu-central-1-4242-77aa01")
        );
        let at = "49590338271490256608559692538361571095921575989136588898";
        assert_eq!(lease.checkpoint, Some(Checkpoint::at(at)));
    }

    #[test]
    fn what_cannot_be_understood_is_named_with_its_key_and_what_is_wrong() {
        let named = |lease_key: &str, version: &str| {
            let mut item = item();
            let text = AttributeValue::S(lease_key.to_owned());
            item.insert("lease_key".to_owned(), text);
            let version = AttributeValue::N(version.to_owned());
            item.insert("format".to_owned(), version);
            item
        };
        let table = [
            ("inventory:shardId-000000000000", "2", "its format is 2"),
            ("inventory", "1", "its lease_key is not stream:shard"),
        ];
        for (name, version, said) in table {
            let LeaseRow::Unknown { lease_key, reason } = row(name, &named(name, version)) else {
                panic!("{name} in format {version} is not to be understood");
            };
            assert_eq!(lease_key, name);
            assert!(reason.contains(said), "{reason}");
        }
    }
}
