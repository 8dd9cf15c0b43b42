//! Which crate may know which, proved by `cargo tree`.

use std::collections::BTreeSet;

use anyhow::{bail, ensure};

use crate::{run, workspace::Workspace};

/// What a crate may depend on, at whatever depth, with all features on, on whatever platform.
#[derive(Debug)]
struct Wall {
    of: &'static str,
    /// The crates of this workspace that it may know.
    knows: &'static [&'static str],
    keeps_out: Option<KeepsOut>,
    /// All that it may name in its own manifest, where that is fixed.
    names_only: Option<&'static [&'static str]>,
}

#[derive(Debug, Clone, Copy)]
enum KeepsOut {
    Aws,
    DynamoDb,
    Kinesis,
}

impl KeepsOut {
    fn is(self, name: &str) -> bool {
        match self {
            Self::Aws => name.starts_with("aws-"),
            Self::DynamoDb => name.contains("dynamo"),
            Self::Kinesis => name.contains("kinesis"),
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Aws => "no AWS crate",
            Self::DynamoDb => "no DynamoDB crate",
            Self::Kinesis => "no Kinesis crate",
        }
    }
}

const WALLS: &[Wall] = &[
    Wall {
        of: "lease-core",
        knows: &[],
        keeps_out: Some(KeepsOut::Aws),
        names_only: None,
    },
    Wall {
        of: "lease-memory",
        knows: &["lease-core"],
        keeps_out: Some(KeepsOut::Aws),
        names_only: Some(&["async-trait", "lease-core", "tokio"]),
    },
    Wall {
        of: "lease-dynamo",
        knows: &["lease-core"],
        keeps_out: Some(KeepsOut::Kinesis),
        names_only: None,
    },
    Wall {
        of: "rstream",
        knows: &["rstream-macros"],
        keeps_out: Some(KeepsOut::Aws),
        names_only: None,
    },
    Wall {
        of: "rstream-macros",
        knows: &[],
        keeps_out: Some(KeepsOut::Aws),
        names_only: None,
    },
    Wall {
        of: "kinesis-broker",
        knows: &["rstream", "rstream-macros", "lease-core", "lease-memory"],
        keeps_out: Some(KeepsOut::DynamoDb),
        names_only: None,
    },
    Wall {
        of: "kinesis-sim",
        knows: &[],
        keeps_out: None,
        names_only: None,
    },
    Wall {
        of: "fleet-sim",
        knows: &[
            "kinesis-broker",
            "kinesis-sim",
            "lease-core",
            "lease-memory",
            "rstream",
            "rstream-macros",
        ],
        keeps_out: Some(KeepsOut::DynamoDb),
        names_only: None,
    },
    Wall {
        of: "bench",
        knows: &[
            "kinesis-broker",
            "kinesis-sim",
            "lease-core",
            "lease-memory",
            "rstream",
            "rstream-macros",
        ],
        keeps_out: Some(KeepsOut::DynamoDb),
        names_only: None,
    },
    Wall {
        of: "lease-model",
        knows: &[],
        keeps_out: Some(KeepsOut::Aws),
        names_only: None,
    },
    Wall {
        of: "xtask",
        knows: &[],
        keeps_out: Some(KeepsOut::Aws),
        names_only: None,
    },
];

/// Programs that show the rest at work know all of it.
const NO_WALL: &[&str] = &["examples"];

pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<()> {
    let ours: BTreeSet<&str> = workspace
        .packages()
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    every_crate_has_a_wall(&ours)?;
    for wall in WALLS {
        let tree = tree(workspace, wall.of, &[])?;
        wall.holds(&names(&tree), &ours)?;
        if let Some(allowed) = wall.names_only {
            let direct = self::tree(workspace, wall.of, &["--depth", "1"])?;
            wall.names_no_more_than(&names(&direct), allowed)?;
        }
        println!("wall: {}", wall.label());
    }
    Ok(())
}

fn tree(workspace: &Workspace, package: &str, more: &[&str]) -> anyhow::Result<String> {
    let args = [
        "tree",
        "-p",
        package,
        "-e",
        "normal",
        "--prefix",
        "none",
        "--all-features",
        "--target",
        "all",
    ];
    run::read(workspace.cargo().args(args).args(more))
}

