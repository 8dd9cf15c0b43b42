//! What is an aggregate, what belongs to the shard, and what stands for what.

mod fixtures;
mod packing;
mod properties;

use super::*;
use packing::{AggregatedRecord, Given, MAGIC, message, pack, sealed};

const NUMBER: &str = "49590338271490256608559692538361571095921575989136588898";

fn range(first: u128, last: u128) -> Option<HashKeyRange> {
    Some(HashKeyRange::new(first, last).unwrap())
}

/// The user records that this shard has to hand over.
fn records(payload: &Bytes, shard: Option<HashKeyRange>, after: Option<u64>) -> Vec<UserRecord> {
    let aggregate = unpack(payload, shard).unwrap().unwrap();
    aggregate.user_records(NUMBER.into(), after).collect()
}

fn numbers(records: &[UserRecord]) -> Vec<u64> {
    records.iter().map(|record| record.sub_sequence).collect()
}

fn checkpoints(records: &[UserRecord]) -> Vec<String> {
    let checkpoints = records.iter().map(|record| record.checkpoint.to_string());
    checkpoints.map(|text| text.replace(NUMBER, "n")).collect()
}

#[test]
fn a_record_without_the_magic_is_no_aggregate_whatever_it_holds() {
    let packed = pack(&[("k", None, b"x")]);
    let ordinary: [&[u8]; 5] = [b"", b"{}", &MAGIC[..3], &[0; 64], &packed[1..]];
    for payload in ordinary {
        let payload = Bytes::copy_from_slice(payload);
        assert!(unpack(&payload, None).unwrap().is_none(), "{payload:?}");
    }
}

#[test]
fn user_records_come_in_their_order_with_their_keys_and_slices_of_the_payload() {
    let given: [Given<'_>; 4] = [
        ("a", None, b"one"),
        ("b", Some(7), b""),
        ("a", Some(u128::MAX), b"three"),
        ("a", None, b"four"),
    ];
    let payload = pack(&given);
    let records = records(&payload, None, None);
    assert_eq!(numbers(&records), [0, 1, 2, 3]);
    for (record, (partition_key, explicit_hash_key, data)) in records.iter().zip(given) {
        assert_eq!(&*record.partition_key, partition_key);
        assert_eq!(record.explicit_hash_key, explicit_hash_key);
        assert_eq!(record.data, data);
        if !data.is_empty() {
            assert!(payload.as_ptr_range().contains(&record.data.as_ptr()));
        }
    }
    let [.., third, fourth] = &records[..] else {
        unreachable!()
    };
    assert!(Arc::ptr_eq(&third.partition_key, &fourth.partition_key));
}

#[test]
fn the_last_user_record_stands_for_the_whole_record() {
    let payload = pack(&[("a", None, b"1"), ("b", None, b"2"), ("c", None, b"3")]);
    assert_eq!(
        checkpoints(&records(&payload, None, None)),
        ["n:0", "n:1", "n"]
    );
    let alone = pack(&[("a", None, b"1")]);
    assert_eq!(checkpoints(&records(&alone, None, None)), ["n"]);
}

#[test]
fn a_reader_that_resumes_inside_takes_what_lies_behind() {
    let payload = pack(&[("a", None, b"1"), ("b", None, b"2"), ("c", None, b"3")]);
    let table: [(Option<u64>, &[u64]); 6] = [
        (None, &[0, 1, 2]),
        (Some(0), &[1, 2]),
        (Some(1), &[2]),
        (Some(2), &[]),
        (Some(3), &[]),
        (Some(u64::MAX), &[]),
    ];
    for (after, left) in table {
        assert_eq!(numbers(&records(&payload, None, after)), left, "{after:?}");
    }
}

#[test]
fn user_records_of_the_other_child_are_passed_over_and_keep_their_numbers() {
    let middle = u128::MAX / 2;
    let payload = pack(&[
        ("k", Some(0), b"left"),
        ("k", Some(middle + 1), b"right"),
        ("k", Some(middle), b"left"),
        ("k", Some(u128::MAX), b"right"),
    ]);
    let table: [(_, &[u64], &[&str]); 3] = [
        (range(0, middle), &[0, 2], &["n:0", "n"]),
        (range(middle + 1, u128::MAX), &[1, 3], &["n:1", "n"]),
        (
            range(0, u128::MAX),
            &[0, 1, 2, 3],
            &["n:0", "n:1", "n:2", "n"],
        ),
    ];
    for (shard, here, stand) in table {
        let records = records(&payload, shard, None);
        assert_eq!(numbers(&records), here);
        assert_eq!(checkpoints(&records), stand);
        let skipped = unpack(&payload, shard).unwrap().unwrap().skipped();
        assert_eq!(skipped + records.len() as u64, 4);
    }
}

/// `a` hashes to the MD5 that RFC 1321 gives for it.
#[test]
fn without_an_explicit_hash_key_the_md5_of_the_partition_key_decides() {
    let hash_key = 0x0cc1_75b9_c0f1_b6a8_31c3_99e2_6977_2661;
    let payload = pack(&[("a", None, b"x"), ("a", Some(5), b"y")]);
    assert_eq!(
        numbers(&records(&payload, range(hash_key, hash_key), None)),
        [0]
    );
    assert_eq!(numbers(&records(&payload, range(5, 5), None)), [1]);
    assert!(records(&payload, range(6, hash_key - 1), None).is_empty());
}

