//! Processes, threads, scheduling, limits.

use super::{names, with_field};
use crate::flag_set::FlagSet;

/// Flags of clone; the lowest byte holds the signal that is sent when the child ends.
#[rustfmt::skip]
pub static CLONE: FlagSet = with_field("CLONE_", 0xff, &[
    (0x80, "CLONE_NEWTIME"), (0x100, "CLONE_VM"), (0x200, "CLONE_FS"), (0x400, "CLONE_FILES"),
    (0x800, "CLONE_SIGHAND"), (0x1000, "CLONE_PIDFD"), (0x2000, "CLONE_PTRACE"),
    (0x4000, "CLONE_VFORK"), (0x8000, "CLONE_PARENT"), (0x10000, "CLONE_THREAD"),
    (0x20000, "CLONE_NEWNS"), (0x40000, "CLONE_SYSVSEM"), (0x80000, "CLONE_SETTLS"),
    (0x100000, "CLONE_PARENT_SETTID"), (0x200000, "CLONE_CHILD_CLEARTID"),
    (0x400000, "CLONE_DETACHED"), (0x800000, "CLONE_UNTRACED"), (0x1000000, "CLONE_CHILD_SETTID"),
    (0x2000000, "CLONE_NEWCGROUP"), (0x4000000, "CLONE_NEWUTS"), (0x8000000, "CLONE_NEWIPC"),
    (0x10000000, "CLONE_NEWUSER"), (0x20000000, "CLONE_NEWPID"), (0x40000000, "CLONE_NEWNET"),
    (0x80000000, "CLONE_IO"), (0x1, "SIGHUP"), (0x2, "SIGINT"), (0x3, "SIGQUIT"), (0x4, "SIGILL"),
    (0x5, "SIGTRAP"), (0x6, "SIGABRT"), (0x7, "SIGBUS"), (0x8, "SIGFPE"), (0x9, "SIGKILL"),
    (0xa, "SIGUSR1"), (0xb, "SIGSEGV"), (0xc, "SIGUSR2"), (0xd, "SIGPIPE"), (0xe, "SIGALRM"),
    (0xf, "SIGTERM"), (0x10, "SIGSTKFLT"), (0x11, "SIGCHLD"), (0x12, "SIGCONT"), (0x13, "SIGSTOP"),
    (0x14, "SIGTSTP"), (0x15, "SIGTTIN"), (0x16, "SIGTTOU"), (0x17, "SIGURG"), (0x18, "SIGXCPU"),
    (0x19, "SIGXFSZ"), (0x1a, "SIGVTALRM"), (0x1b, "SIGPROF"), (0x1c, "SIGWINCH"), (0x1d, "SIGIO"),
    (0x1e, "SIGPWR"), (0x1f, "SIGSYS"),
]);

/// Flags of clone3.
#[rustfmt::skip]
pub static CLONE3: FlagSet = names("CLONE_", &[
    (0x80, "CLONE_NEWTIME"), (0x100, "CLONE_VM"), (0x200, "CLONE_FS"), (0x400, "CLONE_FILES"),
    (0x800, "CLONE_SIGHAND"), (0x1000, "CLONE_PIDFD"), (0x2000, "CLONE_PTRACE"),
    (0x4000, "CLONE_VFORK"), (0x8000, "CLONE_PARENT"), (0x10000, "CLONE_THREAD"),
    (0x20000, "CLONE_NEWNS"), (0x40000, "CLONE_SYSVSEM"), (0x80000, "CLONE_SETTLS"),
    (0x100000, "CLONE_PARENT_SETTID"), (0x200000, "CLONE_CHILD_CLEARTID"),
    (0x400000, "CLONE_DETACHED"), (0x800000, "CLONE_UNTRACED"), (0x1000000, "CLONE_CHILD_SETTID"),
    (0x2000000, "CLONE_NEWCGROUP"), (0x4000000, "CLONE_NEWUTS"), (0x8000000, "CLONE_NEWIPC"),
    (0x10000000, "CLONE_NEWUSER"), (0x20000000, "CLONE_NEWPID"), (0x40000000, "CLONE_NEWNET"),
    (0x80000000, "CLONE_IO"), (0x100000000, "CLONE_CLEAR_SIGHAND"),
    (0x200000000, "CLONE_INTO_CGROUP"),
]);

