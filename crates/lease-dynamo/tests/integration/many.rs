//! Thousands of rows at once, and what they cost.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{
    AttributeValue, KeysAndAttributes, PutRequest, ReturnConsumedCapacity, WriteRequest,
};
use lease_core::{Checkpoint, LeaseKey, LeaseStore};
use lease_dynamo::{DynamoLeaseStore, LeaseRow};

use crate::server::{Server, TTL, key, unique};

/// As it stands in the crate's documentation, and what it costs.
pub(crate) async fn five_thousand_rows_are_read_at_once(server: Server) {
    const ROWS: usize = 5_000;
    let table = unique("lease-dynamo-many");
    let store = server.store(&table);
    store.create_table_if_missing().await.unwrap();
    let template = a_row(server, &store, &table).await;
    fill(server, &table, &template, ROWS).await;

    let mut all = Vec::new();
    for row in store.rows().await.unwrap() {
        match row {
            LeaseRow::Lease(lease) => all.push(lease.key),
            LeaseRow::Unknown { .. } => panic!("{row:?}"),
        }
    }
    all.sort();
    assert_eq!(all, (0..ROWS).map(key).collect::<Vec<_>>());

    let keys: Vec<LeaseKey> = (0..ROWS).rev().map(key).collect();
    for instance in [store, server.store(&table)] {
        for _ in 0..2 {
            let states = instance.read_all(&keys).await.unwrap();
            assert_eq!(states.len(), ROWS);
            for (state, number) in states.iter().zip((0..ROWS).rev()) {
                let expected = Checkpoint::at(format!("{:056}", number + 1));
                assert_eq!(state.checkpoint, Some(expected));
                assert!(state.holder.is_some());
            }
        }
        // Few keys of a large table, some of them twice and some unknown.
        let few = [key(4_999), key(9_999), key(17), key(4_999)];
        let states = instance.read_all(&few).await.unwrap();
        let epochs: Vec<u64> = states.iter().map(|state| state.epoch).collect();
        assert_eq!(epochs, [1, 0, 1, 1]);
    }
    print_costs(server, &table).await;
    server.delete(&table).await;
}

/// The item of a held lease that somebody asks for.
async fn a_row(
    server: Server,
    store: &DynamoLeaseStore,
    table: &str,
) -> HashMap<String, AttributeValue> {
    let owner = "ip-10-0-1-17.eu-central-1-4242-9f3c1a";
    let holder = store.acquire(&key(0), owner, TTL).await.unwrap().unwrap();
    assert!(
        store
            .ask(&key(0), "ip-10-0-1-18.eu-central-1-4242-77aa01")
            .await
            .unwrap()
    );
    let at = Checkpoint::at(format!("{:056}", 1));
    assert!(store.checkpoint(&key(0), &holder, &at).await.unwrap());
    let item = server
        .client()
        .get_item()
        .table_name(table)
        .key("lease_key", AttributeValue::S(key(0).to_string()))
        .send();
    item.await.unwrap().item.unwrap()
}

async fn fill(
    server: Server,
    table: &str,
    template: &HashMap<String, AttributeValue>,
    rows: usize,
) {
    let client = server.client();
    for numbers in (0..rows).collect::<Vec<_>>().chunks(25) {
        let puts = numbers.iter().map(|&number| {
            let checkpoint = AttributeValue::S(format!("{:056}", number + 1));
            let put = PutRequest::builder()
                .set_item(Some(template.clone()))
                .item("lease_key", AttributeValue::S(key(number).to_string()))
                .item("checkpoint", checkpoint)
                .build()
                .unwrap();
            WriteRequest::builder().put_request(put).build()
        });
        let written = client
            .batch_write_item()
            .request_items(table, puts.collect())
            .send()
            .await
            .unwrap();
        assert!(written.unprocessed_items.is_none_or(|left| left.is_empty()));
    }
}

/// What the server counts for the rows of 100 and of 5,000 shards, by scan and by keys.
async fn print_costs(server: Server, table: &str) {
    let client = server.client();
    let (mut scan, mut from, mut pages) = (0.0, None, 0);
    loop {
        let page = client
            .scan()
            .table_name(table)
            .consistent_read(true)
            .set_exclusive_start_key(from)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .unwrap();
        pages += 1;
        scan += page.consumed_capacity.unwrap().capacity_units.unwrap();
        from = page.last_evaluated_key;
        if from.is_none() {
            break;
        }
    }
    let hundred = client
        .scan()
        .table_name(table)
        .consistent_read(true)
        .limit(100)
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send();
    let hundred = hundred.await.unwrap().consumed_capacity.unwrap();
    let keys = (0..100).map(|number| {
        let key = AttributeValue::S(key(number).to_string());
        HashMap::from([("lease_key".to_owned(), key)])
    });
    let wanted = KeysAndAttributes::builder()
        .set_keys(Some(keys.collect()))
        .consistent_read(true)
        .build()
        .unwrap();
    let batch = client
        .batch_get_item()
        .request_items(table, wanted)
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send();
    let batch = batch.await.unwrap().consumed_capacity.unwrap_or_default();
    println!(
        "{}: 5,000 rows by scan {scan} read units in {pages} pages; 100 rows by scan {:?}, by keys {:?}",
        server.0,
        hundred.capacity_units,
        batch.first().and_then(|consumed| consumed.capacity_units)
    );
}
