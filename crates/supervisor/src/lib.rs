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
mod domain;
mod errand;
mod guests;
mod image;
mod launch;
mod mappings;
mod memory_file;
mod message;
mod modules;
mod mounts;
mod moves;
mod place;
mod placing;
mod profiles;
mod program;
mod ptrace;
mod published;
mod rights;
mod segment;
mod serve;
mod signals;
mod sleep;
mod taking;

pub use image::Image;
pub use launch::{LaunchError, Program};
pub use program::{find, gains_rights};
pub use serve::{ExecStop, Observer, Outcome, Supervisor};

/// What can go wrong with us, not with the program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The agent's image is not what we expect: a build gone wrong.
    #[error("the built-in agent is unusable: {0}")]
    Image(String),
    /// Its numbers mean other processes, or nothing.
    #[error(
        "/proc does not show the process id namespace that reenact runs in: programs are found and \
         recorded by it; mount one (unshare --pid --fork --mount-proc, or mount -t proc proc /proc)"
    )]
    ForeignProc,
    /// There is no room for one.
    #[error(transparent)]
    Thread(std::io::Error),
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What we tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    fn last(what: impl Into<String>) -> Error {
        Error::System { what: what.into(), source: std::io::Error::last_os_error() }
    }
}
