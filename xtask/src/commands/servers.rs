//! `cargo xtask servers`: the servers of the integration tests, for a person to try things on.

use std::time::Duration;

use super::integration::Servers;
use crate::{clock::pause, workspace::Workspace};

const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let mut started = Servers::default().start(workspace)?;
    for (variable, url) in started.endpoints() {
        println!("{variable}={url}");
    }
    eprintln!("Ctrl-C stops them.");
    loop {
        started.check_alive()?;
        pause(BETWEEN_LOOKS);
    }
}
