//! The vocabulary of the table: what a row may say about a system call and its arguments.

use crate::act::Act;
use crate::layout::Layout;

/// One system call: a row of the table.
pub struct Syscall {
    /// The x86_64 number.
    pub nr: u16,
    /// The kernel's name, without `sys_`.
    pub name: &'static str,
    /// The groups that `--call %class` selects.
    pub classes: Classes,
    /// What a replay does with it.
    pub replay: Replay,
    /// What it does that arguments and result do not tell.
    pub act: Act,
    /// The arguments in order.
    pub args: &'static [Arg],
    /// What the result means.
    pub ret: Ret,
    /// Sub-calls keyed by one argument (ioctl, fcntl, prctl ...); empty for most rows.
    pub variants: &'static [Variant],
}

impl Syscall {
    /// The variant that these arguments select, if the row has one that fits.
    pub fn variant(&self, args: &[u64; 6]) -> Option<&'static Variant> {
        let selects = |variant: &&Variant| {
            let key = args.get(usize::from(variant.key_arg)).copied().unwrap_or(0);
            key & variant.mask == variant.value
        };
        self.variants.iter().find(selects)
    }

    /// What a call with these arguments does that they and its result do not tell.
    pub fn act_of(&self, args: &[u64; 6]) -> Act {
        self.variant(args).and_then(|variant| variant.act).unwrap_or(self.act)
    }
}

/// A sub-call: the meaning of a system call for particular values of one argument.
pub struct Variant {
    /// Index of the argument that selects this variant.
    pub key_arg: u8,
    /// The variant applies when `(argument & mask) == value`.
    pub value: u64,
    /// Bits of the argument that are compared.
    pub mask: u64,
    /// All arguments of the call, as this variant understands them.
    pub args: &'static [Arg],
    /// What the result means for this variant.
    pub ret: Ret,
    /// What a replay does with it, where that is not what the row says.
    pub replay: Option<Replay>,
    /// What it does that arguments and result do not tell, where that is not what the row says.
    pub act: Option<Act>,
}

/// What a replay does with a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replay {
    /// It is made again, when all files and descriptors that it names are there to be used.
    Real,
    /// It works on descriptor numbers, whatever is behind them, and is always made again.
    Numbers,
    /// It makes, changes or ends a task, which the replay does by its own means.
    Task,
    /// Its recorded result is taken as it is; descriptors that it gave are placeholders.
    Simulated,
    /// It moves data in ways that the trace does not hold: it is left out, and that is told.
    LeftOut,
    /// As `Simulated`, for calls that neither touch files nor give descriptors.
    Ignored,
}

/// One argument.
pub struct Arg {
    /// Its name, as in the manual page.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
}

/// What the value in an argument register means.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A signed 32-bit number, shown in decimal.
    Int,
    /// An unsigned 32-bit number, shown in decimal.
    Uint,
    /// A signed 64-bit number, shown in decimal.
    Long,
    /// An unsigned 64-bit number, shown in decimal.
    Ulong,
    /// A number shown in hexadecimal.
    Hex,
    /// A file mode or umask, shown in octal or symbols.
    Mode,
    /// An address whose memory is not captured.
    Address,
    /// A file descriptor of the calling process.
    Fd,
    /// The directory descriptor of an `*at` call: a descriptor or `AT_FDCWD`.
    DirFd,
    /// A process or thread id.
    Pid,
    /// A user id; -1 means "unchanged".
    Uid,
    /// A group id; -1 means "unchanged".
    Gid,
    /// A device number.
    Dev,
    /// A signal number.
    Signal,
    /// An offset in a file, signed 64-bit.
    Offset,
    /// A length in bytes.
    Size,
    /// A combination of bits.
    Flags(&'static FlagSet),
    /// One value out of a list.
    Enum(&'static FlagSet),
    /// A NUL-terminated path, read before the call.
    Path,
    /// A NUL-terminated string that is no path, read before the call.
    Str,
    /// A NULL-terminated array of strings (argv, envp), read before the call.
    StrArray,
    /// A pointer to memory that is captured.
    Buf(Dir, Of, Len),
}

/// When the memory behind a pointer is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dir {
    /// Before the call: the kernel reads it.
    In,
    /// After the call, when it succeeded: the kernel wrote it.
    Out,
    /// Both before and after.
    InOut,
    /// After the call, when it failed: the time left of an interrupted sleep.
    OutOnError,
}

