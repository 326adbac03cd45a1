//! Signal delivery: builds the frame that the kernel would have built, in the same place.

use linux_raw_sys::general as raw;
use syscalls::abi::signals::{SIG_DFL, SIG_IGN};
use syscalls::record::{Header, RecordKind, SIGINFO_BYTES};

use crate::actions::{set_action, take_action};
use crate::arch::entry_quiet;
use crate::arch::frames::UContext;
use crate::arch::places::in_agent_text;
use crate::context::Context;
use crate::needs::{Need, needed};
use crate::signal::{
    ALWAYS_OURS, Action, Forced, Info, NO_ALTSTACK, UNBLOCKABLE, fault_info, forced_by, lies_in,
    on_altstack, real_mask, set_call_address, shown_altstack, signal_bit,
};
use crate::stream::Stream;
use crate::sys;
use crate::{clock, memory, serial, sites};

/// Changes the kernel's frame, which holds the program's state, to lead into the program's handler;
/// or applies the signal's default action.
pub fn deliver(context: &Context, signal: u32, info: &Info, uc: &mut UContext, base_mask: u64) {
    context.call_mask.set(None);
    // In a call that was undone it was given up.
    serial::take(context);
    let mut info = *info;
    let forced = forced_by(signal, &info, uc.address(), in_agent_text);
    if forced == Some(Forced::BySystemCall) {
        set_call_address(&mut info, uc.address());
    }
    let action = take_action(context.process(), signal);
    if action.handler == SIG_IGN && forced.is_none() {
        uc.sigmask = real_mask(context.mask.get());
        uc.set_address(sites::real_address(uc.address()));
        return;
    }
    // Like the kernel: a forced signal kills a process that blocks or ignores it.
    let blocked = forced == Some(Forced::BySystemCall) && base_mask & signal_bit(signal) != 0;
    if action.handler <= SIG_IGN || blocked {
        die_of(context, signal, forced, uc);
        return;
    }
    if action.flags & u64::from(raw::SA_RESETHAND) != 0
        && !ALWAYS_OURS.contains(&signal)
        && !sys::denies(needed::ACTIONS)
    {
        set_action(signal, &Action { handler: SIG_DFL, ..action });
    }
    record_signal(context, signal, action.handler, &info);
    if push_frame(context, signal, &action, &info, uc).is_none() {
        fail(context, signal, uc, base_mask);
        return;
    }
    let own = if action.flags & u64::from(raw::SA_NODEFER) == 0 { signal_bit(signal) } else { 0 };
    context.mask.set((base_mask | action.mask | own) & !UNBLOCKABLE);
    uc.sigmask = real_mask(context.mask.get());
    context.update_fault_safety();
    if sys::is_quiet() && ALWAYS_OURS.contains(&signal) {
        // The kernel has masked nothing for these, and does not set the mask on return.
        sys::set_mask(uc.sigmask);
    }
}

/// Like the kernel: if a handler's frame does not fit, raises SIGSEGV. If SIGSEGV cannot be handled
/// either, kills the process.
fn fail(context: &Context, signal: u32, uc: &mut UContext, base_mask: u64) {
    let handler = context.process().actions.handler(raw::SIGSEGV);
    let blocked = context.mask.get() & signal_bit(raw::SIGSEGV) != 0;
    if signal == raw::SIGSEGV || blocked || handler <= SIG_IGN {
        die_of(context, raw::SIGSEGV, None, uc);
        return;
    }
    deliver(context, raw::SIGSEGV, &fault_info(), uc, base_mask);
}

/// Applies the default action of a signal that the kernel delivered to the agent.
fn die_of(context: &Context, signal: u32, forced: Option<Forced>, uc: &mut UContext) {
    uc.sigmask = real_mask(context.mask.get()) & !signal_bit(signal);
    uc.set_address(sites::real_address(uc.address()));
    if sys::is_quiet() {
        die_quietly(context, signal, forced, uc);
        return;
    }
    install_default(signal);
    if forced != Some(Forced::ByFault) {
        // A fault happens again by itself, at the right place; others are sent again.
        send_self(context, signal);
    }
}

/// Like `die_of`, where filters may deny its calls. For SIGSYS, their usual answer, it tries them.
fn die_quietly(context: &Context, signal: u32, forced: Option<Forced>, uc: &mut UContext) {
    let denied = sys::denies(needed::ACTIONS) && signal != raw::SIGSYS;
    if denied || install_default(signal) != 0 {
        uc.crash(entry_quiet::fault());
        return;
    }
    sys::set_mask(uc.sigmask);
    if signal == raw::SIGSEGV && forced.is_none() {
        uc.crash(entry_quiet::fault());
    } else if forced != Some(Forced::ByFault) {
        send_self(context, signal);
    }
}

fn send_self(context: &Context, signal: u32) {
    let (pid, tid) = (u64::from(context.process().pid.get()), u64::from(sys::gettid()));
    sys::call(Need::SendSignal, [pid, tid, u64::from(signal), 0, 0, 0]);
}

fn install_default(signal: u32) -> i64 {
    set_action(signal, &Action::default())
}

fn record_signal(context: &Context, signal: u32, handler: u64, info: &Info) {
    if context.silent.get() {
        return;
    }
    let mut words = [0u64; 3 + SIGINFO_BYTES / 8];
    let place = context.signal_place.take();
    words[0] = Header::new(RecordKind::Signal, signal as u8, place, 0).to_word();
    words[1] = clock::now(context);
    words[2] = handler;
    for (word, bytes) in words[3..].iter_mut().zip(info.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Stream::record(context, &words);
    Stream::publish(context);
}

/// Builds the handler's frame where the kernel would have, and points the state to the handler.
fn push_frame(
    context: &Context,
    signal: u32,
    action: &Action,
    info: &Info,
    uc: &mut UContext,
) -> Option<()> {
    if action.flags & u64::from(raw::SA_RESTORER) == 0 {
        return None;
    }
    let alt = context.altstack.get();
    let on_alt = on_altstack(&alt, uc.stack_pointer());
    let mut sp = uc.free_stack();
    let mut entering = false;
    if action.flags & u64::from(raw::SA_ONSTACK) != 0 && alt.size != 0 && !on_altstack(&alt, sp) {
        sp = alt.sp.wrapping_add(alt.size);
        entering = true;
    }
    let shown = shown_altstack(&alt, uc.stack_pointer());
    let built = uc.handler_frame(sp, action.restorer, shown, context.mask.get(), info);
    if (entering || on_alt) && !lies_in(&alt, built.at) {
        return None;
    }
    let state = built.state_from as *const u8;
    if memory::copy_out(context, built.state_at, state, built.state_bytes) != 0
        || !memory::write(context, built.at, &built.frame)
    {
        return None;
    }
    if alt.flags & raw::SS_AUTODISARM != 0 {
        context.altstack.set(NO_ALTSTACK);
    }
    uc.enter_handler(action.handler, signal, built.at);
    Some(())
}
