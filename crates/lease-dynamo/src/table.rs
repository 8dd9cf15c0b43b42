//! The table itself: created where it is missing, and refused where its key is not that of leases.

use std::time::Duration;

use aws_sdk_dynamodb::types::{KeyType, ScalarAttributeType, TableDescription, TableStatus};
use lease_core::LeaseError;
use tokio::time::{Instant, sleep};

use crate::calls::Calls;
use crate::error::wrong_key;
use crate::names;

/// How long a table may take until it can be used; the service takes some ten seconds.
const PATIENCE: Duration = Duration::from_secs(180);
const FIRST_LOOK: Duration = Duration::from_millis(50);
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Returns once there is a table that can be used.
pub(crate) async fn create_if_missing(calls: &Calls) -> Result<(), LeaseError> {
    let give_up = Instant::now() + PATIENCE;
    let mut pause = FIRST_LOOK;
    loop {
        let standing = match calls.describe().await? {
            None => {
                // Somebody else may be first, so that what counts is the next look.
                calls.create().await?;
                "missing".to_owned()
            }
            Some(table) => match standing(calls.table(), &table)? {
                Standing::Usable => return Ok(()),
                Standing::Passing(status) => status,
            },
        };
        if Instant::now() >= give_up {
            return Err(LeaseError::unavailable(format!(
                "DynamoDB table {} is still {standing} after {PATIENCE:?}",
                calls.table()
            )));
        }
        sleep(pause).await;
        pause = (pause * 2).min(BETWEEN_LOOKS);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Usable,
    /// Another state follows by itself.
    Passing(String),
}

fn standing(name: &str, table: &TableDescription) -> Result<Standing, LeaseError> {
    let status = match table.table_status() {
        // One that is going tells nothing about the next of its name.
        Some(TableStatus::Deleting) => return Ok(Standing::Passing("DELETING".to_owned())),
        status => status,
    };
    check_key(name, table)?;
    match status {
        Some(TableStatus::Active | TableStatus::Updating) => Ok(Standing::Usable),
        Some(TableStatus::Creating) | None => Ok(Standing::Passing("CREATING".to_owned())),
        Some(other) => Err(LeaseError::misconfigured(format!(
            "DynamoDB table {name} is {other} and cannot be used; restore it, or use another table"
        ))),
    }
}

fn check_key(name: &str, table: &TableDescription) -> Result<(), LeaseError> {
    let type_of = |name: &str| {
        let mut attributes = table.attribute_definitions().iter();
        attributes
            .find(|attribute| attribute.attribute_name() == name)
            .map(|attribute| attribute.attribute_type())
    };
    if let [key] = table.key_schema()
        && key.attribute_name() == names::LEASE_KEY
        && *key.key_type() == KeyType::Hash
        && type_of(names::LEASE_KEY) == Some(&ScalarAttributeType::S)
    {
        return Ok(());
    }
    let found: Vec<String> = table
        .key_schema()
        .iter()
        .map(|key| {
            let name = key.attribute_name();
            let kind = type_of(name).map_or("?", ScalarAttributeType::as_str);
            format!("{name} ({}, {kind})", key.key_type())
        })
        .collect();
    Err(wrong_key(name, &found.join(", ")))
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::{AttributeDefinition, KeySchemaElement};

    use super::*;

    fn table(
        status: TableStatus,
        key: &[(&str, KeyType, ScalarAttributeType)],
    ) -> TableDescription {
        let mut table = TableDescription::builder().table_status(status);
        for (name, role, kind) in key {
            let schema = KeySchemaElement::builder()
                .attribute_name(*name)
                .key_type(role.clone())
                .build();
            let attribute = AttributeDefinition::builder()
                .attribute_name(*name)
                .attribute_type(kind.clone())
                .build();
            table = table
                .key_schema(schema.unwrap())
                .attribute_definitions(attribute.unwrap());
        }
        table.build()
    }

    const OURS: (&str, KeyType, ScalarAttributeType) =
        ("lease_key", KeyType::Hash, ScalarAttributeType::S);

    #[test]
    fn a_table_is_used_once_it_is_there() {
        let of = |status| standing("leases", &table(status, &[OURS])).unwrap();
        assert_eq!(of(TableStatus::Active), Standing::Usable);
        assert_eq!(of(TableStatus::Updating), Standing::Usable);
        for status in [TableStatus::Creating, TableStatus::Deleting] {
            assert_eq!(of(status.clone()), Standing::Passing(status.to_string()));
        }
    }

    #[test]
    fn a_table_that_cannot_be_used_is_named() {
        let archived = table(TableStatus::Archived, &[OURS]);
        let error = standing("leases", &archived).unwrap_err();
        assert!(
            error.to_string().contains("table leases is ARCHIVED"),
            "{error}"
        );
    }

    #[test]
    fn the_key_of_a_table_going_away_does_not_matter() {
        let other = table(
            TableStatus::Deleting,
            &[("id", KeyType::Hash, ScalarAttributeType::N)],
        );
        standing("leases", &other).unwrap();
    }

    #[test]
    fn a_table_with_another_key_is_refused_with_the_key_it_has() {
        let sorted = ("at", KeyType::Range, ScalarAttributeType::N);
        let others = [
            (
                vec![("id", KeyType::Hash, ScalarAttributeType::S)],
                "id (HASH, S)",
            ),
            (
                vec![("lease_key", KeyType::Hash, ScalarAttributeType::B)],
                "lease_key (HASH, B)",
            ),
            (vec![OURS, sorted], "lease_key (HASH, S), at (RANGE, N)"),
        ];
        for (key, found) in others {
            let error = standing("leases", &table(TableStatus::Active, &key)).unwrap_err();
            assert!(matches!(error, LeaseError::Misconfigured { .. }));
            let text = error.to_string();
            assert!(text.contains("table leases"), "{text}");
            assert!(text.contains(found), "{text}");
            assert!(text.contains("string partition key lease_key"), "{text}");
        }
    }
}
