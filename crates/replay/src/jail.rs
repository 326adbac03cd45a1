//! The jail, which confines everything that a possibly hostile trace can influence.
//!
//! [`spawn`] forks a process whose whole file system is one directory, and which sees no process,
//! network or IPC object but its own. Its protection, outermost first: a user namespace, so that
//! capabilities mean nothing to the rest of the system; mount, pid, network and IPC namespaces; the
//! old root detached, not only changed; mounts without devices, set-user-id and execution; only the
//! capabilities that file work needs; `no_new_privs`; Landlock, which refuses even files received
//! as descriptors; memory that never becomes executable; and a seccomp filter with the calls that
//! rows are replayed with.
//!
//! ```text
//! the command            keeper                            inmate (pid 1 of its pid namespace)
//!   fork ------------->  unshares namespaces
//!   maps ids (as root) <-
//!                        fork -------------------------->  mounts, pivot_root, drops, Landlock
//!   ready <----------------------------------------------  body runs, with threads and children
//!   wait  <------------  ends as the inmate ended <------  end: the kernel kills what is left
//! ```
//!
//! The command stays outside; it opens the trace and the pipes that the body uses. When it dies,
//! keeper and inmate die.

mod attributes;
mod birth;
mod clear;
mod directory;
mod error;
mod filter;
mod kernel_files;
mod mounts;
mod privileges;
mod walk;
mod words;

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use crate::reopen::Desk;

pub use birth::{Exit, Inmate};
pub use directory::Directory;
pub use error::JailError;
pub use kernel_files::refuse_whole_system;
pub use privileges::Powers;

/// A directory of the host that is mounted inside.
#[derive(Debug)]
pub struct Bind {
    /// The directory outside.
    pub directory: Directory,
    /// Its absolute path in the jail, created if missing.
    pub inside: PathBuf,
}

/// Options of a jail.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The directory that becomes `/`.
    pub root: &'a Directory,
    /// Other directories mounted in it.
    pub binds: &'a [Bind],
    /// User and group ids inside for an ordinary user; as root, ids are mapped to themselves.
    pub identity: Option<(u32, u32)>,
    /// A directory outside that the body may read through its descriptor.
    pub readable: Option<BorrowedFd<'a>>,
    /// Allow only calls that a replay needs. (Without it, tests can try the other layers.)
    pub filter: bool,
}

/// Protection of this jail, to be shown to the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Capabilities are valid in a namespace only.
    pub user_namespace: bool,
    /// The enforced version of Landlock.
    pub landlock: Option<u32>,
    /// A seccomp filter is installed.
    pub filter: bool,
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = if self.user_namespace { "user, " } else { "" };
        write!(f, "{user}mount, pid, network and IPC namespaces, pivot_root, ")?;
        match self.landlock {
            Some(version) => write!(f, "Landlock {version}")?,
            None => write!(f, "no Landlock (this kernel has none)")?,
        }
        if self.filter { write!(f, ", seccomp") } else { Ok(()) }
    }
}

/// The jail, seen from inside.
#[derive(Debug)]
pub struct Jail {
    /// Its protection.
    pub protection: Protection,
    /// The processes inside as /proc shows them, on a file system that is mounted nowhere and that
    /// no path leads to. For the host's own use; `None` where the machine hides /proc.
    pub proc: Option<Proc>,
}

/// The processes inside, and the service that reopens their descriptors.
#[derive(Debug)]
pub struct Proc {
    /// Their /proc.
    pub processes: OwnedFd,
    pub(crate) desk: Option<Desk>,
}

/// Runs `body` in a jail, and returns once it is about to run. Its result is the jail's exit code.
///
/// Must be called while this process has one thread, and that thread must outlive the jail: the
/// kernel kills the jail when the thread ends.
pub fn spawn(options: &Options, body: impl FnOnce(Jail) -> u8) -> Result<Inmate, JailError> {
    kernel_files::refuse(options)?;
    birth::spawn(options, body)
}
