//! Calls that have begun and not returned.

use std::collections::HashSet;

/// A call that has not returned, and what is to be done then.
struct Waiting<R> {
    exit: u64,
    thread: u32,
    returning: R,
}

/// All calls that have not returned, at most one of each thread.
pub struct Pending<R> {
    /// The last one is the first to return: most calls return before those that began earlier.
    calls: Vec<Waiting<R>>,
    threads: HashSet<u32>,
}

impl<R> Default for Pending<R> {
    fn default() -> Self {
        Pending { calls: Vec::new(), threads: HashSet::new() }
    }
}

impl<R> Pending<R> {
    /// Adds a call, in the order of returns, and of threads where these are equal.
    pub fn add(&mut self, exit: u64, thread: u32, returning: R) {
        let is_later = |other: &Waiting<R>| (other.exit, other.thread) > (exit, thread);
        let at = self.calls.iter().rposition(is_later).map_or(0, |at| at + 1);
        self.calls.insert(at, Waiting { exit, thread, returning });
        self.threads.insert(thread);
    }

    /// Takes the next call that has returned by a time.
    #[inline]
    pub fn next_until(&mut self, tsc: u64) -> Option<R> {
        let next = self.calls.pop_if(|next| next.exit <= tsc)?;
        self.threads.remove(&next.thread);
        Some(next.returning)
    }

    /// Takes the call of a thread, whatever its time.
    #[inline]
    pub fn of_thread(&mut self, thread: u32) -> Option<R> {
        if self.calls.is_empty() || !self.threads.remove(&thread) {
            return None;
        }
        let at = self.calls.iter().position(|waiting| waiting.thread == thread)?;
        Some(self.calls.remove(at).returning)
    }
}
