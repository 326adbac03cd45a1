//! A network of its own, which leads nowhere: only the loopback is there.

use std::fs;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use crate::failure::Failure;

/// From which port on a user may listen, in this network.
const FIRST_PORT: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// Enters it. This process must have one thread; its children are in it as well.
pub fn enter() -> Result<(), Failure> {
    let fail = |what: &str, error: io::Error| {
        Failure::Failed(format!(
            "--network feed and live need a network of their own, which {what}: {error}"
        ))
    };
    if let Err(error) = unshare(libc::CLONE_NEWNET) {
        // As in a jail: a user namespace gives the right.
        // SAFETY: these calls have no arguments.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)
            .map_err(|_| fail("is not allowed here", error))?;
        fs::write("/proc/self/setgroups", "deny")
            .and_then(|()| fs::write("/proc/self/uid_map", format!("{user} {user} 1")))
            .and_then(|()| fs::write("/proc/self/gid_map", format!("{group} {group} 1")))
            .map_err(|error| fail("cannot be set up", error))?;
    }
    start_loopback().map_err(|error| fail("has no loopback", error))?;
    // Where that is not allowed, servers that listen below get other ports.
    let _ = fs::write(FIRST_PORT, "0");
    Ok(())
}

fn unshare(what: libc::c_int) -> io::Result<()> {
    // SAFETY: takes a number.
    if unsafe { libc::unshare(what) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn start_loopback() -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: it consists of numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
    // SAFETY: the kernel reads a struct of ours.
    match unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &raw const request)
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