/// Flags of unshare and setns.
#[rustfmt::skip]
pub static CLONE_NAMESPACES: FlagSet = names("CLONE_", &[
    (0x80, "CLONE_NEWTIME"), (0x100, "CLONE_VM"), (0x200, "CLONE_FS"), (0x400, "CLONE_FILES"),
    (0x800, "CLONE_SIGHAND"), (0x10000, "CLONE_THREAD"), (0x20000, "CLONE_NEWNS"),
    (0x40000, "CLONE_SYSVSEM"), (0x2000000, "CLONE_NEWCGROUP"), (0x4000000, "CLONE_NEWUTS"),
    (0x8000000, "CLONE_NEWIPC"), (0x10000000, "CLONE_NEWUSER"), (0x20000000, "CLONE_NEWPID"),
    (0x40000000, "CLONE_NEWNET"),
]);

/// Options of wait4 and waitid.
#[rustfmt::skip]
pub static WAIT: FlagSet = names("W", &[
    (0x1, "WNOHANG"), (0x4, "WEXITED"), (0x2, "WSTOPPED"), (0x8, "WCONTINUED"),
    (0x1000000, "WNOWAIT"), (0x80000000, "__WCLONE"), (0x40000000, "__WALL"),
    (0x20000000, "__WNOTHREAD"),
]);

/// Id types of waitid.
#[rustfmt::skip]
pub static WAITID: FlagSet = names("P_", &[
    (0, "P_ALL"), (1, "P_PID"), (2, "P_PGID"), (3, "P_PIDFD"),
]);

/// Flags of pidfd_open.
#[rustfmt::skip]
pub static PIDFD: FlagSet = names("PIDFD_", &[
    (0o4000, "PIDFD_NONBLOCK"), (0o200, "PIDFD_THREAD"),
]);

/// Flags of pidfd_send_signal.
#[rustfmt::skip]
pub static PIDFD_SIGNAL: FlagSet = names("PIDFD_SIGNAL_", &[
    (0x1, "PIDFD_SIGNAL_THREAD"), (0x2, "PIDFD_SIGNAL_THREAD_GROUP"),
    (0x4, "PIDFD_SIGNAL_PROCESS_GROUP"),
]);

/// Resources that kcmp compares.
#[rustfmt::skip]
pub static KCMP: FlagSet = names("KCMP_", &[
    (0, "KCMP_FILE"), (1, "KCMP_VM"), (2, "KCMP_FILES"), (3, "KCMP_FS"), (4, "KCMP_SIGHAND"),
    (5, "KCMP_IO"), (6, "KCMP_SYSVSEM"), (7, "KCMP_EPOLL_TFD"),
]);

/// Personalities; the lowest byte holds the base.
#[rustfmt::skip]
pub static PERSONALITY: FlagSet = with_field("PER_", 0xff, &[
    (0, "PER_LINUX"), (0x1, "PER_SVR4"), (0x2, "PER_SVR3"), (0x3, "PER_SCOSVR3"),
    (0x4, "PER_WYSEV386"), (0x5, "PER_ISCR4"), (0x6, "PER_BSD"), (0x7, "PER_XENIX"),
    (0x8, "PER_LINUX32"), (0x9, "PER_IRIX32"), (0xa, "PER_IRIXN32"), (0xb, "PER_IRIX64"),
    (0xc, "PER_RISCOS"), (0xd, "PER_SOLARIS"), (0xe, "PER_UW7"), (0xf, "PER_OSF4"),
    (0x10, "PER_HPUX"), (0x20000, "UNAME26"), (0x40000, "ADDR_NO_RANDOMIZE"),
    (0x80000, "FDPIC_FUNCPTRS"), (0x100000, "MMAP_PAGE_ZERO"), (0x200000, "ADDR_COMPAT_LAYOUT"),
    (0x400000, "READ_IMPLIES_EXEC"), (0x800000, "ADDR_LIMIT_32BIT"), (0x1000000, "SHORT_INODE"),
    (0x2000000, "WHOLE_SECONDS"), (0x4000000, "STICKY_TIMEOUTS"), (0x8000000, "ADDR_LIMIT_3GB"),
]);

