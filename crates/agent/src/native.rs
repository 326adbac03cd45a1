//! Threads that are not recorded because of a filter: nothing of ours is in their way.
//!
//! Their calls are not caught. A patched site leads to its stub and from there to the `syscall`
//! instruction that the stub has for them; signals that the agent is the handler of go to the
//! program's handlers at once, by the kernel's own frame. All of them share what `%gs` points to.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;

use crate::context::{Action, AltStack, Context, FAULTS, Frame, Process, current};
use crate::deliver::{Registers, UContext, is_forced, set_action};
use crate::signals::{ALWAYS_OURS, SIG_DFL, SIG_IGN};
use crate::sys::needed;
use crate::{entry, entry_quiet, memory, sigcalls, sys, tracing};

/// What `%gs` of such threads points to: it begins as [`Context`] does.
#[repr(C)]
pub struct Native {
    this: *const Native,
    pub entry: u64,
    pub native: u64,
    pub process: *mut Process,
}

/// The threads of a process of which others are recorded: its actions are in our table.
pub const BESIDE_US: usize = 0;
/// Those of a process of which none is.
pub const ALONE: usize = 1;

/// Prepares what such threads need, for as long as the process lives.
pub fn prepare(process: &mut Process) {
    if process.natives[BESIDE_US].native != 0 {
        return;
    }
    let at = core::ptr::from_mut(process);
    let entries = [entry_quiet::native_beside_us(), entry_quiet::native_alone()];
    for (native, entry) in process.natives.iter_mut().zip(entries) {
        *native = Native { this: core::ptr::from_ref(native), entry, native: 1, process: at };
    }
    // The table is theirs too, and nobody counts them.
    process.users.fetch_add(1, Ordering::AcqRel);
}

/// In a new process that shares our memory: it has none of these yet.
pub fn forget(process: &mut Process) {
    process.natives.iter_mut().for_each(|native| native.native = 0);
}

/// What a new thread finds below the red zone of its stack. Its first instructions read it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Words {
    mask: u64,
    sets_mask: u64,
    native: *const Native,
    resume: u64,
}
pub const WORDS_BELOW: u64 = 160;
const _: () = assert!(size_of::<Words>() as u64 + 128 == WORDS_BELOW);

/// Makes a thread, or a process that shares our memory, which starts as one of these.
pub fn make(context: &mut Context, frame: &Frame, stack: u64, which: usize) -> i64 {
    let process = context.process();
    prepare(process);
    let words = Words {
        mask: context.mask,
        sets_mask: u64::from(!sys::denies(needed::MASKS)),
        native: &raw const process.natives[which],
        resume: context.resume,
    };
    let top = if stack == 0 { frame.rsp } else { stack };
    // Where it has no memory there the thread would die anyway.
    memory::write(context, top.wrapping_sub(WORDS_BELOW), &words);
    // SAFETY: the program's own call.
    unsafe { entry_quiet::make_native(frame, stack != 0) }
}

/// In a child with memory of its own, which has only this thread: it leaves the agent as one of
/// these, and what is ours of its signals becomes the program's.
pub fn become_one(context: &mut Context) {
    let process = context.process();
    prepare(process);
    if !sys::denies(needed::ACTIONS) {
        let actions = process.actions.get();
        for signal in 1..=64 {
            // SAFETY: the process has no other thread.
            let action = unsafe { &(*actions)[signal as usize] };
            if action.handler > SIG_IGN || ALWAYS_OURS.contains(&signal) {
                set_action(signal, action);
            }
        }
    }
    if !sys::denies(needed::STACKS) {
        let stack = &raw const context.altstack as u64;
        sys::call(raw::__NR_sigaltstack, [stack, 0, 0, 0, 0, 0]);
    }
    context.scratch = context.resume;
    context.resume = entry_quiet::go_native();
    context.next_native = &raw const process.natives[ALONE] as u64;
}

/// Whether a thread that is traced was interrupted outside of the agent: then it is like these.
pub extern "C" fn is_left_alone(uc: &mut UContext) -> u32 {
    u32::from(tracing::is_left_alone_at(uc))
}

/// The kernel's handler in such a thread: where to go on, or 0 for where it was.
pub extern "C" fn on_signal(signal: u32, info: &[u8; 128], uc: &mut UContext) -> u64 {
    let rip = uc.regs.rip;
    if (signal == raw::SIGSEGV || signal == raw::SIGBUS) && rip == entry::copy_insn() {
        uc.regs.rip = entry::copy_done();
        return 0;
    }
    let actions = current().process().actions.get();
    // SAFETY: an entry of the table. Its lock cannot be taken here: this thread may hold it.
    let action = unsafe { &mut (*actions)[signal as usize] };
    let forced = is_forced(signal, info, rip);
    if action.handler == SIG_IGN && !forced {
        return 0;
    }
    if action.handler <= SIG_IGN {
        die_of(signal, forced, uc);
        return 0;
    }
    let Action { handler, restorer, flags, .. } = *action;
    if flags & u64::from(raw::SA_RESETHAND) != 0 {
        action.handler = SIG_DFL;
        if !ALWAYS_OURS.contains(&signal) && !sys::denies(needed::ACTIONS) {
            set_action(signal, action);
        }
    }
    // SAFETY: the kernel's frame begins with the address that the handler returns to.
    unsafe { core::ptr::from_mut(uc).cast::<u64>().sub(1).write(restorer) };
    handler
}

/// The default action of a signal.
fn die_of(signal: u32, forced: bool, uc: &mut UContext) {
    let denied = sys::denies(needed::ACTIONS);
    if denied || set_action(signal, &Action::default()) != 0 {
        crash(&mut uc.regs, uc.stack);
    } else if !forced || signal == raw::SIGSYS {
        let pid = u64::from(sys::getpid());
        let tid = u64::from(sys::gettid());
        sys::call(raw::__NR_tgkill, [pid, tid, u64::from(signal), 0, 0, 0]);
    }
}

/// Lets the thread go on with a fault whose frame has no room: that is the end of the process,
/// whatever its handlers are. `stack` is the alternate stack that the kernel has for it.
pub fn crash(regs: &mut Registers, stack: AltStack) {
    // Still on that stack below the red zone, or the kernel would begin it anew.
    regs.rsp = if stack.size == 0 { 16 } else { stack.sp + 256 };
    regs.rip = entry_quiet::fault();
}

/// rt_sigaction in a process of which other threads are recorded: the table has its actions.
pub extern "C" fn on_sigaction(signal: u64, new: u64, old: u64, size: u64) -> i64 {
    if sys::denies(needed::ACTIONS) {
        return sys::call(raw::__NR_rt_sigaction, [signal, new, old, size, 0, 0]);
    }
    let masked = !sys::denies(needed::MASKS);
    let mask = if masked { sys::set_mask(!FAULTS) } else { 0 };
    let ret = sigcalls::act(
        current().process(),
        [signal, new, old, size],
        |at| {
            let mut action = Action::default();
            let to = (&raw mut action).cast();
            // SAFETY: the action is ours; a fault is caught.
            let missing = unsafe { entry::reenact_copy(to, at, size_of::<Action>() as u64) };
            (missing == 0).then_some(action)
        },
        |at, action| {
            let from = core::ptr::from_ref(action) as u64;
            // SAFETY: as above.
            unsafe { entry::reenact_copy(at as *mut u8, from, size_of::<Action>() as u64) == 0 }
        },
    );
    if masked {
        sys::set_mask(mask);
    }
    ret
}
