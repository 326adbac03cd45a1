//! Time stamps of records, also in threads that may not read the time stamp counter.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::processor::time_stamp;
use crate::context::Context;

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
