//! Why the program did not start.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

use crate::Error;

/// Why the program did not start.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The program could not be executed.
    #[error("cannot run {}: {source}", shown(program))]
    Program {
        /// Name of the program.
        program: OsString,
        /// Error of execve.
        source: io::Error,
    },
    /// The program exists, but its interpreter cannot be executed.
    #[error("cannot run {}: its interpreter {}: {source}", shown(program), interpreter.display())]
    Interpreter {
        /// Name of the program.
        program: OsString,
        /// The interpreter from its first line or ELF header.
        interpreter: PathBuf,
        /// Error for the interpreter.
        source: io::Error,
    },
    /// It was killed before its exec.
    #[error("{} was killed before it began, by signal {}", shown(program), libc::WTERMSIG(*status))]
    Killed {
        /// Name of the program.
        program: OsString,
        /// Its wait status.
        status: i32,
    },
    /// The recorder could not start it.
    #[error(transparent)]
    Ours(#[from] Error),
}

/// Quotes an empty name for messages.
fn shown(name: &OsStr) -> String {
    if name.is_empty() { "''".to_string() } else { name.display().to_string() }
}
