//! System V inter-process communication.

use super::names;
use crate::flag_set::FlagSet;

/// Keys that have a name.
#[rustfmt::skip]
pub static IPC_KEY: FlagSet = names("IPC_", &[
    (0, "IPC_PRIVATE"),
]);

/// Flags of semget and msgget; the lowest nine bits are a mode.
#[rustfmt::skip]
pub static IPC_GET: FlagSet = names("IPC_", &[
    (0o1000, "IPC_CREAT"), (0o2000, "IPC_EXCL"),
]);

/// Flags of shmget; the lowest nine bits are a mode.
#[rustfmt::skip]
pub static SHMGET: FlagSet = names("SHM_", &[
    (0o1000, "IPC_CREAT"), (0o2000, "IPC_EXCL"), (0o4000, "SHM_HUGETLB"),
    (0o10000, "SHM_NORESERVE"), (0o36000000000, "SHM_HUGE_1GB"), (0o25000000000, "SHM_HUGE_2MB"),
]);

/// Flags of shmat.
#[rustfmt::skip]
pub static SHMAT: FlagSet = names("SHM_", &[
    (0o10000, "SHM_RDONLY"), (0o20000, "SHM_RND"), (0o40000, "SHM_REMAP"), (0o100000, "SHM_EXEC"),
]);

/// Flags of msgsnd and msgrcv.
#[rustfmt::skip]
pub static IPC_MSG: FlagSet = names("MSG_", &[
    (0o4000, "IPC_NOWAIT"), (0o10000, "MSG_NOERROR"), (0o20000, "MSG_EXCEPT"),
    (0o40000, "MSG_COPY"),
]);

/// Flags of a semaphore operation.
#[rustfmt::skip]
pub static SEM_FLAGS: FlagSet = names("SEM_", &[
    (0o4000, "IPC_NOWAIT"), (0o10000, "SEM_UNDO"),
]);

/// Commands of shmctl.
#[rustfmt::skip]
pub static SHMCTL: FlagSet = names("SHM_", &[
    (0, "IPC_RMID"), (1, "IPC_SET"), (2, "IPC_STAT"), (3, "IPC_INFO"), (11, "SHM_LOCK"),
    (12, "SHM_UNLOCK"), (13, "SHM_STAT"), (14, "SHM_INFO"), (15, "SHM_STAT_ANY"),
]);

/// Commands of semctl.
#[rustfmt::skip]
pub static SEMCTL: FlagSet = names("SEM_", &[
    (0, "IPC_RMID"), (1, "IPC_SET"), (2, "IPC_STAT"), (3, "IPC_INFO"), (11, "GETPID"),
    (12, "GETVAL"), (13, "GETALL"), (14, "GETNCNT"), (15, "GETZCNT"), (16, "SETVAL"),
    (17, "SETALL"), (18, "SEM_STAT"), (19, "SEM_INFO"), (20, "SEM_STAT_ANY"),
]);

/// Commands of msgctl.
#[rustfmt::skip]
pub static MSGCTL: FlagSet = names("MSG_", &[
    (0, "IPC_RMID"), (1, "IPC_SET"), (2, "IPC_STAT"), (3, "IPC_INFO"), (11, "MSG_STAT"),
    (12, "MSG_INFO"), (13, "MSG_STAT_ANY"),
]);
