//! A lock between threads of the program.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::needs::Need;
use crate::sys;

/// A spin lock for short sections that no signal can interrupt.
pub struct SpinLock(AtomicU32);

impl SpinLock {
    pub fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut spins = 0u32;
        while self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            core::hint::spin_loop();
            spins += 1;
            if spins > 100 && !sys::is_quiet() {
                sys::call(Need::Yield, [0; 6]);
            }
        }
        let result = work();
        self.0.store(0, Ordering::Release);
        result
    }

    /// Releases the lock. Only for the single thread of a process that was just forked.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
