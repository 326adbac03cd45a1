//! The machine as a whole: names, modules, boot, tracing, random numbers.

use super::words::*;
use crate::flags as f;
use crate::layout as l;
use crate::shape::Len::{Arg, ArgTimes, Counted, Ret as Result};
use crate::shape::Of::{Bytes, Struct, Text};
use crate::shape::{Gives, Ret, Syscall};

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    family(16, "ioctl", DESC, SIMULATED, Ret::Int, &[fd("fd"), one("request", &super::ioctl::REQUESTS), addr("argp")], super::ioctl::VARIANTS),
    call(63, "uname", NONE, TIMED, Ret::Int, &[out_struct("buf", &l::UTSNAME)]),
    family(72, "fcntl", DESC, REAL, Ret::Int, &[fd("fd"), one("op", &f::FCNTL), hex("arg")], super::fcntl::VARIANTS),
    call(99, "sysinfo", NONE, TIMED, Ret::Int, &[out_struct("info", &l::SYSINFO)]),
    family(103, "syslog", NONE, IGNORED, Ret::Int, &[one("type", &f::SYSLOG), addr("bufp"), int("len")], &[
        when(0, 2, Ret::Size, &[one("type", &f::SYSLOG), output("bufp", Text, Result), int("len")]),
        when(0, 3, Ret::Size, &[one("type", &f::SYSLOG), output("bufp", Text, Result), int("len")]),
        when(0, 4, Ret::Size, &[one("type", &f::SYSLOG), output("bufp", Text, Result), int("len")]),
        otherwise(Ret::Int, &[one("type", &f::SYSLOG), addr("bufp"), int("len")]),
    ]),
    call(153, "vhangup", NONE, SIMULATED, Ret::Int, &[]),
    family(169, "reboot", NONE, SIMULATED, Ret::Int, &[hex("magic"), hex("magic2"), one("op", &f::REBOOT), addr("arg")], &[
        when(2, 0xa1b2c3d4, Ret::Int, &[hex("magic"), hex("magic2"), one("op", &f::REBOOT), text("arg")]),
        otherwise(Ret::Int, &[hex("magic"), hex("magic2"), one("op", &f::REBOOT), addr("arg")]),
    ]),
    call(170, "sethostname", NONE, SIMULATED, Ret::Int, &[input("name", Text, Arg(1)), size("len")]),
    call(171, "setdomainname", NONE, SIMULATED, Ret::Int, &[input("name", Text, Arg(1)), size("len")]),
    call(172, "iopl", NONE, SIMULATED, Ret::Int, &[int("level")]),
    call(173, "ioperm", NONE, SIMULATED, Ret::Int, &[ulong("from"), ulong("num"), int("turn_on")]),
    call(175, "init_module", NONE, SIMULATED, Ret::Int, &[input("module_image", Bytes, Arg(1)), ulong("len"), text("param_values")]),
    call(176, "delete_module", NONE, SIMULATED, Ret::Int, &[text("name"), bits("flags", &f::OPEN)]),
    call(246, "kexec_load", NONE, SIMULATED, Ret::Int, &[
        hex("entry"), ulong("nr_segments"), input("segments", Struct(&l::KEXEC_SEGMENT), ArgTimes(1, 32)), bits("flags", &f::KEXEC)]),
    call(298, "perf_event_open", DESC, SIMULATED, Ret::Fd, &[
        input("attr", Struct(&l::PERF_EVENT_ATTR), Counted { at: 4, unit: 1, head: 0 }), pid("pid"), int("cpu"), fd("group_fd"),
        bits("flags", &f::PERF)]).gives(Gives::Object("perf_event")),
    call(313, "finit_module", DESC, SIMULATED, Ret::Int, &[fd("fd"), text("param_values"), bits("flags", &f::FINIT_MODULE)]),
    call(318, "getrandom", NONE, TIMED, Ret::Size, &[output("buf", Bytes, Result), size("buflen"), bits("flags", &f::GRND)]),
    call(320, "kexec_file_load", DESC, SIMULATED, Ret::Int, &[
        fd("kernel_fd"), fd("initrd_fd"), ulong("cmdline_len"), input("cmdline", Text, Arg(2)), bits("flags", &f::KEXEC_FILE)]),
    // The kernel writes its answer to the same memory; the layout depends on the command.
    call(321, "bpf", DESC, SIMULATED, Ret::Int, &[one("cmd", &f::BPF), inout("attr", Bytes, Arg(2)), uint("size")]),
    call(335, "uretprobe", NONE, SIMULATED, Ret::Int, &[]),
    call(336, "uprobe", NONE, SIMULATED, Ret::Int, &[]),
];
