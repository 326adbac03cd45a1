//! Signals of our own: a child's news wakes us, what is sent to us alone goes to the program.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Signals that were sent to us and are to be passed on, as a bit mask.
static PENDING: AtomicU64 = AtomicU64::new(0);
/// The futex to raise.
static BELL: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

const FORWARDED: [i32; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGWINCH,
];

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a siginfo.
    let code = unsafe { (*info).si_code };
    // The terminal and the kernel tell the whole group; people and programs tell one process.
    if signal != libc::SIGCHLD && code <= 0 {
        PENDING.fetch_or(1 << signal, Ordering::SeqCst);
    }
    let bell = BELL.load(Ordering::SeqCst);
    if !bell.is_null() {
        // SAFETY: a word of the arena, which stays mapped.
        unsafe { (*bell).fetch_add(1, Ordering::SeqCst) };
    }
}

/// From now on signals raise this futex word, and are kept for `take`. The calling thread alone
/// should have them unblocked.
pub fn install(bell: &'static AtomicU32) {
    BELL.store(core::ptr::from_ref(bell).cast_mut(), Ordering::SeqCst);
    for signal in FORWARDED.into_iter().chain([libc::SIGCHLD]) {
        // SAFETY: installs a handler that only touches atomics.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            if action.sa_sigaction == libc::SIG_IGN && signal != libc::SIGCHLD {
                continue; // nohup and the like: the program is to inherit it
            }
            action = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// The signals that arrived since the last call.
pub fn take() -> impl Iterator<Item = i32> {
    let pending = PENDING.swap(0, Ordering::SeqCst);
    (1..64).filter(move |signal| pending & 1 << signal != 0)
}

/// Signals are not for this thread.
pub fn leave_to_others() {
    // SAFETY: blocks all signals in the calling thread.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}
