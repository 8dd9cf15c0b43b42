//! Aggregates that another implementation packed; `tests/fixtures/aggregates/README.md` says which and how.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Expected {
    partition_key: String,
    explicit_hash_key: Option<String>,
    /// In hexadecimal.
    data: String,
}

fn hexadecimal(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The payload as it was packed, and what was packed.
macro_rules! fixture {
    ($name:literal) => {
        (
            Bytes::from_static(include_bytes!(concat!(
                "../../../../tests/fixtures/aggregates/",
                $name,
                ".bin"
            ))),
            include_str!(concat!(
                "../../../../tests/fixtures/aggregates/",
                $name,
                ".json"
            )),
        )
    };
}

#[test]
fn what_another_implementation_packed_is_unpacked_record_by_record() {
    let fixtures = [
        fixture!("one_key"),
        fixture!("many_keys"),
        fixture!("explicit_hash_keys"),
        fixture!("unicode_and_binary"),
    ];
    for (payload, expected) in fixtures {
        let expected: Vec<Expected> = serde_json::from_str(expected).unwrap();
        let unpacked = records(&payload, None, None);
        assert_eq!(unpacked.len(), expected.len());
        for (number, (record, expected)) in (0..).zip(unpacked.iter().zip(expected)) {
            assert_eq!(record.sub_sequence, number);
            assert_eq!(*record.partition_key, *expected.partition_key);
            let explicit_hash_key = record.explicit_hash_key.map(|key| key.to_string());
            assert_eq!(explicit_hash_key, expected.explicit_hash_key);
            assert_eq!(hexadecimal(&record.data), expected.data);
        }
    }
}
