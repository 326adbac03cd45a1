//! The jail: where everything runs that a trace, which may be hostile, has a say in.
//!
//! [`spawn`] forks a process that sees one directory as its whole file system, and no process,
//! network or IPC object but its own. What protects, outermost first: a user namespace, so that no
//! capability means anything to the rest of the system; mount, pid, network and IPC namespaces; the
//! old root detached, not only changed; mounts without devices, set-user-id and execution; all
//! capabilities dropped that file work does not need; `no_new_privs`; Landlock, which refuses
//! even files that come in as descriptors; memory that never becomes executable; and a seccomp filter
//! with the calls that rows are replayed with.
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
//! The command stays outside: it has opened the trace and the pipes that the body uses. When it
//! dies, keeper and inmate die.

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

/// A directory of the host that appears inside.
#[derive(Debug)]
pub struct Bind {
    /// The directory outside.
    pub directory: Directory,
    /// Where it appears; an absolute path in the jail, made if it is not there.
    pub inside: PathBuf,
}

/// What a jail is made of.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The directory that becomes `/`.
    pub root: &'a Directory,
    /// What else appears in it.
    pub binds: &'a [Bind],
    /// The user and group that an ordinary user is to be inside; as root, everybody is himself.
    pub identity: Option<(u32, u32)>,
    /// A directory outside that the body has opened and may read, and nobody who has no descriptor
    /// of it.
    pub readable: Option<BorrowedFd<'a>>,
    /// Only calls that a replay needs can be made. (Without it, the walls behind can be tried.)
    pub filter: bool,
}

/// What protects this jail, for the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Capabilities are those of a namespace only.
    pub user_namespace: bool,
    /// The version of Landlock that is in force.
    pub landlock: Option<u32>,
    /// A seccomp filter is.
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
    /// What protects it.
    pub protection: Protection,
    /// The processes inside as /proc shows them, on a file system that is mounted nowhere: no path
    /// leads to it. For the host's own use; not there where the machine hides /proc.
    pub proc: Option<Proc>,
}

/// The processes inside, and who opens their descriptors again by way of them.
#[derive(Debug)]
pub struct Proc {
    /// As /proc shows them.
    pub processes: OwnedFd,
    pub(crate) desk: Option<Desk>,
}

/// Runs `body` in a jail, and returns once it is about to run. Its result is its exit code.
///
/// Must be called while this process has one thread, and the thread that calls must outlive the
/// jail: the kernel ends the jail with it.
pub fn spawn(options: &Options, body: impl FnOnce(Jail) -> u8) -> Result<Inmate, JailError> {
    kernel_files::refuse(options)?;
    birth::spawn(options, body)
}
