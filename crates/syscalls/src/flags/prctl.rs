//! Operations on the calling process: prctl, capabilities, seccomp.

use super::names;
use crate::flag_set::FlagSet;

/// Operations of prctl.
#[rustfmt::skip]
pub static PRCTL: FlagSet = names("PR_", &[
    (1, "PR_SET_PDEATHSIG"), (2, "PR_GET_PDEATHSIG"), (3, "PR_GET_DUMPABLE"),
    (4, "PR_SET_DUMPABLE"), (5, "PR_GET_UNALIGN"), (6, "PR_SET_UNALIGN"), (7, "PR_GET_KEEPCAPS"),
    (8, "PR_SET_KEEPCAPS"), (9, "PR_GET_FPEMU"), (10, "PR_SET_FPEMU"), (11, "PR_GET_FPEXC"),
    (12, "PR_SET_FPEXC"), (13, "PR_GET_TIMING"), (14, "PR_SET_TIMING"), (15, "PR_SET_NAME"),
    (16, "PR_GET_NAME"), (19, "PR_GET_ENDIAN"), (20, "PR_SET_ENDIAN"), (21, "PR_GET_SECCOMP"),
    (22, "PR_SET_SECCOMP"), (23, "PR_CAPBSET_READ"), (24, "PR_CAPBSET_DROP"), (25, "PR_GET_TSC"),
    (26, "PR_SET_TSC"), (27, "PR_GET_SECUREBITS"), (28, "PR_SET_SECUREBITS"),
    (29, "PR_SET_TIMERSLACK"), (30, "PR_GET_TIMERSLACK"), (31, "PR_TASK_PERF_EVENTS_DISABLE"),
    (32, "PR_TASK_PERF_EVENTS_ENABLE"), (33, "PR_MCE_KILL"), (34, "PR_MCE_KILL_GET"),
    (35, "PR_SET_MM"), (36, "PR_SET_CHILD_SUBREAPER"), (37, "PR_GET_CHILD_SUBREAPER"),
    (38, "PR_SET_NO_NEW_PRIVS"), (39, "PR_GET_NO_NEW_PRIVS"), (40, "PR_GET_TID_ADDRESS"),
    (41, "PR_SET_THP_DISABLE"), (42, "PR_GET_THP_DISABLE"), (43, "PR_MPX_ENABLE_MANAGEMENT"),
    (44, "PR_MPX_DISABLE_MANAGEMENT"), (45, "PR_SET_FP_MODE"), (46, "PR_GET_FP_MODE"),
    (47, "PR_CAP_AMBIENT"), (50, "PR_SVE_SET_VL"), (51, "PR_SVE_GET_VL"),
    (52, "PR_GET_SPECULATION_CTRL"), (53, "PR_SET_SPECULATION_CTRL"), (54, "PR_PAC_RESET_KEYS"),
    (55, "PR_SET_TAGGED_ADDR_CTRL"), (56, "PR_GET_TAGGED_ADDR_CTRL"), (57, "PR_SET_IO_FLUSHER"),
    (58, "PR_GET_IO_FLUSHER"), (59, "PR_SET_SYSCALL_USER_DISPATCH"),
    (60, "PR_PAC_SET_ENABLED_KEYS"), (61, "PR_PAC_GET_ENABLED_KEYS"), (62, "PR_SCHED_CORE"),
    (63, "PR_SME_SET_VL"), (64, "PR_SME_GET_VL"), (65, "PR_SET_MDWE"), (66, "PR_GET_MDWE"),
    (67, "PR_SET_MEMORY_MERGE"), (68, "PR_GET_MEMORY_MERGE"), (69, "PR_RISCV_V_SET_CONTROL"),
    (70, "PR_RISCV_V_GET_CONTROL"), (71, "PR_RISCV_SET_ICACHE_FLUSH_CTX"),
    (72, "PR_PPC_GET_DEXCR"), (73, "PR_PPC_SET_DEXCR"), (74, "PR_GET_SHADOW_STACK_STATUS"),
    (75, "PR_SET_SHADOW_STACK_STATUS"), (76, "PR_LOCK_SHADOW_STACK_STATUS"),
    (77, "PR_TIMER_CREATE_RESTORE_IDS"), (78, "PR_FUTEX_HASH"), (0x53564d41, "PR_SET_VMA"),
    (0x41555856, "PR_GET_AUXV"), (0x59616d61, "PR_SET_PTRACER"),
]);

