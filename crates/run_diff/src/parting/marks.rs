//! Hashes of the calls of each thread up to some of them, by which two runs are aligned without keeping
//! their calls.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use super::pairing::{Family, Origin};
use crate::mixing::Mixer;

/// Limit for the marks of a thread; beyond it every second one goes.
const MARKS_MAX: usize = 512;
/// Limit for the threads that are followed.
const THREADS_MAX: usize = 1 << 12;
/// Calls that a handler of a signal makes at most: one that is left by a jump never ends.
const HANDLER_CALLS_MAX: u32 = 1000;

/// Returns a hash of two numbers.
fn mixed(a: u64, b: u64) -> u64 {
    let mut hasher = Mixer::default();
    (a, b).hash(&mut hasher);
    hasher.finish()
}

/// The threads of a run.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    /// All that are followed, as they began.
    pub family: Family,
    places: HashMap<u32, usize>,
    /// Handlers that threads are in, and the calls made in them.
    handlers: HashMap<u32, (u32, u32)>,
}

impl Threads {
    /// Notes that a thread begins.
    pub fn begins(&mut self, thread: u32, parent: u32, is_thread: bool) {
        if self.family.len() < THREADS_MAX && !self.is_followed(thread) {
            self.places.insert(thread, self.family.len());
            self.family.push((thread, Origin { parent, is_thread, began: None }));
        }
    }

    /// Notes which program and command line a thread begins.
    pub fn begins_program(&mut self, thread: u32, program: u64, command: u64) {
        if let Some(place) = self.places.get(&thread) {
            self.family[*place].1.began.get_or_insert((program, command));
        }
    }

    /// Returns true if a thread is followed.
    pub fn is_followed(&self, thread: u32) -> bool {
        self.places.contains_key(&thread)
    }

    /// Notes that a thread enters a handler of a signal.
    pub fn enters_handler(&mut self, thread: u32) {
        if self.is_followed(thread) {
            self.handlers.entry(thread).or_default().0 += 1;
        }
    }

    /// Returns true if a thread makes a call in a handler, which may be the one that ends it.
    pub fn is_in_handler(&mut self, thread: u32, returns: bool) -> bool {
        let Some((depth, calls)) = self.handlers.get_mut(&thread) else { return false };
        *calls += 1;
        *depth = depth.saturating_sub(u32::from(returns));
        if *depth == 0 || *calls > HANDLER_CALLS_MAX {
            self.handlers.remove(&thread);
        }
        true
    }
}

/// The calls of a thread, as hashes.
#[derive(Clone, Debug)]
pub struct Marks {
    /// Calls that were counted.
    pub count: u64,
    /// Hash of them all.
    chain: u64,
    /// Calls from one mark to the next.
    stride: u64,
    marks: Vec<u64>,
}

impl Default for Marks {
    fn default() -> Marks {
        Marks { count: 0, chain: 0, stride: 1, marks: Vec::new() }
    }
}

/// Where two threads part: after at least `from` equal calls, and before the end of `to` calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    /// So many calls are equal.
    pub from: u64,
    /// So many are not.
    pub to: u64,
}

impl Marks {
    /// Adds a call.
    pub fn add(&mut self, signature: u64) {
        self.count += 1;
        self.chain = mixed(self.chain, signature);
        if !self.count.is_multiple_of(self.stride) {
            return;
        }
        self.marks.push(self.chain);
        if self.marks.len() >= MARKS_MAX {
            // The mark after each second stride stays.
            let mut number = 0;
            self.marks.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.stride *= 2;
        }
    }

    /// Returns the hash after so many calls, a multiple of the stride.
    fn after(&self, calls: u64) -> Option<u64> {
        let place = (calls / self.stride).checked_sub(1)?;
        self.marks.get(usize::try_from(place).ok()?).copied()
    }

    /// Returns where two threads part, `None` if all their calls are equal.
    pub fn part(&self, other: &Marks) -> Option<Between> {
        if (self.count, self.chain) == (other.count, other.chain) {
            return None;
        }
        let stride = self.stride.max(other.stride);
        let mut from = 0;
        let end = self.count.min(other.count);
        while from + stride <= end {
            let next = from + stride;
            if self.after(next) != other.after(next) {
                return Some(Between { from, to: next });
            }
            from = next;
        }
        Some(Between { from, to: end + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(calls: u64, other_from: u64) -> Marks {
        let mut marks = Marks::default();
        (0..calls)
            .for_each(|call| marks.add(if call < other_from { call } else { call + (1 << 40) }));
        marks
    }

    #[test]
    fn threads_part_where_a_call_differs() {
        for calls in [1, 5, 511, 512, 513, 5_000, 100_000] {
            let same = marks(calls, u64::MAX);
            assert_eq!(same.part(&same.clone()), None);
            for differs in [0, calls / 2, calls - 1] {
                let found = same.part(&marks(calls, differs)).unwrap();
                assert!(found.from <= differs && differs < found.to, "{calls} {differs} {found:?}");
                assert!(found.to - found.from <= calls.div_ceil(128), "{calls} {found:?}");
            }
            // One goes on.
            let longer = same.part(&marks(calls * 3, u64::MAX)).unwrap();
            assert!(longer.from <= calls && longer.to == calls + 1, "{calls} {longer:?}");
        }
    }

    #[test]
    fn handlers_end_by_their_return_or_at_some_time() {
        let mut threads = Threads::default();
        threads.begins(1, 0, false);
        assert!(!threads.is_in_handler(1, false));
        threads.enters_handler(1);
        threads.enters_handler(1);
        let found =
            [false, true, false, true, false].map(|returns| threads.is_in_handler(1, returns));
        assert_eq!(found, [true, true, true, true, false]);
        threads.enters_handler(1);
        let calls = (0..5000).filter(|_| threads.is_in_handler(1, false)).count();
        assert_eq!(calls as u32, HANDLER_CALLS_MAX + 1);
    }
}
