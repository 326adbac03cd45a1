//! Unrecorded threads in processes whose filters deny what the agent needs.
//!
//! Their calls are not intercepted: a patched site leads to its stub, and from there to the
//! `syscall` instruction in it. Signals that the agent handles are passed to the program's handlers
//! at once, with the kernel's own frame. All such threads of a process share what `%gs` points to.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use syscalls::abi::signals::{SIG_DFL, SIG_IGN};

use crate::actions::set_action;
use crate::arch::frames::{Frame, UContext};
use crate::arch::head::{WORDS_BELOW, Words};
use crate::arch::places::{end_access, in_agent_text};
use crate::arch::{access, entry_quiet};
use crate::context::{Context, Process, current_process};
use crate::needs::{Need, needed};
use crate::signal::{ALWAYS_OURS, Action, FAULTS, Info, forced_by};
use crate::{memory, sigcalls, sys, tracing};

/// Index for threads beside recorded ones: the process's actions are in the agent's table.
pub const BESIDE_US: usize = 0;
/// Index for threads of a process without recorded threads.
pub const ALONE: usize = 1;

/// Prepares what such threads need, for as long as the process lives.
pub fn prepare(process: &Process) {
    if process.natives[BESIDE_US].native.get() != 0 {
        return;
    }
    let at = core::ptr::from_ref(process).cast_mut().cast();
    let entries = [entry_quiet::native_beside_us(), entry_quiet::native_alone()];
    for (native, entry) in process.natives.iter().zip(entries) {
        native.this.set(core::ptr::from_ref(native).cast_mut());
        native.entry.set(entry);
        native.process.set(at);
        native.native.set(1);
    }
    // These threads use the table too and are not counted, so it is never freed.
    process.users.fetch_add(1, Ordering::AcqRel);
}

/// Resets a new process that shares memory: it has no such threads yet.
pub fn forget(process: &Process) {
    process.natives.iter().for_each(|native| native.native.set(0));
}

/// Creates a thread, or a process that shares memory, which is unrecorded from the start.
pub fn make(context: &Context, frame: &Frame, stack: u64, which: usize) -> i64 {
    let process = context.process();
    prepare(process);
    let words = Words {
        mask: context.mask.get(),
        sets_mask: u64::from(!sys::denies(needed::MASKS)),
        native: &raw const process.natives[which],
        resume: context.resume.get(),
    };
    let top = if stack == 0 { frame.stack() } else { stack };
    // Without memory there the thread would die anyway.
    memory::write(context, top.wrapping_sub(WORDS_BELOW), &words);
    // SAFETY: the program asked for this call, and the child's `Words` are in place.
    unsafe { entry_quiet::make_native(frame, stack != 0) }
}

/// Makes a forked child, which has only this thread, leave the agent as an unrecorded thread. The
/// kernel gets the program's signal actions instead of the agent's.
pub fn become_one(context: &Context) {
    let process = context.process();
    prepare(process);
    if !sys::denies(needed::ACTIONS) {
        for (signal, action) in process.actions.handled() {
            set_action(signal, &action);
        }
    }
    if !sys::denies(needed::STACKS) {
        let stack = context.altstack.as_ptr() as u64;
        sys::call(Need::SetStack, [stack, 0, 0, 0, 0, 0]);
    }
    context.scratch.set(context.resume.get());
    context.resume.set(entry_quiet::go_native());
    context.next_native.set(&raw const process.natives[ALONE] as u64);
}

/// Returns 1 if a traced thread was interrupted outside the agent: it counts as unrecorded then.
#[unsafe(export_name = "reenact_is_left_alone")]
pub extern "C" fn is_left_alone(uc: &mut UContext) -> u32 {
    u32::from(tracing::is_left_alone_at(uc))
}

/// The kernel's signal handler in such a thread. Returns where to continue; 0: where it was.
#[unsafe(export_name = "reenact_handle_native_signal")]
pub extern "C" fn on_signal(signal: u32, info: &Info, uc: &mut UContext) -> u64 {
    if (signal == raw::SIGSEGV || signal == raw::SIGBUS) && end_access(uc) {
        return 0;
    }
    // The lock is not taken: this thread may hold it.
    let actions = &current_process().actions;
    let action = actions.get(signal);
    let forced = forced_by(signal, info, uc.address(), in_agent_text).is_some();
    if action.handler == SIG_IGN && !forced {
        return 0;
    }
    if action.handler <= SIG_IGN {
        die_of(signal, forced, uc);
        return 0;
    }
    let Action { handler, restorer, flags, .. } = action;
    if flags & u64::from(raw::SA_RESETHAND) != 0 {
        actions.set_handler(signal, SIG_DFL);
        if !ALWAYS_OURS.contains(&signal) && !sys::denies(needed::ACTIONS) {
            set_action(signal, &Action { handler: SIG_DFL, ..action });
        }
    }
    // SAFETY: the kernel's frame begins with the return address of the handler.
    unsafe { uc.set_restorer(restorer) };
    handler
}

/// Applies the default action of a signal.
fn die_of(signal: u32, forced: bool, uc: &mut UContext) {
    let denied = sys::denies(needed::ACTIONS);
    if denied || set_action(signal, &Action::default()) != 0 {
        uc.crash(entry_quiet::fault());
    } else if !forced || signal == raw::SIGSYS {
        let pid = u64::from(sys::getpid());
        let tid = u64::from(sys::gettid());
        sys::call(Need::SendSignal, [pid, tid, u64::from(signal), 0, 0, 0]);
    }
}

/// rt_sigaction in a process with recorded threads: its actions are in the agent's table.
#[unsafe(export_name = "reenact_handle_native_action")]
pub extern "C" fn on_sigaction(signal: u64, new: u64, old: u64, size: u64) -> i64 {
    if sys::denies(needed::ACTIONS) {
        return sys::call(Need::SetAction, [signal, new, old, size, 0, 0]);
    }
    let masked = !sys::denies(needed::MASKS);
    let mask = if masked { sys::set_mask(!FAULTS) } else { 0 };
    let ret = sigcalls::act(current_process(), [signal, new, old, size, 0, 0], |at| {
        let mut action = Action::default();
        let to = (&raw mut action).cast();
        // SAFETY: `to` is a local variable; a fault at `at` is caught.
        let missing = unsafe { access::reenact_copy(to, at, size_of::<Action>() as u64) };
        (missing == 0).then_some(action)
    });
    if masked {
        sys::set_mask(mask);
    }
    ret
}