/// Id types of getpriority and setpriority.
#[rustfmt::skip]
pub static PRIO: FlagSet = names("PRIO_", &[
    (0, "PRIO_PROCESS"), (1, "PRIO_PGRP"), (2, "PRIO_USER"),
]);

/// Scheduling policies.
#[rustfmt::skip]
pub static SCHED: FlagSet = with_field("SCHED_", 0x3fffffff, &[
    (0, "SCHED_OTHER"), (0x1, "SCHED_FIFO"), (0x2, "SCHED_RR"), (0x3, "SCHED_BATCH"),
    (0x4, "SCHED_ISO"), (0x5, "SCHED_IDLE"), (0x6, "SCHED_DEADLINE"), (0x7, "SCHED_EXT"),
    (0x40000000, "SCHED_RESET_ON_FORK"),
]);

/// Flags in sched_attr.
#[rustfmt::skip]
pub static SCHED_FLAGS: FlagSet = names("SCHED_FLAG_", &[
    (0x1, "SCHED_FLAG_RESET_ON_FORK"), (0x2, "SCHED_FLAG_RECLAIM"), (0x4, "SCHED_FLAG_DL_OVERRUN"),
    (0x8, "SCHED_FLAG_KEEP_POLICY"), (0x10, "SCHED_FLAG_KEEP_PARAMS"),
    (0x20, "SCHED_FLAG_UTIL_CLAMP_MIN"), (0x40, "SCHED_FLAG_UTIL_CLAMP_MAX"),
]);

/// Id types of ioprio_get and ioprio_set.
#[rustfmt::skip]
pub static IOPRIO_WHO: FlagSet = names("IOPRIO_WHO_", &[
    (1, "IOPRIO_WHO_PROCESS"), (2, "IOPRIO_WHO_PGRP"), (3, "IOPRIO_WHO_USER"),
]);

/// I/O priorities: a class, and a level below it.
#[rustfmt::skip]
pub static IOPRIO: FlagSet = with_field("IOPRIO_CLASS_", 0xe000, &[
    (0, "IOPRIO_CLASS_NONE"), (0x2000, "IOPRIO_CLASS_RT"), (0x4000, "IOPRIO_CLASS_BE"),
    (0x6000, "IOPRIO_CLASS_IDLE"),
]);

/// Limited resources.
#[rustfmt::skip]
pub static RLIMIT: FlagSet = names("RLIMIT_", &[
    (0, "RLIMIT_CPU"), (1, "RLIMIT_FSIZE"), (2, "RLIMIT_DATA"), (3, "RLIMIT_STACK"),
    (4, "RLIMIT_CORE"), (5, "RLIMIT_RSS"), (6, "RLIMIT_NPROC"), (7, "RLIMIT_NOFILE"),
    (8, "RLIMIT_MEMLOCK"), (9, "RLIMIT_AS"), (10, "RLIMIT_LOCKS"), (11, "RLIMIT_SIGPENDING"),
    (12, "RLIMIT_MSGQUEUE"), (13, "RLIMIT_NICE"), (14, "RLIMIT_RTPRIO"), (15, "RLIMIT_RTTIME"),
]);

/// Values of limits that have a name.
#[rustfmt::skip]
pub static RLIM: FlagSet = names("RLIM_", &[
    (0xffffffffffffffff, "RLIM64_INFINITY"),
]);

/// Targets of getrusage.
#[rustfmt::skip]
pub static RUSAGE: FlagSet = names("RUSAGE_", &[
    (0, "RUSAGE_SELF"), (0xffffffff, "RUSAGE_CHILDREN"), (0xfffffffe, "RUSAGE_BOTH"),
    (1, "RUSAGE_THREAD"),
]);

