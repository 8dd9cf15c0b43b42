//! Tables that are missing, made, or of something else.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use futures_util::future::join_all;
use lease_core::{Holder, LeaseError, LeaseKey, LeaseStore};

use crate::server::{Server, TTL, key, unique};

pub(crate) async fn racing_instances_create_one_table(server: Server) {
    let table = unique("lease-dynamo-race");
    let instances: Vec<_> = (0..8).map(|_| server.store(&table)).collect();
    let created = join_all(
        instances
            .iter()
            .map(|store| store.create_table_if_missing()),
    )
    .await;
    for created in created {
        created.unwrap();
    }
    instances[7].create_table_if_missing().await.unwrap();

    let described = server.client().describe_table().table_name(&table).send();
    let described = described.await.unwrap().table.unwrap();
    let billing = described.billing_mode_summary.unwrap().billing_mode;
    assert_eq!(billing, Some(BillingMode::PayPerRequest));
    assert!(
        instances[0]
            .acquire(&key(0), "a", TTL)
            .await
            .unwrap()
            .is_some()
    );
    server.delete(&table).await;
}

pub(crate) async fn a_table_with_another_key_is_refused_by_name(server: Server) {
    let table = unique("lease-dynamo-other-key");
    let attribute = |name: &str| {
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S)
            .build()
            .unwrap()
    };
    let schema = |name: &str, role| {
        KeySchemaElement::builder()
            .attribute_name(name)
            .key_type(role)
            .build()
            .unwrap()
    };
    let client = server.client();
    client
        .create_table()
        .table_name(&table)
        .attribute_definitions(attribute("lease_key"))
        .attribute_definitions(attribute("at"))
        .key_schema(schema("lease_key", KeyType::Hash))
        .key_schema(schema("at", KeyType::Range))
        .billing_mode(BillingMode::PayPerRequest)
        .send()
        .await
        .unwrap();

    let store = server.store(&table);
    let at_start = store.create_table_if_missing().await.unwrap_err();
    assert!(
        at_start
            .to_string()
            .contains("lease_key (HASH, S), at (RANGE, S)"),
        "{at_start}"
    );
    let active = client.describe_table().table_name(&table);
    while active
        .clone()
        .send()
        .await
        .unwrap()
        .table
        .unwrap()
        .table_status
        != Some(aws_sdk_dynamodb::types::TableStatus::Active)
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let later = [
        store.acquire(&key(0), "a", TTL).await.unwrap_err(),
        store.read(&key(0)).await.unwrap_err(),
    ];
    for error in later.iter().chain([&at_start]) {
        assert!(
            matches!(error, LeaseError::Misconfigured { .. }),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(text.contains(&table), "{text}");
        assert!(
            text.contains("the string partition key lease_key"),
            "{text}"
        );
    }
    server.delete(&table).await;
}

pub(crate) async fn a_missing_table_is_named_with_what_to_do(server: Server) {
    let table = unique("lease-dynamo-missing");
    let store = server.store(&table);
    let keys: Vec<LeaseKey> = (0..3).map(key).collect();
    let holder = Holder {
        owner: "a".to_owned(),
        epoch: 1,
    };
    let errors = [
        store.acquire(&key(0), "a", TTL).await.unwrap_err(),
        store.renew(&key(0), &holder, TTL).await.unwrap_err(),
        store.read(&key(0)).await.unwrap_err(),
        store.read_all(&keys).await.unwrap_err(),
        store.read_all(&keys[..1]).await.unwrap_err(),
        store.forget(&key(0)).await.unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(error, LeaseError::Misconfigured { .. }),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(text.contains(&table), "{text}");
        assert!(text.contains("create_table_if_missing"), "{text}");
    }
}
