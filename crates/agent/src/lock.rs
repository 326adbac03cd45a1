//! A lock between threads of the program.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::needs::Need;
use crate::sys;

/// A spin lock for short sections that no signal can interrupt, and what it guards.
pub struct SpinLock<T> {
    held: AtomicU32,
    guarded: UnsafeCell<T>,
}

// SAFETY: `with` gives what is guarded to one thread at a time.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut spins = 0u32;
        while self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            core::hint::spin_loop();
            spins += 1;
            if spins > 100 && !sys::is_quiet() {
                sys::call(Need::Yield, [0; 6]);
            }
        }
        // SAFETY: the lock is held, and `work` cannot take it again: it would wait for itself.
        let result = work(unsafe { &mut *self.guarded.get() });
        self.held.store(0, Ordering::Release);
        result
    }

    /// Releases the lock. Only for the single thread of a process that was just forked.
    pub fn reset(&self) {
        self.held.store(0, Ordering::Relaxed);
    }
}
