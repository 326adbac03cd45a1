//! The program's calls about signals: actions, masks and alternate stacks are virtual.

use linux_raw_sys::general as raw;
use syscalls::abi::errno;
use syscalls::abi::signals::SA_KNOWN;

use crate::actions::{exchange_action, is_ours, kernel_action, queue_to_self};
use crate::arch::frames::{AltStack, Frame, UContext};
use crate::arch::head::phase;
use crate::arch::{access, entry};
use crate::call::{Call, enter, exit};
use crate::context::{Context, Process, current, mask_all};
use crate::needs::needed;
use crate::signal::{Action, UNBLOCKABLE, on_altstack, real_mask, shown_altstack, signal_bit};
use crate::stream::Stream;
use crate::threads::{install_altstack, own_altstack};
use crate::{memory, rings, signals, sites, sys};

const EFAULT: i64 = errno::result(errno::EFAULT);
const EINVAL: i64 = errno::result(errno::EINVAL);
const ENOMEM: i64 = errno::result(errno::ENOMEM);
const EPERM: i64 = errno::result(errno::EPERM);
const MINSIGSTKSZ: u64 = 2048;

/// rt_sigaction: the program's actions are kept in the agent's table.
pub fn sigaction(context: &Context, call: &Call) {
    enter(context, call, 0);
    // A signal waits for the end of the call, and so for that of the lock.
    context.phase.set(phase::IN_CALL);
    let refused = refused_action(call);
    let change = || act(context.process(), *call.args, |at| memory::read(context, at));
    // Only now: a signal at the program's own call gives that call up.
    let ret = refused.unwrap_or_else(|| Stream::while_busy(context, change));
    exit(context, call, ret);
}

/// What a filter answers, if it may refuse the call: asked by a call of the program that changes nothing.
fn refused_action(call: &Call) -> Option<i64> {
    if !sys::denies(needed::ACTIONS) {
        return None;
    }
    let mut kernel = Action::default();
    let ret = call.make_with(&[call.args[0], 0, &raw mut kernel as u64, 8, 0, 0]);
    core::hint::black_box(&kernel);
    (ret < 0).then_some(ret)
}

/// rt_sigaction on a table, with a function that reads program memory.
pub fn act(
    process: &Process,
    [signal, new, old, set_bytes, ..]: [u64; 6],
    read: impl Fn(u64) -> Option<Action>,
) -> i64 {
    if set_bytes != 8 {
        return EINVAL;
    }
    let new_action = if new == 0 {
        None
    } else {
        match read(new) {
            Some(action) => Some(action),
            None => return EFAULT,
        }
    };
    let number = signal as u32;
    let unblockable = number == raw::SIGKILL || number == raw::SIGSTOP;
    if !(1..=64).contains(&number) || (unblockable && new != 0) {
        return EINVAL;
    }
    process.lock.with(|()| {
        let actions = &process.actions;
        let previous = actions.get(number);
        let ours = new_action.map(|mut action| {
            action.flags &= SA_KNOWN;
            action.mask &= !UNBLOCKABLE;
            actions.set(number, &action);
            kernel_action(number, &action)
        });
        // The kernel also finds out whether there is memory for the old one.
        let ret = exchange_action(number, ours.as_ref(), old);
        if ret == 0 && old != 0 {
            show_previous(old, &previous);
        } else if ret != 0 && ret != EFAULT {
            // A filter refuses it.
            actions.set(number, &previous);
        }
        ret
    })
}

/// Replaces an action that the kernel has written for the program by that of the table, if it leads to
/// the agent.
fn show_previous(at: u64, previous: &Action) {
    let mut kernel = Action::default();
    let bytes = size_of::<Action>() as u64;
    let [read, written] = [(&raw mut kernel).cast(), at as *mut u8];
    // SAFETY: the kernel has just written to this memory; the other side is local.
    unsafe {
        if access::reenact_copy(read, at, bytes) == 0 && is_ours(kernel.handler) {
            access::reenact_copy(written, core::ptr::from_ref(previous) as u64, bytes);
        }
    }
}

