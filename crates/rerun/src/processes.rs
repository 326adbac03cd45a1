//! The processes of a re-execution.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Processes that are there, by id.
#[derive(Default)]
pub struct Processes(HashMap<i32, OwnedFd>);

impl Processes {
    /// Notes a process that is alive.
    pub fn add(&mut self, pid: i32) {
        if self.0.contains_key(&pid) {
            return;
        }
        // SAFETY: takes numbers; a descriptor that is returned is ours.
        unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            if let Ok(fd) = i32::try_from(fd)
                && fd >= 0
            {
                self.0.insert(pid, OwnedFd::from_raw_fd(fd));
            }
        }
    }

    /// Returns true if a process has ended.
    pub fn has_ended(&self, pid: i32) -> bool {
        let Some(fd) = self.0.get(&pid) else { return true };
        let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one struct, which is ours.
        unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
    }

    /// Ends a process.
    pub fn end(&self, pid: i32) {
        if let Some(fd) = self.0.get(&pid) {
            // SAFETY: takes numbers; the descriptor is of the process that was noted.
            unsafe {
                libc::syscall(
                    libc::SYS_pidfd_send_signal,
                    fd.as_raw_fd(),
                    libc::SIGKILL,
                    std::ptr::null::<libc::siginfo_t>(),
                    0,
                );
            }
        }
    }

    /// Ends all of them.
    pub fn end_all(&self) {
        self.0.keys().for_each(|pid| self.end(*pid));
    }

    /// Returns true if none is there.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets those that have ended.
    pub fn forget_ended(&mut self) {
        let ended: Vec<i32> = self.0.keys().copied().filter(|pid| self.has_ended(*pid)).collect();
        ended.iter().for_each(|pid| drop(self.0.remove(pid)));
    }
}
