//! What cargo knows of this workspace: its folders, its packages, and how to call cargo again.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use serde::Deserialize;

use crate::{children::Children, run};

#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) children: Children,
    metadata: Metadata,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    workspace_root: PathBuf,
    target_directory: PathBuf,
    packages: Vec<Package>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// Where it came from; a package of the workspace has none.
    pub(crate) source: Option<String>,
    pub(crate) rust_version: Option<String>,
    #[serde(default)]
    pub(crate) features: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

impl Package {
    pub(crate) fn has_test_target(&self, name: &str) -> bool {
        self.targets
            .iter()
            .any(|target| target.name == name && target.kind.iter().any(|kind| kind == "test"))
    }
}

impl Workspace {
    pub(crate) fn load() -> anyhow::Result<Self> {
        let children = Children::new()?;
        let text =
            run::read(cargo(&children).args(["metadata", "--format-version", "1", "--no-deps"]))?;
        let metadata = parse(&text)?;
        Ok(Self { children, metadata })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.metadata.workspace_root
    }

    /// Where the servers are kept, and what they log.
    pub(crate) fn servers(&self) -> PathBuf {
        self.metadata.target_directory.join("servers")
    }

    /// The packages of the workspace.
    pub(crate) fn packages(&self) -> &[Package] {
        &self.metadata.packages
    }

    /// The packages of the workspace and all that they depend on, on whatever platform.
    pub(crate) fn packages_and_dependencies(&self) -> anyhow::Result<Vec<Package>> {
        let text =
            run::read(
                self.cargo()
                    .args(["metadata", "--format-version", "1", "--all-features"]),
            )?;
        Ok(parse(&text)?.packages)
    }

    /// The cargo that runs this xtask, in the root of the workspace.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = cargo(&self.children);
        command.current_dir(self.root());
        command
    }
}

fn parse(text: &str) -> anyhow::Result<Metadata> {
    serde_json::from_str(text).context("`cargo metadata` printed something unexpected")
}

fn cargo(children: &Children) -> Command {
    let program = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = children.command(&program);
    // `cargo run` describes xtask in these. Build scripts that watch them would run again, and their crates
    // be compiled again, whenever a person calls cargo without xtask.
    for (name, _) in env::vars_os() {
        let described = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
            "CARGO_PRIMARY_",
        ];
        if described
            .iter()
            .any(|prefix| name.to_string_lossy().starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_target_is_told_from_an_example_of_the_same_name() {
        let target = |kind: &str| Target {
            name: "integration".to_owned(),
            kind: vec![kind.to_owned()],
        };
        let example = Package {
            targets: vec![target("example")],
            ..Package::default()
        };
        let test = Package {
            targets: vec![target("test")],
            ..Package::default()
        };
        assert!(!example.has_test_target("integration"));
        assert!(test.has_test_target("integration"));
    }

    #[test]
    fn what_cargo_prints_of_a_workspace_is_understood() {
        let metadata = parse(
            r#"{
                "workspace_root": "/w", "target_directory": "/w/target", "version": 1, "resolve": null,
                "packages": [{
                    "name": "lease-core", "version": "0.1.0", "license": "Apache-2.0", "source": null,
                    "rust_version": "1.95", "edition": "2024", "features": {"conformance": ["dep:tokio"]},
                    "targets": [{"name": "lease_core", "kind": ["lib"], "crate_types": ["lib"]}]
                }]
            }"#,
        )
        .unwrap();
        let package = &metadata.packages[0];
        assert_eq!(package.rust_version.as_deref(), Some("1.95"));
        assert!(package.features.contains_key("conformance"));
        assert_eq!(package.source, None);
    }
}
