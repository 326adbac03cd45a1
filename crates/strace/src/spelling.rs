//! Differences between strace's spelling and that of the table of system calls.

use syscalls::Arg;

/// The fields of a struct in the order in which strace prints them.
pub struct Form {
    /// The layout's name in the table.
    pub layout: &'static str,
    /// The fields that strace prints.
    pub fields: &'static [Piece],
}

/// A field of a struct.
pub struct Piece {
    /// strace's name.
    pub name: &'static str,
    /// The table's name.
    pub field: &'static str,
    /// Format in which strace prints it.
    pub shown: Shown,
}

/// Formats in which strace prints fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// By its kind in the table.
    Plain,
    /// In hexadecimal.
    Hex,
    /// Seconds, with the date in a comment; this field holds the nanoseconds.
    Seconds(&'static str),
    /// A struct of seconds and nanoseconds, with the date in a comment.
    Time,
    /// A limit: multiples of 1024 are printed as `N*1024`.
    Limit,
    /// Clock ticks, a hundred per second.
    Ticks,
    /// Printed only if the named field has one of these bits.
    With(&'static str, u64),
    /// Like `With`, in hexadecimal.
    HexWith(&'static str, u64),
    /// Printed only for device nodes (`true`), or only for other files (`false`).
    Device(bool),
    /// Printed only if it is not 0, in hexadecimal.
    NotZero,
    /// A name, or an address if it has none.
    Handler,
    /// In braces, as `{val=...}`.
    Val,
    /// Printed twice, as `u32` and as `u64`.
    Twice,
}

use Shown::{
    Device, Handler, Hex, HexWith, Limit, NotZero, Plain, Seconds, Ticks, Time, Twice, Val, With,
};

const fn same(name: &'static str) -> Piece {
    Piece { name, field: name, shown: Plain }
}

const fn shown(name: &'static str, shown: Shown) -> Piece {
    Piece { name, field: name, shown }
}

const fn renamed(name: &'static str, field: &'static str) -> Piece {
    Piece { name, field, shown: Plain }
}

const CLONE_PIDFD: u64 = 0x1000;
const CLONE_SETTLS: u64 = 0x8_0000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_TID: u64 = 0x120_0000;
const SA_RESTORER: u64 = 0x400_0000;
const STATX_BTIME: u64 = 0x800;
const STATX_DIOALIGN: u64 = 0x2000;

/// Structs whose fields strace selects or orders differently from the table.
#[rustfmt::skip]
pub static FORMS: &[Form] = &[
    Form { layout: "stat", fields: &[
        same("st_dev"), same("st_ino"), same("st_mode"), same("st_nlink"), same("st_uid"),
        same("st_gid"), same("st_blksize"), same("st_blocks"), shown("st_size", Device(false)),
        shown("st_rdev", Device(true)), shown("st_atime", Seconds("st_atime_nsec")),
        same("st_atime_nsec"), shown("st_mtime", Seconds("st_mtime_nsec")), same("st_mtime_nsec"),
        shown("st_ctime", Seconds("st_ctime_nsec")), same("st_ctime_nsec"),
    ] },
    Form { layout: "statx", fields: &[
        same("stx_mask"), same("stx_blksize"), same("stx_attributes"), same("stx_nlink"),
        same("stx_uid"), same("stx_gid"), same("stx_mode"), same("stx_ino"), same("stx_size"),
        same("stx_blocks"), same("stx_attributes_mask"), shown("stx_atime", Time),
        shown("stx_btime", With("stx_mask", STATX_BTIME)), shown("stx_ctime", Time),
        shown("stx_mtime", Time), same("stx_rdev_major"), same("stx_rdev_minor"),
        same("stx_dev_major"), same("stx_dev_minor"), same("stx_mnt_id"),
        shown("stx_dio_mem_align", With("stx_mask", STATX_DIOALIGN)),
        shown("stx_dio_offset_align", With("stx_mask", STATX_DIOALIGN)),
    ] },
    Form { layout: "statfs", fields: &[
        same("f_type"), same("f_bsize"), same("f_blocks"), same("f_bfree"), same("f_bavail"),
        same("f_files"), same("f_ffree"), shown("f_fsid", Val), same("f_namelen"),
        same("f_frsize"), same("f_flags"),
    ] },
    Form { layout: "flock", fields: &[
        same("l_type"), same("l_whence"), same("l_start"), same("l_len"),
    ] },
    Form { layout: "rlimit64", fields: &[shown("rlim_cur", Limit), shown("rlim_max", Limit)] },
    Form { layout: "sigaction", fields: &[
        shown("sa_handler", Handler), same("sa_mask"), same("sa_flags"),
        shown("sa_restorer", HexWith("sa_flags", SA_RESTORER)),
    ] },
    Form { layout: "sigset_argpack", fields: &[
        renamed("sigmask", "ss"), renamed("sigsetsize", "ss_len"),
    ] },
    Form { layout: "clone_args", fields: &[
        same("flags"), shown("pidfd", HexWith("flags", CLONE_PIDFD)),
        shown("child_tid", HexWith("flags", CLONE_CHILD_TID)),
        shown("parent_tid", HexWith("flags", CLONE_PARENT_SETTID)), same("exit_signal"),
        same("stack"), shown("stack_size", Hex), shown("tls", HexWith("flags", CLONE_SETTLS)),
        shown("set_tid", NotZero), shown("set_tid_size", NotZero), shown("cgroup", NotZero),
    ] },
    Form { layout: "pollfd", fields: &[same("fd"), same("events")] },
    Form { layout: "epoll_event", fields: &[same("events"), shown("data", Twice)] },
    Form { layout: "tms", fields: &[
        shown("tms_utime", Ticks), shown("tms_stime", Ticks), shown("tms_cutime", Ticks),
        shown("tms_cstime", Ticks),
    ] },
];

/// Returns the form of a layout that differs from the table.
pub fn form(layout: &str) -> Option<&'static Form> {
    FORMS.iter().find(|form| form.layout == layout)
}

/// Formats in which strace prints arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Argument {
    /// The address, without the memory behind it.
    Address,
    /// In hexadecimal.
    Hex,
    /// A mode with its file type.
    FileMode,
    /// A bit mask; all ones are printed as `FUTEX_BITSET_MATCH_ANY`.
    Bitset,
    /// Times with their dates.
    Times,
    /// Printed when the call begins, and not again when it ends.
    Before,
    /// The address, if the next argument, the size, is 0.
    AddressIfNoRoom,
    /// The value after the call, with all fields.
    Found,
    /// With this name and `=` in front.
    Named(&'static str),
}

/// Arguments that strace prints differently from their kind in the table.
#[rustfmt::skip]
pub static ARGUMENTS: &[(&str, &str, Argument)] = &[
    ("set_robust_list", "head", Argument::Address),
    ("rseq", "rseq", Argument::Address),
    ("rseq", "rseq_len", Argument::Hex),
    ("futex", "uaddr", Argument::Address),
    ("futex", "uaddr2", Argument::Address),
    ("futex", "val3", Argument::Bitset),
    ("mknod", "mode", Argument::FileMode),
    ("mknodat", "mode", Argument::FileMode),
    ("listxattr", "list", Argument::AddressIfNoRoom),
    ("llistxattr", "list", Argument::AddressIfNoRoom),
    ("flistxattr", "list", Argument::AddressIfNoRoom),
    ("utimensat", "times", Argument::Times),
    ("fcntl", "lock", Argument::Found),
    ("poll", "fds", Argument::Before),
    ("ppoll", "fds", Argument::Before),
    ("ppoll", "tmo_p", Argument::Before),
    ("select", "readfds", Argument::Before),
    ("select", "writefds", Argument::Before),
    ("select", "exceptfds", Argument::Before),
    ("select", "timeout", Argument::Before),
    ("pselect6", "readfds", Argument::Before),
    ("pselect6", "writefds", Argument::Before),
    ("pselect6", "exceptfds", Argument::Before),
    ("pselect6", "timeout", Argument::Before),
    ("clone", "stack", Argument::Named("child_stack")),
    ("clone", "flags", Argument::Named("flags")),
    ("clone", "parent_tid", Argument::Named("parent_tid")),
    ("clone", "tls", Argument::Named("tls")),
    ("clone", "child_tid", Argument::Named("child_tidptr")),
];

/// Returns how strace prints an argument, if not by its kind.
pub fn argument(call: &str, name: &str) -> Option<Argument> {
    ARGUMENTS.iter().find(|(c, n, _)| *c == call && *n == name).map(|(_, _, how)| *how)
}

/// A subset or another order of arguments, chosen by the value of one of them.
pub struct Order {
    /// The call.
    pub call: &'static str,
    /// Index of the argument that decides.
    pub key: usize,
    /// Mask applied to that argument.
    pub mask: u64,
    /// Value that the masked argument must have.
    pub value: u64,
    /// Names of the arguments printed, in order.
    pub shown: &'static [&'static str],
}

