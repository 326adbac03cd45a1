//! Decides when to read: at once while there is much data, on a timer while there is little; and whether
//! others go first.

use std::time::{Duration, Instant};

use ring::Line;
use rustix::fs::Timespec;
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};

/// Bytes in a round from which the next round follows at once.
const BUSY_BYTES: u64 = 1 << 20;
/// Bytes in a round above which the timer becomes shorter, and below which longer.
const MUCH_BYTES: u64 = 512 << 10;
const LITTLE_BYTES: u64 = 64 << 10;
/// Bounds of the timer.
const WAIT_MIN: Duration = Duration::from_micros(100);
const WAIT_MAX: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Adapts the time between rounds to the amount of data. Agents ring the bell when it is urgent;
/// the timer only keeps rings small enough for the caches, and followers up to date.
pub(crate) struct Pace {
    wait: Duration,
}

impl Pace {
    pub fn new() -> Pace {
        Pace { wait: WAIT_MAX / 4 }
    }

    /// Sleeps after a round that read `bytes`, until a bell rings or the timer expires. `urgent`
    /// checks for reasons to ring that arose before `sleeping` was set.
    pub fn rest(&mut self, bytes: u64, bells: &[&Line], urgent: impl Fn() -> bool) {
        if bytes >= BUSY_BYTES {
            self.wait = WAIT_MIN;
            return;
        }
        if bytes > MUCH_BYTES {
            self.wait = (self.wait / 2).max(WAIT_MIN);
        } else if bytes < LITTLE_BYTES {
            self.wait = (self.wait * 2).min(WAIT_MAX);
        }
        let rung: Vec<u32> = bells.iter().map(|bell| bell.before_sleep()).collect();
        if !urgent() {
            // Woken, timed out, interrupted or rung meanwhile: the next round follows.
            self.sleep(bells, &rung);
        }
        bells.iter().for_each(|bell| bell.after_sleep());
    }

    fn sleep(&self, bells: &[&Line], rung: &[u32]) {
        let mut wait = self.wait;
        if bells.len() > 1 {
            let now = clock_gettime(ClockId::Monotonic);
            let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
            let waiters: Vec<futex::Wait> = bells.iter().zip(rung).map(waiter).collect();
            let (flags, until) = (futex::WaitvFlags::empty(), timespec(now + wait));
            let slept = futex::waitv(&waiters, flags, Some(&until), ClockId::Monotonic);
            if slept != Err(Errno::NOSYS) {
                return;
            }
            // Before Linux 5.16 only one bell can be waited for; the others are polled.
            wait = wait.min(LOOK_EVERY);
        }
        let flags = futex::Flags::empty();
        let _ = futex::wait(&bells[0].word, flags, rung[0], Some(&timespec(wait)));
    }
}

/// Whether those who wait for our processor go first: what is recorded, and who it talks to. They do while
/// little is unread, or programs would wait for room in the end.
#[derive(Default)]
pub(crate) struct Courtesy {
    until: Option<Instant>,
}

impl Courtesy {
    /// With more than this part of the room unread nobody goes first.
    const PART: u64 = 64;
    /// On a busy processor a round would take for ever.
    const LONGEST: Duration = Duration::from_millis(5);

    /// Decides it for a round.
    pub fn begin(&mut self, unread: u64, room: u64) {
        self.until = (unread <= room / Self::PART).then(|| Instant::now() + Self::LONGEST);
    }

    /// Lets others go first, if they do; returns whether.
    pub fn after_you(&mut self) -> bool {
        self.until = self.until.filter(|until| Instant::now() < *until);
        if self.until.is_some() {
            std::thread::yield_now();
        }
        self.until.is_some()
    }
}

fn waiter((bell, &rung): (&&Line, &u32)) -> futex::Wait {
    let mut wait = futex::Wait::new();
    wait.val = rung.into();
    wait.uaddr = futex::WaitPtr::new(bell.word.as_ptr().cast());
    wait.flags = futex::WaitFlags::SIZE_U32;
    wait
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn waiting_adapts_and_the_bell_ends_it() {
        let arena = crate::test_arena(1);
        let second = crate::test_arena(1);
        let bell = &arena.control().doorbell;
        for bells in [&[bell][..], &[&second.control().doorbell, bell][..]] {
            rest_until_rung(bells, bell);
        }
    }

    #[test]
    fn others_go_first_while_little_is_unread_and_not_for_ever() {
        let mut courtesy = Courtesy::default();
        assert!(!courtesy.after_you());
        courtesy.begin(101, 6400);
        assert!(!courtesy.after_you());
        let began = Instant::now();
        courtesy.begin(100, 6400);
        while courtesy.after_you() {
            assert!(began.elapsed() < Duration::from_secs(60));
        }
        assert!(began.elapsed() >= Courtesy::LONGEST);
    }

    fn rest_until_rung(bells: &[&Line], bell: &Line) {
        let mut pace = Pace::new();
        pace.rest(BUSY_BYTES, bells, || unreachable!("no rest while busy"));
        assert_eq!(pace.wait, WAIT_MIN);
        for _ in 0..12 {
            pace.rest(0, bells, || true);
        }
        assert_eq!(pace.wait, WAIT_MAX);
        pace.rest(MUCH_BYTES + 1, bells, || true);
        assert_eq!(pace.wait, WAIT_MAX / 2);

        let start = Instant::now();
        pace.rest(0, bells, || false);
        assert!(start.elapsed() >= WAIT_MAX / 2, "nobody rang");
        let start = Instant::now();
        // Rung between setting `sleeping` and the futex wait.
        pace.rest(0, bells, || {
            bell.word.fetch_add(1, Ordering::SeqCst);
            false
        });
        assert!(start.elapsed() < WAIT_MAX);
        assert_eq!(bell.sleeping.load(Ordering::SeqCst), 0);
    }
}
