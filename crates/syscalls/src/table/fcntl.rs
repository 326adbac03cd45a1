//! Variants of fcntl.

use super::words::*;
use crate::act::Act;
use crate::flags as f;
use crate::layout as l;
use crate::shape::Len::Fixed;
use crate::shape::Of::{U32, U64};
use crate::shape::{Arg, Ret, Variant};

const fn op(number: u64, ret: Ret, args: &'static [Arg]) -> Variant {
    when(1, number, ret, args)
}

const OP: Arg = one("op", &f::FCNTL);

/// Variants by operation.
#[rustfmt::skip]
pub static VARIANTS: &[Variant] = &[
    op(0, Ret::Fd, &[fd("fd"), OP, int("arg")]).replayed(NUMBERS).does(Act::Duplicate).beside(RENUMBERS),
    op(1, Ret::Hex, &[fd("fd"), OP]).replayed(NUMBERS),
    op(2, Ret::Int, &[fd("fd"), OP, bits("arg", &f::FD_FLAGS)]).replayed(NUMBERS).does(Act::SetDescriptorFlags).beside(BESIDE),
    op(3, Ret::Hex, &[fd("fd"), OP]),
    op(4, Ret::Int, &[fd("fd"), OP, bits("arg", &f::OPEN)]).does(Act::SetStatusFlags).beside(BESIDE),
    op(5, Ret::Int, &[fd("fd"), OP, inout_struct("lock", &l::FLOCK)]).does(Act::AskRecordLock),
    op(6, Ret::Int, &[fd("fd"), OP, in_struct("lock", &l::FLOCK)]).does(Act::RecordLock { waits: false }),
    op(7, Ret::Int, &[fd("fd"), OP, in_struct("lock", &l::FLOCK)]).does(Act::RecordLock { waits: true }),
    op(8, Ret::Int, &[fd("fd"), OP, pid("arg")]).replayed(SIMULATED),
    op(9, Ret::Pid, &[fd("fd"), OP]).replayed(SIMULATED),
    op(10, Ret::Int, &[fd("fd"), OP, sig("arg")]).replayed(SIMULATED),
    op(11, Ret::Int, &[fd("fd"), OP]).replayed(SIMULATED),
    op(15, Ret::Int, &[fd("fd"), OP, in_struct("owner", &l::F_OWNER_EX)]).replayed(SIMULATED),
    op(16, Ret::Int, &[fd("fd"), OP, out_struct("owner", &l::F_OWNER_EX)]).replayed(SIMULATED),
    op(17, Ret::Int, &[fd("fd"), OP, output("uids", U32, Fixed(8))]).replayed(SIMULATED),
    op(36, Ret::Int, &[fd("fd"), OP, inout_struct("lock", &l::FLOCK)]).does(Act::AskRecordLock),
    op(37, Ret::Int, &[fd("fd"), OP, in_struct("lock", &l::FLOCK)]).does(Act::RecordLock { waits: false }),
    op(38, Ret::Int, &[fd("fd"), OP, in_struct("lock", &l::FLOCK)]).does(Act::RecordLock { waits: true }),
    op(1024, Ret::Int, &[fd("fd"), OP, one("arg", &f::LEASE)]).replayed(SIMULATED),
    op(1025, Ret::Int, &[fd("fd"), OP]).replayed(SIMULATED),
    op(1026, Ret::Int, &[fd("fd"), OP, bits("arg", &f::DNOTIFY)]).replayed(SIMULATED),
    op(1027, Ret::Int, &[fd("fd"), OP, int("arg")]).replayed(SIMULATED),
    op(1028, Ret::Int, &[fd("fd"), OP]).replayed(SIMULATED),
    op(1029, Ret::Int, &[fd("fd"), OP]).replayed(SIMULATED),
    op(1030, Ret::Fd, &[fd("fd"), OP, int("arg")]).replayed(NUMBERS).does(Act::Duplicate).until_exec().beside(RENUMBERS),
    op(1031, Ret::Int, &[fd("fd"), OP, int("arg")]),
    op(1032, Ret::Int, &[fd("fd"), OP]).replayed(SIMULATED),
    op(1033, Ret::Int, &[fd("fd"), OP, bits("arg", &f::SEAL)]),
    op(1034, Ret::Hex, &[fd("fd"), OP]),
    op(1035, Ret::Int, &[fd("fd"), OP, output("hint", U64, Fixed(8))]).replayed(SIMULATED),
    op(1036, Ret::Int, &[fd("fd"), OP, input("hint", U64, Fixed(8))]).replayed(SIMULATED),
    op(1037, Ret::Int, &[fd("fd"), OP, output("hint", U64, Fixed(8))]).replayed(SIMULATED),
    op(1038, Ret::Int, &[fd("fd"), OP, input("hint", U64, Fixed(8))]).replayed(SIMULATED),
];