const FILE_TYPE: u64 = 0o170_000;
const FUTEX_OP: u64 = 0x7f;

/// The first match counts. All other calls print all arguments in table order.
#[rustfmt::skip]
pub static ORDERS: &[Order] = &[
    // The upper half of the offset is left out: on x86-64 the lower one holds all of it.
    Order { call: "preadv", key: 0, mask: 0, value: 0, shown: &["fd", "iov", "iovcnt", "offset"] },
    Order { call: "pwritev", key: 0, mask: 0, value: 0, shown: &["fd", "iov", "iovcnt", "offset"] },
    Order { call: "preadv2", key: 0, mask: 0, value: 0, shown: &["fd", "iov", "iovcnt", "offset", "flags"] },
    Order { call: "pwritev2", key: 0, mask: 0, value: 0, shown: &["fd", "iov", "iovcnt", "offset", "flags"] },
    Order { call: "mknod", key: 1, mask: FILE_TYPE, value: 0o20_000, shown: &["pathname", "mode", "dev"] },
    Order { call: "mknod", key: 1, mask: FILE_TYPE, value: 0o60_000, shown: &["pathname", "mode", "dev"] },
    Order { call: "mknod", key: 1, mask: 0, value: 0, shown: &["pathname", "mode"] },
    Order { call: "mknodat", key: 2, mask: FILE_TYPE, value: 0o20_000, shown: &["dirfd", "pathname", "mode", "dev"] },
    Order { call: "mknodat", key: 2, mask: FILE_TYPE, value: 0o60_000, shown: &["dirfd", "pathname", "mode", "dev"] },
    Order { call: "mknodat", key: 2, mask: 0, value: 0, shown: &["dirfd", "pathname", "mode"] },
    Order { call: "futex", key: 1, mask: FUTEX_OP, value: 9, shown: &["uaddr", "futex_op", "val", "timeout", "val3"] },
    Order { call: "futex", key: 1, mask: FUTEX_OP, value: 10, shown: &["uaddr", "futex_op", "val", "val3"] },
];

