//! Fields that are single bits.

/// A field that is true if the masked number has a given value.
pub struct Bit {
    /// Name of the field.
    pub field: &'static str,
    /// Mask applied to the number.
    pub mask: i64,
    /// Value that the masked number must have.
    pub value: i64,
}

const fn flag(field: &'static str, mask: i64) -> Bit {
    Bit { field, mask, value: mask }
}

const fn choice(field: &'static str, mask: i64, value: i64) -> Bit {
    Bit { field, mask, value }
}

const fn exactly(field: &'static str, value: i64) -> Bit {
    Bit { field, mask: -1, value }
}

/// Permission bits.
pub static MODE: &[Bit] = &[
    flag("mode_uid", 0o4000),
    flag("mode_gid", 0o2000),
    flag("mode_sticky_bit", 0o1000),
    flag("mode_R_user", 0o400),
    flag("mode_W_user", 0o200),
    flag("mode_X_user", 0o100),
    flag("mode_R_group", 0o40),
    flag("mode_W_group", 0o20),
    flag("mode_X_group", 0o10),
    flag("mode_R_others", 0o4),
    flag("mode_W_others", 0o2),
    flag("mode_X_others", 0o1),
];

/// Flags of open.
pub static OPEN: &[Bit] = &[
    choice("flag_read_only", 3, 0),
    choice("flag_write_only", 3, 1),
    choice("flag_read_and_write", 3, 2),
    flag("flag_append", 0o2000),
    flag("flag_async", 0o20000),
    flag("flag_close_on_exec", 0o2_000_000),
    flag("flag_create", 0o100),
    flag("flag_direct", 0o40000),
    flag("flag_directory", 0o200_000),
    flag("flag_exclusive", 0o200),
    flag("flag_largefile", 0o100_000),
    flag("flag_no_access_time", 0o1_000_000),
    flag("flag_no_controlling_terminal", 0o400),
    flag("flag_no_follow", 0o400_000),
    flag("flag_no_blocking_mode", 0o4000),
    flag("flag_no_delay", 0o4000),
    flag("flag_synchronous", 0o4_010_000),
    flag("flag_truncate", 0o1000),
];

/// The command of fcntl.
pub static COMMAND: &[Bit] = &[
    exactly("command_dup", 0),
    exactly("command_get_descriptor_flags", 1),
    exactly("command_set_descriptor_flags", 2),
    exactly("command_get_status_flags", 3),
    exactly("command_set_status_flags", 4),
    exactly("command_get_lock", 5),
    exactly("command_set_lock", 6),
    exactly("command_set_lock_wait", 7),
    exactly("command_set_process_id", 8),
    exactly("command_get_process_id", 9),
    exactly("command_set_signal", 10),
    exactly("command_get_signal", 11),
    exactly("command_set_lease", 1024),
    exactly("command_get_lease", 1025),
    exactly("command_notify", 1026),
];

/// Flags of F_SETFD.
pub static DESCRIPTOR_FLAGS: &[Bit] = &[flag("argument_descriptor_flag_exec_close", 1)];

/// Flags of F_SETFL.
pub static STATUS_FLAGS: &[Bit] = &[
    choice("argument_status_flag_read_only", 3, 0),
    choice("argument_status_flag_write_only", 3, 1),
    choice("argument_status_flag_read_and_write", 3, 2),
    flag("argument_status_flag_append", 0o2000),
    flag("argument_status_flag_async", 0o20000),
    flag("argument_status_flag_create", 0o100),
    flag("argument_status_flag_direct", 0o40000),
    flag("argument_status_flag_directory", 0o200_000),
    flag("argument_status_flag_exclusive", 0o200),
    flag("argument_status_flag_largefile", 0o100_000),
    flag("argument_status_flag_no_access_time", 0o1_000_000),
    flag("argument_status_flag_no_controlling_terminal", 0o400),
    flag("argument_status_flag_no_follow", 0o400_000),
    flag("argument_status_flag_no_blocking_mode", 0o4000),
    flag("argument_status_flag_no_delay", 0o4000),
    flag("argument_status_flag_synchronous", 0o4_010_000),
    flag("argument_status_flag_truncate", 0o1000),
];

