//! What a jail is to be.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use super::directory::Directory;

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
