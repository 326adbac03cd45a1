//! Operations of Linux AIO: the arguments are those of the call that does the same at once, and last
//! the control block.

use super::words::*;
use crate::act::Act;
use crate::flags as f;
use crate::layout as l;
use crate::operations::Take::{Address, Field, Nothing};
use crate::operations::{AIO_FIRST, NOTHING, Request, Take};
use crate::shape::Len::{Arg as ByArg, ArgTimes, Ret as Result};
use crate::shape::Of::{Bytes, Iovec};
use crate::shape::{Arg, Ret, Syscall};

/// One more than the highest opcode.
const AIO_OPCODES: usize = 9;

const BLOCK: Arg = in_struct("iocb", &l::IOCB);
const FLAGS: Arg = bits("flags", &f::RWF);

const FIRST_FOUR: [u8; 6] = [0, 1, 2, 3, NOTHING, NOTHING];
const FILE_ALONE: [u8; 6] = [0, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING];
/// preadv2 and pwritev2 have the offset in two halves.
const WITH_FLAGS: [u8; 6] = [0, 1, 2, 3, NOTHING, 4];

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    call(AIO_FIRST, "aio:PREAD", DESC.or(READ), REAL, Ret::Size, &[
        source("fd"), output("buf", Bytes, Result), count("count"), source_at("offset"), FLAGS, BLOCK]).of_aio().like(17, FIRST_FOUR),
    call(AIO_FIRST + 1, "aio:PWRITE", DESC.or(WRITE), REAL, Ret::Size, &[
        target("fd"), input("buf", Bytes, ByArg(2)), count("count"), target_at("offset"), FLAGS, BLOCK]).of_aio().like(18, FIRST_FOUR),
    call(AIO_FIRST + 2, "aio:FSYNC", DESC.or(SYNC), REAL, Ret::Int, &[fd("fd"), BLOCK]).does(Act::SyncFile).of_aio().like(74, FILE_ALONE),
    call(AIO_FIRST + 3, "aio:FDSYNC", DESC.or(SYNC), REAL, Ret::Int, &[fd("fd"), BLOCK]).does(Act::SyncData).of_aio().like(75, FILE_ALONE),
    call(AIO_FIRST + 5, "aio:POLL", DESC.or(WAIT), IGNORED, Ret::Hex, &[fd("fd"), bits("events", &f::POLL), BLOCK]).of_aio(),
    call(AIO_FIRST + 6, "aio:NOOP", NONE, IGNORED, Ret::Int, &[BLOCK]).of_aio(),
    call(AIO_FIRST + 7, "aio:PREADV", DESC.or(READ), REAL, Ret::Size, &[
        source("fd"), output("iov", Iovec, ArgTimes(2, 16)), ulong("iovcnt"), source_at("offset"), FLAGS, BLOCK]).of_aio().like(327, WITH_FLAGS),
    call(AIO_FIRST + 8, "aio:PWRITEV", DESC.or(WRITE), REAL, Ret::Size, &[
        target("fd"), input("iov", Iovec, ArgTimes(2, 16)), ulong("iovcnt"), target_at("offset"), FLAGS, BLOCK]).of_aio().like(328, WITH_FLAGS),
];

const FD: Take = Field { at: 20, bytes: 4 };
const BUF: Take = Field { at: 24, bytes: 8 };
const COUNT: Take = Field { at: 32, bytes: 8 };
const OFFSET: Take = Field { at: 40, bytes: 8 };
const RW_FLAGS: Take = Field { at: 12, bytes: 4 };

/// How control blocks are read, by opcode.
pub static AIO: [Option<Request>; AIO_OPCODES] = {
    const fn request(opcode: u16, takes: [Take; 6]) -> Option<Request> {
        Some(Request { nr: AIO_FIRST + opcode, takes })
    }
    const TRANSFER: [Take; 6] = [FD, BUF, COUNT, OFFSET, RW_FLAGS, Address];
    const FILE: [Take; 6] = [FD, Address, Nothing, Nothing, Nothing, Nothing];
    [
        request(0, TRANSFER),
        request(1, TRANSFER),
        request(2, FILE),
        request(3, FILE),
        None,
        request(5, [FD, BUF, Address, Nothing, Nothing, Nothing]),
        request(6, [Address, Nothing, Nothing, Nothing, Nothing, Nothing]),
        request(7, TRANSFER),
        request(8, TRANSFER),
    ]
};
