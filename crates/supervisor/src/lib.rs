//! Launches a program and places the agent into each image that it and its children execute.
//!
//! Nothing is traced in steady state. A thread that is about to execute a program announces it;
//! the supervisor attaches, waits for the one stop at the new image's first instruction, writes
//! a bootstrap over it, and detaches.
//!
//! ```text
//! agent: EXEC request -> seize -> answer -> execve -> exec stop -> place -> detach
//! ```

mod alarm;
mod alive;
mod analyst;
mod asked;
mod domain;
mod done;
mod errand;
mod guests;
mod image;
mod large_pages;
mod launch;
mod launch_error;
mod mapped;
mod mappings;
mod memory_file;
mod message;
mod modules;
mod mounts;
mod moves;
mod observer;
mod orders;
mod place;
mod placing;
mod profiles;
mod program;
mod ptrace;
mod published;
mod request;
mod rights;
mod segment;
mod serve;
mod signals;
mod sleep;
mod state;
mod taking;
mod tracee;
mod unfinished;
mod wish;

pub use done::Done;
pub use image::Image;
pub use launch::{Exactly, Program};
pub use launch_error::LaunchError;
pub use modules::{Untold, untold};
pub use observer::{ExecStop, Observer};
pub use program::{find, gains_rights};
pub use serve::Outcome;
pub use state::Supervisor;
pub use wish::{Answer, Asked, Mapped, Wish};

/// Errors of the supervisor, not of the program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The agent's image is malformed: the build is broken.
    #[error("the built-in agent is unusable: {0}")]
    Image(String),
    /// Process ids in /proc are those of another pid namespace.
    #[error(
        "/proc does not show the process id namespace that reenact runs in: programs are found and \
         recorded by it; mount one (unshare --pid --fork --mount-proc, or mount -t proc proc /proc)"
    )]
    ForeignProc,
    /// A thread could not be started.
    #[error(transparent)]
    Thread(std::io::Error),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: String,
        /// Its error.
        source: std::io::Error,
    },
}

impl Error {
    fn last(what: impl Into<String>) -> Error {
        Error::System { what: what.into(), source: std::io::Error::last_os_error() }
    }
}
