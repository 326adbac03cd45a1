//! Sockets.

use super::words::*;
use crate::abi::files::{AF_INET, AF_INET6, AF_NETLINK, AF_PACKET};
use crate::act::Act;
use crate::flags as f;
use crate::layout as l;
use crate::shape::Len::{Arg as ByArg, ArgTimes, Fixed, Pointee, RetAtMost, RetTimes};
use crate::shape::Of::{Bytes, Fds, I32, Mmsghdr, Msghdr, Sockaddr};
use crate::shape::{Arg, Beside, Gives, Ret, Syscall};

const DOMAIN: Arg = one("domain", &f::AF);
const TYPE: Arg = bits("type", &f::SOCK);
const LEVEL: Arg = one("level", &f::SOL);
const ADDRLEN: Arg = inout("addrlen", I32, Fixed(4));
const OPTLEN: Arg = inout("optlen", I32, Fixed(4)).told_on_error();

/// Options that a re-execution sets on real sockets: reuse of addresses and ports, keep-alive and its
/// times, sizes of buffers, no delay, cork, and whether IPv6 is meant alone.
const OPTIONS: &[(u64, u64)] = &[
    (1, 2),
    (1, 7),
    (1, 8),
    (1, 9),
    (1, 15),
    (6, 1),
    (6, 3),
    (6, 4),
    (6, 5),
    (6, 6),
    (6, 12),
    (6, 18),
    (41, 26),
];

