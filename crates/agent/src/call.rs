//! Handles one system call of the program, from entry to return.

use core::sync::atomic::{Ordering, compiler_fence};

use linux_raw_sys::general as raw;
use syscalls::Handler;
use syscalls::capture::{self, Row};
use syscalls::record::{Header, OLD_NUMBERS, RecordKind, enter_flag};

use crate::context::{Context, Frame, NO_CALL, slow};
use crate::stream::Stream;
use crate::{
    capture as data, clock, entry, exec, guards, identity, locking, maps, sigcalls, signals,
    status, sys, tasks, tracing, users,
};

/// Entered from the assembly with the program's registers in `frame`. Leaves without a `ret`, which
/// would be mispredicted after a syscall.
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
    let nr = frame.rax;
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
    // `syscall` leaves the flags in %r11; the site is kept in the context.
    frame.r11 = frame.rflags;
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
            identity::open_call(context, frame)
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

const OLD_FORK: u64 = 2;
const OLD_VFORK: u64 = 190;

/// Makes a call by `int 0x80`, recorded without the memory behind its arguments.
#[cold]
fn old_call(context: &mut Context, frame: &mut Frame) {
    frame.rcx = context.old_rcx;
    frame.r11 = context.old_r11;
    let nr = frame.rax & 0xffff_ffff;
    if nr == OLD_FORK || nr == OLD_VFORK {
        // vfork is made as fork: the caller cannot tell, and no stack is shared.
        frame.rax = u64::from(raw::__NR_fork);
        tasks::clone(context, frame);
        return;
    }
    let args = [frame.rbx, frame.rcx, frame.rdx, frame.rsi, frame.rdi, frame.rbp]
        .map(|arg| arg & 0xffff_ffff);
    users::watched(context, users::OLD_CALLS.contains(&nr), |context| {
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
        return identity::changing_call(context, nr, row, &args);
    }
    let ret = make(context, nr, &args);
    exit(context, row, &args, ret);
    ret
}

/// Makes the program's call, recorded or not.
#[inline(always)]
pub fn make(context: &mut Context, nr: u64, args: &[u64; 6]) -> i64 {
    let _ = context;
    // SAFETY: the program asked for this call.
    unsafe { entry::reenact_call(nr, args) }
}

/// Records the beginning of a call, with its input memory.
#[inline(always)]
pub fn enter(context: &mut Context, nr: u64, args: &[u64; 6], flags: u8) -> &'static Row {
    let (row, unknown) = capture::row(nr, args);
    // One test for both, which are rare.
    if context.silent | context.clockless {
        if !context.silent {
            enter_without_counter(context, row, unknown, nr, args, flags);
        }
        return row;
    }
    enter_at(context, row, unknown, nr, args, flags, |_| sys::tsc());
    row
}

#[cold]
#[inline(never)]
fn enter_without_counter(
    context: &mut Context,
    row: &Row,
    unknown: bool,
    nr: u64,
    args: &[u64; 6],
    flags: u8,
) {
    enter_at(context, row, unknown, nr, args, flags, clock::without_counter);
}

#[inline(always)]
fn enter_at(
    context: &mut Context,
    row: &Row,
    unknown: bool,
    nr: u64,
    args: &[u64; 6],
    flags: u8,
    now: impl FnOnce(&Context) -> u64,
) {
    if context.stream.has_stalls() {
        Stream::tell_stalls(context);
    }
    let start = context.stream.position();
    context.call_start.store(start, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let mut flags = flags;
    if context.slow != 0 {
        flags |= enter_flag::SLOW;
    }
    if unknown {
        flags |= enter_flag::UNKNOWN_VARIANT;
    }
    let nargs = usize::from(row.nargs);
    let number = if nr < 0xffff { nr as u16 } else { u16::MAX };
    let head = Header::new(RecordKind::Enter, flags, number, nargs as u32).to_word();
    let now = now(context);
    Stream::enter_record(context, head, now, args, nargs);
    if row.has_in {
        data::copy_in(context, row, args);
    }
    // Published together with the input memory: a visible record is complete.
    Stream::publish(context);
}

/// Counts the call and records its result with the output memory.
#[inline(always)]
pub fn exit(context: &mut Context, row: &Row, args: &[u64; 6], ret: i64) {
    // SAFETY: set by `on_call` to the frame of the call that is ending.
    unsafe { (*context.frame).rax = ret as u64 };
    if context.silent | context.clockless {
        if !context.silent {
            exit_without_counter(context, row, args, ret);
        }
        context.phase = context.running;
        return;
    }
    exit_at(context, row, args, ret, sys::tsc());
}

#[cold]
#[inline(never)]
fn exit_without_counter(context: &mut Context, row: &Row, args: &[u64; 6], ret: i64) {
    let now = clock::without_counter(context);
    exit_at(context, row, args, ret, now);
}

#[inline(always)]
fn exit_at(context: &mut Context, row: &Row, args: &[u64; 6], ret: i64, tsc: u64) {
    if row.has_out {
        data::copy_out(context, row, args, ret);
    }
    let head = Header::new(RecordKind::Exit, 0, 0, 0).to_word();
    Stream::short_record(context, head, tsc, ret as u64);
    count(context);
    Stream::publish(context);
    context.call_start.store(NO_CALL, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    context.phase = context.running;
}

/// Undoes the count of a call that was not made after all.
pub fn uncount(context: &mut Context) {
    context.calls -= 1;
    context.slow_calls -= u64::from(context.slow);
    if let Some(slot) = context.slot {
        slot.calls.store(context.calls, Ordering::Relaxed);
        slot.slow_calls.store(context.slow_calls, Ordering::Relaxed);
    }
}

/// Counts a call, in the slot too, so that the calls of a killed thread are known.
#[inline(always)]
pub fn count(context: &mut Context) {
    context.calls += 1;
    context.slow_calls += u64::from(context.slow);
    if let Some(slot) = context.slot {
        slot.calls.store(context.calls, Ordering::Relaxed);
        slot.slow_calls.store(context.slow_calls, Ordering::Relaxed);
    }
}