/// Treatment of unaligned accesses.
#[rustfmt::skip]
pub static PR_UNALIGN: FlagSet = names("PR_UNALIGN_", &[
    (0x1, "PR_UNALIGN_NOPRINT"), (0x2, "PR_UNALIGN_SIGBUS"),
]);

/// Values of PR_SET_TSC: access to the time stamp counter.
#[rustfmt::skip]
pub static PR_TSC: FlagSet = names("PR_TSC_", &[
    (1, "PR_TSC_ENABLE"), (2, "PR_TSC_SIGSEGV"),
]);

/// Operations of PR_MCE_KILL.
#[rustfmt::skip]
pub static PR_MCE: FlagSet = names("PR_MCE_KILL_", &[
    (0, "PR_MCE_KILL_CLEAR"), (1, "PR_MCE_KILL_SET"),
]);

/// When to kill a process after a memory error.
#[rustfmt::skip]
pub static PR_MCE_KILL: FlagSet = names("PR_MCE_KILL_", &[
    (0, "PR_MCE_KILL_LATE"), (1, "PR_MCE_KILL_EARLY"), (2, "PR_MCE_KILL_DEFAULT"),
]);

/// Fields of the memory map.
#[rustfmt::skip]
pub static PR_SET_MM: FlagSet = names("PR_SET_MM_", &[
    (1, "PR_SET_MM_START_CODE"), (2, "PR_SET_MM_END_CODE"), (3, "PR_SET_MM_START_DATA"),
    (4, "PR_SET_MM_END_DATA"), (5, "PR_SET_MM_START_STACK"), (6, "PR_SET_MM_START_BRK"),
    (7, "PR_SET_MM_BRK"), (8, "PR_SET_MM_ARG_START"), (9, "PR_SET_MM_ARG_END"),
    (10, "PR_SET_MM_ENV_START"), (11, "PR_SET_MM_ENV_END"), (12, "PR_SET_MM_AUXV"),
    (13, "PR_SET_MM_EXE_FILE"), (14, "PR_SET_MM_MAP"), (15, "PR_SET_MM_MAP_SIZE"),
]);

/// Operations on the ambient capabilities.
#[rustfmt::skip]
pub static PR_CAP_AMBIENT: FlagSet = names("PR_CAP_AMBIENT_", &[
    (1, "PR_CAP_AMBIENT_IS_SET"), (2, "PR_CAP_AMBIENT_RAISE"), (3, "PR_CAP_AMBIENT_LOWER"),
    (4, "PR_CAP_AMBIENT_CLEAR_ALL"),
]);

/// Speculation features that can be controlled.
#[rustfmt::skip]
pub static PR_SPEC: FlagSet = names("PR_SPEC_", &[
    (0, "PR_SPEC_STORE_BYPASS"), (1, "PR_SPEC_INDIRECT_BRANCH"), (2, "PR_SPEC_L1D_FLUSH"),
]);

/// States of speculation.
#[rustfmt::skip]
pub static PR_SPEC_VALUE: FlagSet = names("PR_SPEC_", &[
    (0, "PR_SPEC_NOT_AFFECTED"), (0x1, "PR_SPEC_PRCTL"), (0x2, "PR_SPEC_ENABLE"),
    (0x4, "PR_SPEC_DISABLE"), (0x8, "PR_SPEC_FORCE_DISABLE"), (0x10, "PR_SPEC_DISABLE_NOEXEC"),
]);

