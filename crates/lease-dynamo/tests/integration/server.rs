//! The servers that the tests run against, and instances of the store on them.

use std::env;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::Client;
use aws_smithy_async::time::{SystemTimeSource, TimeSource};
use aws_types::SdkConfig;
use aws_types::region::Region;
use lease_core::LeaseKey;
use lease_dynamo::DynamoLeaseStore;

/// The table that most tests share, each on keys of its own.
pub(crate) const SHARED: &str = "lease-dynamo-integration";
pub(crate) const TTL: Duration = Duration::from_secs(2);

/// A server to test against, by the variable that has its URL.
#[derive(Clone, Copy)]
pub(crate) struct Server(pub(crate) &'static str);

impl Server {
    pub(crate) fn config(self) -> SdkConfig {
        self.config_at(WallClock { hours_ahead: 0 })
    }

    /// With another wall clock. The SDK corrects its signatures where that is wrong.
    pub(crate) fn config_at(self, clock: WallClock) -> SdkConfig {
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

    pub(crate) fn client(self) -> Client {
        let config = aws_sdk_dynamodb::config::Builder::from(&self.config())
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest());
        Client::from_conf(config.build())
    }

    /// Another instance of the store.
    pub(crate) fn store(self, table: &str) -> DynamoLeaseStore {
        DynamoLeaseStore::new(&self.config(), table)
    }

    pub(crate) async fn delete(self, table: &str) {
        let deleted = self.client().delete_table().table_name(table).send();
        deleted.await.unwrap();
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock {
    pub(crate) hours_ahead: i64,
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

/// A name that nobody else uses, on servers that keep their tables from run to run.
pub(crate) fn unique(name: &str) -> String {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    let number = NAMES.fetch_add(1, Ordering::Relaxed);
    let now = SystemTimeSource::new().now();
    let nanos = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_nanos();
    format!("{name}-{nanos:x}-{number}")
}

pub(crate) fn key(shard: usize) -> LeaseKey {
    LeaseKey::new("inventory", format!("shardId-{shard:012}"))
}
