//! The flag that ends the supervisor's loop.

use std::sync::atomic::{AtomicBool, Ordering};

use ring::Arena;

/// Tells the supervisor that the recording has ended.
pub struct Done {
    is_set: AtomicBool,
    arena: Arena,
}

impl Done {
    pub(crate) fn new(arena: Arena) -> Done {
        Done { is_set: AtomicBool::new(false), arena }
    }

    /// Ends `serve` once the program has ended, or a signal requested the end.
    pub fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
        let word = &self.arena.control().requests.word;
        word.fetch_add(1, Ordering::SeqCst);
        // SAFETY: FUTEX_WAKE does not access memory, and the arena stays mapped.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }
}
