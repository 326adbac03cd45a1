//! How much memory a world may take for what lives in it: a trace may say that anything does.

use std::cell::Cell;
use std::rc::Rc;

/// Bytes that are held at one time.
#[derive(Debug, Clone, Default)]
pub struct Budget(Rc<Cell<usize>>);

/// Most bytes that a world holds.
const BYTES_MAX: usize = 512 << 20;

impl Budget {
    /// Whether more may be held. What is held already may be copied all the same.
    pub fn has_room(&self) -> bool {
        self.0.get() < BYTES_MAX
    }

    /// Counts bytes, as long as the result lives.
    pub fn hold(&self, bytes: usize) -> Held {
        self.0.set(self.0.get() + bytes);
        Held { budget: self.clone(), bytes }
    }
}

/// Bytes that are counted.
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
