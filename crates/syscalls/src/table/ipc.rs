//! System V and POSIX inter-process communication.

use super::words::*;
use crate::abi::files::O_CREAT;
use crate::act::Act;
use crate::flags as f;
use crate::layout as l;
use crate::shape::Len::{Arg as ByArg, ArgPlus, ArgTimes, Fixed, OfSet, Ret as Result, RetPlus};
use crate::shape::Of::{Bytes, Struct, U32};
use crate::shape::{Arg, Ret, Syscall};

const SHMCTL: Arg = one("cmd", &f::SHMCTL);
const SEMCTL: Arg = one("cmd", &f::SEMCTL);
const MSGCTL: Arg = one("cmd", &f::MSGCTL);

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    call(29, "shmget", IPC, IGNORED, Ret::Int, &[one("key", &f::IPC_KEY), size("size"), bits("shmflg", &f::SHMGET)]),
    call(30, "shmat", IPC.or(MEMORY), IGNORED, Ret::Address, &[int("shmid"), addr("shmaddr"), bits("shmflg", &f::SHMAT)]).does(Act::AttachMemory).again(UNKNOWN),
    family(31, "shmctl", IPC, IGNORED, Ret::Int, &[int("shmid"), SHMCTL, addr("buf")], &[
        when(1, 0, Ret::Int, &[int("shmid"), SHMCTL, addr("buf")]),
        when(1, 1, Ret::Int, &[int("shmid"), SHMCTL, in_struct("buf", &l::SHMID_DS)]),
        when(1, 2, Ret::Int, &[int("shmid"), SHMCTL, out_struct("buf", &l::SHMID_DS)]),
        when(1, 3, Ret::Int, &[int("shmid"), SHMCTL, out_struct("buf", &l::SHMINFO)]),
        when(1, 11, Ret::Int, &[int("shmid"), SHMCTL, addr("buf")]),
        when(1, 12, Ret::Int, &[int("shmid"), SHMCTL, addr("buf")]),
        when(1, 13, Ret::Int, &[int("shmid"), SHMCTL, out_struct("buf", &l::SHMID_DS)]),
        when(1, 14, Ret::Int, &[int("shmid"), SHMCTL, out_struct("buf", &l::SHM_INFO)]),
        when(1, 15, Ret::Int, &[int("shmid"), SHMCTL, out_struct("buf", &l::SHMID_DS)]),
    ]),
    call(64, "semget", IPC, IGNORED, Ret::Int, &[one("key", &f::IPC_KEY), int("nsems"), bits("semflg", &f::IPC_GET)]),
    call(65, "semop", IPC.or(WAIT), IGNORED, Ret::Int, &[int("semid"), input("sops", Struct(&l::SEMBUF), ArgTimes(2, 6)), size("nsops")]),
    // The arrays of GETALL and SETALL are as long as the set, whose size is not an argument: the agent asks for it.
    family(66, "semctl", IPC, IGNORED, Ret::Int, &[int("semid"), int("semnum"), SEMCTL, addr("arg")], &[
        when(2, 0, Ret::Int, &[int("semid"), int("semnum"), SEMCTL]),
        when(2, 1, Ret::Int, &[int("semid"), int("semnum"), SEMCTL, in_struct("arg", &l::SEMID_DS)]),
        when(2, 2, Ret::Int, &[int("semid"), int("semnum"), SEMCTL, out_struct("arg", &l::SEMID_DS)]),
        when(2, 3, Ret::Int, &[int("semid"), int("semnum"), SEMCTL, out_struct("arg", &l::SEMINFO)]),
        when(2, 11, Ret::Int, &[int("semid"), int("semnum"), SEMCTL]),
        when(2, 12, Ret::Int, &[int("semid"), int("semnum"), SEMCTL]),
        when(2, 13, Ret::Int, &[int("semid"), int("semnum"), SEMCTL, output("arg", Struct(&l::SEMVAL), OfSet(0))]),
        when(2, 14, Ret::Int, &[int("semid"), int("semnum"), SEMCTL]),
        when(2, 15, Ret::Int, &[int("semid"), int("semnum"), SEMCTL]),
        when(2, 16, Ret::Int, &[int("semid"), int("semnum"), SEMCTL, int("arg")]),
        when(2, 17, Ret::Int, &[int("semid"), int("semnum"), SEMCTL, input("arg", Struct(&l::SEMVAL), OfSet(0))]),
        when(2, 18, Ret::Int, &[int("semid"), int("semnum"), SEMCTL, out_struct("arg", &l::SEMID_DS)]),
        when(2, 19, Ret::Int, &[int("semid"), int("semnum"), SEMCTL, out_struct("arg", &l::SEMINFO)]),
        when(2, 20, Ret::Int, &[int("semid"), int("semnum"), SEMCTL, out_struct("arg", &l::SEMID_DS)]),
    ]),
    call(67, "shmdt", IPC.or(MEMORY), IGNORED, Ret::Int, &[addr("shmaddr")]).again(UNKNOWN),
    call(68, "msgget", IPC, IGNORED, Ret::Int, &[one("key", &f::IPC_KEY), bits("msgflg", &f::IPC_GET)]),
    call(69, "msgsnd", IPC, IGNORED, Ret::Int, &[int("msqid"), input("msgp", Bytes, ArgPlus(2, 8)), size("msgsz"), bits("msgflg", &f::IPC_MSG)]),
    call(70, "msgrcv", IPC.or(WAIT), IGNORED, Ret::Size, &[
        int("msqid"), output("msgp", Bytes, RetPlus(8)), size("msgsz"), long("msgtyp"), bits("msgflg", &f::IPC_MSG)]),
    family(71, "msgctl", IPC, IGNORED, Ret::Int, &[int("msqid"), MSGCTL, addr("buf")], &[
        when(1, 0, Ret::Int, &[int("msqid"), MSGCTL, addr("buf")]),
        when(1, 1, Ret::Int, &[int("msqid"), MSGCTL, in_struct("buf", &l::MSQID_DS)]),
        when(1, 2, Ret::Int, &[int("msqid"), MSGCTL, out_struct("buf", &l::MSQID_DS)]),
        when(1, 3, Ret::Int, &[int("msqid"), MSGCTL, out_struct("buf", &l::MSGINFO)]),
        when(1, 11, Ret::Int, &[int("msqid"), MSGCTL, out_struct("buf", &l::MSQID_DS)]),
        when(1, 12, Ret::Int, &[int("msqid"), MSGCTL, out_struct("buf", &l::MSGINFO)]),
        when(1, 13, Ret::Int, &[int("msqid"), MSGCTL, out_struct("buf", &l::MSQID_DS)]),
    ]),
    call(220, "semtimedop", IPC.or(WAIT), IGNORED, Ret::Int, &[
        int("semid"), input("sops", Struct(&l::SEMBUF), ArgTimes(2, 6)), size("nsops"), in_struct("timeout", &l::TIMESPEC)]),
    family(240, "mq_open", DESC.or(IPC), SIMULATED, Ret::Fd, &[
        text("name"), bits("oflag", &f::OPEN), mode("mode"), in_struct("attr", &l::MQ_ATTR)], &[
        when_set(1, O_CREAT, Ret::Fd, &[
            text("name"), bits("oflag", &f::OPEN), mode("mode"), in_struct("attr", &l::MQ_ATTR)]),
        otherwise(Ret::Fd, &[text("name"), bits("oflag", &f::OPEN)]),
    ]),
    call(241, "mq_unlink", IPC, SIMULATED, Ret::Int, &[text("name")]),
    call(242, "mq_timedsend", DESC.or(IPC).or(WRITE), SIMULATED, Ret::Int, &[
        target("mqdes"), input("msg_ptr", Bytes, ByArg(2)), count("msg_len"), uint("msg_prio"), in_struct("abs_timeout", &l::TIMESPEC)]),
    call(243, "mq_timedreceive", DESC.or(IPC).or(READ), SIMULATED, Ret::Size, &[
        source("mqdes"), output("msg_ptr", Bytes, Result), count("msg_len"), output("msg_prio", U32, Fixed(4)),
        in_struct("abs_timeout", &l::TIMESPEC)]),
    call(244, "mq_notify", DESC.or(IPC), SIMULATED, Ret::Int, &[fd("mqdes"), in_struct("sevp", &l::SIGEVENT)]),
    call(245, "mq_getsetattr", DESC.or(IPC), SIMULATED, Ret::Int, &[
        fd("mqdes"), in_struct("newattr", &l::MQ_ATTR), out_struct("oldattr", &l::MQ_ATTR)]),
];
