//! Signals: the current call is finished first, then the signal is delivered.
//!
//! The agent is the kernel's handler for every signal that the program handles. It runs on the
//! agent's alternate stack with everything masked, and checks where the signal hit. Then it either
//! changes the interrupted state to one that the program could be in and delivers at once, or holds
//! the kernel's frame until the current call is recorded:
//!
//! | where the signal hit | what happens |
//! |---|---|
//! | program code, or a stub | deliver |
//! | agent, the call not made | drop the record, set the state to the call site, deliver |
//! | at the call, the kernel restarts it | record that, set the state to the call site, deliver |
//! | agent, the call made but not recorded | hold; deliver with the state after the call |
//! | agent, the call recorded | set the state to that after the call, deliver |
//!
//! *Deliver* builds the frame that the kernel would have built, on the stack that the kernel would
//! have chosen, and leaves through the kernel's own frame into the handler. So no agent frame is
//! ever left suspended, and handlers may jump out as they like.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use syscalls::abi::errno;
use syscalls::abi::signals::SYS_SECCOMP;
use syscalls::record::{Header, RecordKind, signal_place};

use crate::actions::{self, queue_to_self};
use crate::arch::frames::{SignalFrame, UContext};
use crate::arch::head::phase;
use crate::arch::places::{end_access, in_agent_text, place_of};
use crate::arch::{entry, entry_quiet, processor};
use crate::context::{Context, NO_CALL, POSTPONED, SOME_WAIT, current};
use crate::deliver::deliver;
use crate::interrupted::{on_own_stack, set_after_call, set_at_site, set_before_entry};
use crate::late_input::LONG_BYTES;
use crate::signal::{Info, is_at_call, real_mask, si_code, signal_bit};
use crate::signal_cases::{Case, case_of};
use crate::stream::Stream;
use crate::{
    asked, call, capture, clock, course, deferred, looking, memory, requests, serial, sites, sys,
    tracing, waiting,
};

/// What the agent sees of a call that a filter answers with SIGSYS.
const ENOSYS: u64 = errno::result(errno::ENOSYS) as u64;
/// The kernel's own result of an interrupted call that is made again.
const RESTARTED: u64 = errno::result(errno::ERESTARTSYS) as u64;

/// The kernel's handler for signals that the program handles. Returns 0 to leave through the frame,
/// 1 to resume the agent's code and keep the frame, or the address of a program handler that takes
/// the frame as it is. `open`: signals are not masked, see [`waiting`].
#[unsafe(export_name = "reenact_handle_signal")]
pub extern "C" fn on_signal(signal: u32, info: &Info, uc: &mut UContext, open: bool) -> u64 {
    let context = current();
    if looking::is_alarm(context, signal, info, uc, open) {
        return 0;
    }
    if !open && context.running.get() == phase::LEFT_ALONE && tracing::is_left_alone_at(uc) {
        return tracing::pass_on(context, signal, info, uc);
    }
    let code = si_code(info);
    let fault = code > 0 && (signal == raw::SIGSEGV || signal == raw::SIGBUS);
    let rip = uc.address();
    if fault && end_access(uc) {
        return 0;
    }
    if fault && in_agent_text(rip) && clock_is_forbidden(context, uc) {
        return 0;
    }
    if deferred::is_alarm(context, signal, info, uc)
        || serial::is_asked_for(context, signal, info, uc)
    {
        return 0;
    }
    if course::is_answered() && !asked::is_due(context, signal, info) {
        return 0;
    }
    if open && waiting::hit_a_handler(context, uc) {
        if signal == raw::SIGSYS && code == SYS_SECCOMP && is_at_call(info, rip) {
            // A filter refused a call of the agent itself.
            uc.set_result(ENOSYS);
        } else {
            waiting::add(context, signal, info, uc);
        }
        return 0;
    }
    let rip = uc.address();
    if (signal == raw::SIGSEGV || signal == raw::SIGBUS) && code <= 0 && on_own_stack(context, uc) {
        // Sent while another signal is being delivered: resend it, to arrive after that.
        uc.sigmask |= signal_bit(signal);
        queue_to_self(context, signal, core::ptr::from_ref(info) as u64);
        return 0;
    }
    let refused = signal == raw::SIGSYS && code == SYS_SECCOMP && is_at_call(info, rip);
    if refused && in_agent_text(rip) {
        // A filter refuses the call: the agent sees a failure, the handler the call number.
        context.trapped.set(Some(uc.result()));
        context.call_mask.set(None);
        uc.set_result(ENOSYS);
    }
    if signal == raw::SIGSYS && !refused && context.mask.get() & signal_bit(signal) != 0 {
        // SAFETY: the kernel's siginfo has 128 bytes, aligned for numbers.
        context.keep_sigsys(unsafe { core::ptr::from_ref(info).cast::<[u64; 16]>().read() });
        return 0;
    }
    let base_mask = context.mask.get();
    let case = case_of(place_of(uc), context.phase.get(), is_busy(context, rip));
    if case == Case::NoCall && !open && deferred::wait_for_call(context, signal, info, uc) {
        return 0;
    }
    context.signal_place.set(match case {
        Case::NoCall => signal_place::BETWEEN_CALLS,
        Case::UndoEntry | Case::Undo | Case::ForgetReturn => signal_place::AT_A_CALL,
        _ => signal_place::AFTER_A_CALL,
    });
    match case {
        Case::NoCall => sites::show_original(uc),
        Case::UndoEntry => set_before_entry(context, uc),
        Case::Undo => {
            undo(context);
            set_at_site(context, uc);
        }
        Case::RecordRestart => {
            restarted(context);
            set_at_site(context, uc);
        }
        Case::ForgetReturn => {
            context.forget_return();
            set_at_site(context, uc);
        }
        Case::FailReturn => {
            context.forget_return();
            set_after_call(context, uc);
        }
        Case::Hold if open => {
            waiting::add(context, signal, info, uc);
            return 0;
        }
        Case::Hold => {
            context.held_frame.set(uc.frame_address());
            context.held_signal.set(signal);
            context.update_fault_safety();
            // Another fault now would overwrite the held frame.
            sys::set_mask(u64::MAX);
            return 1;
        }
        Case::Finish => set_after_call(context, uc),
    }
    if case != Case::NoCall {
        context.slow.set(0);
    }
    if matches!(context.phase.get(), phase::BEFORE | phase::IN_CALL) {
        if open {
            waiting::add(context, signal, info, uc);
        } else {
            postpone(context, signal, info, uc);
        }
        return 0;
    }
    if open {
        // Behind the queued signals, which could not be delivered yet.
        waiting::add(context, signal, info, uc);
        waiting::deliver_waiting(uc);
    } else {
        deliver(context, signal, info, uc, base_mask);
    }
    0
}

