//! The store on real DynamoDB servers, two of them: the whole conformance suite, and what only a server shows.
//! `cargo xtask integration` starts both.

#![cfg(feature = "integration")]
#![expect(clippy::unwrap_used, reason = "a failed call fails the test")]

use std::collections::HashMap;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, KeysAndAttributes,
    PutRequest, ReturnConsumedCapacity, ScalarAttributeType, WriteRequest,
};
use aws_smithy_async::time::{SystemTimeSource, TimeSource};
use aws_types::SdkConfig;
use aws_types::region::Region;
use futures_util::future::join_all;
use lease_core::conformance::{Case, Subject, Violation};
use lease_core::{Checkpoint, Holder, LeaseError, LeaseKey, LeaseStore, Renewal};
use lease_dynamo::{DynamoLeaseStore, LeaseRow};

/// The table that the suite shares, each case on keys of its own.
const SHARED: &str = "lease-dynamo-integration";
const TTL: Duration = Duration::from_secs(2);

/// A server to test against, by the variable that has its URL.
#[derive(Clone, Copy)]
struct Server(&'static str);

impl Server {
    fn config(self) -> SdkConfig {
        self.config_at(WallClock { hours_ahead: 0 })
    }

    /// With another wall clock. The SDK corrects its signatures where that is wrong.
    fn config_at(self, clock: WallClock) -> SdkConfig {
        let Ok(endpoint) = env::var(self.0) else {
            panic!(
                "{} is not set: it is the URL of a DynamoDB server; `cargo xtask integration` starts one",
                self.0
            );
        };
        let or = |name, other: &str| env::var(name).unwrap_or_else(|_| other.to_owned());
        let credentials = Credentials::new(
            or("AWS_ACCESS_KEY_ID", "test"),
            or("AWS_SECRET_ACCESS_KEY", "test"),
            env::var("AWS_SESSION_TOKEN").ok(),
            None,
            "test",
        );
        SdkConfig::builder()
            .time_source(clock)
            .endpoint_url(endpoint)
            .region(Region::new(or("AWS_REGION", "us-east-1")))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build()
    }

    fn client(self) -> Client {
        let config = aws_sdk_dynamodb::config::Builder::from(&self.config())
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest());
        Client::from_conf(config.build())
    }

    /// Another instance of the store.
    fn store(self, table: &str) -> DynamoLeaseStore {
        DynamoLeaseStore::new(&self.config(), table)
    }

    async fn delete(self, table: &str) {
        let deleted = self.client().delete_table().table_name(table).send();
        deleted.await.unwrap();
    }
}

#[derive(Clone, Copy, Debug)]
struct WallClock {
    hours_ahead: i64,
}

impl TimeSource for WallClock {
    fn now(&self) -> SystemTime {
        let now = SystemTimeSource::new().now();
        let distance = Duration::from_secs(self.hours_ahead.unsigned_abs() * 3_600);
        match self.hours_ahead {
            0.. => now + distance,
            _ => now - distance,
        }
    }
}

/// A name that nobody else uses.
fn unique(name: &str) -> String {
    format!("{name}-{:016x}", RandomState::new().hash_one(name))
}

fn key(shard: usize) -> LeaseKey {
    LeaseKey::new("inventory", format!("shardId-{shard:012}"))
}

/// The whole suite, on two instances whose wall clocks differ by hours: no clock of theirs is compared.
async fn conforms(server: Server, case: Case) -> Result<(), Violation> {
    let [one, other] = [-3, 5].map(|hours_ahead| {
        DynamoLeaseStore::new(&server.config_at(WallClock { hours_ahead }), SHARED)
    });
    one.create_table_if_missing().await.unwrap();
    let subject = Subject::new(&one).other_instance(&other);
    let subject = subject.ttl(TTL).namespace(unique("run"));
    case.run(&subject).await
}

