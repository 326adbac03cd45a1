//! When the recorder reads: at once while there is much, on a timer while there is little.

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use ring::Line;
use rustix::fs::Timespec;
use rustix::thread::futex;

/// Bytes in a round from which the next one follows at once.
const BUSY_BYTES: u64 = 1 << 20;
/// Bytes in a round above which the timer is set shorter, and below which longer.
const MUCH_BYTES: u64 = 512 << 10;
const LITTLE_BYTES: u64 = 64 << 10;
/// Bounds of the timer.
const WAIT_MIN: Duration = Duration::from_micros(100);
const WAIT_MAX: Duration = Duration::from_millis(20);

/// Adapts the time between rounds to what they bring. Agents ring the bell when it matters, so the
/// timer only has to keep rings small enough for the caches and followers up to date.
pub(crate) struct Pace {
    wait: Duration,
}

impl Pace {
    pub fn new() -> Pace {
        Pace { wait: WAIT_MAX / 4 }
    }

    /// Sleeps after a round that brought so many bytes, until the bell rings or the time has come.
    /// `urgent` looks for what would have rung the bell while nobody slept on it.
    pub fn rest(&mut self, bytes: u64, bell: &Line, urgent: impl Fn() -> bool) {
        if bytes >= BUSY_BYTES {
            self.wait = WAIT_MIN;
            return;
        }
        if bytes > MUCH_BYTES {
            self.wait = (self.wait / 2).max(WAIT_MIN);
        } else if bytes < LITTLE_BYTES {
            self.wait = (self.wait * 2).min(WAIT_MAX);
        }
        bell.sleeping.store(1, Ordering::SeqCst);
        let rung = bell.word.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !urgent() {
            let timeout = Timespec { tv_sec: 0, tv_nsec: self.wait.subsec_nanos().into() };
            // Woken, timed out, interrupted or rung meanwhile: the next round follows.
            let _ = futex::wait(&bell.word, futex::Flags::empty(), rung, Some(&timeout));
        }
        bell.sleeping.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn waiting_adapts_and_the_bell_ends_it() {
        let arena = crate::test_arena(1);
        let bell = &arena.control().doorbell;
        let mut pace = Pace::new();
        pace.rest(BUSY_BYTES, bell, || unreachable!("no rest while busy"));
        assert_eq!(pace.wait, WAIT_MIN);
        for _ in 0..12 {
            pace.rest(0, bell, || true);
        }
        assert_eq!(pace.wait, WAIT_MAX);
        pace.rest(MUCH_BYTES + 1, bell, || true);
        assert_eq!(pace.wait, WAIT_MAX / 2);

        let start = Instant::now();
        pace.rest(0, bell, || false);
        assert!(start.elapsed() >= WAIT_MAX / 2, "nobody rang");
        let start = Instant::now();
        // Rung between going to bed and falling asleep.
        pace.rest(0, bell, || {
            bell.word.fetch_add(1, Ordering::SeqCst);
            false
        });
        assert!(start.elapsed() < WAIT_MAX);
        assert_eq!(bell.sleeping.load(Ordering::SeqCst), 0);
    }
}
