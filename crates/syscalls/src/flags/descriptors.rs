//! Descriptors: fcntl, polling, events, notification.

use super::{names, with_field};
use crate::flag_set::FlagSet;

/// Operations of fcntl.
#[rustfmt::skip]
pub static FCNTL: FlagSet = names("F_", &[
    (0, "F_DUPFD"), (1, "F_GETFD"), (2, "F_SETFD"), (3, "F_GETFL"), (4, "F_SETFL"), (5, "F_GETLK"),
    (6, "F_SETLK"), (7, "F_SETLKW"), (8, "F_SETOWN"), (9, "F_GETOWN"), (10, "F_SETSIG"),
    (11, "F_GETSIG"), (15, "F_SETOWN_EX"), (16, "F_GETOWN_EX"), (17, "F_GETOWNER_UIDS"),
    (36, "F_OFD_GETLK"), (37, "F_OFD_SETLK"), (38, "F_OFD_SETLKW"), (1024, "F_SETLEASE"),
    (1025, "F_GETLEASE"), (1026, "F_NOTIFY"), (1027, "F_DUPFD_QUERY"), (1028, "F_CREATED_QUERY"),
    (1029, "F_CANCELLK"), (1030, "F_DUPFD_CLOEXEC"), (1031, "F_SETPIPE_SZ"),
    (1032, "F_GETPIPE_SZ"), (1033, "F_ADD_SEALS"), (1034, "F_GET_SEALS"), (1035, "F_GET_RW_HINT"),
    (1036, "F_SET_RW_HINT"), (1037, "F_GET_FILE_RW_HINT"), (1038, "F_SET_FILE_RW_HINT"),
]);

/// Flags of a descriptor.
#[rustfmt::skip]
pub static FD_FLAGS: FlagSet = names("FD_", &[
    (0x1, "FD_CLOEXEC"),
]);

/// Seals of a memfd.
#[rustfmt::skip]
pub static SEAL: FlagSet = names("F_SEAL_", &[
    (0x1, "F_SEAL_SEAL"), (0x2, "F_SEAL_SHRINK"), (0x4, "F_SEAL_GROW"), (0x8, "F_SEAL_WRITE"),
    (0x10, "F_SEAL_FUTURE_WRITE"), (0x20, "F_SEAL_EXEC"),
]);

/// Kinds of lease and of record lock.
#[rustfmt::skip]
pub static LEASE: FlagSet = names("F_", &[
    (0, "F_RDLCK"), (1, "F_WRLCK"), (2, "F_UNLCK"), (4, "F_EXLCK"), (8, "F_SHLCK"),
]);

/// Owner types of F_SETOWN_EX.
#[rustfmt::skip]
pub static OWNER_TYPE: FlagSet = names("F_OWNER_", &[
    (0, "F_OWNER_TID"), (1, "F_OWNER_PID"), (2, "F_OWNER_PGRP"),
]);

/// Expected lifetime of written data.
#[rustfmt::skip]
pub static RW_HINT: FlagSet = names("RWH_", &[
    (0, "RWH_WRITE_LIFE_NOT_SET"), (1, "RWH_WRITE_LIFE_NONE"), (2, "RWH_WRITE_LIFE_SHORT"),
    (3, "RWH_WRITE_LIFE_MEDIUM"), (4, "RWH_WRITE_LIFE_LONG"), (5, "RWH_WRITE_LIFE_EXTREME"),
]);

/// Events of F_NOTIFY.
#[rustfmt::skip]
pub static DNOTIFY: FlagSet = names("DN_", &[
    (0x1, "DN_ACCESS"), (0x2, "DN_MODIFY"), (0x4, "DN_CREATE"), (0x8, "DN_DELETE"),
    (0x10, "DN_RENAME"), (0x20, "DN_ATTRIB"), (0x80000000, "DN_MULTISHOT"),
]);