async fn racing_instances_create_one_table(server: Server) {
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

async fn a_table_with_another_key_is_refused_by_name(server: Server) {
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

async fn a_missing_table_is_named_with_what_to_do(server: Server) {
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

/// Sixteen instances of their own, unlike the sixteen callers of the suite's races.
async fn one_of_sixteen_instances_that_race_wins(server: Server) {
    let instances: Vec<_> = (0..16).map(|_| server.store(SHARED)).collect();
    instances[0].create_table_if_missing().await.unwrap();
    let key = LeaseKey::new(unique("race"), "shardId-000000000000");
    for round in 1..=5 {
        let owners: Vec<String> = (0..16).map(|number| format!("racer-{number}")).collect();
        let racers = instances.iter().zip(&owners);
        let answers = join_all(racers.map(|(store, owner)| store.acquire(&key, owner, TTL))).await;
        let mut winners = Vec::new();
        for (store, answer) in instances.iter().zip(answers) {
            winners.extend(answer.unwrap().map(|holder| (store, holder)));
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        let (winner, holder) = winners.remove(0);
        assert_eq!(holder.epoch, round);
        assert_eq!(
            winner.renew(&key, &holder, TTL).await.unwrap(),
            Renewal::Held
        );
        winner.release(&key, &holder).await.unwrap();
    }
}

/// As it stands in the crate's documentation, and what it costs.
async fn five_thousand_rows_are_read_at_once(server: Server) {
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

async fn a_row_that_cannot_be_understood_is_left_as_it_is(server: Server) {
    let store = server.store(SHARED);
    store.create_table_if_missing().await.unwrap();
    let client = server.client();
    let key = LeaseKey::new(unique("corrupt"), "shardId-000000000000");
    let holder = store.acquire(&key, "a", TTL).await.unwrap().unwrap();
    let name = AttributeValue::S(key.to_string());
    let item = || async {
        let item = client
            .get_item()
            .table_name(SHARED)
            .key("lease_key", name.clone());
        item.consistent_read(true)
            .send()
            .await
            .unwrap()
            .item
            .unwrap()
    };
    let mut later = item().await;
    later.insert("format".to_owned(), AttributeValue::N("2".to_owned()));
    client
        .put_item()
        .table_name(SHARED)
        .set_item(Some(later.clone()))
        .send()
        .await
        .unwrap();

    for instance in [store, server.store(SHARED)] {
        let errors = [
            instance.acquire(&key, "a", TTL).await.unwrap_err(),
            instance.renew(&key, &holder, TTL).await.unwrap_err(),
            instance
                .checkpoint(&key, &holder, &Checkpoint::shard_end())
                .await
                .unwrap_err(),
            instance.read(&key).await.unwrap_err(),
            instance
                .read_all(std::slice::from_ref(&key))
                .await
                .unwrap_err(),
            instance.ask(&key, "b").await.unwrap_err(),
            instance.release(&key, &holder).await.unwrap_err(),
            instance.forget(&key).await.unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, LeaseError::Corrupt { .. }), "{error:?}");
            let text = error.to_string();
            assert!(
                text.contains(SHARED) && text.contains(&key.to_string()),
                "{text}"
            );
        }
    }
    assert_eq!(item().await, later);
}

async fn all_rows_are_shown_as_they_are(server: Server) {
    let table = unique("lease-dynamo-rows");
    let store = server.store(&table);
    store.create_table_if_missing().await.unwrap();
    assert_eq!(store.rows().await.unwrap(), []);

    let mut holders = Vec::new();
    for shard in 0..3 {
        let acquired = store.acquire(&key(shard), "a", TTL).await.unwrap();
        holders.push(acquired.unwrap());
    }
    let renewal = store.renew(&key(0), &holders[0], TTL).await.unwrap();
    assert_eq!(renewal, Renewal::Held);
    assert!(store.ask(&key(1), "b").await.unwrap());
    store.release(&key(1), &holders[1]).await.unwrap();
    let end = Checkpoint::shard_end();
    assert!(store.checkpoint(&key(2), &holders[2], &end).await.unwrap());
    let later = server
        .client()
        .put_item()
        .table_name(&table)
        .item("lease_key", AttributeValue::S(key(3).to_string()))
        .item("format", AttributeValue::N("2".to_owned()));
    later.send().await.unwrap();

    let (mut leases, mut unknown) = (Vec::new(), Vec::new());
    for row in server.store(&table).rows().await.unwrap() {
        match row {
            LeaseRow::Lease(lease) => leases.push(lease),
            LeaseRow::Unknown { lease_key, .. } => unknown.push(lease_key),
        }
    }
    assert_eq!(unknown, [key(3).to_string()]);
    leases.sort_by(|a, b| a.key.cmp(&b.key));
    let [renewed, reserved, finished] = &leases[..] else {
        panic!("{leases:?}");
    };
    assert_eq!(renewed.owner.as_deref(), Some("a"));
    assert_eq!((renewed.epoch, renewed.counter, renewed.ttl), (1, 2, TTL));
    assert_eq!(
        (reserved.owner.as_ref(), reserved.asked_by.as_deref()),
        (None, Some("b"))
    );
    assert_eq!(finished.checkpoint, Some(end));
    server.delete(&table).await;
}

async fn a_row_deleted_by_hand_is_its_holders_at_once_and_others_after_a_lease(server: Server) {
    let [a, b] = [(); 2].map(|()| server.store(SHARED));
    a.create_table_if_missing().await.unwrap();
    let key = LeaseKey::new(unique("vanished"), "shardId-000000000000");
    let ttl = Duration::from_secs(4);
    let holder = a.acquire(&key, "a", ttl).await.unwrap().unwrap();
    b.read(&key).await.unwrap();
    let name = AttributeValue::S(key.to_string());
    let deleted = server
        .client()
        .delete_item()
        .table_name(SHARED)
        .key("lease_key", name);
    deleted.send().await.unwrap();

    for (store, owner) in [(&b, "b"), (&a, "c")] {
        assert_eq!(store.acquire(&key, owner, ttl).await.unwrap(), None);
        let state = store.read(&key).await.unwrap();
        assert_eq!(state.holder.as_ref(), Some(&holder));
        assert!(state.live);
    }
    assert_eq!(a.renew(&key, &holder, ttl).await.unwrap(), Renewal::Lost);
    let again = a.acquire(&key, "a", ttl).await.unwrap().unwrap();
    assert_eq!(again.epoch, 2);
    assert_eq!(b.acquire(&key, "b", ttl).await.unwrap(), None);
}

macro_rules! on_each_server {
    ($($test:ident)*) => {
        on_each_server!(@ first "DYNAMODB_ENDPOINT" $($test)*);
        on_each_server!(@ second "DYNAMODB_SECOND_ENDPOINT" $($test)*);
    };
    (@ $module:ident $variable:literal $($test:ident)*) => {
        mod $module {
            use super::*;

            const SERVER: Server = Server($variable);

            async fn check(case: Case) -> Result<(), Violation> {
                conforms(SERVER, case).await
            }

            lease_core::conformance_tests!(#[tokio::test] check);

            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(SERVER).await;
                }
            )*
        }
    };
}

on_each_server! {
    racing_instances_create_one_table
    a_table_with_another_key_is_refused_by_name
    a_missing_table_is_named_with_what_to_do
    one_of_sixteen_instances_that_race_wins
    five_thousand_rows_are_read_at_once
    a_row_that_cannot_be_understood_is_left_as_it_is
    all_rows_are_shown_as_they_are
    a_row_deleted_by_hand_is_its_holders_at_once_and_others_after_a_lease
}
