//! Short names for writing the rows of the table.

use crate::act::Act;
use crate::handler::Handler;
use crate::layout::Layout;
use crate::operations::{Cousin, Queue};
use crate::shape::{
    Again, Arg, ArgKind, Beside, Classes, Dir, FlagSet, Gives, Holder, Len, Of, OpenFlags, Operand,
    Replay, Ret, Syscall, Variant, WaitsOn,
};

pub const NONE: Classes = Classes::NONE;
pub const FILE: Classes = Classes::FILE;
pub const DESC: Classes = Classes::DESC;
pub const NETWORK: Classes = Classes::NETWORK.or(Classes::DESC);
pub const PROCESS: Classes = Classes::PROCESS;
pub const SIGNAL: Classes = Classes::SIGNAL;
pub const IPC: Classes = Classes::IPC;
pub const MEMORY: Classes = Classes::MEMORY;
pub const CREDS: Classes = Classes::CREDS;
pub const CLOCK: Classes = Classes::CLOCK;
pub const STAT: Classes = Classes::STAT;
pub const READ: Classes = Classes::READ;
pub const WRITE: Classes = Classes::WRITE;
pub const SYNC: Classes = Classes::SYNC;
pub const CHANGE: Classes = Classes::CHANGE;
pub const WAIT: Classes = Classes::WAIT;

pub const GIVEN_TO_ANOTHER: Again = Again::GivenToAnother;
pub const MADE: Again = Again::Made;
pub const ALWAYS: Again = Again::Always;
pub const REACHED: Again = Again::Reached;
pub const PLACED: Again = Again::Placed;
pub const BORN: Again = Again::Born;
pub const UNKNOWN: Again = Again::Unknown;
pub const BESIDE: Beside = Beside::Made;
pub const ALWAYS_BESIDE: Beside = Beside::Always;
pub const OPENS: Beside = Beside::Opens;
pub const OPENS_STREAM: Beside = Beside::OpensStream;
pub const RENUMBERS: Beside = Beside::Renumbers;
pub const BINDS: Beside = Beside::Binds;
pub const CONNECTS: Beside = Beside::Connects;
pub const ACCEPTS: Beside = Beside::Accepts;
pub const RECEIVES: Beside = Beside::Receives;
pub const SENDS: Beside = Beside::Sends;
pub const COPIES: Beside = Beside::Copies;
pub const WATCHES: Beside = Beside::Watches;

/// A wait with its time limit in this argument.
pub const fn waits(on: WaitsOn, limit: u8) -> Beside {
    Beside::Waits { on, limit, is_behind: false }
}

/// A wait with its time limit behind this argument.
pub const fn waits_behind(on: WaitsOn, limit: u8) -> Beside {
    Beside::Waits { on, limit, is_behind: true }
}

pub const REAL: Replay = Replay::Real;
pub const NUMBERS: Replay = Replay::Numbers;
pub const TASK: Replay = Replay::Task;
pub const SIMULATED: Replay = Replay::Simulated;
pub const LEFT_OUT: Replay = Replay::LeftOut;
pub const IN_MEMORY: Replay = Replay::Memory;
pub const IGNORED: Replay = Replay::Ignored;
pub const TIMED: Replay = Replay::Timed;
pub const TIMED_UNLESS_ASIDE: Replay = Replay::TimedUnlessAside;

/// Creates the row of a call without variants.
pub const fn call(
    nr: u16,
    name: &'static str,
    classes: Classes,
    replay: Replay,
    ret: Ret,
    args: &'static [Arg],
) -> Syscall {
    family(nr, name, classes, replay, ret, args, &[])
}

/// Creates the row of a call whose meaning depends on one of its arguments.
pub const fn family(
    nr: u16,
    name: &'static str,
    classes: Classes,
    replay: Replay,
    ret: Ret,
    args: &'static [Arg],
    variants: &'static [Variant],
) -> Syscall {
    Syscall {
        nr,
        name,
        classes,
        replay,
        act: Act::Plain,
        handler: Handler::Plain,
        open: None,
        args,
        ret,
        variants,
        by_descriptor: None,
        gives: Gives::ByPath,
        gives_until_exec: false,
        queue: None,
        cousin: None,
        again: Again::Given,
        beside: Beside::Nothing,
    }
}

impl Syscall {
    /// Sets the effect of the call.
    pub const fn does(self, act: Act) -> Syscall {
        Syscall { act, ..self }
    }

    /// Sets how the agent makes the call.
    pub const fn handled(self, handler: Handler) -> Syscall {
        Syscall { handler, ..self }
    }

