//! Calls that map, protect and place memory.

use super::words::*;
use crate::act::Act;
use crate::flags as f;
use crate::handler::{Handler, Settled};
use crate::layout as l;
use crate::shape::Len::{Arg as ByArg, ArgTimes, BitsArg, Fixed, PagesArg, Ret as Result};
use crate::shape::Of::{Bits, Bytes, I32, Iovec, Struct, U64};
use crate::shape::{Arg, Gives, Ret, Syscall};

const MREMAP_FIXED: u64 = 2;
const MREMAP_DONTUNMAP: u64 = 4;

const ADVICE: &[Arg] = &[addr("addr"), size("length"), one("advice", &f::MADVISE)];
const ARCH: Arg = one("op", &f::ARCH);

// The kernel reads one bit less of a node mask than maxnode says. If maxnode is one above a
// multiple of 64, one word too many is captured, which does no harm.
/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    call(9, "mmap", MEMORY.or(DESC), IGNORED, Ret::Address, &[
        addr("addr"), size("length"), bits("prot", &f::PROT), bits("flags", &f::MAP), fd("fd"), hex("offset")]).does(Act::Map).handled(Handler::Map).again(PLACED),
    call(10, "mprotect", MEMORY, IN_MEMORY, Ret::Int, &[addr("addr"), size("len"), bits("prot", &f::PROT)]).does(Act::Protect).handled(Handler::Protect).again(MADE),
    call(11, "munmap", MEMORY, IGNORED, Ret::Int, &[addr("addr"), size("length")]).does(Act::Unmap).handled(Handler::Unmap).again(MADE),
    call(12, "brk", MEMORY, IGNORED, Ret::Address, &[addr("addr")]).again(REACHED),
    family(25, "mremap", MEMORY, IN_MEMORY, Ret::Address, &[
        addr("old_address"), size("old_size"), size("new_size"), bits("flags", &f::MREMAP), addr("new_address")], &[
        when_set(3, MREMAP_FIXED, Ret::Address, &[
            addr("old_address"), size("old_size"), size("new_size"), bits("flags", &f::MREMAP), addr("new_address")]),
        when_set(3, MREMAP_DONTUNMAP, Ret::Address, &[
            addr("old_address"), size("old_size"), size("new_size"), bits("flags", &f::MREMAP), addr("new_address")]),
        otherwise(Ret::Address, &[addr("old_address"), size("old_size"), size("new_size"), bits("flags", &f::MREMAP)]),
    ]).handled(Handler::Remap).again(PLACED),
    call(26, "msync", MEMORY.or(SYNC), IN_MEMORY, Ret::Int, &[addr("addr"), size("length"), bits("flags", &f::MSYNC)]).handled(Handler::Settle { of: Settled::Memory }),
    call(27, "mincore", MEMORY, IN_MEMORY, Ret::Int, &[addr("addr"), size("length"), output("vec", Bytes, PagesArg(1))]),
    family(28, "madvise", MEMORY, IN_MEMORY, Ret::Int, ADVICE, &[
        // What takes room, breaks memory, or has threads die of it.
        when(2, 23, Ret::Int, ADVICE).replayed(IGNORED),
        when(2, 100, Ret::Int, ADVICE).replayed(IGNORED),
        when(2, 101, Ret::Int, ADVICE).replayed(IGNORED),
        when(2, 102, Ret::Int, ADVICE).replayed(IGNORED),
        when(2, 103, Ret::Int, ADVICE).replayed(IGNORED),
        otherwise(Ret::Int, ADVICE),
    ]).handled(Handler::Settle { of: Settled::Memory }).again(MADE),
    call(149, "mlock", MEMORY, IGNORED, Ret::Int, &[addr("addr"), size("len")]),
    call(150, "munlock", MEMORY, IGNORED, Ret::Int, &[addr("addr"), size("len")]),
    call(151, "mlockall", MEMORY, IGNORED, Ret::Int, &[bits("flags", &f::MCL)]).handled(Handler::LockAll),
    call(152, "munlockall", MEMORY, IGNORED, Ret::Int, &[]).handled(Handler::UnlockAll),
    call(216, "remap_file_pages", MEMORY, IGNORED, Ret::Int, &[
        addr("addr"), size("size"), bits("prot", &f::PROT), ulong("pgoff"), bits("flags", &f::MAP)]).handled(Handler::Reorder).again(UNKNOWN),
    call(237, "mbind", MEMORY, IGNORED, Ret::Int, &[
        addr("addr"), size("len"), bits("mode", &f::MPOL), input("nodemask", Bits, BitsArg(4)), ulong("maxnode"),
        bits("flags", &f::MPOL_MF)]),
    call(238, "set_mempolicy", MEMORY, IGNORED, Ret::Int, &[
        bits("mode", &f::MPOL), input("nodemask", Bits, BitsArg(2)), ulong("maxnode")]),
    call(239, "get_mempolicy", MEMORY, IGNORED, Ret::Int, &[
        output("mode", I32, Fixed(4)), output("nodemask", Bits, BitsArg(2)), ulong("maxnode"), addr("addr"),
        bits("flags", &f::MPOL_F)]),
    call(256, "migrate_pages", MEMORY, IGNORED, Ret::Int, &[
        pid("pid"), ulong("maxnode"), input("old_nodes", Bits, BitsArg(1)), input("new_nodes", Bits, BitsArg(1))]),
    call(279, "move_pages", MEMORY, IGNORED, Ret::Int, &[
        pid("pid"), ulong("count"), input("pages", U64, ArgTimes(1, 8)), input("nodes", I32, ArgTimes(1, 4)),
        output("status", I32, ArgTimes(1, 4)), bits("flags", &f::MPOL_MF)]),
    call(310, "process_vm_readv", READ, IGNORED, Ret::Size, &[
        pid("pid"), output("local_iov", Iovec, ArgTimes(2, 16)), ulong("liovcnt"),
        input("remote_iov", Struct(&l::IOVEC), ArgTimes(4, 16)), ulong("riovcnt"), bits("flags", &f::NO_FLAGS)]),
    call(311, "process_vm_writev", WRITE, IGNORED, Ret::Size, &[
        pid("pid"), input("local_iov", Iovec, ArgTimes(2, 16)), ulong("liovcnt"),
        input("remote_iov", Struct(&l::IOVEC), ArgTimes(4, 16)), ulong("riovcnt"), bits("flags", &f::NO_FLAGS)]).again(GIVEN_TO_ANOTHER),
    call(319, "memfd_create", DESC, REAL, Ret::Fd, &[text("name"), bits("flags", &f::MFD)]).gives(Gives::Memory),
    call(323, "userfaultfd", DESC, SIMULATED, Ret::Fd, &[bits("flags", &f::USERFAULTFD)]).handled(Handler::WatchMemory).again(UNKNOWN),
    call(325, "mlock2", MEMORY, IGNORED, Ret::Int, &[addr("addr"), size("len"), bits("flags", &f::MLOCK)]),
    call(329, "pkey_mprotect", MEMORY, IGNORED, Ret::Int, &[addr("addr"), size("len"), bits("prot", &f::PROT), int("pkey")]).does(Act::Protect).handled(Handler::Protect).again(MADE),
    call(330, "pkey_alloc", NONE, IGNORED, Ret::Int, &[bits("flags", &f::NO_FLAGS), bits("access_rights", &f::PKEY)]).again(MADE),
    call(331, "pkey_free", NONE, IGNORED, Ret::Int, &[int("pkey")]).again(MADE),
    call(440, "process_madvise", DESC, IGNORED, Ret::Size, &[
        fd("pidfd"), input("iovec", Struct(&l::IOVEC), ArgTimes(2, 16)), size("vlen"), one("advice", &f::MADVISE),
        bits("flags", &f::NO_FLAGS)]).again(UNKNOWN),
    call(447, "memfd_secret", DESC, SIMULATED, Ret::Fd, &[bits("flags", &f::OPEN_CREATED)]),
    call(448, "process_mrelease", DESC, IGNORED, Ret::Int, &[fd("pidfd"), bits("flags", &f::NO_FLAGS)]),
    call(450, "set_mempolicy_home_node", MEMORY, IGNORED, Ret::Int, &[
        addr("start"), size("len"), ulong("home_node"), bits("flags", &f::NO_FLAGS)]),
    call(453, "map_shadow_stack", MEMORY, IGNORED, Ret::Address, &[addr("addr"), size("size"), bits("flags", &f::SHADOW_STACK)]).again(UNKNOWN),
    call(462, "mseal", MEMORY, IGNORED, Ret::Int, &[addr("addr"), size("len"), bits("flags", &f::NO_FLAGS)]),

    // Local descriptor table.
    family(154, "modify_ldt", NONE, IGNORED, Ret::Size, &[int("func"), addr("ptr"), ulong("bytecount")], &[
        when(0, 0, Ret::Size, &[int("func"), output("ptr", Bytes, Result), ulong("bytecount")]),
        when(0, 2, Ret::Size, &[int("func"), output("ptr", Bytes, Result), ulong("bytecount")]),
        when(0, 1, Ret::Int, &[int("func"), input("ptr", Bytes, ByArg(2)), ulong("bytecount")]),
        when(0, 0x11, Ret::Int, &[int("func"), input("ptr", Bytes, ByArg(2)), ulong("bytecount")]),
    ]).again(UNKNOWN),
    call(205, "set_thread_area", NONE, IGNORED, Ret::Int, &[addr("u_info")]).again(UNKNOWN),
    call(211, "get_thread_area", NONE, IGNORED, Ret::Int, &[addr("u_info")]),
    family(158, "arch_prctl", NONE, IGNORED, Ret::Int, &[ARCH, addr("addr")], &[
        when(0, 0x1001, Ret::Int, &[ARCH, addr("addr")]).again(UNKNOWN),
        when(0, 0x1002, Ret::Int, &[ARCH, addr("addr")]),
        when(0, 0x1003, Ret::Int, &[ARCH, output("addr", U64, Fixed(8))]),
        when(0, 0x1004, Ret::Int, &[ARCH, output("addr", U64, Fixed(8))]),
        when(0, 0x1011, Ret::Int, &[ARCH]),
        when(0, 0x1012, Ret::Int, &[ARCH, ulong("on")]),
        when(0, 0x1021, Ret::Int, &[ARCH, output("features", U64, Fixed(8))]),
        when(0, 0x1022, Ret::Int, &[ARCH, output("features", U64, Fixed(8))]),
        when(0, 0x1023, Ret::Int, &[ARCH, ulong("feature")]),
        when(0, 0x1024, Ret::Int, &[ARCH, output("features", U64, Fixed(8))]),
        when(0, 0x1025, Ret::Int, &[ARCH, ulong("feature")]),
        when(0, 0x2001, Ret::Int, &[ARCH, addr("addr")]).again(UNKNOWN),
        when(0, 0x2002, Ret::Int, &[ARCH, addr("addr")]).again(UNKNOWN),
        when(0, 0x2003, Ret::Int, &[ARCH, addr("addr")]).again(UNKNOWN),
        when(0, 0x4001, Ret::Int, &[ARCH, output("mask", U64, Fixed(8))]),
        when(0, 0x4002, Ret::Int, &[ARCH, hex("mask")]),
        when(0, 0x4003, Ret::Int, &[ARCH, output("bits", U64, Fixed(8))]),
        when(0, 0x4004, Ret::Int, &[ARCH]),
        when(0, 0x5001, Ret::Int, &[ARCH, hex("features")]).again(UNKNOWN),
        when(0, 0x5002, Ret::Int, &[ARCH, hex("features")]),
        when(0, 0x5003, Ret::Int, &[ARCH, hex("features")]),
        when(0, 0x5004, Ret::Int, &[ARCH, hex("features")]),
        when(0, 0x5005, Ret::Int, &[ARCH, output("features", U64, Fixed(8))]),
    ]).handled(Handler::ArchPrctl).again(MADE),
];
