//! Handles signals to this process. SIGCHLD wakes the loop, signals sent to us alone go to the
//! program, and no signal that can be survived ends us: the trace would have no end.

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::alarm;

/// Signals that processes have sent and that were not taken, as a bit mask.
static FROM_PROCESSES: AtomicU64 = AtomicU64::new(0);
/// Signals that the terminal or the kernel has sent and that were not taken.
static FROM_KERNEL: AtomicU64 = AtomicU64::new(0);
/// Signals that our parent has set to be ignored, as nohup does. The program inherits that.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// The last process that sent each signal.
static SENDERS: [AtomicI32; SIGNALS] = [const { AtomicI32::new(0) }; SIGNALS];
/// The futex that is raised by signals.
static BELL: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Highest signal number, plus one.
const SIGNALS: usize = 65;
/// Signals of the C library, which it does not allow to be handled.
const OF_THE_LIBRARY: [i32; 2] = [32, 33];
/// Signals raised by faults: if the kernel sends one, it is a bug in this program.
const FAULTS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
/// Signals that cannot be handled, that end no process (the runtime ignores SIGPIPE), and that stop
/// us as they stop the whole job.
const LEFT_ALONE: [i32; 7] = [
    libc::SIGKILL,
    libc::SIGPIPE,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGURG,
];

/// A signal that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    pub number: i32,
    /// The process that sent it; `None` for the terminal and the kernel.
    pub sender: Option<i32>,
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the arguments are those that the kernel has passed.
    if unsafe { alarm::has_rung(signal, info, context) } {
        return;
    }
    // SAFETY: the kernel passes a valid siginfo.
    let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
    // The terminal and the kernel signal the whole group; users and programs signal one process.
    let by_kernel = code > 0;
    if by_kernel && FAULTS.contains(&signal) {
        // SAFETY: takes numbers only. The instruction is restarted, and its fault then kills us.
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
            FROM_PROCESSES.fetch_or(bit, Ordering::SeqCst);
        }
    }
    let bell = BELL.load(Ordering::SeqCst);
    if !bell.is_null() {
        // SAFETY: a word of the arena, which stays mapped.
        unsafe { (*bell).fetch_add(1, Ordering::SeqCst) };
    }
}

/// Makes signals raise this futex word and be kept for `take`. Only the calling thread should have
/// them unblocked.
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
        // SAFETY: the handler is async-signal-safe: atomics, saved registers and signal() only.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // One at a time: the runtime's other stack has no room for a frame of each.
            libc::sigfillset(&raw mut action.sa_mask);
            for fault in FAULTS {
                libc::sigdelset(&raw mut action.sa_mask, fault);
            }
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Sets an action without a handler, bypassing the C library.
pub fn set_action(signal: i32, action: libc::sighandler_t) {
    /// The kernel's struct: action, flags, restorer, mask.
    const WORDS: usize = 4;
    let words = [action, 0, 0, 0];
    const { assert!(size_of::<[usize; WORDS]>() == 32) };
    let null: *mut usize = std::ptr::null_mut();
    // SAFETY: `words` has the layout and size that the kernel reads.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, words.as_ptr(), null, 8) };
}

/// Whether a signal is ignored.
pub fn is_ignored(signal: i32) -> bool {
    let mut words = [0usize; 4];
    let null: *const usize = std::ptr::null();
    // SAFETY: `words` has the layout and size that the kernel fills.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, null, words.as_mut_ptr(), 8) };
    words[0] == libc::SIG_IGN
}

/// The signals that arrived since the last call. One that both the kernel and a process have sent
/// comes twice.
pub fn take() -> impl Iterator<Item = Signal> {
    // One word tells a signal and who sent it: the handler may run between the two.
    let by_kernel = FROM_KERNEL.swap(0, Ordering::SeqCst);
    let by_processes = FROM_PROCESSES.swap(0, Ordering::SeqCst);
    let sender = |number| SENDERS[number as usize].load(Ordering::SeqCst);
    let of_processes =
        numbers(by_processes).map(move |number| Signal { number, sender: Some(sender(number)) });
    numbers(by_kernel).map(|number| Signal { number, sender: None }).chain(of_processes)
}

/// The numbers of the signals in a mask.
fn numbers(mask: u64) -> impl Iterator<Item = i32> {
    (1..SIGNALS as i32).filter(move |number| mask & 1 << (number - 1) != 0)
}

/// Blocks all signals in the calling thread; returns the former mask.
pub fn block_all() -> libc::sigset_t {
    // SAFETY: the sets are local and initialised before they are read.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

/// Blocks exactly these signals in the calling thread.
pub fn block_only(these: &libc::sigset_t) {
    // SAFETY: the kernel reads a set that the reference keeps valid.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, these, std::ptr::null_mut()) };
}
