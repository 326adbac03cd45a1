//! Descriptors sent into a socket of another process.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Thread, not process: since Linux 6.9.
const PIDFD_THREAD: c_int = libc::O_EXCL;

/// What an agent is sent when it cannot attach segments: its slot and two files.
pub struct Message {
    pub slot: usize,
    pub arena: File,
    /// The agent's image and the catalog.
    pub published: File,
}

/// The end of a pair of sockets that an agent does not read from.
#[derive(Clone, Copy)]
pub enum Mailbox {
    OfProcess { pid: i32, socket: c_int },
    OfThread { tid: i32, socket: c_int },
}

impl Message {
    /// Sends it. The descriptor may be any that the program has: then it takes as long as whoever
    /// serves that file likes, even to close our copy. The kernel has us wait, too, while a thread of
    /// that process executes a program.
    pub fn send(&self, to: Mailbox) -> io::Result<()> {
        let socket = match to {
            Mailbox::OfProcess { pid, socket } => descriptor_of(pid, 0, socket),
            Mailbox::OfThread { tid, socket } => descriptor_of(tid, PIDFD_THREAD, socket),
        }?;
        if domain_of(&socket)? != libc::AF_UNIX {
            return Err(io::Error::other("it has named something else than its agent's socket"));
        }
        self.send_into(&socket)
    }

    fn send_into(&self, socket: &OwnedFd) -> io::Result<()> {
        const FILES: usize = 2;
        let mut slot = self.slot as u64;
        let mut vector = libc::iovec { iov_base: (&raw mut slot).cast(), iov_len: 8 };
        let mut control = [0u64; 4];
        let files = [self.arena.as_raw_fd(), self.published.as_raw_fd()];
        // SAFETY: a message with one word and two descriptors; everything it points to lives here.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut vector;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of_val(&files) as u32) as usize;
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(size_of_val(&files) as u32) as usize;
            libc::CMSG_DATA(head).cast::<[c_int; FILES]>().write_unaligned(files);
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            libc::sendmsg(socket.as_raw_fd(), &raw const message, flags)
        };
        if sent == 8 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// What kind of socket it is. Nobody is asked for that.
fn domain_of(socket: &OwnedFd) -> io::Result<c_int> {
    let (mut domain, mut len) = (0, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: the kernel stores one number.
    let done = unsafe {
        let (level, what, fd) = (libc::SOL_SOCKET, libc::SO_DOMAIN, socket.as_raw_fd());
        libc::getsockopt(fd, level, what, (&raw mut domain).cast(), &raw mut len)
    };
    if done == 0 { Ok(domain) } else { Err(io::Error::last_os_error()) }
}

/// A descriptor of another task.
fn descriptor_of(task: i32, flags: c_int, number: c_int) -> io::Result<OwnedFd> {
    let task = pidfd(libc::SYS_pidfd_open, task, flags)?;
    pidfd(libc::SYS_pidfd_getfd, task.as_raw_fd(), number)
}

fn pidfd(call: libc::c_long, first: i32, second: i32) -> io::Result<OwnedFd> {
    // SAFETY: the kernel gives a new descriptor, which becomes ours.
    unsafe {
        let fd = libc::syscall(call, first, second, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}
