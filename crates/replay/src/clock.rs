//! A clock that costs little to read: the processor's time stamp counter, where there is one.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the counter is held against the system's clock.
const CALIBRATION: Duration = Duration::from_millis(2);

/// Ticks; see [`to_ns`].
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a counter.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Nanoseconds that so many ticks take.
pub fn to_ns(ticks: u64) -> u64 {
    static NS_PER_TICK: OnceLock<f64> = OnceLock::new();
    let ratio = NS_PER_TICK.get_or_init(calibrate);
    (ticks as f64 * ratio) as u64
}

fn calibrate() -> f64 {
    let (from, begin) = (ticks(), Instant::now());
    while begin.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    begin.elapsed().as_nanos() as f64 / ticks().wrapping_sub(from).max(1) as f64
}
