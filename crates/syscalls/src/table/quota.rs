//! Variants of quotactl and quotactl_fd, by command; the type of quota in the low byte is ignored.

use super::words::*;
use crate::flags as f;
use crate::layout as l;
use crate::shape::Len::Fixed;
use crate::shape::Of::U32;
use crate::shape::{Arg, Ret, Variant};

const SYNC: u64 = 0x800001;
const ON: u64 = 0x800002;
const OFF: u64 = 0x800003;
const GET_FORMAT: u64 = 0x800004;
const GET_INFO: u64 = 0x800005;
const SET_INFO: u64 = 0x800006;
const GET: u64 = 0x800007;
const SET: u64 = 0x800008;
const GET_NEXT: u64 = 0x800009;

const fn by_path(command: u64, args: &'static [Arg]) -> Variant {
    when_field(0, 0xffff_ff00, command << 8 & 0xffff_ff00, Ret::Int, args)
}

const fn by_fd(command: u64, args: &'static [Arg]) -> Variant {
    when_field(1, 0xffff_ff00, command << 8 & 0xffff_ff00, Ret::Int, args)
}

const OP: Arg = one("op", &f::QUOTACTL);

/// Variants of quotactl.
#[rustfmt::skip]
pub static BY_PATH: &[Variant] = &[
    by_path(SYNC, &[OP, path("special")]),
    by_path(ON, &[OP, path("special"), int("id"), path("addr")]),
    by_path(OFF, &[OP, path("special")]),
    by_path(GET_FORMAT, &[OP, path("special"), int("id"), output("addr", U32, Fixed(4))]),
    by_path(GET_INFO, &[OP, path("special"), int("id"), out_struct("addr", &l::DQINFO)]),
    by_path(SET_INFO, &[OP, path("special"), int("id"), in_struct("addr", &l::DQINFO)]),
    by_path(GET, &[OP, path("special"), int("id"), out_struct("addr", &l::DQBLK)]),
    by_path(SET, &[OP, path("special"), int("id"), in_struct("addr", &l::DQBLK)]),
    by_path(GET_NEXT, &[OP, path("special"), int("id"), out_struct("addr", &l::NEXTDQBLK)]),
];

/// Variants of quotactl_fd.
#[rustfmt::skip]
pub static BY_FD: &[Variant] = &[
    by_fd(SYNC, &[fd("fd"), OP]),
    by_fd(ON, &[fd("fd"), OP, int("id"), path("addr")]),
    by_fd(OFF, &[fd("fd"), OP]),
    by_fd(GET_FORMAT, &[fd("fd"), OP, int("id"), output("addr", U32, Fixed(4))]),
    by_fd(GET_INFO, &[fd("fd"), OP, int("id"), out_struct("addr", &l::DQINFO)]),
    by_fd(SET_INFO, &[fd("fd"), OP, int("id"), in_struct("addr", &l::DQINFO)]),
    by_fd(GET, &[fd("fd"), OP, int("id"), out_struct("addr", &l::DQBLK)]),
    by_fd(SET, &[fd("fd"), OP, int("id"), in_struct("addr", &l::DQBLK)]),
    by_fd(GET_NEXT, &[fd("fd"), OP, int("id"), out_struct("addr", &l::NEXTDQBLK)]),
];
