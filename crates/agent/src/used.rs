//! Re-execution: what a thread uses between two calls.

use linux_raw_sys::general as raw;
use ring::Standing;

use crate::arch::processor::time_stamp;
use crate::context::Context;
use crate::needs::Need;
use crate::sys;

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_US: u64 = 1_000;

/// What the thread has used up to now.
pub fn now() -> Standing {
    // SAFETY: it consists of integers, for which zero is a valid value.
    let mut told: raw::rusage = unsafe { core::mem::zeroed() };
    sys::call(Need::Usage, [raw::RUSAGE_THREAD.into(), &raw mut told as u64, 0, 0, 0, 0]);
    let ns = |time: &raw::__kernel_old_timeval| {
        time.tv_sec as u64 * NS_PER_S + time.tv_usec as u64 * NS_PER_US
    };
    Standing {
        tsc: time_stamp(),
        cpu_ns: ns(&told.ru_utime) + ns(&told.ru_stime),
        waits: told.ru_nvcsw as u64,
        put_off: told.ru_nivcsw as u64,
        faults: (told.ru_minflt + told.ru_majflt) as u64,
    }
}

/// The program goes on.
pub fn go_on(context: &Context) {
    context.went_on.set(now());
}

/// The thread has waited where the program computes, since it stood there: that was not the program.
pub fn waited(context: &Context, since: Standing) {
    let (now, went_on) = (now(), context.went_on.get());
    context.went_on.set(Standing {
        tsc: went_on.tsc + now.tsc.saturating_sub(since.tsc),
        cpu_ns: went_on.cpu_ns + now.cpu_ns.saturating_sub(since.cpu_ns),
        waits: went_on.waits + now.waits.saturating_sub(since.waits),
        put_off: went_on.put_off + now.put_off.saturating_sub(since.put_off),
        faults: went_on.faults + now.faults.saturating_sub(since.faults),
    });
}
