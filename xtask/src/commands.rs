//! What `cargo xtask` can do. Each command is a module.

mod bench;
mod ci;
mod integration;
mod leases;
mod servers;
mod sim;
mod test;

use clap::Subcommand;

use crate::workspace::Workspace;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run every test: unit tests, doc tests, and the integration tests on servers of their own
    Test(test::Args),
    /// Run the integration tests against servers of Kinesis and DynamoDB, started and stopped for them
    Integration(integration::Args),
    /// Run the servers of the integration tests by hand, until interrupted
    Servers,
    /// Show a DynamoDB table of leases: who holds which shard, how far it is handled, who asks for it
    Leases(leases::Args),
    /// Run fleets in simulation, from seeds: `--seeds 1..1000`, `--seed N --trace`, `--minutes M`
    Sim(sim::Args),
    /// Measure what the library adds to a plain loop over the AWS SDK: `--only NAME`, `--quick`
    Bench(bench::Args),
    /// Do what CI does: format, walls, licences, lints, docs, every test
    Ci,
}

impl Command {
    pub(crate) fn run(self, workspace: &Workspace) -> anyhow::Result<()> {
        match self {
            Self::Test(args) => test::run(workspace, args),
            Self::Integration(args) => integration::run(workspace, &args),
            Self::Servers => servers::run(workspace),
            Self::Leases(args) => leases::run(workspace, &args),
            Self::Sim(args) => sim::run(workspace, &args),
            Self::Bench(args) => bench::run(workspace, &args),
            Self::Ci => ci::run(workspace),
        }
    }
}
