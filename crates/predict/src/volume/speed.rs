//! How long a request takes at least.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::configuration::Limits;

/// What a request moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// No bytes of files.
    Nothing,
    /// Bytes that are read.
    Read(u64),
    /// Bytes that are written.
    Written(u64),
}

/// When each limit lets the next request through.
#[derive(Debug, Default)]
struct Next {
    /// Whether the limits hold at all.
    hold: bool,
    read: Option<Instant>,
    write: Option<Instant>,
    request: Option<Instant>,
}

/// The limits, and who was let through.
#[derive(Debug, Default)]
pub struct Speed {
    limits: Limits,
    next: Mutex<Next>,
    /// The limits hold no more: who waits need not.
    released: Condvar,
}

const NS_PER_S: u128 = 1_000_000_000;

impl Speed {
    /// By these limits, once they begin.
    pub fn new(limits: Limits) -> Speed {
        Speed { limits, ..Speed::default() }
    }

    /// From now on the limits hold, or hold no more.
    pub fn hold(&self, holds: bool) {
        self.next().hold = holds;
        self.released.notify_all();
    }

    fn next(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when a request that came at `came` is done.
    pub fn due(&self, came: Instant, moved: Moved) -> Instant {
        let mut next = self.next();
        let mut due = came;
        let mut pass = |next: &mut Option<Instant>, amount: u64, per_second: Option<u64>| {
            let Some(per_second) = per_second else { return };
            let begin = next.map_or(came, |next| next.max(came));
            let ns = u128::from(amount) * NS_PER_S / u128::from(per_second.max(1));
            let end = begin + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX / 2));
            *next = Some(end);
            due = due.max(end);
        };
        pass(&mut next.request, 1, self.limits.iops);
        match moved {
            Moved::Nothing => {}
            Moved::Read(bytes) => pass(&mut next.read, bytes, self.limits.read_bytes),
            Moved::Written(bytes) => pass(&mut next.write, bytes, self.limits.write_bytes),
        }
        due + self.limits.latency.unwrap_or_default()
    }

    /// Waits until a request is done, or the limits hold no more.
    pub fn wait(&self, came: Instant, moved: Moved) {
        if !self.next().hold {
            return;
        }
        let due = self.due(came, moved);
        let mut next = self.next();
        while next.hold {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let woken = self.released.wait_timeout(next, left);
            next = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn bytes_and_requests_queue_and_latencies_do_not() {
        let now = Instant::now();
        let limits = Limits {
            read_bytes: Some(1000),
            write_bytes: None,
            iops: Some(100),
            latency: Some(5 * MS),
        };
        let speed = Speed::new(limits);
        assert_eq!(speed.due(now, Moved::Read(100)) - now, 105 * MS);
        assert_eq!(speed.due(now, Moved::Read(100)) - now, 205 * MS);
        assert_eq!(speed.due(now, Moved::Written(1 << 30)) - now, 35 * MS);
        assert_eq!(speed.due(now, Moved::Nothing) - now, 45 * MS);
        let later = now + 1000 * MS;
        assert_eq!(speed.due(later, Moved::Read(100)) - later, 105 * MS);
        assert_eq!(Speed::default().due(now, Moved::Read(1 << 40)), now);
    }

    #[test]
    fn limits_hold_when_they_have_begun() {
        let limits = Limits { latency: Some(20 * MS), ..Limits::default() };
        let speed = Speed::new(limits);
        let came = Instant::now();
        // A year would be waited for otherwise.
        Speed::new(Limits { latency: Some(Duration::from_secs(31_536_000)), ..limits })
            .wait(came, Moved::Nothing);
        speed.hold(true);
        speed.wait(came, Moved::Nothing);
        assert!(came.elapsed() >= 20 * MS);
    }

    #[test]
    fn who_waits_is_released_with_the_limits() {
        let year = Duration::from_secs(31_536_000);
        let speed = Speed::new(Limits { latency: Some(year), ..Limits::default() });
        speed.hold(true);
        std::thread::scope(|scope| {
            scope.spawn(|| speed.wait(Instant::now(), Moved::Nothing));
            std::thread::sleep(20 * MS);
            speed.hold(false);
        });
    }
}
