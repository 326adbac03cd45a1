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
mod inside;
mod kernel_files;
mod mounts;
mod options;
mod privileges;
mod protection;
mod walk;
mod words;

pub use birth::{Exit, Inmate};
pub use directory::Directory;
pub use error::JailError;
pub use inside::{Jail, Proc};
pub use kernel_files::refuse_whole_system;
pub use options::{Bind, Options};
pub use privileges::{Powers, rules_of_a_reader};
pub use protection::Protection;

/// Runs `body` in a jail, and returns once it is about to run. Its result is the jail's exit code.
///
/// Must be called while this process has one thread, and that thread must outlive the jail: the
/// kernel kills the jail when the thread ends.
pub fn spawn(options: &Options, body: impl FnOnce(Jail) -> u8) -> Result<Inmate, JailError> {
    kernel_files::refuse(options)?;
    birth::spawn(options, body)
}
