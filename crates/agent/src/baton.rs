//! The baton of an address space: the thread that has it runs.

use core::sync::atomic::{AtomicU32, Ordering};

/// In the word: others sleep until it is free.
const WANTED: u32 = 1 << 31;
/// No thread.
pub const NOBODY: u32 = 0;

/// The word is changed in one step, so a signal finds it as it is.
#[derive(Default)]
pub struct Baton {
    /// The id of the thread that has it, and [`WANTED`].
    pub word: AtomicU32,
    /// How often it was taken.
    pub turn: AtomicU32,
    /// A thread that has waited for long.
    pub urgent: AtomicU32,
    /// The thread that had it last, and is about to end.
    pub leaving: AtomicU32,
    /// How often a thread was told to give it up.
    pub slices: AtomicU32,
}

impl Baton {
    /// In a new process, which has one thread.
    pub fn reset(&self) {
        for word in [&self.word, &self.turn, &self.urgent, &self.leaving, &self.slices] {
            word.store(NOBODY, Ordering::Relaxed);
        }
    }

    /// The thread that has it.
    pub fn holder(&self) -> u32 {
        self.word.load(Ordering::Relaxed) & !WANTED
    }

    /// Takes it if it is free and nobody sleeps.
    pub fn take_free(&self, tid: u32) -> bool {
        self.change(NOBODY, tid)
    }

    /// Takes it, or says that it is wanted. Returns the word then.
    pub fn take_or_want(&self, tid: u32) -> Option<u32> {
        loop {
            let now = self.word.load(Ordering::Relaxed);
            if now & !WANTED == NOBODY {
                // Others may sleep still.
                if self.change(now, tid | WANTED) {
                    return None;
                }
            } else if now & WANTED != 0 || self.change(now, now | WANTED) {
                return Some(now | WANTED);
            }
        }
    }

    /// Gives it up. Returns true if somebody is to be woken.
    pub fn free(&self) -> bool {
        self.word.swap(NOBODY, Ordering::Release) & WANTED != 0
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.word.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_has_it_and_the_next_is_woken() {
        let baton = Baton::default();
        assert!(baton.take_free(7) && !baton.take_free(8));
        assert_eq!(baton.holder(), 7);
        let wanted = baton.take_or_want(8);
        assert_eq!(wanted, Some(baton.word.load(Ordering::Relaxed)));
        assert_eq!(baton.holder(), 7);
        assert!(baton.free());
        assert_eq!(baton.take_or_want(8), None);
        assert_eq!(baton.holder(), 8);
        // A third one may have slept beside it.
        assert!(baton.free());
        assert!(baton.take_free(7) && !baton.free());
    }
}