/// What lies behind a pointer.
#[derive(Clone, Copy)]
pub enum Of {
    /// Plain data.
    Bytes,
    /// Text that the kernel returns without or with a NUL (readlink, getcwd).
    Text,
    /// One or more structs, one after the other, of a described layout.
    Struct(&'static Layout),
    /// An array of 32-bit signed numbers.
    I32,
    /// An array of 32-bit unsigned numbers.
    U32,
    /// An array of 64-bit signed numbers.
    I64,
    /// An array of 64-bit unsigned numbers.
    U64,
    /// File descriptors (pipe2, socketpair).
    Fds,
    /// A set of signals, as a bit mask.
    SigSet,
    /// What a signal carries (`siginfo_t`).
    Siginfo,
    /// A set of small numbers, as a bit mask (processors, memory nodes).
    Bits,
    /// A set of descriptors, as select has it.
    FdSet,
    /// A `struct sockaddr` of any family.
    Sockaddr,
    /// Directory entries of getdents64.
    Dirents64,
    /// Directory entries of getdents.
    Dirents,
    /// A wait status.
    WaitStatus,
    /// A vector of buffers: the vector itself and what the buffers hold are captured.
    Iovec,
    /// A message header with name, vector, content and control data.
    Msghdr,
    /// An array of `struct mmsghdr`.
    Mmsghdr,
    /// A struct that holds a pointer and a length: both the struct and what it points to are
    /// captured.
    Holder(&'static Holder),
}

/// A struct that points to one more piece of memory (xattr_args, sock_fprog, ifconf).
pub struct Holder {
    /// The struct itself.
    pub layout: &'static Layout,
    /// How to follow it.
    pub pointer: Pointer,
    /// What it points to; nothing that points on.
    pub of: Of,
}

/// Where a struct keeps a pointer and the length that belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pointer {
    /// Offset of the 64-bit pointer.
    pub at: u8,
    /// Offset of the length. What comes out is as long as the length after the call says.
    pub length_at: u8,
    /// Bytes of the length: 2, 4 or 8.
    pub length_bytes: u8,
    /// Bytes that one unit of the length stands for.
    pub unit: u8,
    /// What comes out is no longer than the call's result.
    pub at_most_ret: bool,
}

/// How long the memory behind a pointer is. Argument numbers count from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Len {
    /// Always this many bytes.
    Fixed(u32),
    /// This many bytes, when the result is not 0 (wait4 that finds nobody writes nothing).
    FixedIfRet(u32),
    /// The value of an argument, in bytes.
    Arg(u8),
    /// The value of an argument times a size.
    ArgTimes(u8, u32),
    /// The result of the call, in bytes.
    Ret,
    /// The same, of a path: it is kept, whatever is kept of contents.
    RetPath,
    /// The value of an argument and so many bytes more (msgsnd, whose type stands before the text).
    ArgPlus(u8, u32),
    /// The result of the call times a size.
    RetTimes(u32),
    /// The result of the call and so many bytes more.
    RetPlus(u32),
    /// The result of the call, but at most the value of an argument, times a size: results that
    /// may be larger than the buffer (getxattr that asks for the size, MSG_TRUNC).
    RetAtMost(u8, u32),
    /// The 32-bit number behind a pointer argument, in bytes: the value before the call for what
    /// goes in; for what comes out, the smaller of the values before and after (socklen_t).
    Pointee(u8),
    /// One byte for each page of 4096 bytes that the argument's bytes touch (mincore).
    PagesArg(u8),
    /// As many bits as the argument says, rounded up to whole 64-bit words (select, nodemasks).
    BitsArg(u8),
    /// The 32-bit size in the first word of the memory itself (sched_attr, mnt_id_req).
    SelfSized,
    /// A head and as many elements as a 32-bit number in that head says (file_handle, fiemap).
    Counted {
        /// Where in the memory the number stands.
        at: u8,
        /// Bytes of an element.
        unit: u8,
        /// Bytes of the head; 0: the number covers the head too.
        head: u16,
    },
}

