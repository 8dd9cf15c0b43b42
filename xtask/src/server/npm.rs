//! The servers that come from npm: fetched once, at the versions and checksums of `xtask/servers/npm`.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::PathBuf,
};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::{run, workspace::Workspace};

const MANIFEST: &str = "package.json";
const LOCK: &str = "package-lock.json";

#[derive(Debug, Deserialize)]
struct Lock {
    packages: BTreeMap<String, Locked>,
}

#[derive(Debug, Deserialize)]
struct Locked {
    integrity: Option<String>,
}

/// Returns the `node_modules` that holds the servers, fetched now where this lock file was not before.
pub(super) fn install(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let source = workspace.root().join("xtask/servers/npm");
    let home = workspace.servers().join("npm");
    // Written last, so that a run which was interrupted is not taken for a finished one.
    let installed = home.join("installed");
    let modules = home.join("node_modules");

    let lock = fs::read_to_string(source.join(LOCK))
        .context("cannot read xtask/servers/npm/package-lock.json")?;
    all_pinned(&lock)?;

    fs::create_dir_all(workspace.servers())?;
    let one_at_a_time = File::create(workspace.servers().join("npm.lock"))?;
    one_at_a_time.lock()?;
    if fs::read_to_string(&installed).is_ok_and(|of| of == lock) {
        return Ok(modules);
    }

    run::require(
        "npm",
        "it fetches the servers (`--kinesis URL` and `--dynamodb URL` use others)",
    )?;
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    fs::create_dir(&home)?;
    fs::copy(source.join(MANIFEST), home.join(MANIFEST))?;
    fs::write(home.join(LOCK), &lock)?;
    // `npm ci` takes exactly what the lock file names, and refuses what has another checksum.
    run::run(
        workspace
            .children
            .command("npm")
            .args([
                "ci",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--no-update-notifier",
            ])
            .current_dir(&home)
            // Standard output is for what the commands say.
            .stdout(io::stderr()),
    )
    .context("the servers cannot be fetched (`--kinesis URL` and `--dynamodb URL` use others)")?;
    fs::write(installed, lock)?;
    Ok(modules)
}

/// npm checks no package whose entry has no checksum, so each must have one.
fn all_pinned(lock: &str) -> anyhow::Result<()> {
    let lock: Lock = serde_json::from_str(lock)
        .context("xtask/servers/npm/package-lock.json is no lock file")?;
    for (path, package) in &lock.packages {
        let root = path.is_empty();
        let strong = package
            .integrity
            .as_ref()
            .is_some_and(|integrity| integrity.starts_with("sha512-"));
        ensure!(
            root || strong,
            "xtask/servers/npm/package-lock.json gives no SHA-512 for {path}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMITTED: &str = include_str!("../../servers/npm/package-lock.json");

    #[test]
    fn every_package_of_the_lock_file_has_a_checksum() {
        all_pinned(COMMITTED).unwrap();
    }

    #[test]
    fn the_servers_are_the_ones_that_were_tried() {
        let lock: Lock = serde_json::from_str(COMMITTED).unwrap();
        let tried = [
            (
                "node_modules/kinesis-local",
                "sha512-mFlmksPMQP/A3nT22N2E8WzUbJcbEdxkCnhNCx2lHj20CW4vzuVH8zn5ByRg5LS5es8tvnx2mY1DpbZ5kw9PPQ==",
            ),
            (
                "node_modules/dynalite",
                "sha512-EIDzWEhyz4XT4tDuDTrp8rAV3pOyOf2ETg7htxhERQfJ7B5CPrQNMS9Un9PVCiXM5WVN1w0CxgHXztP8LqT+SA==",
            ),
        ];
        for (path, integrity) in tried {
            assert_eq!(lock.packages[path].integrity.as_deref(), Some(integrity));
        }
    }

    #[test]
    fn the_lock_file_takes_packages_from_whatever_registry_npm_is_set_up_for() {
        assert!(
            !COMMITTED.contains("\"resolved\""),
            "`xtask/servers/npm/.npmrc` keeps these out"
        );
    }

    #[test]
    fn a_package_without_a_checksum_is_refused() {
        let error = all_pinned(r#"{"packages": {"": {}, "node_modules/loose": {}}}"#).unwrap_err();
        assert!(error.to_string().contains("node_modules/loose"), "{error}");
    }
}
