//! Operations of io_uring: the arguments are those of the call that does the same, and last the
//! entry of the submission queue. Those without such a call have the entry alone.

use super::words::*;
use crate::abi::rings::{RECV_MULTISHOT, SEND_VECTORIZED};
use crate::act::Act;
use crate::flags as f;
use crate::layout as l;
use crate::operations::Take::{
    self, Address, Descriptor, Field, Nothing, Rest, RestBytes, SourceDescriptor,
};
use crate::operations::{NOTHING, OPERATIONS_FIRST, Request};
use crate::shape::Len::{
    Arg as ByArg, ArgTimes, Fixed, Pointee, Ret as Result, RetAtMost, RetTimes,
};
use crate::shape::Of::{Bytes, Fds, I32, Iovec, Msghdr, Siginfo, Sockaddr, Struct};
use crate::shape::{Arg, Classes, Gives, OpenFlags, Replay, Ret, Syscall, Variant};

const ENTRY: Arg = in_struct("sqe", &l::IO_URING_SQE);
const FLAGS: Arg = bits("flags", &f::RWF);
const MESSAGE: Arg = bits("flags", &f::MSG);
const HOW: Arg = bits("ioprio", &f::URING_RECVSEND);
const NAME: Arg = hex("user_data");
/// The place in the table of the ring, plus 1, that the descriptor gets instead of a number.
const PLACE: Arg = uint("file_index");

const FILE_ALONE: [u8; 6] = [0, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING];
const FIRST_TWO: [u8; 6] = [0, 1, NOTHING, NOTHING, NOTHING, NOTHING];
const FIRST_THREE: [u8; 6] = [0, 1, 2, NOTHING, NOTHING, NOTHING];
const FIRST_FOUR: [u8; 6] = [0, 1, 2, 3, NOTHING, NOTHING];
const FIRST_FIVE: [u8; 6] = [0, 1, 2, 3, 4, NOTHING];
/// preadv2 and pwritev2 have the offset in two halves.
const WITH_FLAGS: [u8; 6] = [0, 1, 2, 3, NOTHING, 4];

const fn op(
    opcode: u16,
    name: &'static str,
    classes: Classes,
    replay: Replay,
    ret: Ret,
    args: &'static [Arg],
) -> Syscall {
    call(OPERATIONS_FIRST + opcode, name, classes, replay, ret, args).of_ring()
}

/// An operation of which nothing but the entry is known.
const fn raw(opcode: u16, name: &'static str, replay: Replay) -> Syscall {
    op(opcode, name, NONE, replay, Ret::Int, &[ENTRY])
}

/// The variants of an operation with a place in the table of the ring, or 0 for a descriptor.
const fn or_place(arg: u8, ret: Ret, args: &'static [Arg]) -> [Variant; 2] {
    let of_ring = otherwise(Ret::Int, args).does(Act::Plain).replayed(SIMULATED);
    [when(arg, 0, ret, args), of_ring]
}

#[rustfmt::skip]
const READS: &[Arg] = &[source("fd"), output("buf", Bytes, Result), count("count"), source_at("offset"), FLAGS, ENTRY];
#[rustfmt::skip]
const WRITES: &[Arg] = &[target("fd"), input("buf", Bytes, ByArg(2)), count("count"), target_at("offset"), FLAGS, ENTRY];
#[rustfmt::skip]
const READS_VECTOR: &[Arg] = &[
    source("fd"), output("iov", Iovec, ArgTimes(2, 16)), ulong("iovcnt"), source_at("offset"), FLAGS, ENTRY];
#[rustfmt::skip]
const WRITES_VECTOR: &[Arg] = &[
    target("fd"), input("iov", Iovec, ArgTimes(2, 16)), ulong("iovcnt"), target_at("offset"), FLAGS, ENTRY];
