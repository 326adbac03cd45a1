//! Signals: finish the call first, then deliver.
//!
//! The agent is the kernel's handler for every signal that the program handles. It runs on the
//! agent's alternate stack with everything masked, finds out where the signal hit, and either sets
//! the interrupted state to one that the program could be in and delivers at once, or holds the
//! kernel's frame until the current call is recorded:
//!
//! | where the signal hit | what happens |
//! |---|---|
//! | program code, or a stub | deliver |
//! | agent, the call not made | forget the record, set the state to the call site, deliver |
//! | at the call, the kernel wants it restarted | record that, set the state to the call site, deliver |
//! | agent, the call made but not recorded | hold; deliver with the state after the call |
//! | agent, the call recorded | set the state to that after the call, deliver |
//!
//! *Deliver* builds the frame that the kernel would have built, on the stack that the kernel would
//! have chosen, and leaves through the kernel's own frame into the handler. So no agent frame is
//! ever left suspended, and handlers may jump away as they like.

use core::sync::atomic::Ordering;

use events::record::{Header, RecordKind};
use linux_raw_sys::general as raw;

use crate::context::{
    Action, AltStack, Context, Frame, NO_CALL, current, phase, real_mask, signal_bit, slow, space,
};
use crate::deliver::{
    SYS_SECCOMP, SignalFrame, UContext, deliver, fp, install_ours, is_at_call, set_action, si_code,
};
use crate::stream::Stream;
use crate::sys::needed;
use crate::{call, clock, entry, entry_quiet, guards, sites, start, sys, tracing, waiting};

/// Signals whose kernel handler is ours, whatever the program wants.
pub const ALWAYS_OURS: [u32; 3] = [raw::SIGSYS, raw::SIGSEGV, raw::SIGBUS];
pub const SIG_DFL: u64 = 0;
pub const SIG_IGN: u64 = 1;
pub const SS_AUTODISARM: u32 = 1 << 31;

/// The kernel's restart code for an interrupted call that is made again.
const ERESTARTSYS: i64 = 512;

/// What the agent takes for the result of a call that a filter answers with SIGSYS.
const ENOSYS: i64 = 38;

/// In place of a held frame: signals wait, blocked, for the end of the current call.
const POSTPONED: u64 = 1;

/// The kernel's handler for what the program handles. Returns 0 to leave through the frame, 1 to
/// resume the agent's code and keep it, or the address of a handler that it is for as it is.
/// `open`: signals are not masked, see [`waiting`].
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
            // A call of our own.
            uc.regs.rax = -ENOSYS as u64;
        } else {
            waiting::add(context, signal, info, uc);
        }
        return 0;
    }
    let rip = uc.regs.rip;
    if (signal == raw::SIGSEGV || signal == raw::SIGBUS) && code <= 0 && on_own_stack(context, uc) {
        // Sent while another signal is being delivered: it waits until that is done.
        uc.sigmask |= signal_bit(signal);
        guards::queue_to_self(context, signal, core::ptr::from_ref(info) as u64);
        return 0;
    }
    let refused = signal == raw::SIGSYS && code == SYS_SECCOMP && is_at_call(info, rip);
    if refused && start::in_agent_text(rip) {
        // A filter refuses the call. For us it has failed; the handler sees its number as result.
        context.trapped = Some(uc.regs.rax);
        context.call_mask = None;
        uc.regs.rax = -ENOSYS as u64;
    }
    if signal == raw::SIGSYS && !refused && context.mask & signal_bit(signal) != 0 {
        // SAFETY: a siginfo of the kernel.
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
            // A fault now would overwrite the frame that is held.
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
        // Behind those that wait, for which there has been no chance yet.
        waiting::add(context, signal, info, uc);
        waiting::deliver_waiting(uc);
    } else {
        deliver(context, signal, info, uc, base_mask);
    }
    0
}

/// A debugger has this thread run a function in the middle of a call: what hits it waits until the
/// thread is back in that call, and the call has ended.
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

/// The entry code has hardly begun: as if the program had not reached the call yet.
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
/// The counter was forbidden since the thread's last look at what it may.
#[cold]
fn clock_is_forbidden(context: &Context, uc: &mut UContext) -> bool {
    // SAFETY: text of ours, which was about to be executed.
    if unsafe { (uc.regs.rip as *const [u8; 2]).read() } != RDTSC {
        return false;
    }
    let now = clock::without_counter(context);
    uc.regs.rax = now & 0xffff_ffff;
    uc.regs.rdx = now >> 32;
    uc.regs.rip += RDTSC.len() as u64;
    true
}

