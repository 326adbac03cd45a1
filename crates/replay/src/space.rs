//! Limits on disk and memory use of a replay. A trace can ask for far more than it holds: copies of
//! copies, allocations, one stored buffer written everywhere, to files on disk or in memory.
//!
//! What calls may use is counted in advance. When that is used up, the file systems and the kernel
//! are asked how much is really used. Tasks have none of our descriptors, so a host thread asks for
//! them.

mod shmem;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use shmem::Shmem;
pub use shmem::available_memory;

/// One part in `KEEP_PART` of the free disk space is kept free, but at most `KEEP_MAX`.
const KEEP_PART: u64 = 10;
const KEEP_MAX: u64 = 4 << 30;
/// Part of the available memory for files in memory, and for buffers of calls.
const FILES_PART: u64 = 2;
const BUFFERS_PART: u64 = 4;

/// Where bytes are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// On the file systems of the replay.
    Disk,
    /// In files that exist only in memory.
    Memory,
    /// Unknown: counts for both.
    Either,
}

impl Medium {
    fn counts(self) -> [bool; 2] {
        [self != Medium::Memory, self != Medium::Disk]
    }
}

/// Space on the file systems of a replay, and in memory.
#[derive(Debug)]
pub struct Space {
    places: Vec<Place>,
    /// Limit set by the user, if any.
    max: Option<u64>,
    /// Bytes that may be used before the file systems are asked again.
    left: AtomicU64,
    /// Bytes that may have been used, and those left: never less than what is really used.
    promised: AtomicU64,
    shmem: Shmem,
    /// Likewise for files in memory.
    left_in_memory: AtomicU64,
    /// Bytes that buffers of calls may still use.
    buffers: AtomicU64,
    desk: Mutex<Desk>,
    changed: Condvar,
}

/// Where tasks send requests, one at a time.
#[derive(Debug, Default)]
struct Desk {
    asked: Option<u64>,
    answer: Option<bool>,
    closed: bool,
}

#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    /// Bytes of its file system to keep free.
    keep: u64,
    /// Bytes that were free at the start.
    before: u64,
    /// Device number of the file system.
    device: u64,
}

impl Space {
    /// For the file systems of these directories: at most `max` bytes of each, and never all that
    /// is free. Memory limits as by [`Space::in_memory`].
    pub fn new(directories: Vec<OwnedFd>, max: Option<u64>) -> io::Result<Space> {
        let place = |directory: OwnedFd| {
            let free = free(&directory)?;
            let keep = (free / KEEP_PART).min(KEEP_MAX);
            let device = rustix::fs::fstat(&directory)?.st_dev;
            Ok(Place { directory, keep, before: free, device })
        };
        let places = directories.into_iter().map(place).collect::<io::Result<_>>()?;
        let space = Space {
            places,
            max,
            left: AtomicU64::new(0),
            promised: AtomicU64::new(0),
            shmem: Shmem::since_now(),
            left_in_memory: AtomicU64::new(0),
            buffers: AtomicU64::new(0),
            desk: Mutex::default(),
            changed: Condvar::new(),
        };
        Ok(space.in_memory(available_memory()))
    }

    /// Sets the memory limits: files in memory and buffers of calls each use at most a part of
    /// `available`, and files at most `max`.
    pub fn in_memory(mut self, available: u64) -> Space {
        let files = available / FILES_PART;
        self.shmem.max = self.max.map_or(files, |max| files.min(max));
        self.buffers = AtomicU64::new(available / BUFFERS_PART);
        self
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        desk: MutexGuard<'a, Desk>,
        go_on: impl Fn(&Desk) -> bool,
    ) -> MutexGuard<'a, Desk> {
        let wait = self.changed.wait_while(desk, |desk| !desk.closed && !go_on(desk));
        wait.unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the space for a task's call. Returns whether it is available.
    pub fn take(&self, bytes: u64, into: Medium) -> bool {
        let [disk, memory] = into.counts();
        (!memory || self.take_in_memory(bytes)) && (!disk || self.take_of_disk(bytes))
    }

