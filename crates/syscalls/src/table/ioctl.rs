//! Variants of ioctl.

use super::words::*;
use crate::act::Act;
use crate::flags as f;
use crate::flags::OTHER_REQUESTS;
use crate::layout as l;
use crate::shape::Len::{Counted, Fixed};
use crate::shape::Of::{Bytes, I32, Struct, Text, U64};
use crate::shape::{Arg, FlagSet, Ret, Variant};

const fn request(number: u64, name: &'static str, args: &'static [Arg]) -> Variant {
    when(1, number, Ret::Int, args).named(name)
}

const REQUEST: Arg = one("request", &REQUESTS);
const BARE: &[Arg] = &[fd("fd"), REQUEST];
const NUMBER: &[Arg] = &[fd("fd"), REQUEST, long("arg")];
const GIVES_INT: &[Arg] = &[fd("fd"), REQUEST, input("argp", I32, Fixed(4))];
const GETS_INT: &[Arg] = &[fd("fd"), REQUEST, output("argp", I32, Fixed(4))];
const GIVES_U64: &[Arg] = &[fd("fd"), REQUEST, input("argp", U64, Fixed(8))];
const GETS_U64: &[Arg] = &[fd("fd"), REQUEST, output("argp", U64, Fixed(8))];

/// A request without an argument.
const fn bare(number: u64, name: &'static str) -> Variant {
    request(number, name, BARE)
}

/// A request whose argument is a number.
const fn number(number: u64, name: &'static str) -> Variant {
    request(number, name, NUMBER)
}

/// The kernel reads a 32-bit number.
const fn gives_int(number: u64, name: &'static str) -> Variant {
    request(number, name, GIVES_INT)
}

/// The kernel writes a 32-bit number.
const fn gets_int(number: u64, name: &'static str) -> Variant {
    request(number, name, GETS_INT)
}

/// The kernel reads a 64-bit number.
const fn gives_u64(number: u64, name: &'static str) -> Variant {
    request(number, name, GIVES_U64)
}

/// The kernel writes a 64-bit number.
const fn gets_u64(number: u64, name: &'static str) -> Variant {
    request(number, name, GETS_U64)
}

