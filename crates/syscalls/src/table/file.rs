//! Calls on paths and on file metadata.

use super::words::*;
use crate::abi::files::{O_CREAT, O_TMPFILE_ALONE, O_TRUNC, O_WRONLY};
use crate::act::Act;
use crate::flags as f;
use crate::handler::Handler;
use crate::layout as l;
use crate::shape::Len::{Arg as ByArg, Counted, Fixed, RetAtMost, RetPath};
use crate::shape::Of::{Bytes, I32, Struct, Text, U64};
use crate::shape::{Arg, Gives, OpenFlags, Ret, Syscall};

const AT_HANDLE_MNT_ID_UNIQUE: u64 = 1;
/// Where it is too short, the kernel says how long it has to be.
const HANDLE: Arg = inout("handle", Struct(&l::FILE_HANDLE), Counted { at: 0, unit: 1, head: 8 })
    .told_on_error()
    .head_goes_in();

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    family(2, "open", FILE.or(DESC), REAL, Ret::Fd, &[path("pathname"), bits("flags", &f::OPEN), mode("mode")], &[
        when_set(1, O_CREAT, Ret::Fd, &[path("pathname"), bits("flags", &f::OPEN), mode("mode")]),
        when_set(1, O_TMPFILE_ALONE, Ret::Fd, &[path("pathname"), bits("flags", &f::OPEN), mode("mode")]),
        otherwise(Ret::Fd, &[path("pathname"), bits("flags", &f::OPEN)]),
    ]).opens(OpenFlags::Arg(1)),
    call(4, "stat", FILE.or(STAT), REAL, Ret::Int, &[path("pathname"), out_struct("statbuf", &l::STAT)]).by_descriptor(5),
    call(5, "fstat", DESC.or(STAT), REAL, Ret::Int, &[fd("fd"), out_struct("statbuf", &l::STAT)]),
    call(6, "lstat", FILE.or(STAT), REAL, Ret::Int, &[path("pathname"), out_struct("statbuf", &l::STAT)]).does(Act::OnLink),
    call(21, "access", FILE, REAL, Ret::Int, &[path("pathname"), bits("mode", &f::ACCESS)]).does(Act::Access),
    call(76, "truncate", FILE.or(CHANGE), REAL, Ret::Int, &[path("path"), length("length")]).does(Act::Truncate).handled(Handler::Truncate).by_descriptor(77),
    call(79, "getcwd", FILE, REAL, Ret::Size, &[output("buf", Text, RetPath), size("size")]).does(Act::TellDirectory),
    call(80, "chdir", FILE, REAL, Ret::Int, &[path("path")]).does(Act::Directory).by_descriptor(81),
    call(81, "fchdir", DESC, REAL, Ret::Int, &[fd("fd")]).does(Act::Directory),
    call(82, "rename", FILE.or(CHANGE), REAL, Ret::Int, &[path("oldpath"), path("newpath")]).does(Act::Rename),
    call(83, "mkdir", FILE.or(CHANGE), REAL, Ret::Int, &[path("pathname"), mode("mode")]).does(Act::MakeDirectory),
    call(84, "rmdir", FILE.or(CHANGE), REAL, Ret::Int, &[path("pathname")]).does(Act::RemoveDirectory),
    call(85, "creat", FILE.or(DESC).or(CHANGE), REAL, Ret::Fd, &[path("pathname"), mode("mode")]).opens(OpenFlags::Fixed((O_CREAT | O_WRONLY | O_TRUNC) as u32)),
    call(86, "link", FILE.or(CHANGE), REAL, Ret::Int, &[path("oldpath"), path("newpath")]).does(Act::HardLink),
    call(87, "unlink", FILE.or(CHANGE), REAL, Ret::Int, &[path("pathname")]).does(Act::Remove),
    call(88, "symlink", FILE.or(CHANGE), REAL, Ret::Int, &[text("target"), path("linkpath")]).does(Act::MakeLink),
    call(89, "readlink", FILE, REAL, Ret::Size, &[path("pathname"), output("buf", Text, RetPath), int("bufsiz")]).does(Act::ReadLink),
    call(90, "chmod", FILE.or(CHANGE), REAL, Ret::Int, &[path("pathname"), mode("mode")]).does(Act::Mode).by_descriptor(91),
    call(91, "fchmod", DESC.or(CHANGE), REAL, Ret::Int, &[fd("fd"), mode("mode")]).does(Act::Mode),
    call(92, "chown", FILE.or(CHANGE), REAL, Ret::Int, &[path("pathname"), uid("owner"), gid("group")]).does(Act::Owner).by_descriptor(93),
    call(93, "fchown", DESC.or(CHANGE), REAL, Ret::Int, &[fd("fd"), uid("owner"), gid("group")]).does(Act::Owner),
    call(94, "lchown", FILE.or(CHANGE), REAL, Ret::Int, &[path("pathname"), uid("owner"), gid("group")]).does(Act::LinkOwner),
    call(95, "umask", NONE, REAL, Ret::Mode, &[mode("mask")]),
    call(132, "utime", FILE.or(CHANGE), REAL, Ret::Int, &[path("filename"), in_struct("times", &l::UTIMBUF)]).does(Act::Times),
    call(133, "mknod", FILE.or(CHANGE), REAL, Ret::Int, &[path("pathname"), mode("mode"), dev("dev")]).does(Act::MakeNode),
    call(136, "ustat", NONE, SIMULATED, Ret::Int, &[dev("dev"), out_struct("ubuf", &l::USTAT)]),
    call(137, "statfs", FILE, REAL, Ret::Int, &[path("path"), out_struct("buf", &l::STATFS)]).by_descriptor(138),
    call(138, "fstatfs", DESC, REAL, Ret::Int, &[fd("fd"), out_struct("buf", &l::STATFS)]),
    call(161, "chroot", FILE, SIMULATED, Ret::Int, &[path("path")]).does(Act::Root),
    call(188, "setxattr", FILE.or(CHANGE), REAL, Ret::Int, &[
        path("path"), text("name"), input("value", Bytes, ByArg(3)), size("size"), bits("flags", &f::XATTR)]).does(Act::ChangeXattr).by_descriptor(190),
    call(189, "lsetxattr", FILE.or(CHANGE), REAL, Ret::Int, &[
        path("path"), text("name"), input("value", Bytes, ByArg(3)), size("size"), bits("flags", &f::XATTR)]).does(Act::ChangeLinkXattr),
    call(190, "fsetxattr", DESC.or(CHANGE), REAL, Ret::Int, &[
        fd("fd"), text("name"), input("value", Bytes, ByArg(3)), size("size"), bits("flags", &f::XATTR)]).does(Act::ChangeXattr),
    call(191, "getxattr", FILE, REAL, Ret::Size, &[path("path"), text("name"), output("value", Bytes, RetAtMost(3, 1)), room("size")]).does(Act::GetXattr).by_descriptor(193),
    call(192, "lgetxattr", FILE, REAL, Ret::Size, &[path("path"), text("name"), output("value", Bytes, RetAtMost(3, 1)), room("size")]).does(Act::GetLinkXattr),
    call(193, "fgetxattr", DESC, REAL, Ret::Size, &[fd("fd"), text("name"), output("value", Bytes, RetAtMost(3, 1)), room("size")]).does(Act::GetXattr),
    call(194, "listxattr", FILE, REAL, Ret::Size, &[path("path"), attribute_names("list", RetAtMost(2, 1)), room("size")]).does(Act::ListXattr).by_descriptor(196),
    call(195, "llistxattr", FILE, REAL, Ret::Size, &[path("path"), attribute_names("list", RetAtMost(2, 1)), room("size")]).does(Act::ListLinkXattr),
    call(196, "flistxattr", DESC, REAL, Ret::Size, &[fd("fd"), attribute_names("list", RetAtMost(2, 1)), room("size")]).does(Act::ListXattr),
    call(197, "removexattr", FILE.or(CHANGE), REAL, Ret::Int, &[path("path"), text("name")]).does(Act::ChangeXattr).by_descriptor(199),
    call(198, "lremovexattr", FILE.or(CHANGE), REAL, Ret::Int, &[path("path"), text("name")]).does(Act::ChangeLinkXattr),
    call(199, "fremovexattr", DESC.or(CHANGE), REAL, Ret::Int, &[fd("fd"), text("name")]).does(Act::ChangeXattr),
    call(235, "utimes", FILE.or(CHANGE), REAL, Ret::Int, &[path("filename"), input("times", Struct(&l::TIMEVAL), Fixed(32))]).does(Act::Times),
    family(257, "openat", FILE.or(DESC), REAL, Ret::Fd, &[
        dirfd("dirfd"), path("pathname"), bits("flags", &f::OPEN), mode("mode")], &[
        when_set(2, O_CREAT, Ret::Fd, &[dirfd("dirfd"), path("pathname"), bits("flags", &f::OPEN), mode("mode")]),
        when_set(2, O_TMPFILE_ALONE, Ret::Fd, &[dirfd("dirfd"), path("pathname"), bits("flags", &f::OPEN), mode("mode")]),
        otherwise(Ret::Fd, &[dirfd("dirfd"), path("pathname"), bits("flags", &f::OPEN)]),
    ]).opens(OpenFlags::Arg(2)),
    call(258, "mkdirat", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[dirfd("dirfd"), path("pathname"), mode("mode")]).does(Act::MakeDirectory),
    call(259, "mknodat", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[dirfd("dirfd"), path("pathname"), mode("mode"), dev("dev")]).does(Act::MakeNode),
    call(260, "fchownat", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), uid("owner"), gid("group"), bits("flags", &f::AT)]).does(Act::Owner),
    call(261, "futimesat", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), input("times", Struct(&l::TIMEVAL), Fixed(32))]).does(Act::Times),
    call(262, "newfstatat", FILE.or(DESC).or(STAT), REAL, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), out_struct("statbuf", &l::STAT), bits("flags", &f::AT)]),
    call(263, "unlinkat", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[dirfd("dirfd"), path("pathname"), bits("flags", &f::AT_UNLINK)]).does(Act::Remove),
    call(264, "renameat", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        dirfd("olddirfd"), path("oldpath"), dirfd("newdirfd"), path("newpath")]).does(Act::Rename),
    call(265, "linkat", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        dirfd("olddirfd"), path("oldpath"), dirfd("newdirfd"), path("newpath"), bits("flags", &f::AT)]).does(Act::HardLink),
    call(266, "symlinkat", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[text("target"), dirfd("newdirfd"), path("linkpath")]).does(Act::MakeLink),
    call(267, "readlinkat", FILE.or(DESC), REAL, Ret::Size, &[
        dirfd("dirfd"), path("pathname"), output("buf", Text, RetPath), int("bufsiz")]).does(Act::ReadLink),
    call(268, "fchmodat", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[dirfd("dirfd"), path("pathname"), mode("mode")]).does(Act::Mode).by_descriptor(91),
    call(269, "faccessat", FILE.or(DESC), REAL, Ret::Int, &[dirfd("dirfd"), path("pathname"), bits("mode", &f::ACCESS)]).does(Act::Access),
    call(280, "utimensat", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), input("times", Struct(&l::UTIME_TIMESPEC), Fixed(32)), bits("flags", &f::AT)]).does(Act::Times),
    // With this flag the mount id has 64 bits.
    family(303, "name_to_handle_at", FILE.or(DESC), SIMULATED, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), HANDLE,
        output("mount_id", I32, Fixed(4)).told_on_error(), bits("flags", &f::AT_HANDLE)], &[
        when_set(4, AT_HANDLE_MNT_ID_UNIQUE, Ret::Int, &[
            dirfd("dirfd"), path("pathname"), HANDLE,
            output("mount_id", U64, Fixed(8)).told_on_error(), bits("flags", &f::AT_HANDLE)]),
        otherwise(Ret::Int, &[
            dirfd("dirfd"), path("pathname"), HANDLE,
            output("mount_id", I32, Fixed(4)).told_on_error(), bits("flags", &f::AT_HANDLE)]),
    ]),
    call(304, "open_by_handle_at", DESC, SIMULATED, Ret::Fd, &[
        dirfd("mount_fd"), input("handle", Struct(&l::FILE_HANDLE), Counted { at: 0, unit: 1, head: 8 }), bits("flags", &f::OPEN)]).gives(Gives::Unnamed),
    call(316, "renameat2", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        dirfd("olddirfd"), path("oldpath"), dirfd("newdirfd"), path("newpath"), bits("flags", &f::RENAME)]).does(Act::Rename),
    call(332, "statx", FILE.or(DESC).or(STAT), REAL, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), bits("flags", &f::AT_STATX), bits("mask", &f::STATX), out_struct("statxbuf", &l::STATX)]),
    call(437, "openat2", FILE.or(DESC), REAL, Ret::Fd, &[
        dirfd("dirfd"), path("pathname"), in_sized("how", &l::OPEN_HOW, ByArg(3)), size("size")]).opens(OpenFlags::Struct { arg: 2, at: 0, resolve_at: 16 }),
    call(439, "faccessat2", FILE.or(DESC), REAL, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), bits("mode", &f::ACCESS), bits("flags", &f::AT_ACCESS)]).does(Act::Access),
    call(452, "fchmodat2", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), mode("mode"), bits("flags", &f::AT)]).does(Act::Mode),
    call(463, "setxattrat", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), bits("at_flags", &f::AT), text("name"), in_sized_holder("args", &l::XATTR_VALUE, ByArg(5)), size("size")]).does(Act::ChangeXattr),
    call(464, "getxattrat", FILE.or(DESC), REAL, Ret::Size, &[
        dirfd("dirfd"), path("pathname"), bits("at_flags", &f::AT), text("name"), out_sized_holder("args", &l::XATTR_RESULT, ByArg(5)), size("size")]).does(Act::GetXattr),
    call(465, "listxattrat", FILE.or(DESC), REAL, Ret::Size, &[
        dirfd("dirfd"), path("pathname"), bits("at_flags", &f::AT), attribute_names("list", RetAtMost(4, 1)), room("size")]).does(Act::ListXattr),
    call(466, "removexattrat", FILE.or(DESC).or(CHANGE), REAL, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), bits("at_flags", &f::AT), text("name")]).does(Act::ChangeXattr),
    call(468, "file_getattr", FILE.or(DESC), SIMULATED, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), output("attr", Struct(&l::FILE_ATTR), ByArg(3)), size("size"), bits("at_flags", &f::AT)]),
    call(469, "file_setattr", FILE.or(DESC).or(CHANGE), SIMULATED, Ret::Int, &[
        dirfd("dirfd"), path("pathname"), in_sized("attr", &l::FILE_ATTR, ByArg(3)), size("size"), bits("at_flags", &f::AT)]),
];
