//! A time limit for ptrace requests, which the kernel restarts after every signal.

use std::cell::OnceCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::null_mut;

/// Signal of the timer. If another process sends it, it is passed on.
const SIGNAL: c_int = libc::SIGALRM;

thread_local! {
    /// The calling thread's timer; `None` if it could not be created.
    static TIMER: OnceCell<Option<libc::timer_t>> = const { OnceCell::new() };
}

/// Makes a ptrace request, which fails with `Interrupted` if it takes longer than that.
pub fn within<T>(nanoseconds: i64, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(timer) = TIMER.with(|timer| *timer.get_or_init(make)) else { return call() };
    // Periodic, because the first signal may arrive before the request is made.
    set(timer, nanoseconds);
    let result = call();
    set(timer, 0);
    result
}

fn make() -> Option<libc::timer_t> {
    // SAFETY: all-zero structs are valid, and every pointer is to a local of this call.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNAL;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer = null_mut();
        // Whatever started this process may have blocked it.
        let mut own = std::mem::zeroed();
        libc::sigemptyset(&raw mut own);
        libc::sigaddset(&raw mut own, SIGNAL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const own, null_mut());
        let made = libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) == 0;
        made.then_some(timer)
    }
}

/// Sets the timer's period; 0 stops it.
fn set(timer: libc::timer_t, nanoseconds: i64) {
    let every = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let times = libc::itimerspec { it_interval: every, it_value: every };
    // SAFETY: the timer was created by this thread and is never deleted.
    unsafe { libc::timer_settime(timer, 0, &raw const times, null_mut()) };
}

/// Whether a signal is the timer's. If it interrupts a ptrace request that was not made yet, or is
/// to be restarted, the request fails instead.
///
/// # Safety
///
/// Must be called in a signal handler, with the arguments that the kernel has passed to it.
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