/// Returns the table indices of the arguments that strace prints, in order.
pub fn order(call: &str, values: &[u64; 6], args: &[Arg]) -> Vec<usize> {
    let fits = |order: &&Order| {
        order.call == call && values.get(order.key).is_some_and(|v| v & order.mask == order.value)
    };
    match ORDERS.iter().find(fits) {
        Some(order) => {
            let place = |name: &&str| args.iter().position(|arg| arg.name == *name);
            order.shown.iter().filter_map(place).collect()
        }
        None => (0..args.len().min(6)).collect(),
    }
}

/// Values whose name in strace differs from that in the table: our name, strace's name.
#[rustfmt::skip]
pub static NAMES: &[(&str, &str)] = &[
    ("EXT4_SUPER_MAGIC", "EXT2_SUPER_MAGIC"),
    ("FICLONE", "BTRFS_IOC_CLONE or FICLONE"),
    ("FICLONERANGE", "BTRFS_IOC_CLONE_RANGE or FICLONERANGE"),
    ("RLIM_INFINITY", "RLIM64_INFINITY"),
];

/// Returns strace's name for what the table calls `name`.
pub fn name(name: &'static str) -> &'static str {
    NAMES.iter().find(|(ours, _)| *ours == name).map_or(name, |(_, theirs)| theirs)
}

/// Longest string printed; a longer one is cut and followed by dots.
pub const STRING_BYTES_MAX: usize = 1_000_000;
