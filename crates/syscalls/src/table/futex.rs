//! Variants of futex; the two flag bits above the operation are masked out.

use super::words::*;
use crate::act::Act;
use crate::flags as f;
use crate::layout as l;
use crate::shape::Len::Fixed;
use crate::shape::Of::U32;
use crate::shape::{Arg, Ret, Variant};

const fn op(number: u64, args: &'static [Arg]) -> Variant {
    when_field(1, 0x7f, number, Ret::Int, args)
}

const fn word(name: &'static str) -> Arg {
    input(name, U32, Fixed(4))
}

const OP: Arg = bits("futex_op", &f::FUTEX);

/// Variants by operation.
#[rustfmt::skip]
pub static VARIANTS: &[Variant] = &[
    op(0, &[word("uaddr"), OP, uint("val"), in_struct("timeout", &l::TIMESPEC)]).does(Act::WaitOnWord),
    op(1, &[word("uaddr"), OP, uint("val")]),
    op(9, &[word("uaddr"), OP, uint("val"), in_struct("timeout", &l::TIMESPEC), addr("uaddr2"), hex("val3")]).does(Act::WaitOnWord),
    op(10, &[word("uaddr"), OP, uint("val"), addr("timeout"), addr("uaddr2"), hex("val3")]),
    op(2, &[word("uaddr"), OP, uint("val")]),
    op(3, &[word("uaddr"), OP, uint("val"), uint("val2"), word("uaddr2")]),
    op(4, &[word("uaddr"), OP, uint("val"), uint("val2"), word("uaddr2"), uint("val3")]),
    op(5, &[word("uaddr"), OP, uint("val"), uint("val2"), inout("uaddr2", U32, Fixed(4)), hex("val3")]),
    op(6, &[inout("uaddr", U32, Fixed(4)), OP, uint("val"), in_struct("timeout", &l::TIMESPEC)]),
    op(7, &[inout("uaddr", U32, Fixed(4)), OP]),
    op(8, &[inout("uaddr", U32, Fixed(4)), OP]),
    op(11, &[
        word("uaddr"), OP, uint("val"), in_struct("timeout", &l::TIMESPEC), inout("uaddr2", U32, Fixed(4))]),
    op(12, &[word("uaddr"), OP, uint("val"), uint("val2"), inout("uaddr2", U32, Fixed(4)), uint("val3")]),
    op(13, &[inout("uaddr", U32, Fixed(4)), OP, uint("val"), in_struct("timeout", &l::TIMESPEC)]),
];
