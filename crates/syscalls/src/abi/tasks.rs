//! Numbers in calls on tasks, namespaces and mounts.

/// The new task shares the memory.
pub const CLONE_VM: u64 = 0x100;
/// The new task shares root, working directory and umask.
pub const CLONE_FS: u64 = 0x200;
/// The new task shares the table of descriptors.
pub const CLONE_FILES: u64 = 0x400;
/// The call returns a descriptor of the new task.
pub const CLONE_PIDFD: u64 = 0x1000;
/// The maker sleeps until the new task executes a program or ends.
pub const CLONE_VFORK: u64 = 0x4000;
/// The new task has the same parent as its maker.
pub const CLONE_PARENT: u64 = 0x8000;
/// The new task is a thread of the same process.
pub const CLONE_THREAD: u64 = 0x1_0000;
/// New mounts.
pub const CLONE_NEWNS: u64 = 0x2_0000;
/// The new task gets its own thread-local storage.
pub const CLONE_SETTLS: u64 = 0x8_0000;
/// The new task's id is stored in its maker's memory.
pub const CLONE_PARENT_SETTID: u64 = 0x10_0000;
/// The new task's id is cleared in its memory when it ends.
pub const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
/// The new task's id is stored in its memory.
pub const CLONE_CHILD_SETTID: u64 = 0x100_0000;
/// New users.
pub const CLONE_NEWUSER: u64 = 0x1000_0000;
/// New process ids.
pub const CLONE_NEWPID: u64 = 0x2000_0000;

/// Of waitid: the id is a descriptor.
pub const P_PIDFD: u64 = 3;
/// Of prctl: calls from outside a range raise SIGSYS.
pub const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
/// Turns that on.
pub const PR_SYS_DISPATCH_ON: u64 = 1;

/// Of arch_prctl: sets the base of `%gs`.
pub const ARCH_SET_GS: u32 = 0x1001;
/// Of arch_prctl: asks for it.
pub const ARCH_GET_GS: u32 = 0x1004;

/// Limit on the size of the stack.
pub const RLIMIT_STACK: u64 = 3;
/// Limit on the length of files.
pub const RLIMIT_FSIZE: u64 = 1;
/// Limit on the numbers of descriptors.
pub const RLIMIT_NOFILE: u64 = 7;

/// Of a new seccomp filter: it applies to all threads.
pub const SECCOMP_FILTER_FLAG_TSYNC: u64 = 1;

/// Changes the flags of a mount.
pub const MS_REMOUNT: u64 = 0x20;
/// Mounts a directory a second time.
pub const MS_BIND: u64 = 0x1000;
/// Moves a mount.
pub const MS_MOVE: u64 = 0x2000;
/// With `MS_BIND`: also the mounts below.
pub const MS_REC: u64 = 0x4000;
/// Bits that say who sees mounts below: unbindable, private, slave, shared.
pub const MS_PROPAGATION: u64 = 0x1e_0000;
/// Detaches a mount that is in use.
pub const MNT_DETACH: u64 = 2;

/// Of kcmp: compares what two descriptors lead to.
pub const KCMP_FILE: i64 = 0;
/// Bits of the operation of a futex call.
pub const FUTEX_CMD_MASK: u64 = 0x7f;

/// Request of ioctl on a process: what is known of it, in a struct of 64 bytes (its first version).
pub const PIDFD_GET_INFO: u64 = 0xc040_ff0b;