/// Types of F_SETLEASE.
pub static LEASE: &[Bit] = &[
    exactly("argument_lease_read", 0),
    exactly("argument_lease_write", 1),
    exactly("argument_lease_remove", 2),
];

/// Events of F_NOTIFY.
pub static NOTIFY: &[Bit] = &[
    flag("argument_notify_access", 1),
    flag("argument_notify_modify", 2),
    flag("argument_notify_create", 4),
    flag("argument_notify_delete", 8),
    flag("argument_notify_rename", 16),
    flag("argument_notify_attribute", 32),
];

/// The type of a record lock.
pub static LOCK_TYPE: &[Bit] = &[
    exactly("lock_type_read", 0),
    exactly("lock_type_write", 1),
    exactly("lock_type_unlocked", 2),
];

/// The origin of a record lock's offset.
pub static LOCK_WHENCE: &[Bit] = &[
    exactly("lock_whence_start", 0),
    exactly("lock_whence_current", 1),
    exactly("lock_whence_end", 2),
];

/// The protection of mmap.
pub static PROTECTION: &[Bit] = &[
    flag("protection_read", 1),
    flag("protection_write", 2),
    flag("protection_exec", 4),
    choice("protection_none", 7, 0),
];

/// The flags of mmap.
pub static MMAP: &[Bit] = &[
    choice("flag_shared", 3, 1),
    choice("flag_private", 3, 2),
    flag("flag_fixed", 0x10),
    flag("flag_anonymous", 0x20),
    choice("flag_file", 0x20, 0),
    flag("flag_32bit", 0x40),
    flag("flag_grows_down", 0x100),
    flag("flag_denywrite", 0x800),
    flag("flag_executable", 0x1000),
    flag("flag_locked", 0x2000),
    flag("flag_no_reserve", 0x4000),
    flag("flag_populate", 0x8000),
    flag("flag_non_block", 0x10000),
    flag("flag_stack", 0x20000),
    flag("flag_huge_tlb", 0x40000),
];

/// Flags of calls that take a directory and a path; each type has some of them.
pub static AT: &[Bit] = &[
    flag("flags_at_symlink_nofollow", 0x100),
    flag("flag_at_symlink_nofollow", 0x100),
    flag("flag_symlink_nofollow", 0x100),
    flag("flag_remove_directory", 0x200),
    flag("flags_at_eaccess", 0x200),
    flag("flag_symlink_follow", 0x400),
    flag("flags_at_no_automount", 0x800),
    flag("flags_at_empty_path", 0x1000),
    flag("flag_empty_path", 0x1000),
];

/// Set if the descriptor stands for the working directory.
pub static WORKING: &[Bit] = &[choice("descriptor_current_working_directory", 0xffff_ffff, HERE)];
/// Set if the descriptor of the old name stands for the working directory.
pub static OLD_WORKING: &[Bit] =
    &[choice("old_descriptor_current_working_directory", 0xffff_ffff, HERE)];
/// Set if the descriptor of the new name stands for the working directory.
pub static NEW_WORKING: &[Bit] =
    &[choice("new_descriptor_current_working_directory", 0xffff_ffff, HERE)];
/// `AT_FDCWD` as the lower half of an argument.
const HERE: i64 = syscalls::abi::files::AT_FDCWD as u32 as i64;

/// The mode of access.
pub static ACCESS: &[Bit] = &[
    choice("mode_exist", 7, 0),
    flag("mode_execute", 1),
    flag("mode_write", 2),
    flag("mode_read", 4),
];

/// Special nanosecond values of utimensat.
pub static UTIME: &[Bit] = &[exactly("utime_now", 0x3fff_ffff), exactly("utime_omit", 0x3fff_fffe)];

