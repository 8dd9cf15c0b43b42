//! `cargo xtask ci`: every check, cheap ones first, one verdict a step, up to the first that fails.

use anyhow::Context as _;

use super::test;
use crate::{
    checks::{Outcome, licences, rust_version, walls},
    clock::Stopwatch,
    run,
    workspace::Workspace,
};

struct Step {
    name: &'static str,
    check: fn(&Workspace) -> anyhow::Result<Outcome>,
}

const STEPS: &[Step] = &[
    Step {
        name: "format",
        check: |workspace| cargo(workspace, &["fmt", "--all", "--check"], &[]),
    },
    Step {
        name: "walls",
        check: |workspace| passed(walls::check(workspace)),
    },
    Step {
        name: "licences",
        check: |workspace| passed(licences::check(workspace)),
    },
    Step {
        name: "cargo-deny",
        check: licences::cargo_deny,
    },
    Step {
        name: "clippy",
        check: clippy,
    },
    Step {
        name: "rust-version",
        check: rust_version::check,
    },
    Step {
        name: "docs",
        check: docs,
    },
    Step {
        name: "test",
        check: |workspace| passed(test::run(workspace, test::Args::default())),
    },
];

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let all = Stopwatch::start();
    let mut skipped = Vec::new();
    for Step { name, check } in STEPS {
        let step = Stopwatch::start();
        let outcome = check(workspace);
        let seconds = step.elapsed().as_secs_f64();
        match outcome {
            Ok(Outcome::Passed) => println!("ci: {name:<12} passed   {seconds:>6.1} s"),
            Ok(Outcome::Skipped(reason)) => {
                println!("ci: {name:<12} SKIPPED  {seconds:>6.1} s  {reason}");
                skipped.push(*name);
            }
            Err(error) => {
                println!("ci: {name:<12} FAILED   {seconds:>6.1} s");
                return Err(error).with_context(|| format!("ci stopped at {name}"));
            }
        }
    }
    println!("ci: {}", summary(&skipped, all.elapsed().as_secs_f64()));
    Ok(())
}

fn summary(skipped: &[&str], seconds: f64) -> String {
    match skipped {
        [] => format!("all {} steps passed in {seconds:.0} s", STEPS.len()),
        skipped => format!(
            "{} steps passed in {seconds:.0} s; SKIPPED: {}",
            STEPS.len() - skipped.len(),
            skipped.join(", ")
        ),
    }
}

fn clippy(workspace: &Workspace) -> anyhow::Result<Outcome> {
    cargo(
        workspace,
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ],
        &[],
    )
}

/// Also of the examples: with them cargo chooses the features of the dependencies as for clippy, and need not check
/// the AWS SDK a second time.
fn docs(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let args = [
        "doc",
        "--workspace",
        "--no-deps",
        "--all-features",
        "--lib",
        "--bins",
        "--examples",
    ];
    cargo(workspace, &args, &[("RUSTDOCFLAGS", "-D warnings")])
}

fn cargo(workspace: &Workspace, args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<Outcome> {
    passed(run::run(
        workspace.cargo().args(args).envs(env.iter().copied()),
    ))
}

fn passed(result: anyhow::Result<()>) -> anyhow::Result<Outcome> {
    result.map(|()| Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_step_is_not_counted_as_passed() {
        let summary = summary(&["cargo-deny"], 300.0);
        assert_eq!(
            summary,
            format!(
                "{} steps passed in 300 s; SKIPPED: cargo-deny",
                STEPS.len() - 1
            )
        );
    }
}
