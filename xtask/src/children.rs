//! Whatever xtask starts ends with it, however it ends: by returning, a panic, Ctrl-C, SIGTERM or SIGKILL.
//!
//! Every child joins one process group, whose leader waits for the end of a pipe that xtask alone holds
//! open. The kernel closes the pipe when xtask is gone, and the leader then kills its own group: no signal
//! handler is needed, and no process outside the group can be meant.

use std::{
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use anyhow::Context as _;

const LEADER: &str = "cat > /dev/null; kill -KILL 0";

#[derive(Debug)]
pub(crate) struct Children {
    leader: Child,
    group: i32,
}

impl Children {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let leader = Command::new("sh")
            .args(["-c", LEADER])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("`sh` leads the process group of what xtask starts, and cannot be run")?;
        let group = i32::try_from(leader.id())?;
        Ok(Self { leader, group })
    }

    /// A command that will join the group. It has no standard input: the group is not the terminal's.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.process_group(self.group).stdin(Stdio::null());
        command
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        drop(self.leader.stdin.take());
        // An error means that the leader is gone already, and there is nobody left to tell.
        let _ = self.leader.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const SIGKILL: i32 = 9;

    #[test]
    fn a_child_that_is_left_running_ends_with_the_group() {
        let children = Children::new().unwrap();
        let mut child = children.command("sleep").arg("600").spawn().unwrap();

        drop(children);

        assert_eq!(child.wait().unwrap().signal(), Some(SIGKILL));
    }

    #[test]
    fn a_grandchild_ends_with_the_group() {
        let children = Children::new().unwrap();
        let mut child = children
            .command("sh")
            .args(["-c", "sleep 600; true"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut held_open_by_both = child.stdout.take().unwrap();

        drop(children);

        child.wait().unwrap();
        let end = std::io::Read::read(&mut held_open_by_both, &mut [0]).unwrap();
        assert_eq!(end, 0, "the pipe ends once nobody holds it");
    }
}
