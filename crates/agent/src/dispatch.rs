//! Where the program's calls arrive: each is handled as its row says.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use syscalls::Handler;
use syscalls::record::OLD_NUMBERS;

use crate::arch::frames::Frame;
use crate::arch::head::slow;
use crate::arch::{entry, old_calls};
use crate::call::{enter, exit, make};
use crate::context::Context;
use crate::{
    exec, guards, locking, maps, opening, sigcalls, signals, status, tasks, tracing, users,
};

/// Entered from the assembly with the program's registers in `frame`. Leaves without a `ret`, which
/// would be mispredicted after a syscall.
#[unsafe(export_name = "reenact_handle_call")]
pub extern "C" fn on_call(frame: &mut Frame, context: &mut Context) -> ! {
    record(frame, context);
    // SAFETY: the frame is complete, and the call was made or answered.
    unsafe { entry::reenact_leave(frame) }
}

#[inline(always)]
fn record(frame: &mut Frame, context: &mut Context) {
    if context.slow == 0 {
        context.slow_site.store(0, Ordering::Relaxed);
    }
    let nr = frame.number();
    if let Some(dispatch) = context.dispatch
        && guards::dispatched(context, frame, dispatch)
    {
        finish(context);
        return;
    }
    if context.slow == slow::INT_80 {
        old_call(context, frame);
        finish(context);
        return;
    }
    frame.leave_flags();
    let result = match nr as u32 {
        _ if nr > u64::from(u32::MAX) => generic(context, frame, nr),
        raw::__NR_read
        | raw::__NR_pread64
        | raw::__NR_readv
        | raw::__NR_preadv
        | raw::__NR_preadv2 => status::read_call(context, frame),
        raw::__NR_clone | raw::__NR_clone3 | raw::__NR_fork | raw::__NR_vfork => {
            tasks::clone(context, frame)
        }
        raw::__NR_exit | raw::__NR_exit_group => tasks::exit(context, frame),
        raw::__NR_execve | raw::__NR_execveat => exec::exec(context, frame),
        raw::__NR_rt_sigreturn => sigcalls::sigreturn(context, frame),
        raw::__NR_rt_sigaction => sigcalls::sigaction(context, frame),
        raw::__NR_rt_sigprocmask => sigcalls::sigprocmask(context, frame),
        raw::__NR_rt_sigpending => sigcalls::sigpending(context, frame),
        raw::__NR_prctl | raw::__NR_seccomp | raw::__NR_arch_prctl => guards::call(context, frame),
        raw::__NR_setuid | raw::__NR_setreuid | raw::__NR_setresuid => users::call(context, frame),
        raw::__NR_mlockall | raw::__NR_munlockall => locking::call(context, frame),
        raw::__NR_ptrace => tracing::call(context, frame),
        raw::__NR_sigaltstack => sigcalls::sigaltstack(context, frame),
        raw::__NR_rt_sigsuspend
        | raw::__NR_ppoll
        | raw::__NR_pselect6
        | raw::__NR_epoll_pwait
        | raw::__NR_epoll_pwait2 => sigcalls::masked_call(context, frame),
        raw::__NR_mmap
        | raw::__NR_munmap
        | raw::__NR_mremap
        | raw::__NR_mprotect
        | raw::__NR_pkey_mprotect => maps::call(context, frame),
        raw::__NR_open | raw::__NR_openat | raw::__NR_creat | raw::__NR_openat2 => {
            opening::open_call(context, frame)
        }
        _ => generic(context, frame, nr),
    };
    let _ = result;
    finish(context);
}

#[inline(always)]
fn finish(context: &mut Context) {
    context.slow = 0;
    if context.held_frame != 0 {
        signals::deliver_held(context);
    }
}

/// Makes a call by `int 0x80`, recorded without the memory behind its arguments.
#[cold]
fn old_call(context: &mut Context, frame: &mut Frame) {
    frame.preserve(context.old_rcx, context.old_r11);
    let nr = old_calls::number(frame);
    if old_calls::forks(nr) {
        // vfork is made as fork: the caller cannot tell, and no stack is shared.
        frame.set_number(u64::from(raw::__NR_fork));
        tasks::clone(context, frame);
        return;
    }
    let args = old_calls::args(frame);
    users::watched(context, old_calls::changes_user(nr), |context| {
        let row = enter(context, u64::from(OLD_NUMBERS) + nr, &args, 0);
        // SAFETY: the program asked for this call.
        let ret = unsafe { entry::reenact_old_call(nr, &args) };
        exit(context, row, &args, ret);
        ret
    });
}

#[inline(always)]
fn generic(context: &mut Context, frame: &mut Frame, nr: u64) -> i64 {
    let args = frame.args();
    let row = enter(context, nr, &args, 0);
    if matches!(row.handler, Handler::ChangeFiles | Handler::Truncate) {
        return opening::changing_call(context, nr, row, &args);
    }
    let ret = make(context, nr, &args);
    exit(context, row, &args, ret);
    ret
}
