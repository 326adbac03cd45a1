//! Variants of ioctl.

use super::words::*;
use crate::act::Act;
use crate::flags as f;
use crate::layout as l;
use crate::shape::Len::{Counted, Fixed};
use crate::shape::Of::{Bytes, I32, Struct, Text, U64};
use crate::shape::{Arg, Ret, Variant};

const fn request(number: u64, args: &'static [Arg]) -> Variant {
    when(1, number, Ret::Int, args)
}

const REQUEST: Arg = one("request", &f::IOCTL);
const BARE: &[Arg] = &[fd("fd"), REQUEST];
const NUMBER: &[Arg] = &[fd("fd"), REQUEST, long("arg")];
const GIVES_INT: &[Arg] = &[fd("fd"), REQUEST, input("argp", I32, Fixed(4))];
const GETS_INT: &[Arg] = &[fd("fd"), REQUEST, output("argp", I32, Fixed(4))];
const GIVES_U64: &[Arg] = &[fd("fd"), REQUEST, input("argp", U64, Fixed(8))];
const GETS_U64: &[Arg] = &[fd("fd"), REQUEST, output("argp", U64, Fixed(8))];

/// A request without an argument.
const fn bare(number: u64) -> Variant {
    request(number, BARE)
}

/// A request whose argument is a number.
const fn number(number: u64) -> Variant {
    request(number, NUMBER)
}

/// The kernel reads a 32-bit number.
const fn gives_int(number: u64) -> Variant {
    request(number, GIVES_INT)
}

/// The kernel writes a 32-bit number.
const fn gets_int(number: u64) -> Variant {
    request(number, GETS_INT)
}

/// The kernel reads a 64-bit number.
const fn gives_u64(number: u64) -> Variant {
    request(number, GIVES_U64)
}

/// The kernel writes a 64-bit number.
const fn gets_u64(number: u64) -> Variant {
    request(number, GETS_U64)
}

