//! Clocks, timers and sleeping.

use super::words::*;
use crate::flags as f;
use crate::layout as l;
use crate::shape::Len::Fixed;
use crate::shape::Of::{I32, I64};
use crate::shape::{Gives, Ret, Syscall};

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    call(35, "nanosleep", CLOCK.or(WAIT), IGNORED, Ret::Int, &[in_struct("req", &l::TIMESPEC), error_struct("rem", &l::TIMESPEC)]),
    call(36, "getitimer", CLOCK, TIMED, Ret::Int, &[one("which", &f::ITIMER), out_struct("curr_value", &l::ITIMERVAL)]),
    call(37, "alarm", CLOCK, IGNORED, Ret::Int, &[uint("seconds")]),
    call(38, "setitimer", CLOCK, IGNORED, Ret::Int, &[
        one("which", &f::ITIMER), in_struct("new_value", &l::ITIMERVAL), out_struct("old_value", &l::ITIMERVAL)]),
    call(96, "gettimeofday", CLOCK, TIMED_UNLESS_ASIDE, Ret::Int, &[out_struct("tv", &l::TIMEVAL), out_struct("tz", &l::TIMEZONE)]),
    call(159, "adjtimex", CLOCK, IGNORED, Ret::Int, &[inout_struct("buf", &l::TIMEX)]),
    call(164, "settimeofday", CLOCK, IGNORED, Ret::Int, &[in_struct("tv", &l::TIMEVAL), in_struct("tz", &l::TIMEZONE)]),
    call(201, "time", CLOCK, TIMED_UNLESS_ASIDE, Ret::Int, &[output("tloc", I64, Fixed(8))]),
    call(222, "timer_create", CLOCK, IGNORED, Ret::Int, &[
        one("clockid", &f::CLOCK), in_struct("sevp", &l::SIGEVENT), output("timerid", I32, Fixed(4))]),
    call(223, "timer_settime", CLOCK, IGNORED, Ret::Int, &[
        int("timerid"), bits("flags", &f::TIMER), in_struct("new_value", &l::ITIMERSPEC), out_struct("old_value", &l::ITIMERSPEC)]),
    call(224, "timer_gettime", CLOCK, IGNORED, Ret::Int, &[int("timerid"), out_struct("curr_value", &l::ITIMERSPEC)]),
    call(225, "timer_getoverrun", CLOCK, IGNORED, Ret::Int, &[int("timerid")]),
    call(226, "timer_delete", CLOCK, IGNORED, Ret::Int, &[int("timerid")]),
    call(227, "clock_settime", CLOCK, IGNORED, Ret::Int, &[one("clockid", &f::CLOCK), in_struct("tp", &l::TIMESPEC)]),
    call(228, "clock_gettime", CLOCK, TIMED_UNLESS_ASIDE, Ret::Int, &[one("clockid", &f::CLOCK), out_struct("tp", &l::TIMESPEC)]),
    call(229, "clock_getres", CLOCK, TIMED, Ret::Int, &[one("clockid", &f::CLOCK), out_struct("res", &l::TIMESPEC)]),
    call(230, "clock_nanosleep", CLOCK.or(WAIT), IGNORED, Ret::Int, &[
        one("clockid", &f::CLOCK), bits("flags", &f::TIMER), in_struct("request", &l::TIMESPEC), error_struct("remain", &l::TIMESPEC)]),
    call(283, "timerfd_create", CLOCK.or(DESC), SIMULATED, Ret::Fd, &[one("clockid", &f::CLOCK), bits("flags", &f::TIMERFD)]).gives(Gives::Object("timerfd")),
    call(286, "timerfd_settime", CLOCK.or(DESC), IGNORED, Ret::Int, &[
        fd("fd"), bits("flags", &f::TIMERFD_SET), in_struct("new_value", &l::ITIMERSPEC), out_struct("old_value", &l::ITIMERSPEC)]),
    call(287, "timerfd_gettime", CLOCK.or(DESC), IGNORED, Ret::Int, &[fd("fd"), out_struct("curr_value", &l::ITIMERSPEC)]),
    call(305, "clock_adjtime", CLOCK, IGNORED, Ret::Int, &[one("clockid", &f::CLOCK), inout_struct("buf", &l::TIMEX)]),
];
