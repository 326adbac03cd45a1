//! Orders the events of a growing trace. Its blocks arrive thread by thread, so events are held
//! back until concurrent ones of other threads have arrived.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::Sequenced;

/// Maximum delay between concurrent events: a recorder writes out everything once a second.
pub const APART_NS: u64 = 2_000_000_000;
/// Limit for the events held back.
const HELD_MAX: usize = 1 << 20;

/// Queue of events that are held back until their turn comes.
#[derive(Default)]
pub struct Queue {
    waiting: BinaryHeap<Waiting>,
    newest_ns: u64,
    count: u64,
}

struct Waiting {
    begin_ns: u64,
    place: u64,
    next: Sequenced,
}

impl Queue {
    /// Adds an event.
    pub fn add(&mut self, begin_ns: u64, next: Sequenced) {
        self.newest_ns = self.newest_ns.max(begin_ns);
        self.count += 1;
        self.waiting.push(Waiting { begin_ns, place: self.count, next });
    }

    /// Returns the next event if it was held back long enough, or in any case with `all`.
    pub fn next(&mut self, all: bool) -> Option<Sequenced> {
        let first = self.waiting.peek()?;
        let due = self.newest_ns - first.begin_ns >= APART_NS || self.waiting.len() > HELD_MAX;
        if all || due { self.waiting.pop().map(|waiting| waiting.next) } else { None }
    }
}

impl Ord for Waiting {
    /// The greatest element of the heap is the earliest event.
    fn cmp(&self, other: &Waiting) -> Ordering {
        (other.begin_ns, other.place).cmp(&(self.begin_ns, self.place))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind};

    fn add(held: &mut Queue, ns: u64) {
        let event = Event::new(1, ns, EventKind::Stall { ns: 0 });
        held.add(ns, Sequenced { seq: None, event });
    }

    fn drain(held: &mut Queue, all: bool) -> Vec<u64> {
        std::iter::from_fn(|| held.next(all)).map(|next| next.event.tsc).collect()
    }

    #[test]
    fn what_comes_late_finds_its_place() {
        let mut held = Queue::default();
        for ns in [5, 10, APART_NS, 7] {
            add(&mut held, ns);
        }
        assert_eq!(drain(&mut held, false), [] as [u64; 0]);
        add(&mut held, APART_NS + 7);
        assert_eq!(drain(&mut held, false), [5, 7]);
        assert_eq!(drain(&mut held, true), [10, APART_NS, APART_NS + 7]);
        // A later straggler is returned at once.
        add(&mut held, 6);
        assert_eq!(drain(&mut held, false), [6]);
    }
}
