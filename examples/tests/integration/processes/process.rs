//! A process of the service, seen from the test: started, sent signals, and gone with the test.

use std::fs::File;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use tokio::time::sleep;

use super::service::{ORDERS, Orders, TEST};

pub(super) use rustix::process::Signal;

/// Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    owner: String,
    child: Child,
}

impl Process {
    pub(super) fn start(orders: &Orders) -> Self {
        let said = orders.log.with_file_name(format!("{}.log", orders.owner));
        let said = File::create(said).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([TEST, "--exact", "--ignored", "--nocapture"])
            .env(ORDERS, serde_json::to_string(orders).unwrap())
            .stdin(Stdio::piped())
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn()
            .unwrap();
        Self {
            owner: orders.owner.clone(),
            child,
        }
    }

    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Fails where the process has ended by itself.
    pub(super) fn check_alive(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert_eq!(ended, None, "{} has ended by itself", self.owner);
    }

    /// Waits until it has ended.
    pub(super) async fn ended(mut self) -> ExitStatus {
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
