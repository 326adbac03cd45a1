//! Calls that transfer data through descriptors, and calls on descriptors themselves.

use super::words::*;
use crate::act::Act;
use crate::flags as f;
use crate::handler::{Handler, Settled};
use crate::layout as l;
use crate::shape::Len::{Arg, ArgTimes, BitsArg, Fixed, Ret as Result, RetTimes};
use crate::shape::Of::{Bytes, Dirents, Dirents64, FdSet, Fds, Iovec, SigSet, Struct};
use crate::shape::{Gives, Ret, Syscall, WaitsOn};

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    call(0, "read", DESC.or(READ), REAL, Ret::Size, &[source("fd"), output("buf", Bytes, Result), count("count")]).handled(Handler::Read { offset: None }).beside(RECEIVES),
    call(1, "write", DESC.or(WRITE), REAL, Ret::Size, &[target("fd"), input("buf", Bytes, Arg(2)), count("count")]).beside(SENDS),
    call(3, "close", DESC, NUMBERS, Ret::Int, &[fd("fd")]).does(Act::Close).handled(Handler::Close).beside(BESIDE),
    call(7, "poll", DESC.or(WAIT), IGNORED, Ret::Int, &[inout("fds", Struct(&l::POLLFD), ArgTimes(1, 8)), uint("nfds"), int("timeout")]).handled(Handler::Wait).beside(waits(WaitsOn::List, 2)),
    call(8, "lseek", DESC, REAL, Ret::Offset, &[fd("fd"), off("offset"), one("whence", &f::SEEK)]).does(Act::Seek),
    call(17, "pread64", DESC.or(READ), REAL, Ret::Size, &[source("fd"), output("buf", Bytes, Result), count("count"), source_at("offset")]).handled(Handler::Read { offset: Some(3) }),
    call(18, "pwrite64", DESC.or(WRITE), REAL, Ret::Size, &[target("fd"), input("buf", Bytes, Arg(2)), count("count"), target_at("offset")]),
    call(19, "readv", DESC.or(READ), REAL, Ret::Size, &[source("fd"), output("iov", Iovec, ArgTimes(2, 16)), ulong("iovcnt")]).handled(Handler::ReadVector { offset: None }).beside(RECEIVES),
    call(20, "writev", DESC.or(WRITE), REAL, Ret::Size, &[target("fd"), input("iov", Iovec, ArgTimes(2, 16)), ulong("iovcnt")]).beside(SENDS),
    call(22, "pipe", DESC, REAL, Ret::Int, &[output("pipefd", Fds, Fixed(8))]).gives(Gives::Pipe),
    call(23, "select", DESC.or(WAIT), IGNORED, Ret::Int, &[
        int("nfds"), inout("readfds", FdSet, BitsArg(0)), inout("writefds", FdSet, BitsArg(0)),
        inout("exceptfds", FdSet, BitsArg(0)), inout_struct("timeout", &l::TIMEVAL).told_on_error()]).handled(Handler::Wait).beside(waits_behind(WaitsOn::Sets, 4)),
    call(32, "dup", DESC, NUMBERS, Ret::Fd, &[fd("oldfd")]).does(Act::Duplicate).handled(Handler::Duplicate).beside(RENUMBERS),
    call(33, "dup2", DESC, NUMBERS, Ret::Fd, &[fd("oldfd"), new_number("newfd")]).does(Act::Duplicate).handled(Handler::Duplicate).beside(RENUMBERS),
    call(40, "sendfile", NETWORK.or(READ).or(WRITE), REAL, Ret::Size, &[
        target("out_fd"), source("in_fd"), source_at_behind("offset"), count("count")]).does(Act::Copy).beside(COPIES),
    call(73, "flock", DESC, REAL, Ret::Int, &[fd("fd"), bits("operation", &f::LOCK)]).does(Act::Lock),
    call(74, "fsync", DESC.or(SYNC), REAL, Ret::Int, &[fd("fd")]).does(Act::SyncFile).handled(Handler::Settle { of: Settled::File }),
    call(75, "fdatasync", DESC.or(SYNC), REAL, Ret::Int, &[fd("fd")]).does(Act::SyncData).handled(Handler::Settle { of: Settled::File }),
    call(77, "ftruncate", DESC.or(CHANGE), REAL, Ret::Int, &[fd("fd"), length("length")]).does(Act::Truncate).handled(Handler::Settle { of: Settled::File }),
    call(78, "getdents", DESC, REAL, Ret::Size, &[fd("fd"), output("dirp", Dirents, Result), uint("count")]).does(Act::List),
    call(162, "sync", SYNC, REAL, Ret::Int, &[]).does(Act::SyncAll).handled(Handler::Settle { of: Settled::All }),
    call(187, "readahead", DESC, REAL, Ret::Int, &[fd("fd"), off("offset"), size("count")]),
    call(213, "epoll_create", DESC, SIMULATED, Ret::Fd, &[int("size")]).gives(Gives::Object("eventpoll")).beside(OPENS),
    call(214, "epoll_ctl_old", DESC, SIMULATED, Ret::Int, &[hex("epfd"), hex("op"), hex("fd"), hex("event")]),
    call(215, "epoll_wait_old", DESC.or(WAIT), IGNORED, Ret::Int, &[hex("epfd"), hex("events"), hex("maxevents"), hex("timeout")]),
    call(217, "getdents64", DESC, REAL, Ret::Size, &[fd("fd"), output("dirp", Dirents64, Result), uint("count")]).does(Act::List),
    call(221, "fadvise64", DESC, REAL, Ret::Int, &[fd("fd"), off("offset"), size("len"), one("advice", &f::FADVISE)]),
    call(232, "epoll_wait", DESC.or(WAIT), IGNORED, Ret::Int, &[
        fd("epfd"), output("events", Struct(&l::EPOLL_EVENT), RetTimes(12)), int("maxevents"), int("timeout")]).handled(Handler::Wait).beside(waits(WaitsOn::Queue, 3)),
    family(233, "epoll_ctl", DESC, SIMULATED, Ret::Int, &[
        fd("epfd"), one("op", &f::EPOLL_CTL), fd("fd"), in_struct("event", &l::EPOLL_EVENT)], &[
        when(1, 2, Ret::Int, &[fd("epfd"), one("op", &f::EPOLL_CTL), fd("fd"), addr("event")]),
        otherwise(Ret::Int, &[
            fd("epfd"), one("op", &f::EPOLL_CTL), fd("fd"), in_struct("event", &l::EPOLL_EVENT)]),
    ]).beside(WATCHES),
    call(253, "inotify_init", DESC, SIMULATED, Ret::Fd, &[]).gives(Gives::Object("inotify")),
    call(254, "inotify_add_watch", DESC.or(FILE), SIMULATED, Ret::Int, &[fd("fd"), path("pathname"), bits("mask", &f::INOTIFY)]),
    call(255, "inotify_rm_watch", DESC, SIMULATED, Ret::Int, &[fd("fd"), int("wd")]),
    call(270, "pselect6", DESC.or(WAIT), IGNORED, Ret::Int, &[
        int("nfds"), inout("readfds", FdSet, BitsArg(0)), inout("writefds", FdSet, BitsArg(0)),
        inout("exceptfds", FdSet, BitsArg(0)), inout_struct("timeout", &l::TIMESPEC).told_on_error(),
        in_holder("sigmask", &l::SIGSET_ARG)]).handled(Handler::MaskedWait { mask: 5, in_pair: true }).beside(waits_behind(WaitsOn::Sets, 4)),
    call(271, "ppoll", DESC.or(WAIT), IGNORED, Ret::Int, &[
        inout("fds", Struct(&l::POLLFD), ArgTimes(1, 8)), uint("nfds"), inout_struct("tmo_p", &l::TIMESPEC).told_on_error(),
        input("sigmask", SigSet, Arg(4)), size("sigsetsize")]).handled(Handler::MaskedWait { mask: 3, in_pair: false }).beside(waits_behind(WaitsOn::List, 2)),
    call(275, "splice", DESC.or(READ).or(WRITE), REAL, Ret::Size, &[
        source("fd_in"), source_at_behind("off_in"), target("fd_out"), target_at_behind("off_out"),
        count("len"), bits("flags", &f::SPLICE)]).does(Act::Copy),
    call(276, "tee", DESC.or(READ).or(WRITE), REAL, Ret::Size, &[
        source("fd_in"), target("fd_out"), count("len"), bits("flags", &f::SPLICE)]).does(Act::Tee),
    call(277, "sync_file_range", DESC.or(SYNC), REAL, Ret::Int, &[
        fd("fd"), off("offset"), off("nbytes"), bits("flags", &f::SYNC_FILE_RANGE)]),
    // To a pipe from the vector or the reverse: depends on the descriptor, not on the arguments.
    call(278, "vmsplice", DESC.or(READ).or(WRITE), REAL, Ret::Size, &[
        source_or_target("fd"), inout("iov", Iovec, ArgTimes(2, 16)), ulong("nr_segs"), bits("flags", &f::SPLICE)]).does(Act::GivePages),
    call(281, "epoll_pwait", DESC.or(WAIT), IGNORED, Ret::Int, &[
        fd("epfd"), output("events", Struct(&l::EPOLL_EVENT), RetTimes(12)), int("maxevents"), int("timeout"),
        input("sigmask", SigSet, Arg(5)), size("sigsetsize")]).handled(Handler::MaskedWait { mask: 4, in_pair: false }).beside(waits(WaitsOn::Queue, 3)),
    call(284, "eventfd", DESC, SIMULATED, Ret::Fd, &[uint("initval")]).gives(Gives::Object("eventfd")),
    call(285, "fallocate", DESC.or(CHANGE), REAL, Ret::Int, &[fd("fd"), bits("mode", &f::FALLOCATE), off("offset"), off("len")]).does(Act::Allocate).handled(Handler::Settle { of: Settled::File }),
    call(290, "eventfd2", DESC, SIMULATED, Ret::Fd, &[uint("initval"), bits("flags", &f::EVENTFD)]).gives(Gives::Object("eventfd")),
    call(291, "epoll_create1", DESC, SIMULATED, Ret::Fd, &[bits("flags", &f::EPOLL_CREATE)]).gives(Gives::Object("eventpoll")).beside(OPENS),
    call(292, "dup3", DESC, NUMBERS, Ret::Fd, &[fd("oldfd"), new_number("newfd"), bits("flags", &f::OPEN_CREATED)]).does(Act::Duplicate).handled(Handler::Duplicate).beside(RENUMBERS),
    call(293, "pipe2", DESC, REAL, Ret::Int, &[output("pipefd", Fds, Fixed(8)), bits("flags", &f::OPEN_CREATED)]).gives(Gives::Pipe),
    call(294, "inotify_init1", DESC, SIMULATED, Ret::Fd, &[bits("flags", &f::INOTIFY_INIT)]).gives(Gives::Object("inotify")),
    call(295, "preadv", DESC.or(READ), REAL, Ret::Size, &[
        source("fd"), output("iov", Iovec, ArgTimes(2, 16)), ulong("iovcnt"), source_at("offset"), ulong("pos_h")]).handled(Handler::ReadVector { offset: Some(3) }),
    call(296, "pwritev", DESC.or(WRITE), REAL, Ret::Size, &[
        target("fd"), input("iov", Iovec, ArgTimes(2, 16)), ulong("iovcnt"), target_at("offset"), ulong("pos_h")]),
    call(300, "fanotify_init", DESC, SIMULATED, Ret::Fd, &[bits("flags", &f::FANOTIFY_INIT), bits("event_f_flags", &f::OPEN)]),
    call(301, "fanotify_mark", DESC.or(FILE), SIMULATED, Ret::Int, &[
        fd("fanotify_fd"), bits("flags", &f::FANOTIFY_MARK), bits("mask", &f::FANOTIFY), dirfd("dirfd"), path("pathname")]),
    call(306, "syncfs", DESC.or(SYNC), REAL, Ret::Int, &[fd("fd")]).does(Act::SyncAll).handled(Handler::Settle { of: Settled::All }),
    call(326, "copy_file_range", DESC.or(READ).or(WRITE), REAL, Ret::Size, &[
        source("fd_in"), source_at_behind("off_in"), target("fd_out"), target_at_behind("off_out"),
        count("size"), bits("flags", &f::NO_FLAGS)]).does(Act::Copy),
    call(327, "preadv2", DESC.or(READ), REAL, Ret::Size, &[
        source("fd"), output("iov", Iovec, ArgTimes(2, 16)), ulong("iovcnt"), source_at("offset"), ulong("pos_h"), bits("flags", &f::RWF)]).handled(Handler::ReadVector { offset: Some(3) }),
    call(328, "pwritev2", DESC.or(WRITE), REAL, Ret::Size, &[
        target("fd"), input("iov", Iovec, ArgTimes(2, 16)), ulong("iovcnt"), target_at("offset"), ulong("pos_h"), bits("flags", &f::RWF)]),
    call(436, "close_range", DESC, NUMBERS, Ret::Int, &[uint("first"), uint("last"), bits("flags", &f::CLOSE_RANGE)]).does(Act::CloseRange).handled(Handler::CloseRange).beside(ALWAYS_BESIDE),
    call(441, "epoll_pwait2", DESC.or(WAIT), IGNORED, Ret::Int, &[
        fd("epfd"), output("events", Struct(&l::EPOLL_EVENT), RetTimes(12)), int("maxevents"),
        in_struct("timeout", &l::TIMESPEC), input("sigmask", SigSet, Arg(5)), size("sigsetsize")]).handled(Handler::MaskedWait { mask: 4, in_pair: false }).beside(waits_behind(WaitsOn::Queue, 3)),
    call(451, "cachestat", DESC, SIMULATED, Ret::Int, &[
        fd("fd"), in_struct("cstat_range", &l::CACHESTAT_RANGE), out_struct("cstat", &l::CACHESTAT), bits("flags", &f::NO_FLAGS)]),
];