/// Events of poll.
#[rustfmt::skip]
pub static POLL: FlagSet = names("POLL", &[
    (0x1, "POLLIN"), (0x2, "POLLPRI"), (0x4, "POLLOUT"), (0x40, "POLLRDNORM"),
    (0x100, "POLLWRNORM"), (0x80, "POLLRDBAND"), (0x200, "POLLWRBAND"), (0x8, "POLLERR"),
    (0x10, "POLLHUP"), (0x20, "POLLNVAL"), (0x400, "POLLMSG"), (0x1000, "POLLREMOVE"),
    (0x2000, "POLLRDHUP"),
]);

/// Events of epoll.
#[rustfmt::skip]
pub static EPOLL: FlagSet = names("EPOLL", &[
    (0x1, "EPOLLIN"), (0x2, "EPOLLPRI"), (0x4, "EPOLLOUT"), (0x8, "EPOLLERR"), (0x10, "EPOLLHUP"),
    (0x20, "EPOLLNVAL"), (0x40, "EPOLLRDNORM"), (0x80, "EPOLLRDBAND"), (0x100, "EPOLLWRNORM"),
    (0x200, "EPOLLWRBAND"), (0x400, "EPOLLMSG"), (0x2000, "EPOLLRDHUP"),
    (0x8000000, "EPOLL_URING_WAKE"), (0x10000000, "EPOLLEXCLUSIVE"), (0x20000000, "EPOLLWAKEUP"),
    (0x40000000, "EPOLLONESHOT"), (0x80000000, "EPOLLET"),
]);

/// Operations of epoll_ctl.
#[rustfmt::skip]
pub static EPOLL_CTL: FlagSet = names("EPOLL_CTL_", &[
    (1, "EPOLL_CTL_ADD"), (2, "EPOLL_CTL_DEL"), (3, "EPOLL_CTL_MOD"),
]);

/// Flags of epoll_create1.
#[rustfmt::skip]
pub static EPOLL_CREATE: FlagSet = names("EPOLL_", &[
    (0o2000000, "EPOLL_CLOEXEC"),
]);

/// Flags of eventfd2.
#[rustfmt::skip]
pub static EVENTFD: FlagSet = names("EFD_", &[
    (0o1, "EFD_SEMAPHORE"), (0o2000000, "EFD_CLOEXEC"), (0o4000, "EFD_NONBLOCK"),
]);

/// Flags of close_range.
#[rustfmt::skip]
pub static CLOSE_RANGE: FlagSet = names("CLOSE_RANGE_", &[
    (0x2, "CLOSE_RANGE_UNSHARE"), (0x4, "CLOSE_RANGE_CLOEXEC"),
]);

/// Events and flags of inotify_add_watch.
#[rustfmt::skip]
pub static INOTIFY: FlagSet = names("IN_", &[
    (0x1, "IN_ACCESS"), (0x2, "IN_MODIFY"), (0x4, "IN_ATTRIB"), (0x8, "IN_CLOSE_WRITE"),
    (0x10, "IN_CLOSE_NOWRITE"), (0x20, "IN_OPEN"), (0x40, "IN_MOVED_FROM"), (0x80, "IN_MOVED_TO"),
    (0x100, "IN_CREATE"), (0x200, "IN_DELETE"), (0x400, "IN_DELETE_SELF"), (0x800, "IN_MOVE_SELF"),
    (0x2000, "IN_UNMOUNT"), (0x4000, "IN_Q_OVERFLOW"), (0x8000, "IN_IGNORED"),
    (0x1000000, "IN_ONLYDIR"), (0x2000000, "IN_DONT_FOLLOW"), (0x4000000, "IN_EXCL_UNLINK"),
    (0x10000000, "IN_MASK_CREATE"), (0x20000000, "IN_MASK_ADD"), (0x40000000, "IN_ISDIR"),
    (0x80000000, "IN_ONESHOT"),
]);