/// Whether the interrupted code was one of our handlers.
pub fn on_own_stack(context: &Context, uc: &UContext) -> bool {
    let stack = context.area().altstack_address();
    (stack..stack + crate::context::ALTSTACK_BYTES as u64).contains(&uc.regs.rsp)
}

/// The call was not made: as if the program had not reached it.
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

/// The kernel was in the call and will have it made again after the handler.
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
    // SAFETY: the frame of the current call.
    let frame = unsafe { &*context.frame };
    context.phase = context.running;
    set_from_frame(frame, uc, context.site);
    if context.slow == slow::INT_80 {
        uc.regs.rcx = context.old_rcx;
        uc.regs.r11 = context.old_r11;
    }
}

pub fn set_after_call(context: &mut Context, uc: &mut UContext) {
    // SAFETY: the frame of the current call.
    let frame = unsafe { &*context.frame };
    context.phase = context.running;
    set_from_frame(frame, uc, context.site + 2);
    if context.running == phase::LEFT_ALONE {
        // Nobody puts this right on the way back from the handler.
        uc.regs.rip = sites::real_address(uc.regs.rip);
    }
    if let Some(number) = context.trapped.take() {
        uc.regs.rax = number;
    }
}

/// The program's registers into the kernel's frame.
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

/// At the end of a call: the signal that hit while it was being recorded.
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

/// In the middle of a call that was not made: the signal that hit while the stream was changing.
#[cold]
pub fn undo_and_deliver_held(context: &mut Context) {
    if context.held_frame == POSTPONED {
        return; // until the call has ended
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
    // SAFETY: the kernel's frame, now with the state to go on with.
    unsafe { entry::reenact_leave_by_frame(frame) }
}

/// At the start of an image: what the program inherits for the signals that are always ours.
pub fn start_image(context: &mut Context) {
    let ignored = context.slot.map_or(0, |slot| slot.exec_ignored.load(Ordering::Relaxed));
    for signal in ALWAYS_OURS {
        let mut kernel = Action::default();
        let at = &raw mut kernel as u64;
        sys::call(raw::__NR_rt_sigaction, [u64::from(signal), 0, at, 8, 0, 0]);
        if ignored & signal_bit(signal) != 0 {
            kernel.handler = SIG_IGN;
        }
        // SAFETY: the process has one thread.
        unsafe { (*context.process().actions.get())[signal as usize] = kernel };
        install_ours(signal, &Action::default());
    }
}

/// Which of the signals that are always ours the program ignores: exec keeps that.
pub fn ignored_by_program(context: &Context) -> u64 {
    let actions = context.process().actions.get();
    let ignores = |signal: &u32| {
        // SAFETY: a word of the table.
        unsafe { (*actions)[*signal as usize].handler == SIG_IGN }
    };
    ALWAYS_OURS.iter().filter(|signal| ignores(signal)).fold(0, |all, &s| all | signal_bit(s))
}

/// For a program that is not followed: the kernel itself ignores these from now on, or our
/// handlers are back.
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

/// Makes our handlers open, or lets the kernel mask signals for them again, as filters demand it.
pub fn reinstall(context: &Context) {
    let process = context.process();
    let actions = process.actions.get();
    process.lock.with(|| {
        for signal in 1..=64 {
            // SAFETY: under the lock.
            let action = unsafe { &(*actions)[signal as usize] };
            if action.handler > SIG_IGN || ALWAYS_OURS.contains(&signal) {
                install_ours(signal, action);
            }
        }
    });
}

/// In a child whose handlers the kernel has reset.
pub fn clear_handlers(context: &mut Context) {
    // SAFETY: the child's own table.
    for action in unsafe { &mut *context.process().actions.get() } {
        let handler = if action.handler == SIG_IGN { SIG_IGN } else { SIG_DFL };
        *action = Action { handler, ..Action::default() };
    }
    if sys::is_quiet() {
        return; // no calls of the child's raise SIGSYS, and a filter may forbid ours
    }
    for signal in ALWAYS_OURS {
        install_ours(signal, &Action::default());
    }
}

/// Gives the kernel our alternate stack for this thread.
pub fn install_altstack(context: &Context) {
    let stack = AltStack {
        sp: context.area().altstack_address(),
        flags: 0,
        size: crate::context::ALTSTACK_BYTES as u64,
    };
    sys::call(raw::__NR_sigaltstack, [&raw const stack as u64, 0, 0, 0, 0, 0]);
}

/// Whether any thread of this address space is in a slow call that returns to this site.
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
