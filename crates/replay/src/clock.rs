//! A cheap clock: the processor's time stamp counter, where there is one.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the counter is compared with the system's clock.
const CALIBRATION: Duration = Duration::from_millis(2);

/// Current tick count; [`to_ns`] converts differences.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: rdtsc only reads a counter.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Converts a tick count to nanoseconds.
#[inline]
pub fn to_ns(ticks: u64) -> u64 {
    static RATE: OnceLock<Rate> = OnceLock::new();
    RATE.get_or_init(|| Rate::new(calibrate())).to_ns(ticks)
}

/// Fixed-point conversion rate for time spans: integers are faster than floats.
#[derive(Clone, Copy)]
pub struct Rate(u64);

impl Rate {
    const FRACTION_BITS: u32 = 32;

    /// Converts from a float.
    pub fn new(ns_per_tick: f64) -> Rate {
        Rate((ns_per_tick * (1_u64 << Rate::FRACTION_BITS) as f64) as u64)
    }

    /// Converts a tick count to nanoseconds.
    #[inline]
    pub fn to_ns(self, ticks: u64) -> u64 {
        let ns = (u128::from(ticks) * u128::from(self.0)) >> Rate::FRACTION_BITS;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// How long the counter is trusted before it is compared with the system's clock again.
const RELIED_NS: u64 = 1_000_000;

/// Clock of a task at the recorded pace, in nanoseconds since the replay's clock was started.
pub struct Pace {
    started: Instant,
    epoch_tsc: u64,
    ns_per_tick: f64,
    /// Counter and system clock, read together.
    seen: (u64, u64),
}

impl Pace {
    /// For a recording that began at `epoch_tsc`, with the replay time of one tick.
    pub fn new(started: Instant, epoch_tsc: u64, ns_per_tick: f64) -> Pace {
        let mut pace = Pace { started, epoch_tsc, ns_per_tick, seen: (0, 0) };
        pace.look();
        pace
    }

    /// When an event recorded at `tsc` is due.
    pub fn due(&self, tsc: u64) -> u64 {
        (tsc.saturating_sub(self.epoch_tsc) as f64 * self.ns_per_tick) as u64
    }

    /// Current time.
    pub fn now(&mut self) -> u64 {
        let passed = to_ns(ticks().wrapping_sub(self.seen.0));
        if passed > RELIED_NS {
            self.look();
            return self.seen.1;
        }
        self.seen.1 + passed
    }

    /// Resynchronizes with the system's clock: the counter may have stopped during a sleep.
    pub fn look(&mut self) {
        let (ticks, now) = both();
        self.seen = (ticks, now.duration_since(self.started).as_nanos() as u64);
    }
}

/// Reads counter and system clock together: the closest of a few attempts, as any may be
/// interrupted.
fn both() -> (u64, Instant) {
    const LOOKS: usize = 4;
    const CLOSE_TICKS: u64 = 1000;
    let mut best = (u64::MAX, 0, Instant::now());
    for _ in 0..LOOKS {
        let (before, now, after) = (ticks(), Instant::now(), ticks());
        let apart = after.wrapping_sub(before);
        if apart < best.0 {
            best = (apart, before.wrapping_add(apart / 2), now);
        }
        if apart < CLOSE_TICKS {
            break;
        }
    }
    (best.1, best.2)
}

fn calibrate() -> f64 {
    let (from, begin) = both();
    while begin.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    let (to, end) = both();
    (end - begin).as_nanos() as f64 / to.wrapping_sub(from).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_right_to_a_billionth_and_end_at_the_largest_number() {
        let rate = Rate::new(1e9 / 2.7e9);
        for ticks in [0, 1, 27, 2_700_000_000, 2_700_000_000 * 86_400] {
            let exact = ticks as f64 / 2.7;
            assert!((rate.to_ns(ticks) as f64 - exact).abs() <= 1.0 + exact / 1e9, "{ticks}");
        }
        assert_eq!(Rate::new(1e9).to_ns(u64::MAX), u64::MAX);
    }

    #[test]
    fn time_passes_as_it_does_for_the_system() {
        let started = Instant::now();
        let mut pace = Pace::new(started, 1000, 2.5);
        assert_eq!((pace.due(1400), pace.due(3)), (1000, 0));
        // A prediction over a millisecond is accurate to a few microseconds, unless a reading of
        // the clocks was interrupted.
        let is_right = || {
            let before = started.elapsed().as_nanos() as u64;
            let now = pace.now();
            let after = started.elapsed().as_nanos() as u64;
            before <= now + 20_000 && now <= after + 20_000
        };
        const ROUNDS: usize = 100_000;
        let right = std::iter::repeat_with(is_right).take(ROUNDS).filter(|right| *right).count();
        assert!(right > ROUNDS / 2, "{right} of {ROUNDS}");
    }
}