    /// Marks a call that opens the file at its path, with these flags.
    pub const fn opens(self, flags: OpenFlags) -> Syscall {
        Syscall { open: Some(flags), ..self.does(Act::Open).handled(Handler::Open) }
    }

    /// Sets the number of the call that does the same to a descriptor's file.
    pub const fn by_descriptor(self, nr: u16) -> Syscall {
        Syscall { by_descriptor: Some(nr), ..self }
    }

    /// Sets the files behind the descriptors that it returns.
    pub const fn gives(self, gives: Gives) -> Syscall {
        Syscall { gives, ..self }
    }

    /// Marks an operation of Linux AIO.
    pub const fn of_aio(self) -> Syscall {
        Syscall { queue: Some(Queue::Aio), ..self }
    }

    /// Marks an operation of io_uring.
    pub const fn of_ring(self) -> Syscall {
        Syscall { queue: Some(Queue::Ring), ..self }
    }

    /// Sets the call that does what the operation does.
    pub const fn like(self, nr: u16, args: [u8; 6]) -> Syscall {
        Syscall {
            cousin: Some(Cousin { nr, args, at_own_offset: None, offsets_behind: false }),
            ..self
        }
    }

    /// Sets the call that does the same where the file's own offset stands.
    pub const fn at_own_offset(self, nr: u16) -> Syscall {
        match self.cousin {
            Some(cousin) => {
                Syscall { cousin: Some(Cousin { at_own_offset: Some(nr), ..cousin }), ..self }
            }
            None => panic!("an operation that is like no call"),
        }
    }

    /// Its offsets are numbers, where the call that does the same has pointers to them.
    pub const fn offsets_behind(self) -> Syscall {
        match self.cousin {
            Some(cousin) => {
                Syscall { cousin: Some(Cousin { offsets_behind: true, ..cousin }), ..self }
            }
            None => panic!("an operation that is like no call"),
        }
    }

    /// Adds the variants of an operation that may be about a place in the table of a ring instead of a
    /// descriptor: where this argument is not 0.
    pub const fn with_places(self, variants: &'static [Variant]) -> Syscall {
        Syscall { variants, ..self }
    }

    /// Sets what a re-execution does with it.
    pub const fn again(self, again: Again) -> Syscall {
        Syscall { again, ..self }
    }

    /// Sets what a re-execution does with it on real sockets.
    pub const fn beside(self, beside: Beside) -> Syscall {
        Syscall { beside, ..self }
    }

    /// Its descriptors are closed by an exec, whatever the flags say.
    pub const fn until_exec(self) -> Syscall {
        Syscall { gives_until_exec: true, ..self }
    }
}

/// Creates the variant for one value of a 32-bit argument.
pub const fn when(key_arg: u8, value: u64, ret: Ret, args: &'static [Arg]) -> Variant {
    Variant {
        name: "",
        key_arg,
        value: value & MASK_32,
        mask: MASK_32,
        args,
        ret,
        replay: None,
        act: None,
        gives_until_exec: false,
        again: None,
        beside: None,
    }
}

/// Creates the variant for arguments with all of these bits set.
pub const fn when_set(key_arg: u8, bits: u64, ret: Ret, args: &'static [Arg]) -> Variant {
    Variant {
        name: "",
        key_arg,
        value: bits,
        mask: bits,
        args,
        ret,
        replay: None,
        act: None,
        gives_until_exec: false,
        again: None,
        beside: None,
    }
}

/// Creates the variant for arguments with this value in the masked bits.
pub const fn when_field(
    key_arg: u8,
    mask: u64,
    value: u64,
    ret: Ret,
    args: &'static [Arg],
) -> Variant {
    Variant {
        name: "",
        key_arg,
        value,
        mask,
        args,
        ret,
        replay: None,
        act: None,
        gives_until_exec: false,
        again: None,
        beside: None,
    }
}

/// Creates the last variant of a call, which matches all other values.
pub const fn otherwise(ret: Ret, args: &'static [Arg]) -> Variant {
    Variant {
        name: "",
        key_arg: 0,
        value: 0,
        mask: 0,
        args,
        ret,
        replay: None,
        act: None,
        gives_until_exec: false,
        again: None,
        beside: None,
    }
}

impl Variant {
    /// Sets how a replay treats the variant, if not as the row says.
    pub const fn replayed(self, replay: Replay) -> Variant {
        Variant { replay: Some(replay), ..self }
    }

    /// Sets the effect of the variant.
    pub const fn does(self, act: Act) -> Variant {
        Variant { act: Some(act), ..self }
    }

