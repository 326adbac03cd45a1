//! Processes, limits, signals.

use super::FieldKind::{Enum, Fd, Flags, Hex, Named, SigSet, Signal, Signed, Struct, Unsigned};
use super::time::TIMEVAL;
use super::{Layout, field, layout};
use crate::flags as f;

/// Resource usage.
#[rustfmt::skip]
pub static RUSAGE: Layout = layout("rusage", 144, &[
    field(0, "ru_utime", Struct(&TIMEVAL)), field(16, "ru_stime", Struct(&TIMEVAL)),
    field(32, "ru_maxrss", Signed(8)), field(40, "ru_ixrss", Signed(8)),
    field(48, "ru_idrss", Signed(8)), field(56, "ru_isrss", Signed(8)),
    field(64, "ru_minflt", Signed(8)), field(72, "ru_majflt", Signed(8)),
    field(80, "ru_nswap", Signed(8)), field(88, "ru_inblock", Signed(8)),
    field(96, "ru_oublock", Signed(8)), field(104, "ru_msgsnd", Signed(8)),
    field(112, "ru_msgrcv", Signed(8)), field(120, "ru_nsignals", Signed(8)),
    field(128, "ru_nvcsw", Signed(8)), field(136, "ru_nivcsw", Signed(8)),
]);

/// A resource limit.
#[rustfmt::skip]
pub static RLIMIT: Layout = layout("rlimit64", 16, &[
    field(0, "rlim_cur", Named(8, &f::RLIM)), field(8, "rlim_max", Named(8, &f::RLIM)),
]);

/// Arguments of clone3.
#[rustfmt::skip]
pub static CLONE_ARGS: Layout = layout("clone_args", 88, &[
    field(0, "flags", Flags(8, &f::CLONE3)), field(8, "pidfd", Hex(8)),
    field(16, "child_tid", Hex(8)), field(24, "parent_tid", Hex(8)),
    field(32, "exit_signal", Enum(8, &f::SIGNAL)), field(40, "stack", Hex(8)),
    field(48, "stack_size", Hex(8)), field(56, "tls", Hex(8)), field(64, "set_tid", Hex(8)),
    field(72, "set_tid_size", Unsigned(8)), field(80, "cgroup", Unsigned(8)),
]);

/// Parameters of a scheduling policy.
#[rustfmt::skip]
pub static SCHED_PARAM: Layout = layout("sched_param", 4, &[
    field(0, "sched_priority", Signed(4)),
]);

/// Request of listns.
#[rustfmt::skip]
pub static NS_ID_REQ: Layout = layout("ns_id_req", 24, &[
    field(0, "size", Unsigned(4)), field(4, "ns_type", Flags(4, &f::CLONE_NAMESPACES)),
    field(8, "ns_id", Hex(8)), field(16, "user_ns_id", Hex(8)),
]);

/// A scheduling policy and its parameters.
#[rustfmt::skip]
pub static SCHED_ATTR: Layout = layout("sched_attr", 56, &[
    field(0, "size", Unsigned(4)), field(4, "sched_policy", Flags(4, &f::SCHED)),
    field(8, "sched_flags", Flags(8, &f::SCHED_FLAGS)), field(16, "sched_nice", Signed(4)),
    field(20, "sched_priority", Unsigned(4)), field(24, "sched_runtime", Unsigned(8)),
    field(32, "sched_deadline", Unsigned(8)), field(40, "sched_period", Unsigned(8)),
    field(48, "sched_util_min", Unsigned(4)), field(52, "sched_util_max", Unsigned(4)),
]);

/// A thread's list of robust futexes.
#[rustfmt::skip]
pub static ROBUST_LIST_HEAD: Layout = layout("robust_list_head", 24, &[
    field(0, "list", Hex(8)), field(8, "futex_offset", Signed(8)),
    field(16, "list_op_pending", Hex(8)),
]);

/// Restartable sequences.
#[rustfmt::skip]
pub static RSEQ: Layout = layout("rseq", 32, &[
    field(0, "cpu_id_start", Signed(4)), field(4, "cpu_id", Signed(4)),
    field(8, "rseq_cs", Hex(8)), field(16, "flags", Hex(4)), field(20, "node_id", Unsigned(4)),
    field(24, "mm_cid", Unsigned(4)),
]);

/// A futex to wait on.
#[rustfmt::skip]
pub static FUTEX_WAITV: Layout = layout("futex_waitv", 24, &[
    field(0, "val", Unsigned(8)), field(8, "uaddr", Hex(8)),
    field(16, "flags", Flags(4, &f::FUTEX2)),
]);

/// A signal action, as the kernel has it.
#[rustfmt::skip]
pub static SIGACTION: Layout = layout("sigaction", 32, &[
    field(0, "sa_handler", Named(8, &f::SIG_HANDLER)), field(8, "sa_flags", Flags(8, &f::SA)),
    field(16, "sa_restorer", Hex(8)), field(24, "sa_mask", SigSet),
]);

