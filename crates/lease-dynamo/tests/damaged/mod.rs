//! Items that cannot be understood, and every call on each of them: it must be refused with an error that names
//! the item, and must leave the item as it is. It runs on whatever DynamoDB a configuration leads to.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Builder};
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_types::SdkConfig;
use futures_util::stream::{self, StreamExt};
use lease_core::{Checkpoint, Holder, LeaseError, LeaseKey, LeaseStore};
use lease_dynamo::DynamoLeaseStore;

type Item = HashMap<String, AttributeValue>;

const OWNER: &str = "host-a";
/// So short that a lease has expired by the next call that waits for it.
const TTL: Duration = Duration::from_millis(1);
const AT_ONCE: usize = 16;

/// A call, in a situation in which nothing but the damage keeps it from writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Of a lease that this instance has never seen.
    AcquireUnseen,
    AcquireReleased,
    AcquireExpired,
    Renew,
    Checkpoint,
    Release,
    Ask,
    Forget,
    Read,
    ReadAll,
}

impl Call {
    const ALL: [Self; 10] = [
        Self::AcquireUnseen,
        Self::AcquireReleased,
        Self::AcquireExpired,
        Self::Renew,
        Self::Checkpoint,
        Self::Release,
        Self::Ask,
        Self::Forget,
        Self::Read,
        Self::ReadAll,
    ];

    fn needs_a_holder(self) -> bool {
        !matches!(self, Self::AcquireReleased | Self::Forget)
    }

    /// The item as it is before it is damaged.
    fn item(self, key: &LeaseKey) -> Item {
        let mut item = item(key);
        if !self.needs_a_holder() {
            item.remove("owner");
            item.remove("grant");
        }
        if self == Self::Forget {
            item.insert("checkpoint".to_owned(), s("SHARD_END"));
        }
        item
    }

    async fn send(self, store: &DynamoLeaseStore, key: &LeaseKey) -> Result<(), LeaseError> {
        let holder = Holder {
            owner: OWNER.to_owned(),
            epoch: 7,
        };
        match self {
            // The asker of the item, so that no reservation stands in its way.
            Self::AcquireUnseen | Self::AcquireReleased | Self::AcquireExpired => {
                store.acquire(key, "host-b", TTL).await.map(drop)
            }
            Self::Renew => store.renew(key, &holder, TTL).await.map(drop),
            Self::Checkpoint => {
                let at = Checkpoint::at("43");
                store.checkpoint(key, &holder, &at).await.map(drop)
            }
            Self::Release => store.release(key, &holder).await,
            Self::Ask => store.ask(key, "host-b").await.map(drop),
            Self::Forget => store.forget(key).await.map(drop),
            Self::Read => store.read(key).await.map(drop),
            Self::ReadAll => store.read_all(std::slice::from_ref(key)).await.map(drop),
        }
    }
}

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn n(digits: &str) -> AttributeValue {
    AttributeValue::N(digits.to_owned())
}

