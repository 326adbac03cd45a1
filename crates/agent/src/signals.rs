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
use syscalls::record::{Header, RecordKind};

use crate::context::{
    Action, AltStack, Context, Frame, NO_CALL, current, phase, real_mask, signal_bit, slow, space,
};
use crate::deliver::{
    SYS_SECCOMP, SignalFrame, UContext, deliver, fp, install_ours, is_at_call, replace_by_ours,
    set_action, si_code,
};
use crate::stream::Stream;
use crate::sys::needed;
use crate::{call, clock, entry, entry_quiet, guards, sites, start, sys, tracing, waiting};

/// Signals for which the agent is always the kernel's handler.
pub const ALWAYS_OURS: [u32; 3] = [raw::SIGSYS, raw::SIGSEGV, raw::SIGBUS];
pub const SIG_DFL: u64 = 0;
pub const SIG_IGN: u64 = 1;
pub const SS_AUTODISARM: u32 = 1 << 31;

/// The kernel's internal error for an interrupted call that is restarted.
const ERESTARTSYS: i64 = 512;

/// Error that the agent sees from a call that a filter answers with SIGSYS.
const ENOSYS: i64 = 38;

/// Marker in `Context::held_frame`: signals are blocked until the end of the current call.
const POSTPONED: u64 = 1;

