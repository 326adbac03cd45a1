//! In a recording for a re-execution, a signal that hits the program between two calls waits until the
//! next call begins: there it can arrive again. If none begins soon, it arrives where the program is. A
//! call that waits for the signal itself then does so in vain, and is ended ([`hurry`](crate::hurry)).

use linux_raw_sys::general as raw;
use syscalls::abi::signals::{SIG_IGN, is_fault};

use crate::actions::queue_to_self;
use crate::arch::frames::{Frame, UContext};
use crate::arch::head::phase;
use crate::arch::places::{Place, in_agent_text, place_of};
use crate::context::Context;
use crate::interrupted::on_own_stack;
use crate::patience::PATIENCE_NS;
use crate::signal::{Info, real_mask, signal_bit};
use crate::stream::Stream;
use crate::timers::{Whose, told};
use crate::{clock, course, sys};

/// Blocks a signal that hit the program until its next call. False if it is to be delivered now.
pub fn wait_for_call(context: &Context, signal: u32, info: &Info, uc: &mut UContext) -> bool {
    // The alarm comes by SIGBUS.
    let hears = context.mask.get() & signal_bit(raw::SIGBUS) == 0;
    let wanted =
        hears && course::is_repeatable() && !course::is_answered() && !context.silent.get();
    // Blocked, they would end the program if its code faulted meanwhile.
    if !wanted || is_fault(signal as i32) || sys::is_quiet() {
        return false;
    }
    let bit = signal_bit(signal);
    if context.overdue.get() & bit != 0 {
        context.overdue.set(context.overdue.get() & !bit);
        return false;
    }
    let is_first = context.deferred.get() == 0;
    if is_first && !set_alarm(context) {
        return false;
    }
    let process = context.process();
    if is_first {
        context.patience.begin(clock::computed_ns(context));
    }
    let action = process.lock.with(|()| process.actions.get(signal));
    context.hurry.add(is_first, action.flags);
    context.deferred.set(context.deferred.get() | bit);
    context.attention.set(true);
    uc.sigmask |= bit;
    queue_to_self(context, signal, core::ptr::from_ref(info) as u64);
    true
}

/// A call begins: lets those signals in. Does not return if one is delivered; the call is begun again
/// after its handler.
#[cold]
pub fn arrive(context: &Context, frame: &Frame) {
    let hurry = &context.hurry;
    let place = [context.site.get(), frame.stack()];
    if context.deferred.get() != 0 {
        context.deferred.set(0);
        context.alarm.stop();
        hurry.begin(place);
        context.attention.set(true);
        sys::set_mask(real_mask(context.mask.get()));
        // None was delivered.
        hurry.end();
    } else if hurry.is_there() {
        match hurry.is_it(place) {
            true if hurry.restarts() && fails_calls(context, raw::SIGBUS) => {}
            true => _ = set_alarm(context),
            false if !hurry.is_there() => _ = context.alarm.stop(),
            false => {}
        }
    }
    context.attention.set(context.dispatch.get().is_some() || hurry.is_there());
}

/// Handles a signal of the alarm: no call has begun for long.
pub fn is_alarm(context: &Context, signal: u32, info: &Info, uc: &mut UContext) -> bool {
    if told(signal, info) != Some(context.this.get() as u64) {
        return false;
    }
    let waiting = context.deferred.get();
    if waiting == 0 && context.hurry.is_made() && is_ahead(context, uc) {
        // The wait has not begun yet.
        set_alarm(context);
        return true;
    }
    if waiting == 0 {
        context.hurry.ends_wait(uc);
    }
    if waiting != 0 && on_own_stack(context, uc) {
        // It hit a handler of the agent.
        set_alarm(context);
        return true;
    }
    // In the agent a call has begun, which lets them in.
    if waiting != 0 && !in_agent_text(uc.address()) {
        if context.patience.lasts(clock::computed_ns(context)) && set_alarm(context) {
            return true;
        }
        context.deferred.set(0);
        context.overdue.set(waiting);
        context.hurry.overdue(uc.regs.rsp);
        context.attention.set(true);
        uc.sigmask = real_mask(context.mask.get());
    }
    true
}

/// Whether the kernel goes on with no call that this signal has ended, whatever the agent makes of it.
fn fails_calls(context: &Context, signal: u32) -> bool {
    let process = context.process();
    let read = || process.lock.with(|()| process.actions.get(signal));
    let action = Stream::while_busy(context, read);
    action.handler > SIG_IGN && action.flags & u64::from(raw::SA_RESTART) == 0
}

/// The call is about to be made.
fn is_ahead(context: &Context, uc: &UContext) -> bool {
    match place_of(uc) {
        Place::Call => true,
        Place::Agent => context.phase.get() == phase::BEFORE,
        _ => false,
    }
}

/// Forgets the alarm of the thread whose state a new process has.
pub fn forget(context: &Context) {
    context.alarm.forget();
    context.deferred.set(0);
    context.overdue.set(0);
    context.hurry.end();
    context.attention.set(false);
}

/// Sets the alarm of this thread.
fn set_alarm(context: &Context) -> bool {
    let clock = u64::from(raw::CLOCK_MONOTONIC);
    let whose = Whose { clock, tid: context.tid.get(), signal: raw::SIGBUS };
    context.alarm.set(whose, context.this.get() as u64, PATIENCE_NS, false)
}