/// Modes of user dispatch.
#[rustfmt::skip]
pub static PR_DISPATCH: FlagSet = names("PR_SYS_DISPATCH_", &[
    (0, "PR_SYS_DISPATCH_OFF"), (1, "PR_SYS_DISPATCH_ON"), (2, "PR_SYS_DISPATCH_INCLUSIVE_ON"),
]);

/// Operations on core scheduling.
#[rustfmt::skip]
pub static PR_SCHED_CORE: FlagSet = names("PR_SCHED_CORE_", &[
    (0, "PR_SCHED_CORE_GET"), (1, "PR_SCHED_CORE_CREATE"), (2, "PR_SCHED_CORE_SHARE_TO"),
    (3, "PR_SCHED_CORE_SHARE_FROM"),
]);

/// Scope of core scheduling.
#[rustfmt::skip]
pub static PR_SCHED_CORE_SCOPE: FlagSet = names("PR_SCHED_CORE_SCOPE_", &[
    (0, "PR_SCHED_CORE_SCOPE_THREAD"), (1, "PR_SCHED_CORE_SCOPE_THREAD_GROUP"),
    (2, "PR_SCHED_CORE_SCOPE_PROCESS_GROUP"),
]);

/// Attributes of a mapping.
#[rustfmt::skip]
pub static PR_VMA: FlagSet = names("PR_SET_VMA_", &[
    (0, "PR_SET_VMA_ANON_NAME"),
]);

/// Secure bits.
#[rustfmt::skip]
pub static SECUREBITS: FlagSet = names("SECBIT_", &[
    (0x1, "SECBIT_NOROOT"), (0x2, "SECBIT_NOROOT_LOCKED"), (0x4, "SECBIT_NO_SETUID_FIXUP"),
    (0x8, "SECBIT_NO_SETUID_FIXUP_LOCKED"), (0x10, "SECBIT_KEEP_CAPS"),
    (0x20, "SECBIT_KEEP_CAPS_LOCKED"), (0x40, "SECBIT_NO_CAP_AMBIENT_RAISE"),
    (0x80, "SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED"), (0x100, "SECBIT_EXEC_RESTRICT_FILE"),
    (0x200, "SECBIT_EXEC_RESTRICT_FILE_LOCKED"), (0x400, "SECBIT_EXEC_DENY_INTERACTIVE"),
    (0x800, "SECBIT_EXEC_DENY_INTERACTIVE_LOCKED"),
]);

