//! Operations of io_uring: the arguments are those of the call that does the same, and last the
//! entry of the submission queue. Those without such a call have the entry alone.

use super::words::*;
use crate::act::Act;
use crate::flags as f;
use crate::layout as l;
use crate::operations::Take::{self, Address, Descriptor, Field, Nothing};
use crate::operations::{NOTHING, OPERATIONS_FIRST, Request};
use crate::shape::Len::{Arg as ByArg, ArgTimes, Fixed, Ret as Result, RetAtMost};
use crate::shape::Of::{Bytes, Iovec, Msghdr, Sockaddr};
use crate::shape::{Arg, Classes, Gives, OpenFlags, Replay, Ret, Syscall, Variant};

const ENTRY: Arg = in_struct("sqe", &l::IO_URING_SQE);
const FLAGS: Arg = bits("flags", &f::RWF);
const MESSAGE: Arg = bits("flags", &f::MSG);
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
const SENDS: &[Arg] = &[target("sockfd"), input("buf", Bytes, ByArg(2)), count("len"), MESSAGE, ENTRY];
#[rustfmt::skip]
const RECEIVES: &[Arg] = &[source("sockfd"), output("buf", Bytes, RetAtMost(2, 1)), count("len"), MESSAGE, ENTRY];
#[rustfmt::skip]
const SENDS_MESSAGE: &[Arg] = &[target("sockfd"), input("msg", Msghdr, Fixed(56)), MESSAGE, ENTRY];
#[rustfmt::skip]
const RECEIVES_MESSAGE: &[Arg] = &[source("sockfd"), output("msg", Msghdr, Fixed(56)), MESSAGE, ENTRY];
#[rustfmt::skip]
const OPENS: &[Arg] = &[dirfd("dirfd"), path("pathname"), bits("flags", &f::OPEN), mode("mode"), PLACE, ENTRY];
#[rustfmt::skip]
const OPENS_HOW: &[Arg] = &[
    dirfd("dirfd"), path("pathname"), in_sized("how", &l::OPEN_HOW, ByArg(3)), size("size"), PLACE, ENTRY];
