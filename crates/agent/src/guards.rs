//! Calls that could disable the agent: filters, Syscall User Dispatch, `%gs`.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use linux_raw_sys::{prctl, ptrace};
use syscalls::Handler;
use syscalls::abi::{
    errno,
    tasks::{ARCH_GET_GS, ARCH_SET_GS},
};

use crate::actions::{self, queue_to_self};
use crate::arch::frames::{AUDIT_ARCH, AUDIT_ARCH_OLD, CALL_BYTES, Frame};
use crate::arch::head::{phase, slow};
use crate::arch::own_gs;
use crate::call::{Call, enter, exit};
use crate::context::{Context, Dispatch, mask_all};
use crate::needs::needed;
use crate::{clock, filter, masked, memory, snapshot, sys, users};

const EINVAL: i64 = errno::result(errno::EINVAL);
const EFAULT: i64 = errno::result(errno::EFAULT);
const SIGINFO_WORDS: usize = 16;

/// Handles prctl, seccomp and arch_prctl.
pub fn call(context: &Context, call: &Call) {
    let (handler, args) = (call.row.handler, call.args);
    enter(context, call, 0);
    let virtual_result = match (handler, args[0] as u32) {
        (Handler::Prctl, prctl::PR_SET_SYSCALL_USER_DISPATCH) => Some(set_dispatch(context, args)),
        (Handler::ArchPrctl, ARCH_SET_GS) => return own_gs::set(context, call),
        (Handler::ArchPrctl, ARCH_GET_GS) => {
            Some(if memory::write(context, args[1], &0u64) { 0 } else { EFAULT })
        }
        _ => None,
    };
    let filter = filter_of(call);
    let denied = match filter {
        Some(Filter::Program(at)) => filter::denied(context, at),
        Some(Filter::Strict) => needed::ANY,
        None => 0,
    };
    let hinders_helpers = denied & needed::HELPERS;
    let needs_helpers = || snapshot::is_on(context) || users::may_change();
    let quiet = if hinders_helpers != 0 && needs_helpers() { needed::OTHERS } else { 0 };
    // Helpers find out about other threads before the call.
    let denied = denied & !needed::HELPERS | quiet;
    let strict = matches!(filter, Some(Filter::Strict));
    let sets_clock = handler == Handler::Prctl && args[0] as u32 == prctl::PR_SET_TSC;
    let clockless_before = context.clockless.get();
    if strict || sets_clock && args[1] as u32 == prctl::PR_TSC_SIGSEGV {
        // Set before the call: right after it, reading the counter is a fault.
        clock::note();
        context.set_clockless(true);
    }
    let denied_before = context.process().denied.bits.load(Ordering::Relaxed);
    if denied & !denied_before != 0 {
        // Set before the call: a signal right after it must find the agent quiet.
        deny(context, denied_before | denied);
        if handler == Handler::Seccomp
            && args[1] & u64::from(ptrace::SECCOMP_FILTER_FLAG_TSYNC) != 0
        {
            masked::wait_for_others(context);
        }
    }
    let ret = match virtual_result {
        Some(ret) => {
            context.phase.set(phase::IN_CALL);
            ret
        }
        None => call.make(),
    };
    if (strict || sets_clock) && ret != 0 {
        context.set_clockless(clockless_before);
    } else if sets_clock && args[1] as u32 == prctl::PR_TSC_ENABLE {
        context.set_clockless(false);
    }
    if filter.is_some() && is_installed(call, ret) {
        context.process().filtered.set(true);
        context.process().denied.bits.fetch_or(hinders_helpers, Ordering::Relaxed);
    } else if denied & !denied_before != 0 {
        deny(context, denied_before);
    }
    exit(context, call, ret);
}

/// Sets what filters deny the agent. When it becomes quiet, or is not any more, the handlers are
/// reinstalled, while no filter can object.
fn deny(context: &Context, denied: u32) {
    let process = context.process();
    let before = process.denied.bits.load(Ordering::Relaxed);
    if (before & needed::ALL == 0) == (denied & needed::ALL == 0) {
        process.denied.bits.store(denied, Ordering::Relaxed);
        return;
    }
    let mask = sys::set_mask_whatever(mask_all(context));
    process.denied.bits.store(denied, Ordering::Relaxed);
    actions::reinstall(context);
    sys::set_mask_whatever(mask);
}

