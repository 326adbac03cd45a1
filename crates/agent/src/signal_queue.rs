//! Signals that wait until a call is recorded or a handler is left.

use linux_raw_sys::general as raw;

use crate::arch::frames::Pattern;
use crate::signal::Info;

/// Maximum number of queued signals. The kernel blocks a signal while its handler runs, so there
/// are rarely two.
const WAITING_MAX: u32 = 16;

/// Queued signals, oldest first. A handler that interrupts another one only adds.
pub struct SignalQueue {
    list: [Entry; WAITING_MAX as usize],
    taken: u32,
    added: u32,
    /// Properties of the frames that the kernel builds for this thread.
    pub pattern: Pattern,
}

#[derive(Clone, Copy)]
pub struct Entry {
    pub signal: u32,
    pub info: Info,
}

impl SignalQueue {
    pub fn take(&mut self) -> Option<Entry> {
        if self.taken == self.added {
            return None;
        }
        let entry = self.list[(self.taken % WAITING_MAX) as usize];
        self.taken += 1;
        Some(entry)
    }

    pub fn clear(&mut self) {
        self.taken = self.added;
    }

    /// Appends a signal. Like the kernel, drops it if it waits already and is not one of those that
    /// queue. Returns false then, and if there is no room.
    pub fn add(&mut self, signal: u32, info: &Info) -> bool {
        let waits_already = (self.taken..self.added)
            .any(|at| self.list[(at % WAITING_MAX) as usize].signal == signal);
        let is_queued = signal >= raw::SIGRTMIN;
        if (waits_already && !is_queued) || self.added - self.taken == WAITING_MAX {
            return false;
        }
        self.list[(self.added % WAITING_MAX) as usize] = Entry { signal, info: *info };
        self.added += 1;
        true
    }
}
