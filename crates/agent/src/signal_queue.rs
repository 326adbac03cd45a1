//! Signals that wait until a call is recorded or a handler is left.

use core::cell::Cell;

use linux_raw_sys::general as raw;

use crate::arch::frames::Pattern;
use crate::signal::Info;

/// Maximum number of queued signals. The kernel blocks a signal while its handler runs, so there
/// are rarely two.
const WAITING_MAX: u32 = 16;

/// Queued signals, oldest first. A handler that interrupts another one only adds.
pub struct SignalQueue {
    list: [Cell<Entry>; WAITING_MAX as usize],
    taken: Cell<u32>,
    added: Cell<u32>,
    /// Properties of the frames that the kernel builds for this thread.
    pub pattern: Cell<Pattern>,
}

#[derive(Clone, Copy)]
pub struct Entry {
    pub signal: u32,
    pub info: Info,
}

impl SignalQueue {
    pub fn take(&self) -> Option<Entry> {
        let taken = self.taken.get();
        if taken == self.added.get() {
            return None;
        }
        let entry = self.at(taken).get();
        self.taken.set(taken + 1);
        Some(entry)
    }

    pub fn clear(&self) {
        self.taken.set(self.added.get());
    }

    /// Appends a signal. Like the kernel, drops it if it waits already and is not one of those that
    /// queue. Returns false then, and if there is no room.
    pub fn add(&self, signal: u32, info: &Info) -> bool {
        let (taken, added) = (self.taken.get(), self.added.get());
        let waits_already = (taken..added).any(|at| self.at(at).get().signal == signal);
        let is_queued = signal >= raw::SIGRTMIN;
        if (waits_already && !is_queued) || added - taken == WAITING_MAX {
            return false;
        }
        self.at(added).set(Entry { signal, info: *info });
        self.added.set(added + 1);
        true
    }

    fn at(&self, number: u32) -> &Cell<Entry> {
        &self.list[(number % WAITING_MAX) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_queue_like_in_the_kernel() {
        // SAFETY: all zeros is how the queue starts.
        let queue: SignalQueue = unsafe { core::mem::zeroed() };
        let info = [0; 128];
        assert!(queue.add(raw::SIGUSR1, &info));
        assert!(!queue.add(raw::SIGUSR1, &info), "it waits already");
        assert!(queue.add(raw::SIGRTMIN, &info) && queue.add(raw::SIGRTMIN, &info));
        let next = || queue.take().map(|entry| entry.signal);
        assert_eq!(next(), Some(raw::SIGUSR1));
        assert!(queue.add(raw::SIGUSR1, &info), "it does not wait any more");
        assert_eq!(
            [next(), next(), next(), next()],
            [Some(raw::SIGRTMIN), Some(raw::SIGRTMIN), Some(raw::SIGUSR1), None]
        );
        let added = (0..100).filter(|_| queue.add(raw::SIGRTMIN, &info)).count();
        assert_eq!(added, WAITING_MAX as usize);
        queue.clear();
        assert_eq!(next(), None);
    }
}
