//! Times, timers and clocks.

use super::FieldKind::{Flags, Signed, Struct};
use super::{Layout, field, layout};
use crate::flags as f;

/// Seconds and nanoseconds.
#[rustfmt::skip]
pub static TIMESPEC: Layout = layout("timespec", 16, &[
    field(0, "tv_sec", Signed(8)), field(8, "tv_nsec", Signed(8)),
]);

/// Seconds and microseconds.
#[rustfmt::skip]
pub static TIMEVAL: Layout = layout("timeval", 16, &[
    field(0, "tv_sec", Signed(8)), field(8, "tv_usec", Signed(8)),
]);

/// An interval timer.
#[rustfmt::skip]
pub static ITIMERVAL: Layout = layout("itimerval", 32, &[
    field(0, "it_interval", Struct(&TIMEVAL)), field(16, "it_value", Struct(&TIMEVAL)),
]);

/// A timer.
#[rustfmt::skip]
pub static ITIMERSPEC: Layout = layout("itimerspec", 32, &[
    field(0, "it_interval", Struct(&TIMESPEC)), field(16, "it_value", Struct(&TIMESPEC)),
]);

/// An obsolete time zone.
#[rustfmt::skip]
pub static TIMEZONE: Layout = layout("timezone", 8, &[
    field(0, "tz_minuteswest", Signed(4)), field(4, "tz_dsttime", Signed(4)),
]);

/// Processor times in ticks.
#[rustfmt::skip]
pub static TMS: Layout = layout("tms", 32, &[
    field(0, "tms_utime", Signed(8)), field(8, "tms_stime", Signed(8)),
    field(16, "tms_cutime", Signed(8)), field(24, "tms_cstime", Signed(8)),
]);

/// The state of the clock.
#[rustfmt::skip]
pub static TIMEX: Layout = layout("timex", 208, &[
    field(0, "modes", Flags(4, &f::ADJ)), field(8, "offset", Signed(8)),
    field(16, "freq", Signed(8)), field(24, "maxerror", Signed(8)),
    field(32, "esterror", Signed(8)), field(40, "status", Flags(4, &f::STA)),
    field(48, "constant", Signed(8)), field(56, "precision", Signed(8)),
    field(64, "tolerance", Signed(8)), field(72, "time", Struct(&TIMEVAL)),
    field(88, "tick", Signed(8)), field(96, "ppsfreq", Signed(8)), field(104, "jitter", Signed(8)),
    field(112, "shift", Signed(4)), field(120, "stabil", Signed(8)),
    field(128, "jitcnt", Signed(8)), field(136, "calcnt", Signed(8)),
    field(144, "errcnt", Signed(8)), field(152, "stbcnt", Signed(8)), field(160, "tai", Signed(4)),
]);