/// Operations of futex; the lowest byte holds the operation and whether it is private.
#[rustfmt::skip]
pub static FUTEX: FlagSet = with_field("FUTEX_", 0xff, &[
    (0, "FUTEX_WAIT"), (0x1, "FUTEX_WAKE"), (0x2, "FUTEX_FD"), (0x3, "FUTEX_REQUEUE"),
    (0x4, "FUTEX_CMP_REQUEUE"), (0x5, "FUTEX_WAKE_OP"), (0x6, "FUTEX_LOCK_PI"),
    (0x7, "FUTEX_UNLOCK_PI"), (0x8, "FUTEX_TRYLOCK_PI"), (0x9, "FUTEX_WAIT_BITSET"),
    (0xa, "FUTEX_WAKE_BITSET"), (0xb, "FUTEX_WAIT_REQUEUE_PI"), (0xc, "FUTEX_CMP_REQUEUE_PI"),
    (0xd, "FUTEX_LOCK_PI2"), (0x80, "FUTEX_WAIT_PRIVATE"), (0x81, "FUTEX_WAKE_PRIVATE"),
    (0x82, "FUTEX_FD_PRIVATE"), (0x83, "FUTEX_REQUEUE_PRIVATE"),
    (0x84, "FUTEX_CMP_REQUEUE_PRIVATE"), (0x85, "FUTEX_WAKE_OP_PRIVATE"),
    (0x86, "FUTEX_LOCK_PI_PRIVATE"), (0x87, "FUTEX_UNLOCK_PI_PRIVATE"),
    (0x88, "FUTEX_TRYLOCK_PI_PRIVATE"), (0x89, "FUTEX_WAIT_BITSET_PRIVATE"),
    (0x8a, "FUTEX_WAKE_BITSET_PRIVATE"), (0x8b, "FUTEX_WAIT_REQUEUE_PI_PRIVATE"),
    (0x8c, "FUTEX_CMP_REQUEUE_PI_PRIVATE"), (0x8d, "FUTEX_LOCK_PI2_PRIVATE"),
    (0x100, "FUTEX_CLOCK_REALTIME"),
]);

/// Flags of the newer futex calls; two bits hold the size of the word.
#[rustfmt::skip]
pub static FUTEX2: FlagSet = with_field("FUTEX2_", 0x3, &[
    (0, "FUTEX2_SIZE_U8"), (0x1, "FUTEX2_SIZE_U16"), (0x2, "FUTEX2_SIZE_U32"),
    (0x3, "FUTEX2_SIZE_U64"), (0x4, "FUTEX2_NUMA"), (0x8, "FUTEX2_MPOL"), (0x80, "FUTEX2_PRIVATE"),
]);

/// Commands of membarrier.
#[rustfmt::skip]
pub static MEMBARRIER: FlagSet = names("MEMBARRIER_CMD_", &[
    (0, "MEMBARRIER_CMD_QUERY"), (0x1, "MEMBARRIER_CMD_GLOBAL"),
    (0x2, "MEMBARRIER_CMD_GLOBAL_EXPEDITED"), (0x4, "MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED"),
    (0x8, "MEMBARRIER_CMD_PRIVATE_EXPEDITED"), (0x10, "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED"),
    (0x20, "MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE"),
    (0x40, "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE"),
    (0x80, "MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ"),
    (0x100, "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ"),
    (0x200, "MEMBARRIER_CMD_GET_REGISTRATIONS"),
]);

/// Flags of membarrier.
#[rustfmt::skip]
pub static MEMBARRIER_FLAGS: FlagSet = names("MEMBARRIER_CMD_FLAG_", &[
    (0x1, "MEMBARRIER_CMD_FLAG_CPU"),
]);

/// Flags of rseq.
#[rustfmt::skip]
pub static RSEQ: FlagSet = names("RSEQ_FLAG_", &[
    (0x1, "RSEQ_FLAG_UNREGISTER"),
]);

