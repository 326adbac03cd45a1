//! In a recording for a re-execution, a signal that hits the program between two calls waits until the
//! next call begins: there it can arrive again. If none begins soon, it arrives where the program is.

use linux_raw_sys::general as raw;
use syscalls::abi::signals::is_fault;

use crate::actions::queue_to_self;
use crate::arch::frames::UContext;
use crate::context::Context;
use crate::interrupted::on_own_stack;
use crate::signal::{Info, real_mask, si_code, signal_bit};
use crate::timers::{Whose, told};
use crate::{course, sys};

/// How long a signal waits for a call.
const PATIENCE_NS: i64 = 10_000_000;

/// Blocks a signal that hit the program until its next call. False if it is to be delivered now.
pub fn wait_for_call(context: &Context, signal: u32, info: &Info, uc: &mut UContext) -> bool {
    // The alarm comes by SIGBUS.
    let hears = context.mask.get() & signal_bit(raw::SIGBUS) == 0;
    let wanted =
        hears && course::is_repeatable() && !course::is_answered() && !context.silent.get();
    let by_code = si_code(info) > 0 && is_fault(signal as i32);
    if !wanted || by_code || sys::is_quiet() {
        return false;
    }
    let bit = signal_bit(signal);
    if context.overdue.get() & bit != 0 {
        context.overdue.set(context.overdue.get() & !bit);
        return false;
    }
    if context.deferred.get() == 0 && !set_alarm(context) {
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
    context.alarm.stop();
    sys::set_mask(real_mask(context.mask.get()));
}

/// Handles a signal of the alarm: no call has begun for long.
pub fn is_alarm(context: &Context, signal: u32, info: &Info, uc: &mut UContext) -> bool {
    if told(signal, info) != Some(context.this.get() as u64) {
        return false;
    }
    let waiting = context.deferred.get();
    if waiting != 0 && on_own_stack(context, uc) {
        // It hit a handler of the agent.
        set_alarm(context);
        return true;
    }
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
    context.alarm.forget();
    context.deferred.set(0);
    context.overdue.set(0);
    context.attention.set(false);
}

/// Sets the alarm of this thread.
fn set_alarm(context: &Context) -> bool {
    let clock = u64::from(raw::CLOCK_MONOTONIC);
    let whose = Whose { clock, tid: context.tid.get(), signal: raw::SIGBUS };
    context.alarm.set(whose, context.this.get() as u64, PATIENCE_NS, false)
}
