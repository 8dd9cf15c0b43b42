//! What names a lease: a stream and a shard of it.

use std::fmt;
use std::sync::Arc;

/// The name of one lease: a stream and one of its shards.
///
/// Stream and shard together are the key, so one store serves every stream of an application, and
/// the same shard id on two streams is two leases. Its text is `stream:shard`; that text is
/// unambiguous because [Kinesis allows no colon in the name of a stream][names]. Cloning copies no text.
///
/// [names]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_CreateStream.html
///
/// ```
/// use lease_core::LeaseKey;
///
/// let key = LeaseKey::new("inventory", "shardId-000000000000");
/// assert_eq!(key.stream(), "inventory");
/// assert_eq!(key.to_string(), "inventory:shardId-000000000000");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    stream: Arc<str>,
    shard: Arc<str>,
}

impl LeaseKey {
    /// The key of a shard of a stream, with a copy of both names.
    #[must_use]
    pub fn new(stream: impl AsRef<str>, shard: impl AsRef<str>) -> Self {
        Self::from_shared(stream.as_ref().into(), shard.as_ref().into())
    }

    /// The key of a shard of a stream whose names are shared already; copies neither.
    #[must_use]
    pub fn from_shared(stream: Arc<str>, shard: Arc<str>) -> Self {
        Self { stream, shard }
    }

    /// The name of the stream.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// The id of the shard.
    #[must_use]
    pub fn shard(&self) -> &str {
        &self.shard
    }

    /// The name of the stream, to share without copying it.
    #[must_use]
    pub fn shared_stream(&self) -> &Arc<str> {
        &self.stream
    }

    /// The id of the shard, to share without copying it.
    #[must_use]
    pub fn shared_shard(&self) -> &Arc<str> {
        &self.shard
    }
}

impl fmt::Display for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.stream, self.shard)
    }
}

impl fmt::Debug for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::*;

    #[test]
    fn a_clone_shares_the_names() {
        let key = LeaseKey::new(String::from("inventory"), "shard-0");
        let clone = key.clone();
        assert!(Arc::ptr_eq(key.shared_stream(), clone.shared_stream()));
        assert!(Arc::ptr_eq(key.shared_shard(), clone.shared_shard()));
        assert_eq!(key, clone);
    }

    #[test]
    fn the_same_shard_id_on_two_streams_is_two_keys() {
        let keys = [LeaseKey::new("b", "0"), LeaseKey::new("a", "0")];
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 2);
        let sorted: Vec<_> = BTreeSet::from(keys).into_iter().collect();
        assert_eq!(sorted, [LeaseKey::new("a", "0"), LeaseKey::new("b", "0")]);
    }

    #[test]
    fn a_key_is_built_from_shared_names_and_prints_both() {
        let key = LeaseKey::from_shared("s".into(), "0".into());
        assert_eq!(key, LeaseKey::new("s", "0"));
        assert_eq!((key.stream(), key.shard()), ("s", "0"));
        assert_eq!(format!("{key} {key:?}"), "s:0 LeaseKey(s:0)");
    }
}