    /// Sets what a re-execution does with the variant, if not as the row says.
    pub const fn again(self, again: Again) -> Variant {
        Variant { again: Some(again), ..self }
    }

    /// Sets what a re-execution does with the variant on real sockets, if not as the row says.
    pub const fn beside(self, beside: Beside) -> Variant {
        Variant { beside: Some(beside), ..self }
    }

    /// Names the value that selects it.
    pub const fn named(self, name: &'static str) -> Variant {
        Variant { name, ..self }
    }

    /// Its descriptor is closed by an exec, whatever the flags say.
    pub const fn until_exec(self) -> Variant {
        Variant { gives_until_exec: true, ..self }
    }
}

const MASK_32: u64 = 0xffff_ffff;

const fn arg(name: &'static str, kind: ArgKind) -> Arg {
    Arg { name, kind, operand: Operand::ByType, told_on_error: false, head_goes_in: false }
}

impl Arg {
    const fn used_as(self, operand: Operand) -> Arg {
        Arg { operand, ..self }
    }
}

/// A descriptor that bytes are read from.
pub const fn source(name: &'static str) -> Arg {
    fd(name).used_as(Operand::Source)
}
/// A descriptor that bytes are written to.
pub const fn target(name: &'static str) -> Arg {
    fd(name).used_as(Operand::Target)
}
/// A descriptor that bytes are read from or written to.
pub const fn source_or_target(name: &'static str) -> Arg {
    fd(name).used_as(Operand::SourceOrTarget)
}
/// The offset in the source.
pub const fn source_at(name: &'static str) -> Arg {
    off(name).used_as(Operand::SourceAt)
}
/// The offset in the target.
pub const fn target_at(name: &'static str) -> Arg {
    off(name).used_as(Operand::TargetAt)
}
/// A pointer to the offset in the source, which the kernel advances.
pub const fn source_at_behind(name: &'static str) -> Arg {
    inout(name, Of::I64, Len::Fixed(8)).used_as(Operand::SourceAt)
}
/// A pointer to the offset in the target, which the kernel advances.
pub const fn target_at_behind(name: &'static str) -> Arg {
    inout(name, Of::I64, Len::Fixed(8)).used_as(Operand::TargetAt)
}
/// The number of bytes to move.
pub const fn count(name: &'static str) -> Arg {
    size(name).used_as(Operand::Count)
}
/// The new length of a file.
pub const fn length(name: &'static str) -> Arg {
    off(name).used_as(Operand::Length)
}
/// A descriptor number that the call gives to a file.
pub const fn new_number(name: &'static str) -> Arg {
    fd(name).used_as(Operand::NewNumber)
}
/// Memory for the names of a file's extended attributes.
pub const fn attribute_names(name: &'static str, len: Len) -> Arg {
    output(name, Of::Bytes, len).used_as(Operand::AttributeNames)
}
/// The size of the buffer for attributes.
pub const fn room(name: &'static str) -> Arg {
    size(name).used_as(Operand::Room)
}
/// The process that a call is about.
pub const fn process(name: &'static str) -> Arg {
    pid(name).used_as(Operand::Process)
}
/// A process group.
pub const fn process_group(name: &'static str) -> Arg {
    pid(name).used_as(Operand::ProcessGroup)
}

impl Arg {
    /// It is the real user or group id.
    pub const fn real(self) -> Arg {
        self.used_as(Operand::RealId)
    }
    /// It is the effective user or group id.
    pub const fn effective(self) -> Arg {
        self.used_as(Operand::EffectiveId)
    }
    /// It is the saved user or group id.
    pub const fn saved(self) -> Arg {
        self.used_as(Operand::SavedId)
    }
    /// It is the user or group id for access to files.
    pub const fn for_files(self) -> Arg {
        self.used_as(Operand::FileId)
    }
    /// Only its head goes in.
    pub const fn head_goes_in(self) -> Arg {
        Arg { head_goes_in: true, ..self }
    }
    /// The kernel writes to it as well if the call fails.
    pub const fn told_on_error(self) -> Arg {
        Arg { told_on_error: true, ..self }
    }
    /// It is the list of supplementary groups.
    pub const fn groups(self) -> Arg {
        self.used_as(Operand::Groups)
    }
}

