//! The workspace's chores. `cargo xtask` prints them; each is a module of [`commands`].

mod checks;
mod children;
mod clock;
mod commands;
mod run;
mod server;
mod workspace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::{commands::Command, run::Failed, workspace::Workspace};

/// The chores of this workspace.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

fn main() -> ExitCode {
    match chore() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            // What failed underneath decides, so that `cargo xtask test` ends as `cargo test` does.
            let code = error.downcast_ref::<Failed>().map_or(1, Failed::code);
            ExitCode::from(code)
        }
    }
}

fn chore() -> anyhow::Result<()> {
    match Cli::parse().command {
        Some(command) => command.run(&Workspace::load()?),
        None => Ok(Cli::command().print_help()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