#[rustfmt::skip]
const ACCEPTS: &[Arg] = &[fd("sockfd"), addr("addr"), addr("addrlen"), bits("flags", &f::SOCK_CREATED), PLACE, ENTRY];
#[rustfmt::skip]
const MAKES_SOCKET: &[Arg] = &[one("domain", &f::AF), hex("type"), int("protocol"), hex("flags"), PLACE, ENTRY];
#[rustfmt::skip]
const CLOSES: &[Arg] = &[fd("fd"), PLACE, ENTRY];

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    raw(0, "io_uring:NOP", IGNORED),
    op(1, "io_uring:READV", DESC.or(READ), REAL, Ret::Size, READS_VECTOR).like(327, WITH_FLAGS),
    op(2, "io_uring:WRITEV", DESC.or(WRITE), REAL, Ret::Size, WRITES_VECTOR).like(328, WITH_FLAGS),
    op(3, "io_uring:FSYNC", DESC.or(SYNC), REAL, Ret::Int, &[fd("fd"), uint("flags"), ENTRY]).does(Act::SyncFile).like(74, FILE_ALONE),
    op(4, "io_uring:READ_FIXED", DESC.or(READ), REAL, Ret::Size, READS).like(17, FIRST_FOUR).at_own_offset(0),
    op(5, "io_uring:WRITE_FIXED", DESC.or(WRITE), REAL, Ret::Size, WRITES).like(18, FIRST_FOUR).at_own_offset(1),
    op(6, "io_uring:POLL_ADD", DESC.or(WAIT), IGNORED, Ret::Hex, &[fd("fd"), bits("events", &f::POLL), ENTRY]),
    raw(7, "io_uring:POLL_REMOVE", IGNORED),
    op(8, "io_uring:SYNC_FILE_RANGE", DESC.or(SYNC), REAL, Ret::Int, &[
        fd("fd"), off("offset"), off("nbytes"), bits("flags", &f::SYNC_FILE_RANGE), ENTRY]).like(277, FIRST_FOUR),
    op(9, "io_uring:SENDMSG", NETWORK.or(WRITE), REAL, Ret::Size, SENDS_MESSAGE).like(46, FIRST_THREE),
    op(10, "io_uring:RECVMSG", NETWORK.or(READ), REAL, Ret::Size, RECEIVES_MESSAGE).like(47, FIRST_THREE),
    op(11, "io_uring:TIMEOUT", WAIT, IGNORED, Ret::Int, &[in_struct("timeout", &l::TIMESPEC), ENTRY]),
    raw(12, "io_uring:TIMEOUT_REMOVE", IGNORED),
    op(13, "io_uring:ACCEPT", NETWORK, SIMULATED, Ret::Fd, ACCEPTS).gives(Gives::Connection).with_places(&or_place(4, Ret::Fd, ACCEPTS)),
    raw(14, "io_uring:ASYNC_CANCEL", IGNORED),
    op(15, "io_uring:LINK_TIMEOUT", WAIT, IGNORED, Ret::Int, &[in_struct("timeout", &l::TIMESPEC), ENTRY]),
    op(16, "io_uring:CONNECT", NETWORK, SIMULATED, Ret::Int, &[
        fd("sockfd"), input("addr", Sockaddr, ByArg(2)), int("addrlen"), ENTRY]).does(Act::Connect),
    op(17, "io_uring:FALLOCATE", DESC.or(CHANGE), REAL, Ret::Int, &[
        fd("fd"), bits("mode", &f::FALLOCATE), off("offset"), off("len"), ENTRY]).does(Act::Allocate).like(285, FIRST_FOUR),
    op(18, "io_uring:OPENAT", FILE.or(DESC), REAL, Ret::Fd, OPENS).opens(OpenFlags::Arg(2)).like(257, FIRST_FOUR).with_places(&or_place(4, Ret::Fd, OPENS)),
    op(19, "io_uring:CLOSE", DESC, NUMBERS, Ret::Int, CLOSES).does(Act::Close).like(3, FILE_ALONE).with_places(&or_place(1, Ret::Int, CLOSES)),
    raw(20, "io_uring:FILES_UPDATE", IGNORED),
    op(21, "io_uring:STATX", FILE.or(DESC).or(STAT), REAL, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), bits("flags", &f::AT_STATX), bits("mask", &f::STATX), out_struct("statxbuf", &l::STATX), ENTRY]).like(332, FIRST_FIVE),
    op(22, "io_uring:READ", DESC.or(READ), REAL, Ret::Size, READS).like(17, FIRST_FOUR).at_own_offset(0),
    op(23, "io_uring:WRITE", DESC.or(WRITE), REAL, Ret::Size, WRITES).like(18, FIRST_FOUR).at_own_offset(1),
    op(24, "io_uring:FADVISE", DESC, REAL, Ret::Int, &[fd("fd"), off("offset"), size("len"), one("advice", &f::FADVISE), ENTRY]).like(221, FIRST_FOUR),
    raw(25, "io_uring:MADVISE", IGNORED),
    op(26, "io_uring:SEND", NETWORK.or(WRITE), REAL, Ret::Size, SENDS).like(44, FIRST_FOUR),
    op(27, "io_uring:RECV", NETWORK.or(READ), REAL, Ret::Size, RECEIVES).like(45, FIRST_FOUR),
    op(28, "io_uring:OPENAT2", FILE.or(DESC), REAL, Ret::Fd, OPENS_HOW)
        .opens(OpenFlags::Struct { arg: 2, at: 0, resolve_at: 16 }).like(437, FIRST_FOUR).with_places(&or_place(4, Ret::Fd, OPENS_HOW)),
    raw(29, "io_uring:EPOLL_CTL", IGNORED),
    raw(30, "io_uring:SPLICE", LEFT_OUT).does(Act::MoveUnseen),
    raw(31, "io_uring:PROVIDE_BUFFERS", IGNORED),
    raw(32, "io_uring:REMOVE_BUFFERS", IGNORED),
    raw(33, "io_uring:TEE", LEFT_OUT),
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
    raw(40, "io_uring:MSG_RING", IGNORED),
    raw(41, "io_uring:FSETXATTR", LEFT_OUT).does(Act::MoveUnseen),
    raw(42, "io_uring:SETXATTR", LEFT_OUT).does(Act::MoveUnseen),
    raw(43, "io_uring:FGETXATTR", IGNORED).does(Act::MoveUnseen),
    raw(44, "io_uring:GETXATTR", IGNORED).does(Act::MoveUnseen),
    op(45, "io_uring:SOCKET", NETWORK, SIMULATED, Ret::Fd, MAKES_SOCKET).gives(Gives::Socket).with_places(&or_place(4, Ret::Fd, MAKES_SOCKET)),
    raw(46, "io_uring:URING_CMD", LEFT_OUT).does(Act::MoveUnseen),
    op(47, "io_uring:SEND_ZC", NETWORK.or(WRITE), REAL, Ret::Size, SENDS).like(44, FIRST_FOUR).does(Act::LendMemory),
    op(48, "io_uring:SENDMSG_ZC", NETWORK.or(WRITE), REAL, Ret::Size, SENDS_MESSAGE).like(46, FIRST_THREE).does(Act::LendMemory),
    raw(49, "io_uring:READ_MULTISHOT", LEFT_OUT).does(Act::MoveUnseen),
    raw(50, "io_uring:WAITID", IGNORED),
    raw(51, "io_uring:FUTEX_WAIT", IGNORED),
    raw(52, "io_uring:FUTEX_WAKE", IGNORED),
    raw(53, "io_uring:FUTEX_WAITV", IGNORED),
    op(54, "io_uring:FIXED_FD_INSTALL", DESC, SIMULATED, Ret::Fd, &[ENTRY]).gives(Gives::Unnamed),
    op(55, "io_uring:FTRUNCATE", DESC.or(CHANGE), REAL, Ret::Int, &[fd("fd"), length("length"), ENTRY]).does(Act::Truncate).like(77, FIRST_TWO),
    raw(56, "io_uring:BIND", LEFT_OUT),
    raw(57, "io_uring:LISTEN", IGNORED),
    raw(58, "io_uring:RECV_ZC", LEFT_OUT).does(Act::MoveUnseen),
    raw(59, "io_uring:EPOLL_WAIT", IGNORED),
    op(60, "io_uring:READV_FIXED", DESC.or(READ), REAL, Ret::Size, READS_VECTOR).like(327, WITH_FLAGS),
    op(61, "io_uring:WRITEV_FIXED", DESC.or(WRITE), REAL, Ret::Size, WRITES_VECTOR).like(328, WITH_FLAGS),
    raw(62, "io_uring:PIPE", LEFT_OUT),
    raw(63, "io_uring:NOP128", IGNORED),
    raw(64, "io_uring:URING_CMD128", LEFT_OUT).does(Act::MoveUnseen),
    raw(LATER, "io_uring:UNKNOWN", LEFT_OUT).does(Act::MoveUnseen),
];

