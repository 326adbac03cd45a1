//! In a recording for a re-execution, a signal that hits the program between two calls waits until the
//! next call begins: there it can arrive again. If none begins soon, it arrives where the program is.

use linux_raw_sys::general as raw;
use syscalls::abi::signals::{SI_TIMER, SIGEV_THREAD_ID, is_fault};

use crate::actions::queue_to_self;
use crate::arch::frames::UContext;
use crate::context::Context;
use crate::needs::Need;
use crate::signal::{Info, VALUE_AT, real_mask, si_code, signal_bit};
use crate::{course, lost_calls, sys};

/// How long a signal waits for a call.
const PATIENCE_NS: i64 = 10_000_000;
/// Words of a `struct sigevent`.
const EVENT_WORDS: usize = 8;

/// Blocks a signal that hit the program until its next call. False if it is to be delivered now.
pub fn wait_for_call(context: &Context, signal: u32, info: &Info, uc: &mut UContext) -> bool {
    let wanted = course::is_repeatable() && !course::is_answered() && !context.silent.get();
    let by_code = si_code(info) > 0 && is_fault(signal as i32);
    if !wanted || by_code || sys::is_quiet() {
        return false;
    }
    let bit = signal_bit(signal);
    if context.overdue.get() & bit != 0 {
        context.overdue.set(context.overdue.get() & !bit);
        return false;
    }
    if context.deferred.get() == 0 && !set_alarm(context, PATIENCE_NS) {
        return false;
    }
    context.deferred.set(context.deferred.get() | bit);
    context.attention.set(true);
    uc.sigmask |= bit;
    queue_to_self(context, signal, core::ptr::from_ref(info) as u64);
    true
}

/// A call begins: lets those signals in. Does not return if one is delivered; the call is begun again
/// after its handler.
#[cold]
pub fn arrive(context: &Context) {
    if context.deferred.get() == 0 {
        return;
    }
    context.deferred.set(0);
    context.attention.set(context.dispatch.get().is_some());
    set_alarm(context, 0);
    sys::set_mask(real_mask(context.mask.get()));
}

/// Handles a signal of the alarm: no call has begun for long.
pub fn is_alarm(context: &Context, signal: u32, info: &Info, uc: &mut UContext) -> bool {
    let value = u64::from_ne_bytes(*info[VALUE_AT..].first_chunk().unwrap_or(&[0; 8]));
    if signal != raw::SIGSYS || si_code(info) != SI_TIMER || value != context.this.get() as u64 {
        return false;
    }
    lost_calls::restore_lost(context, uc);
    let waiting = context.deferred.get();
    // In the agent a call has begun, which lets them in.
    if waiting != 0 && !crate::arch::places::in_agent_text(uc.address()) {
        context.deferred.set(0);
        context.overdue.set(waiting);
        context.attention.set(context.dispatch.get().is_some());
        uc.sigmask = real_mask(context.mask.get());
    }
    true
}

/// Forgets the alarm of the thread whose state a new process has.
pub fn forget(context: &Context) {
    context.alarm.set(None);
    context.deferred.set(0);
    context.overdue.set(0);
    context.attention.set(false);
}

/// Sets the alarm of this thread; 0 turns it off.
fn set_alarm(context: &Context, ns: i64) -> bool {
    let timer = match context.alarm.get() {
        Some(timer) => timer,
        None if ns == 0 => return true,
        None => {
            let mut timer = 0i32;
            let mut event = [0u64; EVENT_WORDS];
            event[0] = context.this.get() as u64;
            event[1] = u64::from(raw::SIGSYS) | SIGEV_THREAD_ID << 32;
            event[2] = u64::from(context.tid.get());
            let clock = u64::from(raw::CLOCK_MONOTONIC);
            let args = [clock, event.as_ptr() as u64, &raw mut timer as u64, 0, 0, 0];
            if sys::call(Need::MakeTimer, args) != 0 {
                return false;
            }
            let timer = timer as u32;
            context.alarm.set(Some(timer.into()));
            timer.into()
        }
    };
    let wanted = [0i64, 0, 0, ns];
    sys::call(Need::SetTimer, [timer, 0, wanted.as_ptr() as u64, 0, 0, 0]) == 0
}
