//! The table of the leases, read past the store: who holds what, and how far it got.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;

/// What matters here of an item, whose attributes the documentation of `lease-dynamo` makes public.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) owner: Option<String>,
    pub(super) epoch: u64,
    pub(super) checkpoint: Option<String>,
}

impl Row {
    pub(super) fn is_finished(&self) -> bool {
        self.checkpoint.as_deref() == Some(lease_core::SHARD_END)
    }

    pub(super) fn is_of(&self, owner: &str) -> bool {
        self.owner.as_deref() == Some(owner)
    }
}

/// The rows by their shards.
pub(super) type Rows = BTreeMap<String, Row>;

/// Reads them all. A table that nobody has created yet has none.
pub(super) async fn rows(client: &Client, table: &str) -> Rows {
    let mut rows = Rows::new();
    let mut from = None;
    loop {
        let request = client.scan().table_name(table).consistent_read(true);
        let page = match request.set_exclusive_start_key(from).send().await {
            Ok(page) => page,
            Err(error)
                if (error.as_service_error())
                    .is_some_and(|error| error.is_resource_not_found_exception()) =>
            {
                return rows;
            }
            Err(error) => panic!("the table {table} is not read: {error:?}"),
        };
        for item in page.items.unwrap_or_default() {
            let text = |name: &str| item.get(name)?.as_s().ok().cloned();
            let key = text("lease_key").unwrap();
            let (_, shard) = key.split_once(':').unwrap();
            let epoch = item.get("epoch").and_then(|epoch| epoch.as_n().ok());
            let row = Row {
                owner: text("owner"),
                epoch: epoch.unwrap().parse().unwrap(),
                checkpoint: text("checkpoint"),
            };
            rows.insert(shard.to_owned(), row);
        }
        from = page.last_evaluated_key.filter(|key| !key.is_empty());
        if from.is_none() {
            return rows;
        }
    }
}

/// Deletes every row, as a person might.
pub(super) async fn delete_rows(client: &Client, table: &str, stream: &str) {
    for shard in rows(client, table).await.into_keys() {
        let key = AttributeValue::S(format!("{stream}:{shard}"));
        let request = client.delete_item().table_name(table);
        request.key("lease_key", key).send().await.unwrap();
    }
}