/// The rows of this family.
#[rustfmt::skip]
pub static ROWS: &[Syscall] = &[
    family(41, "socket", NETWORK, SIMULATED, Ret::Fd, &[DOMAIN, TYPE, int("protocol")], &[
        when(0, AF_INET as u64, Ret::Fd, &[DOMAIN, TYPE, one("protocol", &f::IPPROTO)]),
        when(0, AF_INET6 as u64, Ret::Fd, &[DOMAIN, TYPE, one("protocol", &f::IPPROTO)]),
        when(0, AF_NETLINK as u64, Ret::Fd, &[DOMAIN, TYPE, one("protocol", &f::NETLINK)]),
        when(0, AF_PACKET as u64, Ret::Fd, &[DOMAIN, TYPE, hex("protocol")]),
        otherwise(Ret::Fd, &[DOMAIN, TYPE, int("protocol")]),
    ]).gives(Gives::Socket).beside(OPENS_STREAM),
    call(42, "connect", NETWORK, SIMULATED, Ret::Int, &[fd("sockfd"), input("addr", Sockaddr, ByArg(2)), int("addrlen")]).does(Act::Connect).beside(CONNECTS),
    call(43, "accept", NETWORK, SIMULATED, Ret::Fd, &[
        fd("sockfd"), output("addr", Sockaddr, Pointee(2)), ADDRLEN]).gives(Gives::Connection).beside(ACCEPTS),
    call(44, "sendto", NETWORK.or(WRITE), REAL, Ret::Size, &[
        target("sockfd"), input("buf", Bytes, ByArg(2)), count("len"), bits("flags", &f::MSG),
        input("dest_addr", Sockaddr, ByArg(5)), int("addrlen")]).beside(SENDS),
    call(45, "recvfrom", NETWORK.or(READ), REAL, Ret::Size, &[
        source("sockfd"), output("buf", Bytes, RetAtMost(2, 1)), count("len"), bits("flags", &f::MSG),
        output("src_addr", Sockaddr, Pointee(5)), ADDRLEN]).beside(RECEIVES),
    call(46, "sendmsg", NETWORK.or(WRITE), REAL, Ret::Size, &[target("sockfd"), input("msg", Msghdr, Fixed(56)), bits("flags", &f::MSG)]).beside(SENDS),
    call(47, "recvmsg", NETWORK.or(READ), REAL, Ret::Size, &[source("sockfd"), output("msg", Msghdr, Fixed(56)), bits("flags", &f::MSG)]).beside(RECEIVES),
    call(48, "shutdown", NETWORK, REAL, Ret::Int, &[fd("sockfd"), one("how", &f::SHUT)]).beside(BESIDE),
    call(49, "bind", NETWORK, SIMULATED, Ret::Int, &[fd("sockfd"), input("addr", Sockaddr, ByArg(2)), int("addrlen")]).does(Act::Bind).beside(BINDS),
    call(50, "listen", NETWORK, SIMULATED, Ret::Int, &[fd("sockfd"), int("backlog")]).beside(BESIDE),
    call(51, "getsockname", NETWORK, SIMULATED, Ret::Int, &[
        fd("sockfd"), output("addr", Sockaddr, Pointee(2)), ADDRLEN]).does(Act::TellAddress),
    call(52, "getpeername", NETWORK, SIMULATED, Ret::Int, &[
        fd("sockfd"), output("addr", Sockaddr, Pointee(2)), ADDRLEN]).does(Act::TellPeer),
    call(53, "socketpair", NETWORK, REAL, Ret::Int, &[
        DOMAIN, TYPE, int("protocol"), output("sv", Fds, Fixed(8))]).gives(Gives::SocketPair),
    // Almost all options of these levels are 32-bit numbers, or structs of them.
    family(54, "setsockopt", NETWORK, SIMULATED, Ret::Int, &[
        fd("sockfd"), LEVEL, int("optname"), input("optval", Bytes, ByArg(4)), int("optlen")], &[
        when(1, 1, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::SO), input("optval", I32, ByArg(4)), int("optlen")]),
        when(1, 6, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::TCP), input("optval", I32, ByArg(4)), int("optlen")]),
        when(1, 0, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::IP), input("optval", I32, ByArg(4)), int("optlen")]),
        when(1, 41, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::IPV6), input("optval", I32, ByArg(4)), int("optlen")]),
        when(1, 17, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::UDP), input("optval", I32, ByArg(4)), int("optlen")]),
        when(1, 263, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::PACKET), input("optval", I32, ByArg(4)), int("optlen")]),
        when(1, 270, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::NETLINK_OPTION), input("optval", I32, ByArg(4)), int("optlen")]),
        otherwise(Ret::Int, &[
            fd("sockfd"), LEVEL, int("optname"), input("optval", Bytes, ByArg(4)), int("optlen")]),
    ]).beside(Beside::MadeFor(OPTIONS)),
    family(55, "getsockopt", NETWORK, SIMULATED, Ret::Int, &[
        fd("sockfd"), LEVEL, int("optname"), output("optval", Bytes, Pointee(4)), OPTLEN], &[
        when(1, 1, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::SO), output("optval", I32, Pointee(4)), OPTLEN]),
        when(1, 6, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::TCP), output("optval", I32, Pointee(4)), OPTLEN]),
        when(1, 0, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::IP), output("optval", I32, Pointee(4)), OPTLEN]),
        when(1, 41, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::IPV6), output("optval", I32, Pointee(4)), OPTLEN]),
        when(1, 17, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::UDP), output("optval", I32, Pointee(4)), OPTLEN]),
        when(1, 263, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::PACKET), output("optval", I32, Pointee(4)), OPTLEN]),
        when(1, 270, Ret::Int, &[
            fd("sockfd"), LEVEL, one("optname", &f::NETLINK_OPTION), output("optval", I32, Pointee(4)), OPTLEN]),
        otherwise(Ret::Int, &[
            fd("sockfd"), LEVEL, int("optname"), output("optval", Bytes, Pointee(4)), OPTLEN]),
    ]),
    call(288, "accept4", NETWORK, SIMULATED, Ret::Fd, &[
        fd("sockfd"), output("addr", Sockaddr, Pointee(2)), ADDRLEN, bits("flags", &f::SOCK_CREATED)]).gives(Gives::Connection).beside(ACCEPTS),
    call(299, "recvmmsg", NETWORK.or(READ), REAL, Ret::Int, &[
        source("sockfd"), output("msgvec", Mmsghdr, RetTimes(64)), uint("vlen"), bits("flags", &f::MSG),
        inout_struct("timeout", &l::TIMESPEC)]),
    call(307, "sendmmsg", NETWORK.or(WRITE), REAL, Ret::Int, &[
        target("sockfd"), input("msgvec", Mmsghdr, ArgTimes(2, 64)), uint("vlen"), bits("flags", &f::MSG)]),
];
