//! A service whose instances, on any number of machines, share the shards of a stream through a DynamoDB table.
//!
//! ```text
//! cargo run -p examples --example kinesis_leases_dynamo -- --table inventory-leases
//! ```
//!
//! Start it as often as you like: each instance takes its share of the shards, and goes on where the last
//! reader of a shard had got to. It runs until SIGINT or SIGTERM.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_kinesis::config::{Credentials, SharedCredentialsProvider};
use clap::Parser;
use examples::StockChange;
use kinesis_broker::prelude::*;
use lease_core::LeaseError;
use lease_dynamo::DynamoLeaseStore;
use tracing_subscriber::EnvFilter;

/// An instance of the service `inventory`, which shares the shards of a stream with every other instance on
/// the same table.
///
/// It runs on AWS, with the region and credentials of the default chain, unless it is given servers. The
/// table is created if it is missing; the stream has to exist. RUST_LOG=info shows what it does.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    /// Read from the Kinesis server at this URL, with test credentials in us-east-1.
    #[arg(long, value_name = "URL", requires = "dynamodb")]
    pub(crate) kinesis: Option<String>,

    /// Keep the leases on the DynamoDB server at this URL, with test credentials in us-east-1.
    #[arg(long, value_name = "URL", requires = "kinesis")]
    pub(crate) dynamodb: Option<String>,

    /// The DynamoDB table of the leases.
    #[arg(long, value_name = "NAME", default_value = "inventory-leases")]
    pub(crate) table: String,

    /// The Kinesis stream to read.
    #[arg(long, value_name = "NAME", default_value = "inventory")]
    pub(crate) stream: String,

    /// This instance's name in the table; without it one of the host, the process id and a random number.
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: Option<String>,
}

/// Applies each stock change. Every instance of the service runs this handler; the table decides which
/// instance reads which shard.
struct Apply;

impl Handle<StockChange> for Apply {
    async fn handle(
        &self,
        change: &StockChange,
        _outs: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        let shard = ctx.get::<RecordInfo>().map(|record| &*record.shard);
        tracing::info!(shard, change.sku, change.delta, "stock changed");
        Ok(())
    }
}

/// The service, with the handler that it is given.
pub(crate) async fn service(
    args: &Args,
    config: &SdkConfig,
    handler: impl Handle<StockChange>,
) -> Result<RustStream, LeaseError> {
    let mut dynamodb = config.to_builder();
    dynamodb.set_endpoint_url(args.dynamodb.clone());
    let leases = DynamoLeaseStore::new(&dynamodb.build(), &args.table);
    leases.create_table_if_missing().await?;

    let mut broker = KinesisBroker::from_config(config).lease_store(Arc::new(leases));
    if let Some(url) = &args.kinesis {
        broker = broker.endpoint(url);
    }
    if let Some(owner) = &args.owner {
        broker = broker.owner_id(owner);
    }
    // Where nobody has read yet, every change counts from the oldest on.
    let stream = KinesisStream::new(&args.stream).start_at(StartPosition::trim_horizon());
    Ok(
        RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
            b.include(subscriber(stream, handler).build());
        }),
    )
}

/// The configuration of the AWS SDK: the default chain's, or one that a local server takes.
pub(crate) async fn config(args: &Args) -> SdkConfig {
    let loader = aws_config::defaults(BehaviorVersion::latest());
    if args.kinesis.is_none() {
        return loader.load().await;
    }
    let credentials = Credentials::new("test", "test", None, None, "test");
    loader
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .load()
        .await
}

async fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let service = service(args, &config(args).await, Apply).await?;
    Ok(service.run().await?)
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
