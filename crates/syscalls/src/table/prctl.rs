//! Variants of prctl.

use super::words::*;
use crate::flags as f;
use crate::layout as l;
use crate::shape::Len::{Arg as ByArg, Fixed};
use crate::shape::Of::{Bytes, I32, Text, U32, U64};
use crate::shape::{Arg, Ret, Variant};

const fn op(number: u64, args: &'static [Arg]) -> Variant {
    when(0, number, Ret::Int, args)
}

const OP: Arg = one("op", &f::PRCTL);
const BARE: &[Arg] = &[OP];
const NUMBER: &[Arg] = &[OP, ulong("value")];
const PLAIN: &[Arg] = &[OP, hex("arg2"), hex("arg3"), hex("arg4"), hex("arg5")];

/// An operation without arguments.
const fn bare(number: u64) -> Variant {
    op(number, BARE)
}

/// An operation that takes one number.
const fn number(number: u64) -> Variant {
    op(number, NUMBER)
}

/// An operation that takes up to four arguments without pointers.
const fn plain(number: u64) -> Variant {
    op(number, PLAIN)
}

/// Variants by operation.
#[rustfmt::skip]
pub static VARIANTS: &[Variant] = &[
    op(1, &[OP, sig("sig")]),
    op(2, &[OP, output("sig", I32, Fixed(4))]),
    bare(3),
    number(4),
    op(5, &[OP, output("value", U32, Fixed(4))]),
    op(6, &[OP, bits("value", &f::PR_UNALIGN)]),
    bare(7),
    number(8).replayed(REAL),
    op(9, &[OP, output("value", U32, Fixed(4))]),
    op(10, &[OP, hex("value")]),
    op(11, &[OP, output("value", U32, Fixed(4))]),
    op(12, &[OP, hex("value")]),
    bare(13),
    number(14),
    op(15, &[OP, text("name")]),
    op(16, &[OP, output("name", Text, Fixed(16))]),
    op(19, &[OP, output("value", U32, Fixed(4))]),
    op(20, &[OP, hex("value")]),
    bare(21),
    // In filter mode the third argument points to a program.
    when(0, 22, Ret::Int, &[OP, one("mode", &f::SECCOMP_MODE), in_holder("args", &l::FILTER)]),
    op(23, &[OP, one("cap", &f::CAP)]),
    op(24, &[OP, one("cap", &f::CAP)]),
    op(25, &[OP, output("value", U32, Fixed(4))]),
    op(26, &[OP, one("value", &f::PR_TSC)]).again(UNKNOWN),
    op(27, &[OP]),
    op(28, &[OP, bits("bits", &f::SECUREBITS)]),
    number(29),
    bare(30),
    bare(31),
    bare(32),
    op(33, &[OP, one("arg2", &f::PR_MCE), one("arg3", &f::PR_MCE_KILL), hex("arg4"), hex("arg5")]),
    op(34, &[OP, hex("arg2"), hex("arg3"), hex("arg4"), hex("arg5")]),
    op(35, &[OP, one("field", &f::PR_SET_MM), addr("addr"), hex("arg4"), hex("arg5")]).again(UNKNOWN),
    number(36),
    op(37, &[OP, output("value", I32, Fixed(4))]),
    plain(38),
    plain(39),
    op(40, &[OP, output("addr", U64, Fixed(8))]),
    plain(41),
    plain(42),
    bare(43),
    bare(44),
    number(45),
    bare(46),
    op(47, &[OP, one("arg2", &f::PR_CAP_AMBIENT), one("cap", &f::CAP), hex("arg4"), hex("arg5")]),
    plain(50),
    bare(51),
    op(52, &[OP, one("which", &f::PR_SPEC), hex("arg3"), hex("arg4"), hex("arg5")]),
    op(53, &[OP, one("which", &f::PR_SPEC), bits("value", &f::PR_SPEC_VALUE), hex("arg4"), hex("arg5")]),
    plain(54),
    plain(55),
    plain(56),
    plain(57),
    plain(58),
    op(59, &[OP, one("mode", &f::PR_DISPATCH), hex("start"), hex("len"), addr("selector")]).again(UNKNOWN),
    plain(60),
    plain(61),
    // Only PR_SCHED_CORE_GET writes to the cookie.
    op(62, &[OP, one("arg2", &f::PR_SCHED_CORE), pid("pid"), one("type", &f::PR_SCHED_CORE_SCOPE), addr("cookie")]),
    plain(63),
    plain(64),
    number(65),
    bare(66),
    plain(67),
    bare(68),
    number(69),
    bare(70),
    plain(71),
    plain(72),
    plain(73),
    plain(74),
    plain(75),
    plain(76),
    plain(77),
    plain(78),
    op(0x53564d41, &[OP, one("attr", &f::PR_VMA), addr("addr"), size("size"), text("name")]),
    op(0x41555856, &[OP, output("auxv", Bytes, ByArg(2)), size("size"), hex("arg4"), hex("arg5")]),
    number(0x59616d61),
];
