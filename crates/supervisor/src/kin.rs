//! Which processes belong to the recording. What agents say cannot be trusted: any program that is
//! recorded can write their memory.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Processes that we launched, or saw executing a program.
#[derive(Default)]
pub struct Kin {
    known: HashSet<i32>,
}

/// A thread, as the kernel has it.
pub struct Identity {
    /// Its process.
    pub process: i32,
    /// Its process's parent.
    parent: i32,
    /// Its users and groups.
    pub credentials: Credentials,
}

/// Real, effective, saved and file-system ids.
#[derive(Clone, Copy, Debug)]
pub struct Credentials {
    /// Of users.
    pub uids: [u32; 4],
    /// Of groups.
    pub gids: [u32; 4],
}

/// Ours.
pub fn own_credentials() -> Credentials {
    let (mut uids, mut gids) = ([0; 4], [0; 4]);
    // SAFETY: fills in numbers.
    unsafe {
        libc::getresuid(&raw mut uids[0], &raw mut uids[1], &raw mut uids[2]);
        libc::getresgid(&raw mut gids[0], &raw mut gids[1], &raw mut gids[2]);
    }
    (uids[3], gids[3]) = (uids[1], gids[1]);
    Credentials { uids, gids }
}

/// Known processes are forgotten beyond this number: then memory maps decide.
const KNOWN_MAX: usize = 64 << 10;

impl Kin {
    pub fn add(&mut self, pid: i32) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(pid);
    }

    /// What the kernel knows of a thread that is alive.
    pub fn identify(&self, tid: i32) -> Option<Identity> {
        asked_by_pidfd(tid).or_else(|| self.read_status(tid))
    }

    /// The same from /proc, which also tells that a thread is dead but not yet waited for.
    pub fn read_status(&self, tid: i32) -> Option<Identity> {
        let status = fs::read(format!("/proc/{tid}/status")).ok()?;
        let text = String::from_utf8_lossy(&status);
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
        };
        if matches!(field("State:")?, "Z" | "X") {
            return None;
        }
        let ids = |name: &str| -> Option<[u32; 4]> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            let ids: Vec<u32> = line.split_whitespace().flat_map(str::parse).collect();
            ids.try_into().ok()
        };
        Some(Identity {
            process: field("Tgid:")?.parse().ok()?,
            parent: field("PPid:")?.parse().ok()?,
            credentials: Credentials { uids: ids("Uid:")?, gids: ids("Gid:")? },
        })
    }

    /// Whether a thread is of the recording: of a known process, of a child of one, or of a
    /// process that has the arena attached.
    pub fn contains(&self, identity: &Identity, arenas: &[Mapped]) -> bool {
        self.known.contains(&identity.process)
            || self.known.contains(&identity.parent)
            || has_mapped(identity.process, arenas)
    }
}

/// An arena as /proc/PID/maps shows it: part of its name, and its inode, which for a System V
/// segment is the id.
pub struct Mapped {
    pub name: &'static str,
    pub inode: u64,
}

/// Whether a process has one of these arenas mapped. That needs rights that a stranger does not have.
pub fn has_mapped(pid: i32, arenas: &[Mapped]) -> bool {
    fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| {
        maps.lines().any(|line| {
            let inode = line.split(' ').nth(4).and_then(|inode| inode.parse().ok());
            arenas.iter().any(|arena| line.contains(arena.name) && inode == Some(arena.inode))
        })
    })
}

/// The kernel's `struct pidfd_info`, in its first form.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    thread: u32,
    process: u32,
    parent: u32,
    /// Real user and group, then effective, saved, and for files.
    ids: [u32; 8],
    exit_code: i32,
}

const PIDFD_THREAD: libc::c_uint = libc::O_EXCL as libc::c_uint;
/// `_IOWR(0xff, 11, struct pidfd_info)`.
const PIDFD_GET_INFO: libc::Ioctl = 0xc040_ff0b;
const _: () = assert!(size_of::<PidfdInfo>() == 64);
/// In `mask`: ids of processes, ids of users.
const PIDFD_INFO_IDS: u64 = 1 | 2;

/// A quarter of the time that /proc takes; since Linux 6.13.
fn asked_by_pidfd(tid: i32) -> Option<Identity> {
    let mut info = PidfdInfo { mask: PIDFD_INFO_IDS, ..PidfdInfo::default() };
    // SAFETY: the descriptor is ours; the operation writes a structure of just this layout.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, tid, PIDFD_THREAD);
        let fd = OwnedFd::from_raw_fd(i32::try_from(fd).ok().filter(|&fd| fd >= 0)?);
        if libc::ioctl(fd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) != 0 {
            return None;
        }
    }
    let every_second = |from: usize| [0, 2, 4, 6].map(|n| info.ids[from + n]);
    let credentials = Credentials { uids: every_second(0), gids: every_second(1) };
    (info.mask & PIDFD_INFO_IDS == PIDFD_INFO_IDS).then_some(Identity {
        process: info.process as i32,
        parent: info.parent as i32,
        credentials,
    })
}
