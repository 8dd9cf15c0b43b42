//! What the leases cost: calls to DynamoDB, counted where they go through.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use lease_core::{LeaseKey, LeaseStore as _};
use lease_dynamo::DynamoLeaseStore;
use tokio::time::sleep;

use super::figures::say;
use super::process::Signal;
use super::proxy::Proxy;
use super::stage::{LIMIT, Stage, config};

const MINUTE: Duration = Duration::from_secs(60);

fn since(before: &BTreeMap<String, u64>, now: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let more = now.into_iter().map(|(operation, calls)| {
        let before = before.get(&operation).copied().unwrap_or(0);
        (operation, calls - before)
    });
    more.filter(|(_, calls)| *calls > 0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_lease_is_renewed_every_three_seconds_and_costs_nothing_else() {
    let stage = Stage::set("idle", 4).await;
    let proxy = Proxy::before(&stage.orders.dynamodb).await;
    let start = |owner| stage.start_with(owner, |orders| orders.dynamodb = proxy.url().to_owned());
    let processes = [start("one"), start("two")];
    stage.until_shared(&["one", "two"]).await;

    let before = proxy.calls();
    sleep(MINUTE).await;
    let calls = since(&before, proxy.calls());
    for (operation, calls) in &calls {
        let a_lease = *calls as f64 / 4.0;
        let target = match &**operation {
            "UpdateItem" => "20 renewals",
            _ => "its share of 40 listings",
        };
        say(&format!(
            "figure: {operation} calls a minute for each of 4 idle leases of two processes: \
             {a_lease:.1}, to reach {target}"
        ));
    }
    let writes = calls.get("UpdateItem").copied().unwrap_or(0);
    assert!(writes <= 4 * 25, "{calls:?}. {}", stage.replay());
    for process in processes {
        process.signal(Signal::TERM);
        assert!(process.ended().await.success());
    }
    stage.delete_stream().await;
    stage.delete_table(&stage.orders.table).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_costs_calls_by_the_hundred_shards() {
    let stage = Stage::set("listing", 1).await;
    let proxy = Proxy::before(&stage.orders.dynamodb).await;
    let config = config(proxy.url());
    let mut rng = stage.rng.clone();
    for shards in [1_usize, 100, 5_000] {
        let table = format!("{}-{shards}", stage.orders.table);
        let store = DynamoLeaseStore::new(&config, &table).seed(rng.u64(..));
        store.create_table_if_missing().await.unwrap();
        let keys: Vec<_> = (0..shards)
            .map(|shard| LeaseKey::new("inventory", format!("shardId-{shard:012}")))
            .collect();
        fill(&stage, &table, &keys).await;

        // The first listing finds out how large the table is; the second is like all that follow.
        store.read_all(&keys).await.unwrap();
        let before = proxy.calls();
        let states = store.read_all(&keys).await.unwrap();
        assert!(states.iter().all(|state| state.checkpoint.is_some()));
        let calls = since(&before, proxy.calls());
        let units = if calls.contains_key("Scan") {
            scanned(&stage, &table).await
        } else {
            shards
        };
        say(&format!(
            "figure: a listing of {shards:5} shards: {calls:?}, {units} read units"
        ));
        assert!(calls.values().sum::<u64>() <= 1 + shards as u64 / 50);
        stage.delete_table(&table).await;
    }
    stage.delete_stream().await;
}

/// What a consistent scan costs by the service's rule, a unit for every 4 KB of each page; servers for tests count
/// as they like.
async fn scanned(stage: &Stage, table: &str) -> usize {
    let (mut units, mut from) = (0, None);
    loop {
        let request = stage.dynamodb.scan().table_name(table);
        let page = request.set_exclusive_start_key(from).send().await.unwrap();
        let bytes: usize = page.items().iter().flatten().map(size).sum();
        units += bytes.div_ceil(4_096);
        from = page.last_evaluated_key.filter(|key| !key.is_empty());
        if from.is_none() {
            return units;
        }
    }
}

/// The size of an attribute, a number at two digits a byte and one more.
fn size((name, value): (&String, &AttributeValue)) -> usize {
    let value = match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => digits.len().div_ceil(2) + 1,
        _ => 0,
    };
    name.len() + value
}

/// Writes rows such as a service has that reads these shards: taken from a real one, and numbered.
async fn fill(stage: &Stage, table: &str, keys: &[LeaseKey]) {
    let client = &stage.dynamodb;
    let store = DynamoLeaseStore::new(&config(&stage.orders.dynamodb), table);
    let holder = store.acquire(&keys[0], "ip-10-0-1-17-4242-9f3c1a07", MINUTE);
    let holder = holder.await.unwrap().unwrap();
    let sequence = "49590338271490256608559692538361571095921575989136588898";
    let at = lease_core::Checkpoint::at(sequence);
    assert!(store.checkpoint(&keys[0], &holder, &at).await.unwrap());
    let name = |key: &LeaseKey| AttributeValue::S(key.to_string());
    let request = client
        .get_item()
        .table_name(table)
        .key("lease_key", name(&keys[0]));
    let item = request.send().await.unwrap().item.unwrap();
    for batch in keys.chunks(25) {
        let puts = batch.iter().map(|key| {
            let mut item = item.clone();
            item.insert("lease_key".to_owned(), name(key));
            let put = PutRequest::builder().set_item(Some(item)).build().unwrap();
            WriteRequest::builder().put_request(put).build()
        });
        let mut puts: Vec<_> = puts.collect();
        stage
            .until("a batch is written", LIMIT, async || {
                let request = client.batch_write_item();
                let request = request.request_items(table, std::mem::take(&mut puts));
                let answer = request.send().await.unwrap();
                let mut left = answer.unprocessed_items.unwrap_or_default();
                puts = left.remove(table).unwrap_or_default();
                puts.is_empty().then_some(())
            })
            .await;
    }
}