/// One more than the highest opcode.
const OPCODES: usize = 65;

/// Stands for operations that this version does not know.
const LATER: u16 = 127;

/// How they are read.
pub static UNKNOWN: Request = Request {
    nr: OPERATIONS_FIRST + LATER,
    takes: [Address, Nothing, Nothing, Nothing, Nothing, Nothing],
};

const ADDRESS: Take = Field { at: 16, bytes: 8 };
const OFFSET: Take = Field { at: 8, bytes: 8 };
const LENGTH: Take = Field { at: 24, bytes: 4 };
const OP_FLAGS: Take = Field { at: 28, bytes: 4 };
/// A place in the table of the ring.
pub const FILE_INDEX: Take = Field { at: 44, bytes: 4 };
/// A directory, which is never one of the ring's files.
const DIRECTORY: Take = Field { at: 4, bytes: 4 };

/// How entries of the submission queue are read, by opcode.
pub static RING: [Request; OPCODES] = {
    const TRANSFER: [Take; 6] = [Descriptor, ADDRESS, LENGTH, OFFSET, OP_FLAGS, Address];
    const SENT: [Take; 6] = [Descriptor, ADDRESS, LENGTH, OP_FLAGS, Address, Nothing];
    const MESSAGES: [Take; 6] = [Descriptor, ADDRESS, OP_FLAGS, Address, Nothing, Nothing];
    const RAW: [Take; 6] = [Address, Nothing, Nothing, Nothing, Nothing, Nothing];
    const TIMED: [Take; 6] = [ADDRESS, Address, Nothing, Nothing, Nothing, Nothing];
    const TWO_PATHS: [Take; 6] = [DIRECTORY, ADDRESS, LENGTH, OFFSET, OP_FLAGS, Address];
    const RANGE: [Take; 6] = [Descriptor, OFFSET, LENGTH, OP_FLAGS, Address, Nothing];
    let mut all = [Request { nr: 0, takes: RAW }; OPCODES];
    let mut opcode = 0;
    while opcode < OPCODES {
        all[opcode].nr = OPERATIONS_FIRST + opcode as u16;
        all[opcode].takes = match opcode {
            1 | 2 | 4 | 5 | 22 | 23 | 60 | 61 => TRANSFER,
            3 | 6 => [Descriptor, OP_FLAGS, Address, Nothing, Nothing, Nothing],
            8 | 24 => RANGE,
            9 | 10 | 48 => MESSAGES,
            11 | 15 => TIMED,
            13 => [Descriptor, ADDRESS, OFFSET, OP_FLAGS, FILE_INDEX, Address],
            16 => [Descriptor, ADDRESS, OFFSET, Address, Nothing, Nothing],
            17 => [Descriptor, LENGTH, OFFSET, ADDRESS, Address, Nothing],
            18 => [DIRECTORY, ADDRESS, OP_FLAGS, LENGTH, FILE_INDEX, Address],
            19 => [DIRECTORY, FILE_INDEX, Address, Nothing, Nothing, Nothing],
            21 => [DIRECTORY, ADDRESS, OP_FLAGS, LENGTH, OFFSET, Address],
            26 | 27 | 47 => SENT,
            28 => [DIRECTORY, ADDRESS, OFFSET, LENGTH, FILE_INDEX, Address],
            34 => [Descriptor, LENGTH, Address, Nothing, Nothing, Nothing],
            35 | 39 => TWO_PATHS,
            36 => [DIRECTORY, ADDRESS, OP_FLAGS, Address, Nothing, Nothing],
            37 => [DIRECTORY, ADDRESS, LENGTH, Address, Nothing, Nothing],
            38 => [ADDRESS, DIRECTORY, OFFSET, Address, Nothing, Nothing],
            45 => [DIRECTORY, OFFSET, LENGTH, OP_FLAGS, FILE_INDEX, Address],
            55 => [Descriptor, OFFSET, Address, Nothing, Nothing, Nothing],
            _ => RAW,
        };
        opcode += 1;
    }
    all
};