/// What tells the kernel how far it may go behind a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Nothing: it is always this many bytes.
    Fixed(u32),
    /// An argument counts units of so many bytes, and there are so many bytes more.
    Argument {
        /// The argument.
        number: u8,
        /// Bytes of a unit.
        unit: u32,
        /// Bytes besides.
        more: u32,
    },
    /// An argument counts bits, in whole 64-bit words.
    Bits(u8),
    /// An argument counts bytes; the memory has one byte for each page that they touch.
    Pages(u8),
    /// A 32-bit number behind another pointer, in bytes.
    Behind(u8),
    /// A 32-bit number in the memory itself: elements of so many bytes after the head.
    Within {
        /// Where the number stands.
        at: u8,
        /// Bytes of an element.
        unit: u8,
        /// Bytes of the head.
        head: u16,
    },
}

/// An argument that counts.
const fn counted(number: u8, unit: u32, more: u32) -> Extent {
    Extent::Argument { number, unit, more }
}

impl Len {
    /// What tells the kernel how much memory there is behind pointer argument `number`. Where the
    /// result says how much came out, that is the argument that follows, unless another one is named.
    pub const fn extent(self, number: u8) -> Extent {
        match self {
            Len::Fixed(bytes) | Len::FixedIfRet(bytes) => Extent::Fixed(bytes),
            Len::Arg(n) => counted(n, 1, 0),
            Len::ArgTimes(n, unit) | Len::RetAtMost(n, unit) => counted(n, unit, 0),
            Len::ArgPlus(n, more) => counted(n, 1, more),
            Len::Ret | Len::RetPath => counted(number + 1, 1, 0),
            Len::RetTimes(unit) => counted(number + 1, unit, 0),
            Len::RetPlus(more) => counted(number + 1, 1, more),
            Len::Pointee(n) => Extent::Behind(n),
            Len::PagesArg(n) => Extent::Pages(n),
            Len::BitsArg(n) => Extent::Bits(n),
            Len::SelfSized => Extent::Within { at: 0, unit: 1, head: 0 },
            Len::Counted { at, unit, head } => Extent::Within { at, unit, head },
        }
    }
}

/// What the result of a call means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ret {
    /// A number, 0 for plain success.
    Int,
    /// A length in bytes.
    Size,
    /// A new file descriptor.
    Fd,
    /// An offset in a file.
    Offset,
    /// An address.
    Address,
    /// A process or thread id.
    Pid,
    /// A user or group id.
    Id,
    /// A file mode.
    Mode,
    /// Bits, shown in hexadecimal.
    Hex,
    /// The call does not return when it succeeds.
    Never,
}

/// Names for bits or values.
///
/// The members within `value_mask` are values of that one field; all others are flags, of one bit
/// or more, and a flag is there when all its bits are. Flags that contain others come first. What
/// is negative in C stands here as its 32-bit pattern.
pub struct FlagSet {
    /// The set's name: the header's prefix or the manual's word.
    pub name: &'static str,
    /// The bits that hold one value out of `members` rather than a flag each (O_ACCMODE); 0: none.
    pub value_mask: u64,
    /// Value and name, in the order in which they are printed.
    pub members: &'static [(u64, &'static str)],
}