/// The kernel's handler for signals that the program handles. Returns 0 to leave through the frame,
/// 1 to resume the agent's code and keep the frame, or the address of a program handler that takes
/// the frame as it is. `open`: signals are not masked, see [`waiting`].
pub extern "C" fn on_signal(signal: u32, info: &[u8; 128], uc: &mut UContext, open: bool) -> u64 {
    let context = current();
    if !open && context.running == phase::LEFT_ALONE && tracing::is_left_alone_at(uc) {
        return tracing::pass_on(context, signal, info, uc);
    }
    let code = si_code(info);
    let fault = code > 0 && (signal == raw::SIGSEGV || signal == raw::SIGBUS);
    let rip = uc.regs.rip;
    if fault && rip == entry::copy_insn() {
        uc.regs.rip = entry::copy_done();
        return 0;
    }
    if fault && rip == entry::load_insn() {
        uc.regs.rip = entry::load_fault();
        return 0;
    }
    if fault && start::in_agent_text(rip) && clock_is_forbidden(context, uc) {
        return 0;
    }
    if open && waiting::hit_a_handler(context, uc) {
        if signal == raw::SIGSYS && code == SYS_SECCOMP && is_at_call(info, rip) {
            // A filter refused a call of the agent itself.
            uc.regs.rax = -ENOSYS as u64;
        } else {
            waiting::add(context, signal, info, uc);
        }
        return 0;
    }
    let rip = uc.regs.rip;
    if (signal == raw::SIGSEGV || signal == raw::SIGBUS) && code <= 0 && on_own_stack(context, uc) {
        // Sent while another signal is being delivered: resend it, to arrive after that.
        uc.sigmask |= signal_bit(signal);
        guards::queue_to_self(context, signal, core::ptr::from_ref(info) as u64);
        return 0;
    }
    let refused = signal == raw::SIGSYS && code == SYS_SECCOMP && is_at_call(info, rip);
    if refused && start::in_agent_text(rip) {
        // A filter refuses the call: the agent sees a failure, the handler the call number.
        context.trapped = Some(uc.regs.rax);
        context.call_mask = None;
        uc.regs.rax = -ENOSYS as u64;
    }
    if signal == raw::SIGSYS && !refused && context.mask & signal_bit(signal) != 0 {
        // SAFETY: the kernel's siginfo has 128 bytes.
        context.pending_sigsys =
            Some(unsafe { core::ptr::from_ref(info).cast::<[u64; 16]>().read() });
        return 0;
    }
    let base_mask = context.mask;
    if start::in_agent_text(rip) {
        if (entry::bypass()..entry::entry_end()).contains(&rip) {
            set_before_entry(context, uc);
        } else if (entry::sigreturn_begin()..=entry::sigreturn_refused()).contains(&rip) {
            (context.mask, context.altstack) = context.before_return;
            if rip == entry::sigreturn_refused() {
                set_after_call(context, uc);
            } else {
                set_at_site(context, uc);
            }
        } else if (entry::call_begin()..=entry::call_insn()).contains(&rip) {
            if rip == entry::call_insn() && uc.regs.rcx == rip + 2 {
                restarted(context);
            } else {
                undo(context);
            }
            set_at_site(context, uc);
        } else if (entry::old_call_begin()..=entry::old_call_insn()).contains(&rip) {
            undo(context);
            set_at_site(context, uc);
        } else if is_made_and_not_recorded(context, rip) {
            if open {
                waiting::add(context, signal, info, uc);
                return 0;
            }
            context.held_frame = core::ptr::from_ref(uc) as u64 - 8;
            context.held_signal = signal;
            context.update_fault_safety();
            // Another fault now would overwrite the held frame.
            sys::set_mask(u64::MAX);
            return 1;
        } else if context.phase == phase::BEFORE {
            undo(context);
            set_at_site(context, uc);
        } else {
            set_after_call(context, uc);
        }
        context.slow = 0;
    } else {
        sites::show_original(&mut uc.regs);
    }
    if matches!(context.phase, phase::BEFORE | phase::IN_CALL) {
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
fn postpone(context: &mut Context, signal: u32, info: &[u8; 128], uc: &mut UContext) {
    uc.sigmask |= signal_bit(signal);
    guards::queue_to_self(context, signal, core::ptr::from_ref(info) as u64);
    if context.held_frame == 0 {
        context.held_frame = POSTPONED;
    }
}

fn is_made_and_not_recorded(context: &Context, rip: u64) -> bool {
    context.busy
        || context.phase == phase::IN_CALL
        || context.phase == phase::BEFORE && entry_quiet::has_made_native(rip)
}

/// Undoes the entry code: sets the state to that before the call.
pub fn set_before_entry(context: &mut Context, uc: &mut UContext) {
    if uc.regs.rip >= entry::entry_switched() {
        uc.regs.rsp = context.app_rsp;
    }
    uc.regs.rip = uc.regs.r11;
    if context.slow == slow::INT_80 {
        uc.regs.rcx = context.old_rcx;
        uc.regs.r11 = context.old_r11;
    }
    context.slow = 0;
}

/// The machine code of `rdtsc`.
const RDTSC: [u8; 2] = [0x0f, 0x31];
/// Emulates `rdtsc` if the counter was forbidden since the thread last checked.
#[cold]
fn clock_is_forbidden(context: &Context, uc: &mut UContext) -> bool {
    // SAFETY: agent text, which was about to be executed.
    if unsafe { (uc.regs.rip as *const [u8; 2]).read() } != RDTSC {
        return false;
    }
    let now = clock::without_counter(context);
    uc.regs.rax = now & 0xffff_ffff;
    uc.regs.rdx = now >> 32;
    uc.regs.rip += RDTSC.len() as u64;
    true
}

/// Returns true if the interrupted code was one of the agent's handlers.
pub fn on_own_stack(context: &Context, uc: &UContext) -> bool {
    let stack = context.area().altstack_address();
    (stack..stack + crate::context::ALTSTACK_BYTES as u64).contains(&uc.regs.rsp)
}

/// Undoes a call that was not made, as if the program had not reached it.
fn undo(context: &mut Context) {
    if core::mem::take(&mut context.counted_early) {
        call::uncount(context);
        if !context.exec_announced {
            hand_over_ignored(context, false);
        }
    }
    if context.exec_announced {
        crate::exec::cancel(context);
    }
    if !context.silent {
        Stream::undo(context);
    }
}

/// Records a call that the kernel has interrupted and restarts after the handler.
fn restarted(context: &mut Context) {
    if context.exec_announced {
        crate::exec::cancel(context);
    }
    if context.silent {
        return;
    }
    let head = Header::new(RecordKind::Exit, 0, 0, 0).to_word();
    Stream::record(context, &[head, clock::now(context), (-ERESTARTSYS) as u64]);
    if !core::mem::take(&mut context.counted_early) {
        call::count(context);
    }
    Stream::publish(context);
    context.call_start.store(NO_CALL, Ordering::Relaxed);
}

pub fn set_at_site(context: &mut Context, uc: &mut UContext) {
    // SAFETY: `frame` is the frame of the current call.
    let frame = unsafe { &*context.frame };
    context.phase = context.running;
    set_from_frame(frame, uc, context.site);
    if context.slow == slow::INT_80 {
        uc.regs.rcx = context.old_rcx;
        uc.regs.r11 = context.old_r11;
    }
}

pub fn set_after_call(context: &mut Context, uc: &mut UContext) {
    // SAFETY: `frame` is the frame of the current call.
    let frame = unsafe { &*context.frame };
    context.phase = context.running;
    set_from_frame(frame, uc, context.site + 2);
    if context.running == phase::LEFT_ALONE {
        // The agent cannot correct this address on the way back from the handler.
        uc.regs.rip = sites::real_address(uc.regs.rip);
    }
    if let Some(number) = context.trapped.take() {
        uc.regs.rax = number;
    }
}

/// Copies the program's registers into the kernel's frame.
fn set_from_frame(frame: &Frame, uc: &mut UContext, rip: u64) {
    let regs = &mut uc.regs;
    regs.r8 = frame.r8;
    regs.r9 = frame.r9;
    regs.r10 = frame.r10;
    regs.r11 = frame.r11;
    regs.r12 = frame.r12;
    regs.r13 = frame.r13;
    regs.r14 = frame.r14;
    regs.r15 = frame.r15;
    regs.rdi = frame.rdi;
    regs.rsi = frame.rsi;
    regs.rbp = frame.rbp;
    regs.rbx = frame.rbx;
    regs.rdx = frame.rdx;
    regs.rax = frame.rax;
    regs.rcx = frame.rcx;
    regs.rsp = frame.rsp;
    regs.rflags = frame.rflags;
    regs.rip = rip;
    if regs.fpstate != 0 {
        // SAFETY: the kernel's floating-point state, which holds at least the legacy area, and
        // the xsave header when the magic says so.
        unsafe {
            let to = (regs.fpstate + fp::XMM) as *mut u128;
            for (i, &xmm) in frame.xmm.iter().enumerate() {
                to.add(i).write_unaligned(xmm);
            }
            if ((regs.fpstate + fp::SOFTWARE) as *const u32).read() == fp::MAGIC {
                *((regs.fpstate + fp::XSTATE_BV) as *mut u64) |= fp::SSE;
            }
        }
    }
}

/// Delivers the signal that hit while a call was being recorded, at the end of that call.
#[cold]
pub fn deliver_held(context: &mut Context) {
    if context.held_frame == POSTPONED {
        context.held_frame = 0;
        context.update_fault_safety();
        sys::set_mask(real_mask(context.mask));
        return;
    }
    if context.held_frame == waiting::SOME_WAIT {
        waiting::leave_with_waiting(context, true);
    }
    let (uc, info) = take_held(context);
    set_after_call(context, uc);
    let base = context.call_mask.take().unwrap_or(context.mask);
    leave_held(context, uc, info, base);
}

/// Undoes a call and delivers the signal that hit while the stream was being changed.
#[cold]
pub fn undo_and_deliver_held(context: &mut Context) {
    if context.held_frame == POSTPONED {
        return; // blocked until the call has ended
    }
    if context.held_frame == waiting::SOME_WAIT {
        undo(context);
        waiting::leave_with_waiting(context, false);
    }
    let (uc, info) = take_held(context);
    undo(context);
    set_at_site(context, uc);
    context.slow = 0;
    let base = context.mask;
    leave_held(context, uc, info, base);
}

fn take_held(context: &mut Context) -> (&'static mut UContext, &'static [u8; 128]) {
    let frame = core::mem::take(&mut context.held_frame) as *mut SignalFrame;
    // SAFETY: the kernel's frame stays on the alternate stack while signals are masked.
    let frame = unsafe { &mut *frame };
    (&mut frame.context, &frame.info)
}

fn leave_held(context: &mut Context, uc: &mut UContext, info: &[u8; 128], base: u64) -> ! {
    let signal = context.held_signal;
    deliver(context, signal, info, uc, base);
    let frame = core::ptr::from_mut(uc) as u64 - 8;
    // SAFETY: the kernel's frame now holds the state to continue with.
    unsafe { entry::reenact_leave_by_frame(frame) }
}

/// At the start of an image, takes over the actions inherited for signals that are always ours.
pub fn start_image(context: &mut Context) {
    let ignored = context.slot.map_or(0, |slot| slot.exec_ignored.load(Ordering::Relaxed));
    for signal in ALWAYS_OURS {
        let mut kernel = replace_by_ours(signal);
        if ignored & signal_bit(signal) != 0 {
            kernel.handler = SIG_IGN;
        }
        // SAFETY: the process has one thread.
        unsafe { (*context.process().actions.get())[signal as usize] = kernel };
    }
}

/// Returns which of the signals that are always ours the program ignores; exec preserves that.
pub fn ignored_by_program(context: &Context) -> u64 {
    let actions = context.process().actions.get();
    let ignores = |signal: &u32| {
        // SAFETY: reads one word of the process's own table.
        unsafe { (*actions)[*signal as usize].handler == SIG_IGN }
    };
    ALWAYS_OURS.iter().filter(|signal| ignores(signal)).fold(0, |all, &s| all | signal_bit(s))
}

/// For an exec that is not followed: makes the kernel ignore these signals (`over`), or reinstalls
/// the agent's handlers.
pub fn hand_over_ignored(context: &Context, over: bool) {
    if sys::denies(needed::ACTIONS) {
        return;
    }
    let ignored = ignored_by_program(context);
    for signal in ALWAYS_OURS.into_iter().filter(|&signal| ignored & signal_bit(signal) != 0) {
        if over {
            set_action(signal, &Action { handler: SIG_IGN, ..Action::default() });
        } else {
            install_ours(signal, &Action::default());
        }
    }
}

/// Switches between open and masking handlers, as the filters require.
pub fn reinstall(context: &Context) {
    let process = context.process();
    let actions = process.actions.get();
    process.lock.with(|| {
        for signal in 1..=64 {
            // SAFETY: the table is accessed under its lock.
            let action = unsafe { &(*actions)[signal as usize] };
            if action.handler > SIG_IGN || ALWAYS_OURS.contains(&signal) {
                install_ours(signal, action);
            }
        }
    });
}

/// Resets the actions of a child whose handlers the kernel has reset.
pub fn clear_handlers(context: &mut Context) {
    // SAFETY: the child has a table of its own.
    for action in unsafe { &mut *context.process().actions.get() } {
        let handler = if action.handler == SIG_IGN { SIG_IGN } else { SIG_DFL };
        *action = Action { handler, ..Action::default() };
    }
    if sys::is_quiet() {
        return; // the child's calls raise no SIGSYS, and a filter may forbid ours
    }
    for signal in ALWAYS_OURS {
        install_ours(signal, &Action::default());
    }
}

/// Registers the agent's alternate stack for this thread with the kernel.
pub fn install_altstack(context: &Context) {
    let stack = AltStack {
        sp: context.area().altstack_address(),
        flags: 0,
        size: crate::context::ALTSTACK_BYTES as u64,
    };
    sys::call(raw::__NR_sigaltstack, [&raw const stack as u64, 0, 0, 0, 0, 0]);
}

/// Returns true if another thread is in a slow call that returns to this site.
pub fn site_in_flight(site: u64, except: &Context) -> bool {
    let space = space();
    let used = space.areas_used.load(Ordering::Acquire) as usize;
    let others = space.areas[..used.min(space.areas.len())].iter();
    let first = core::ptr::from_ref(&space.first) as u64;
    others.map(|area| area.load(Ordering::Acquire)).chain([first]).any(|area| {
        if area == 0 {
            return false;
        }
        // SAFETY: areas are never unmapped.
        let context = unsafe { &(*(area as *const crate::context::ThreadArea)).context };
        !core::ptr::eq(context, except)
            && context.area_state.load(Ordering::Relaxed) == crate::context::area::USED
            && context.slow_site.load(Ordering::SeqCst) == site
    })
}
