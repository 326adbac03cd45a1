//! Signals, clocks and timers.

use super::names;
use crate::flag_set::FlagSet;

/// Standard signals.
#[rustfmt::skip]
pub static SIGNAL: FlagSet = names("SIG", &[
    (1, "SIGHUP"), (2, "SIGINT"), (3, "SIGQUIT"), (4, "SIGILL"), (5, "SIGTRAP"), (6, "SIGABRT"),
    (7, "SIGBUS"), (8, "SIGFPE"), (9, "SIGKILL"), (10, "SIGUSR1"), (11, "SIGSEGV"),
    (12, "SIGUSR2"), (13, "SIGPIPE"), (14, "SIGALRM"), (15, "SIGTERM"), (16, "SIGSTKFLT"),
    (17, "SIGCHLD"), (18, "SIGCONT"), (19, "SIGSTOP"), (20, "SIGTSTP"), (21, "SIGTTIN"),
    (22, "SIGTTOU"), (23, "SIGURG"), (24, "SIGXCPU"), (25, "SIGXFSZ"), (26, "SIGVTALRM"),
    (27, "SIGPROF"), (28, "SIGWINCH"), (29, "SIGIO"), (30, "SIGPWR"), (31, "SIGSYS"),
]);

/// How rt_sigprocmask changes the mask.
#[rustfmt::skip]
pub static SIG_HOW: FlagSet = names("SIG_", &[
    (0, "SIG_BLOCK"), (1, "SIG_UNBLOCK"), (2, "SIG_SETMASK"),
]);

/// Flags of rt_sigaction.
#[rustfmt::skip]
pub static SA: FlagSet = names("SA_", &[
    (0x4000000, "SA_RESTORER"), (0x8000000, "SA_ONSTACK"), (0x10000000, "SA_RESTART"),
    (0x20000000, "SA_INTERRUPT"), (0x40000000, "SA_NODEFER"), (0x80000000, "SA_RESETHAND"),
    (0x4, "SA_SIGINFO"), (0x1, "SA_NOCLDSTOP"), (0x2, "SA_NOCLDWAIT"), (0x400, "SA_UNSUPPORTED"),
    (0x800, "SA_EXPOSE_TAGBITS"),
]);

/// Handlers that are not addresses.
#[rustfmt::skip]
pub static SIG_HANDLER: FlagSet = names("SIG_", &[
    (0, "SIG_DFL"), (0x1, "SIG_IGN"), (0xffffffffffffffff, "SIG_ERR"),
]);

/// Flags of sigaltstack.
#[rustfmt::skip]
pub static SS: FlagSet = names("SS_", &[
    (0x1, "SS_ONSTACK"), (0x2, "SS_DISABLE"), (0x80000000, "SS_AUTODISARM"),
]);

/// siginfo codes that any signal may have.
#[rustfmt::skip]
pub static SI_CODE: FlagSet = names("SI_", &[
    (0, "SI_USER"), (0x80, "SI_KERNEL"), (0xffffffff, "SI_QUEUE"), (0xfffffffe, "SI_TIMER"),
    (0xfffffffd, "SI_MESGQ"), (0xfffffffc, "SI_ASYNCIO"), (0xfffffffb, "SI_SIGIO"),
    (0xfffffffa, "SI_TKILL"), (0xfffffff9, "SI_DETHREAD"), (0xffffffc4, "SI_ASYNCNL"),
]);

/// Codes of SIGCHLD.
#[rustfmt::skip]
pub static CLD_CODE: FlagSet = names("CLD_", &[
    (1, "CLD_EXITED"), (2, "CLD_KILLED"), (3, "CLD_DUMPED"), (4, "CLD_TRAPPED"),
    (5, "CLD_STOPPED"), (6, "CLD_CONTINUED"),
]);

/// Codes of SIGSEGV.
#[rustfmt::skip]
pub static SEGV_CODE: FlagSet = names("SEGV_", &[
    (1, "SEGV_MAPERR"), (2, "SEGV_ACCERR"), (3, "SEGV_BNDERR"), (4, "SEGV_PKUERR"),
    (5, "SEGV_ACCADI"), (6, "SEGV_ADIDERR"), (7, "SEGV_ADIPERR"), (8, "SEGV_MTEAERR"),
    (9, "SEGV_MTESERR"), (10, "SEGV_CPERR"),
]);

/// Codes of SIGBUS.
#[rustfmt::skip]
pub static BUS_CODE: FlagSet = names("BUS_", &[
    (1, "BUS_ADRALN"), (2, "BUS_ADRERR"), (3, "BUS_OBJERR"), (4, "BUS_MCEERR_AR"),
    (5, "BUS_MCEERR_AO"),
]);

/// Codes of SIGFPE.
#[rustfmt::skip]
pub static FPE_CODE: FlagSet = names("FPE_", &[
    (1, "FPE_INTDIV"), (2, "FPE_INTOVF"), (3, "FPE_FLTDIV"), (4, "FPE_FLTOVF"), (5, "FPE_FLTUND"),
    (6, "FPE_FLTRES"), (7, "FPE_FLTINV"), (8, "FPE_FLTSUB"), (14, "FPE_FLTUNK"),
    (15, "FPE_CONDTRAP"),
]);

