//! `cargo xtask leases`: a DynamoDB table of leases, for a person to read. The example `leases` of `lease-dynamo`
//! knows how; xtask, which has no AWS crate, runs it.

use super::integration::endpoint;
use crate::{run, workspace::Workspace};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The table of the leases
    #[arg(long, value_name = "NAME")]
    table: String,
    /// Read from this DynamoDB server, with test credentials, instead of AWS
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    dynamodb: Option<String>,
    /// The region of the table, where it is not the one of the environment or the profile
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// How long to watch for renewals, 4 if not said
    #[arg(long, value_name = "SECONDS")]
    watch_for: Option<u64>,
}

impl Args {
    /// As the example takes them.
    fn passed_on(&self) -> Vec<String> {
        let watch_for = self.watch_for.map(|seconds| seconds.to_string());
        let given = [
            ("--table", Some(&self.table)),
            ("--dynamodb", self.dynamodb.as_ref()),
            ("--region", self.region.as_ref()),
            ("--watch-for", watch_for.as_ref()),
        ];
        given
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", value?)))
            .collect()
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<()> {
    let mut cargo = workspace.cargo();
    cargo
        .args(["run", "--quiet", "--package", "lease-dynamo"])
        .args(["--example", "leases", "--"])
        .args(args.passed_on());
    run::run(&mut cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_passed_on_and_nothing_else() {
        let mut args = Args {
            table: "leases".to_owned(),
            dynamodb: None,
            region: None,
            watch_for: None,
        };
        assert_eq!(args.passed_on(), ["--table=leases"]);
        args.dynamodb = Some("http://127.0.0.1:8000".to_owned());
        args.region = Some("eu-central-1".to_owned());
        args.watch_for = Some(10);
        assert_eq!(
            args.passed_on(),
            [
                "--table=leases",
                "--dynamodb=http://127.0.0.1:8000",
                "--region=eu-central-1",
                "--watch-for=10",
            ]
        );
    }
}
