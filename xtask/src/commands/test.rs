//! `cargo xtask test`: everything that can fail, in two calls of cargo, whose summaries stand last.

use super::integration::{self, INTEGRATION, Servers};
use crate::{
    run,
    workspace::{Package, Workspace},
};

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    servers: Servers,
}

pub(crate) fn run(workspace: &Workspace, args: Args) -> anyhow::Result<()> {
    let mut cargo = workspace.cargo();
    cargo
        .args(["test", "--workspace", "--no-fail-fast", "--features"])
        .arg(features_without_servers(workspace.packages()).join(","));
    if let Err(failed) = run::run(&mut cargo) {
        eprintln!("SKIPPED: the integration tests, since the tests before them failed");
        return Err(failed);
    }
    integration::run(
        workspace,
        &integration::Args {
            servers: args.servers,
            ..integration::Args::default()
        },
    )
}

/// Every feature but those whose tests need a server.
fn features_without_servers(packages: &[Package]) -> Vec<String> {
    packages
        .iter()
        .flat_map(|package| {
            package
                .features
                .keys()
                .map(move |feature| (package, feature))
        })
        .filter(|(_, feature)| *feature != INTEGRATION)
        .map(|(package, feature)| format!("{}/{feature}", package.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_without_servers_have_every_feature_but_integration() {
        let package = |name: &str, features: &[&str]| Package {
            name: name.to_owned(),
            features: features
                .iter()
                .map(|feature| (feature.to_string(), Vec::new()))
                .collect(),
            ..Package::default()
        };
        let packages = [
            package("rstream", &["macros", "testing"]),
            package("kinesis-broker", &[INTEGRATION]),
        ];
        assert_eq!(
            features_without_servers(&packages),
            ["rstream/macros", "rstream/testing"]
        );
    }
}
