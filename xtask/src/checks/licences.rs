//! The part of `cargo deny` that needs no tool installed: every package, on whatever platform, is under a licence
//! that `deny.toml` allows, and comes from crates.io. `cargo deny check` looks at more, where it is installed.

use std::{collections::BTreeSet, fs};

use anyhow::{Context as _, bail, ensure};
use spdx::{Expression, ParseMode};

use crate::{
    run,
    workspace::{Package, Workspace},
};

use super::Outcome;

const POLICY: &str = "deny.toml";
const CRATES_IO: &str = "crates.io-index";

pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<()> {
    let policy =
        fs::read_to_string(workspace.root().join(POLICY)).context("cannot read deny.toml")?;
    let allowed = allowed(&policy)?;
    let packages = workspace.packages_and_dependencies()?;
    for package in &packages {
        let fault = licensed(package, &allowed).and_then(|()| from_crates_io(package));
        fault.with_context(|| format!("{} {}", package.name, package.version))?;
    }
    println!(
        "licences: {} packages, each under one of {} licences",
        packages.len(),
        allowed.len()
    );
    Ok(())
}

/// All of deny.toml but the advisories, whose list comes over the network and changes without us.
pub(crate) fn cargo_deny(workspace: &Workspace) -> anyhow::Result<Outcome> {
    if run::read(workspace.cargo().args(["deny", "--version"])).is_err() {
        return Ok(Outcome::Skipped(
            "cargo-deny is not installed (`cargo install --locked cargo-deny`); \
             licences and sources were checked without it, duplicate versions were not"
                .to_owned(),
        ));
    }
    let args = [
        "deny",
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ];
    run::run(workspace.cargo().args(args))?;
    Ok(Outcome::Passed)
}

/// The `allow` list of the `[licenses]` table, which holds one plain string a line.
fn allowed(policy: &str) -> anyhow::Result<BTreeSet<&str>> {
    let table = policy
        .split("[licenses]")
        .nth(1)
        .context("deny.toml has no [licenses]")?;
    let list = table
        .split_once("allow = [")
        .and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.context("deny.toml has no `allow = [..]` under [licenses]")?;
    let names: BTreeSet<&str> = list
        .lines()
        .map(|line| line.split('#').next().unwrap_or(line))
        .flat_map(|line| line.split(','))
        .map(|name| name.trim().trim_matches('"'))
        .filter(|name| !name.is_empty())
        .collect();
    ensure!(!names.is_empty(), "deny.toml allows no licence");
    for name in &names {
        ensure!(
            spdx::license_id(name).is_some(),
            "deny.toml allows `{name}`, which SPDX does not know"
        );
    }
    Ok(names)
}

fn licensed(package: &Package, allowed: &BTreeSet<&str>) -> anyhow::Result<()> {
    let Some(licence) = &package.license else {
        bail!("names no licence")
    };
    let expression = Expression::parse_mode(licence, ParseMode::LAX).map_err(|error| {
        anyhow::anyhow!(
            "is under `{licence}`, which is no SPDX expression: {}",
            error.reason
        )
    })?;
    let fine = expression.evaluate(|required| {
        required.addition.is_none()
            && required
                .license
                .id()
                .is_some_and(|id| allowed.contains(id.name))
    });
    ensure!(fine, "is under `{licence}`, which deny.toml does not allow");
    Ok(())
}

fn from_crates_io(package: &Package) -> anyhow::Result<()> {
    match &package.source {
        Some(source) if !source.ends_with(CRATES_IO) => {
            bail!("comes from {source}, not from crates.io")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMITTED: &str = include_str!("../../../deny.toml");

    fn under(licence: &str) -> anyhow::Result<()> {
        let package = Package {
            license: Some(licence.to_owned()),
            ..Package::default()
        };
        licensed(&package, &BTreeSet::from(["Apache-2.0", "MIT"]))
    }

    #[test]
    fn our_own_licence_is_allowed() {
        assert!(allowed(COMMITTED).unwrap().contains("Apache-2.0"));
    }

    #[test]
    fn a_comment_in_the_list_is_no_licence() {
        let policy = "[licenses]\nallow = [\n    \"MIT\", # \"GPL-3.0-only\"\n    # \"ISC\",\n]\n";
        assert_eq!(allowed(policy).unwrap(), BTreeSet::from(["MIT"]));
    }

    #[test]
    fn the_list_of_another_table_is_not_the_list_of_licences() {
        let error = allowed("[bans]\nallow = [\"MIT\"]\n[licenses]\nconfidence-threshold = 0.9\n")
            .unwrap_err();
        assert!(error.to_string().contains("no `allow"), "{error}");
    }

    #[test]
    fn a_misspelt_licence_is_refused() {
        assert!(allowed("[licenses]\nallow = [\"Apache 2\"]\n").is_err());
    }

    #[test]
    fn one_allowed_choice_is_enough() {
        under("GPL-3.0-only OR MIT").unwrap();
    }

    #[test]
    fn each_of_several_licences_must_be_allowed() {
        under("Apache-2.0 AND MIT").unwrap();
        under("Apache-2.0 AND GPL-3.0-only").unwrap_err();
        under("(MIT OR Apache-2.0) AND GPL-3.0-only").unwrap_err();
    }

    #[test]
    fn the_old_slash_between_choices_is_understood() {
        under("MIT/Apache-2.0").unwrap();
        under("Apache-2.0 / MIT").unwrap();
    }

    #[test]
    fn a_package_without_a_licence_is_refused() {
        licensed(&Package::default(), &BTreeSet::from(["MIT"])).unwrap_err();
    }

    #[test]
    fn a_package_from_a_repository_is_refused() {
        let from = |source: &str| Package {
            source: Some(source.to_owned()),
            ..Package::default()
        };
        from_crates_io(&from("git+https://example.com/fork?rev=1#1")).unwrap_err();
        from_crates_io(&from("registry+https://example.com/crates.io-index")).unwrap();
        from_crates_io(&Package::default()).unwrap();
    }
}
