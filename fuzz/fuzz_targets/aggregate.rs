//! An aggregated record: the message that it contains, with the magic and the checksum put round it here, since no
//! mutation would find the checksum.

#![no_main]

use bytes::Bytes;
use kinesis_broker::fuzzing::{self, UserRecord};
use libfuzzer_sys::fuzz_target;
use md5::{Digest, Md5};
use prost::Message;

const SEQUENCE_NUMBER: &str = "42";

/// The message as protobuf's own decoder has it.
#[derive(Clone, PartialEq, Message)]
struct AggregatedRecord {
    #[prost(string, repeated, tag = "1")]
    partition_key_table: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    explicit_hash_key_table: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    records: Vec<Record>,
}

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(uint64, optional, tag = "1")]
    partition_key_index: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    explicit_hash_key_index: Option<u64>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    data: Option<Bytes>,
}

type Packed = (String, Option<u128>, Bytes);

fuzz_target!(|message: &[u8]| {
    // As it is: whatever has no checksum is no aggregate.
    let _ = unpacked(&Bytes::copy_from_slice(message), None, None);

    let payload = sealed(message);
    let Some((records, skipped)) = unpacked(&payload, None, None) else {
        // Damaged, or with more in it than protobuf has to understand. What remains of a sound one is taken apart.
        if let Some(packed) = AggregatedRecord::decode(message).ok().filter(is_sound) {
            let (records, _) = unpacked(&sealed(&packed.encode_to_vec()), None, None)
                .expect("a sound message is taken apart");
            assert_eq!(contents(&records), resolved(&packed).unwrap());
        }
        return;
    };
    assert_eq!(skipped, 0);
    let packed = AggregatedRecord::decode(message).expect("what is taken apart is protobuf");
    assert!(is_sound(&packed));
    assert_eq!(contents(&records), resolved(&packed).unwrap());
    for record in records.iter().filter(|record| !record.data.is_empty()) {
        assert!(payload.as_ptr_range().contains(&record.data.as_ptr()));
    }

    // Two children of a split have every record between them, and each its own checkpoints.
    let middle = records[0]
        .explicit_hash_key
        .unwrap_or(u128::MAX / 2)
        .min(u128::MAX - 1);
    let mut both = 0;
    for hash_keys in [(0, middle), (middle + 1, u128::MAX)] {
        let (here, skipped) = unpacked(&payload, Some(hash_keys), None).unwrap();
        assert_eq!(here.len() as u64 + skipped, records.len() as u64);
        both += here.len();
        for (place, record) in here.iter().enumerate() {
            let left = &here[place + 1..];
            assert_eq!(record.checkpoint.sequence(), Some(SEQUENCE_NUMBER));
            assert_eq!(record.checkpoint.sub_sequence().is_none(), left.is_empty());
            // The cuts in the middle are as many as the records, and each takes time for all of them.
            if let Some(sub) = record.checkpoint.sub_sequence().filter(|_| place < 8) {
                let (resumed, _) = unpacked(&payload, Some(hash_keys), Some(sub)).unwrap();
                assert_eq!(resumed, left);
            }
        }
    }
    assert_eq!(both, records.len());
});

fn unpacked(
    payload: &Bytes,
    hash_keys: Option<(u128, u128)>,
    after: Option<u64>,
) -> Option<(Vec<UserRecord>, u64)> {
    fuzzing::aggregate(payload, SEQUENCE_NUMBER, hash_keys, after)
}

fn sealed(message: &[u8]) -> Bytes {
    let checksum = Md5::digest(message);
    [b"\xF3\x89\x9A\xC2", message, &checksum].concat().into()
}

fn is_sound(packed: &AggregatedRecord) -> bool {
    !packed.records.is_empty() && resolved(packed).is_some()
}

fn resolved(packed: &AggregatedRecord) -> Option<Vec<Packed>> {
    let hash_keys = packed.explicit_hash_key_table.iter();
    let hash_keys: Vec<u128> = hash_keys
        .map(|text| {
            text.bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| text.parse().ok())?
        })
        .collect::<Option<_>>()?;
    let records = packed.records.iter().map(|record| {
        let place = |index: u64| usize::try_from(index).ok();
        let partition_key = packed
            .partition_key_table
            .get(place(record.partition_key_index?)?)?;
        let hash_key = match record.explicit_hash_key_index {
            None => None,
            Some(index) => Some(*hash_keys.get(place(index)?)?),
        };
        Some((partition_key.clone(), hash_key, record.data.clone()?))
    });
    records.collect()
}

fn contents(records: &[UserRecord]) -> Vec<Packed> {
    let records = records.iter();
    records
        .map(|record| {
            let UserRecord {
                partition_key,
                explicit_hash_key,
                data,
                ..
            } = record.clone();
            (partition_key, explicit_hash_key, data)
        })
        .collect()
}
