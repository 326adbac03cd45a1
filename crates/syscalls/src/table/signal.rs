//! Signals.

use super::words::*;
use crate::flags as f;
use crate::handler::Handler;
use crate::layout as l;
use crate::shape::Len::{Arg, Fixed};
use crate::shape::Of::{SigSet, Siginfo};
use crate::shape::{Gives, Ret, Syscall};

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    call(13, "rt_sigaction", SIGNAL, IGNORED, Ret::Int, &[
        sig("signum"), in_struct("act", &l::SIGACTION), out_struct("oldact", &l::SIGACTION), size("sigsetsize")]).handled(Handler::SignalAction).again(ALWAYS),
    call(14, "rt_sigprocmask", SIGNAL, IGNORED, Ret::Int, &[
        one("how", &f::SIG_HOW), input("set", SigSet, Arg(3)), output("oldset", SigSet, Arg(3)), size("sigsetsize")]).handled(Handler::SignalMask).again(ALWAYS),
    call(15, "rt_sigreturn", SIGNAL, IGNORED, Ret::Never, &[]).handled(Handler::SignalReturn).again(ALWAYS),
    call(34, "pause", SIGNAL.or(WAIT), IGNORED, Ret::Int, &[]),
    call(62, "kill", SIGNAL.or(PROCESS), IGNORED, Ret::Int, &[pid("pid"), sig("sig")]),
    call(127, "rt_sigpending", SIGNAL, IGNORED, Ret::Int, &[output("set", SigSet, Arg(1)), size("sigsetsize")]).handled(Handler::SignalPending),
    call(128, "rt_sigtimedwait", SIGNAL.or(WAIT), IGNORED, Ret::Int, &[
        input("set", SigSet, Arg(3)), output("info", Siginfo, Fixed(128)), in_struct("timeout", &l::TIMESPEC), size("sigsetsize")]),
    call(129, "rt_sigqueueinfo", SIGNAL.or(PROCESS), IGNORED, Ret::Int, &[pid("tgid"), sig("sig"), input("info", Siginfo, Fixed(128))]),
    call(130, "rt_sigsuspend", SIGNAL.or(WAIT), IGNORED, Ret::Int, &[input("mask", SigSet, Arg(1)), size("sigsetsize")]).handled(Handler::MaskedWait { mask: 0, in_pair: false }),
    call(131, "sigaltstack", SIGNAL, IGNORED, Ret::Int, &[in_struct("ss", &l::STACK), out_struct("old_ss", &l::STACK)]).handled(Handler::SignalStack).again(ALWAYS),
    call(200, "tkill", SIGNAL.or(PROCESS), IGNORED, Ret::Int, &[pid("tid"), sig("sig")]),
    call(234, "tgkill", SIGNAL.or(PROCESS), IGNORED, Ret::Int, &[pid("tgid"), pid("tid"), sig("sig")]),
    call(282, "signalfd", DESC.or(SIGNAL), SIMULATED, Ret::Fd, &[fd("fd"), input("mask", SigSet, Arg(2)), size("sizemask")]).gives(Gives::SignalQueue),
    call(289, "signalfd4", DESC.or(SIGNAL), SIMULATED, Ret::Fd, &[
        fd("fd"), input("mask", SigSet, Arg(2)), size("sizemask"), bits("flags", &f::SIGNALFD)]).gives(Gives::SignalQueue),
    call(297, "rt_tgsigqueueinfo", SIGNAL.or(PROCESS), IGNORED, Ret::Int, &[
        pid("tgid"), pid("tid"), sig("sig"), input("info", Siginfo, Fixed(128))]),
    call(424, "pidfd_send_signal", DESC.or(SIGNAL).or(PROCESS), IGNORED, Ret::Int, &[
        fd("pidfd"), sig("sig"), input("info", Siginfo, Fixed(128)), bits("flags", &f::PIDFD_SIGNAL)]),
];
