//! System V and POSIX inter-process communication.

use super::FieldKind::{Flags, Hex, Mode, Signed, Struct, Unsigned};
use super::{Layout, field, layout};
use crate::flags as f;

/// Owner and permissions of an object.
#[rustfmt::skip]
pub static IPC_PERM: Layout = layout("ipc_perm", 48, &[
    field(0, "key", Hex(4)), field(4, "uid", Unsigned(4)), field(8, "gid", Unsigned(4)),
    field(12, "cuid", Unsigned(4)), field(16, "cgid", Unsigned(4)), field(20, "mode", Mode(4)),
    field(24, "seq", Unsigned(2)),
]);

/// A shared memory segment.
#[rustfmt::skip]
pub static SHMID_DS: Layout = layout("shmid_ds", 112, &[
    field(0, "shm_perm", Struct(&IPC_PERM)), field(48, "shm_segsz", Unsigned(8)),
    field(56, "shm_atime", Signed(8)), field(64, "shm_dtime", Signed(8)),
    field(72, "shm_ctime", Signed(8)), field(80, "shm_cpid", Signed(4)),
    field(84, "shm_lpid", Signed(4)), field(88, "shm_nattch", Unsigned(8)),
]);

/// Limits of shared memory.
#[rustfmt::skip]
pub static SHMINFO: Layout = layout("shminfo", 72, &[
    field(0, "shmmax", Unsigned(8)), field(8, "shmmin", Unsigned(8)),
    field(16, "shmmni", Unsigned(8)), field(24, "shmseg", Unsigned(8)),
    field(32, "shmall", Unsigned(8)),
]);

/// Shared memory in use.
#[rustfmt::skip]
pub static SHM_INFO: Layout = layout("shm_info", 48, &[
    field(0, "used_ids", Signed(4)), field(8, "shm_tot", Unsigned(8)),
    field(16, "shm_rss", Unsigned(8)), field(24, "shm_swp", Unsigned(8)),
    field(32, "swap_attempts", Unsigned(8)), field(40, "swap_successes", Unsigned(8)),
]);

/// A semaphore operation.
#[rustfmt::skip]
pub static SEMBUF: Layout = layout("sembuf", 6, &[
    field(0, "sem_num", Unsigned(2)), field(2, "sem_op", Signed(2)),
    field(4, "sem_flg", Flags(2, &f::SEM_FLAGS)),
]);

/// A set of semaphores.
#[rustfmt::skip]
pub static SEMID_DS: Layout = layout("semid_ds", 104, &[
    field(0, "sem_perm", Struct(&IPC_PERM)), field(48, "sem_otime", Signed(8)),
    field(64, "sem_ctime", Signed(8)), field(80, "sem_nsems", Unsigned(8)),
]);

/// The value of one of several semaphores.
#[rustfmt::skip]
pub static SEMVAL: Layout = layout("semval", 2, &[field(0, "semval", Unsigned(2))]);

/// Limits of semaphores.
#[rustfmt::skip]
pub static SEMINFO: Layout = layout("seminfo", 40, &[
    field(0, "semmap", Signed(4)), field(4, "semmni", Signed(4)), field(8, "semmns", Signed(4)),
    field(12, "semmnu", Signed(4)), field(16, "semmsl", Signed(4)), field(20, "semopm", Signed(4)),
    field(24, "semume", Signed(4)), field(28, "semusz", Signed(4)), field(32, "semvmx", Signed(4)),
    field(36, "semaem", Signed(4)),
]);

/// A message queue.
#[rustfmt::skip]
pub static MSQID_DS: Layout = layout("msqid_ds", 120, &[
    field(0, "msg_perm", Struct(&IPC_PERM)), field(48, "msg_stime", Signed(8)),
    field(56, "msg_rtime", Signed(8)), field(64, "msg_ctime", Signed(8)),
    field(72, "msg_cbytes", Unsigned(8)), field(80, "msg_qnum", Unsigned(8)),
    field(88, "msg_qbytes", Unsigned(8)), field(96, "msg_lspid", Signed(4)),
    field(100, "msg_lrpid", Signed(4)),
]);

/// Limits of message queues.
#[rustfmt::skip]
pub static MSGINFO: Layout = layout("msginfo", 32, &[
    field(0, "msgpool", Signed(4)), field(4, "msgmap", Signed(4)), field(8, "msgmax", Signed(4)),
    field(12, "msgmnb", Signed(4)), field(16, "msgmni", Signed(4)), field(20, "msgssz", Signed(4)),
    field(24, "msgtql", Signed(4)), field(28, "msgseg", Unsigned(2)),
]);

/// A POSIX message queue.
#[rustfmt::skip]
pub static MQ_ATTR: Layout = layout("mq_attr", 64, &[
    field(0, "mq_flags", Flags(8, &f::OPEN_CREATED)), field(8, "mq_maxmsg", Signed(8)),
    field(16, "mq_msgsize", Signed(8)), field(24, "mq_curmsgs", Signed(8)),
]);
