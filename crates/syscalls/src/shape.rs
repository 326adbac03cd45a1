//! The vocabulary of the table: types that describe system calls and their arguments.

use crate::act::Act;
use crate::handler::Handler;
use crate::layout::Layout;
use crate::operations::{Cousin, Queue};

pub use crate::again::Again;
pub use crate::beside::{Beside, WaitsOn};
pub use crate::flag_set::{FlagSet, Split};

/// One system call: a row of the table.
pub struct Syscall {
    /// The x86_64 number.
    pub nr: u16,
    /// The kernel's name, without `sys_`.
    pub name: &'static str,
    /// The groups that `--call %class` selects.
    pub classes: Classes,
    /// How a replay treats it.
    pub replay: Replay,
    /// Its effect that arguments and result do not show.
    pub act: Act,
    /// How the agent makes it.
    pub handler: Handler,
    /// For calls that open a file by its path: where the flags of open are.
    pub open: Option<OpenFlags>,
    /// The arguments in order.
    pub args: &'static [Arg],
    /// Meaning of the result.
    pub ret: Ret,
    /// Sub-calls keyed by one argument (ioctl, fcntl, prctl ...); empty for most rows.
    pub variants: &'static [Variant],
    /// The call that does the same to a descriptor's file, with the same other arguments: `fchmod`
    /// for `chmod`.
    pub by_descriptor: Option<u16>,
    /// Files behind the descriptors that it returns.
    pub gives: Gives,
    /// These descriptors are closed by an exec, without a flag that asks for it.
    pub gives_until_exec: bool,
    /// For an operation that is no call: where programs submit it.
    pub queue: Option<Queue>,
    /// For an operation: the call that does the same.
    pub cousin: Option<Cousin>,
    /// What a re-execution of the program does with it.
    pub again: Again,
    /// What a re-execution does with it besides, on real sockets.
    pub beside: Beside,
}

impl Syscall {
    /// Returns the variant that these arguments select, if one matches.
    pub fn variant(&self, args: &[u64; 6]) -> Option<&'static Variant> {
        let selects = |variant: &&Variant| {
            let key = args.get(usize::from(variant.key_arg)).copied().unwrap_or(0);
            key & variant.mask == variant.value
        };
        self.variants.iter().find(selects)
    }

    /// Returns true if it writes bytes from memory where the file's own offset stands, and no more:
    /// any descriptor can be written to so.
    pub fn writes_at_own_offset(&self) -> bool {
        let has = |operand| self.args.iter().any(|arg| arg.is(operand));
        let others = [Operand::TargetAt, Operand::Source].into_iter().any(has);
        let elsewhere = Classes::NETWORK.or(Classes::IPC);
        has(Operand::Target) && !others && !self.classes.intersects(elsewhere)
    }

    /// Returns the arguments as a call with these values understands them.
    pub fn args_of(&self, values: &[u64; 6]) -> &'static [Arg] {
        self.variant(values).map_or(self.args, |variant| variant.args)
    }

    /// Returns the value of the argument with a use in a call with these values.
    pub fn value_of(&self, values: &[u64; 6], wanted: Operand) -> Option<u64> {
        Some(values[usize::from(operand(self.args_of(values), wanted)?)])
    }

    /// Returns the effects that calls of this row can have.
    pub fn acts(&self) -> impl Iterator<Item = Act> + use<'_> {
        self.variants.iter().filter_map(|variant| variant.act).chain([self.act])
    }

    /// Returns what a re-execution does with a call with these arguments.
    pub fn again_of(&self, args: &[u64; 6]) -> Again {
        self.variant(args).and_then(|variant| variant.again).unwrap_or(self.again)
    }

    /// Returns what a re-execution does with a call with these arguments on real sockets.
    pub fn beside_of(&self, args: &[u64; 6]) -> Beside {
        self.variant(args).and_then(|variant| variant.beside).unwrap_or(self.beside)
    }

    /// Returns the effect of a call with these arguments.
    pub fn act_of(&self, args: &[u64; 6]) -> Act {
        self.variant(args).and_then(|variant| variant.act).unwrap_or(self.act)
    }
}

/// A sub-call: the meaning of a system call for particular values of one argument.
pub struct Variant {
    /// Name of the value that selects it, if no set of flags has it; may be empty.
    pub name: &'static str,
    /// Number of the argument that selects this variant.
    pub key_arg: u8,
    /// Value of the selected bits for which the variant applies: `argument & mask == value`.
    pub value: u64,
    /// Bits of the argument that are compared.
    pub mask: u64,
    /// All arguments of the call, as this variant understands them.
    pub args: &'static [Arg],
    /// Meaning of the result for this variant.
    pub ret: Ret,
    /// How a replay treats it, if not as the row says.
    pub replay: Option<Replay>,
    /// Its effect, if not that of the row.
    pub act: Option<Act>,
    /// The descriptor that it returns is closed by an exec, without a flag that asks for it.
    pub gives_until_exec: bool,
    /// What a re-execution does with it, if not as the row says.
    pub again: Option<Again>,
    /// What a re-execution does with it on real sockets, if not as the row says.
    pub beside: Option<Beside>,
}