    fn take_of_disk(&self, bytes: u64) -> bool {
        if take_counted(&self.left, bytes) {
            return true;
        }
        let mut desk = self.wait(self.desk(), |desk| desk.asked.is_none() && desk.answer.is_none());
        desk.asked = Some(bytes);
        self.changed.notify_all();
        let mut desk = self.wait(desk, |desk| desk.answer.is_some());
        self.changed.notify_all();
        desk.answer.take().unwrap_or(false)
    }

    fn take_in_memory(&self, bytes: u64) -> bool {
        if take_counted(&self.left_in_memory, bytes) {
            return true;
        }
        let Some(rest) = reserved(self.shmem.room(), bytes) else { return false };
        self.left_in_memory.store(rest, Ordering::Relaxed);
        true
    }

    /// Answers requests of tasks until closed.
    pub fn serve(&self) {
        let mut desk = self.desk();
        while !desk.closed {
            if let Some(bytes) = desk.asked.take() {
                desk.answer = Some(self.take_here(bytes));
                self.changed.notify_all();
            }
            desk = self.wait(desk, |desk| desk.asked.is_some());
        }
    }

    /// Closes the desk: no more requests come.
    pub fn close(&self) {
        self.desk().closed = true;
        self.changed.notify_all();
    }

    /// Counts disk space for the host itself. Returns whether it is available.
    pub fn take_here(&self, bytes: u64) -> bool {
        if take_counted(&self.left, bytes) {
            return true;
        }
        let unused = self.left.swap(0, Ordering::Relaxed);
        let promised = self.promise(|promised| promised.saturating_sub(unused));
        let room = self.places.iter().map(|place| self.room(place, promised)).min();
        let Some(rest) = reserved(room.unwrap_or(u64::MAX), bytes) else { return false };
        // First, so that nobody finds more left than was promised.
        self.promise(|promised| promised.saturating_add(bytes).saturating_add(rest));
        self.left.store(rest, Ordering::Relaxed);
        true
    }

    /// Changes what was promised, and returns it.
    fn promise(&self, change: impl Fn(u64) -> u64) -> u64 {
        let changed = |promised| Some(change(promised));
        let before = self.promised.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
        change(before.unwrap_or_else(|before| before))
    }

    /// Bytes that may still be used of a file system. Against the limit of the user counts what is
    /// used by us: at most what was promised, and at most what is no longer free.
    fn room(&self, place: &Place, promised: u64) -> u64 {
        let free = free(&place.directory).unwrap_or(0);
        let used = place.before.saturating_sub(free).min(promised);
        let allowed = self.max.map_or(u64::MAX, |max| max.saturating_sub(used));
        free.saturating_sub(place.keep).min(allowed)
    }

    /// Returns where bytes written to an open file are stored.
    pub fn place_of(&self, fd: i32) -> Medium {
        match shmem::device_in_memory(fd) {
            // A root in memory is one of the places, and has its own limit.
            Some(device) if !self.places.iter().any(|place| place.device == device) => {
                Medium::Memory
            }
            _ => Medium::Disk,
        }
    }

    /// Reserves memory for buffers of calls. Returns whether it is available.
    pub fn lend_buffers(&self, bytes: u64) -> bool {
        take_counted(&self.buffers, bytes)
    }

