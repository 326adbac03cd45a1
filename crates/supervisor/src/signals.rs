//! Signals of our own: a child's news wakes us, what is sent to us alone goes to the program, and
//! nothing that can be survived ends us, for then the trace would have no end.

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::alarm;

/// Signals that came and were not looked at, as a bit mask.
static PENDING: AtomicU64 = AtomicU64::new(0);
/// Of those, the ones that the terminal or the kernel has sent.
static FROM_KERNEL: AtomicU64 = AtomicU64::new(0);
/// What who started us wants to be ignored, as nohup does. The program inherits that.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// Who has sent each of the others last.
static SENDERS: [AtomicI32; SIGNALS] = [const { AtomicI32::new(0) }; SIGNALS];
/// The futex to raise.
static BELL: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// One more than the last.
const SIGNALS: usize = 65;
/// Signals of the C library's own, which it lets nobody handle.
const OF_THE_LIBRARY: [i32; 2] = [32, 33];
/// What a processor raises: if it is about us, we have a defect.
const FAULTS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
/// What cannot be handled, what ends nobody (the runtime ignores the second), and what stops us, as
/// everybody in a job is stopped.
const LEFT_ALONE: [i32; 7] = [
    libc::SIGKILL,
    libc::SIGPIPE,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGURG,
];

/// A signal that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    pub number: i32,
    /// The process that has sent it. `None`: the terminal or the kernel.
    pub sender: Option<i32>,
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: as the kernel has passed it.
    if unsafe { alarm::has_rung(signal, info, context) } {
        return;
    }
    // SAFETY: the kernel passes a siginfo.
    let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
    // The terminal and the kernel tell the whole group; people and programs tell one process.
    let by_kernel = code > 0;
    if by_kernel && FAULTS.contains(&signal) {
        // SAFETY: the default, for the instruction that is made again now.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    if signal != libc::SIGCHLD {
        let bit = 1 << (signal - 1);
        if by_kernel && IGNORED.load(Ordering::SeqCst) & bit != 0 {
            return;
        }
        if by_kernel {
            FROM_KERNEL.fetch_or(bit, Ordering::SeqCst);
        } else {
            SENDERS[signal as usize].store(sender, Ordering::SeqCst);
        }
        PENDING.fetch_or(bit, Ordering::SeqCst);
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
    for signal in 1..SIGNALS as i32 {
        if LEFT_ALONE.contains(&signal) {
            continue;
        }
        if OF_THE_LIBRARY.contains(&signal) {
            set_action(signal, libc::SIG_IGN);
            continue;
        }
        if is_ignored(signal) {
            IGNORED.fetch_or(1 << (signal - 1), Ordering::SeqCst);
        }
        // SAFETY: installs a handler that only touches atomics.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Sets an action without a handler, past the C library.
pub fn set_action(signal: i32, action: libc::sighandler_t) {
    /// What the kernel wants to know: action, flags, restorer, mask.
    const WORDS: usize = 4;
    let words = [action, 0, 0, 0];
    const { assert!(size_of::<[usize; WORDS]>() == 32) };
    let null: *mut usize = std::ptr::null_mut();
    // SAFETY: the kernel reads its own form of the struct.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, words.as_ptr(), null, 8) };
}

/// Whether a signal is ignored.
pub fn is_ignored(signal: i32) -> bool {
    let mut words = [0usize; 4];
    let null: *const usize = std::ptr::null();
    // SAFETY: the kernel fills in its own form of the struct.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, null, words.as_mut_ptr(), 8) };
    words[0] == libc::SIG_IGN
}

/// The signals that arrived since the last call.
pub fn take() -> impl Iterator<Item = Signal> {
    let pending = PENDING.swap(0, Ordering::SeqCst);
    let from_kernel = FROM_KERNEL.swap(0, Ordering::SeqCst);
    let signals = (1..SIGNALS as i32).filter(move |number| pending & 1 << (number - 1) != 0);
    signals.map(move |number| {
        let by_kernel = from_kernel & 1 << (number - 1) != 0;
        let sender = SENDERS[number as usize].load(Ordering::SeqCst);
        Signal { number, sender: (!by_kernel).then_some(sender) }
    })
}

/// Blocks all signals in the calling thread; gives what was blocked before.
pub fn block_all() -> libc::sigset_t {
    // SAFETY: sets of signals that are made here.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

/// Blocks these signals alone in the calling thread.
pub fn block_only(these: &libc::sigset_t) {
    // SAFETY: reads a set of signals.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, these, std::ptr::null_mut()) };
}
