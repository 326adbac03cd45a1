//! What is noted on both sides of a call, so that it is known what a thread computes in between.

use core::sync::atomic::Ordering;

use syscalls::record::{Header, RecordKind, enter_flag};

use crate::arch::processor::time_stamp;
use crate::clock;
use crate::context::Context;
use crate::stream::Stream;

/// Calls after which the clock is asked as well if the thread was without a CPU in them, once it was
/// without one between calls: only then is it known what it had when they returned.
const WARY: u8 = 64;
/// Times that the clock is asked, and what that takes of the CPU.
const TRIES: u32 = 3;
const ASKING_NS: u64 = 2_000;
/// Nobody is without a CPU for less than this.
const SHORT_NS: u64 = 20_000;

/// A call begins `now`: says whether the thread has had its CPU since the one before.
#[inline(always)]
pub fn before_call(context: &Context, now: u64) -> u8 {
    let time = &context.cpu_time;
    if !time.is_watching() {
        return 0;
    }
    let left = time.left.replace(0);
    if time.stayed() {
        return enter_flag::STAYED;
    }
    was_away(context, left, now)
}

/// A call has returned: what follows is the program's time.
#[inline(always)]
pub fn after_call(context: &Context) {
    let time = &context.cpu_time;
    if time.is_watching() && !time.stayed() {
        was_away_in_call(context);
    }
}

/// A call is recorded: it returned at `tsc`. Returns how long that took since, if something was
/// copied.
#[inline(always)]
pub fn recorded(context: &Context, tsc: u64, copied: bool) -> u32 {
    let time = &context.cpu_time;
    if !time.is_watching() || context.clockless.get() {
        return 0;
    }
    let ticks = if copied { time_stamp().saturating_sub(tsc) } else { 0 };
    time.left.set(tsc + ticks);
    ticks.min(u32::MAX.into()) as u32
}

#[cold]
#[inline(never)]
fn was_away(context: &Context, left: u64, now: u64) -> u8 {
    let time = &context.cpu_time;
    let (known_at, known_ns) = (time.known_at.get(), time.known_ns.get());
    // By SIGSYS: the signal has cleared the word. To ask each time would cost too much.
    if context.slow.get() != 0 {
        let gap = nanoseconds(context, now.saturating_sub(left));
        if left != 0 && gap < SHORT_NS {
            time.arm();
            return enter_flag::STAYED;
        }
    } else {
        time.wary.set(WARY);
    }
    if !look(context) {
        return 0;
    }
    // What the clock said, without the time that asking took: often the kernel takes the CPU away as
    // soon as the thread makes a call, which is then this one.
    let since = nanoseconds(context, time.known_at.get().saturating_sub(now)).min(ASKING_NS);
    let begun = time.known_ns.get().saturating_sub(since);
    if known_at == 0 || left < known_at {
        return 0;
    }
    let returned = known_ns + nanoseconds(context, left - known_at);
    if let Some(ns) = begun.checked_sub(returned) {
        let head = Header::new(RecordKind::UserTime, 0, 0, 0).to_word();
        Stream::short_record(context, head, now, ns);
        Stream::publish(context);
    }
    0
}

#[cold]
#[inline(never)]
fn was_away_in_call(context: &Context) {
    let time = &context.cpu_time;
    let wary = time.wary.get();
    time.wary.set(wary.saturating_sub(1));
    // The next call may come by a signal as well, and ask.
    if wary == 0 && context.slow.get() == 0 {
        time.known_at.set(0);
        time.arm();
    } else {
        look(context);
    }
}

/// Asks the thread's CPU clock, and watches from then on.
fn look(context: &Context) -> bool {
    let time = &context.cpu_time;
    time.known_at.set(0);
    time.arm();
    for _ in 0..TRIES {
        let Some(computed) = clock::computed_ns(context) else { return false };
        let now = time_stamp();
        // Without a CPU meanwhile, it is not known when the clock said so.
        if time.stayed() {
            time.known_at.set(now);
            time.known_ns.set(computed);
            return true;
        }
        time.arm();
    }
    false
}

fn nanoseconds(context: &Context, ticks: u64) -> u64 {
    let hz = context.arena.get().map_or(0, |arena| arena.control().tsc_hz.load(Ordering::Relaxed));
    (u128::from(ticks) * 1_000_000_000 / u128::from(hz.max(1))) as u64
}
