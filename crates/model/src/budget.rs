//! Memory limit for the state that a world holds: a trace may claim any number of live objects.

use std::cell::Cell;
use std::rc::Rc;

/// Counter of the bytes held right now, shared by all clones.
#[derive(Debug, Clone, Default)]
pub struct Budget(Rc<Cell<usize>>);

/// Limit of the bytes that a world holds.
const BYTES_MAX: usize = 512 << 20;

impl Budget {
    /// Returns true while the limit is not reached. Copies of held items are allowed beyond it.
    pub fn has_room(&self) -> bool {
        self.0.get() < BYTES_MAX
    }

    /// Counts `bytes` as held until the returned guard is dropped.
    pub fn hold(&self, bytes: usize) -> Held {
        self.0.set(self.0.get() + bytes);
        Held { budget: self.clone(), bytes }
    }
}

/// Guard that releases its bytes from the budget when dropped.
#[derive(Debug)]
pub struct Held {
    budget: Budget,
    bytes: usize,
}

impl Clone for Held {
    fn clone(&self) -> Held {
        self.budget.hold(self.bytes)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.0.set(self.budget.0.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_held_no_more() {
        let budget = Budget::default();
        let held = budget.hold(BYTES_MAX - 1);
        assert!(budget.has_room());
        let more = (budget.hold(1), held.clone());
        assert!(!budget.has_room());
        drop(more);
        assert!(budget.has_room());
        drop(held);
        assert_eq!(budget.0.get(), 0);
    }
}