/// Capabilities.
#[rustfmt::skip]
pub static CAP: FlagSet = names("CAP_", &[
    (0, "CAP_CHOWN"), (1, "CAP_DAC_OVERRIDE"), (2, "CAP_DAC_READ_SEARCH"), (3, "CAP_FOWNER"),
    (4, "CAP_FSETID"), (5, "CAP_KILL"), (6, "CAP_SETGID"), (7, "CAP_SETUID"), (8, "CAP_SETPCAP"),
    (9, "CAP_LINUX_IMMUTABLE"), (10, "CAP_NET_BIND_SERVICE"), (11, "CAP_NET_BROADCAST"),
    (12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW"), (14, "CAP_IPC_LOCK"), (15, "CAP_IPC_OWNER"),
    (16, "CAP_SYS_MODULE"), (17, "CAP_SYS_RAWIO"), (18, "CAP_SYS_CHROOT"), (19, "CAP_SYS_PTRACE"),
    (20, "CAP_SYS_PACCT"), (21, "CAP_SYS_ADMIN"), (22, "CAP_SYS_BOOT"), (23, "CAP_SYS_NICE"),
    (24, "CAP_SYS_RESOURCE"), (25, "CAP_SYS_TIME"), (26, "CAP_SYS_TTY_CONFIG"), (27, "CAP_MKNOD"),
    (28, "CAP_LEASE"), (29, "CAP_AUDIT_WRITE"), (30, "CAP_AUDIT_CONTROL"), (31, "CAP_SETFCAP"),
    (32, "CAP_MAC_OVERRIDE"), (33, "CAP_MAC_ADMIN"), (34, "CAP_SYSLOG"), (35, "CAP_WAKE_ALARM"),
    (36, "CAP_BLOCK_SUSPEND"), (37, "CAP_AUDIT_READ"), (38, "CAP_PERFMON"), (39, "CAP_BPF"),
    (40, "CAP_CHECKPOINT_RESTORE"),
]);

/// The first 32 capabilities, as bits.
#[rustfmt::skip]
pub static CAP_BITS: FlagSet = names("CAP_", &[
    (0x1, "CAP_CHOWN"), (0x2, "CAP_DAC_OVERRIDE"), (0x4, "CAP_DAC_READ_SEARCH"),
    (0x8, "CAP_FOWNER"), (0x10, "CAP_FSETID"), (0x20, "CAP_KILL"), (0x40, "CAP_SETGID"),
    (0x80, "CAP_SETUID"), (0x100, "CAP_SETPCAP"), (0x200, "CAP_LINUX_IMMUTABLE"),
    (0x400, "CAP_NET_BIND_SERVICE"), (0x800, "CAP_NET_BROADCAST"), (0x1000, "CAP_NET_ADMIN"),
    (0x2000, "CAP_NET_RAW"), (0x4000, "CAP_IPC_LOCK"), (0x8000, "CAP_IPC_OWNER"),
    (0x10000, "CAP_SYS_MODULE"), (0x20000, "CAP_SYS_RAWIO"), (0x40000, "CAP_SYS_CHROOT"),
    (0x80000, "CAP_SYS_PTRACE"), (0x100000, "CAP_SYS_PACCT"), (0x200000, "CAP_SYS_ADMIN"),
    (0x400000, "CAP_SYS_BOOT"), (0x800000, "CAP_SYS_NICE"), (0x1000000, "CAP_SYS_RESOURCE"),
    (0x2000000, "CAP_SYS_TIME"), (0x4000000, "CAP_SYS_TTY_CONFIG"), (0x8000000, "CAP_MKNOD"),
    (0x10000000, "CAP_LEASE"), (0x20000000, "CAP_AUDIT_WRITE"), (0x40000000, "CAP_AUDIT_CONTROL"),
    (0x80000000, "CAP_SETFCAP"),
]);

/// Versions of capability sets.
#[rustfmt::skip]
pub static CAP_VERSION: FlagSet = names("_LINUX_CAPABILITY_VERSION_", &[
    (0x19980330, "_LINUX_CAPABILITY_VERSION_1"), (0x20071026, "_LINUX_CAPABILITY_VERSION_2"),
    (0x20080522, "_LINUX_CAPABILITY_VERSION_3"),
]);

/// Operations of seccomp.
#[rustfmt::skip]
pub static SECCOMP: FlagSet = names("SECCOMP_", &[
    (0, "SECCOMP_SET_MODE_STRICT"), (1, "SECCOMP_SET_MODE_FILTER"),
    (2, "SECCOMP_GET_ACTION_AVAIL"), (3, "SECCOMP_GET_NOTIF_SIZES"),
]);

/// Flags of seccomp.
#[rustfmt::skip]
pub static SECCOMP_FLAGS: FlagSet = names("SECCOMP_FILTER_FLAG_", &[
    (0x1, "SECCOMP_FILTER_FLAG_TSYNC"), (0x2, "SECCOMP_FILTER_FLAG_LOG"),
    (0x4, "SECCOMP_FILTER_FLAG_SPEC_ALLOW"), (0x8, "SECCOMP_FILTER_FLAG_NEW_LISTENER"),
    (0x10, "SECCOMP_FILTER_FLAG_TSYNC_ESRCH"), (0x20, "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"),
]);

/// Modes of seccomp.
#[rustfmt::skip]
pub static SECCOMP_MODE: FlagSet = names("SECCOMP_MODE_", &[
    (0, "SECCOMP_MODE_DISABLED"), (1, "SECCOMP_MODE_STRICT"), (2, "SECCOMP_MODE_FILTER"),
]);

/// Flags of landlock_create_ruleset.
#[rustfmt::skip]
pub static LANDLOCK_CREATE: FlagSet = names("LANDLOCK_CREATE_RULESET_", &[
    (0x1, "LANDLOCK_CREATE_RULESET_VERSION"), (0x2, "LANDLOCK_CREATE_RULESET_ERRATA"),
]);

/// Kinds of Landlock rules.
#[rustfmt::skip]
pub static LANDLOCK_RULE: FlagSet = names("LANDLOCK_RULE_", &[
    (1, "LANDLOCK_RULE_PATH_BENEATH"), (2, "LANDLOCK_RULE_NET_PORT"),
]);

/// Flags of landlock_restrict_self.
#[rustfmt::skip]
pub static LANDLOCK_RESTRICT: FlagSet = names("LANDLOCK_RESTRICT_SELF_", &[
    (0x1, "LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF"),
    (0x2, "LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON"),
    (0x4, "LANDLOCK_RESTRICT_SELF_LOG_SUBDOMAINS_OFF"),
]);

/// File system rights of Landlock.
#[rustfmt::skip]
pub static LANDLOCK_FS: FlagSet = names("LANDLOCK_ACCESS_FS_", &[
    (0x1, "LANDLOCK_ACCESS_FS_EXECUTE"), (0x2, "LANDLOCK_ACCESS_FS_WRITE_FILE"),
    (0x4, "LANDLOCK_ACCESS_FS_READ_FILE"), (0x8, "LANDLOCK_ACCESS_FS_READ_DIR"),
    (0x10, "LANDLOCK_ACCESS_FS_REMOVE_DIR"), (0x20, "LANDLOCK_ACCESS_FS_REMOVE_FILE"),
    (0x40, "LANDLOCK_ACCESS_FS_MAKE_CHAR"), (0x80, "LANDLOCK_ACCESS_FS_MAKE_DIR"),
    (0x100, "LANDLOCK_ACCESS_FS_MAKE_REG"), (0x200, "LANDLOCK_ACCESS_FS_MAKE_SOCK"),
    (0x400, "LANDLOCK_ACCESS_FS_MAKE_FIFO"), (0x800, "LANDLOCK_ACCESS_FS_MAKE_BLOCK"),
    (0x1000, "LANDLOCK_ACCESS_FS_MAKE_SYM"), (0x2000, "LANDLOCK_ACCESS_FS_REFER"),
    (0x4000, "LANDLOCK_ACCESS_FS_TRUNCATE"), (0x8000, "LANDLOCK_ACCESS_FS_IOCTL_DEV"),
]);

/// Network rights of Landlock.
#[rustfmt::skip]
pub static LANDLOCK_NET: FlagSet = names("LANDLOCK_ACCESS_NET_", &[
    (0x1, "LANDLOCK_ACCESS_NET_BIND_TCP"), (0x2, "LANDLOCK_ACCESS_NET_CONNECT_TCP"),
]);

/// Scopes of Landlock.
#[rustfmt::skip]
pub static LANDLOCK_SCOPE: FlagSet = names("LANDLOCK_SCOPE_", &[
    (0x1, "LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET"), (0x2, "LANDLOCK_SCOPE_SIGNAL"),
]);

/// Attributes of security modules.
#[rustfmt::skip]
pub static LSM_ATTR: FlagSet = names("LSM_ATTR_", &[
    (0, "LSM_ATTR_UNDEF"), (100, "LSM_ATTR_CURRENT"), (101, "LSM_ATTR_EXEC"),
    (102, "LSM_ATTR_FSCREATE"), (103, "LSM_ATTR_KEYCREATE"), (104, "LSM_ATTR_PREV"),
    (105, "LSM_ATTR_SOCKCREATE"),
]);

/// Flags of lsm_get_self_attr.
#[rustfmt::skip]
pub static LSM_FLAGS: FlagSet = names("LSM_FLAG_", &[
    (0x1, "LSM_FLAG_SINGLE"),
]);

/// Operations of keyctl.
#[rustfmt::skip]
pub static KEYCTL: FlagSet = names("KEYCTL_", &[
    (0, "KEYCTL_GET_KEYRING_ID"), (1, "KEYCTL_JOIN_SESSION_KEYRING"), (2, "KEYCTL_UPDATE"),
    (3, "KEYCTL_REVOKE"), (4, "KEYCTL_CHOWN"), (5, "KEYCTL_SETPERM"), (6, "KEYCTL_DESCRIBE"),
    (7, "KEYCTL_CLEAR"), (8, "KEYCTL_LINK"), (9, "KEYCTL_UNLINK"), (10, "KEYCTL_SEARCH"),
    (11, "KEYCTL_READ"), (12, "KEYCTL_INSTANTIATE"), (13, "KEYCTL_NEGATE"),
    (14, "KEYCTL_SET_REQKEY_KEYRING"), (15, "KEYCTL_SET_TIMEOUT"), (16, "KEYCTL_ASSUME_AUTHORITY"),
    (17, "KEYCTL_GET_SECURITY"), (18, "KEYCTL_SESSION_TO_PARENT"), (19, "KEYCTL_REJECT"),
    (20, "KEYCTL_INSTANTIATE_IOV"), (21, "KEYCTL_INVALIDATE"), (22, "KEYCTL_GET_PERSISTENT"),
    (23, "KEYCTL_DH_COMPUTE"), (24, "KEYCTL_PKEY_QUERY"), (25, "KEYCTL_PKEY_ENCRYPT"),
    (26, "KEYCTL_PKEY_DECRYPT"), (27, "KEYCTL_PKEY_SIGN"), (28, "KEYCTL_PKEY_VERIFY"),
    (29, "KEYCTL_RESTRICT_KEYRING"), (30, "KEYCTL_MOVE"), (31, "KEYCTL_CAPABILITIES"),
    (32, "KEYCTL_WATCH_KEY"),
]);

/// Special keyrings; other values are serial numbers.
#[rustfmt::skip]
pub static KEYRING: FlagSet = names("KEY_SPEC_", &[
    (0xffffffff, "KEY_SPEC_THREAD_KEYRING"), (0xfffffffe, "KEY_SPEC_PROCESS_KEYRING"),
    (0xfffffffd, "KEY_SPEC_SESSION_KEYRING"), (0xfffffffc, "KEY_SPEC_USER_KEYRING"),
    (0xfffffffb, "KEY_SPEC_USER_SESSION_KEYRING"), (0xfffffffa, "KEY_SPEC_GROUP_KEYRING"),
    (0xfffffff9, "KEY_SPEC_REQKEY_AUTH_KEY"), (0xfffffff8, "KEY_SPEC_REQUESTOR_KEYRING"),
]);

/// Permissions of a key.
#[rustfmt::skip]
pub static KEY_PERM: FlagSet = names("KEY_", &[
    (0x1000000, "KEY_POS_VIEW"), (0x2000000, "KEY_POS_READ"), (0x4000000, "KEY_POS_WRITE"),
    (0x8000000, "KEY_POS_SEARCH"), (0x10000000, "KEY_POS_LINK"), (0x20000000, "KEY_POS_SETATTR"),
    (0x10000, "KEY_USR_VIEW"), (0x20000, "KEY_USR_READ"), (0x40000, "KEY_USR_WRITE"),
    (0x80000, "KEY_USR_SEARCH"), (0x100000, "KEY_USR_LINK"), (0x200000, "KEY_USR_SETATTR"),
    (0x100, "KEY_GRP_VIEW"), (0x200, "KEY_GRP_READ"), (0x400, "KEY_GRP_WRITE"),
    (0x800, "KEY_GRP_SEARCH"), (0x1000, "KEY_GRP_LINK"), (0x2000, "KEY_GRP_SETATTR"),
    (0x1, "KEY_OTH_VIEW"), (0x2, "KEY_OTH_READ"), (0x4, "KEY_OTH_WRITE"), (0x8, "KEY_OTH_SEARCH"),
    (0x10, "KEY_OTH_LINK"), (0x20, "KEY_OTH_SETATTR"),
]);
