//! `cargo xtask sim`: fleets in simulation, from seeds. The program `fleet-sim` runs them and explains its options;
//! xtask, which depends on nothing of the workspace, builds it and starts it.

use crate::{run, workspace::Workspace};

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// What `fleet-sim` is given, such as `--seeds 1..1000` or `--seed 7 --trace`; `--help` tells all
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "OPTIONS"
    )]
    passed_on: Vec<String>,
}

/// What asks for brokers that break a rule, which only this feature builds.
const BROKEN: &str = "--broken";

impl Args {
    fn cargo_args(&self) -> Vec<&str> {
        let is_broken = |arg: &String| arg == BROKEN || arg.starts_with("--broken=");
        let features = if self.passed_on.iter().any(is_broken) {
            "cli,sabotage"
        } else {
            "cli"
        };
        let mut args = vec!["run", "--quiet", "--release", "--package", "fleet-sim"];
        args.extend(["--features", features, "--"]);
        args.extend(self.passed_on.iter().map(String::as_str));
        args
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<()> {
    run::run(workspace.cargo().args(args.cargo_args()))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn cargo_args(line: &str) -> String {
        let line = Line::parse_from(line.split_whitespace());
        line.args.cargo_args().join(" ")
    }

    #[test]
    fn everything_is_passed_on_as_it_stands() {
        assert_eq!(
            cargo_args("sim --seed 7 --trace --help"),
            "run --quiet --release --package fleet-sim --features cli -- --seed 7 --trace --help"
        );
    }

    #[test]
    fn broken_brokers_are_built_only_where_they_are_asked_for() {
        for line in [
            "sim --broken",
            "sim --broken=TipAnew",
            "sim --jobs 2 --broken",
        ] {
            assert!(
                cargo_args(line).contains("--features cli,sabotage --"),
                "{line}"
            );
        }
        assert!(!cargo_args("sim --seeds 1..9").contains("sabotage"));
    }
}
