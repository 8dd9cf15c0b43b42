//! Running other programs: what is run is shown, a failure names it, a missing one says what to install.

use std::{
    fmt, io,
    path::Path,
    process::{Command, ExitStatus, Output},
};

use anyhow::{Context as _, bail};

/// A command that ran and failed.
#[derive(Debug)]
pub(crate) struct Failed {
    command: String,
    status: ExitStatus,
}

impl Failed {
    /// The exit code to end with: the command's own, where it had one.
    pub(crate) fn code(&self) -> u8 {
        self.status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(1)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` failed: {}", self.command, self.status)
    }
}

impl std::error::Error for Failed {}

/// Runs the command with its output passed through.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    eprintln!("$ {}", shown(command));
    let status = command.status().map_err(|error| not_run(command, error))?;
    success(command, status)
}

/// Runs the command and returns what it printed on standard output.
pub(crate) fn read(command: &mut Command) -> anyhow::Result<String> {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().map_err(|error| not_run(command, error))?;
    success(command, status).with_context(|| String::from_utf8_lossy(&stderr).trim().to_owned())?;
    String::from_utf8(stdout).with_context(|| format!("`{}` printed no UTF-8", shown(command)))
}

/// Fails with what to install where the program is not on the PATH.
pub(crate) fn require(program: &str, purpose: &str) -> anyhow::Result<()> {
    match Command::new(program).arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => bail!(
            "`{program} --version` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("{}", missing(program, purpose))
        }
        Err(error) => Err(error).with_context(|| format!("`{program}` cannot be run")),
    }
}

fn missing(program: &str, purpose: &str) -> String {
    let (package, elsewhere) = match program {
        "node" => ("nodejs", "Node.js 18 or later"),
        "npm" => ("npm", "npm, which most packages of Node.js bring along"),
        "python3" => ("python3 python3-venv", "Python 3 with its `venv` module"),
        other => (other, other),
    };
    format!(
        "`{program}` is not on the PATH, and {purpose}. \
         Debian, Ubuntu: `apt-get install {package}`; elsewhere install {elsewhere}"
    )
}

fn success(command: &Command, status: ExitStatus) -> anyhow::Result<()> {
    if status.success() {
        return Ok(());
    }
    Err(Failed {
        command: shown(command),
        status,
    }
    .into())
}

fn not_run(command: &Command, error: io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("`{}` cannot be run", shown(command)))
}

/// The command as a person would type it, the program without its folder.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    let mut line = program.to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_without_the_folder_of_its_program() {
        let mut command = Command::new("/opt/rust/bin/cargo");
        command.args(["test", "--workspace"]);
        assert_eq!(shown(&command), "cargo test --workspace");
    }

    #[test]
    fn a_failure_ends_with_the_code_of_the_command() {
        let error = run(Command::new("sh").args(["-c", "exit 101"])).unwrap_err();
        assert_eq!(error.downcast_ref::<Failed>().map(Failed::code), Some(101));
    }

    #[test]
    fn a_failure_keeps_its_code_under_a_context() {
        let error = read(Command::new("sh").args(["-c", "echo because >&2; exit 7"])).unwrap_err();
        assert_eq!(error.downcast_ref::<Failed>().map(Failed::code), Some(7));
        assert!(format!("{error:#}").contains("because"), "{error:#}");
    }

    #[test]
    fn a_missing_program_names_the_package_to_install() {
        assert!(missing("node", "it runs the server").contains("apt-get install nodejs`"));
        assert!(missing("npm", "it fetches the server").contains("apt-get install npm`"));
        assert!(
            missing("python3", "it fetches the server")
                .contains("apt-get install python3 python3-venv`")
        );
    }

    #[test]
    fn a_program_that_does_not_exist_says_why_it_is_needed() {
        let error = require("no-such-program-anywhere", "the test needs it").unwrap_err();
        assert!(error.to_string().contains("the test needs it"), "{error}");
    }
}