/// Mount flags of statfs.
pub static STATFS: &[Bit] = &[
    flag("statfs_result_flags_read_only", 1),
    flag("statfs_result_flags_no_set_uid", 2),
    flag("statfs_result_flags_no_dev", 4),
    flag("statfs_result_flags_no_exec", 8),
    flag("statfs_result_flags_synchronous", 0x10),
    flag("statfs_result_flags_valid", 0x20),
    flag("statfs_result_flags_mandatory_lock", 0x40),
    flag("statfs_result_flags_no_access_time", 0x400),
    flag("statfs_result_flags_no_directory_access_time", 0x800),
    flag("statfs_result_flags_relative_access_time", 0x1000),
];

/// Flags of clone.
pub static CLONE: &[Bit] = &[
    flag("flag_vm", 0x100),
    flag("flag_filesystem", 0x200),
    flag("flag_files", 0x400),
    flag("flag_sighand", 0x800),
    flag("flag_ptrace", 0x2000),
    flag("flag_vfork", 0x4000),
    flag("flag_parent", 0x8000),
    flag("flag_thread", 0x10000),
    flag("flag_newns", 0x20000),
    flag("flag_sysvsem", 0x40000),
    flag("flag_settls", 0x80000),
    flag("flag_parent_settid", 0x10_0000),
    flag("flag_child_cleartid", 0x20_0000),
    flag("flag_untraced", 0x80_0000),
    flag("flag_child_settid", 0x100_0000),
    flag("flag_newuts", 0x400_0000),
    flag("flag_newipc", 0x800_0000),
    flag("flag_newuser", 0x1000_0000),
    flag("flag_newpid", 0x2000_0000),
    flag("flag_newnet", 0x4000_0000),
    flag("flag_io", 0x8000_0000),
];

const fn signal(field: &'static str, number: i64) -> Bit {
    choice(field, 0xff, number)
}

/// The exit signal of clone.
pub static SIGNAL: &[Bit] = &[
    signal("signal_hangup", 1),
    signal("signal_terminal_interrupt", 2),
    signal("signal_terminal_quit", 3),
    signal("signal_illegal", 4),
    signal("signal_trace_trap", 5),
    signal("signal_abort", 6),
    signal("signal_iot_trap", 6),
    signal("signal_bus", 7),
    signal("signal_floating_point_exception", 8),
    signal("signal_kill", 9),
    signal("signal_user_defined_1", 10),
    signal("signal_segv", 11),
    signal("signal_user_defined_2", 12),
    signal("signal_pipe", 13),
    signal("signal_alarm", 14),
    signal("signal_termination", 15),
    signal("signal_stack_fault", 16),
    signal("signal_child", 17),
    signal("signal_continue", 18),
    signal("signal_stop", 19),
    signal("signal_terminal_stop", 20),
    signal("signal_tty_read", 21),
    signal("signal_tty_write", 22),
    signal("signal_urgent", 23),
    signal("signal_cpu_exceeded", 24),
    signal("signal_file_size_exceeded", 25),
    signal("signal_virtual_alarm", 26),
    signal("signal_prof_alarm", 27),
    signal("signal_window_size_change", 28),
    signal("signal_io", 29),
    signal("signal_power", 30),
];

/// Flags of setxattr.
pub static XATTR: &[Bit] = &[flag("flag_xattr_create", 1), flag("flag_xattr_replace", 2)];

/// Flags of send and receive calls; each type has some of them.
pub static MESSAGE: &[Bit] = &[
    flag("flag_oob", 1),
    flag("flag_peek", 2),
    flag("flag_dontroute", 4),
    flag("flag_trunc", 0x20),
    flag("flag_dontwait", 0x40),
    flag("flag_eor", 0x80),
    flag("flag_waitall", 0x100),
    flag("flag_confirm", 0x800),
    flag("flag_errqueue", 0x2000),
    flag("flag_nosignal", 0x4000),
    flag("flag_more", 0x8000),
    flag("flag_cmsg_cloexec", 0x4000_0000),
];
