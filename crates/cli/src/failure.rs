//! Failures of commands: one message and one exit code each.

use std::fmt::{self, Write as _};
use std::io;
use std::process::ExitCode;

use trace::WriteError;

use crate::message;

/// A failure that ends a command.
#[derive(Debug)]
pub enum Failure {
    /// A reading command failed.
    Failed(String),
    /// The command line is invalid.
    Usage(String),
    /// `info --verify`: the trace is damaged, or not complete.
    Incomplete(String),
    /// `compare`, `replay`, `diff --exit-code`: there are differences.
    Different(String),
    /// `replay`: a wait would never end.
    Stuck(String),
    /// `record` itself failed.
    Recorder(String),
    /// `record`: PROGRAM was found but cannot be executed.
    NotExecutable(String),
    /// `record`: PROGRAM was not found.
    NotFound(String),
    /// The reader of our output is gone, which is no failure.
    BrokenPipe,
}

/// Exit codes and their meaning, the only list of them.
pub const EXIT_CODES: &[(u8, &str)] = &[
    (0, "success"),
    (1, "failure; for doctor: something that recording needs is missing"),
    (2, "usage error (record: 125)"),
    (3, "info --verify: the trace is damaged or not complete"),
    (4, "compare, replay, diff --exit-code: there are differences"),
    (5, "replay: a wait would never end"),
    (125, "record: reenact itself failed"),
    (126, "record: PROGRAM cannot be executed"),
    (127, "record: PROGRAM was not found"),
];

impl Failure {
    /// Returns the exit code.
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

    /// Prints the message and returns the exit code.
    pub fn report(self) -> ExitCode {
        if !matches!(self, Failure::BrokenPipe) {
            message::note(&self.to_string());
        }
        ExitCode::from(self.code())
    }
}

/// The message.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::BrokenPipe => "the reader of the output is gone",
            Failure::Failed(text)
            | Failure::Usage(text)
            | Failure::Incomplete(text)
            | Failure::Different(text)
            | Failure::Stuck(text)
            | Failure::Recorder(text)
            | Failure::NotExecutable(text)
            | Failure::NotFound(text) => text,
        })
    }
}

/// Combines the result of printing with a verdict. A verdict that is a failure takes precedence
/// over a failure to print it.
pub fn verdict(
    printed: Result<(), Failure>,
    verdict: Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let code = verdict?;
    printed.map(|()| code)
}

/// Converts errors in writing output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::BrokenPipe;
        }
        Failure::Failed(format!("cannot write the output: {error}"))
    }
}

/// Converts errors in writing a trace.
impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Failure {
        match &error {
            WriteError::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
                Failure::BrokenPipe
            }
            _ => Failure::Failed(error.to_string()),
        }
    }
}

/// Returns the table of exit codes for `--help`.
pub fn exit_code_help() -> String {
    let mut text = String::from("Exit codes:\n");
    for (code, meaning) in EXIT_CODES {
        let _ = writeln!(text, "  {code:>3}  {meaning}");
    }
    text.push_str("Otherwise record ends as PROGRAM did: with its exit code, or by its signal. That a trace\n");
    text.push_str(
        "is not complete, or was taken away, is printed; info --verify has an exit code for it.\n",
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