/// The names of the packages in what `cargo tree --prefix none` prints.
fn names(tree: &str) -> BTreeSet<&str> {
    tree.lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

/// A new crate gets its row in [`WALLS`] together with its folder.
fn every_crate_has_a_wall(ours: &BTreeSet<&str>) -> anyhow::Result<()> {
    let walls: BTreeSet<&str> = WALLS
        .iter()
        .map(|wall| wall.of)
        .chain(NO_WALL.iter().copied())
        .collect();
    if let Some(name) = ours.difference(&walls).next() {
        bail!("{name} has no wall: say in xtask/src/checks/walls.rs what it may depend on");
    }
    if let Some(name) = walls.difference(ours).next() {
        bail!("xtask/src/checks/walls.rs has a wall for {name}, which is not in the workspace");
    }
    Ok(())
}

impl Wall {
    fn holds(&self, under: &BTreeSet<&str>, ours: &BTreeSet<&str>) -> anyhow::Result<()> {
        for name in under {
            let ours_to_know = *name == self.of || self.knows.contains(name);
            ensure!(
                !ours.contains(name) || ours_to_know,
                "{} must not depend on {name} (`cargo tree -p {} -e normal -i {name}` shows how)",
                self.of,
                self.of
            );
            ensure!(
                self.keeps_out.is_none_or(|kind| !kind.is(name)),
                "{} must have {} under it, and has {name} (`cargo tree -p {} -e normal -i {name}` shows how)",
                self.of,
                self.keeps_out.map_or("", KeepsOut::label),
                self.of
            );
        }
        Ok(())
    }

    fn names_no_more_than(&self, direct: &BTreeSet<&str>, allowed: &[&str]) -> anyhow::Result<()> {
        for name in direct.iter().filter(|name| **name != self.of) {
            ensure!(
                allowed.contains(name),
                "{} names {name} in its manifest, and may name only {}",
                self.of,
                allowed.join(", ")
            );
        }
        Ok(())
    }

    fn label(&self) -> String {
        let mut rules = vec![match self.knows {
            [] => "knows no crate of this workspace".to_owned(),
            known => format!("knows {} of this workspace and no other", known.join(", ")),
        }];
        rules.extend(
            self.keeps_out
                .map(|kind| format!("{} under it", kind.label())),
        );
        rules.extend(
            self.names_only
                .map(|allowed| format!("names only {}", allowed.join(", "))),
        );
        format!("{}: {}", self.of, rules.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Wall = Wall {
        of: "lease-memory",
        knows: &["lease-core"],
        keeps_out: Some(KeepsOut::Aws),
        names_only: Some(&["lease-core", "tokio"]),
    };

    fn ours() -> BTreeSet<&'static str> {
        BTreeSet::from(["lease-core", "lease-memory", "rstream"])
    }

    fn error_of(tree: &str) -> String {
        WALL.holds(&names(tree), &ours()).unwrap_err().to_string()
    }

    #[test]
    fn a_tree_of_what_is_allowed_holds() {
        let tree = "lease-memory v0.1.0 (/w/crates/lease-memory)\n\
                    lease-core v0.1.0 (/w/crates/lease-core)\n\
                    async-trait v0.1.92 (proc-macro)\n\
                    tokio v1.54.1\n\
                    tokio v1.54.1 (*)\n";
        WALL.holds(&names(tree), &ours()).unwrap();
    }

    #[test]
    fn another_crate_of_the_workspace_breaks_the_wall() {
        let error = error_of("lease-memory v0.1.0\nrstream v0.1.0 (/w/crates/rstream)\n");
        assert!(error.contains("must not depend on rstream"), "{error}");
    }

    #[test]
    fn an_aws_crate_breaks_the_wall() {
        let error = error_of("lease-memory v0.1.0\naws-smithy-types v1.9.3\n");
        assert!(error.contains("aws-smithy-types"), "{error}");
    }

    #[test]
    fn a_crate_that_only_mentions_aws_does_not() {
        WALL.holds(
            &names("lease-memory v0.1.0\nlaws-of-motion v1.0.0\n"),
            &ours(),
        )
        .unwrap();
    }

    #[test]
    fn the_broker_keeps_every_dynamodb_crate_out() {
        for name in ["aws-sdk-dynamodb", "lease-dynamo", "serde_dynamo"] {
            assert!(KeepsOut::DynamoDb.is(name), "{name}");
        }
        assert!(!KeepsOut::DynamoDb.is("aws-sdk-kinesis"));
    }

    #[test]
    fn the_store_on_dynamodb_keeps_every_kinesis_crate_out() {
        for name in ["aws-sdk-kinesis", "kinesis-broker", "kinesis-sim"] {
            assert!(KeepsOut::Kinesis.is(name), "{name}");
        }
        assert!(!KeepsOut::Kinesis.is("aws-sdk-dynamodb"));
    }

    #[test]
    fn a_manifest_that_names_one_crate_more_breaks_the_wall() {
        let direct = names("lease-memory v0.1.0\nlease-core v0.1.0\nserde v1.0.229\n");
        let error = WALL
            .names_no_more_than(&direct, &["lease-core", "tokio"])
            .unwrap_err();
        assert!(error.to_string().contains("names serde"), "{error}");
    }

    #[test]
    fn a_crate_without_a_wall_is_refused() {
        let mut ours: BTreeSet<&str> = WALLS
            .iter()
            .map(|wall| wall.of)
            .chain(NO_WALL.iter().copied())
            .collect();
        every_crate_has_a_wall(&ours).unwrap();

        ours.insert("a-new-crate");

        let error = every_crate_has_a_wall(&ours).unwrap_err();
        assert!(error.to_string().contains("a-new-crate"), "{error}");
    }
}
