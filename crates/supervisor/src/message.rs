//! Sends descriptors into a socket of another process.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// pidfd_open for a thread instead of a process: since Linux 6.9.
const PIDFD_THREAD: c_int = libc::O_EXCL;

/// The message to an agent that cannot attach segments: its slot and two files.
pub struct Message {
    pub slot: usize,
    pub arena: File,
    /// The agent's image and the catalog.
    pub published: File,
}

/// The sending end of an agent's pair of sockets.
#[derive(Clone, Copy)]
pub enum Mailbox {
    OfProcess { pid: i32, socket: c_int },
    OfThread { tid: i32, socket: c_int },
}

impl Message {
    /// Sends the message. The descriptor number may be that of any file of the program; even
    /// closing our copy then takes as long as that file's server likes. The kernel also blocks us
    /// while a thread of that process executes a program.
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
        // SAFETY: one word and two descriptors; all that the message points to outlives the call.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut vector;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of_val(&files) as u32) as _;
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(size_of_val(&files) as u32) as _;
            libc::CMSG_DATA(head).cast::<[c_int; FILES]>().write_unaligned(files);
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            libc::sendmsg(socket.as_raw_fd(), &raw const message, flags)
        };
        if sent == 8 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The domain of a socket; this asks the kernel only.
fn domain_of(socket: &OwnedFd) -> io::Result<c_int> {
    let (mut domain, mut len) = (0, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: the kernel stores one number into a local of that size.
    let done = unsafe {
        let (level, what, fd) = (libc::SOL_SOCKET, libc::SO_DOMAIN, socket.as_raw_fd());
        libc::getsockopt(fd, level, what, (&raw mut domain).cast(), &raw mut len)
    };
    if done == 0 { Ok(domain) } else { Err(io::Error::last_os_error()) }
}

/// Duplicates a descriptor of another task.
fn descriptor_of(task: i32, flags: c_int, number: c_int) -> io::Result<OwnedFd> {
    let task = pidfd(libc::SYS_pidfd_open, task, flags)?;
    pidfd(libc::SYS_pidfd_getfd, task.as_raw_fd(), number)
}

fn pidfd(call: libc::c_long, first: i32, second: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only, and nothing else owns the new descriptor.
    unsafe {
        let fd = libc::syscall(call, first, second, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}