/// Variants by request.
#[rustfmt::skip]
pub static VARIANTS: &[Variant] = &[
    // Terminals.
    request(0x5401, "TCGETS", &[fd("fd"), REQUEST, out_struct("argp", &l::TERMIOS)]),
    request(0x5402, "TCSETS", &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIOS)]),
    request(0x5403, "TCSETSW", &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIOS)]),
    request(0x5404, "TCSETSF", &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIOS)]),
    request(0x5405, "TCGETA", &[fd("fd"), REQUEST, out_struct("argp", &l::TERMIO)]),
    request(0x5406, "TCSETA", &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIO)]),
    request(0x5407, "TCSETAW", &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIO)]),
    request(0x5408, "TCSETAF", &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIO)]),
    number(0x5409, "TCSBRK"),
    number(0x540a, "TCXONC"),
    number(0x540b, "TCFLSH"),
    bare(0x540c, "TIOCEXCL"),
    bare(0x540d, "TIOCNXCL"),
    number(0x540e, "TIOCSCTTY"),
    gets_int(0x540f, "TIOCGPGRP"),
    gives_int(0x5410, "TIOCSPGRP"),
    gets_int(0x5411, "TIOCOUTQ"),
    request(0x5412, "TIOCSTI", &[fd("fd"), REQUEST, input("argp", Bytes, Fixed(1))]),
    request(0x5413, "TIOCGWINSZ", &[fd("fd"), REQUEST, out_struct("argp", &l::WINSIZE)]),
    request(0x5414, "TIOCSWINSZ", &[fd("fd"), REQUEST, in_struct("argp", &l::WINSIZE)]),
    gets_int(0x5415, "TIOCMGET"),
    gives_int(0x5416, "TIOCMBIS"),
    gives_int(0x5417, "TIOCMBIC"),
    gives_int(0x5418, "TIOCMSET"),
    gets_int(0x5419, "TIOCGSOFTCAR"),
    gives_int(0x541a, "TIOCSSOFTCAR"),
    gets_int(0x541b, "FIONREAD").replayed(REAL).does(Act::TellQueued),
    bare(0x541d, "TIOCCONS"),
    gives_int(0x5420, "TIOCPKT"),
    gives_int(0x5421, "FIONBIO").replayed(REAL).beside(BESIDE),
    bare(0x5422, "TIOCNOTTY"),
    gives_int(0x5423, "TIOCSETD"),
    gets_int(0x5424, "TIOCGETD"),
    number(0x5425, "TCSBRKP"),
    bare(0x5427, "TIOCSBRK"),
    bare(0x5428, "TIOCCBRK"),
    gets_int(0x5429, "TIOCGSID"),
    request(0x802c542a, "TCGETS2", &[fd("fd"), REQUEST, out_struct("argp", &l::TERMIOS2)]),
    request(0x402c542b, "TCSETS2", &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIOS2)]),
    request(0x402c542c, "TCSETSW2", &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIOS2)]),
    request(0x402c542d, "TCSETSF2", &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIOS2)]),
    gets_int(0x80045430, "TIOCGPTN"),
    gives_int(0x40045431, "TIOCSPTLCK"),
    gets_int(0x80045432, "TIOCGDEV"),
    number(0x40045436, "TIOCSIG"),
    bare(0x5437, "TIOCVHANGUP"),
    gets_int(0x80045438, "TIOCGPKT"),
    gets_int(0x80045439, "TIOCGPTLCK"),
    gets_int(0x80045440, "TIOCGEXCL"),
    when(1, 0x5441, Ret::Fd, &[fd("fd"), REQUEST, bits("flags", &f::OPEN)]).named("TIOCGPTPEER"),
    // Any descriptor.
    bare(0x5450, "FIONCLEX").replayed(NUMBERS).does(Act::ClearCloseOnExec),
    bare(0x5451, "FIOCLEX").replayed(NUMBERS).does(Act::SetCloseOnExec),
    gives_int(0x5452, "FIOASYNC"),
    // Of a file, the bytes that its file system has allocated by then.
    gets_u64(0x5460, "FIOQSIZE"),
    // Files and file systems.
    request(0x1, "FIBMAP", &[fd("fd"), REQUEST, inout("argp", I32, Fixed(4))]),
    gets_int(0x2, "FIGETBSZ"),
    bare(0xc0045877, "FIFREEZE"),
    bare(0xc0045878, "FITHAW"),
    request(0xc0185879, "FITRIM", &[fd("fd"), REQUEST, inout_struct("argp", &l::FSTRIM_RANGE)]),
    request(0x40049409, "FICLONE", &[target("fd"), REQUEST, source("src_fd")]).replayed(REAL).does(Act::CloneFile),
    request(0x4020940d, "FICLONERANGE", &[target("fd"), REQUEST, in_struct("argp", &l::FILE_CLONE_RANGE)]).replayed(REAL).does(Act::CloneRange),
    request(0xc0189436, "FIDEDUPERANGE", &[fd("fd"), REQUEST, inout("argp", Struct(&l::FILE_DEDUPE_RANGE), Counted { at: 16, unit: 32, head: 24 })]).replayed(REAL),
    request(0xc020660b, "FS_IOC_FIEMAP", &[fd("fd"), REQUEST, inout("argp", Struct(&l::FIEMAP), Counted { at: 24, unit: 56, head: 32 }).head_goes_in()]),
    request(0x80086601, "FS_IOC_GETFLAGS", &[fd("fd"), REQUEST, out_struct("argp", &l::INODE_FLAGS)]),
    request(0x40086602, "FS_IOC_SETFLAGS", &[fd("fd"), REQUEST, in_struct("argp", &l::INODE_FLAGS)]),
    gets_int(0x80087601, "FS_IOC_GETVERSION"),
    gives_int(0x40087602, "FS_IOC_SETVERSION"),
    request(0x801c581f, "FS_IOC_FSGETXATTR", &[fd("fd"), REQUEST, out_struct("argp", &l::FSXATTR)]),
    request(0x401c5820, "FS_IOC_FSSETXATTR", &[fd("fd"), REQUEST, in_struct("argp", &l::FSXATTR)]),
    request(0x81009431, "FS_IOC_GETFSLABEL", &[fd("fd"), REQUEST, output("argp", Text, Fixed(256))]),
    request(0x41009432, "FS_IOC_SETFSLABEL", &[fd("fd"), REQUEST, text("argp")]),
    request(0x80111500, "FS_IOC_GETFSUUID", &[fd("fd"), REQUEST, output("argp", Bytes, Fixed(17))]),
    // Block devices.
    gives_int(0x125d, "BLKROSET"),
    gets_int(0x125e, "BLKROGET"),
    bare(0x125f, "BLKRRPART"),
    gets_u64(0x1260, "BLKGETSIZE"),
    bare(0x1261, "BLKFLSBUF"),
    number(0x1262, "BLKRASET"),
    gets_u64(0x1263, "BLKRAGET"),
    number(0x1264, "BLKFRASET"),
    gets_u64(0x1265, "BLKFRAGET"),
    request(0x1267, "BLKSECTGET", &[fd("fd"), REQUEST, output("argp", Bytes, Fixed(2))]),
    gets_int(0x1268, "BLKSSZGET"),
    request(0x1277, "BLKDISCARD", &[fd("fd"), REQUEST, input("argp", U64, Fixed(16))]),
    gets_int(0x1278, "BLKIOMIN"),
    gets_int(0x1279, "BLKIOOPT"),
    gets_int(0x127a, "BLKALIGNOFF"),
    gets_int(0x127b, "BLKPBSZGET"),
    gets_int(0x127c, "BLKDISCARDZEROES"),
    request(0x127d, "BLKSECDISCARD", &[fd("fd"), REQUEST, input("argp", U64, Fixed(16))]),
    request(0x127e, "BLKROTATIONAL", &[fd("fd"), REQUEST, output("argp", Bytes, Fixed(2))]),
    request(0x127f, "BLKZEROOUT", &[fd("fd"), REQUEST, input("argp", U64, Fixed(16))]),
    gets_int(0x80081270, "BLKBSZGET"),
    gives_int(0x40081271, "BLKBSZSET"),
    gets_u64(0x80081272, "BLKGETSIZE64"),
    // Loop devices.
    number(0x4c00, "LOOP_SET_FD"),
    bare(0x4c01, "LOOP_CLR_FD"),
    request(0x4c04, "LOOP_SET_STATUS64", &[fd("fd"), REQUEST, in_struct("argp", &l::LOOP_INFO64)]),
    request(0x4c05, "LOOP_GET_STATUS64", &[fd("fd"), REQUEST, out_struct("argp", &l::LOOP_INFO64)]),
    number(0x4c06, "LOOP_CHANGE_FD"),
    bare(0x4c07, "LOOP_SET_CAPACITY"),
    number(0x4c08, "LOOP_SET_DIRECT_IO"),
    number(0x4c09, "LOOP_SET_BLOCK_SIZE"),
    number(0x4c80, "LOOP_CTL_ADD"),
    number(0x4c81, "LOOP_CTL_REMOVE"),
    bare(0x4c82, "LOOP_CTL_GET_FREE"),
    // Sockets and network devices.
    gives_int(0x8901, "FIOSETOWN"),
    gives_int(0x8902, "SIOCSPGRP"),
    gets_int(0x8903, "FIOGETOWN"),
    gets_int(0x8904, "SIOCGPGRP"),
    gets_int(0x8905, "SIOCATMARK"),
    request(0x8906, "SIOCGSTAMP", &[fd("fd"), REQUEST, out_struct("argp", &l::TIMEVAL)]),
    request(0x8907, "SIOCGSTAMPNS", &[fd("fd"), REQUEST, out_struct("argp", &l::TIMESPEC)]),
    request(0x8910, "SIOCGIFNAME", &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_INT)]),
    request(0x8912, "SIOCGIFCONF", &[fd("fd"), REQUEST, out_holder("argp", &l::IFCONF)]),
    request(0x8913, "SIOCGIFFLAGS", &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_FLAGS)]),
    request(0x8914, "SIOCSIFFLAGS", &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_FLAGS)]),
    request(0x8915, "SIOCGIFADDR", &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_ADDR)]),
    request(0x8916, "SIOCSIFADDR", &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_ADDR)]),
    request(0x8917, "SIOCGIFDSTADDR", &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_ADDR)]),
    request(0x8918, "SIOCSIFDSTADDR", &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_ADDR)]),
    request(0x8919, "SIOCGIFBRDADDR", &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_ADDR)]),
    request(0x891a, "SIOCSIFBRDADDR", &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_ADDR)]),
    request(0x891b, "SIOCGIFNETMASK", &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_ADDR)]),
    request(0x891c, "SIOCSIFNETMASK", &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_ADDR)]),
    request(0x891d, "SIOCGIFMETRIC", &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_INT)]),
    request(0x891e, "SIOCSIFMETRIC", &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_INT)]),
    request(0x8921, "SIOCGIFMTU", &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_INT)]),
    request(0x8922, "SIOCSIFMTU", &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_INT)]),
    request(0x8927, "SIOCGIFHWADDR", &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_ADDR)]),
    request(0x8933, "SIOCGIFINDEX", &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_INT)]),
    request(0x8942, "SIOCGIFTXQLEN", &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_INT)]),
    request(0x8943, "SIOCSIFTXQLEN", &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_INT)]),
    gets_int(0x894b, "SIOCOUTQNSD"),
    when(1, 0x894c, Ret::Fd, BARE).named("SIOCGSKNS"),
    // Namespaces.
    when(1, 0xb701, Ret::Fd, BARE).named("NS_GET_USERNS"),
    when(1, 0xb702, Ret::Fd, BARE).named("NS_GET_PARENT"),
    bare(0xb703, "NS_GET_NSTYPE"),
    gets_int(0xb704, "NS_GET_OWNER_UID"),
    // perf events.
    number(0x2400, "PERF_EVENT_IOC_ENABLE"),
    number(0x2401, "PERF_EVENT_IOC_DISABLE"),
    number(0x2402, "PERF_EVENT_IOC_REFRESH"),
    number(0x2403, "PERF_EVENT_IOC_RESET"),
    gives_u64(0x40082404, "PERF_EVENT_IOC_PERIOD"),
    number(0x2405, "PERF_EVENT_IOC_SET_OUTPUT"),
    request(0x40082406, "PERF_EVENT_IOC_SET_FILTER", &[fd("fd"), REQUEST, text("argp")]),
    gets_u64(0x80082407, "PERF_EVENT_IOC_ID"),
    number(0x40042408, "PERF_EVENT_IOC_SET_BPF"),
    number(0x40042409, "PERF_EVENT_IOC_PAUSE_OUTPUT"),
    // userfaultfd.
    request(0xc018aa3f, "UFFDIO_API", &[fd("fd"), REQUEST, inout_struct("argp", &l::UFFDIO_API)]),
    request(0xc020aa00, "UFFDIO_REGISTER", &[fd("fd"), REQUEST, inout_struct("argp", &l::UFFDIO_REGISTER)]),
    request(0x8010aa01, "UFFDIO_UNREGISTER", &[fd("fd"), REQUEST, in_struct("argp", &l::UFFDIO_RANGE)]),
    request(0x8010aa02, "UFFDIO_WAKE", &[fd("fd"), REQUEST, in_struct("argp", &l::UFFDIO_RANGE)]),
    request(0xc028aa03, "UFFDIO_COPY", &[fd("fd"), REQUEST, inout_struct("argp", &l::UFFDIO_COPY)]),
    request(0xc020aa04, "UFFDIO_ZEROPAGE", &[fd("fd"), REQUEST, inout_struct("argp", &l::UFFDIO_ZEROPAGE)]),
];

/// The requests of all rows, and others that have only a name.
pub static REQUESTS: FlagSet = FlagSet {
    name: "ioctl",
    value_mask: 0,
    members: OTHER_REQUESTS,
    of_rows: Some(|number| VARIANTS.get(number).map(|row| (row.value, row.name))),
};
