//! Where the program's calls arrive: each is handled as its row says.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use syscalls::Handler;
use syscalls::record::OLD_NUMBERS;

use crate::arch::frames::Frame;
use crate::arch::head::slow;
use crate::arch::{entry, old_calls};
use crate::call::{self, Call, enter, exit};
use crate::context::Context;
use crate::{
    aio, answered, cpu_area, deferred, exec, guards, locking, looking, mapped, maps, opening,
    ring_setup, ring_tables, rings, sigcalls, signals, status, tasks, tracing, users,
};

/// Entered from the assembly with the program's registers in `frame`. Leaves without a `ret`, which
/// would be mispredicted after a syscall.
#[unsafe(export_name = "reenact_handle_call")]
pub extern "C" fn on_call(frame: &Frame, context: &Context) -> ! {
    record(frame, context);
    // SAFETY: the frame is complete, and the call was made or answered.
    unsafe { entry::reenact_leave(frame) }
}

#[inline(always)]
fn record(frame: &Frame, context: &Context) {
    if context.slow.get() == 0 {
        context.slow_site.store(0, Ordering::Relaxed);
    }
    if context.attention.get() && attend(context, frame) {
        finish(context);
        return;
    }
    if context.slow.get() > slow::SYSCALL {
        unusual(context, frame);
        finish(context);
        return;
    }
    frame.leave_flags();
    let args = frame.args();
    let call = &Call::new(frame.number(), &args);
    match call.row.handler {
        Handler::Plain => call::plain(context, call),
        Handler::Settle { of } => {
            mapped::settle_of(context, call, of);
            call::plain(context, call);
        }
        Handler::WatchMemory => {
            mapped::leave(context);
            call::plain(context, call);
        }
        Handler::ChangeFiles => opening::change_files(context, call),
        Handler::Truncate => {
            mapped::settle(context);
            opening::change_files(context, call);
        }
        Handler::Open => opening::open(context, call),
        Handler::Read { offset } => status::read(context, call, offset),
        Handler::ReadVector { offset } => status::read_vector(context, call, offset),
        Handler::Fork | Handler::Vfork | Handler::Clone | Handler::CloneByStruct => {
            tasks::clone(context, frame, call);
        }
        Handler::ExitThread | Handler::ExitProcess => tasks::exit(context, call),
        Handler::Exec | Handler::ExecAt => exec::exec(context, call),
        Handler::SignalReturn => sigcalls::sigreturn(context, frame, call),
        Handler::SignalAction => sigcalls::sigaction(context, call),
        Handler::SignalMask => sigcalls::sigprocmask(context, call),
        Handler::SignalPending => sigcalls::sigpending(context, call),
        Handler::SignalStack => sigcalls::sigaltstack(context, frame, call),
        Handler::MaskedWait { mask, in_pair } => sigcalls::wait(context, call, mask, in_pair),
        Handler::Prctl | Handler::Seccomp | Handler::ArchPrctl => guards::call(context, call),
        Handler::ChangeUser => users::change(context, call),
        Handler::LockAll | Handler::UnlockAll => locking::call(context, call),
        Handler::Trace => tracing::call(context, call),
        Handler::Map | Handler::Unmap | Handler::Remap | Handler::Reorder | Handler::Protect => {
            maps::call(context, call);
        }
        Handler::AioSetup | Handler::AioSubmit | Handler::AioReap | Handler::AioDestroy => {
            aio::call(context, call);
        }
        Handler::RingSetup => ring_setup::set_up(context, call),
        Handler::RingEnter => rings::submit(context, call),
        Handler::RingRegister => ring_tables::register(context, call),
        Handler::Close | Handler::CloseRange | Handler::Duplicate => {
            rings::descriptors(context, call);
        }
        Handler::RegisterArea => cpu_area::register(context, call),
        Handler::Wait => rings::wait(context, call),
    }
    finish(context);
}

#[inline(always)]
fn finish(context: &Context) {
    context.slow.set(0);
    looking::after_call(context);
    if context.held_frame.get() != 0 {
        signals::deliver_held(context);
    }
}

/// Lets in signals that have waited for this call, and handles it as the program's own dispatch says.
/// Returns true if it is not made.
#[cold]
fn attend(context: &Context, frame: &Frame) -> bool {
    looking::before_call(context);
    deferred::arrive(context, frame);
    let dispatch = context.dispatch.get();
    dispatch.is_some_and(|dispatch| guards::dispatched(context, frame, dispatch))
}

/// Handles a call by `int 0x80`, or one of a re-execution.
#[cold]
fn unusual(context: &Context, frame: &Frame) {
    if context.slow.get() == slow::INT_80 {
        return old_call(context, frame);
    }
    context.slow.set(slow::SYSCALL);
    frame.leave_flags();
    let args = frame.args();
    answered::call(context, frame, &Call::new(frame.number(), &args));
}

/// Makes a call by `int 0x80`, recorded without the memory behind its arguments.
#[cold]
fn old_call(context: &Context, frame: &Frame) {
    frame.preserve(context.old_rcx.get(), context.old_r11.get());
    let nr = old_calls::number(frame);
    if old_calls::forks(nr) {
        // vfork is made as fork: the caller cannot tell, and no stack is shared.
        frame.set_number(u64::from(raw::__NR_fork));
        tasks::clone(context, frame, &Call::new(frame.number(), &frame.args()));
        return;
    }
    let args = old_calls::args(frame);
    let call = Call::new(u64::from(OLD_NUMBERS) + nr, &args);
    users::watched(context, old_calls::changes_user(nr), |context| {
        enter(context, &call, 0);
        // SAFETY: the program asked for this call.
        let ret = unsafe { entry::reenact_old_call(nr, call.args) };
        exit(context, &call, ret);
        ret
    });
}