/// rt_sigprocmask: SIGSYS stays deliverable, but the program sees the mask that it asked for.
pub fn sigprocmask(context: &Context, call: &Call) {
    enter(context, call, 0);
    let [how, new, old, set_bytes, ..] = *call.args;
    let set = if new == 0 { Some(0) } else { memory::read::<u64>(context, new) };
    let (Some(set), true) = (set, set_bytes == 8) else {
        let ret = call.make();
        return exit(context, call, ret);
    };
    let real = real_mask(set);
    let mut real_old = 0u64;
    let at = if new == 0 { 0 } else { &raw const real as u64 };
    let mut ret = call.make_with(&[how, at, &raw mut real_old as u64, 8, 0, 0]);
    if ret == 0 {
        let before = context.mask.get();
        if new != 0 {
            let asked = match how as u32 {
                raw::SIG_BLOCK => before | set,
                raw::SIG_UNBLOCK => before & !set,
                _ => set,
            };
            context.mask.set(asked & !UNBLOCKABLE);
            context.update_fault_safety();
            release_sigsys(context);
        }
        if old != 0 && !memory::write(context, old, &before) {
            ret = EFAULT;
        }
    }
    exit(context, call, ret);
}

/// Resends a pending SIGSYS once the program does not block it any more.
fn release_sigsys(context: &Context) {
    if context.mask.get() & signal_bit(raw::SIGSYS) == 0
        && let Some(info) = context.take_sigsys()
    {
        queue_to_self(context, raw::SIGSYS, info.as_ptr() as u64);
    }
}

/// rt_sigpending: reports a pending SIGSYS too.
pub fn sigpending(context: &Context, call: &Call) {
    enter(context, call, 0);
    let ret = call.make();
    // The kernel writes as many bytes as asked for; the bit of SIGSYS is in the fourth.
    let at = call.args[0].wrapping_add(3);
    if ret == 0
        && call.args[1] > 3
        && context.pending_sigsys.get().is_some()
        && let Some(set) = memory::read::<u8>(context, at)
    {
        memory::write(context, at, &(set | (signal_bit(raw::SIGSYS) >> 24) as u8));
    }
    exit(context, call, ret);
}

/// sigaltstack: the kernel has the agent's stack; the program's is kept here.
pub fn sigaltstack(context: &Context, frame: &Frame, call: &Call) {
    enter(context, call, 0);
    context.phase.set(phase::IN_CALL);
    if sys::denies(needed::STACKS) {
        // Ask the filter, by the program's own call. If it succeeds, register our stack again.
        let ret = call.make();
        if ret < 0 {
            return exit(context, call, ret);
        }
        install_altstack(context);
    }
    let ret = change_altstack(context, call.args[0], call.args[1], frame.stack());
    exit(context, call, ret);
}

fn change_altstack(context: &Context, new: u64, old: u64, rsp: u64) -> i64 {
    let shown = shown_altstack(&context.altstack.get(), rsp);
    if new != 0 {
        let Some(asked) = memory::read::<AltStack>(context, new) else { return EFAULT };
        let ret = set_altstack(context, asked, rsp);
        if ret != 0 {
            return ret;
        }
    }
    if old != 0 && !memory::write(context, old, &shown) {
        return EFAULT;
    }
    0
}

fn set_altstack(context: &Context, mut asked: AltStack, rsp: u64) -> i64 {
    asked.padding = 0;
    if on_altstack(&context.altstack.get(), rsp) {
        return EPERM;
    }
    let mode = asked.flags & !raw::SS_AUTODISARM;
    if mode != raw::SS_DISABLE && mode != raw::SS_ONSTACK && mode != 0 {
        return EINVAL;
    }
    if asked == context.altstack.get() {
        return 0;
    }
    if mode == raw::SS_DISABLE {
        asked.sp = 0;
        asked.size = 0;
    } else if asked.size < MINSIGSTKSZ {
        return ENOMEM;
    }
    context.altstack.set(asked);
    0
}

