//! User and group ids, capabilities, keys, and restrictions that a process sets for itself.

use super::words::*;
use crate::act::{Act, Ids};
use crate::flags as f;
use crate::handler::Handler;
use crate::layout as l;
use crate::shape::Len::{Arg, ArgTimes, Fixed, Pointee, RetAtMost};
use crate::shape::Of::{Bytes, Struct, U32, U64};
use crate::shape::{Ret, Syscall};

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    call(102, "getuid", CREDS, TIMED, Ret::Id, &[]).does(Act::TellRealId(Ids::User)),
    call(104, "getgid", CREDS, TIMED, Ret::Id, &[]).does(Act::TellRealId(Ids::Group)),
    call(105, "setuid", CREDS, REAL, Ret::Int, &[uid("uid").effective()]).does(Act::TakeId(Ids::User)).handled(Handler::ChangeUser),
    call(106, "setgid", CREDS, REAL, Ret::Int, &[gid("gid").effective()]).does(Act::TakeId(Ids::Group)),
    call(107, "geteuid", CREDS, TIMED, Ret::Id, &[]).does(Act::TellEffectiveId(Ids::User)),
    call(108, "getegid", CREDS, TIMED, Ret::Id, &[]).does(Act::TellEffectiveId(Ids::Group)),
    call(113, "setreuid", CREDS, REAL, Ret::Int, &[uid("ruid").real(), uid("euid").effective()]).does(Act::SetIds(Ids::User)).handled(Handler::ChangeUser),
    call(114, "setregid", CREDS, REAL, Ret::Int, &[gid("rgid").real(), gid("egid").effective()]).does(Act::SetIds(Ids::Group)),
    call(115, "getgroups", CREDS, TIMED, Ret::Int, &[int("size"), output("list", U32, RetAtMost(0, 4))]),
    call(116, "setgroups", CREDS, REAL, Ret::Int, &[int("size"), input("list", U32, ArgTimes(0, 4)).groups()]).does(Act::SetGroups),
    call(117, "setresuid", CREDS, REAL, Ret::Int, &[uid("ruid").real(), uid("euid").effective(), uid("suid").saved()]).does(Act::SetIds(Ids::User)).handled(Handler::ChangeUser),
    call(118, "getresuid", CREDS, TIMED, Ret::Int, &[
        output("ruid", U32, Fixed(4)).real(), output("euid", U32, Fixed(4)).effective(), output("suid", U32, Fixed(4)).saved()]).does(Act::TellIds(Ids::User)),
    call(119, "setresgid", CREDS, REAL, Ret::Int, &[gid("rgid").real(), gid("egid").effective(), gid("sgid").saved()]).does(Act::SetIds(Ids::Group)),
    call(120, "getresgid", CREDS, TIMED, Ret::Int, &[
        output("rgid", U32, Fixed(4)).real(), output("egid", U32, Fixed(4)).effective(), output("sgid", U32, Fixed(4)).saved()]).does(Act::TellIds(Ids::Group)),
    call(122, "setfsuid", CREDS, REAL, Ret::Id, &[uid("fsuid").for_files()]).does(Act::SetFileId(Ids::User)),
    call(123, "setfsgid", CREDS, REAL, Ret::Id, &[gid("fsgid").for_files()]).does(Act::SetFileId(Ids::Group)),
    // Two elements since version 2 of the header, which is in general use; version 1 has only one.
    call(125, "capget", CREDS, TIMED, Ret::Int, &[inout_struct("hdrp", &l::CAP_HEADER).told_on_error(), output("datap", Struct(&l::CAP_DATA), Fixed(24))]),
    call(126, "capset", CREDS, SIMULATED, Ret::Int, &[in_struct("hdrp", &l::CAP_HEADER), input("datap", Struct(&l::CAP_DATA), Fixed(24))]),

    call(248, "add_key", NONE, SIMULATED, Ret::Int, &[
        text("type"), text("description"), input("payload", Bytes, Arg(3)), size("plen"), one("keyring", &f::KEYRING)]),
    call(249, "request_key", NONE, SIMULATED, Ret::Int, &[
        text("type"), text("description"), text("callout_info"), one("dest_keyring", &f::KEYRING)]),
    family(250, "keyctl", NONE, SIMULATED, Ret::Int, &[
        one("operation", &f::KEYCTL), hex("arg2"), hex("arg3"), hex("arg4"), hex("arg5")], super::keyctl::VARIANTS),

    family(317, "seccomp", DESC, SIMULATED, Ret::Int, &[
        one("operation", &f::SECCOMP), bits("flags", &f::SECCOMP_FLAGS), addr("args")], &[
        // NEW_LISTENER
        when_set(1, 0x8, Ret::Fd, &[
            one("operation", &f::SECCOMP), bits("flags", &f::SECCOMP_FLAGS), in_holder("args", &l::FILTER)]),
        when(0, 0, Ret::Int, &[one("operation", &f::SECCOMP), hex("flags"), addr("args")]),
        when(0, 1, Ret::Int, &[
            one("operation", &f::SECCOMP), bits("flags", &f::SECCOMP_FLAGS), in_holder("args", &l::FILTER)]),
        when(0, 2, Ret::Int, &[
            one("operation", &f::SECCOMP), hex("flags"), input("args", U32, Fixed(4))]),
        when(0, 3, Ret::Int, &[
            one("operation", &f::SECCOMP), hex("flags"), out_struct("args", &l::SECCOMP_NOTIF_SIZES)]),
    ]).until_exec().handled(Handler::Seccomp),
    family(444, "landlock_create_ruleset", DESC, SIMULATED, Ret::Fd, &[
        in_sized("attr", &l::LANDLOCK_RULESET_ATTR, Arg(1)), size("size"), bits("flags", &f::LANDLOCK_CREATE)], &[
        // Queries of the version and of errata, which return a number.
        when(2, 1, Ret::Int, &[addr("attr"), size("size"), bits("flags", &f::LANDLOCK_CREATE)]),
        when(2, 2, Ret::Int, &[addr("attr"), size("size"), bits("flags", &f::LANDLOCK_CREATE)]),
    ]).until_exec(),
    family(445, "landlock_add_rule", DESC, SIMULATED, Ret::Int, &[
        fd("ruleset_fd"), one("rule_type", &f::LANDLOCK_RULE), addr("rule_attr"), bits("flags", &f::NO_FLAGS)], &[
        when(1, 1, Ret::Int, &[
            fd("ruleset_fd"), one("rule_type", &f::LANDLOCK_RULE), in_struct("rule_attr", &l::LANDLOCK_PATH_BENEATH),
            bits("flags", &f::NO_FLAGS)]),
        when(1, 2, Ret::Int, &[
            fd("ruleset_fd"), one("rule_type", &f::LANDLOCK_RULE), in_struct("rule_attr", &l::LANDLOCK_NET_PORT),
            bits("flags", &f::NO_FLAGS)]),
    ]),
    call(446, "landlock_restrict_self", DESC, SIMULATED, Ret::Int, &[fd("ruleset_fd"), bits("flags", &f::LANDLOCK_RESTRICT)]).does(Act::Confine),
    call(459, "lsm_get_self_attr", NONE, IGNORED, Ret::Int, &[
        one("attr", &f::LSM_ATTR), output("ctx", Bytes, Pointee(2)), inout("size", U32, Fixed(4)).told_on_error(), bits("flags", &f::LSM_FLAGS)]),
    call(460, "lsm_set_self_attr", NONE, SIMULATED, Ret::Int, &[
        one("attr", &f::LSM_ATTR), input("ctx", Bytes, Arg(2)), uint("size"), bits("flags", &f::NO_FLAGS)]),
    call(461, "lsm_list_modules", NONE, IGNORED, Ret::Int, &[
        output("ids", U64, Pointee(1)), inout("size", U32, Fixed(4)).told_on_error(), bits("flags", &f::NO_FLAGS)]),
];
