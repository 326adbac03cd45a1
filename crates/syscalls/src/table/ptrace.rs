//! Variants of ptrace.

use super::words::*;
use crate::flags as f;
use crate::layout as l;
use crate::shape::Len::{Arg as ByArg, Fixed, RetAtMost, RetTimes};
use crate::shape::Of::{Bytes, SigSet, Siginfo, U64};
use crate::shape::{Arg, Ret, Variant};

const fn op(number: u64, args: &'static [Arg]) -> Variant {
    when(0, number, Ret::Int, args)
}

const OP: Arg = one("op", &f::PTRACE);
const BARE: &[Arg] = &[OP, pid("pid")];
const PEEK: &[Arg] = &[OP, pid("pid"), addr("addr"), output("data", U64, Fixed(8))];
const POKE: &[Arg] = &[OP, pid("pid"), addr("addr"), hex("data")];
const RESUME: &[Arg] = &[OP, pid("pid"), addr("addr"), sig("data")];

/// An operation that takes only a process.
const fn bare(number: u64) -> Variant {
    op(number, BARE)
}

/// An operation that reads one word of the process, to `data`.
const fn peek(number: u64) -> Variant {
    op(number, PEEK)
}

/// An operation that writes one word of the process.
const fn poke(number: u64) -> Variant {
    op(number, POKE)
}

/// An operation that resumes the process with a signal.
const fn resume(number: u64) -> Variant {
    op(number, RESUME)
}

/// Variants by operation.
#[rustfmt::skip]
pub static VARIANTS: &[Variant] = &[
    op(0, &[OP]),
    peek(1),
    peek(2),
    peek(3),
    poke(4),
    poke(5),
    poke(6),
    resume(7),
    bare(8),
    resume(9),
    op(12, &[OP, pid("pid"), addr("addr"), out_struct("data", &l::USER_REGS)]),
    op(13, &[OP, pid("pid"), addr("addr"), in_struct("data", &l::USER_REGS)]),
    op(14, &[OP, pid("pid"), addr("addr"), output("data", Bytes, Fixed(512))]),
    op(15, &[OP, pid("pid"), addr("addr"), input("data", Bytes, Fixed(512))]),
    bare(16),
    resume(17),
    resume(24),
    resume(31),
    resume(32),
    op(30, &[OP, pid("pid"), addr("addr"), addr("data")]),
    op(0x4200, &[OP, pid("pid"), addr("addr"), bits("data", &f::PTRACE_OPTIONS)]),
    op(0x4201, &[OP, pid("pid"), addr("addr"), output("data", U64, Fixed(8))]),
    op(0x4202, &[OP, pid("pid"), addr("addr"), output("data", Siginfo, Fixed(128))]),
    op(0x4203, &[OP, pid("pid"), addr("addr"), input("data", Siginfo, Fixed(128))]),
    op(0x4204, &[OP, pid("pid"), one("addr", &f::NT), out_holder("data", &l::REGSET)]),
    op(0x4205, &[OP, pid("pid"), one("addr", &f::NT), in_holder("data", &l::REGSET)]),
    op(0x4206, &[OP, pid("pid"), addr("addr"), bits("data", &f::PTRACE_OPTIONS)]),
    bare(0x4207),
    bare(0x4208),
    op(0x4209, &[OP, pid("pid"), in_struct("addr", &l::PTRACE_PEEKSIGINFO), output("data", Siginfo, RetTimes(128))]),
    op(0x420a, &[OP, pid("pid"), size("addr"), output("data", SigSet, ByArg(2))]),
    op(0x420b, &[OP, pid("pid"), size("addr"), input("data", SigSet, ByArg(2))]),
    op(0x420c, &[OP, pid("pid"), ulong("addr"), addr("data")]),
    op(0x420d, &[OP, pid("pid"), size("addr"), output("data", Bytes, ByArg(2))]),
    op(0x420e, &[OP, pid("pid"), size("addr"), output("data", Bytes, RetAtMost(2, 1))]),
    op(0x420f, &[OP, pid("pid"), size("addr"), output("data", Bytes, RetAtMost(2, 1))]),
    op(0x4210, &[OP, pid("pid"), size("addr"), input("data", Bytes, ByArg(2))]),
    op(0x4211, &[OP, pid("pid"), size("addr"), output("data", Bytes, ByArg(2))]),
    op(0x4212, &[OP, pid("pid"), size("addr"), input("data", Bytes, ByArg(2))]),
];
