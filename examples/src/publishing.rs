//! What the programs that publish have in common: a Kinesis to publish to, and a count of what it has stored.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use clap::Parser;
use kinesis_broker::{KinesisPublisher, Published};
use kinesis_sim::KinesisSim;

/// Publishes stock changes to the stream `inventory`.
///
/// Without a server it runs on an embedded Kinesis of four shards, with the service's quotas: no account, no network.
/// RUST_LOG=debug shows what is put again.
#[derive(Clone, Debug, Parser)]
#[command(version)]
struct Args {
    /// Publish to the Kinesis server at this URL, with test credentials in us-east-1; the stream has to exist.
    #[arg(long, value_name = "URL", conflicts_with = "aws")]
    endpoint: Option<String>,

    /// Publish to AWS, with the region and credentials of the default chain; the stream has to exist.
    #[arg(long)]
    aws: bool,

    /// How many changes.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    changes: u64,
}

/// How many records each shard has stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored(BTreeMap<String, u64>);

impl Stored {
    /// Counts a record.
    pub fn count(&mut self, published: &Published) {
        *self.0.entry(published.shard.clone()).or_default() += 1;
    }

    /// The shards with any, and how many of them each has.
    pub fn by_shard(&self) -> impl Iterator<Item = (&str, u64)> {
        let shards = self.0.iter();
        shards.map(|(shard, records)| (shard.as_str(), *records))
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shard, records) in self.by_shard() {
            writeln!(f, "{shard} has stored {records} records")?;
        }
        Ok(())
    }
}

/// The `main` of an example that publishes. The exit code is 1 if something is not stored.
pub async fn publish(
    publish: impl AsyncFnOnce(KinesisPublisher, u64) -> Result<Stored, Box<dyn Error>>,
) -> ExitCode {
    crate::log_to_stderr();
    let args = Args::parse();
    let embedded = KinesisSim::new();
    embedded.create_stream("inventory", 4);
    let publisher = match &args.endpoint {
        Some(url) => (KinesisPublisher::new().region("us-east-1").endpoint(url)).test_credentials(),
        None if args.aws => KinesisPublisher::new(),
        None => KinesisPublisher::from_config(&embedded.sdk_config()),
    };
    match publish(publisher, args.changes).await {
        Ok(stored) => {
            print!("{stored}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