/// Calls that set a signal mask for as long as they wait.
pub fn wait(context: &Context, call: &Call, mask: u8, in_pair: bool) {
    rings::before_wait(context);
    enter(context, call, 0);
    let mut args = *call.args;
    let mut real = 0u64;
    let mut pair = [0u64; 2];
    let index = usize::from(mask);
    let mut set_at = args[index];
    if in_pair && set_at != 0 {
        match memory::read::<[u64; 2]>(context, set_at) {
            Some(words) => {
                pair = words;
                set_at = words[0];
            }
            None => set_at = 0,
        }
    }
    if set_at != 0
        && let Some(asked) = memory::read::<u64>(context, set_at)
    {
        context.call_mask.set(Some(asked));
        real = real_mask(asked);
        if in_pair {
            pair[0] = &raw const real as u64;
            args[index] = pair.as_ptr() as u64;
        } else {
            args[index] = &raw const real as u64;
        }
    }
    let ret = call.make_with(&args);
    core::hint::black_box((&real, &pair));
    exit(context, call, ret);
    if context.held_frame.get() == 0 {
        context.call_mask.set(None);
    }
}

/// The signal mask that such a call sets.
pub fn mask_of_wait(context: &Context, call: &Call, mask: u8, in_pair: bool) -> Option<u64> {
    let set_at = call.args[usize::from(mask)];
    let set_at = if in_pair { memory::read::<u64>(context, set_at)? } else { set_at };
    memory::read::<u64>(context, set_at).filter(|_| set_at != 0)
}

/// rt_sigreturn: made on a copy of the program's frame that has the agent's mask and alternate
/// stack. The frame itself may be in read-only memory.
pub fn sigreturn(context: &Context, frame: &Frame, call: &Call) {
    enter(context, call, 0);
    sys::set_mask(mask_all(context));
    context.phase.set(phase::IN_CALL);
    context.before_return.set((context.mask.get(), context.altstack.get()));
    let Some(mut uc) = memory::read::<UContext>(context, frame.stack()) else {
        exit(context, call, 0);
        context.slow.set(0);
        // SAFETY: the ucontext is unreadable, for which the kernel sends SIGSEGV.
        unsafe { entry::reenact_sigreturn(frame.stack()) }
    };
    let mask = uc.sigmask & !UNBLOCKABLE;
    exit(context, call, uc.result() as i64);
    context.phase.set(phase::IN_CALL);
    context.mask.set(mask);
    release_sigsys(context);
    // Ignores errors, as the kernel does.
    set_altstack(context, uc.stack, frame.stack());
    uc.stack = own_altstack(context);
    uc.sigmask = real_mask(mask);
    uc.set_address(sites::real_address(uc.address()));
    context.update_fault_safety();
    if context.held_frame.get() != 0 {
        // Signals could not be masked: deliver this one first, then repeat the call.
        context.forget_return();
        signals::leave_with_waiting(context, false);
    }
    context.slow.set(0);
    // SAFETY: the copy outlives the call, which does not return; the floating-point state that it
    // points to is the program's.
    unsafe { entry::reenact_sigreturn(&raw const uc as u64) }
}

/// Continues after a filter has answered rt_sigreturn, as after any other call.
#[unsafe(export_name = "reenact_handle_refused")]
pub extern "C" fn on_refused(ret: i64) -> ! {
    let context = current();
    context.forget_return();
    context.phase.set(context.running.get());
    sys::set_mask(real_mask(context.mask.get()));
    let frame = context.frame();
    frame.set_result(ret as u64);
    if context.held_frame.get() != 0 {
        signals::deliver_held(context);
    }
    // SAFETY: the frame is complete and has the call's result.
    unsafe { entry::reenact_leave(frame) }
}
