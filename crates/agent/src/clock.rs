//! Time stamps of records, also in threads that may not read the time stamp counter, and what a thread computed.

use core::sync::atomic::{AtomicU64, Ordering};

use linux_raw_sys::general as raw;

use crate::arch::processor::time_stamp;
use crate::context::Context;
use crate::needs::{Need, OWN_CPU_CLOCK};
use crate::sys;

/// In the number of a clock of some thread, whose id is above it (CPUCLOCK_PERTHREAD, CPUCLOCK_SCHED).
const CLOCK_OF_THREAD: u32 = 6;

/// Last time stamp: read before the counter was forbidden, or made up since.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Saves the time before the counter may become forbidden.
pub fn note() {
    LAST.fetch_max(time_stamp(), Ordering::Relaxed);
}

pub fn now(context: &Context) -> u64 {
    if context.clockless.get() { without_counter(context) } else { time_stamp() }
}

/// Returns a time stamp without reading the counter, which strict seccomp and PR_SET_TSC forbid:
/// one more than the recorder's last reading or our last time stamp.
#[cold]
pub fn without_counter(context: &Context) -> u64 {
    let told = context.arena.get().map_or(0, |arena| arena.control().clock.load(Ordering::Relaxed));
    let before = LAST.fetch_max(told, Ordering::Relaxed);
    let now = before.max(told) + 1;
    LAST.fetch_max(now, Ordering::Relaxed);
    now
}

/// Returns the nanoseconds that this thread has had a CPU, if it may be asked for.
pub fn computed_ns(context: &Context) -> Option<u64> {
    asked(context, Need::OwnClock, OWN_CPU_CLOCK)
}

/// Returns the same of a thread of this process.
pub fn computed_by(context: &Context, tid: u32) -> Option<u64> {
    asked(context, Need::ClockOf, u64::from(!tid << 3 | CLOCK_OF_THREAD))
}

fn asked(context: &Context, need: Need, clock: u64) -> Option<u64> {
    if sys::denies(need.row().what) || context.clockless.get() {
        return None;
    }
    // SAFETY: it consists of integers, for which zero is a valid value.
    let mut told: raw::__kernel_timespec = unsafe { core::mem::zeroed() };
    let failed = sys::call(need, [clock, &raw mut told as u64, 0, 0, 0, 0]) != 0;
    (!failed).then(|| told.tv_sec as u64 * 1_000_000_000 + told.tv_nsec as u64)
}
