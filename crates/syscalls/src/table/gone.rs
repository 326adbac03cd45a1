//! Numbers whose calls were removed, or were only ever reserved: they fail with ENOSYS.

use super::words::*;
use crate::shape::{Ret, Syscall};

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    call(134, "uselib", FILE, SIMULATED, Ret::Int, &[path("library")]),
    call(156, "_sysctl", NONE, SIMULATED, Ret::Int, &[addr("args")]),
    call(174, "create_module", MEMORY, SIMULATED, Ret::Address, &[text("name"), size("size")]),
    call(177, "get_kernel_syms", NONE, SIMULATED, Ret::Int, &[addr("table")]),
    call(178, "query_module", NONE, SIMULATED, Ret::Int, &[text("name"), int("which"), addr("buf"), size("bufsize"), addr("ret")]),
    call(180, "nfsservctl", NONE, SIMULATED, Ret::Int, &[int("cmd"), addr("argp"), addr("resp")]),
    call(181, "getpmsg", NETWORK, SIMULATED, Ret::Int, &[hex("arg1"), hex("arg2"), hex("arg3"), hex("arg4"), hex("arg5")]),
    call(182, "putpmsg", NETWORK, SIMULATED, Ret::Int, &[hex("arg1"), hex("arg2"), hex("arg3"), hex("arg4"), hex("arg5")]),
    call(183, "afs_syscall", NONE, SIMULATED, Ret::Int, &[hex("arg1"), hex("arg2"), hex("arg3"), hex("arg4"), hex("arg5")]),
    call(184, "tuxcall", NONE, SIMULATED, Ret::Int, &[hex("arg1"), hex("arg2"), hex("arg3")]),
    call(185, "security", NONE, SIMULATED, Ret::Int, &[hex("arg1"), hex("arg2"), hex("arg3")]),
    call(212, "lookup_dcookie", NONE, SIMULATED, Ret::Size, &[hex("cookie"), addr("buffer"), size("len")]),
    call(236, "vserver", NONE, SIMULATED, Ret::Int, &[hex("arg1"), hex("arg2"), hex("arg3"), hex("arg4"), hex("arg5")]),
];
