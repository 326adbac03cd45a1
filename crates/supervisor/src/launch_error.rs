//! Why the program did not start.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// Why the program did not start.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The program could not be executed.
    #[error("cannot run {}: {source}{}", shown(program), beside(program, source))]
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

/// Where a name is not found in PATH, but in this directory, says how to name it.
fn beside(program: &OsStr, error: &io::Error) -> String {
    let is_name = !program.as_encoded_bytes().contains(&b'/');
    match error.kind() == io::ErrorKind::NotFound && is_name && Path::new(program).is_file() {
        true => format!("; there is one in this directory: ./{}", program.display()),
        false => String::new(),
    }
}

/// Quotes an empty name for messages.
fn shown(name: &OsStr) -> String {
    if name.is_empty() { "''".to_string() } else { name.display().to_string() }
}
