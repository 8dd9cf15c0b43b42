//! What holds for whatever is packed, and for whatever is not.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::*;

type Owned = (String, Option<u128>, Vec<u8>);

fn givens() -> impl Strategy<Value = Vec<Owned>> {
    let hash_keys = proptest::option::of(prop_oneof![any::<u128>(), 0..3_u128]);
    vec(("[ab]|.{0,12}", hash_keys, vec(any::<u8>(), 0..40)), 1..30)
}

fn ranges() -> impl Strategy<Value = Option<HashKeyRange>> {
    let ends = (any::<u128>(), any::<u128>());
    proptest::option::of(ends.prop_map(|(a, b)| HashKeyRange::new(a.min(b), a.max(b)).unwrap()))
}

fn borrowed(given: &[Owned]) -> Vec<Given<'_>> {
    let given = given.iter();
    given
        .map(|(partition_key, hash_key, data)| (&**partition_key, *hash_key, &**data))
        .collect()
}

/// What protobuf's own decoder makes of a message, with each record's references looked up.
fn decoded(message: &[u8]) -> Option<Vec<Owned>> {
    let message = AggregatedRecord::decode(message).ok()?;
    let hash_keys = message.explicit_hash_key_table.iter();
    let hash_keys: Vec<u128> = hash_keys
        .map(|text| hash_key(text))
        .collect::<Option<_>>()?;
    let records = message.records.iter().map(|record| {
        let index = usize::try_from(record.partition_key_index).unwrap();
        let hash_key = match record.explicit_hash_key_index {
            None => None,
            Some(index) => Some(*hash_keys.get(usize::try_from(index).unwrap())?),
        };
        let partition_key = message.partition_key_table.get(index)?.clone();
        Some((partition_key, hash_key, record.data.clone()))
    });
    records.collect()
}

fn given_by(records: &[UserRecord]) -> Vec<Owned> {
    let records = records.iter();
    records
        .map(|record| {
            (
                record.partition_key.to_string(),
                record.explicit_hash_key,
                record.data.to_vec(),
            )
        })
        .collect()
}

proptest! {
    #[test]
    fn what_is_packed_is_unpacked(given in givens()) {
        let payload = pack(&borrowed(&given));
        prop_assert_eq!(given_by(&records(&payload, None, None)), given);
    }

    #[test]
    fn each_user_record_belongs_to_one_of_two_children(given in givens(), middle in 0..u128::MAX) {
        let payload = pack(&borrowed(&given));
        let [left, right] = [range(0, middle), range(middle + 1, u128::MAX)]
            .map(|shard| records(&payload, shard, None));
        let mut both = [left.clone(), right].concat();
        both.sort_by_key(|record| record.sub_sequence);
        prop_assert_eq!(given_by(&both), given);
        for record in left {
            let hash_key = record.explicit_hash_key.unwrap_or_else(|| hash_key_of(&record.partition_key));
            prop_assert!(hash_key <= middle);
        }
    }

    /// Whoever resumes at the checkpoint of any user record is handed those behind it, and has lost none.
    #[test]
    fn a_cut_anywhere_settles_what_lies_before_it_alone(given in givens(), shard in ranges()) {
        let payload = pack(&borrowed(&given));
        let all = records(&payload, shard, None);
        for (place, record) in all.iter().enumerate() {
            let (settled, left) = all.split_at(place + 1);
            prop_assert_eq!(record.checkpoint.sequence(), Some(NUMBER));
            match record.checkpoint.sub_sequence() {
                None => prop_assert!(left.is_empty(), "{settled:?}"),
                Some(sub) => {
                    prop_assert_eq!(sub, record.sub_sequence);
                    prop_assert!(!left.is_empty(), "the whole record is settled");
                    prop_assert_eq!(&records(&payload, shard, Some(sub))[..], left);
                }
            }
        }
    }

    #[test]
    fn a_byte_that_is_not_what_it_was_makes_it_no_aggregate(given in givens(), at in any::<usize>(), bits in 1..=255_u8) {
        let payload = pack(&borrowed(&given));
        let at = at % payload.len();
        let mut flipped = payload.to_vec();
        flipped[at] ^= bits;
        match unpack(&flipped.into(), None) {
            Ok(None) => prop_assert!(at < MAGIC.len()),
            Err(damage) => prop_assert_eq!(damage, Damage::Checksum),
            Ok(Some(_)) => prop_assert!(false, "taken apart"),
        }
    }

    /// Its checksum is of the message as it is now.
    #[test]
    fn a_message_that_was_changed_reads_as_protobuf_reads_it_or_not_at_all(
        given in givens(),
        at in any::<usize>(),
        bits in 1..=255_u8,
        shard in ranges(),
    ) {
        let mut message = message(&borrowed(&given)).encode_to_vec();
        let at = at % message.len();
        message[at] ^= bits;
        if let Ok(Some(aggregate)) = unpack(&sealed(&message), shard) {
            let skipped = aggregate.skipped();
            let here = aggregate.user_records(NUMBER.into(), None).count() as u64;
            let expected = decoded(&message).unwrap();
            prop_assert_eq!(skipped + here, expected.len() as u64);
            prop_assert_eq!(given_by(&records(&sealed(&message), None, None)), expected);
        }
    }

    #[test]
    fn any_bytes_are_taken_for_what_protobuf_takes_them_for_or_not_at_all(message in vec(any::<u8>(), 0..64)) {
        if let Ok(Some(aggregate)) = unpack(&sealed(&message), None) {
            let unpacked: Vec<_> = aggregate.user_records(NUMBER.into(), None).collect();
            prop_assert_eq!(Some(given_by(&unpacked)), decoded(&message));
        }
    }
}
