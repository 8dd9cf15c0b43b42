//! A server that xtask runs: started, waited for, kept to 127.0.0.1, and always stopped.

pub(crate) mod dynamodb;
pub(crate) mod kinesis;
mod loopback;
mod npm;
mod probe;
mod python;

use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    time::Duration,
};

use anyhow::{Context as _, bail};

use crate::{
    clock::{Stopwatch, pause},
    run::shown,
};

const START_LIMIT: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
const LOG_TAIL: usize = 40;

/// How to start a server, and how to know that it has started.
struct Launch<'a> {
    name: &'static str,
    command: Command,
    /// The ports that it was told to listen on.
    ports: &'a [u16],
    endpoint: String,
    log: PathBuf,
    /// Whether it answers a request.
    answers: &'a dyn Fn() -> io::Result<()>,
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    endpoint: String,
    log: PathBuf,
    child: Child,
}

impl Server {
    /// Returns once the server answers, on 127.0.0.1 and nowhere else.
    fn start(launch: Launch<'_>) -> anyhow::Result<Self> {
        let Launch {
            name,
            mut command,
            ports,
            endpoint,
            log,
            answers,
        } = launch;
        let time = Stopwatch::start();
        let output =
            File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdout(output.try_clone()?).stderr(output);
        let child = command
            .spawn()
            .with_context(|| format!("`{}` cannot be run", shown(&command)))?;

        let mut server = Self {
            name,
            endpoint,
            log,
            child,
        };
        server.wait_until(&time, answers)?;
        loopback::only(ports).with_context(|| format!("{name} was stopped at once"))?;
        eprintln!(
            "{name}: {} after {:.1} s, log {}",
            server.endpoint,
            time.elapsed().as_secs_f64(),
            server.log.display()
        );
        Ok(server)
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Fails where the server has ended by itself.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!(self.ended(status)),
            None => Ok(()),
        }
    }

    fn wait_until(
        &mut self,
        time: &Stopwatch,
        answers: &dyn Fn() -> io::Result<()>,
    ) -> anyhow::Result<()> {
        loop {
            self.check_alive()?;
            let Err(error) = answers() else { return Ok(()) };
            if time.elapsed() > START_LIMIT {
                bail!(
                    "{} does not answer at {} after {} s ({error}).{}",
                    self.name,
                    self.endpoint,
                    START_LIMIT.as_secs(),
                    tail(&self.log)
                );
            }
            pause(BETWEEN_LOOKS);
        }
    }

    fn ended(&self, status: ExitStatus) -> String {
        format!(
            "{} ended by itself: {status}.{}",
            self.name,
            tail(&self.log)
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Each run has a log of its own, by port; one that says nothing is not worth keeping.
        if fs::metadata(&self.log).is_ok_and(|log| log.len() == 0) {
            let _ = fs::remove_file(&self.log);
        }
    }
}

/// Ports of 127.0.0.1 that nobody listens on. They stay free only for as long as nobody else asks, so a
/// server takes them at once.
fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    if text.is_empty() {
        return " It logged nothing.".to_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LOG_TAIL)..];
    format!(" The end of {}:\n{}", log.display(), last.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::children::Children;

    fn launch<'a>(
        name: &'static str,
        command: Command,
        answers: &'a dyn Fn() -> io::Result<()>,
    ) -> Launch<'a> {
        let log = std::env::temp_dir().join(format!("xtask-{}-{name}.log", std::process::id()));
        Launch {
            name,
            command,
            ports: &[],
            endpoint: String::new(),
            log,
            answers,
        }
    }

    #[test]
    fn free_ports_differ_from_each_other() {
        let [one, two, three] = free_ports().unwrap();
        assert!(
            one != two && two != three && one != three,
            "{one} {two} {three}"
        );
    }

    #[test]
    fn a_server_that_ends_before_it_answers_shows_its_last_words() {
        let children = Children::new().unwrap();
        let mut command = children.command("sh");
        command.args(["-c", "echo the port is taken >&2; exit 3"]);
        let launch = launch("ends-early", command, &|| {
            Err(io::ErrorKind::ConnectionRefused.into())
        });
        let log = launch.log.clone();

        let error = Server::start(launch).unwrap_err().to_string();

        assert!(error.contains("ended by itself"), "{error}");
        assert!(error.contains("the port is taken"), "{error}");
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_server_that_is_dropped_has_ended() {
        let children = Children::new().unwrap();
        let mut command = children.command("sleep");
        command.arg("600");
        let launch = launch("is-dropped", command, &|| Ok(()));
        let log = launch.log.clone();
        let server = Server::start(launch).unwrap();
        let process = PathBuf::from(format!("/proc/{}", server.child.id()));

        drop(server);

        assert!(!process.exists(), "killed and waited for");
        assert!(!log.exists(), "it said nothing");
    }
}