/// A filter that the program installs.
enum Filter {
    /// A `struct sock_fprog` at this address.
    Program(u64),
    /// Strict mode: only read, write, exit and sigreturn.
    Strict,
}

fn filter_of(call: &Call) -> Option<Filter> {
    let args = call.args;
    match (call.row.handler, args[0] as u32, args[1] as u32) {
        // Fails because of its arguments: a probe for the call, made even while other threads run.
        (Handler::Seccomp, ptrace::SECCOMP_SET_MODE_STRICT, flags)
            if (flags, args[2]) != (0, 0) =>
        {
            None
        }
        (Handler::Seccomp, ptrace::SECCOMP_SET_MODE_STRICT, _)
        | (Handler::Prctl, prctl::PR_SET_SECCOMP, ptrace::SECCOMP_MODE_STRICT) => {
            Some(Filter::Strict)
        }
        (Handler::Seccomp, ptrace::SECCOMP_SET_MODE_FILTER, _)
        | (Handler::Prctl, prctl::PR_SET_SECCOMP, ptrace::SECCOMP_MODE_FILTER) => {
            Some(Filter::Program(args[2]))
        }
        _ => None,
    }
}

/// Returns true if the call installed a filter. A positive result is the descriptor of a listener
/// if the call asks for one, otherwise the thread that could not be synchronised.
fn is_installed(call: &Call, ret: i64) -> bool {
    let listens = call.row.handler == Handler::Seccomp
        && call.args[1] & u64::from(ptrace::SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0;
    ret == 0 || listens && ret > 0
}

/// Emulates the program's dispatch, see [`dispatched`]: the agent uses the kernel's.
fn set_dispatch(context: &Context, args: &[u64; 6]) -> i64 {
    let [_, mode, start, len, selector, _] = *args;
    match mode as u32 {
        prctl::PR_SYS_DISPATCH_OFF if start != 0 || len != 0 || selector != 0 => EINVAL,
        prctl::PR_SYS_DISPATCH_OFF => {
            context.dispatch.set(None);
            context.attention.set(context.deferred.get() != 0);
            0
        }
        prctl::PR_SYS_DISPATCH_ON
            if start != 0 && start.checked_add(len).is_none_or(|e| e <= start) =>
        {
            EINVAL
        }
        prctl::PR_SYS_DISPATCH_ON
            if selector != 0 && memory::read::<u8>(context, selector).is_none() =>
        {
            EFAULT
        }
        prctl::PR_SYS_DISPATCH_ON => {
            context.dispatch.set(Some(Dispatch { start, len, selector }));
            context.attention.set(true);
            0
        }
        _ => EINVAL,
    }
}

/// Returns true if the program's dispatch turns this call into a SIGSYS, which is sent then.
#[cold]
pub fn dispatched(context: &Context, frame: &Frame, dispatch: Dispatch) -> bool {
    let allowed =
        context.site.get().wrapping_add(CALL_BYTES).wrapping_sub(dispatch.start) < dispatch.len;
    if allowed {
        return false;
    }
    if dispatch.selector != 0 && memory::read::<u8>(context, dispatch.selector) == Some(0) {
        return false;
    }
    let mut info = [0u32; SIGINFO_WORDS * 2];
    let address = context.site.get() + CALL_BYTES;
    info[0] = raw::SIGSYS;
    info[2] = raw::SYS_USER_DISPATCH;
    info[4] = address as u32;
    info[5] = (address >> 32) as u32;
    info[6] = frame.number() as u32;
    if context.slow.get() == slow::INT_80 {
        info[7] = AUDIT_ARCH_OLD;
        frame.preserve(context.old_rcx.get(), context.old_r11.get());
    } else {
        info[7] = AUDIT_ARCH;
        frame.leave_address(address);
    }
    // The signal arrives at once and is held: the handler sees the state after the call, with the
    // call number still in its register.
    context.phase.set(phase::IN_CALL);
    actions::expose(context, raw::SIGSYS);
    queue_to_self(context, raw::SIGSYS, info.as_ptr() as u64);
    context.phase.set(context.running.get());
    true
}
