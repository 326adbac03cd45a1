//! Threads that are traced.

use kin::status;

use crate::request::Request;
use crate::rights::Rights;

/// A thread that is traced for its exec.
#[derive(Clone, Copy)]
pub(crate) struct Tracee {
    /// Its slot, counted across arenas.
    pub(crate) slot: usize,
    /// Number of its process in the recording.
    pub(crate) process: u32,
    /// Its rights before the exec.
    pub(crate) rights: Rights,
    /// Set if it is to be detached at its next stop: the request that is then answered.
    pub(crate) leaving: Option<Request>,
    /// Set while its bootstrap is followed to its `socketpair`: the number of stops so far.
    pub(crate) bootstrap: Option<u32>,
}

impl Tracee {
    pub(crate) fn new(slot: usize, process: u32, rights: Rights) -> Tracee {
        Tracee { slot, process, rights, leaving: None, bootstrap: None }
    }
}

/// Returns true if a thread is dead.
pub(crate) fn is_dead(tid: i32) -> bool {
    status::read(tid).is_none_or(|status| status.dead)
}
