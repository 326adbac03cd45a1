//! Differences between strace's spelling and that of the table of system calls.

use syscalls::abi::files::{S_IFBLK, S_IFCHR, S_IFMT, STATX_BTIME, STATX_DIOALIGN};
use syscalls::abi::signals::SA_RESTORER;
use syscalls::abi::tasks::{
    CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID, CLONE_PARENT_SETTID, CLONE_PIDFD, CLONE_SETTLS,
    FUTEX_CMD_MASK,
};
use syscalls::{Arg, FlagSet, flags};

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
    /// Printed only if the named mode is of a device node.
    OfDevice(&'static str),
    /// Printed only if the named mode is not of a device node.
    NotOfDevice(&'static str),
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
    Handler, Hex, HexWith, Limit, NotOfDevice, NotZero, OfDevice, Plain, Seconds, Ticks, Time,
    Twice, Val, With,
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

/// With one of these flags, the new task's id stands in its memory for a while.
const KEEPS_ID: u64 = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;

/// Structs whose fields strace selects or orders differently from the table.
#[rustfmt::skip]
pub static FORMS: &[Form] = &[
    Form { layout: "stat", fields: &[
        same("st_dev"), same("st_ino"), same("st_mode"), same("st_nlink"), same("st_uid"),
        same("st_gid"), same("st_blksize"), same("st_blocks"), shown("st_size", NotOfDevice("st_mode")),
        shown("st_rdev", OfDevice("st_mode")), shown("st_atime", Seconds("st_atime_nsec")),
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
        shown("child_tid", HexWith("flags", KEEPS_ID)),
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

const FILE_TYPE: u64 = S_IFMT as u64;

/// The first match counts. All other calls print all arguments in table order.
#[rustfmt::skip]
pub static ORDERS: &[Order] = &[
    // The upper half of the offset is left out: on x86-64 the lower one holds all of it.
    Order { call: "preadv", key: 0, mask: 0, value: 0, shown: &["fd", "iov", "iovcnt", "offset"] },
    Order { call: "pwritev", key: 0, mask: 0, value: 0, shown: &["fd", "iov", "iovcnt", "offset"] },
    Order { call: "preadv2", key: 0, mask: 0, value: 0, shown: &["fd", "iov", "iovcnt", "offset", "flags"] },
    Order { call: "pwritev2", key: 0, mask: 0, value: 0, shown: &["fd", "iov", "iovcnt", "offset", "flags"] },
    Order { call: "mknod", key: 1, mask: FILE_TYPE, value: S_IFCHR as u64, shown: &["pathname", "mode", "dev"] },
    Order { call: "mknod", key: 1, mask: FILE_TYPE, value: S_IFBLK as u64, shown: &["pathname", "mode", "dev"] },
    Order { call: "mknod", key: 1, mask: 0, value: 0, shown: &["pathname", "mode"] },
    Order { call: "mknodat", key: 2, mask: FILE_TYPE, value: S_IFCHR as u64, shown: &["dirfd", "pathname", "mode", "dev"] },
    Order { call: "mknodat", key: 2, mask: FILE_TYPE, value: S_IFBLK as u64, shown: &["dirfd", "pathname", "mode", "dev"] },
    Order { call: "mknodat", key: 2, mask: 0, value: 0, shown: &["dirfd", "pathname", "mode"] },
    Order { call: "futex", key: 1, mask: FUTEX_CMD_MASK, value: 9, shown: &["uaddr", "futex_op", "val", "timeout", "val3"] },
    Order { call: "futex", key: 1, mask: FUTEX_CMD_MASK, value: 10, shown: &["uaddr", "futex_op", "val", "val3"] },
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

/// Operations whose results are flags.
pub struct FlagResult {
    /// The call.
    pub call: &'static str,
    /// Value of the second argument.
    pub operation: u64,
    /// The flags.
    pub set: &'static FlagSet,
    /// Whether no flag at all is printed too.
    pub with_none: bool,
}

/// All of them.
pub static FLAG_RESULTS: &[FlagResult] = &[
    FlagResult { call: "fcntl", operation: 1, set: &flags::FD_FLAGS, with_none: false },
    FlagResult { call: "fcntl", operation: 3, set: &flags::OPEN, with_none: true },
];

/// The arguments of clone in the order in which they are printed, and the flags of which one must
/// be given for those that are printed when the call ends.
pub static CLONE_ARGUMENTS: &[(&str, Option<u64>)] = &[
    ("stack", None),
    ("flags", None),
    ("parent_tid", Some(CLONE_PARENT_SETTID | CLONE_PIDFD)),
    ("tls", Some(CLONE_SETTLS)),
    ("child_tid", Some(KEEPS_ID)),
];

/// Flags of clone and clone3: the name of the argument, or of the field.
pub const TASK_FLAGS: &str = "flags";

/// What strace prints behind the result of a wait for descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready {
    /// The descriptors with their events.
    Polled,
    /// A set of descriptors, behind this word.
    Set(&'static str),
    /// The time that is left.
    Left,
}

/// Calls that wait for descriptors.
static WAITS: &[&str] = &["poll", "ppoll", "select", "pselect6"];

/// Their arguments that strace prints again behind the result.
static READY: &[(&str, Ready)] = &[
    ("fds", Ready::Polled),
    ("readfds", Ready::Set("in")),
    ("writefds", Ready::Set("out")),
    ("exceptfds", Ready::Set("except")),
    ("timeout", Ready::Left),
    ("tmo_p", Ready::Left),
];

/// Word before the time that is left.
pub const LEFT: &str = "left";

/// Fields of what is printed of a descriptor that is ready: its number, and its events.
pub const POLLED: [&str; 2] = ["fd", "revents"];

/// The caller's working directory, where a descriptor stands otherwise.
pub const WORKING_DIRECTORY: &str = "AT_FDCWD";

/// Fields from which memory is read.
pub mod field {
    pub const IOV_BASE: &str = "iov_base";
    pub const IOV_LEN: &str = "iov_len";
    pub const MSG_CONTROL: &str = "msg_control";
    pub const MSG_IOV: &str = "msg_iov";
    pub const MSG_NAME: &str = "msg_name";
    pub const ADDRESS_FAMILY: &str = "sa_family";
}

/// Returns true if strace prints behind the result of a call what is ready.
pub fn tells_ready(call: &str) -> bool {
    WAITS.contains(&call)
}

/// Returns what is printed of an argument behind the result of a wait.
pub fn ready(argument: &str) -> Option<Ready> {
    READY.iter().find(|(name, _)| *name == argument).map(|(_, ready)| *ready)
}

/// What the result of a call tells of the program's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tells {
    /// The id of the thread.
    Thread,
    /// The umask.
    Umask,
    /// An id of the user or group.
    Id(Id),
}

/// Ids of a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Id {
    /// The real user.
    User,
    /// The effective user.
    EffectiveUser,
    /// The real group.
    Group,
    /// The effective group.
    EffectiveGroup,
}

static TELLS: &[(&str, Tells)] = &[
    ("set_tid_address", Tells::Thread),
    ("getpid", Tells::Thread),
    ("gettid", Tells::Thread),
    ("umask", Tells::Umask),
    ("getuid", Tells::Id(Id::User)),
    ("geteuid", Tells::Id(Id::EffectiveUser)),
    ("getgid", Tells::Id(Id::Group)),
    ("getegid", Tells::Id(Id::EffectiveGroup)),
];

/// Returns what the result of a call tells.
pub fn tells(call: &str) -> Option<Tells> {
    TELLS.iter().find(|(name, _)| *name == call).map(|(_, tells)| *tells)
}

/// How strace prints a field of a struct that has no layout in the table.
#[derive(Clone, Copy)]
pub enum Field {
    /// In its own text.
    Unnamed,
    /// As number and address.
    Union,
    /// In network order.
    Network,
    /// Eight hexadecimal digits.
    Digits,
    /// A path, or a name behind `@`.
    SocketPath,
    /// Clock ticks.
    Ticks,
    /// Flags.
    Flags(&'static FlagSet),
    /// By its value; left out if it is null.
    NotNull,
}

static FIELDS: &[(&str, Field)] = &[
    // The text form of an address includes the field's name.
    ("sin6_addr", Field::Unnamed),
    ("si_value", Field::Union),
    ("sin6_flowinfo", Field::Network),
    ("nl_groups", Field::Digits),
    ("sun_path", Field::SocketPath),
    ("si_utime", Field::Ticks),
    ("si_stime", Field::Ticks),
    ("msg_flags", Field::Flags(&flags::MSG)),
    ("msg_control", Field::NotNull),
];

/// Returns how a field is printed, if not by its value alone.
pub fn field(name: &str) -> Option<Field> {
    FIELDS.iter().find(|(field, _)| *field == name).map(|(_, how)| *how)
}

/// Seconds and nanoseconds of a time.
pub const TIME: [&str; 2] = ["tv_sec", "tv_nsec"];

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

/// Field in braces that [`Shown::Val`] prints.
pub const VAL: &str = "val";

/// Longest string printed; a longer one is cut and followed by dots.
pub const STRING_BYTES_MAX: usize = 1_000_000;
