//! A futex word on which one side sleeps until the other rings.

use crate::atomics::{AtomicU32, Ordering, fence};

/// A futex word on a cache line of its own.
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub struct Line {
    /// The futex.
    pub word: AtomicU32,
    /// Non-zero while a thread sleeps on it.
    pub sleeping: AtomicU32,
}

impl Line {
    /// Announces that there is something to do. Returns whether the futex must be woken.
    #[must_use]
    pub fn ring(&self) -> bool {
        self.word.fetch_add(1, Ordering::AcqRel);
        // Either we see that it sleeps, or it sees the new value.
        fence(Ordering::SeqCst);
        self.sleeping.load(Ordering::Relaxed) != 0
    }

    /// Before a sleep: returns the value for which to sleep. What is looked at after this, and was
    /// not there, rings.
    pub fn before_sleep(&self) -> u32 {
        self.sleeping.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.word.load(Ordering::Acquire)
    }

    /// After a sleep.
    pub fn after_sleep(&self) {
        self.sleeping.store(0, Ordering::Relaxed);
    }
}