#[rustfmt::skip]
const SENDS: &[Arg] = &[target("sockfd"), input("buf", Bytes, ByArg(2)), count("len"), MESSAGE, HOW, ENTRY];
#[rustfmt::skip]
const SENDS_VECTOR: &[Arg] = &[target("sockfd"), input("iov", Iovec, ArgTimes(2, 16)), ulong("iovcnt"), MESSAGE, HOW, ENTRY];
#[rustfmt::skip]
const RECEIVES: &[Arg] = &[source("sockfd"), output("buf", Bytes, RetAtMost(2, 1)), count("len"), MESSAGE, HOW, ENTRY];
#[rustfmt::skip]
const SENDS_MESSAGE: &[Arg] = &[target("sockfd"), input("msg", Msghdr, Fixed(56)), MESSAGE, HOW, ENTRY];
#[rustfmt::skip]
const RECEIVES_MESSAGE: &[Arg] = &[source("sockfd"), output("msg", Msghdr, Fixed(56)), MESSAGE, HOW, ENTRY];
/// What an operation sends that has a vector in the place of a buffer: no call with its flags does so.
const MAY_SEND_VECTOR: &[Variant] = &[
    when_set(4, SEND_VECTORIZED, Ret::Size, SENDS_VECTOR).replayed(SIMULATED),
    otherwise(Ret::Size, SENDS),
];
/// A message of which more may come has its header in the buffer, before name, control data and bytes.
const MAY_FRAME_MESSAGE: &[Variant] = &[
    when_set(3, RECV_MULTISHOT, Ret::Size, RECEIVES_MESSAGE).replayed(SIMULATED),
    otherwise(Ret::Size, RECEIVES_MESSAGE),
];
#[rustfmt::skip]
const OPENS: &[Arg] = &[dirfd("dirfd"), path("pathname"), bits("flags", &f::OPEN), mode("mode"), PLACE, ENTRY];
#[rustfmt::skip]
const OPENS_HOW: &[Arg] = &[
    dirfd("dirfd"), path("pathname"), in_sized("how", &l::OPEN_HOW, ByArg(3)), size("size"), PLACE, ENTRY];
#[rustfmt::skip]
const ACCEPTS: &[Arg] = &[
    fd("sockfd"), output("addr", Sockaddr, Pointee(2)), inout("addrlen", I32, Fixed(4)), bits("flags", &f::SOCK_CREATED), PLACE, ENTRY];
