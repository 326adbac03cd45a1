//! The processes of a re-execution.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use libc::SIGSYS;
use syscalls::abi::signals::SI_QUEUE;

/// How long a thread may take to end, and how often to look.
const GONE_WITHIN: Duration = Duration::from_secs(10);
const GONE_EVERY: Duration = Duration::from_micros(50);

/// Waits until a thread is gone, and what the kernel does to its memory then is done.
pub(crate) fn wait_for_end(pid: i32, tid: i32) {
    let is_there = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        (!matches!(state, 'Z' | 'X')).then_some(())
    };
    let since = Instant::now();
    while is_there().is_some() && since.elapsed() < GONE_WITHIN {
        std::thread::sleep(GONE_EVERY);
    }
}

/// The wait status of a process that has ended and that its parent has not asked for.
fn status_of_dead(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.starts_with('Z').then(|| rest.split_whitespace().last()?.parse().ok()).flatten()
}

/// The CPU time that a process has had.
pub(crate) fn cpu_time(pid: i32) -> Duration {
    // The kernel's own way to name the clock of a process.
    let clock = (!pid << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills a local struct.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.try_into().unwrap_or(0))
}

/// Tells a thread to let others run.
pub(crate) fn pause(pid: i32, tid: i32) {
    let mut info = [0u64; 16];
    info[0] = SIGSYS.cast_unsigned().into();
    info[1] = SI_QUEUE.cast_unsigned().into();
    info[3] = ring::PAUSE;
    // SAFETY: takes numbers, and reads a siginfo of 128 bytes.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, SIGSYS, info.as_ptr()) };
}

/// Processes that are there, by id.
#[derive(Default)]
pub struct Processes(HashMap<i32, OwnedFd>);

impl Processes {
    /// Notes a process that is alive. Returns true if it was not known.
    pub fn add(&mut self, pid: i32) -> bool {
        if self.0.contains_key(&pid) {
            return false;
        }
        // SAFETY: takes numbers; a descriptor that is returned is ours.
        unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            if let Ok(fd) = i32::try_from(fd)
                && fd >= 0
            {
                self.0.insert(pid, OwnedFd::from_raw_fd(fd));
            }
        }
        true
    }

    /// The wait status of a process that has ended, if that can be known: who was waited for by somebody else
    /// tells it from Linux 6.15 on.
    pub fn status(&self, pid: i32) -> Option<i32> {
        status_of_dead(pid).or_else(|| kin::pidfd::reaped_status(self.0.get(&pid)?))
    }

    /// Returns true if a process has ended.
    pub fn has_ended(&self, pid: i32) -> bool {
        let Some(fd) = self.0.get(&pid) else { return true };
        let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one struct, which is ours.
        unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
    }

    /// A copy of a descriptor that a process has.
    pub fn descriptor(&self, pid: i32, number: i32) -> Option<OwnedFd> {
        let process = self.0.get(&pid)?;
        // SAFETY: takes numbers; a descriptor that is returned is ours.
        unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0);
            i32::try_from(fd).ok().filter(|fd| *fd >= 0).map(|fd| OwnedFd::from_raw_fd(fd))
        }
    }

    /// Ends a process.
    pub fn end(&self, pid: i32) {
        if let Some(fd) = self.0.get(&pid) {
            // SAFETY: takes numbers; the descriptor is of the process that was noted.
            unsafe {
                libc::syscall(
                    libc::SYS_pidfd_send_signal,
                    fd.as_raw_fd(),
                    libc::SIGKILL,
                    std::ptr::null::<libc::siginfo_t>(),
                    0,
                );
            }
        }
    }

    /// Ends all of them.
    pub fn end_all(&self) {
        self.0.keys().for_each(|pid| self.end(*pid));
    }

    /// Returns true if none is there.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets those that have ended. Returns their statuses, as far as they are known.
    pub fn forget_ended(&mut self) -> Vec<(i32, i32)> {
        let ended: Vec<i32> = self.0.keys().copied().filter(|pid| self.has_ended(*pid)).collect();
        let statuses = ended.iter().filter_map(|pid| Some((*pid, self.status(*pid)?))).collect();
        ended.iter().for_each(|pid| drop(self.0.remove(pid)));
        statuses
    }
}
