//! Structs that point to other memory.

use super::{IFCONF_HEAD, IFREQ_ADDR, IOVEC, SIGSET, SOCK_FILTER, SOCK_FPROG, XATTR_ARGS};
use crate::shape::{Holder, Of, Pointer};

const fn pointer(at: u8, length_at: u8, length_bytes: u8, unit: u8) -> Pointer {
    Pointer { at, length_at, length_bytes, unit, at_most_ret: false }
}

/// Argument of setxattrat, with the value.
pub static XATTR_VALUE: Holder =
    Holder { layout: &XATTR_ARGS, pointer: pointer(0, 8, 4, 1), of: Of::Bytes };

/// Argument of getxattrat, with the value that it returns.
pub static XATTR_RESULT: Holder = Holder {
    layout: &XATTR_ARGS,
    pointer: Pointer { at_most_ret: true, ..pointer(0, 8, 4, 1) },
    of: Of::Bytes,
};

/// Set of signals for pselect6 and io_pgetevents.
pub static SIGSET_ARG: Holder =
    Holder { layout: &SIGSET, pointer: pointer(0, 8, 8, 1), of: Of::SigSet };

/// Filter program for seccomp.
pub static FILTER: Holder =
    Holder { layout: &SOCK_FPROG, pointer: pointer(8, 0, 2, 8), of: Of::Struct(&SOCK_FILTER) };

/// Set of registers for ptrace.
pub static REGSET: Holder = Holder { layout: &IOVEC, pointer: pointer(0, 8, 8, 1), of: Of::Bytes };

/// List of network devices for SIOCGIFCONF.
pub static IFCONF: Holder =
    Holder { layout: &IFCONF_HEAD, pointer: pointer(8, 0, 4, 1), of: Of::Struct(&IFREQ_ADDR) };