#[rustfmt::skip]
const MAKES_SOCKET: &[Arg] = &[one("domain", &f::AF), hex("type"), int("protocol"), hex("flags"), PLACE, ENTRY];
#[rustfmt::skip]
const CLOSES: &[Arg] = &[fd("fd"), PLACE, ENTRY];
#[rustfmt::skip]
const MAKES_PIPE: &[Arg] = &[output("pipefd", Fds, Fixed(8)), bits("flags", &f::OPEN_CREATED), PLACE, ENTRY];
#[rustfmt::skip]
const COMMANDS: &[Arg] = &[fd("fd"), hex("cmd_op"), input("cmd", Bytes, ByArg(3)), size("size"), ENTRY];
#[rustfmt::skip]
const WAITS_ON_WORD: &[Arg] = &[addr("uaddr"), ulong("val"), hex("mask"), hex("futex_flags"), ENTRY];

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    raw(0, "io_uring:NOP", IGNORED),
    op(1, "io_uring:READV", DESC.or(READ), REAL, Ret::Size, READS_VECTOR).like(327, WITH_FLAGS),
    op(2, "io_uring:WRITEV", DESC.or(WRITE), REAL, Ret::Size, WRITES_VECTOR).like(328, WITH_FLAGS),
    op(3, "io_uring:FSYNC", DESC.or(SYNC), REAL, Ret::Int, &[fd("fd"), uint("flags"), ENTRY]).does(Act::SyncFile).like(74, FILE_ALONE),
    op(4, "io_uring:READ_FIXED", DESC.or(READ), REAL, Ret::Size, READS).like(17, FIRST_FOUR).at_own_offset(0),
    op(5, "io_uring:WRITE_FIXED", DESC.or(WRITE), REAL, Ret::Size, WRITES).like(18, FIRST_FOUR).at_own_offset(1),
    op(6, "io_uring:POLL_ADD", DESC.or(WAIT), IGNORED, Ret::Hex, &[
        fd("fd"), bits("events", &f::POLL), bits("flags", &f::URING_POLL), ENTRY]),
    op(7, "io_uring:POLL_REMOVE", NONE, IGNORED, Ret::Int, &[
        NAME, bits("flags", &f::URING_POLL), hex("new_user_data"), bits("events", &f::POLL), ENTRY]),
    op(8, "io_uring:SYNC_FILE_RANGE", DESC.or(SYNC), REAL, Ret::Int, &[
        fd("fd"), off("offset"), off("nbytes"), bits("flags", &f::SYNC_FILE_RANGE), ENTRY]).like(277, FIRST_FOUR),
    op(9, "io_uring:SENDMSG", NETWORK.or(WRITE), REAL, Ret::Size, SENDS_MESSAGE).like(46, FIRST_THREE),
    op(10, "io_uring:RECVMSG", NETWORK.or(READ), REAL, Ret::Size, RECEIVES_MESSAGE).like(47, FIRST_THREE).with_places(MAY_FRAME_MESSAGE),
    op(11, "io_uring:TIMEOUT", WAIT, IGNORED, Ret::Int, &[
        in_struct("timeout", &l::TIMESPEC), uint("count"), bits("flags", &f::URING_TIMEOUT), ENTRY]),
    op(12, "io_uring:TIMEOUT_REMOVE", NONE, IGNORED, Ret::Int, &[
        NAME, in_struct("timeout", &l::TIMESPEC), bits("flags", &f::URING_TIMEOUT), ENTRY]),
    op(13, "io_uring:ACCEPT", NETWORK, SIMULATED, Ret::Fd, ACCEPTS).gives(Gives::Connection).with_places(&or_place(4, Ret::Fd, ACCEPTS)),
    op(14, "io_uring:ASYNC_CANCEL", DESC, IGNORED, Ret::Int, &[
        fd("fd"), NAME, uint("opcode"), bits("flags", &f::URING_CANCEL), ENTRY]),
    op(15, "io_uring:LINK_TIMEOUT", WAIT, IGNORED, Ret::Int, &[
        in_struct("timeout", &l::TIMESPEC), bits("flags", &f::URING_TIMEOUT), ENTRY]),
    op(16, "io_uring:CONNECT", NETWORK, SIMULATED, Ret::Int, &[
        fd("sockfd"), input("addr", Sockaddr, ByArg(2)), int("addrlen"), ENTRY]).does(Act::Connect),
    op(17, "io_uring:FALLOCATE", DESC.or(CHANGE), REAL, Ret::Int, &[
        fd("fd"), bits("mode", &f::FALLOCATE), off("offset"), off("len"), ENTRY]).does(Act::Allocate).like(285, FIRST_FOUR),
    op(18, "io_uring:OPENAT", FILE.or(DESC), REAL, Ret::Fd, OPENS).opens(OpenFlags::Arg(2)).like(257, FIRST_FOUR).with_places(&or_place(4, Ret::Fd, OPENS)),
    op(19, "io_uring:CLOSE", DESC, NUMBERS, Ret::Int, CLOSES).does(Act::Close).like(3, FILE_ALONE).with_places(&or_place(1, Ret::Int, CLOSES)),
    op(20, "io_uring:FILES_UPDATE", NONE, IGNORED, Ret::Int, &[
        inout("fds", I32, ArgTimes(1, 4)), uint("nr"), int("offset"), ENTRY]),
    op(21, "io_uring:STATX", FILE.or(DESC).or(STAT), REAL, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), bits("flags", &f::AT_STATX), bits("mask", &f::STATX), out_struct("statxbuf", &l::STATX), ENTRY]).like(332, FIRST_FIVE),
    op(22, "io_uring:READ", DESC.or(READ), REAL, Ret::Size, READS).like(17, FIRST_FOUR).at_own_offset(0),
    op(23, "io_uring:WRITE", DESC.or(WRITE), REAL, Ret::Size, WRITES).like(18, FIRST_FOUR).at_own_offset(1),
    op(24, "io_uring:FADVISE", DESC, REAL, Ret::Int, &[fd("fd"), off("offset"), size("len"), one("advice", &f::FADVISE), ENTRY]).like(221, FIRST_FOUR),
    op(25, "io_uring:MADVISE", MEMORY, IGNORED, Ret::Int, &[addr("addr"), size("length"), one("advice", &f::MADVISE), ENTRY]),
    op(26, "io_uring:SEND", NETWORK.or(WRITE), REAL, Ret::Size, SENDS).like(44, FIRST_FOUR).with_places(MAY_SEND_VECTOR),
    op(27, "io_uring:RECV", NETWORK.or(READ), REAL, Ret::Size, RECEIVES).like(45, FIRST_FOUR),
    op(28, "io_uring:OPENAT2", FILE.or(DESC), REAL, Ret::Fd, OPENS_HOW)
        .opens(OpenFlags::Struct { arg: 2, at: 0, resolve_at: 16 }).like(437, FIRST_FOUR).with_places(&or_place(4, Ret::Fd, OPENS_HOW)),
    op(29, "io_uring:EPOLL_CTL", DESC, IGNORED, Ret::Int, &[
        fd("epfd"), one("op", &f::EPOLL_CTL), fd("fd"), in_struct("event", &l::EPOLL_EVENT), ENTRY]),
    op(30, "io_uring:SPLICE", DESC.or(READ).or(WRITE), REAL, Ret::Size, &[
        source("fd_in"), source_at("off_in"), target("fd_out"), target_at("off_out"), count("len"), ENTRY])
        .does(Act::Copy).like(275, [0, 1, 2, 3, 4, NOTHING]).offsets_behind(),
    op(31, "io_uring:PROVIDE_BUFFERS", NONE, IGNORED, Ret::Int, &[
        addr("addr"), uint("len"), uint("nbufs"), uint("bid"), uint("bgid"), ENTRY]),
    op(32, "io_uring:REMOVE_BUFFERS", NONE, IGNORED, Ret::Int, &[uint("nbufs"), uint("bgid"), ENTRY]),
    op(33, "io_uring:TEE", DESC.or(READ).or(WRITE), REAL, Ret::Size, &[
        source("fd_in"), target("fd_out"), count("len"), bits("flags", &f::SPLICE), ENTRY]).does(Act::Tee).like(276, FIRST_FOUR),
    op(34, "io_uring:SHUTDOWN", NETWORK, REAL, Ret::Int, &[fd("sockfd"), one("how", &f::SHUT), ENTRY]).like(48, FIRST_TWO),
    op(35, "io_uring:RENAMEAT", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        dirfd("olddirfd"), path("oldpath"), dirfd("newdirfd"), path("newpath"), bits("flags", &f::RENAME), ENTRY]).does(Act::Rename).like(316, FIRST_FIVE),
    op(36, "io_uring:UNLINKAT", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), bits("flags", &f::AT_UNLINK), ENTRY]).does(Act::Remove).like(263, FIRST_THREE),
    op(37, "io_uring:MKDIRAT", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), mode("mode"), ENTRY]).does(Act::MakeDirectory).like(258, FIRST_THREE),
    op(38, "io_uring:SYMLINKAT", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        text("target"), dirfd("newdirfd"), path("linkpath"), ENTRY]).does(Act::MakeLink).like(266, FIRST_THREE),
    op(39, "io_uring:LINKAT", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        dirfd("olddirfd"), path("oldpath"), dirfd("newdirfd"), path("newpath"), bits("flags", &f::AT), ENTRY]).does(Act::HardLink).like(265, FIRST_FIVE),
    op(40, "io_uring:MSG_RING", DESC, IGNORED, Ret::Int, &[
        fd("ring_fd"), one("cmd", &f::URING_MSG), uint("len"), hex("data"), hex("flags"), ENTRY]),
    op(41, "io_uring:FSETXATTR", DESC.or(CHANGE), REAL, Ret::Int, &[
        fd("fd"), text("name"), input("value", Bytes, ByArg(3)), size("size"), bits("flags", &f::XATTR), ENTRY])
        .does(Act::ChangeXattr).like(190, FIRST_FIVE),
    op(42, "io_uring:SETXATTR", FILE.or(CHANGE), REAL, Ret::Int, &[
        path("path"), text("name"), input("value", Bytes, ByArg(3)), size("size"), bits("flags", &f::XATTR), ENTRY])
        .does(Act::ChangeXattr).like(188, FIRST_FIVE),
    op(43, "io_uring:FGETXATTR", DESC, REAL, Ret::Size, &[
        fd("fd"), text("name"), output("value", Bytes, RetAtMost(3, 1)), room("size"), ENTRY]).does(Act::GetXattr).like(193, FIRST_FOUR),
    op(44, "io_uring:GETXATTR", FILE, REAL, Ret::Size, &[
        path("path"), text("name"), output("value", Bytes, RetAtMost(3, 1)), room("size"), ENTRY]).does(Act::GetXattr).like(191, FIRST_FOUR),
    op(45, "io_uring:SOCKET", NETWORK, SIMULATED, Ret::Fd, MAKES_SOCKET).gives(Gives::Socket).with_places(&or_place(4, Ret::Fd, MAKES_SOCKET)),
    op(46, "io_uring:URING_CMD", DESC, LEFT_OUT, Ret::Int, COMMANDS).does(Act::MoveUnseen),
    op(47, "io_uring:SEND_ZC", NETWORK.or(WRITE), REAL, Ret::Size, SENDS).like(44, FIRST_FOUR).does(Act::LendMemory).with_places(MAY_SEND_VECTOR),
    op(48, "io_uring:SENDMSG_ZC", NETWORK.or(WRITE), REAL, Ret::Size, SENDS_MESSAGE).like(46, FIRST_THREE).does(Act::LendMemory),
    // Of what is read so there is a queue, and no offset.
    op(49, "io_uring:READ_MULTISHOT", DESC.or(READ), REAL, Ret::Size, &[
        source("fd"), output("buf", Bytes, Result), count("count"), ENTRY]).like(0, FIRST_THREE),
    op(50, "io_uring:WAITID", PROCESS.or(WAIT), IGNORED, Ret::Int, &[
        one("which", &f::WAITID), int("id"), output("infop", Siginfo, Fixed(128)), bits("options", &f::WAIT), ENTRY]),
    op(51, "io_uring:FUTEX_WAIT", WAIT, IGNORED, Ret::Int, WAITS_ON_WORD),
    op(52, "io_uring:FUTEX_WAKE", NONE, IGNORED, Ret::Int, WAITS_ON_WORD),
    op(53, "io_uring:FUTEX_WAITV", WAIT, IGNORED, Ret::Int, &[
        input("waiters", Struct(&l::FUTEX_WAITV), ArgTimes(1, 24)), uint("nr_futexes"), ENTRY]),
    op(54, "io_uring:FIXED_FD_INSTALL", DESC, SIMULATED, Ret::Fd, &[uint("index"), hex("flags"), ENTRY]).gives(Gives::Unnamed),
    op(55, "io_uring:FTRUNCATE", DESC.or(CHANGE), REAL, Ret::Int, &[fd("fd"), length("length"), ENTRY]).does(Act::Truncate).like(77, FIRST_TWO),
    op(56, "io_uring:BIND", NETWORK, SIMULATED, Ret::Int, &[
        fd("sockfd"), input("addr", Sockaddr, ByArg(2)), int("addrlen"), ENTRY]).does(Act::Bind),
    op(57, "io_uring:LISTEN", NETWORK, SIMULATED, Ret::Int, &[fd("sockfd"), int("backlog"), ENTRY]),
    op(58, "io_uring:RECV_ZC", NETWORK.or(READ), LEFT_OUT, Ret::Int, &[
        fd("sockfd"), uint("len"), HOW, uint("zcrx_ifq_idx"), ENTRY]).does(Act::MoveUnseen),
    op(59, "io_uring:EPOLL_WAIT", DESC.or(WAIT), IGNORED, Ret::Int, &[
        fd("epfd"), output("events", Struct(&l::EPOLL_EVENT), RetTimes(12)), int("maxevents"), ENTRY]),
    op(60, "io_uring:READV_FIXED", DESC.or(READ), REAL, Ret::Size, READS_VECTOR).like(327, WITH_FLAGS),
    op(61, "io_uring:WRITEV_FIXED", DESC.or(WRITE), REAL, Ret::Size, WRITES_VECTOR).like(328, WITH_FLAGS),
    op(62, "io_uring:PIPE", DESC, REAL, Ret::Int, MAKES_PIPE).gives(Gives::Pipe).like(293, FIRST_TWO).with_places(&or_place(2, Ret::Int, MAKES_PIPE)),
    raw(63, "io_uring:NOP128", IGNORED),
    op(64, "io_uring:URING_CMD128", DESC, LEFT_OUT, Ret::Int, COMMANDS).does(Act::MoveUnseen),
    raw(LATER, "io_uring:UNKNOWN", LEFT_OUT).does(Act::MoveUnseen),
];

