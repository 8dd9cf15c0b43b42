//! Hash keys. It alone knows which hash key a partition key has, and how shards divide the key space.

use md5::{Digest, Md5};

/// An inclusive range of hash keys: what one shard owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashKeyRange {
    pub(crate) start: u128,
    pub(crate) end: u128,
}

/// The hash key of a partition key: its MD5 as a 128-bit integer (PutRecord).
pub(crate) fn of_partition_key(partition_key: &str) -> u128 {
    u128::from_be_bytes(Md5::digest(partition_key.as_bytes()).into())
}

/// Divides the key space into `count` ranges of one size, the last taking what is left over (CreateStream).
pub(crate) fn divide(count: usize) -> Vec<HashKeyRange> {
    let count = count.max(1) as u128;
    if count == 1 {
        return vec![HashKeyRange {
            start: 0,
            end: u128::MAX,
        }];
    }
    // The space has 2^128 keys, one more than the integer can hold.
    let size = u128::MAX / count + u128::from(u128::MAX % count == count - 1);
    (0..count)
        .map(|at| HashKeyRange {
            start: at * size,
            end: if at + 1 == count {
                u128::MAX
            } else {
                (at + 1) * size - 1
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_key_hashes_to_its_md5() {
        assert_eq!(of_partition_key(""), 0xd41d8cd98f00b204e9800998ecf8427e);
        assert_eq!(of_partition_key("abc"), 0x900150983cd24fb0d6963f7d28e17f72);
    }

    #[test]
    fn ranges_cover_the_key_space_without_gap_or_overlap() {
        for count in [1, 2, 3, 4, 7, 40, 5_000] {
            let ranges = divide(count);
            assert_eq!(ranges.len(), count);
            assert_eq!(ranges[0].start, 0);
            assert_eq!(ranges[count - 1].end, u128::MAX);
            assert!(
                ranges
                    .windows(2)
                    .all(|pair| pair[0].end + 1 == pair[1].start)
            );
        }
    }

    #[test]
    fn three_shards_have_the_ranges_that_the_service_gives_them() {
        let ranges = divide(3);
        assert_eq!(ranges[0].end, 113427455640312821154458202477256070484);
        assert_eq!(ranges[1].start, 113427455640312821154458202477256070485);
        assert_eq!(ranges[2].start, 226854911280625642308916404954512140970);
    }
}
