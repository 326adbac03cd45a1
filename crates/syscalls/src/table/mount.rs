//! Mounts, quotas and file systems as a whole.

use super::words::*;
use crate::act::Act;
use crate::flags as f;
use crate::layout as l;
use crate::shape::Len::{Arg as ByArg, RetAtMost, SelfSized};
use crate::shape::Of::{Bytes, Struct, U64};
use crate::shape::{Arg, Gives, Ret, Syscall};

const FSCONFIG: Arg = one("cmd", &f::FSCONFIG);

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    family(139, "sysfs", NONE, SIMULATED, Ret::Int, &[int("option"), hex("arg1"), hex("arg2")], &[
        when(0, 1, Ret::Int, &[int("option"), text("fsname")]),
        when(0, 2, Ret::Int, &[int("option"), uint("fs_index"), addr("buf")]),
        when(0, 3, Ret::Int, &[int("option")]),
    ]),
    call(155, "pivot_root", FILE, SIMULATED, Ret::Int, &[path("new_root"), path("put_old")]).does(Act::PivotRoot),
    call(163, "acct", FILE, SIMULATED, Ret::Int, &[path("filename")]),
    call(165, "mount", FILE, SIMULATED, Ret::Int, &[
        path("source"), path("target"), text("filesystemtype"), bits("mountflags", &f::MS), text("data")]).does(Act::Mount),
    call(166, "umount2", FILE, SIMULATED, Ret::Int, &[path("target"), bits("flags", &f::UMOUNT)]).does(Act::Unmount),
    call(167, "swapon", FILE, SIMULATED, Ret::Int, &[path("path"), bits("swapflags", &f::SWAP)]),
    call(168, "swapoff", FILE, SIMULATED, Ret::Int, &[path("path")]),
    family(179, "quotactl", FILE, SIMULATED, Ret::Int, &[
        one("op", &f::QUOTACTL), path("special"), int("id"), addr("addr")], super::quota::BY_PATH),
    call(428, "open_tree", FILE.or(DESC), SIMULATED, Ret::Fd, &[dirfd("dirfd"), path("pathname"), bits("flags", &f::OPEN_TREE)]).gives(Gives::Mounts),
    call(429, "move_mount", FILE.or(DESC), SIMULATED, Ret::Int, &[
        dirfd("from_dirfd"), path("from_pathname"), dirfd("to_dirfd"), path("to_pathname"), bits("flags", &f::MOVE_MOUNT)]).does(Act::MoveMount),
    call(430, "fsopen", DESC, SIMULATED, Ret::Fd, &[text("fsname"), bits("flags", &f::FSOPEN)]),
    family(431, "fsconfig", DESC.or(FILE), SIMULATED, Ret::Int, &[
        fd("fd"), FSCONFIG, text("key"), addr("value"), int("aux")], &[
        when(1, 0, Ret::Int, &[fd("fd"), FSCONFIG, text("key"), addr("value"), int("aux")]),
        when(1, 1, Ret::Int, &[fd("fd"), FSCONFIG, text("key"), text("value"), int("aux")]),
        when(1, 2, Ret::Int, &[fd("fd"), FSCONFIG, text("key"), input("value", Bytes, ByArg(4)), int("aux")]),
        when(1, 3, Ret::Int, &[fd("fd"), FSCONFIG, text("key"), path("value"), dirfd("aux")]),
        when(1, 4, Ret::Int, &[fd("fd"), FSCONFIG, text("key"), path("value"), dirfd("aux")]),
        when(1, 5, Ret::Int, &[fd("fd"), FSCONFIG, text("key"), addr("value"), fd("aux")]),
        when(1, 6, Ret::Int, &[fd("fd"), FSCONFIG, addr("key"), addr("value"), int("aux")]),
        when(1, 7, Ret::Int, &[fd("fd"), FSCONFIG, addr("key"), addr("value"), int("aux")]),
        when(1, 8, Ret::Int, &[fd("fd"), FSCONFIG, addr("key"), addr("value"), int("aux")]),
    ]),
    call(432, "fsmount", DESC, SIMULATED, Ret::Fd, &[fd("fs_fd"), bits("flags", &f::FSMOUNT), bits("attr_flags", &f::MOUNT_ATTR)]),
    call(433, "fspick", FILE.or(DESC), SIMULATED, Ret::Fd, &[dirfd("dirfd"), path("pathname"), bits("flags", &f::FSPICK)]),
    call(442, "mount_setattr", FILE.or(DESC), SIMULATED, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), bits("flags", &f::AT_MOUNT), in_sized("attr", &l::MOUNT_ATTR, ByArg(4)), size("size")]),
    family(443, "quotactl_fd", DESC, SIMULATED, Ret::Int, &[
        fd("fd"), one("op", &f::QUOTACTL), int("id"), addr("addr")], super::quota::BY_FD),
    call(457, "statmount", NONE, SIMULATED, Ret::Int, &[
        in_sized("req", &l::MNT_ID_REQ, SelfSized), output("buf", Struct(&l::STATMOUNT), SelfSized), size("bufsize"),
        bits("flags", &f::STATMOUNT_FLAGS)]),
    call(458, "listmount", NONE, SIMULATED, Ret::Int, &[
        in_sized("req", &l::MNT_ID_REQ, SelfSized), output("mnt_ids", U64, RetAtMost(2, 8)), size("nr_mnt_ids"),
        bits("flags", &f::LISTMOUNT)]),
    call(467, "open_tree_attr", FILE.or(DESC), SIMULATED, Ret::Fd, &[
        dirfd("dirfd"), path("pathname"), bits("flags", &f::OPEN_TREE), in_sized("attr", &l::MOUNT_ATTR, ByArg(4)), size("size")]).gives(Gives::Mounts),
];