impl FlagSet {
    /// The name of a whole value, compared in 64 bits and then in the lower 32.
    pub fn name_of(&self, value: u64) -> Option<&'static str> {
        let find = |wanted| self.members.iter().find(|m| m.0 == wanted).map(|m| m.1);
        find(value).or_else(|| find(u64::from(value as u32)))
    }

    /// The names that make up a combination, in the order in which they are printed.
    pub const fn split(&'static self, value: u64) -> Split {
        Split { set: self, whole: value, left: value, next: 0 }
    }
}

/// The names of a combination of flags, one by one; then [`Split::left`] holds what has no name.
#[derive(Clone)]
pub struct Split {
    set: &'static FlagSet,
    whole: u64,
    left: u64,
    next: usize,
}

impl Split {
    /// The bits that no name given so far accounts for.
    pub const fn left(&self) -> u64 {
        self.left
    }
}

impl Iterator for Split {
    type Item = &'static str;

    fn next(&mut self) -> Option<&'static str> {
        let field = self.set.value_mask;
        while let Some(&(value, name)) = self.set.members.get(self.next) {
            self.next += 1;
            let matches = if value & !field == 0 && (value != 0 || field != 0) {
                self.whole & field == value
            } else if value == 0 {
                self.whole == 0
            } else {
                self.left & value == value
            };
            if matches {
                self.left &= !value;
                return Some(name);
            }
        }
        None
    }
}

/// Groups of system calls, as a bit set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classes(pub u32);

impl Classes {
    /// No group.
    pub const NONE: Classes = Classes(0);
    /// Takes a path.
    pub const FILE: Classes = Classes(1);
    /// Takes or returns a descriptor.
    pub const DESC: Classes = Classes(1 << 1);
    /// Network.
    pub const NETWORK: Classes = Classes(1 << 2);
    /// Process life: fork, exec, wait, exit.
    pub const PROCESS: Classes = Classes(1 << 3);
    /// Signals.
    pub const SIGNAL: Classes = Classes(1 << 4);
    /// System V and POSIX inter-process communication.
    pub const IPC: Classes = Classes(1 << 5);
    /// Memory mappings.
    pub const MEMORY: Classes = Classes(1 << 6);
    /// User and group ids, capabilities.
    pub const CREDS: Classes = Classes(1 << 7);
    /// Clocks and timers.
    pub const CLOCK: Classes = Classes(1 << 8);
    /// stat and its relatives.
    pub const STAT: Classes = Classes(1 << 9);
    /// Reads file data.
    pub const READ: Classes = Classes(1 << 10);
    /// Writes file data.
    pub const WRITE: Classes = Classes(1 << 11);
    /// Makes data durable.
    pub const SYNC: Classes = Classes(1 << 12);
    /// Changes files otherwise than by writing: names, attributes, lengths.
    pub const CHANGE: Classes = Classes(1 << 13);
    /// Is there to wait: for descriptors, time, tasks, locks, signals.
    pub const WAIT: Classes = Classes(1 << 14);

    /// The names that `--call %NAME` knows.
    pub const NAMES: &'static [(&'static str, Classes)] = &[
        ("file", Self::FILE),
        ("desc", Self::DESC),
        ("network", Self::NETWORK),
        ("net", Self::NETWORK),
        ("process", Self::PROCESS),
        ("signal", Self::SIGNAL),
        ("ipc", Self::IPC),
        ("memory", Self::MEMORY),
        ("creds", Self::CREDS),
        ("clock", Self::CLOCK),
        ("stat", Self::STAT),
        ("read", Self::READ),
        ("write", Self::WRITE),
        ("sync", Self::SYNC),
        ("change", Self::CHANGE),
        ("wait", Self::WAIT),
    ];

    /// Both groups together.
    pub const fn or(self, other: Classes) -> Classes {
        Classes(self.0 | other.0)
    }

    /// Whether the two have a group in common.
    pub const fn intersects(self, other: Classes) -> bool {
        self.0 & other.0 != 0
    }
}