/// Flags of inotify_init1.
#[rustfmt::skip]
pub static INOTIFY_INIT: FlagSet = names("IN_", &[
    (0o2000000, "IN_CLOEXEC"), (0o4000, "IN_NONBLOCK"),
]);

/// Events of fanotify_mark.
#[rustfmt::skip]
pub static FANOTIFY: FlagSet = names("FAN_", &[
    (0x1, "FAN_ACCESS"), (0x2, "FAN_MODIFY"), (0x4, "FAN_ATTRIB"), (0x8, "FAN_CLOSE_WRITE"),
    (0x10, "FAN_CLOSE_NOWRITE"), (0x20, "FAN_OPEN"), (0x40, "FAN_MOVED_FROM"),
    (0x80, "FAN_MOVED_TO"), (0x100, "FAN_CREATE"), (0x200, "FAN_DELETE"),
    (0x400, "FAN_DELETE_SELF"), (0x800, "FAN_MOVE_SELF"), (0x1000, "FAN_OPEN_EXEC"),
    (0x4000, "FAN_Q_OVERFLOW"), (0x8000, "FAN_FS_ERROR"), (0x10000, "FAN_OPEN_PERM"),
    (0x20000, "FAN_ACCESS_PERM"), (0x40000, "FAN_OPEN_EXEC_PERM"), (0x100000, "FAN_PRE_ACCESS"),
    (0x1000000, "FAN_MNT_ATTACH"), (0x2000000, "FAN_MNT_DETACH"), (0x40000000, "FAN_ONDIR"),
    (0x8000000, "FAN_EVENT_ON_CHILD"), (0x10000000, "FAN_RENAME"),
]);

/// Flags of fanotify_mark.
#[rustfmt::skip]
pub static FANOTIFY_MARK: FlagSet = names("FAN_MARK_", &[
    (0x1, "FAN_MARK_ADD"), (0x2, "FAN_MARK_REMOVE"), (0x4, "FAN_MARK_DONT_FOLLOW"),
    (0x8, "FAN_MARK_ONLYDIR"), (0x110, "FAN_MARK_MNTNS"), (0x10, "FAN_MARK_MOUNT"),
    (0x20, "FAN_MARK_IGNORED_MASK"), (0x40, "FAN_MARK_IGNORED_SURV_MODIFY"),
    (0x80, "FAN_MARK_FLUSH"), (0x100, "FAN_MARK_FILESYSTEM"), (0x200, "FAN_MARK_EVICTABLE"),
    (0x400, "FAN_MARK_IGNORE"),
]);

/// Flags of fanotify_init; two bits hold the class.
#[rustfmt::skip]
pub static FANOTIFY_INIT: FlagSet = with_field("FAN_", 0xc, &[
    (0, "FAN_CLASS_NOTIF"), (0x4, "FAN_CLASS_CONTENT"), (0x8, "FAN_CLASS_PRE_CONTENT"),
    (0x1, "FAN_CLOEXEC"), (0x2, "FAN_NONBLOCK"), (0x10, "FAN_UNLIMITED_QUEUE"),
    (0x20, "FAN_UNLIMITED_MARKS"), (0x40, "FAN_ENABLE_AUDIT"), (0x80, "FAN_REPORT_PIDFD"),
    (0x100, "FAN_REPORT_TID"), (0x200, "FAN_REPORT_FID"), (0x400, "FAN_REPORT_DIR_FID"),
    (0x800, "FAN_REPORT_NAME"), (0x1000, "FAN_REPORT_TARGET_FID"), (0x2000, "FAN_REPORT_FD_ERROR"),
    (0x4000, "FAN_REPORT_MNT"),
]);

/// Flags of signalfd4.
#[rustfmt::skip]
pub static SIGNALFD: FlagSet = names("SFD_", &[
    (0o2000000, "SFD_CLOEXEC"), (0o4000, "SFD_NONBLOCK"),
]);