/// How a replay treats a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replay {
    /// It is made again if all files and descriptors that it names are available.
    Real,
    /// It works on descriptor numbers, whatever they refer to, and is always made again.
    Numbers,
    /// It creates, changes or ends a task, which the replay does by its own means.
    Task,
    /// Its recorded result is used; the descriptors that it returned are placeholders.
    Simulated,
    /// It moves data that the trace does not have: it is skipped, with a message.
    LeftOut,
    /// It is made again on memory in which a file is mapped by the replay; other memory is as if
    /// `Ignored`.
    Memory,
    /// Like `Simulated`, for calls that neither touch files nor return descriptors.
    Ignored,
    /// Like `Ignored`. It only asks who or where somebody is, or what time it is: a replay that computes as
    /// long as the program did makes it as well, so that its time counts. Its result proves nothing.
    Timed,
    /// Like `Timed`, but C libraries ask without a call, unless they are recorded for a re-execution.
    TimedUnlessAside,
}

/// Where a call that opens a file has the flags of open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenFlags {
    /// In this argument.
    Arg(u8),
    /// In a struct behind an argument, with flags for the resolution of the path.
    Struct {
        /// The argument.
        arg: u8,
        /// Offset of the flags, a 64-bit number.
        at: u8,
        /// Offset of the flags for the resolution, a 64-bit number.
        resolve_at: u8,
    },
    /// Always these.
    Fixed(u32),
}

impl OpenFlags {
    /// Returns the flags of a call with these arguments. `read` gets the number at an offset of the
    /// memory behind an argument, if that is known.
    #[inline]
    pub fn of(self, args: &[u64; 6], read: impl FnOnce(u8, u8) -> Option<u64>) -> u64 {
        match self {
            OpenFlags::Arg(arg) => args[arg as usize],
            OpenFlags::Struct { arg, at, .. } => read(arg, at).unwrap_or(0),
            OpenFlags::Fixed(bits) => bits as u64,
        }
    }

    /// Returns the flags for the resolution of the path, in the same way.
    #[inline]
    pub fn resolve(self, read: impl FnOnce(u8, u8) -> Option<u64>) -> u64 {
        match self {
            OpenFlags::Struct { arg, resolve_at, .. } => read(arg, resolve_at).unwrap_or(0),
            OpenFlags::Arg(_) | OpenFlags::Fixed(_) => 0,
        }
    }
}

/// One argument.
pub struct Arg {
    /// Its name, as in the manual page.
    pub name: &'static str,
    /// Its type.
    pub kind: ArgKind,
    /// Its use, where the type does not say it.
    pub operand: Operand,
    /// The kernel also writes to it if the call fails: a size that would do, the time left.
    pub told_on_error: bool,
    /// Of what goes in and comes out, only the head of a counted struct goes in.
    pub head_goes_in: bool,
}

impl Arg {
    /// Returns how many of these bytes of memory go in.
    pub fn goes_in(&self, bytes: usize) -> usize {
        match self.kind {
            ArgKind::Buf(_, _, Len::Counted { head, .. }) if self.head_goes_in => {
                bytes.min(usize::from(head))
            }
            _ => bytes,
        }
    }
}

/// Use of an argument by the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// What its type says.
    ByType,
    /// The descriptor that bytes are read from.
    Source,
    /// The offset in the source; without one, or with -1 or NULL, the file's own offset is used.
    SourceAt,
    /// The descriptor that bytes are written to.
    Target,
    /// The descriptor that bytes are read from or written to, depending on how it was opened.
    SourceOrTarget,
    /// The offset in the target; without one, or with -1 or NULL, the file's own offset is used.
    TargetAt,
    /// The number of bytes to move.
    Count,
    /// The new length of a file.
    Length,
    /// A descriptor number that the call gives to a file; a file that had it is closed.
    NewNumber,
    /// Memory for the names of a file's extended attributes, each with a NUL.
    AttributeNames,
    /// The size of the buffer for attributes; 0 asks for the size needed.
    Room,
    /// The process that the call is about; 0 is the caller.
    Process,
    /// A process group; 0 is the one with the id of the process that the call is about.
    ProcessGroup,
    /// The real user or group id; -1 leaves it as it is.
    RealId,
    /// The effective user or group id; -1 leaves it as it is.
    EffectiveId,
    /// The saved user or group id; -1 leaves it as it is.
    SavedId,
    /// The user or group id for access to files; -1 leaves it as it is.
    FileId,
    /// The list of supplementary groups.
    Groups,
    /// The environment of a program.
    Environment,
}

