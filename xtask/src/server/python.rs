//! The server that comes from PyPI: fetched once into a virtual environment of its own, at the versions and
//! checksums of `xtask/servers/python`.

use std::{
    fs::{self, File},
    io,
    path::PathBuf,
};

use anyhow::{Context as _, ensure};

use crate::{run, workspace::Workspace};

const REQUIREMENTS: &str = "requirements.txt";
const PURPOSE: &str =
    "the DynamoDB server ministack runs on it (`--dynamodb URL` uses another server)";

/// Returns the folder of the environment's programs, fetched now where these requirements were not before.
pub(super) fn install(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let source = workspace
        .root()
        .join("xtask/servers/python")
        .join(REQUIREMENTS);
    let home = workspace.servers().join("python");
    // Written last, so that a run which was interrupted is not taken for a finished one.
    let installed = home.join("installed");
    let programs = home.join("bin");

    let requirements =
        fs::read_to_string(&source).context("cannot read xtask/servers/python/requirements.txt")?;
    all_pinned(&requirements)?;

    fs::create_dir_all(workspace.servers())?;
    let one_at_a_time = File::create(workspace.servers().join("python.lock"))?;
    one_at_a_time.lock()?;
    if fs::read_to_string(&installed).is_ok_and(|of| of == requirements) {
        return Ok(programs);
    }

    run::require("python3", PURPOSE)?;
    // Debian and Ubuntu ship Python without what a virtual environment needs.
    run::read(
        workspace
            .children
            .command("python3")
            .args(["-c", "import ensurepip, venv"]),
    )
    .with_context(|| {
        format!(
            "`python3` has no module `venv`, and {PURPOSE}. \
             Debian, Ubuntu: `apt-get install python3-venv`; elsewhere it comes with Python 3"
        )
    })?;
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    let mut environment = workspace.children.command("python3");
    environment.args(["-m", "venv"]).arg(&home);
    run::run(environment.stdout(io::stderr()))
        .context("no virtual environment for the DynamoDB server can be made")?;

    // pip takes exactly what the file names, from the index that it is set up for, and refuses what has
    // another checksum; `--only-binary` keeps it from running anybody's build.
    let mut pip = workspace
        .children
        .command(&programs.join("python").to_string_lossy());
    pip.args(["-m", "pip", "install", "--no-deps", "--require-hashes"])
        .args(["--only-binary", ":all:", "--no-input", "--quiet"])
        .args(["--disable-pip-version-check", "--requirement"])
        .arg(&source);
    run::run(pip.stdout(io::stderr()))
        .context("the DynamoDB server cannot be fetched (`--dynamodb URL` uses another server)")?;
    fs::write(installed, requirements)?;
    Ok(programs)
}

/// pip would refuse it too, but only once it has fetched what stands before.
fn all_pinned(requirements: &str) -> anyhow::Result<()> {
    let logical = requirements.replace("\\\n", " ");
    for line in logical.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let name = line.split("==").next().unwrap_or(line);
        ensure!(
            line.contains("==") && line.contains("--hash=sha256:"),
            "xtask/servers/python/requirements.txt gives no version and SHA-256 for {name}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMITTED: &str = include_str!("../../servers/python/requirements.txt");

    #[test]
    fn every_requirement_has_a_version_and_a_checksum() {
        all_pinned(COMMITTED).unwrap();
    }

    #[test]
    fn the_server_is_the_one_that_was_tried() {
        let pinned = "ministack==1.5.33 \\\n    --hash=sha256:\
            36f9158cbe7eb7a3f910ccf1c052c98204511164249b783682f7a96ef56b0bba\n";
        assert!(COMMITTED.contains(pinned));
    }

    #[test]
    fn the_requirements_come_from_whatever_index_pip_is_set_up_for() {
        for word in ["://", "--index-url", "--find-links", " @ "] {
            assert!(!COMMITTED.contains(word), "{word}");
        }
    }

    #[test]
    fn a_requirement_without_a_checksum_is_refused() {
        for loose in ["loose==1.0", "loose --hash=sha256:00"] {
            let error = all_pinned(loose).unwrap_err();
            assert!(error.to_string().contains("loose"), "{error}");
        }
    }
}