/// One more than the highest opcode.
const OPCODES: usize = 65;

/// Stands for operations that this version does not know.
const LATER: u16 = 127;
/// Number of such an operation.
pub const UNKNOWN_NR: u16 = OPERATIONS_FIRST + LATER;

/// How they are read.
pub static UNKNOWN: Request =
    Request { nr: UNKNOWN_NR, takes: [Address, Nothing, Nothing, Nothing, Nothing, Nothing] };

const ADDRESS: Take = Field { at: 16, bytes: 8 };
const OFFSET: Take = Field { at: 8, bytes: 8 };
const LENGTH: Take = Field { at: 24, bytes: 4 };
const OP_FLAGS: Take = Field { at: 28, bytes: 4 };
const PRIORITY: Take = Field { at: 2, bytes: 2 };
const GROUP: Take = Field { at: 40, bytes: 2 };
/// A place in the table of the ring.
pub const FILE_INDEX: Take = Field { at: 44, bytes: 4 };
const THIRD_ADDRESS: Take = Field { at: 48, bytes: 8 };
/// A directory, which is never one of the ring's files; or some other number in its place.
const DIRECTORY: Take = Field { at: 4, bytes: 4 };

/// How entries of the submission queue are read, by opcode.
pub static RING: [Request; OPCODES] = {
    const NO: Take = Nothing;
    const TRANSFER: [Take; 6] = [Descriptor, ADDRESS, LENGTH, OFFSET, OP_FLAGS, Address];
    const SENT: [Take; 6] = [Descriptor, ADDRESS, LENGTH, OP_FLAGS, PRIORITY, Address];
    const MESSAGES: [Take; 6] = [Descriptor, ADDRESS, OP_FLAGS, PRIORITY, Address, NO];
    const RAW: [Take; 6] = [Address, NO, NO, NO, NO, NO];
    const TWO_PATHS: [Take; 6] = [DIRECTORY, ADDRESS, LENGTH, OFFSET, OP_FLAGS, Address];
    const RANGE: [Take; 6] = [Descriptor, OFFSET, LENGTH, OP_FLAGS, Address, NO];
    const NAMED: [Take; 6] = [Descriptor, ADDRESS, OFFSET, Address, NO, NO];
    const COMMAND: [Take; 6] =
        [Descriptor, Field { at: 8, bytes: 4 }, Rest, RestBytes, Address, NO];
    const WORD: [Take; 6] = [ADDRESS, OFFSET, THIRD_ADDRESS, DIRECTORY, Address, NO];
    const OF_FILE: [Take; 6] = [Descriptor, ADDRESS, OFFSET, LENGTH, OP_FLAGS, Address];
    const OF_PATH: [Take; 6] = [THIRD_ADDRESS, ADDRESS, OFFSET, LENGTH, OP_FLAGS, Address];
    let mut all = [Request { nr: 0, takes: RAW }; OPCODES];
    let mut opcode = 0;
    while opcode < OPCODES {
        all[opcode].nr = OPERATIONS_FIRST + opcode as u16;
        all[opcode].takes = match opcode {
            1 | 2 | 4 | 5 | 22 | 23 | 60 | 61 => TRANSFER,
            3 => [Descriptor, OP_FLAGS, Address, NO, NO, NO],
            6 => [Descriptor, OP_FLAGS, LENGTH, Address, NO, NO],
            7 => [ADDRESS, LENGTH, OFFSET, OP_FLAGS, Address, NO],
            8 | 24 => RANGE,
            9 | 10 | 48 => MESSAGES,
            11 => [ADDRESS, OFFSET, OP_FLAGS, Address, NO, NO],
            12 => [ADDRESS, OFFSET, OP_FLAGS, Address, NO, NO],
            13 => [Descriptor, ADDRESS, OFFSET, OP_FLAGS, FILE_INDEX, Address],
            14 => [Descriptor, ADDRESS, LENGTH, OP_FLAGS, Address, NO],
            15 => [ADDRESS, OP_FLAGS, Address, NO, NO, NO],
            16 | 56 => NAMED,
            17 => [Descriptor, LENGTH, OFFSET, ADDRESS, Address, NO],
            18 => [DIRECTORY, ADDRESS, OP_FLAGS, LENGTH, FILE_INDEX, Address],
            19 => [DIRECTORY, FILE_INDEX, Address, NO, NO, NO],
            20 => [ADDRESS, LENGTH, OFFSET, Address, NO, NO],
            21 => [DIRECTORY, ADDRESS, OP_FLAGS, LENGTH, OFFSET, Address],
            25 => [ADDRESS, LENGTH, OP_FLAGS, Address, NO, NO],
            26 | 27 | 47 => SENT,
            28 => [DIRECTORY, ADDRESS, OFFSET, LENGTH, FILE_INDEX, Address],
            29 => [Descriptor, LENGTH, OFFSET, ADDRESS, Address, NO],
            30 => [SourceDescriptor, ADDRESS, Descriptor, OFFSET, LENGTH, Address],
            31 => [ADDRESS, LENGTH, DIRECTORY, OFFSET, GROUP, Address],
            32 => [DIRECTORY, GROUP, Address, NO, NO, NO],
            33 => [SourceDescriptor, Descriptor, LENGTH, OP_FLAGS, Address, NO],
            34 | 57 => [Descriptor, LENGTH, Address, NO, NO, NO],
            35 | 39 => TWO_PATHS,
            36 => [DIRECTORY, ADDRESS, OP_FLAGS, Address, NO, NO],
            37 => [DIRECTORY, ADDRESS, LENGTH, Address, NO, NO],
            38 => [ADDRESS, DIRECTORY, OFFSET, Address, NO, NO],
            40 => [Descriptor, ADDRESS, LENGTH, OFFSET, OP_FLAGS, Address],
            41 => OF_FILE,
            42 => OF_PATH,
            43 => [Descriptor, ADDRESS, OFFSET, LENGTH, Address, NO],
            44 => [THIRD_ADDRESS, ADDRESS, OFFSET, LENGTH, Address, NO],
            45 => [DIRECTORY, OFFSET, LENGTH, OP_FLAGS, FILE_INDEX, Address],
            46 | 64 => COMMAND,
            49 => [Descriptor, ADDRESS, LENGTH, Address, NO, NO],
            50 => [LENGTH, DIRECTORY, OFFSET, FILE_INDEX, Address, NO],
            51 | 52 => WORD,
            53 => [ADDRESS, LENGTH, Address, NO, NO, NO],
            54 => [DIRECTORY, OP_FLAGS, Address, NO, NO, NO],
            55 => [Descriptor, OFFSET, Address, NO, NO, NO],
            58 => [Descriptor, LENGTH, PRIORITY, FILE_INDEX, Address, NO],
            59 => [Descriptor, ADDRESS, LENGTH, Address, NO, NO],
            62 => [ADDRESS, OP_FLAGS, FILE_INDEX, Address, NO, NO],
            _ => RAW,
        };
        opcode += 1;
    }
    all
};
