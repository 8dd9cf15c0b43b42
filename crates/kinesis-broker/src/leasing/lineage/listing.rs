//! What one completed listing of a stream's shards says: each shard, its parents and its children.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

/// One shard as `ListShards` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardInfo {
    /// The shard's id.
    pub(crate) id: Arc<str>,
    /// The shard that was split into this one, or the first of the two merged into it.
    pub(crate) parent: Option<Arc<str>>,
    /// The second of the two shards that were merged into this one.
    pub(crate) adjacent_parent: Option<Arc<str>>,
    /// Which hash keys belong to the shard; `None` where the listing does not say.
    pub(crate) hash_keys: Option<HashKeyRange>,
    /// No record of the shard has a smaller sequence number.
    pub(crate) starting_sequence_number: String,
    /// No record of the shard has a greater sequence number; `None` while the shard is open.
    pub(crate) ending_sequence_number: Option<String>,
    /// Whether the shard closed before the moment of a start at a timestamp, so that it has nothing
    /// to read: `ListShards` with the filter `FROM_TIMESTAMP` leaves it out. `false` says that this
    /// is not known; the shard is then read to its end to find out, and its children open at their
    /// oldest record, before the start.
    pub(crate) ended_before_start: bool,
}

impl ShardInfo {
    /// The ids of the shards that this one came from: none, one, or two.
    pub(crate) fn parents(&self) -> impl Iterator<Item = &Arc<str>> {
        self.parent.iter().chain(&self.adjacent_parent)
    }

    /// Whether a record of this shard can have this sequence number.
    pub(super) fn contains(&self, sequence_number: &str) -> bool {
        let is_ordered = |order: Option<Ordering>| order.is_some_and(Ordering::is_le);
        let start = &*self.starting_sequence_number;
        let after_start = compare(start, sequence_number);
        // `kinesis-local`, which is the Kinesis of LocalStack too, ends every closed shard below its first number.
        let end = self.ending_sequence_number.as_deref();
        let before_end = match end.filter(|end| is_ordered(compare(start, end))) {
            Some(end) => compare(sequence_number, end),
            None => after_start,
        };
        is_ordered(after_start) && is_ordered(before_end)
    }
}

/// The [hash keys][range] that belong to one shard, from the first to the last.
///
/// [range]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_HashKeyRange.html
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashKeyRange {
    first: u128,
    last: u128,
}

impl HashKeyRange {
    /// `None` for a range that is empty, which no shard has: something is wrong with it.
    pub(crate) fn new(first: u128, last: u128) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// The range of two texts as `ListShards` has them.
    pub(crate) fn read(first: &str, last: &str) -> Option<Self> {
        Self::new(hash_key(first)?, hash_key(last)?)
    }

    pub(crate) fn contains(self, hash_key: u128) -> bool {
        (self.first..=self.last).contains(&hash_key)
    }

    /// Whether the shard is the only one of its stream.
    pub(crate) fn is_everything(self) -> bool {
        (self.first, self.last) == (0, u128::MAX)
    }
}

/// The hash key of its text: a decimal number below 2<sup>128</sup>.
pub(crate) fn hash_key(text: &str) -> Option<u128> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal.then(|| text.parse().ok())?
}

/// Compares two sequence numbers, which have more digits than any integer type; `None` if one of
/// them is no decimal number.
fn compare(left: &str, right: &str) -> Option<Ordering> {
    let (left, right) = (significant_digits(left)?, significant_digits(right)?);
    Some(left.len().cmp(&right.len()).then_with(|| left.cmp(right)))
}

fn significant_digits(number: &str) -> Option<&str> {
    let is_decimal = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal.then(|| number.trim_start_matches('0'))
}

/// The shards of a listing, to be found by id and by parent.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    shards: Vec<ShardInfo>,
    places: HashMap<Arc<str>, usize>,
    /// By the id of the parent, listed or not.
    children: HashMap<Arc<str>, Vec<usize>>,
}

impl Listing {
    /// Of a shard that is listed twice, the first counts.
    pub(crate) fn new(listed: Vec<ShardInfo>) -> Self {
        let mut shards: Vec<ShardInfo> = Vec::with_capacity(listed.len());
        let mut places = HashMap::with_capacity(listed.len());
        let mut children: HashMap<Arc<str>, Vec<usize>> = HashMap::with_capacity(listed.len());
        for shard in listed {
            let place = shards.len();
            if places.contains_key(&shard.id) {
                continue;
            }
            places.insert(Arc::clone(&shard.id), place);
            for parent in shard.parents() {
                children.entry(Arc::clone(parent)).or_default().push(place);
            }
            shards.push(shard);
        }
        Self {
            shards,
            places,
            children,
        }
    }

    /// The shards in the order in which they were listed.
    pub(crate) fn shards(&self) -> &[ShardInfo] {
        &self.shards
    }

    /// The shard of this id, if it is listed.
    pub(crate) fn shard(&self, id: &str) -> Option<&ShardInfo> {
        self.place(id).map(|place| &self.shards[place])
    }

    pub(super) fn place(&self, id: &str) -> Option<usize> {
        self.places.get(id).copied()
    }

    /// The listed shards that came from this one, listed or not.
    pub(crate) fn children_of(&self, id: &str) -> impl Iterator<Item = &ShardInfo> {
        self.children(id).iter().map(|&place| &self.shards[place])
    }

    pub(super) fn children(&self, id: &str) -> &[usize] {
        self.children.get(id).map_or(&[], Vec::as_slice)
    }

    /// Whether records can still be put into the shard. One with children is closed, even where the
    /// listing was taken so early in a resharding that it has no ending sequence number yet.
    pub(super) fn is_open(&self, shard: &ShardInfo) -> bool {
        shard.ending_sequence_number.is_none() && self.children(&shard.id).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_range_of_hash_keys_belong_to_the_shard() {
        let shard = HashKeyRange::read("10", "20").unwrap();
        for (hash_key, is_here) in [(9, false), (10, true), (20, true), (21, false)] {
            assert_eq!(shard.contains(hash_key), is_here, "{hash_key}");
        }
        assert!(!shard.is_everything());
        let whole = HashKeyRange::read("0", "340282366920938463463374607431768211455");
        assert!(whole.unwrap().is_everything());
    }

    #[test]
    fn what_is_no_range_of_hash_keys_says_nothing_of_the_shard() {
        let texts = [
            ("", "20"),
            ("10", ""),
            ("+1", "20"),
            ("20", "10"),
            ("0", "340282366920938463463374607431768211456"),
        ];
        for (first, last) in texts {
            assert_eq!(HashKeyRange::read(first, last), None, "{first} {last}");
        }
    }
}
