//! `cargo xtask bench`: what the library adds to a plain loop over the AWS SDK, measured. The program `bench` measures
//! and explains its options; xtask, which depends on nothing of the workspace, builds it and starts it.

use crate::{run, workspace::Workspace};

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// What `bench` is given, such as `--only throughput` or `--quick`; `--help` tells all
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "OPTIONS"
    )]
    passed_on: Vec<String>,
}

/// All programs of the package: the one that is run starts others.
const BUILD: &[&str] = &[
    "build",
    "--quiet",
    "--release",
    "--package",
    "bench",
    "--bins",
];

impl Args {
    fn cargo_args(&self) -> Vec<&str> {
        let mut args = vec!["run", "--quiet", "--release", "--package", "bench"];
        args.extend(["--bin", "bench", "--"]);
        args.extend(self.passed_on.iter().map(String::as_str));
        args
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<()> {
    run::run(workspace.cargo().args(BUILD))?;
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

    #[test]
    fn everything_is_passed_on_as_it_stands() {
        let line = Line::parse_from("bench --only idle --quick --help".split_whitespace());
        assert_eq!(
            line.args.cargo_args().join(" "),
            "run --quiet --release --package bench --bin bench -- --only idle --quick --help"
        );
    }
}