#[test]
fn an_aggregate_of_which_nothing_belongs_here_hands_nothing_over() {
    let payload = pack(&[("k", Some(1), b"x"), ("k", Some(2), b"y")]);
    let aggregate = unpack(&payload, range(3, 4)).unwrap().unwrap();
    assert_eq!(aggregate.skipped(), 2);
    assert_eq!(aggregate.user_records(NUMBER.into(), None).count(), 0);
}

#[test]
fn tags_and_what_a_later_version_may_add_are_passed_over() {
    let mut message = message(&[("a", None, b"x"), ("b", Some(3), b"y")]);
    message.records[0].tags.push(packing::Tag {
        key: "colour".to_owned(),
        value: Some("red".to_owned()),
    });
    let expected = records(&sealed(&message.encode_to_vec()), None, None);
    // Fields 4 to 7: a number, eight bytes, three bytes by their length, and four bytes.
    let unknown: [&[u8]; 4] = [
        b"\x20\x96\x01",
        b"\x2912345678",
        b"\x32\x03abc",
        b"\x3d1234",
    ];
    let later = [unknown.concat(), message.encode_to_vec(), unknown.concat()].concat();
    assert_eq!(records(&sealed(&later), None, None), expected);
}

#[test]
fn tables_may_stand_behind_the_records() {
    let message = message(&[("a", Some(9), b"x")]);
    let (mut tables, mut rest) = (message.clone(), message.clone());
    tables.records.clear();
    rest.partition_key_table.clear();
    rest.explicit_hash_key_table.clear();
    let turned = [rest.encode_to_vec(), tables.encode_to_vec()].concat();
    let expected = records(&sealed(&message.encode_to_vec()), None, None);
    assert_eq!(records(&sealed(&turned), None, None), expected);
}

type Hurt = fn(&mut AggregatedRecord);

#[test]
fn what_is_damaged_is_said() {
    let sound = message(&[("a", Some(1), b"x"), ("b", None, b"y")]);
    let table: [(Damage, Hurt); 7] = [
        (Damage::Empty, |it| it.records.clear()),
        (Damage::Reference, |it| {
            it.records[1].partition_key_index = 2;
        }),
        (Damage::Reference, |it| {
            it.records[1].partition_key_index = u64::MAX;
        }),
        (Damage::Reference, |it| {
            it.records[0].explicit_hash_key_index = Some(1);
        }),
        (Damage::HashKey, |it| {
            it.explicit_hash_key_table[0] = "+1".to_owned();
        }),
        (Damage::HashKey, |it| it.explicit_hash_key_table[0].clear()),
        // 2^128.
        (Damage::HashKey, |it| {
            it.explicit_hash_key_table[0] = "340282366920938463463374607431768211456".to_owned();
        }),
    ];
    for (said, hurt) in table {
        let mut damaged = sound.clone();
        hurt(&mut damaged);
        let damage = unpack(&sealed(&damaged.encode_to_vec()), None);
        assert_eq!(damage.unwrap_err(), said);
    }
}

#[test]
fn what_is_no_message_of_the_format_is_damaged_though_its_checksum_is_right() {
    let sound = b"\x0a\x01a\x1a\x04\x08\x00\x1a\x00";
    assert_eq!(records(&sealed(sound), None, None).len(), 1);
    let more: [(&[u8], &str); 12] = [
        (b"\x0a", "a length is missing"),
        (b"\x0a\x02a", "a field is cut short"),
        (b"\x0a\x01\xff", "a partition key is no UTF-8"),
        (b"\x12\x01\xff", "an explicit hash key is no UTF-8"),
        (b"\x08\x01", "a partition key that is a number"),
        (b"\x02\x00", "field 0"),
        (b"\x23\x24", "a group"),
        (b"\x27", "a type that protobuf does not have"),
        (
            b"\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "a number of 71 bits",
        ),
        (b"\x8a\x80\x80\x80\x80\x01\x00", "a field beyond the last"),
        (b"\x1a\x02\x08\x00", "a record without data"),
        (b"\x1a\x02\x1a\x00", "a record without a partition key"),
    ];
    for (more, what) in more {
        let message = [&sound[..], more].concat();
        assert!(unpack(&sealed(&message), None).is_err(), "{what}");
    }
}

#[test]
fn what_is_cut_short_anywhere_is_no_aggregate() {
    let payload = pack(&[("a", None, b"first"), ("b", Some(1), b"second")]);
    for length in 0..payload.len() {
        match unpack(&payload.slice(..length), None) {
            Ok(None) => assert!(length < MAGIC.len()),
            Err(damage) => assert_eq!(damage, Damage::Checksum),
            Ok(Some(_)) => panic!("taken apart at {length}"),
        }
    }
}

#[test]
fn tables_take_at_most_eight_times_the_size_of_the_payload() {
    let keys = [
        &b"\x0a\x00".repeat(100_000)[..],
        b"\x1a\x04\x08\x00\x1a\x00",
    ]
    .concat();
    let hash_keys = [
        &b"\x12\x01\x30".repeat(100_000)[..],
        b"\x0a\x00\x1a\x04\x08\x00\x1a\x00",
    ];
    for message in [keys, hash_keys.concat()] {
        let payload = sealed(&message);
        let aggregate = unpack(&payload, None).unwrap().unwrap();
        let bytes = aggregate.partition_keys.capacity() * size_of::<PartitionKey>()
            + aggregate.explicit_hash_keys.capacity() * size_of::<u128>();
        assert!(bytes <= 8 * payload.len(), "{bytes} for {}", payload.len());
    }
}
