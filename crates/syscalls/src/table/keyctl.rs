//! Variants of keyctl.

use super::words::*;
use crate::flags as f;
use crate::shape::Len::{Arg as ByArg, ArgTimes, RetAtMost};
use crate::shape::Of::{Bytes, Iovec, Text};
use crate::shape::{Arg, Ret, Variant};

const fn op(number: u64, ret: Ret, args: &'static [Arg]) -> Variant {
    when(0, number, ret, args)
}

const OP: Arg = one("operation", &f::KEYCTL);

/// Variants by operation.
#[rustfmt::skip]
pub static VARIANTS: &[Variant] = &[
    op(0, Ret::Int, &[OP, one("key", &f::KEYRING), int("create")]),
    op(1, Ret::Int, &[OP, text("name")]),
    op(2, Ret::Int, &[OP, one("key", &f::KEYRING), input("payload", Bytes, ByArg(3)), size("plen")]),
    op(3, Ret::Int, &[OP, one("key", &f::KEYRING)]),
    op(4, Ret::Int, &[OP, one("key", &f::KEYRING), uid("uid"), gid("gid")]),
    op(5, Ret::Int, &[OP, one("key", &f::KEYRING), bits("perm", &f::KEY_PERM)]),
    op(6, Ret::Size, &[OP, one("key", &f::KEYRING), output("buffer", Text, RetAtMost(3, 1)), size("buflen")]),
    op(7, Ret::Int, &[OP, one("keyring", &f::KEYRING)]),
    op(8, Ret::Int, &[OP, one("key", &f::KEYRING), one("keyring", &f::KEYRING)]),
    op(9, Ret::Int, &[OP, one("key", &f::KEYRING), one("keyring", &f::KEYRING)]),
    op(10, Ret::Int, &[
        OP, one("keyring", &f::KEYRING), text("type"), text("description"), one("dest_keyring", &f::KEYRING)]),
    op(11, Ret::Size, &[OP, one("key", &f::KEYRING), output("buffer", Bytes, RetAtMost(3, 1)), size("buflen")]),
    op(12, Ret::Int, &[
        OP, one("key", &f::KEYRING), input("payload", Bytes, ByArg(3)), size("plen"), one("keyring", &f::KEYRING)]),
    op(13, Ret::Int, &[OP, one("key", &f::KEYRING), uint("timeout"), one("keyring", &f::KEYRING)]),
    op(14, Ret::Int, &[OP, one("keyring", &f::KEYRING)]),
    op(15, Ret::Int, &[OP, one("key", &f::KEYRING), uint("timeout")]),
    op(16, Ret::Int, &[OP, one("key", &f::KEYRING)]),
    op(17, Ret::Size, &[OP, one("key", &f::KEYRING), output("buffer", Text, RetAtMost(3, 1)), size("buflen")]),
    op(18, Ret::Int, &[OP]),
    op(19, Ret::Int, &[
        OP, one("key", &f::KEYRING), uint("timeout"), int("error"), one("keyring", &f::KEYRING)]),
    op(20, Ret::Int, &[
        OP, one("key", &f::KEYRING), input("payload_iov", Iovec, ArgTimes(3, 16)), uint("ioc"),
        one("keyring", &f::KEYRING)]),
    op(21, Ret::Int, &[OP, one("key", &f::KEYRING)]),
    op(22, Ret::Int, &[OP, uid("uid"), one("keyring", &f::KEYRING)]),
    op(23, Ret::Size, &[OP, addr("params"), addr("buffer"), size("buflen"), addr("kdf_params")]),
    op(29, Ret::Int, &[OP, one("keyring", &f::KEYRING), text("type"), text("restriction")]),
    op(30, Ret::Int, &[
        OP, one("key", &f::KEYRING), one("from_keyring", &f::KEYRING), one("to_keyring", &f::KEYRING), hex("flags")]),
    op(31, Ret::Size, &[OP, output("buffer", Bytes, RetAtMost(2, 1)), size("buflen")]),
];
