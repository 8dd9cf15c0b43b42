//! `cargo xtask integration`: the tests over sockets, against real servers of Kinesis and of DynamoDB.
//!
//! A package takes part with a feature `integration` and a test target of that name.

use anyhow::{bail, ensure};

use crate::{
    run,
    server::{Server, dynamodb, kinesis},
    workspace::{Package, Workspace},
};

/// The feature and the test target.
pub(crate) const INTEGRATION: &str = "integration";

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) servers: Servers,
    /// Run only the tests whose name contains this
    pub(super) filter: Option<String>,
    /// What the test programs are given, such as `-- --nocapture`
    #[arg(last = true)]
    pub(super) rest: Vec<String>,
}

/// The servers to test against, where they are not xtask's own.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Servers {
    /// Test against this Kinesis server instead of starting one
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    kinesis: Option<String>,
    /// Test against this DynamoDB server instead of starting two
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    dynamodb: Option<String>,
}

/// The servers of a run: those that were started for it, and where the tests find each.
#[derive(Debug, Default)]
pub(super) struct Started {
    servers: Vec<Server>,
    /// By the variable that the tests read.
    endpoints: Vec<(&'static str, String)>,
}

const KINESIS: &str = "KINESIS_ENDPOINT";
const DYNAMODB: &str = "DYNAMODB_ENDPOINT";
/// Another implementation of the same service.
const SECOND_DYNAMODB: &str = "DYNAMODB_SECOND_ENDPOINT";

impl Servers {
    /// Starts what is not given.
    pub(super) fn start(&self, workspace: &Workspace) -> anyhow::Result<Started> {
        let mut started = Started::default();
        match &self.kinesis {
            Some(url) => started.endpoints.push((KINESIS, url.clone())),
            None => started.add(KINESIS, kinesis::start(workspace)?),
        }
        match &self.dynamodb {
            Some(url) => {
                let both = [DYNAMODB, SECOND_DYNAMODB];
                started
                    .endpoints
                    .extend(both.map(|variable| (variable, url.clone())));
            }
            None => {
                started.add(DYNAMODB, dynamodb::start_ministack(workspace)?);
                started.add(SECOND_DYNAMODB, dynamodb::start_dynalite(workspace)?);
            }
        }
        Ok(started)
    }
}

impl Started {
    fn add(&mut self, variable: &'static str, server: Server) {
        self.endpoints
            .push((variable, server.endpoint().to_owned()));
        self.servers.push(server);
    }

    /// The variables that the tests read.
    pub(super) fn endpoints(&self) -> &[(&'static str, String)] {
        &self.endpoints
    }

    /// Fails where a server has ended by itself.
    pub(super) fn check_alive(&mut self) -> anyhow::Result<()> {
        self.servers.iter_mut().try_for_each(Server::check_alive)
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<()> {
    check_packages(workspace.packages())?;
    let mut started = args.servers.start(workspace)?;
    let tested = run_against(workspace, args, started.endpoints());
    // A server that ended is the reason of the failures, and is said last.
    started.check_alive()?;
    tested
}

fn run_against(
    workspace: &Workspace,
    args: &Args,
    endpoints: &[(&'static str, String)],
) -> anyhow::Result<()> {
    let mut cargo = workspace.cargo();
    // The whole workspace and all features, as in the other calls of cargo: a narrower choice would compile the
    // dependencies again, with fewer features.
    cargo
        .args([
            "test",
            "--workspace",
            "--all-features",
            "--no-fail-fast",
            "--test",
            INTEGRATION,
        ])
        .args(&args.filter)
        .args((!args.rest.is_empty()).then_some("--"))
        .args(&args.rest)
        .envs(endpoints.iter().map(|(variable, url)| (variable, url)));
    run::run(&mut cargo)
}

/// A test that nobody runs looks like one that passes, so both names must be there or neither.
fn check_packages(packages: &[Package]) -> anyhow::Result<()> {
    for package in packages {
        match (
            package.features.contains_key(INTEGRATION),
            package.has_test_target(INTEGRATION),
        ) {
            (true, false) => bail!(
                "{} has a feature `{INTEGRATION}` and no test target `{INTEGRATION}`: its tests would not run",
                package.name
            ),
            (false, true) => bail!(
                "{} has a test target `{INTEGRATION}` and no feature `{INTEGRATION}` that turns it on",
                package.name
            ),
            (true, true) | (false, false) => {}
        }
    }
    let any = packages
        .iter()
        .any(|package| package.features.contains_key(INTEGRATION));
    ensure!(
        any,
        "no package of the workspace has a feature `{INTEGRATION}`: nothing was tested"
    );
    Ok(())
}

pub(super) fn endpoint(url: &str) -> Result<String, String> {
    let host = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    match host {
        Some(host) if !host.is_empty() => Ok(url.to_owned()),
        _ => Err("an endpoint looks like http://127.0.0.1:4568".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Target;

    fn package(feature: bool, target: bool) -> Package {
        let mut package = Package {
            name: "a-package".to_owned(),
            ..Package::default()
        };
        if feature {
            package.features.insert(INTEGRATION.to_owned(), Vec::new());
        }
        if target {
            package.targets.push(Target {
                name: INTEGRATION.to_owned(),
                kind: vec!["test".to_owned()],
            });
        }
        package
    }

    #[test]
    fn packages_with_both_names_or_neither_are_fine() {
        check_packages(&[package(true, true), package(false, false)]).unwrap();
    }

    #[test]
    fn a_feature_without_tests_is_refused() {
        let error = check_packages(&[package(true, true), package(true, false)]).unwrap_err();
        assert!(error.to_string().contains("no test target"), "{error}");
    }

    #[test]
    fn tests_that_no_feature_turns_on_are_refused() {
        let error = check_packages(&[package(true, true), package(false, true)]).unwrap_err();
        assert!(error.to_string().contains("no feature"), "{error}");
    }

    #[test]
    fn a_workspace_without_integration_tests_is_refused() {
        check_packages(&[package(false, false)]).unwrap_err();
    }

    #[test]
    fn an_endpoint_is_a_url() {
        assert!(endpoint("http://127.0.0.1:4568").is_ok());
        assert!(endpoint("https://kinesis.example").is_ok());
        assert!(endpoint("127.0.0.1:4568").is_err());
        assert!(endpoint("http://").is_err());
    }
}