/// A lease that is held and asked for.
fn item(key: &LeaseKey) -> Item {
    [
        ("lease_key", s(&key.to_string())),
        ("format", n("1")),
        ("owner", s(OWNER)),
        ("epoch", n("7")),
        ("counter", n("70")),
        ("ttl_ms", n("1")),
        ("grant", s("0123456789abcdef")),
        ("cp_no", n("0")),
        ("checkpoint", s("42")),
        ("asked_by", s("host-b")),
        ("ask_lapses", n("74")),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// What one attribute has become; `None` where it is gone.
#[derive(Clone, Debug)]
struct Damage(&'static str, Option<AttributeValue>);

impl Damage {
    fn of(&self, mut item: Item) -> Item {
        match &self.1 {
            Some(value) => item.insert(self.0.to_owned(), value.clone()),
            None => item.remove(self.0),
        };
        item
    }
}

const NUMBERS: [&str; 6] = [
    "format",
    "epoch",
    "counter",
    "ttl_ms",
    "cp_no",
    "ask_lapses",
];
const TEXTS: [&str; 4] = ["owner", "grant", "checkpoint", "asked_by"];

/// What a condition can tell.
fn damages(needs_a_holder: bool) -> Vec<Damage> {
    let neither = || {
        vec![
            AttributeValue::Bool(true),
            AttributeValue::Null(true),
            AttributeValue::B(Blob::new("7")),
            AttributeValue::L(vec![n("7")]),
            AttributeValue::M(HashMap::from([("N".to_owned(), n("7"))])),
            AttributeValue::Ss(vec!["7".to_owned()]),
            AttributeValue::Ns(vec!["7".to_owned()]),
        ]
    };
    let mut damages = Vec::new();
    for name in NUMBERS {
        damages.push(Damage(name, None));
        let no_numbers = neither().into_iter().chain([
            s("7"),
            s(""),
            n("-1"),
            // One more than the greatest number.
            n("18446744073709551616"),
        ]);
        damages.extend(no_numbers.map(|value| Damage(name, Some(value))));
    }
    damages.push(Damage("ttl_ms", Some(n("0"))));
    damages.extend(["0", "2"].map(|format| Damage("format", Some(n(format)))));
    for name in TEXTS {
        let no_texts = neither().into_iter().chain([n("7"), s("")]);
        damages.extend(no_texts.map(|value| Damage(name, Some(value))));
    }
    let no_checkpoints = [
        "LATEST",
        "TRIM_HORIZON",
        "shard_end",
        "SHARD_END ",
        " 42",
        "-42",
        ":",
        ":7",
        "AT_TIMESTAMP",
        "AT_TIMESTAMP:",
        "AT_TIMESTAMP:+1",
        "AT_TIMESTAMP:soon",
    ];
    damages.extend(no_checkpoints.map(|text| Damage("checkpoint", Some(s(text)))));
    // An owner and the token of its acquisition come and go together.
    for name in ["owner", "grant"] {
        damages.push(Damage(name, (!needs_a_holder).then(|| s(OWNER))));
    }
    damages
}

struct Table<'a> {
    client: Client,
    store: DynamoLeaseStore,
    name: &'a str,
}

impl<'a> Table<'a> {
    fn new(config: &SdkConfig, name: &'a str) -> Self {
        let client = Builder::from(config).behavior_version(BehaviorVersion::latest());
        Self {
            client: Client::from_conf(client.build()),
            store: DynamoLeaseStore::new(config, name),
            name,
        }
    }

    async fn put(&self, item: Item) {
        let put = self.client.put_item().table_name(self.name);
        put.set_item(Some(item)).send().await.unwrap();
    }

    async fn get(&self, key: &LeaseKey) -> Option<Item> {
        let get = self.client.get_item().table_name(self.name);
        let get = get.key("lease_key", s(&key.to_string()));
        let got = get.consistent_read(true).send().await.unwrap();
        got.item
    }

    /// Makes a call on an item that has been damaged since the caller saw it; what is wrong with that, if
    /// anything is.
    async fn complaint(&self, call: Call, key: &LeaseKey, damage: &Damage) -> Option<String> {
        let sound = call.item(key);
        if matches!(call, Call::AcquireReleased | Call::AcquireExpired) {
            self.put(sound.clone()).await;
            self.store.read(key).await.unwrap();
            tokio::time::sleep(TTL * 2).await;
        }
        let damaged = damage.of(sound);
        self.put(damaged.clone()).await;
        let answer = call.send(&self.store, key).await;
        let what = format!("{call:?} of {damage:?}");
        if self.get(key).await.as_ref() != Some(&damaged) {
            return Some(format!("{what}: overwritten"));
        }
        let error = match answer {
            Ok(()) => return Some(format!("{what}: understood")),
            Err(error) => error,
        };
        let text = error.to_string();
        let names = [&format!("table {}", self.name), &key.to_string(), damage.0];
        let is_named = names.iter().all(|name| text.contains(*name));
        let is_fine = is_named && matches!(error, LeaseError::Corrupt { .. });
        (!is_fine).then(|| format!("{what}: {error:?}"))
    }
}

/// Every attribute, damaged in every way, found by every call.
pub(crate) async fn no_call_overwrites_an_item_that_it_cannot_understand(
    config: &SdkConfig,
    table: &str,
    stream: &str,
) {
    let table = Table::new(config, table);
    let cases = Call::ALL.into_iter().flat_map(|call| {
        let damages = damages(call.needs_a_holder()).into_iter();
        damages.map(move |damage| (call, damage))
    });
    let complaints: Vec<Option<String>> = stream::iter(cases.enumerate())
        .map(async |(number, (call, damage))| {
            let key = LeaseKey::new(stream, format!("shardId-{number:012}"));
            table.complaint(call, &key, &damage).await
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let cases = complaints.len();
    assert!(cases > 1_000, "{cases}");
    let complaints: Vec<String> = complaints.into_iter().flatten().collect();
    assert!(
        complaints.is_empty(),
        "{} of {cases}:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}
