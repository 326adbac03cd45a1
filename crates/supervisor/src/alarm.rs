//! Calls of ours that the kernel would make again after every signal, but that must come to an end.

use std::cell::OnceCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::null_mut;

/// What the timer sends. Others may send that too, and it is passed on then.
const SIGNAL: c_int = libc::SIGALRM;

thread_local! {
    /// The calling thread's timer; `None` where it got none.
    static TIMER: OnceCell<Option<libc::timer_t>> = const { OnceCell::new() };
}

/// Makes a ptrace request, which is `Interrupted` if it takes longer than so many nanoseconds.
pub fn within<T>(nanoseconds: i64, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(timer) = TIMER.with(|timer| *timer.get_or_init(make)) else { return call() };
    // Again and again: the first may come before the call is made.
    set(timer, nanoseconds);
    let result = call();
    set(timer, 0);
    result
}

fn make() -> Option<libc::timer_t> {
    // SAFETY: a struct of numbers; the kernel fills in the timer's name.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNAL;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer = null_mut();
        // Who started us may have blocked it.
        let mut own = std::mem::zeroed();
        libc::sigemptyset(&raw mut own);
        libc::sigaddset(&raw mut own, SIGNAL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const own, null_mut());
        let made = libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) == 0;
        made.then_some(timer)
    }
}

/// 0: it is to be quiet.
fn set(timer: libc::timer_t, nanoseconds: i64) {
    let every = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let times = libc::itimerspec { it_interval: every, it_value: every };
    // SAFETY: the timer is ours.
    unsafe { libc::timer_settime(timer, 0, &raw const times, null_mut()) };
}

/// Whether a signal is the timer's. If it has come to a ptrace request that was not made, or is to be
/// made again, that one ends instead.
///
/// # Safety
///
/// In a handler, with what the kernel has passed to it.
pub unsafe fn has_rung(signal: c_int, info: *const libc::siginfo_t, context: *mut c_void) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    // SAFETY: the kernel passes both; the interrupted thread was about to execute what is there.
    unsafe {
        if signal != SIGNAL || (*info).si_code != libc::SI_TIMER {
            return false;
        }
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let (at, result) = (libc::REG_RIP as usize, libc::REG_RAX as usize);
        let code = (registers[at] as *const [u8; 2]).read_unaligned();
        if code == SYSCALL && registers[result] == libc::SYS_ptrace {
            registers[at] += SYSCALL.len() as i64;
            registers[result] = i64::from(-libc::EINTR);
        }
    }
    true
}