impl Arg {
    /// Returns true if it has this use.
    pub const fn is(&self, operand: Operand) -> bool {
        self.operand as u8 == operand as u8
    }

    /// Returns true if its value is a combination or member of this set.
    pub fn is_of_set(&self, wanted: &'static FlagSet) -> bool {
        matches!(self.kind, ArgKind::Flags(set) | ArgKind::Enum(set) if core::ptr::eq(set, wanted))
    }

    /// Returns true if it points to one or more structs of this layout.
    pub fn points_to(&self, wanted: &'static Layout) -> bool {
        match self.kind {
            ArgKind::Buf(_, Of::Struct(layout), _) => core::ptr::eq(layout, wanted),
            _ => false,
        }
    }

    /// Returns true if it points to this struct with a pointer.
    pub fn holds(&self, wanted: &'static Holder) -> bool {
        matches!(self.kind, ArgKind::Buf(_, Of::Holder(holder), _) if core::ptr::eq(holder, wanted))
    }
}

/// Returns the number of the argument with a use.
pub const fn operand(args: &[Arg], wanted: Operand) -> Option<u8> {
    let mut number = 0;
    while number < args.len() {
        if args[number].is(wanted) {
            return Some(number as u8);
        }
        number += 1;
    }
    None
}

/// Where a call has the offset at which it reads or writes a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OffsetIs {
    /// Nowhere: it is the file's own.
    Own,
    /// In an argument.
    Given(u64),
    /// In the memory behind this argument.
    Behind(u8),
}

/// Returns where a call with these values has the offset of a use.
pub fn offset_of(args: &[Arg], values: &[u64; 6], wanted: Operand) -> OffsetIs {
    let Some(number) = operand(args, wanted) else { return OffsetIs::Own };
    match (args[usize::from(number)].kind, values[usize::from(number)]) {
        (ArgKind::Offset, u64::MAX) => OffsetIs::Own,
        (ArgKind::Offset, given) => OffsetIs::Given(given),
        (_, 0) => OffsetIs::Own,
        _ => OffsetIs::Behind(number),
    }
}

/// Returns the number of the argument whose value is a combination or member of a set.
pub fn of_set(args: &[Arg], wanted: &'static FlagSet) -> Option<u8> {
    args.iter().zip(0u8..).find(|(arg, _)| arg.is_of_set(wanted)).map(|(_, number)| number)
}

/// A 32-bit number that the kernel stores where the struct in the first argument says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Behind {
    /// Place of the address in the struct.
    pub at: u8,
    /// It is stored if the bit with this number is set in the struct's first word.
    pub bit: u8,
}