/// Codes of SIGILL.
#[rustfmt::skip]
pub static ILL_CODE: FlagSet = names("ILL_", &[
    (1, "ILL_ILLOPC"), (2, "ILL_ILLOPN"), (3, "ILL_ILLADR"), (4, "ILL_ILLTRP"), (5, "ILL_PRVOPC"),
    (6, "ILL_PRVREG"), (7, "ILL_COPROC"), (8, "ILL_BADSTK"), (9, "ILL_BADIADDR"),
]);

/// Codes of SIGTRAP.
#[rustfmt::skip]
pub static TRAP_CODE: FlagSet = names("TRAP_", &[
    (1, "TRAP_BRKPT"), (2, "TRAP_TRACE"), (3, "TRAP_BRANCH"), (4, "TRAP_HWBKPT"), (5, "TRAP_UNK"),
    (6, "TRAP_PERF"),
]);

/// Codes of SIGIO.
#[rustfmt::skip]
pub static POLL_CODE: FlagSet = names("POLL_", &[
    (1, "POLL_IN"), (2, "POLL_OUT"), (3, "POLL_MSG"), (4, "POLL_ERR"), (5, "POLL_PRI"),
    (6, "POLL_HUP"),
]);

/// Codes of SIGSYS.
#[rustfmt::skip]
pub static SYS_CODE: FlagSet = names("SYS_", &[
    (1, "SYS_SECCOMP"), (2, "SYS_USER_DISPATCH"),
]);

/// Notification methods of timers and queues.
#[rustfmt::skip]
pub static SIGEV: FlagSet = names("SIGEV_", &[
    (0, "SIGEV_SIGNAL"), (1, "SIGEV_NONE"), (2, "SIGEV_THREAD"), (4, "SIGEV_THREAD_ID"),
]);

/// Clocks; negative values are those of processes, threads and devices.
#[rustfmt::skip]
pub static CLOCK: FlagSet = names("CLOCK_", &[
    (0, "CLOCK_REALTIME"), (1, "CLOCK_MONOTONIC"), (2, "CLOCK_PROCESS_CPUTIME_ID"),
    (3, "CLOCK_THREAD_CPUTIME_ID"), (4, "CLOCK_MONOTONIC_RAW"), (5, "CLOCK_REALTIME_COARSE"),
    (6, "CLOCK_MONOTONIC_COARSE"), (7, "CLOCK_BOOTTIME"), (8, "CLOCK_REALTIME_ALARM"),
    (9, "CLOCK_BOOTTIME_ALARM"), (10, "CLOCK_SGI_CYCLE"), (11, "CLOCK_TAI"),
]);

/// Flags of timer_settime and clock_nanosleep.
#[rustfmt::skip]
pub static TIMER: FlagSet = names("TIMER_", &[
    (0x1, "TIMER_ABSTIME"),
]);

/// Interval timers.
#[rustfmt::skip]
pub static ITIMER: FlagSet = names("ITIMER_", &[
    (0, "ITIMER_REAL"), (1, "ITIMER_VIRTUAL"), (2, "ITIMER_PROF"),
]);

/// Flags of timerfd_create.
#[rustfmt::skip]
pub static TIMERFD: FlagSet = names("TFD_", &[
    (0o2000000, "TFD_CLOEXEC"), (0o4000, "TFD_NONBLOCK"),
]);

/// Flags of timerfd_settime.
#[rustfmt::skip]
pub static TIMERFD_SET: FlagSet = names("TFD_TIMER_", &[
    (0x1, "TFD_TIMER_ABSTIME"), (0x2, "TFD_TIMER_CANCEL_ON_SET"),
]);

/// Fields that adjtimex changes.
#[rustfmt::skip]
pub static ADJ: FlagSet = names("ADJ_", &[
    (0xa001, "ADJ_OFFSET_SS_READ"), (0x8001, "ADJ_OFFSET_SINGLESHOT"), (0x1, "ADJ_OFFSET"),
    (0x2, "ADJ_FREQUENCY"), (0x4, "ADJ_MAXERROR"), (0x8, "ADJ_ESTERROR"), (0x10, "ADJ_STATUS"),
    (0x20, "ADJ_TIMECONST"), (0x80, "ADJ_TAI"), (0x100, "ADJ_SETOFFSET"), (0x1000, "ADJ_MICRO"),
    (0x2000, "ADJ_NANO"), (0x4000, "ADJ_TICK"),
]);

/// State of the clock in adjtimex.
#[rustfmt::skip]
pub static STA: FlagSet = names("STA_", &[
    (0x1, "STA_PLL"), (0x2, "STA_PPSFREQ"), (0x4, "STA_PPSTIME"), (0x8, "STA_FLL"),
    (0x10, "STA_INS"), (0x20, "STA_DEL"), (0x40, "STA_UNSYNC"), (0x80, "STA_FREQHOLD"),
    (0x100, "STA_PPSSIGNAL"), (0x200, "STA_PPSJITTER"), (0x400, "STA_PPSWANDER"),
    (0x800, "STA_PPSERROR"), (0x1000, "STA_CLOCKERR"), (0x2000, "STA_NANO"), (0x4000, "STA_MODE"),
    (0x8000, "STA_CLK"),
]);
