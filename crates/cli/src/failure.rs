//! What can go wrong, for users: one message, one exit code.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd};
use std::process::ExitCode;

/// A failure that ends a command.
#[derive(Debug)]
pub enum Failure {
    /// A reading command could not do its work.
    Failed(String),
    /// The command line makes no sense.
    Usage(String),
    /// `info --verify`: the trace is damaged, or not complete.
    Incomplete(String),
    /// `compare`, `replay`: there are differences.
    Different(String),
    /// `replay`: a wait would never end.
    Stuck(String),
    /// `record` itself failed.
    Recorder(String),
    /// `record`: PROGRAM was found but cannot be executed.
    NotExecutable(String),
    /// `record`: PROGRAM was not found.
    NotFound(String),
    /// Nobody reads our output any more, which is no failure.
    BrokenPipe,
}

/// Exit codes and their meaning: the only list of them.
pub const EXIT_CODES: &[(u8, &str)] = &[
    (0, "success"),
    (1, "failure; for doctor: something that recording needs is missing"),
    (2, "the command line makes no sense (record: 125)"),
    (3, "info --verify: the trace is damaged or not complete"),
    (4, "compare, replay: there are differences"),
    (5, "replay: a wait would never end"),
    (125, "record: reenact itself failed"),
    (126, "record: PROGRAM cannot be executed"),
    (127, "record: PROGRAM was not found"),
];

impl Failure {
    /// Its exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::BrokenPipe => 0,
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Incomplete(_) => 3,
            Failure::Different(_) => 4,
            Failure::Stuck(_) => 5,
            Failure::Recorder(_) => 125,
            Failure::NotExecutable(_) => 126,
            Failure::NotFound(_) => 127,
        }
    }

    /// Tells the user, and gives the exit code: the one place that prints errors.
    pub fn report(self) -> ExitCode {
        match &self {
            Failure::BrokenPipe => {}
            Failure::Failed(text)
            | Failure::Usage(text)
            | Failure::Incomplete(text)
            | Failure::Different(text)
            | Failure::Stuck(text)
            | Failure::Recorder(text)
            | Failure::NotExecutable(text)
            | Failure::NotFound(text) => tell(&format!("reenact: {text}")),
        }
        ExitCode::from(self.code())
    }
}

/// What a command ends with that has printed something and has a verdict besides. A verdict that is
/// a failure is worth more than that it could not be printed.
pub fn verdict(
    printed: Result<(), Failure>,
    verdict: Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let code = verdict?;
    printed.map(|()| code)
}

/// Tells the user about something that does not end the command.
pub fn warn(text: &str) {
    tell(&format!("reenact: warning: {text}"));
}

/// How long standard error may take nothing: then nobody reads it, and what is to be told is lost.
const STDERR_WAIT_MS: i32 = 2000;

/// Prints lines to standard error. Where that is broken or full there is nobody to be told, and that
/// changes nothing else.
pub fn tell(text: &str) {
    let mut stderr = io::stderr().lock();
    let mut state =
        libc::pollfd { fd: stderr.as_fd().as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one struct, which is there.
    if unsafe { libc::poll(&raw mut state, 1, STDERR_WAIT_MS) } == 1 {
        let _ = stderr.write_all(format!("{text}\n").as_bytes());
    }
}

/// Errors of writing output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::BrokenPipe;
        }
        Failure::Failed(format!("cannot write the output: {error}"))
    }
}

/// The table for `--help`.
pub fn exit_code_help() -> String {
    let mut text = String::from("Exit codes:\n");
    for (code, meaning) in EXIT_CODES {
        let _ = writeln!(text, "  {code:>3}  {meaning}");
    }
    text.push_str("Otherwise record ends as PROGRAM did: with its exit code, or by its signal. That a trace\n");
    text.push_str(
        "is not complete, or was taken away, it says; info --verify tells by its exit code.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_in_the_table() {
        let text = String::new;
        for failure in [
            Failure::Failed(text()),
            Failure::Usage(text()),
            Failure::Incomplete(text()),
            Failure::Different(text()),
            Failure::Stuck(text()),
            Failure::Recorder(text()),
            Failure::NotExecutable(text()),
            Failure::NotFound(text()),
            Failure::BrokenPipe,
        ] {
            assert!(EXIT_CODES.iter().any(|(code, _)| *code == failure.code()), "{failure:?}");
        }
    }
}
