//! The jail, seen from inside.

use std::os::fd::OwnedFd;

use super::protection::Protection;
use crate::reopen::Desk;

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
