//! An item of the lease table.

#![no_main]

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_types::Blob;
use lease_dynamo::{LeaseRow, fuzzing};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let item: HashMap<String, AttributeValue> = text.lines().filter_map(attribute).collect();
    let said = |name| item.get(name).and_then(|value| value.as_s().ok());
    let counted = |name| {
        item.get(name)
            .and_then(|value| value.as_n().ok()?.parse().ok())
    };
    let Some(lease_key) = said("lease_key") else {
        return;
    };
    match fuzzing::lease_row(lease_key, &item) {
        LeaseRow::Lease(lease) => {
            assert_eq!(lease.key.to_string(), *lease_key);
            assert_eq!(lease.owner.as_ref(), said("owner"));
            assert_eq!(Some(lease.epoch), counted("epoch"));
            assert_eq!(Some(lease.counter), counted("counter"));
            let ttl_ms = counted("ttl_ms").map(u128::from);
            assert_eq!(Some(lease.ttl.as_millis()), ttl_ms);
            assert!(!lease.ttl.is_zero());
            let checkpoint = said("checkpoint").and_then(|text| text.parse().ok());
            assert_eq!(lease.checkpoint, checkpoint);
            assert_eq!(lease.checkpoint.is_some(), item.contains_key("checkpoint"));
            if lease.asked_by.is_some() {
                assert_eq!(lease.asked_by.as_ref(), said("asked_by"));
            }
            assert_eq!(counted("format"), Some(lease.format));
        }
        LeaseRow::Unknown {
            lease_key: named,
            reason,
            ..
        } => {
            assert_eq!(named, *lease_key);
            assert!(!reason.is_empty());
        }
    }
});

/// An attribute of a line: its name, its type and its value.
fn attribute(line: &str) -> Option<(String, AttributeValue)> {
    let (name, rest) = line.split_once(' ')?;
    let (kind, value) = rest.split_once(' ').unwrap_or((rest, ""));
    let value = match kind {
        "S" => AttributeValue::S(value.to_owned()),
        "N" => AttributeValue::N(value.to_owned()),
        "B" => AttributeValue::B(Blob::new(value)),
        "BOOL" => AttributeValue::Bool(value == "true"),
        "NULL" => AttributeValue::Null(true),
        _ => return None,
    };
    Some((name.to_owned(), value))
}
