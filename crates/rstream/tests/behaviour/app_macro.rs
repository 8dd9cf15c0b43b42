//! `#[rstream::app]` and `RustStream::run`: real processes, real signals.
//!
//! Each test runs this test binary again, for the one ignored test that is the program.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitCode, Stdio};

use crate::support::{Ends, Memory, Refused, Topic};

/// What a program in a child process is to do; the value of [`PROGRAM`].
const PROGRAM: &str = "RSTREAM_TEST_PROGRAM";

#[rstream::subscriber(Topic::new("words"))]
async fn ignore(_: &String) {}

mod with_a_result {
    use super::*;
    use rstream::{AppInfo, RustStream};

    #[rstream::app]
    async fn service() -> Result<RustStream, Refused> {
        tokio::task::yield_now().await;
        let mut broker = Memory {
            name: "broker",
            ..Memory::default()
        };
        match std::env::var(PROGRAM).unwrap_or_default().as_str() {
            "no app" => return Err(Refused("the service")),
            "broken start" => broker.start = Ends::Badly,
            "slow start" => broker.start = Ends::Never,
            "slow shutdown" => broker.shutdown = Ends::Never,
            "blocked thread" => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "this is about a thread that blocks"
                )]
                tokio::task::spawn_blocking(|| {
                    loop {
                        std::thread::park();
                    }
                });
            }
            _ => {}
        }
        let app = RustStream::new(AppInfo::new("service", "0.1.0"));
        Ok(app.with_broker(broker, |b| {
            b.include(ignore);
        }))
    }

    pub(super) fn run() -> ExitCode {
        main()
    }
}

mod named_main {
    use super::*;
    use rstream::{AppInfo, RustStream};

    #[rstream::app(crate = rstream)]
    fn main() -> RustStream {
        let broker = Memory {
            name: "broker",
            ..Memory::default()
        };
        RustStream::new(AppInfo::new("service", "0.1.0")).with_broker(broker, |b| {
            b.include(ignore);
        })
    }

    pub(super) fn run() -> ExitCode {
        main()
    }
}

#[test]
#[ignore = "the program that the other tests run"]
fn program() {
    if std::env::var(PROGRAM).is_err() {
        return;
    }
    // It does not outlive the test that started it.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(2);
    });
    let code = match std::env::var(PROGRAM).as_deref() {
        Ok("named main") => named_main::run(),
        _ => with_a_result::run(),
    };
    std::process::exit(i32::from(code != ExitCode::SUCCESS));
}

/// A running program. Killed, should a test fail before it has ended.
struct Program {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
}

impl Program {
    fn start(program: &str) -> Self {
        Self::start_logging(program, "rstream=info")
    }

    /// `rust_log` is the value of `RUST_LOG`.
    fn start_logging(program: &str, rust_log: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "app_macro::program"])
            .env(PROGRAM, program)
            .env("RUST_LOG", rust_log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdout: BufReader::new(child.stdout.take().unwrap()),
            stderr: child.stderr.take().unwrap(),
            child,
        }
    }

    /// Reads what it prints up to `line`.
    fn says(&mut self, line: &str) {
        let mut said = String::new();
        while !said.ends_with(&format!("{line}\n")) {
            let read = self.stdout.read_line(&mut said).unwrap();
            assert!(read > 0, "ended without {line:?}: {said}");
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end: the exit code, and what it wrote since, to the standard output and to the standard error.
    fn ends(mut self) -> (Option<i32>, String, String) {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stdout, stderr)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const GRACEFUL: &str = "broker shuts down\nbroker shut down\nbroker is gone\n";

#[cfg(unix)]
#[test]
fn sigterm_and_sigint_shut_an_app_down_gracefully() {
    for (program, signal, name) in [
        ("service", "-TERM", "SIGTERM"),
        ("service", "-INT", "SIGINT"),
        ("named main", "-TERM", "SIGTERM"),
    ] {
        let mut program = Program::start(program);
        program.says("broker started");
        program.signal(signal);

        let (code, stdout, stderr) = program.ends();
        assert_eq!((code, stdout.as_str()), (Some(0), GRACEFUL), "{stderr}");
        assert!(stderr.contains("running"), "{stderr}");
        assert!(stderr.contains(name), "{stderr}");
    }
}

#[cfg(unix)]
#[test]
fn a_second_signal_ends_a_shutdown_at_once_and_is_a_failure() {
    for (first, second) in [("-TERM", "-TERM"), ("-INT", "-TERM"), ("-TERM", "-INT")] {
        let mut program = Program::start("slow shutdown");
        program.says("broker started");
        program.signal(first);
        program.says("broker shuts down");
        program.signal(second);

        let (code, stdout, stderr) = program.ends();
        assert_eq!((code, stdout.as_str()), (Some(1), "broker is gone\n"));
        let error = "error: a second signal ended the shutdown before everything had settled\n";
        assert!(stderr.ends_with(error), "{stderr}");
    }
}

#[cfg(unix)]
#[test]
fn a_signal_during_the_start_waits_for_it_and_a_second_one_ends_it_at_once() {
    let mut program = Program::start("slow start");
    program.says("broker starts");
    // Handlers of what has started may run already, so the first one aborts nothing.
    program.signal("-TERM");
    program.signal("-INT");

    let (code, stdout, stderr) = program.ends();
    assert_eq!((code, stdout.as_str()), (Some(1), "broker is gone\n"));
    assert!(
        stderr.contains("stopping before it has started"),
        "{stderr}"
    );
}

#[cfg(unix)]
#[test]
fn a_thread_that_is_blocked_does_not_hold_up_the_exit() {
    let mut program = Program::start("blocked thread");
    program.says("broker started");
    program.signal("-TERM");

    let (code, stdout, _) = program.ends();
    assert_eq!((code, stdout.as_str()), (Some(0), GRACEFUL));
}

#[test]
fn a_function_that_makes_no_app_and_a_start_that_fails_are_failures_that_say_why() {
    for (program, why) in [
        ("no app", "error: the service refused\n"),
        ("broken start", "error: broker refused\n"),
    ] {
        let (code, _, stderr) = Program::start(program).ends();
        assert_eq!(code, Some(1));
        assert!(stderr.ends_with(why), "{stderr}");
    }
}

#[test]
fn a_rust_log_that_is_no_filter_is_said_in_one_line_and_events_from_info_up_are_written() {
    let program = Program::start_logging("no app", "rstream=loud");
    let (_, _, stderr) = program.ends();
    let warning =
        "warning: RUST_LOG is \"rstream=loud\", which is no filter: `info` is taken instead: ";
    assert!(stderr.starts_with(warning), "{stderr}");
    assert_eq!(stderr.matches("RUST_LOG").count(), 1, "{stderr}");

    for understood in ["rstream=info", "warn", ""] {
        let (_, _, stderr) = Program::start_logging("no app", understood).ends();
        assert!(!stderr.contains("RUST_LOG"), "{stderr}");
    }
}
