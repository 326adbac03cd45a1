//! The machine, asynchronous I/O, tracing.

use super::FieldKind::{Array, Enum, Fd, Flags, Hex, Signed, Struct, Text, Unsigned};
use super::{Layout, field, layout};
use crate::flags as f;

/// The names of the system.
#[rustfmt::skip]
pub static UTSNAME: Layout = layout("utsname", 390, &[
    field(0, "sysname", Text(65)), field(65, "nodename", Text(65)),
    field(130, "release", Text(65)), field(195, "version", Text(65)),
    field(260, "machine", Text(65)), field(325, "domainname", Text(65)),
]);

/// Memory and load of the system.
#[rustfmt::skip]
pub static SYSINFO: Layout = layout("sysinfo", 112, &[
    field(0, "uptime", Signed(8)), field(8, "loads", Array(3, &Unsigned(8))),
    field(32, "totalram", Unsigned(8)), field(40, "freeram", Unsigned(8)),
    field(48, "sharedram", Unsigned(8)), field(56, "bufferram", Unsigned(8)),
    field(64, "totalswap", Unsigned(8)), field(72, "freeswap", Unsigned(8)),
    field(80, "procs", Unsigned(2)), field(88, "totalhigh", Unsigned(8)),
    field(96, "freehigh", Unsigned(8)), field(104, "mem_unit", Unsigned(4)),
]);

/// A segment of a kernel to boot.
#[rustfmt::skip]
pub static KEXEC_SEGMENT: Layout = layout("kexec_segment", 32, &[
    field(0, "buf", Hex(8)), field(8, "bufsz", Unsigned(8)), field(16, "mem", Hex(8)),
    field(24, "memsz", Unsigned(8)),
]);

/// Attributes of a performance event.
#[rustfmt::skip]
pub static PERF_EVENT_ATTR: Layout = layout("perf_event_attr", 136, &[
    field(0, "type", Enum(4, &f::PERF_TYPE)), field(4, "size", Unsigned(4)),
    field(8, "config", Hex(8)), field(16, "sample_period", Unsigned(8)),
    field(24, "sample_type", Flags(8, &f::PERF_SAMPLE)),
    field(32, "read_format", Flags(8, &f::PERF_READ)), field(40, "flags", Hex(8)),
    field(48, "wakeup_events", Unsigned(4)), field(52, "bp_type", Hex(4)),
    field(56, "config1", Hex(8)), field(64, "config2", Hex(8)),
    field(72, "branch_sample_type", Hex(8)), field(80, "sample_regs_user", Hex(8)),
    field(88, "sample_stack_user", Unsigned(4)), field(92, "clockid", Enum(4, &f::CLOCK)),
    field(96, "sample_regs_intr", Hex(8)), field(104, "aux_watermark", Unsigned(4)),
    field(108, "sample_max_stack", Unsigned(2)), field(112, "aux_sample_size", Unsigned(4)),
    field(120, "sig_data", Hex(8)), field(128, "config3", Hex(8)),
]);

/// A finished operation of AIO.
#[rustfmt::skip]
pub static IO_EVENT: Layout = layout("io_event", 32, &[
    field(0, "data", Hex(8)), field(8, "obj", Hex(8)), field(16, "res", Signed(8)),
    field(24, "res2", Signed(8)),
]);

/// A request of AIO.
#[rustfmt::skip]
pub static IOCB: Layout = layout("iocb", 64, &[
    field(0, "aio_data", Hex(8)), field(8, "aio_key", Hex(4)),
    field(12, "aio_rw_flags", Flags(4, &f::RWF)),
    field(16, "aio_lio_opcode", Enum(2, &f::IOCB_CMD)), field(18, "aio_reqprio", Signed(2)),
    field(20, "aio_fildes", Fd), field(24, "aio_buf", Hex(8)),
    field(32, "aio_nbytes", Unsigned(8)), field(40, "aio_offset", Signed(8)),
    field(56, "aio_flags", Hex(4)), field(60, "aio_resfd", Unsigned(4)),
]);

/// An entry of the submission queue of a ring. Many fields have other names in other operations.
#[rustfmt::skip]
pub static IO_URING_SQE: Layout = layout("io_uring_sqe", 64, &[
    field(0, "opcode", Unsigned(1)), field(1, "flags", Flags(1, &f::IOSQE)),
    field(2, "ioprio", Hex(2)), field(4, "fd", Signed(4)), field(8, "off", Hex(8)),
    field(16, "addr", Hex(8)), field(24, "len", Unsigned(4)), field(28, "op_flags", Hex(4)),
    field(32, "user_data", Hex(8)), field(40, "buf_index", Unsigned(2)),
    field(42, "personality", Unsigned(2)), field(44, "file_index", Signed(4)),
    field(48, "addr3", Hex(8)), field(56, "optval", Hex(8)),
]);

/// Offsets in the submission ring.
#[rustfmt::skip]
pub static IO_SQRING_OFFSETS: Layout = layout("io_sqring_offsets", 40, &[
    field(0, "head", Unsigned(4)), field(4, "tail", Unsigned(4)),
    field(8, "ring_mask", Unsigned(4)), field(12, "ring_entries", Unsigned(4)),
    field(16, "flags", Unsigned(4)), field(20, "dropped", Unsigned(4)),
    field(24, "array", Unsigned(4)), field(32, "user_addr", Hex(8)),
]);

/// Offsets in the completion ring.
#[rustfmt::skip]
pub static IO_CQRING_OFFSETS: Layout = layout("io_cqring_offsets", 40, &[
    field(0, "head", Unsigned(4)), field(4, "tail", Unsigned(4)),
    field(8, "ring_mask", Unsigned(4)), field(12, "ring_entries", Unsigned(4)),
    field(16, "overflow", Unsigned(4)), field(20, "cqes", Unsigned(4)),
    field(24, "flags", Unsigned(4)), field(32, "user_addr", Hex(8)),
]);

/// Parameters of io_uring_setup.
#[rustfmt::skip]
pub static IO_URING_PARAMS: Layout = layout("io_uring_params", 120, &[
    field(0, "sq_entries", Unsigned(4)), field(4, "cq_entries", Unsigned(4)),
    field(8, "flags", Flags(4, &f::URING_SETUP)), field(12, "sq_thread_cpu", Unsigned(4)),
    field(16, "sq_thread_idle", Unsigned(4)), field(20, "features", Flags(4, &f::URING_FEAT)),
    field(24, "wq_fd", Unsigned(4)), field(40, "sq_off", Struct(&IO_SQRING_OFFSETS)),
    field(80, "cq_off", Struct(&IO_CQRING_OFFSETS)),
]);

/// Timeout and signal mask of io_uring_enter.
#[rustfmt::skip]
pub static IO_URING_GETEVENTS_ARG: Layout = layout("io_uring_getevents_arg", 24, &[
    field(0, "sigmask", Hex(8)), field(8, "sigmask_sz", Unsigned(4)),
    field(12, "min_wait_usec", Unsigned(4)), field(16, "ts", Hex(8)),
]);

/// An update of registered resources.
#[rustfmt::skip]
pub static IO_URING_RSRC_UPDATE: Layout = layout("io_uring_rsrc_update", 16, &[
    field(0, "offset", Unsigned(4)), field(8, "data", Hex(8)),
]);
