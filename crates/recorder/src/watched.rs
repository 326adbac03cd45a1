//! How the death of a recorded process is noticed.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A recorded process and its handle.
pub(crate) struct Watched {
    /// Its number in the recording.
    pub process: u32,
    /// Its id in our namespace.
    pub pid: u32,
    /// How its death is noticed.
    pub handle: ProcessHandle,
}

/// How a process's death is noticed.
pub(crate) enum ProcessHandle {
    /// By its pidfd.
    Pidfd(OwnedFd),
    /// The process is gone.
    Gone,
    /// It was not found yet.
    Unfound,
    /// By polling: descriptors are short, or the kernel has no pidfds.
    Poll,
}

impl Watched {
    /// Opens the pidfd of a process of the recording.
    pub fn open(process: u32, pid: u32) -> Watched {
        let handle = match i32::try_from(pid).ok().and_then(Pid::from_raw) {
            None => ProcessHandle::Gone,
            Some(id) => match pidfd_open(id, PidfdFlags::empty()) {
                Ok(fd) => ProcessHandle::Pidfd(fd),
                Err(Errno::SRCH) => ProcessHandle::Gone,
                Err(_) => ProcessHandle::Poll,
            },
        };
        Watched { process, pid, handle }
    }
}
