//! Signals: numbers and names.

/// Illegal instruction.
pub const SIGILL: i32 = 4;
/// Trap of a debugger.
pub const SIGTRAP: i32 = 5;
/// Access to memory that is not there.
pub const SIGBUS: i32 = 7;
/// Error of arithmetic.
pub const SIGFPE: i32 = 8;
/// Killed.
pub const SIGKILL: i32 = 9;
/// Access to memory that is forbidden.
pub const SIGSEGV: i32 = 11;
/// A child changed its state.
pub const SIGCHLD: i32 = 17;
/// Input or output is possible.
pub const SIGPOLL: i32 = 29;
/// A call that a filter forbids.
pub const SIGSYS: i32 = 31;

/// Handler of an action: what the kernel does by itself.
pub const SIG_DFL: u64 = 0;
/// Handler of an action: the signal is ignored.
pub const SIG_IGN: u64 = 1;
/// Flags of an action that the kernel knows; it drops all others.
pub const SA_KNOWN: u64 = 0xdc00_0807;
/// Flag of an action: it has the code that returns from the handler.
pub const SA_RESTORER: u64 = 0x400_0000;

/// Code: sent by kill.
pub const SI_USER: i32 = 0;
/// Code: sent by a timer.
pub const SI_TIMER: i32 = -2;
/// Of a signal that was sent by sigqueue.
pub const SI_QUEUE: i32 = -1;
/// Code: sent by tkill.
pub const SI_TKILL: i32 = -6;
/// Code: sent by the kernel.
pub const SI_KERNEL: i32 = 0x80;
/// Code of SIGSYS: a filter sent it.
pub const SYS_SECCOMP: i32 = 1;
/// Code of SIGSYS: user dispatch sent it.
pub const SYS_USER_DISPATCH: i32 = 2;
/// Code of SIGCHLD: the child ended.
pub const CLD_EXITED: i32 = 1;

const FIRST_REAL_TIME: i32 = 32;

/// Real-time signals; the C library uses the first two.
#[rustfmt::skip]
const REAL_TIME: [&str; 33] = [
    "SIGRTMIN", "SIGRT_1", "SIGRT_2", "SIGRT_3", "SIGRT_4", "SIGRT_5", "SIGRT_6", "SIGRT_7",
    "SIGRT_8", "SIGRT_9", "SIGRT_10", "SIGRT_11", "SIGRT_12", "SIGRT_13", "SIGRT_14", "SIGRT_15",
    "SIGRT_16", "SIGRT_17", "SIGRT_18", "SIGRT_19", "SIGRT_20", "SIGRT_21", "SIGRT_22", "SIGRT_23",
    "SIGRT_24", "SIGRT_25", "SIGRT_26", "SIGRT_27", "SIGRT_28", "SIGRT_29", "SIGRT_30", "SIGRT_31",
    "SIGRT_32",
];

/// Of a timer: its signal goes to one thread.
pub const SIGEV_THREAD_ID: u64 = 4;

/// Returns true if the processor may cause this signal: it then comes again whenever the same code runs.
pub const fn is_fault(signal: i32) -> bool {
    matches!(signal, SIGILL | SIGTRAP | SIGBUS | SIGFPE | SIGSEGV)
}

/// Returns the name of a signal.
pub fn name(signal: i32) -> Option<&'static str> {
    match signal {
        FIRST_REAL_TIME.. => REAL_TIME.get((signal - FIRST_REAL_TIME) as usize).copied(),
        _ => crate::flags::SIGNAL.name_of(u64::try_from(signal).ok()?),
    }
}

/// Returns the name of a signal's `si_code`.
pub fn code_name(signal: i32, code: i32) -> Option<&'static str> {
    use crate::flags as f;
    let set = match signal {
        _ if code <= 0 || code == SI_KERNEL => &f::SI_CODE,
        SIGILL => &f::ILL_CODE,
        SIGFPE => &f::FPE_CODE,
        SIGSEGV => &f::SEGV_CODE,
        SIGBUS => &f::BUS_CODE,
        SIGTRAP => &f::TRAP_CODE,
        SIGCHLD => &f::CLD_CODE,
        SIGPOLL => &f::POLL_CODE,
        SIGSYS => &f::SYS_CODE,
        _ => return None,
    };
    set.name_of(u64::from(code as u32))
}
