//! The command line of the examples.

use std::path::PathBuf;

use clap::Parser;

/// Two instances of a service share the shards of the stream `inventory`.
///
/// Without a server they run on an embedded Kinesis: no account, no network. Midway a shard is split, one
/// instance is stopped, and the two halves are merged again; a table at the end says who handled what. The
/// exit code is 1 if a record was lost. RUST_LOG=info shows the service's own events.
#[derive(Clone, Debug, Default, Parser)]
#[command(version)]
pub struct Args {
    /// Run against the Kinesis server at this URL, with test credentials in us-east-1; the stream is
    /// created if it is missing.
    #[arg(long, value_name = "URL", conflicts_with = "aws")]
    pub endpoint: Option<String>,

    /// Run against AWS, with the region and credentials of the default chain; the stream has to exist, and
    /// is not resharded.
    #[arg(long)]
    pub aws: bool,

    /// Put the stock changes of this file, JSON lines of {"sku":..,"delta":..}, instead of made-up ones.
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,

    /// Go on until interrupted (Ctrl-C), instead of ending when everything is handled.
    #[arg(long)]
    pub follow: bool,
}
