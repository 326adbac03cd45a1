//! Processes and threads: life cycle, scheduling, limits.

use super::words::*;
use crate::abi::tasks::{CLONE_PARENT_SETTID, CLONE_PIDFD, P_PIDFD, RLIMIT_FSIZE, RLIMIT_NOFILE};
use crate::act::Act;
use crate::flags as f;
use crate::handler::Handler;
use crate::layout as l;
use crate::shape::Len::{
    Arg as ByArg, ArgTimes, Fixed, FixedIfRet, Ret as Result, RetAtMost, SelfSized,
};
use crate::shape::Of::{Bits, Fds, I32, Siginfo, Struct, U32, U64, WaitStatus};
use crate::shape::{Arg, Behind, Gives, Ret, Syscall};

/// Where clone3 stores the descriptor of the new process.
const PIDFD_OF_CLONE: Behind = Behind { at: 8, bit: CLONE_PIDFD.trailing_zeros() as u8 };

const SETRLIMIT: &[Arg] = &[one("resource", &f::RLIMIT), in_struct("rlim", &l::RLIMIT)];
const PRLIMIT: &[Arg] = &[
    pid("pid"),
    one("resource", &f::RLIMIT),
    in_struct("new_limit", &l::RLIMIT),
    out_struct("old_limit", &l::RLIMIT),
];

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    call(24, "sched_yield", NONE, IGNORED, Ret::Int, &[]),
    call(39, "getpid", NONE, TIMED, Ret::Pid, &[]),
    // The use of parent_tid depends on the flags. child_tid is written in the child's memory.
    family(56, "clone", PROCESS, TASK, Ret::Pid, &[
        bits("flags", &f::CLONE), addr("stack"), addr("parent_tid"), addr("child_tid"), hex("tls")], &[
        when_set(0, CLONE_PIDFD, Ret::Pid, &[
            bits("flags", &f::CLONE), addr("stack"), output("parent_tid", Fds, Fixed(4)), addr("child_tid"), hex("tls")]),
        when_set(0, CLONE_PARENT_SETTID, Ret::Pid, &[
            bits("flags", &f::CLONE), addr("stack"), output("parent_tid", I32, Fixed(4)), addr("child_tid"), hex("tls")]),
        otherwise(Ret::Pid, &[
            bits("flags", &f::CLONE), addr("stack"), addr("parent_tid"), addr("child_tid"), hex("tls")]),
    ]).does(Act::Spawn).gives(Gives::Object("pidfd")).until_exec().handled(Handler::Clone).again(BORN),
    call(57, "fork", PROCESS, TASK, Ret::Pid, &[]).does(Act::Spawn).handled(Handler::Fork).again(BORN),
    call(58, "vfork", PROCESS, TASK, Ret::Pid, &[]).does(Act::Spawn).handled(Handler::Vfork).again(BORN),
    call(59, "execve", FILE.or(PROCESS), TASK, Ret::Never, &[path("pathname"), texts("argv"), environment("envp")]).does(Act::Execute).handled(Handler::Exec).again(MADE),
    call(60, "exit", PROCESS, TASK, Ret::Never, &[int("status")]).handled(Handler::ExitThread).again(MADE),
    call(61, "wait4", PROCESS.or(WAIT), IGNORED, Ret::Pid, &[
        pid("pid"), output("wstatus", WaitStatus, FixedIfRet(4)), bits("options", &f::WAIT),
        output("rusage", Struct(&l::RUSAGE), FixedIfRet(l::RUSAGE.size))]).does(Act::Reap),
    family(101, "ptrace", NONE, SIMULATED, Ret::Int, &[one("op", &f::PTRACE), pid("pid"), addr("addr"), addr("data")], super::ptrace::VARIANTS).handled(Handler::Trace).again(UNKNOWN),
    call(109, "setpgid", NONE, IGNORED, Ret::Int, &[process("pid"), process_group("pgid")]).does(Act::SetProcessGroup),
    call(110, "getppid", NONE, TIMED, Ret::Pid, &[]).does(Act::TellParent),
    call(111, "getpgrp", NONE, TIMED, Ret::Pid, &[]).does(Act::TellProcessGroup),
    call(112, "setsid", NONE, IGNORED, Ret::Pid, &[]).does(Act::StartSession),
    call(121, "getpgid", NONE, TIMED, Ret::Pid, &[process("pid")]).does(Act::TellProcessGroup),
    call(124, "getsid", NONE, TIMED, Ret::Pid, &[process("pid")]).does(Act::TellSession),
    family(135, "personality", NONE, IGNORED, Ret::Hex, &[bits("persona", &f::PERSONALITY)], &[
        when(0, 0xffff_ffff, Ret::Hex, &[hex("persona")]),
        otherwise(Ret::Hex, &[bits("persona", &f::PERSONALITY)]),
    ]),
    family(157, "prctl", CREDS, IGNORED, Ret::Int, &[
        one("op", &f::PRCTL), hex("arg2"), hex("arg3"), hex("arg4"), hex("arg5")], super::prctl::VARIANTS).handled(Handler::Prctl),
    call(186, "gettid", NONE, TIMED, Ret::Pid, &[]),
    call(218, "set_tid_address", NONE, IGNORED, Ret::Pid, &[addr("tidptr")]),
    call(231, "exit_group", PROCESS, TASK, Ret::Never, &[int("status")]).does(Act::EndProcess).handled(Handler::ExitProcess).again(MADE),
    family(247, "waitid", PROCESS.or(WAIT), IGNORED, Ret::Int, &[
        one("idtype", &f::WAITID), pid("id"), output("infop", Siginfo, Fixed(128)), bits("options", &f::WAIT),
        out_struct("rusage", &l::RUSAGE)], &[
        when(0, P_PIDFD, Ret::Int, &[
            one("idtype", &f::WAITID), fd("id"), output("infop", Siginfo, Fixed(128)), bits("options", &f::WAIT),
            out_struct("rusage", &l::RUSAGE)]),
        otherwise(Ret::Int, &[
            one("idtype", &f::WAITID), pid("id"), output("infop", Siginfo, Fixed(128)), bits("options", &f::WAIT),
            out_struct("rusage", &l::RUSAGE)]),
    ]).does(Act::Reap),
    call(272, "unshare", NONE, TASK, Ret::Int, &[bits("flags", &f::CLONE_NAMESPACES)]).does(Act::Unshare),
    call(308, "setns", DESC, SIMULATED, Ret::Int, &[fd("fd"), bits("nstype", &f::CLONE_NAMESPACES)]).does(Act::EnterNamespace),
    call(470, "listns", NONE, IGNORED, Ret::Int, &[
        in_sized("req", &l::NS_ID_REQ, SelfSized), output("ns_ids", U64, RetAtMost(2, 8)), size("nr_ns_ids"),
        bits("flags", &f::NO_FLAGS)]),
    call(312, "kcmp", NONE, IGNORED, Ret::Int, &[pid("pid1"), pid("pid2"), one("type", &f::KCMP), hex("idx1"), hex("idx2")]),
    call(322, "execveat", FILE.or(DESC).or(PROCESS), TASK, Ret::Never, &[
        dirfd("dirfd"), path("pathname"), texts("argv"), environment("envp"), bits("flags", &f::AT_EXEC)]).does(Act::Execute).handled(Handler::ExecAt).again(MADE),
    call(434, "pidfd_open", DESC, SIMULATED, Ret::Fd, &[pid("pid"), bits("flags", &f::PIDFD)]).gives(Gives::Process).until_exec(),
    call(435, "clone3", PROCESS, TASK, Ret::Pid, &[in_sized("cl_args", &l::CLONE_ARGS, ByArg(1)), size("size")]).does(Act::Spawn).gives(Gives::ObjectBehind("pidfd", PIDFD_OF_CLONE)).until_exec().handled(Handler::CloneByStruct).again(BORN),
    call(438, "pidfd_getfd", DESC, SIMULATED, Ret::Fd, &[fd("pidfd"), int("targetfd"), bits("flags", &f::NO_FLAGS)]).does(Act::TakeDescriptor).until_exec(),

    // Scheduling.
    call(140, "getpriority", NONE, TIMED, Ret::Int, &[one("which", &f::PRIO), int("who")]),
    call(141, "setpriority", NONE, IGNORED, Ret::Int, &[one("which", &f::PRIO), int("who"), int("prio")]),
    call(142, "sched_setparam", NONE, IGNORED, Ret::Int, &[pid("pid"), in_struct("param", &l::SCHED_PARAM)]),
    call(143, "sched_getparam", NONE, TIMED, Ret::Int, &[pid("pid"), out_struct("param", &l::SCHED_PARAM)]),
    call(144, "sched_setscheduler", NONE, IGNORED, Ret::Int, &[pid("pid"), bits("policy", &f::SCHED), in_struct("param", &l::SCHED_PARAM)]),
    call(145, "sched_getscheduler", NONE, TIMED, Ret::Int, &[pid("pid")]),
    call(146, "sched_get_priority_max", NONE, TIMED, Ret::Int, &[bits("policy", &f::SCHED)]),
    call(147, "sched_get_priority_min", NONE, TIMED, Ret::Int, &[bits("policy", &f::SCHED)]),
    call(148, "sched_rr_get_interval", NONE, TIMED, Ret::Int, &[pid("pid"), out_struct("tp", &l::TIMESPEC)]),
    call(203, "sched_setaffinity", NONE, IGNORED, Ret::Int, &[pid("pid"), size("cpusetsize"), input("mask", Bits, ByArg(1))]),
    call(204, "sched_getaffinity", NONE, TIMED, Ret::Size, &[pid("pid"), size("cpusetsize"), output("mask", Bits, Result)]),
    call(251, "ioprio_set", NONE, IGNORED, Ret::Int, &[one("which", &f::IOPRIO_WHO), int("who"), bits("ioprio", &f::IOPRIO)]),
    call(252, "ioprio_get", NONE, TIMED, Ret::Hex, &[one("which", &f::IOPRIO_WHO), int("who")]),
    call(309, "getcpu", NONE, TIMED_UNLESS_ASIDE, Ret::Int, &[output("cpu", U32, Fixed(4)), output("node", U32, Fixed(4)), addr("tcache")]),
    call(314, "sched_setattr", NONE, IGNORED, Ret::Int, &[
        pid("pid"), input("attr", Struct(&l::SCHED_ATTR), SelfSized), bits("flags", &f::NO_FLAGS)]),
    call(315, "sched_getattr", NONE, IGNORED, Ret::Int, &[
        pid("pid"), output("attr", Struct(&l::SCHED_ATTR), ByArg(2)), uint("size"), bits("flags", &f::NO_FLAGS)]),

    // Limits and usage.
    call(97, "getrlimit", NONE, TIMED, Ret::Int, &[one("resource", &f::RLIMIT), out_struct("rlim", &l::RLIMIT)]),
    call(98, "getrusage", NONE, TIMED, Ret::Int, &[one("who", &f::RUSAGE), out_struct("usage", &l::RUSAGE)]),
    call(100, "times", NONE, TIMED, Ret::Int, &[out_struct("buf", &l::TMS)]),
    family(160, "setrlimit", NONE, IGNORED, Ret::Int, SETRLIMIT, &[
        when(0, RLIMIT_FSIZE, Ret::Int, SETRLIMIT).replayed(REAL),
        when(0, RLIMIT_NOFILE, Ret::Int, SETRLIMIT).replayed(REAL),
        otherwise(Ret::Int, SETRLIMIT),
    ]),
    family(302, "prlimit64", NONE, IGNORED, Ret::Int, PRLIMIT, &[
        when(1, RLIMIT_FSIZE, Ret::Int, PRLIMIT).replayed(REAL),
        when(1, RLIMIT_NOFILE, Ret::Int, PRLIMIT).replayed(REAL),
        otherwise(Ret::Int, PRLIMIT),
    ]),

    // Between threads.
    family(202, "futex", WAIT, IGNORED, Ret::Int, &[
        input("uaddr", U32, Fixed(4)), bits("futex_op", &f::FUTEX), uint("val"), addr("timeout"), addr("uaddr2"), hex("val3")],
        super::futex::VARIANTS),
    call(219, "restart_syscall", NONE, IGNORED, Ret::Int, &[]),
    call(273, "set_robust_list", NONE, IGNORED, Ret::Int, &[in_sized("head", &l::ROBUST_LIST_HEAD, ByArg(1)), size("len")]),
    call(274, "get_robust_list", NONE, IGNORED, Ret::Int, &[
        pid("pid"), output("head_ptr", U64, Fixed(8)), output("len_ptr", U64, Fixed(8))]),
    call(324, "membarrier", NONE, IGNORED, Ret::Int, &[one("cmd", &f::MEMBARRIER), bits("flags", &f::MEMBARRIER_FLAGS), int("cpu_id")]),
    call(334, "rseq", NONE, IGNORED, Ret::Int, &[in_sized("rseq", &l::RSEQ, ByArg(1)), uint("rseq_len"), bits("flags", &f::RSEQ), hex("sig")]).handled(Handler::RegisterArea),
    call(449, "futex_waitv", WAIT, IGNORED, Ret::Int, &[
        input("waiters", Struct(&l::FUTEX_WAITV), ArgTimes(1, 24)), uint("nr_futexes"), bits("flags", &f::NO_FLAGS),
        in_struct("timeout", &l::TIMESPEC), one("clockid", &f::CLOCK)]),
    call(454, "futex_wake", NONE, IGNORED, Ret::Int, &[addr("uaddr"), hex("mask"), int("nr"), bits("flags", &f::FUTEX2)]),
    call(455, "futex_wait", WAIT, IGNORED, Ret::Int, &[
        input("uaddr", U32, Fixed(4)), ulong("val"), hex("mask"), bits("flags", &f::FUTEX2),
        in_struct("timeout", &l::TIMESPEC), one("clockid", &f::CLOCK)]),
    call(456, "futex_requeue", NONE, IGNORED, Ret::Int, &[
        input("waiters", Struct(&l::FUTEX_WAITV), Fixed(48)), bits("flags", &f::NO_FLAGS), int("nr_wake"), int("nr_requeue")]),
];