/// Variants by request.
#[rustfmt::skip]
pub static VARIANTS: &[Variant] = &[
    // Terminals.
    request(0x5401, &[fd("fd"), REQUEST, out_struct("argp", &l::TERMIOS)]), // TCGETS
    request(0x5402, &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIOS)]), // TCSETS
    request(0x5403, &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIOS)]), // TCSETSW
    request(0x5404, &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIOS)]), // TCSETSF
    request(0x5405, &[fd("fd"), REQUEST, out_struct("argp", &l::TERMIO)]), // TCGETA
    request(0x5406, &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIO)]), // TCSETA
    request(0x5407, &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIO)]), // TCSETAW
    request(0x5408, &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIO)]), // TCSETAF
    number(0x5409), // TCSBRK
    number(0x540a), // TCXONC
    number(0x540b), // TCFLSH
    bare(0x540c), // TIOCEXCL
    bare(0x540d), // TIOCNXCL
    number(0x540e), // TIOCSCTTY
    gets_int(0x540f), // TIOCGPGRP
    gives_int(0x5410), // TIOCSPGRP
    gets_int(0x5411), // TIOCOUTQ
    request(0x5412, &[fd("fd"), REQUEST, input("argp", Bytes, Fixed(1))]), // TIOCSTI
    request(0x5413, &[fd("fd"), REQUEST, out_struct("argp", &l::WINSIZE)]), // TIOCGWINSZ
    request(0x5414, &[fd("fd"), REQUEST, in_struct("argp", &l::WINSIZE)]), // TIOCSWINSZ
    gets_int(0x5415), // TIOCMGET
    gives_int(0x5416), // TIOCMBIS
    gives_int(0x5417), // TIOCMBIC
    gives_int(0x5418), // TIOCMSET
    gets_int(0x5419), // TIOCGSOFTCAR
    gives_int(0x541a), // TIOCSSOFTCAR
    gets_int(0x541b).replayed(REAL), // FIONREAD
    bare(0x541d), // TIOCCONS
    gives_int(0x5420), // TIOCPKT
    gives_int(0x5421).replayed(REAL), // FIONBIO
    bare(0x5422), // TIOCNOTTY
    gives_int(0x5423), // TIOCSETD
    gets_int(0x5424), // TIOCGETD
    number(0x5425), // TCSBRKP
    bare(0x5427), // TIOCSBRK
    bare(0x5428), // TIOCCBRK
    gets_int(0x5429), // TIOCGSID
    request(0x802c542a, &[fd("fd"), REQUEST, out_struct("argp", &l::TERMIOS2)]), // TCGETS2
    request(0x402c542b, &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIOS2)]), // TCSETS2
    request(0x402c542c, &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIOS2)]), // TCSETSW2
    request(0x402c542d, &[fd("fd"), REQUEST, in_struct("argp", &l::TERMIOS2)]), // TCSETSF2
    gets_int(0x80045430), // TIOCGPTN
    gives_int(0x40045431), // TIOCSPTLCK
    gets_int(0x80045432), // TIOCGDEV
    number(0x40045436), // TIOCSIG
    bare(0x5437), // TIOCVHANGUP
    gets_int(0x80045438), // TIOCGPKT
    gets_int(0x80045439), // TIOCGPTLCK
    gets_int(0x80045440), // TIOCGEXCL
    when(1, 0x5441, Ret::Fd, &[fd("fd"), REQUEST, bits("flags", &f::OPEN)]), // TIOCGPTPEER
    // Any descriptor.
    bare(0x5450).replayed(NUMBERS).does(Act::ClearCloseOnExec), // FIONCLEX
    bare(0x5451).replayed(NUMBERS).does(Act::SetCloseOnExec), // FIOCLEX
    gives_int(0x5452), // FIOASYNC
    gets_u64(0x5460).replayed(REAL), // FIOQSIZE
    // Files and file systems.
    request(0x1, &[fd("fd"), REQUEST, inout("argp", I32, Fixed(4))]), // FIBMAP
    gets_int(0x2), // FIGETBSZ
    bare(0xc0045877), // FIFREEZE
    bare(0xc0045878), // FITHAW
    request(0xc0185879, &[fd("fd"), REQUEST, inout_struct("argp", &l::FSTRIM_RANGE)]), // FITRIM
    request(0x40049409, &[target("fd"), REQUEST, source("src_fd")]).replayed(REAL).does(Act::CloneFile), // FICLONE
    request(0x4020940d, &[target("fd"), REQUEST, in_struct("argp", &l::FILE_CLONE_RANGE)]).replayed(REAL).does(Act::CloneRange), // FICLONERANGE
    request(0xc0189436, &[fd("fd"), REQUEST, inout("argp", Struct(&l::FILE_DEDUPE_RANGE), Counted { at: 16, unit: 32, head: 24 })]).replayed(REAL), // FIDEDUPERANGE
    request(0xc020660b, &[fd("fd"), REQUEST, inout("argp", Struct(&l::FIEMAP), Counted { at: 24, unit: 56, head: 32 })]), // FS_IOC_FIEMAP
    request(0x80086601, &[fd("fd"), REQUEST, out_struct("argp", &l::INODE_FLAGS)]), // FS_IOC_GETFLAGS
    request(0x40086602, &[fd("fd"), REQUEST, in_struct("argp", &l::INODE_FLAGS)]), // FS_IOC_SETFLAGS
    gets_int(0x80087601), // FS_IOC_GETVERSION
    gives_int(0x40087602), // FS_IOC_SETVERSION
    request(0x801c581f, &[fd("fd"), REQUEST, out_struct("argp", &l::FSXATTR)]), // FS_IOC_FSGETXATTR
    request(0x401c5820, &[fd("fd"), REQUEST, in_struct("argp", &l::FSXATTR)]), // FS_IOC_FSSETXATTR
    request(0x81009431, &[fd("fd"), REQUEST, output("argp", Text, Fixed(256))]), // FS_IOC_GETFSLABEL
    request(0x41009432, &[fd("fd"), REQUEST, text("argp")]), // FS_IOC_SETFSLABEL
    request(0x80111500, &[fd("fd"), REQUEST, output("argp", Bytes, Fixed(17))]), // FS_IOC_GETFSUUID
    // Block devices.
    gives_int(0x125d), // BLKROSET
    gets_int(0x125e), // BLKROGET
    bare(0x125f), // BLKRRPART
    gets_u64(0x1260), // BLKGETSIZE
    bare(0x1261), // BLKFLSBUF
    number(0x1262), // BLKRASET
    gets_u64(0x1263), // BLKRAGET
    number(0x1264), // BLKFRASET
    gets_u64(0x1265), // BLKFRAGET
    request(0x1267, &[fd("fd"), REQUEST, output("argp", Bytes, Fixed(2))]), // BLKSECTGET
    gets_int(0x1268), // BLKSSZGET
    request(0x1277, &[fd("fd"), REQUEST, input("argp", U64, Fixed(16))]), // BLKDISCARD
    gets_int(0x1278), // BLKIOMIN
    gets_int(0x1279), // BLKIOOPT
    gets_int(0x127a), // BLKALIGNOFF
    gets_int(0x127b), // BLKPBSZGET
    gets_int(0x127c), // BLKDISCARDZEROES
    request(0x127d, &[fd("fd"), REQUEST, input("argp", U64, Fixed(16))]), // BLKSECDISCARD
    request(0x127e, &[fd("fd"), REQUEST, output("argp", Bytes, Fixed(2))]), // BLKROTATIONAL
    request(0x127f, &[fd("fd"), REQUEST, input("argp", U64, Fixed(16))]), // BLKZEROOUT
    gets_int(0x80081270), // BLKBSZGET
    gives_int(0x40081271), // BLKBSZSET
    gets_u64(0x80081272), // BLKGETSIZE64
    // Loop devices.
    number(0x4c00), // LOOP_SET_FD
    bare(0x4c01), // LOOP_CLR_FD
    request(0x4c04, &[fd("fd"), REQUEST, in_struct("argp", &l::LOOP_INFO64)]), // LOOP_SET_STATUS64
    request(0x4c05, &[fd("fd"), REQUEST, out_struct("argp", &l::LOOP_INFO64)]), // LOOP_GET_STATUS64
    number(0x4c06), // LOOP_CHANGE_FD
    bare(0x4c07), // LOOP_SET_CAPACITY
    number(0x4c08), // LOOP_SET_DIRECT_IO
    number(0x4c09), // LOOP_SET_BLOCK_SIZE
    number(0x4c80), // LOOP_CTL_ADD
    number(0x4c81), // LOOP_CTL_REMOVE
    bare(0x4c82), // LOOP_CTL_GET_FREE
    // Sockets and network devices.
    gives_int(0x8901), // FIOSETOWN
    gives_int(0x8902), // SIOCSPGRP
    gets_int(0x8903), // FIOGETOWN
    gets_int(0x8904), // SIOCGPGRP
    gets_int(0x8905), // SIOCATMARK
    request(0x8906, &[fd("fd"), REQUEST, out_struct("argp", &l::TIMEVAL)]), // SIOCGSTAMP
    request(0x8907, &[fd("fd"), REQUEST, out_struct("argp", &l::TIMESPEC)]), // SIOCGSTAMPNS
    request(0x8910, &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_INT)]), // SIOCGIFNAME
    request(0x8912, &[fd("fd"), REQUEST, out_holder("argp", &l::IFCONF)]), // SIOCGIFCONF
    request(0x8913, &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_FLAGS)]), // SIOCGIFFLAGS
    request(0x8914, &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_FLAGS)]), // SIOCSIFFLAGS
    request(0x8915, &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_ADDR)]), // SIOCGIFADDR
    request(0x8916, &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_ADDR)]), // SIOCSIFADDR
    request(0x8917, &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_ADDR)]), // SIOCGIFDSTADDR
    request(0x8918, &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_ADDR)]), // SIOCSIFDSTADDR
    request(0x8919, &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_ADDR)]), // SIOCGIFBRDADDR
    request(0x891a, &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_ADDR)]), // SIOCSIFBRDADDR
    request(0x891b, &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_ADDR)]), // SIOCGIFNETMASK
    request(0x891c, &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_ADDR)]), // SIOCSIFNETMASK
    request(0x891d, &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_INT)]), // SIOCGIFMETRIC
    request(0x891e, &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_INT)]), // SIOCSIFMETRIC
    request(0x8921, &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_INT)]), // SIOCGIFMTU
    request(0x8922, &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_INT)]), // SIOCSIFMTU
    request(0x8927, &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_ADDR)]), // SIOCGIFHWADDR
    request(0x8933, &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_INT)]), // SIOCGIFINDEX
    request(0x8942, &[fd("fd"), REQUEST, inout_struct("argp", &l::IFREQ_INT)]), // SIOCGIFTXQLEN
    request(0x8943, &[fd("fd"), REQUEST, in_struct("argp", &l::IFREQ_INT)]), // SIOCSIFTXQLEN
    gets_int(0x894b), // SIOCOUTQNSD
    // Namespaces.
    when(1, 0xb701, Ret::Fd, BARE), // NS_GET_USERNS
    when(1, 0xb702, Ret::Fd, BARE), // NS_GET_PARENT
    bare(0xb703), // NS_GET_NSTYPE
    gets_int(0xb704), // NS_GET_OWNER_UID
    // perf events.
    number(0x2400), // PERF_EVENT_IOC_ENABLE
    number(0x2401), // PERF_EVENT_IOC_DISABLE
    number(0x2402), // PERF_EVENT_IOC_REFRESH
    number(0x2403), // PERF_EVENT_IOC_RESET
    gives_u64(0x40082404), // PERF_EVENT_IOC_PERIOD
    number(0x2405), // PERF_EVENT_IOC_SET_OUTPUT
    request(0x40082406, &[fd("fd"), REQUEST, text("argp")]), // PERF_EVENT_IOC_SET_FILTER
    gets_u64(0x80082407), // PERF_EVENT_IOC_ID
    number(0x40042408), // PERF_EVENT_IOC_SET_BPF
    number(0x40042409), // PERF_EVENT_IOC_PAUSE_OUTPUT
    // userfaultfd.
    request(0xc018aa3f, &[fd("fd"), REQUEST, inout_struct("argp", &l::UFFDIO_API)]), // UFFDIO_API
    request(0xc020aa00, &[fd("fd"), REQUEST, inout_struct("argp", &l::UFFDIO_REGISTER)]), // UFFDIO_REGISTER
    request(0x8010aa01, &[fd("fd"), REQUEST, in_struct("argp", &l::UFFDIO_RANGE)]), // UFFDIO_UNREGISTER
    request(0x8010aa02, &[fd("fd"), REQUEST, in_struct("argp", &l::UFFDIO_RANGE)]), // UFFDIO_WAKE
    request(0xc028aa03, &[fd("fd"), REQUEST, inout_struct("argp", &l::UFFDIO_COPY)]), // UFFDIO_COPY
    request(0xc020aa04, &[fd("fd"), REQUEST, inout_struct("argp", &l::UFFDIO_ZEROPAGE)]), // UFFDIO_ZEROPAGE
];