/// Files that the descriptors lead to which a call returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gives {
    /// The file of its path; without a path, an object of the kernel that is named after the call.
    ByPath,
    /// An object of the kernel, by its name in /proc.
    Object(&'static str),
    /// An object of the kernel, by its name in /proc, whose number is stored where a struct says.
    ObjectBehind(&'static str, Behind),
    /// A detached tree of mounts.
    Mounts,
    /// A file in memory, with the name in its first argument.
    Memory,
    /// A socket.
    Socket,
    /// A connection that the socket in the first argument accepted.
    Connection,
    /// Both ends of a pipe.
    Pipe,
    /// Both ends of a socket pair.
    SocketPair,
    /// The process with the id in the first argument.
    Process,
    /// The queue of signals in the first argument, or a new one if that is -1.
    SignalQueue,
    /// A file that the arguments do not name.
    Unnamed,
}

/// Meaning of the value in an argument register.
#[derive(Clone, Copy)]
pub enum ArgKind {
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
    /// One value of a list.
    Enum(&'static FlagSet),
    /// A NUL-terminated path, read before the call.
    Path,
    /// A NUL-terminated string that is not a path, read before the call.
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
    /// After the call if it succeeded: the kernel wrote it.
    Out,
    /// Both before and after.
    InOut,
    /// After the call if it failed: the time left of an interrupted sleep.
    OutOnError,
}

/// Type of the memory behind a pointer.
#[derive(Clone, Copy)]
pub enum Of {
    /// Plain data.
    Bytes,
    /// Text that the kernel returns with or without a NUL (readlink, getcwd).
    Text,
    /// One or more adjacent structs of a described layout.
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
    /// A `siginfo_t`.
    Siginfo,
    /// A set of small numbers, as a bit mask (processors, memory nodes).
    Bits,
    /// A set of descriptors, as for select.
    FdSet,
    /// A `struct sockaddr` of any family.
    Sockaddr,
    /// Directory entries of getdents64.
    Dirents64,
    /// Directory entries of getdents.
    Dirents,
    /// A wait status.
    WaitStatus,
    /// A vector of buffers: both the vector and the buffers are captured.
    Iovec,
    /// A message header with name, vector, content and control data.
    Msghdr,
    /// An array of `struct mmsghdr`.
    Mmsghdr,
    /// A struct with a pointer and a length: both the struct and the memory it points to are
    /// captured.
    Holder(&'static Holder),
}

/// A struct that points to one other memory range (xattr_args, sock_fprog, ifconf).
pub struct Holder {
    /// The struct itself.
    pub layout: &'static Layout,
    /// How to follow it.
    pub pointer: Pointer,
    /// Type of the memory it points to, which has no further pointers.
    pub of: Of,
}

/// Position of a pointer and its length within a struct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pointer {
    /// Offset of the 64-bit pointer.
    pub at: u8,
    /// Offset of the length. For output, the length after the call counts.
    pub length_at: u8,
    /// Size of the length in bytes: 2, 4 or 8.
    pub length_bytes: u8,
    /// Number of bytes per unit of the length.
    pub unit: u8,
    /// Output is not longer than the call's result.
    pub at_most_ret: bool,
}

/// Length of the memory behind a pointer. Argument numbers count from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Len {
    /// Always this many bytes.
    Fixed(u32),
    /// This many bytes if the result is not 0 (wait4 writes nothing if it finds no process).
    FixedIfRet(u32),
    /// The value of an argument, in bytes.
    Arg(u8),
    /// The value of an argument times a size.
    ArgTimes(u8, u32),
    /// The result of the call, in bytes.
    Ret,
    /// The result of the call, as the length of a path: stored in every data mode.
    RetPath,
    /// The value of an argument plus this many bytes (msgsnd, which has the type before the text).
    ArgPlus(u8, u32),
    /// The result of the call times a size.
    RetTimes(u32),
    /// The result of the call plus this many bytes.
    RetPlus(u32),
    /// The smaller of the result and the value of an argument, times a size: for results that may
    /// exceed the buffer (getxattr asking for the size, MSG_TRUNC).
    RetAtMost(u8, u32),
    /// The 32-bit number behind a pointer argument, in bytes (socklen_t): its value before the call
    /// for input, after the call for output.
    Pointee(u8),
    /// One byte per 4096-byte page touched by as many bytes as the argument says (mincore).
    PagesArg(u8),
    /// As many bits as the argument says, rounded up to 64-bit words (select, nodemasks).
    BitsArg(u8),
    /// The 32-bit number in the first word of the memory itself (sched_attr, mnt_id_req).
    SelfSized,
    /// A head, and as many elements as a 32-bit number in it says (file_handle, fiemap).
    Counted {
        /// Offset of the number.
        at: u8,
        /// Size of an element.
        unit: u8,
        /// Size of the head; 0: the number includes the head.
        head: u16,
    },
    /// A 16-bit number for each semaphore of the set in an argument, whose size the kernel knows.
    OfSet(u8),
}

/// What limits the memory that the kernel may access behind a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Always this many bytes.
    Fixed(u32),
    /// An argument counts units; a fixed number of bytes is added.
    Argument {
        /// The argument.
        number: u8,
        /// Size of a unit.
        unit: u32,
        /// Number of bytes added.
        more: u32,
    },
    /// An argument counts bits, rounded up to 64-bit words.
    Bits(u8),
    /// An argument counts bytes; the memory has one byte per page touched by them.
    Pages(u8),
    /// A 32-bit number behind another pointer argument, in bytes.
    Behind(u8),
    /// A 32-bit number in the memory itself: the number of elements after the head.
    Within {
        /// Offset of the number.
        at: u8,
        /// Size of an element.
        unit: u8,
        /// Size of the head.
        head: u16,
    },
}

/// An argument that counts units of `unit` bytes, plus `more` bytes.
const fn counted(number: u8, unit: u32, more: u32) -> Extent {
    Extent::Argument { number, unit, more }
}

impl Len {
    /// Returns what limits the memory behind pointer argument `number`. If the length depends on
    /// the result, the limit is the argument after the pointer, unless another one is named.
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
            // More than there is: nothing limits what the kernel writes.
            Len::OfSet(_) => Extent::Fixed(u32::MAX),
        }
    }
}

/// Meaning of a call's result.
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
    /// The call does not return if it succeeds.
    Never,
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
    /// May wait: for descriptors, time, tasks, locks, signals.
    pub const WAIT: Classes = Classes(1 << 14);

    /// Names of groups for `--call %NAME`.
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

    /// Returns the union of both groups.
    pub const fn or(self, other: Classes) -> Classes {
        Classes(self.0 | other.0)
    }

    /// Returns true if the two have a group in common.
    pub const fn intersects(self, other: Classes) -> bool {
        self.0 & other.0 != 0
    }
}
