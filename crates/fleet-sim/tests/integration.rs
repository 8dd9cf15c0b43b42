//! The same fleets in real time, with their leases in DynamoDB tables; `cargo xtask integration` starts the servers.
#![cfg(feature = "integration")]
#![expect(clippy::unwrap_used, reason = "a failed call fails the test")]

use std::env;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::BehaviorVersion;
use aws_smithy_async::time::{SystemTimeSource, TimeSource as _};
use aws_types::SdkConfig;
use aws_types::region::Region;
use fleet_sim::Simulation;
use fleet_sim::plan::Plan;
use lease_dynamo::DynamoLeaseStore;
use tokio::runtime::Runtime;

fn config(server: &str) -> SdkConfig {
    let endpoint = env::var(server).expect("run this by `cargo xtask integration`");
    let or = |name, other: &str| env::var(name).unwrap_or_else(|_| other.to_owned());
    let credentials = Credentials::new(
        or("AWS_ACCESS_KEY_ID", "test"),
        or("AWS_SECRET_ACCESS_KEY", "test"),
        env::var("AWS_SESSION_TOKEN").ok(),
        None,
        "test",
    );
    SdkConfig::builder()
        .endpoint_url(endpoint)
        .region(Region::new(or("AWS_REGION", "us-east-1")))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .build()
}

/// A plan of this seed that the servers, which serve some hundreds of calls a second, keep up with.
fn plan(seed: u64) -> Plan {
    let mut plan = Plan::from_seed(seed);
    plan.shards = plan.shards.min(8);
    plan.lasts = plan.lasts.min(Duration::from_secs(60));
    plan.mishaps.retain(|mishap| mishap.at < plan.lasts);
    plan
}

/// A table of a test's own, which is gone when the test is over.
struct Table {
    name: String,
    config: SdkConfig,
    runtime: Runtime,
}

impl Table {
    fn new(config: SdkConfig, seed: u64) -> Self {
        let now = SystemTimeSource::new().now().duration_since(UNIX_EPOCH);
        let name = format!("fleet-{seed}-{:x}", now.unwrap().as_nanos());
        let runtime = Runtime::new().unwrap();
        let store = DynamoLeaseStore::new(&config, &name);
        runtime.block_on(store.create_table_if_missing()).unwrap();
        Self {
            name,
            config,
            runtime,
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let config = aws_sdk_dynamodb::config::Builder::from(&self.config)
            .behavior_version(BehaviorVersion::latest());
        let client = Client::from_conf(config.build());
        let deleted = client.delete_table().table_name(&self.name).send();
        if let Err(error) = self.runtime.block_on(deleted) {
            eprintln!("the table {} is left behind: {error}", self.name);
        }
    }
}

/// Runs a seed over a table of its own.
fn run(server: &str, seed: u64) {
    let table = Table::new(config(server), seed);
    let (config, name) = (table.config.clone(), table.name.clone());
    // An instance knows of the leases what its own store has seen.
    let open = move |_| Arc::new(DynamoLeaseStore::new(&config, &name)) as _;
    let run = Simulation::of(plan(seed)).stores(open).in_real_time().run();
    assert!(run.violations.is_empty(), "{}", run.report());
    assert!(!run.history.records.is_empty(), "nothing was put");
}

#[test]
fn a_calm_fleet_keeps_every_rule_over_dynamodb() {
    run("DYNAMODB_ENDPOINT", 6);
}

#[test]
fn a_fleet_in_trouble_keeps_every_rule_over_dynamodb() {
    run("DYNAMODB_ENDPOINT", 5);
}

#[test]
fn a_fleet_in_trouble_keeps_every_rule_over_another_dynamodb() {
    run("DYNAMODB_SECOND_ENDPOINT", 2);
}
