//! The arena for images in other IPC namespaces, where System V segments cannot be attached.
//!
//! It is a memfd, made when the first such image turns up, with the agent's image behind the
//! arena. The bootstrap makes a pair of sockets; we take one end out of the stopped process, send
//! the memfd into it and let go. The bootstrap finds it there, or nothing.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::Ordering;

use ring::{Arena, Slot, slot_state};

use crate::analyst::Analyst;
use crate::{Image, segment};

/// From linux/memfd.h: it may be mapped for execution, whatever the system's default is.
const MFD_EXEC: u32 = 0x10;
/// The first thread and process number in this arena. Those of the other one stay below.
const FIRST_NUMBER: u32 = 1 << 30;

/// The second arena.
pub struct Foreign {
    file: File,
    pub arena: Arena,
    pub analyst: Analyst,
    /// Its inode, as /proc/PID/maps shows it.
    pub inode: u64,
}

impl Foreign {
    /// An arena with the settings of the first.
    pub fn new(like: &Arena, image: &Image) -> io::Result<Foreign> {
        let file = memfd()?;
        let arena_len = ring::arena_bytes(like.pool_chunks());
        let len = (arena_len + image.bytes.len()) as u64;
        if len > file_size_limit() {
            return Err(io::Error::from_raw_os_error(libc::EFBIG)); // a signal would tell otherwise
        }
        file.set_len(len)?;
        file.write_all_at(&image.bytes, arena_len as u64)?;
        // SAFETY: a new mapping of our own file.
        let at = unsafe {
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), arena_len, prot, flags, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: zeroed, long enough, and never unmapped.
        let arena = unsafe { Arena::at(at.cast(), like.pool_chunks()) };
        let (to, from) = (arena.control(), like.control());
        to.data_mode.store(from.data_mode.load(Ordering::Relaxed), Ordering::Relaxed);
        to.data_max.store(from.data_max.load(Ordering::Relaxed), Ordering::Relaxed);
        to.snapshot.store(from.snapshot.load(Ordering::Relaxed), Ordering::Relaxed);
        to.tsc_hz.store(from.tsc_hz.load(Ordering::Relaxed), Ordering::Relaxed);
        segment::prepare(&arena, FIRST_NUMBER);
        let inode = file.metadata()?.ino();
        let analyst = Analyst::start(arena).map_err(io::Error::other)?;
        Ok(Foreign { file, arena, analyst, inode })
    }

    /// Sends memfd and slot to a bootstrap whose `socketpair` has just returned this pair.
    pub fn send(&self, pid: i32, pair: [c_int; 2], slot: usize) -> io::Result<()> {
        let process = pidfd(libc::SYS_pidfd_open, pid, 0)?;
        let socket = pidfd(libc::SYS_pidfd_getfd, process.as_raw_fd(), pair[1])?;
        let mut slot = slot as u64;
        let mut vector = libc::iovec { iov_base: (&raw mut slot).cast(), iov_len: 8 };
        let mut control = [0u64; 4];
        // SAFETY: a message with one word and one descriptor; everything it points to lives here.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut vector;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as usize;
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
            libc::CMSG_DATA(head).cast::<c_int>().write_unaligned(self.file.as_raw_fd());
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            libc::sendmsg(socket.as_raw_fd(), &raw const message, flags)
        };
        if sent == 8 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// A stopped thread's slot in the other arena becomes one in this: all that its agent goes on with.
pub fn copy_slot(from: &Slot, to: &Slot) {
    let words = [
        (&from.thread, &to.thread),
        (&from.process, &to.process),
        (&from.parent, &to.parent),
        (&from.how, &to.how),
        (&from.pid, &to.pid),
        (&from.tid, &to.tid),
        (&from.pid_seen, &to.pid_seen),
        (&from.foreign_pid, &to.foreign_pid),
        (&from.global_pid, &to.global_pid),
    ];
    let counters = [
        (&from.exec_blocked, &to.exec_blocked),
        (&from.exec_ignored, &to.exec_ignored),
        (&from.calls, &to.calls),
        (&from.slow_calls, &to.slow_calls),
        (&from.stall_ns, &to.stall_ns),
    ];
    for (from, to) in words {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    for (from, to) in counters {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    to.state.store(slot_state::ACTIVE, Ordering::Release);
}

fn memfd() -> io::Result<File> {
    let create = |flags| {
        // SAFETY: makes a descriptor, which becomes ours.
        unsafe {
            let fd = libc::memfd_create(c"reenact".as_ptr(), flags);
            if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from_raw_fd(fd)) }
        }
    };
    // Kernels before 6.3 do not know the second flag, and need none.
    create(libc::MFD_CLOEXEC | MFD_EXEC).or_else(|_| create(libc::MFD_CLOEXEC))
}

fn pidfd(call: libc::c_long, first: i32, second: i32) -> io::Result<OwnedFd> {
    // SAFETY: the kernel gives a new descriptor, which becomes ours.
    unsafe {
        let fd = libc::syscall(call, first, second, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}

fn file_size_limit() -> u64 {
    // SAFETY: fills in two numbers.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit);
        limit.rlim_cur
    }
}