/// An alternate stack.
#[rustfmt::skip]
pub static STACK: Layout = layout("stack_t", 24, &[
    field(0, "ss_sp", Hex(8)), field(8, "ss_flags", Flags(4, &f::SS)),
    field(16, "ss_size", Unsigned(8)),
]);

/// A set of signals and its size, passed by pointer.
#[rustfmt::skip]
pub static SIGSET: Layout = layout("sigset_argpack", 16, &[
    field(0, "ss", Hex(8)), field(8, "ss_len", Unsigned(8)),
]);

/// How to notify of an event.
#[rustfmt::skip]
pub static SIGEVENT: Layout = layout("sigevent", 64, &[
    field(0, "sigev_value", Hex(8)), field(8, "sigev_signo", Signal),
    field(12, "sigev_notify", Enum(4, &f::SIGEV)), field(16, "sigev_notify_thread_id", Signed(4)),
]);

/// Capability header: the version and the thread.
#[rustfmt::skip]
pub static CAP_HEADER: Layout = layout("__user_cap_header_struct", 8, &[
    field(0, "version", Enum(4, &f::CAP_VERSION)), field(4, "pid", Signed(4)),
]);

/// Sets of 32 capabilities.
#[rustfmt::skip]
pub static CAP_DATA: Layout = layout("__user_cap_data_struct", 12, &[
    field(0, "effective", Hex(4)), field(4, "permitted", Hex(4)), field(8, "inheritable", Hex(4)),
]);

/// A seccomp filter program.
#[rustfmt::skip]
pub static SOCK_FPROG: Layout = layout("sock_fprog", 16, &[
    field(0, "len", Unsigned(2)), field(8, "filter", Hex(8)),
]);

/// An instruction of a filter.
#[rustfmt::skip]
pub static SOCK_FILTER: Layout = layout("sock_filter", 8, &[
    field(0, "code", Hex(2)), field(2, "jt", Unsigned(1)), field(3, "jf", Unsigned(1)),
    field(4, "k", Hex(4)),
]);

/// Sizes of seccomp's structs.
#[rustfmt::skip]
pub static SECCOMP_NOTIF_SIZES: Layout = layout("seccomp_notif_sizes", 6, &[
    field(0, "seccomp_notif", Unsigned(2)), field(2, "seccomp_notif_resp", Unsigned(2)),
    field(4, "seccomp_data", Unsigned(2)),
]);

/// The access rights that a Landlock ruleset handles.
#[rustfmt::skip]
pub static LANDLOCK_RULESET_ATTR: Layout = layout("landlock_ruleset_attr", 24, &[
    field(0, "handled_access_fs", Flags(8, &f::LANDLOCK_FS)),
    field(8, "handled_access_net", Flags(8, &f::LANDLOCK_NET)),
    field(16, "scoped", Flags(8, &f::LANDLOCK_SCOPE)),
]);

/// A Landlock rule for a file tree.
#[rustfmt::skip]
pub static LANDLOCK_PATH_BENEATH: Layout = layout("landlock_path_beneath_attr", 12, &[
    field(0, "allowed_access", Flags(8, &f::LANDLOCK_FS)), field(8, "parent_fd", Fd),
]);

/// A Landlock rule for a port.
#[rustfmt::skip]
pub static LANDLOCK_NET_PORT: Layout = layout("landlock_net_port_attr", 16, &[
    field(0, "allowed_access", Flags(8, &f::LANDLOCK_NET)), field(8, "port", Unsigned(8)),
]);

/// The registers of a thread.
#[rustfmt::skip]
pub static USER_REGS: Layout = layout("user_regs_struct", 216, &[
    field(0, "r15", Hex(8)), field(8, "r14", Hex(8)), field(16, "r13", Hex(8)),
    field(24, "r12", Hex(8)), field(32, "rbp", Hex(8)), field(40, "rbx", Hex(8)),
    field(48, "r11", Hex(8)), field(56, "r10", Hex(8)), field(64, "r9", Hex(8)),
    field(72, "r8", Hex(8)), field(80, "rax", Hex(8)), field(88, "rcx", Hex(8)),
    field(96, "rdx", Hex(8)), field(104, "rsi", Hex(8)), field(112, "rdi", Hex(8)),
    field(120, "orig_rax", Hex(8)), field(128, "rip", Hex(8)), field(136, "cs", Hex(8)),
    field(144, "eflags", Hex(8)), field(152, "rsp", Hex(8)), field(160, "ss", Hex(8)),
    field(168, "fs_base", Hex(8)), field(176, "gs_base", Hex(8)), field(184, "ds", Hex(8)),
    field(192, "es", Hex(8)), field(200, "fs", Hex(8)), field(208, "gs", Hex(8)),
]);

/// The range of queued signals to read.
#[rustfmt::skip]
pub static PTRACE_PEEKSIGINFO: Layout = layout("ptrace_peeksiginfo_args", 16, &[
    field(0, "off", Unsigned(8)), field(8, "flags", Hex(4)), field(12, "nr", Signed(4)),
]);
