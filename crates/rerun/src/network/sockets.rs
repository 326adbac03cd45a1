//! Sockets of the program, as copies of their descriptors show them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use syscalls::abi::files::{AF_INET, AF_INET6};

/// How long to wait at a time, and for the rest of what is on the way.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const REST_WITHIN: Duration = Duration::from_millis(2);
/// Places in an address: its port, and its IP address by version.
const PORT_AT: usize = 2;
const V4_AT: usize = 4;
const V6_AT: usize = 8;
const V6_END: usize = 24;

/// The inode of a socket; `None` for other files.
pub(crate) fn inode_of(file: &OwnedFd) -> Option<u64> {
    // SAFETY: a struct of numbers, which the kernel fills.
    let (done, stat) = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(file.as_raw_fd(), &raw mut stat), stat)
    };
    (done == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(stat.st_ino)
}

/// Whether it is a queue of events (epoll).
pub(crate) fn is_queue(file: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    link.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventpoll]")
}

/// Bytes that can be read without waiting.
fn available(socket: &OwnedFd) -> usize {
    let mut n: libc::c_int = 0;
    // SAFETY: the kernel writes a number.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut n) };
    if done == 0 { usize::try_from(n).unwrap_or(0) } else { 0 }
}

/// Waits until something can be read, a connection taken, or an end is there.
pub(crate) fn awaits(socket: &impl AsFd, within: Duration) -> bool {
    ready(socket.as_fd(), libc::POLLIN, within)
}

fn ready(socket: BorrowedFd<'_>, events: i16, within: Duration) -> bool {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    let limit = i32::try_from(within.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one struct, which is ours.
    unsafe { libc::poll(&raw mut poll, 1, limit) > 0 }
}

/// What can be read, of the bytes that are expected: a little later there may be more. Waits no longer
/// than a while; 0 if nothing came, `None` if nothing will come.
pub(crate) fn has_come(socket: &OwnedFd, expected: usize) -> Option<usize> {
    if !awaits(socket, LOOK_EVERY) {
        return Some(0);
    }
    let since = Instant::now();
    loop {
        match available(socket) {
            0 => return None,
            n if n >= expected || since.elapsed() > REST_WITHIN => return Some(n),
            _ => std::thread::yield_now(),
        }
    }
}

/// The address of the loopback that stands for one in the memory of the program, and whether it is of IP.
/// The wildcards are left: in a network of its own they are no more than the loopback.
pub(crate) fn loopback_of(address: &mut [u8]) -> bool {
    let Some(family) = address.first_chunk().map(|bytes| u16::from_le_bytes(*bytes)) else {
        return false;
    };
    if family == AF_INET
        && let Some(ip) = address.get_mut(V4_AT..V4_AT + 4)
    {
        let it = Ipv4Addr::new(ip[0], ip[1], ip[2], ip[3]);
        if !it.is_unspecified() && !it.is_loopback() {
            ip.copy_from_slice(&Ipv4Addr::LOCALHOST.octets());
        }
        return true;
    }
    if family == AF_INET6
        && let Some(ip) = address.get_mut(V6_AT..V6_END)
    {
        let it = Ipv6Addr::from(<[u8; 16]>::try_from(&ip[..]).unwrap_or_default());
        let within = it.to_ipv4_mapped().is_some_and(|it| it.is_loopback() || it.is_unspecified());
        if !it.is_unspecified() && !it.is_loopback() && !within {
            ip.copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
        }
        return true;
    }
    false
}

/// Sets the port; 0 leaves it to the kernel.
pub(crate) fn set_port(address: &mut [u8], port: u16) {
    if let Some(place) = address.get_mut(PORT_AT..PORT_AT + 2) {
        place.copy_from_slice(&port.to_be_bytes());
    }
}

/// The address by which a listening socket is reached.
pub(crate) fn reach(listening: &OwnedFd) -> Result<SocketAddr, String> {
    let copy = listening.try_clone().map_err(|error| error.to_string())?;
    let address = TcpListener::from(copy).local_addr().map_err(|error| error.to_string())?;
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    if !ip.is_loopback() && !ip.to_canonical().is_loopback() {
        return Err(format!("{ip} is not on the loopback"));
    }
    Ok(SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_on_the_loopback() {
        for (ip, meant) in [
            ([10, 1, 2, 3], [127, 0, 0, 1]),
            ([127, 0, 0, 5], [127, 0, 0, 5]),
            ([0, 0, 0, 0], [0, 0, 0, 0]),
        ] {
            let mut address = [2, 0, 0x1f, 0x90, ip[0], ip[1], ip[2], ip[3]];
            assert!(loopback_of(&mut address));
            assert_eq!(address[4..], meant);
        }
        let mut address = [0u8; 28];
        address[0] = 10;
        address[8..24].copy_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        assert!(loopback_of(&mut address));
        assert_eq!(address[8..24], Ipv6Addr::LOCALHOST.octets());
        assert!(!loopback_of(&mut [1, 0, b'/', b't']));
        assert!(!loopback_of(&mut [2]));
        assert!(!loopback_of(&mut [10, 0, 0, 0, 0, 0, 0, 0]));
    }
}