/// Requests of ptrace.
#[rustfmt::skip]
pub static PTRACE: FlagSet = names("PTRACE_", &[
    (0, "PTRACE_TRACEME"), (0x1, "PTRACE_PEEKTEXT"), (0x2, "PTRACE_PEEKDATA"),
    (0x3, "PTRACE_PEEKUSER"), (0x4, "PTRACE_POKETEXT"), (0x5, "PTRACE_POKEDATA"),
    (0x6, "PTRACE_POKEUSER"), (0x7, "PTRACE_CONT"), (0x8, "PTRACE_KILL"),
    (0x9, "PTRACE_SINGLESTEP"), (0xc, "PTRACE_GETREGS"), (0xd, "PTRACE_SETREGS"),
    (0xe, "PTRACE_GETFPREGS"), (0xf, "PTRACE_SETFPREGS"), (0x10, "PTRACE_ATTACH"),
    (0x11, "PTRACE_DETACH"), (0x12, "PTRACE_GETFPXREGS"), (0x13, "PTRACE_SETFPXREGS"),
    (0x15, "PTRACE_OLDSETOPTIONS"), (0x18, "PTRACE_SYSCALL"), (0x19, "PTRACE_GET_THREAD_AREA"),
    (0x1a, "PTRACE_SET_THREAD_AREA"), (0x1e, "PTRACE_ARCH_PRCTL"), (0x1f, "PTRACE_SYSEMU"),
    (0x20, "PTRACE_SYSEMU_SINGLESTEP"), (0x21, "PTRACE_SINGLEBLOCK"),
    (0x4200, "PTRACE_SETOPTIONS"), (0x4201, "PTRACE_GETEVENTMSG"), (0x4202, "PTRACE_GETSIGINFO"),
    (0x4203, "PTRACE_SETSIGINFO"), (0x4204, "PTRACE_GETREGSET"), (0x4205, "PTRACE_SETREGSET"),
    (0x4206, "PTRACE_SEIZE"), (0x4207, "PTRACE_INTERRUPT"), (0x4208, "PTRACE_LISTEN"),
    (0x4209, "PTRACE_PEEKSIGINFO"), (0x420a, "PTRACE_GETSIGMASK"), (0x420b, "PTRACE_SETSIGMASK"),
    (0x420c, "PTRACE_SECCOMP_GET_FILTER"), (0x420d, "PTRACE_SECCOMP_GET_METADATA"),
    (0x420e, "PTRACE_GET_SYSCALL_INFO"), (0x420f, "PTRACE_GET_RSEQ_CONFIGURATION"),
    (0x4210, "PTRACE_SET_SYSCALL_USER_DISPATCH_CONFIG"),
    (0x4211, "PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG"), (0x4212, "PTRACE_SET_SYSCALL_INFO"),
]);

/// Options of ptrace.
#[rustfmt::skip]
pub static PTRACE_OPTIONS: FlagSet = names("PTRACE_O_", &[
    (0x1, "PTRACE_O_TRACESYSGOOD"), (0x2, "PTRACE_O_TRACEFORK"), (0x4, "PTRACE_O_TRACEVFORK"),
    (0x8, "PTRACE_O_TRACECLONE"), (0x10, "PTRACE_O_TRACEEXEC"), (0x20, "PTRACE_O_TRACEVFORKDONE"),
    (0x40, "PTRACE_O_TRACEEXIT"), (0x80, "PTRACE_O_TRACESECCOMP"), (0x100000, "PTRACE_O_EXITKILL"),
    (0x200000, "PTRACE_O_SUSPEND_SECCOMP"),
]);

/// Sets of registers.
#[rustfmt::skip]
pub static NT: FlagSet = names("NT_", &[
    (0x1, "NT_PRSTATUS"), (0x2, "NT_FPREGSET"), (0x3, "NT_PRPSINFO"), (0x4, "NT_TASKSTRUCT"),
    (0x6, "NT_AUXV"), (0x200, "NT_386_TLS"), (0x201, "NT_386_IOPERM"), (0x202, "NT_X86_XSTATE"),
    (0x204, "NT_X86_SHSTK"),
]);
