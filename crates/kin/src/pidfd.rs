//! Process descriptors, and what the kernel tells through them.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use syscalls::abi::files::PID_FS_MAGIC;
use syscalls::abi::tasks::PIDFD_GET_INFO;

use crate::credentials::Credentials;
use crate::status;

/// The kernel's `struct pidfd_info`, first version.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    thread: u32,
    process: u32,
    parent: u32,
    /// Real user and group, then the effective, saved and file system ones.
    ids: [u32; 8],
    exit_code: i32,
}

const PIDFD_THREAD: libc::c_uint = libc::O_EXCL as libc::c_uint;
const _: () = assert!(size_of::<PidfdInfo>() == 64);
/// In `mask`: ids of processes and of users.
const IDS: u64 = (libc::PIDFD_INFO_PID | libc::PIDFD_INFO_CREDS) as u64;
/// In `mask`: the exit code is requested, or present.
const EXIT: u64 = libc::PIDFD_INFO_EXIT as u64;

/// The ids of a thread, dead or alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Its process.
    pub process: i32,
    /// Its process's parent.
    pub parent: i32,
    /// Its user and group ids.
    pub credentials: Credentials,
}

/// Distinguishes a process from all others that have, had or will have its id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark(u64);

/// Opens a process.
pub fn open(pid: i32) -> io::Result<OwnedFd> {
    open_with(pid, 0)
}

fn open_with(pid: i32, flags: libc::c_uint) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only, and nothing else owns the new descriptor.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, flags);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}

fn ask(fd: &OwnedFd, mask: u64) -> Option<PidfdInfo> {
    let mut info = PidfdInfo { mask, ..PidfdInfo::default() };
    // SAFETY: `info` has the layout that the operation reads and writes.
    let done =
        unsafe { libc::ioctl(fd.as_raw_fd(), PIDFD_GET_INFO as libc::Ioctl, &raw mut info) == 0 };
    (done && info.mask & mask == mask).then_some(info)
}

/// The ids of a thread. Takes a quarter of the time of reading /proc; since Linux 6.13.
pub(crate) fn identity_of_thread(tid: i32) -> Option<Identity> {
    identity(&open_with(tid, PIDFD_THREAD).ok()?)
}

/// The ids of a process that was not waited for yet.
pub(crate) fn identity(fd: &OwnedFd) -> Option<Identity> {
    let info = ask(fd, IDS)?;
    let every_second = |from: usize| [0, 2, 4, 6].map(|n| info.ids[from + n]);
    let credentials = Credentials { uids: every_second(0), gids: every_second(1) };
    Some(Identity { process: info.process as i32, parent: info.parent as i32, credentials })
}

/// The credentials of a process if it still has this id; `None` if it was waited for.
pub fn owner(fd: &OwnedFd, pid: i32) -> Option<Credentials> {
    if let Some(identity) = identity(fd) {
        return (identity.process == pid).then_some(identity.credentials);
    }
    let owner = status::read(pid)?.credentials;
    let info = status::contents(&format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    let mut lines = info.split(|&byte| byte == b'\n');
    let still = lines.find_map(|line| line.strip_prefix(b"Pid:"))?.trim_ascii();
    // Otherwise the id may have been reused before /proc was read.
    (still == pid.to_string().as_bytes()).then_some(owner)
}

/// The wait status of a process that was waited for, which Linux 6.15 keeps.
pub fn reaped_status(fd: &OwnedFd) -> Option<i32> {
    Some(ask(fd, EXIT)?.exit_code)
}

/// The mark of a process with this id.
pub(crate) fn mark(fd: &OwnedFd, pid: i32) -> Option<Mark> {
    if has_inodes() {
        // SAFETY: all-zero bytes are a valid struct, which the kernel fills.
        let inode = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            (libc::fstat(fd.as_raw_fd(), &raw mut stat) == 0).then_some(stat.st_ino)
        };
        return inode.map(Mark);
    }
    status::start_time(pid).map(Mark)
}

fn has_inodes() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let Ok(own) = open(std::process::id() as i32) else { return false };
        // SAFETY: all-zero bytes are a valid struct, which the kernel fills.
        unsafe {
            let mut system: libc::statfs = std::mem::zeroed();
            libc::fstatfs(own.as_raw_fd(), &raw mut system) == 0
                && system.f_type as u64 == PID_FS_MAGIC as u64
        }
    })
}