/// Postpones a signal that hits while a debugger runs a function in the middle of a call: it is
/// blocked until the thread is back in that call and the call has ended.
#[cold]
fn postpone(context: &Context, signal: u32, info: &Info, uc: &mut UContext) {
    uc.sigmask |= signal_bit(signal);
    queue_to_self(context, signal, core::ptr::from_ref(info) as u64);
    if context.held_frame.get() == 0 {
        context.held_frame.set(POSTPONED);
    }
}

fn is_busy(context: &Context, rip: u64) -> bool {
    context.busy.get() || context.phase.get() == phase::BEFORE && entry_quiet::has_made_native(rip)
}

/// Emulates `rdtsc` if the counter was forbidden since the thread last checked.
#[cold]
fn clock_is_forbidden(context: &Context, uc: &mut UContext) -> bool {
    let Some(len) = processor::time_stamp_read_at(uc.address()) else { return false };
    uc.skip_time_stamp_read(len, clock::without_counter(context));
    true
}

/// Undoes a call that was not made, as if the program had not reached it.
fn undo(context: &Context) {
    memory::forget_copied(context);
    if context.counted_early.take() {
        call::uncount(context);
        if !context.exec_announced.get() {
            actions::hand_over_ignored(context, false);
        }
    }
    if context.exec_announced.get() {
        requests::cancel_exec(context);
    }
    if !context.silent.get() {
        expect_late_input(context);
        Stream::undo(context);
    }
}

/// Of a call that is given up while long input was copied, the input is copied behind it the next time.
fn expect_late_input(context: &Context) {
    let start = context.call_start.load(Ordering::Relaxed);
    let is_long = context.chunk.position().saturating_sub(start) >= LONG_BYTES;
    if start != NO_CALL && (is_long || capture::hashes(context)) {
        context.late_input.expect(context.open_place());
        context.update_unusual();
    }
}

/// Records a call that the kernel has interrupted and restarts after the handler.
fn restarted(context: &Context) {
    if context.exec_announced.get() {
        requests::cancel_exec(context);
    }
    if context.silent.get() {
        return;
    }
    let head = Header::new(RecordKind::Exit, 0, 0, 0).to_word();
    Stream::record(context, &[head, clock::now(context), RESTARTED]);
    if !context.counted_early.take() {
        call::count(context);
    }
    Stream::publish(context);
    context.call_start.store(NO_CALL, Ordering::Relaxed);
}

/// Delivers the signal that hit while a call was being recorded, at the end of that call.
#[cold]
pub fn deliver_held(context: &Context) {
    if context.held_frame.get() == POSTPONED {
        context.held_frame.set(0);
        context.update_fault_safety();
        sys::set_mask(real_mask(context.mask.get()));
        return;
    }
    if context.held_frame.get() == SOME_WAIT {
        leave_with_waiting(context, true);
    }
    let (uc, info) = take_held(context);
    set_after_call(context, uc);
    let base = context.call_mask.take().unwrap_or(context.mask.get());
    leave_held(context, uc, info, base);
}

/// Undoes a call and delivers the signal that hit while the stream was being changed. The stream
/// gives up the call, from wherever it was written to.
#[unsafe(export_name = "reenact_handle_held")]
pub extern "C" fn undo_and_deliver_held(context: &Context) -> ! {
    if context.held_frame.get() == SOME_WAIT {
        undo(context);
        leave_with_waiting(context, false);
    }
    let (uc, info) = take_held(context);
    context.signal_place.set(signal_place::AT_A_CALL);
    undo(context);
    set_at_site(context, uc);
    context.slow.set(0);
    let base = context.mask.get();
    leave_held(context, uc, info, base);
}

fn take_held(context: &Context) -> (&'static mut UContext, &'static Info) {
    let frame = context.held_frame.get() as *mut SignalFrame;
    context.held_frame.set(0);
    // SAFETY: the kernel's frame stays on the alternate stack while signals are masked.
    let frame = unsafe { &mut *frame };
    (&mut frame.context, &frame.info)
}

fn leave_held(context: &Context, uc: &mut UContext, info: &Info, base: u64) -> ! {
    let signal = context.held_signal.get();
    deliver(context, signal, info, uc, base);
    let frame = uc.frame_address();
    // SAFETY: the kernel's frame now holds the state to continue with.
    unsafe { entry::reenact_leave_by_frame(frame) }
}

/// Delivers queued signals, with the state after the current call, or before it.
#[cold]
pub fn leave_with_waiting(context: &Context, made: bool) -> ! {
    if !made {
        context.slow.set(0);
    }
    // SAFETY: the call is recorded, or undone.
    unsafe { entry_quiet::leave_with_waiting(made) }
}
