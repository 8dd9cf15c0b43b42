//! Whether the workspace compiles with the oldest Rust that it says it does.

use std::process::Command;

use anyhow::Context as _;

use super::Outcome;
use crate::{run, workspace::Workspace};

pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let stated = stated(workspace)?;
    let running = run::read(workspace.children.command("rustc").arg("--version"))?;
    if is(&running, stated) {
        println!(
            "rust-version: {stated} is what all else here runs on: {}",
            running.trim()
        );
        return Ok(Outcome::Passed);
    }
    let installed = run::read(
        workspace
            .children
            .command("rustup")
            .args(["toolchain", "list"]),
    )
    .unwrap_or_default();
    let Some(toolchain) = installed_toolchain(&installed, stated) else {
        return Ok(Outcome::Skipped(format!(
            "rust-version is {stated}, this is {}, and Rust {stated} is not installed (`rustup toolchain install {stated}`)",
            running.trim()
        )));
    };
    // Not the cargo that runs this: it cannot be told to be another.
    let mut check: Command = workspace.children.command("rustup");
    check
        .args([
            "run",
            toolchain,
            "cargo",
            "check",
            "--workspace",
            "--all-targets",
            "--all-features",
        ])
        .env_remove("RUSTC")
        .env_remove("RUSTDOC")
        .current_dir(workspace.root());
    run::run(&mut check)?;
    Ok(Outcome::Passed)
}

fn stated(workspace: &Workspace) -> anyhow::Result<&str> {
    let mut versions = workspace
        .packages()
        .iter()
        .map(|package| (&package.name, &package.rust_version));
    let (_, first) = versions.next().context("the workspace has no package")?;
    let stated = first
        .as_deref()
        .context("the workspace states no rust-version")?;
    for (name, version) in versions {
        anyhow::ensure!(
            version.as_deref() == Some(stated),
            "{name} does not state rust-version {stated}"
        );
    }
    Ok(stated)
}

/// Whether what `rustc --version` printed is that version; a version of two numbers means any patch of it.
fn is(rustc: &str, version: &str) -> bool {
    let Some(running) = rustc.split_whitespace().nth(1) else {
        return false;
    };
    is_of(running, version)
}

/// The toolchain of that version in what `rustup toolchain list` printed.
fn installed_toolchain<'a>(list: &'a str, version: &str) -> Option<&'a str> {
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names
        .into_iter()
        .find(|name| is_of(name.split('-').next().unwrap_or(name), version))
}

fn is_of(number: &str, version: &str) -> bool {
    match number.strip_prefix(version) {
        Some("") => true,
        Some(rest) => rest
            .strip_prefix('.')
            .is_some_and(|patch| patch.parse::<u32>().is_ok()),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_patch_of_the_stated_version_is_that_version() {
        assert!(is("rustc 1.95.0 (f2d3ce0bd 2026-03-21)", "1.95"));
        assert!(is("rustc 1.95.2 (0 2026-04-21)", "1.95"));
        assert!(is("rustc 1.95.0 (f2d3ce0bd 2026-03-21)", "1.95.0"));
    }

    #[test]
    fn a_later_version_is_another_one() {
        assert!(!is("rustc 1.96.0 (0 2026-05-01)", "1.95"));
        assert!(!is("rustc 1.950.0 (0 2099-01-01)", "1.95"));
        assert!(!is("rustc 1.95.1-nightly (0 2026-03-21)", "1.95.0"));
    }

    #[test]
    fn a_prerelease_of_the_stated_version_is_not_that_version() {
        assert!(!is("rustc 1.95.0-nightly (0 2026-01-21)", "1.95"));
    }

    #[test]
    fn the_stated_version_is_found_among_the_installed() {
        let list = "stable-x86_64-unknown-linux-gnu (active, default)\n\
                    nightly-x86_64-unknown-linux-gnu\n\
                    1.95.0-x86_64-unknown-linux-gnu\n";
        assert_eq!(
            installed_toolchain(list, "1.95"),
            Some("1.95.0-x86_64-unknown-linux-gnu")
        );
        assert_eq!(installed_toolchain(list, "1.94"), None);
    }
}
