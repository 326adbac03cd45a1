//! Terminals.

use super::{names, with_field};
use crate::flag_set::FlagSet;

/// Input modes of a terminal.
#[rustfmt::skip]
pub static TERM_INPUT: FlagSet = names("c_iflag", &[
    (0o1, "IGNBRK"), (0o2, "BRKINT"), (0o4, "IGNPAR"), (0o10, "PARMRK"), (0o20, "INPCK"),
    (0o40, "ISTRIP"), (0o100, "INLCR"), (0o200, "IGNCR"), (0o400, "ICRNL"), (0o1000, "IUCLC"),
    (0o2000, "IXON"), (0o4000, "IXANY"), (0o10000, "IXOFF"), (0o20000, "IMAXBEL"),
    (0o40000, "IUTF8"),
]);

/// Output modes of a terminal.
#[rustfmt::skip]
pub static TERM_OUTPUT: FlagSet = names("c_oflag", &[
    (0o1, "OPOST"), (0o2, "OLCUC"), (0o4, "ONLCR"), (0o10, "OCRNL"), (0o20, "ONOCR"),
    (0o40, "ONLRET"), (0o100, "OFILL"), (0o200, "OFDEL"), (0o40000, "VTDLY"), (0o14000, "TAB3"),
    (0o4000, "TAB1"), (0o10000, "TAB2"), (0o400, "NL1"), (0o3000, "CR3"), (0o1000, "CR1"),
    (0o2000, "CR2"), (0o20000, "BS1"), (0o100000, "FF1"),
]);

/// Control modes of a terminal; the speed is a value of its own.
#[rustfmt::skip]
pub static TERM_CONTROL: FlagSet = with_field("c_cflag", 0o10017, &[
    (0, "B0"), (0o1, "B50"), (0o2, "B75"), (0o3, "B110"), (0o4, "B134"), (0o5, "B150"),
    (0o6, "B200"), (0o7, "B300"), (0o10, "B600"), (0o11, "B1200"), (0o12, "B1800"),
    (0o13, "B2400"), (0o14, "B4800"), (0o15, "B9600"), (0o16, "B19200"), (0o17, "B38400"),
    (0o10001, "B57600"), (0o10002, "B115200"), (0o10003, "B230400"), (0o10004, "B460800"),
    (0o10005, "B500000"), (0o10006, "B576000"), (0o10007, "B921600"), (0o10010, "B1000000"),
    (0o10011, "B1152000"), (0o10012, "B1500000"), (0o10013, "B2000000"), (0o10014, "B2500000"),
    (0o10015, "B3000000"), (0o10016, "B3500000"), (0o10017, "B4000000"), (0o60, "CS8"),
    (0o20, "CS6"), (0o40, "CS7"), (0o100, "CSTOPB"), (0o200, "CREAD"), (0o400, "PARENB"),
    (0o1000, "PARODD"), (0o2000, "HUPCL"), (0o4000, "CLOCAL"), (0o10000000000, "CMSPAR"),
    (0o20000000000, "CRTSCTS"),
]);

/// Local modes of a terminal.
#[rustfmt::skip]
pub static TERM_LOCAL: FlagSet = names("c_lflag", &[
    (0o1, "ISIG"), (0o2, "ICANON"), (0o4, "XCASE"), (0o10, "ECHO"), (0o20, "ECHOE"),
    (0o40, "ECHOK"), (0o100, "ECHONL"), (0o200, "NOFLSH"), (0o400, "TOSTOP"), (0o1000, "ECHOCTL"),
    (0o2000, "ECHOPRT"), (0o4000, "ECHOKE"), (0o10000, "FLUSHO"), (0o40000, "PENDIN"),
    (0o100000, "IEXTEN"), (0o200000, "EXTPROC"),
]);