    /// Releases reserved memory.
    pub fn give_buffers_back(&self, bytes: u64) {
        self.buffers.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether one of the file systems is served by another program (FUSE): a task that waits for
    /// its answer looks as if it waited for another task.
    pub fn answers_from_outside(&self) -> bool {
        const FUSE: u64 = 0x6573_5546;
        let kind = |place: &Place| rustix::fs::fstatfs(&place.directory).map(|told| told.f_type);
        self.places.iter().any(|place| kind(place).is_ok_and(|kind| kind as u64 == FUSE))
    }

    /// Message for users: why there is no more space.
    pub fn used_up(&self, into: Medium) -> String {
        let all = match into {
            Medium::Memory => {
                "half of the memory that is available, in files that are in memory alone"
            }
            Medium::Disk | Medium::Either => "nearly all of the disk that is free",
        };
        match self.max {
            Some(max) => format!("it would take more than {max} bytes (--max-size), or {all}"),
            None => format!("it would take {all}"),
        }
    }

    /// Message for users: why there is no more memory for buffers of calls.
    pub fn no_buffers(&self) -> String {
        "the buffers of its calls would take more than a quarter of the memory that is available"
            .into()
    }
}

fn take_counted(left: &AtomicU64, bytes: u64) -> bool {
    let take = |left: u64| left.checked_sub(bytes);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
}

/// Takes bytes of `room`. Returns what is reserved of the rest for later calls: half of it, since
/// others may count at the same time.
fn reserved(room: u64, bytes: u64) -> Option<u64> {
    Some(room.checked_sub(bytes)? / 2)
}

/// Bytes that are free for ordinary users.
fn free(directory: &OwnedFd) -> io::Result<u64> {
    let told = rustix::fs::fstatvfs(directory)?;
    // Some file systems report nothing.
    if told.f_blocks == 0 {
        return Ok(u64::MAX);
    }
    Ok(told.f_bavail.saturating_mul(told.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(max: Option<u64>) -> Space {
        let directory = std::fs::File::open(std::env::temp_dir()).unwrap();
        Space::new(vec![directory.into()], max).unwrap()
    }

    #[test]
    fn more_than_allowed_is_refused() {
        // As much as other programs will not use meanwhile.
        let space = space(Some(1 << 20));
        assert!(!space.take_here(2 << 20) && !space.take_here(u64::MAX));
        assert!(space.used_up(Medium::Disk).contains("--max-size"));
    }

    #[test]
    fn what_others_use_does_not_count_against_the_limit() {
        let mut space = space(Some(16 << 20));
        // As if somebody had written 1 GiB since.
        space.places[0].before += 1 << 30;
        assert!((0..12).all(|_| space.take_here(1 << 20)));
        assert!(!space.take_here(16 << 20));
        assert!(space.take_here(2 << 20));
        assert!(!space.take_here(4 << 20));
    }

    #[test]
    fn what_is_counted_but_not_used_can_be_taken_again() {
        let space = space(None);
        let part = free(&space.places[0].directory).unwrap() / 8;
        assert!((0..100).all(|_| space.take_here(part)));
        assert!(!space.take_here(8 * part));
        let part = space.shmem.max / 8;
        assert!((0..100).all(|_| space.take(part, Medium::Memory)));
        assert!(!space.take(16 * part, Medium::Memory) && !space.take(16 * part, Medium::Either));
        assert!(space.used_up(Medium::Memory).contains("memory"));
    }

    #[test]
    fn files_in_memory_are_known_and_count() {
        // SAFETY: the name ends with a NUL; the result is a number.
        let file = unsafe { libc::memfd_create(c"reenact".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(file >= 0);
        let space = space(Some(32 << 20)).in_memory(1 << 40);
        assert_eq!((space.place_of(file), space.place_of(-1)), (Medium::Memory, Medium::Disk));
        // SAFETY: the arguments are numbers; no memory is accessed.
        assert_eq!(unsafe { libc::fallocate(file, 0, 0, 128 << 20) }, 0);
        assert_eq!(space.shmem.room(), 0);
        assert!(!space.take(1 << 20, Medium::Memory) && !space.take(1 << 20, Medium::Either));
        // SAFETY: the descriptor was created above, and nothing else owns it.
        unsafe { libc::close(file) };
    }

    #[test]
    fn buffers_are_lent_and_come_back() {
        let space = space(None).in_memory(4 << 20);
        assert!(space.lend_buffers(1 << 20) && !space.lend_buffers(1));
        space.give_buffers_back(1 << 20);
        assert!(space.lend_buffers(1 << 20));
    }

    #[test]
    fn tasks_are_answered() {
        let space = space(None);
        let part = free(&space.places[0].directory).unwrap() / 8;
        let all = |part| space.take(part, Medium::Disk);
        std::thread::scope(|scope| {
            scope.spawn(|| space.serve());
            let tasks: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..100).all(|_| all(part)) && !all(8 * part)))
                .collect();
            let answers: Vec<bool> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
            space.close();
            assert_eq!(answers, [true; 4]);
        });
    }
}