pub const fn int(name: &'static str) -> Arg {
    arg(name, ArgKind::Int)
}
pub const fn uint(name: &'static str) -> Arg {
    arg(name, ArgKind::Uint)
}
pub const fn long(name: &'static str) -> Arg {
    arg(name, ArgKind::Long)
}
pub const fn ulong(name: &'static str) -> Arg {
    arg(name, ArgKind::Ulong)
}
pub const fn hex(name: &'static str) -> Arg {
    arg(name, ArgKind::Hex)
}
pub const fn mode(name: &'static str) -> Arg {
    arg(name, ArgKind::Mode)
}
pub const fn addr(name: &'static str) -> Arg {
    arg(name, ArgKind::Address)
}
pub const fn fd(name: &'static str) -> Arg {
    arg(name, ArgKind::Fd)
}
pub const fn dirfd(name: &'static str) -> Arg {
    arg(name, ArgKind::DirFd)
}
pub const fn pid(name: &'static str) -> Arg {
    arg(name, ArgKind::Pid)
}
pub const fn uid(name: &'static str) -> Arg {
    arg(name, ArgKind::Uid)
}
pub const fn gid(name: &'static str) -> Arg {
    arg(name, ArgKind::Gid)
}
pub const fn dev(name: &'static str) -> Arg {
    arg(name, ArgKind::Dev)
}
pub const fn sig(name: &'static str) -> Arg {
    arg(name, ArgKind::Signal)
}
pub const fn off(name: &'static str) -> Arg {
    arg(name, ArgKind::Offset)
}
pub const fn size(name: &'static str) -> Arg {
    arg(name, ArgKind::Size)
}
pub const fn path(name: &'static str) -> Arg {
    arg(name, ArgKind::Path)
}
pub const fn text(name: &'static str) -> Arg {
    arg(name, ArgKind::Str)
}
/// The environment of a program.
pub const fn environment(name: &'static str) -> Arg {
    texts(name).used_as(Operand::Environment)
}
pub const fn texts(name: &'static str) -> Arg {
    arg(name, ArgKind::StrArray)
}
pub const fn bits(name: &'static str, set: &'static FlagSet) -> Arg {
    arg(name, ArgKind::Flags(set))
}
pub const fn one(name: &'static str, set: &'static FlagSet) -> Arg {
    arg(name, ArgKind::Enum(set))
}

/// Memory that the kernel reads.
pub const fn input(name: &'static str, of: Of, len: Len) -> Arg {
    arg(name, ArgKind::Buf(Dir::In, of, len))
}
/// Memory that the kernel writes.
pub const fn output(name: &'static str, of: Of, len: Len) -> Arg {
    arg(name, ArgKind::Buf(Dir::Out, of, len))
}
/// Memory that the kernel reads and writes.
pub const fn inout(name: &'static str, of: Of, len: Len) -> Arg {
    arg(name, ArgKind::Buf(Dir::InOut, of, len))
}
/// One struct that the kernel reads.
pub const fn in_struct(name: &'static str, layout: &'static Layout) -> Arg {
    input(name, Of::Struct(layout), Len::Fixed(layout.size))
}
/// One struct that the kernel writes.
pub const fn out_struct(name: &'static str, layout: &'static Layout) -> Arg {
    output(name, Of::Struct(layout), Len::Fixed(layout.size))
}
/// One struct that the kernel reads and writes.
pub const fn inout_struct(name: &'static str, layout: &'static Layout) -> Arg {
    inout(name, Of::Struct(layout), Len::Fixed(layout.size))
}
/// One struct that the kernel writes when the call fails.
pub const fn error_struct(name: &'static str, layout: &'static Layout) -> Arg {
    arg(name, ArgKind::Buf(Dir::OutOnError, Of::Struct(layout), Len::Fixed(layout.size)))
}
/// A struct whose size the caller passes.
pub const fn in_sized(name: &'static str, layout: &'static Layout, len: Len) -> Arg {
    input(name, Of::Struct(layout), len)
}
/// A struct and the memory that it points to.
pub const fn in_holder(name: &'static str, holder: &'static Holder) -> Arg {
    input(name, Of::Holder(holder), Len::Fixed(holder.layout.size))
}
/// A struct whose size the caller passes, and the memory that it points to.
pub const fn in_sized_holder(name: &'static str, holder: &'static Holder, len: Len) -> Arg {
    input(name, Of::Holder(holder), len)
}
/// A struct whose size the caller passes, and the memory that it points to, written by the kernel.
pub const fn out_sized_holder(name: &'static str, holder: &'static Holder, len: Len) -> Arg {
    output(name, Of::Holder(holder), len)
}
/// A struct and the memory that it points to, written by the kernel.
pub const fn out_holder(name: &'static str, holder: &'static Holder) -> Arg {
    output(name, Of::Holder(holder), Len::Fixed(holder.layout.size))
}
