//! Measurements in a process of their own: memory that nothing else has touched, another allocator, or valgrind.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, ensure};

/// This program.
pub(crate) fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find the program that runs")
}

/// A program that is built with this one.
pub(crate) fn program(name: &str) -> anyhow::Result<Command> {
    let path = this_program()?.with_file_name(name);
    ensure!(
        path.exists(),
        "{name} is not there: `cargo build --release -p bench --bins` builds it"
    );
    Ok(Command::new(path))
}

/// What it prints.
pub(crate) fn read(command: Command) -> anyhow::Result<String> {
    let output = run(command)?;
    Ok(String::from_utf8(output.stdout)?)
}

/// What it prints to standard error.
pub(crate) fn read_stderr(command: Command) -> anyhow::Result<String> {
    let output = run(command)?;
    Ok(String::from_utf8(output.stderr)?)
}

fn run(mut command: Command) -> anyhow::Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}
