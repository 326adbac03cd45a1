//! What a replay may take of the disk. A trace can ask for far more than it holds: copies of copies,
//! allocations, one stored buffer written everywhere.
//!
//! What calls may take is counted in advance; whenever that is used up, the file systems are asked
//! how much of it they have really given. Tasks have descriptors of their own: for them a thread of
//! the host asks.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Of what is free, one part in so many stays free, and no more than so much.
const KEEP_PART: u64 = 10;
const KEEP_MAX: u64 = 4 << 30;

/// Room on the file systems of a replay.
#[derive(Debug)]
pub struct Space {
    places: Vec<Place>,
    /// What the user allows, if that was said.
    max: Option<u64>,
    /// Bytes that may be taken before the file systems are asked again.
    left: AtomicU64,
    desk: Mutex<Desk>,
    changed: Condvar,
}

/// Where tasks ask, one at a time.
#[derive(Debug, Default)]
struct Desk {
    asked: Option<u64>,
    answer: Option<bool>,
    closed: bool,
}

#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    /// So much of its file system stays free.
    floor: u64,
}

impl Space {
    /// On the file systems of these directories: at most `max` bytes of each, and never all that is
    /// free.
    pub fn new(directories: Vec<OwnedFd>, max: Option<u64>) -> io::Result<Space> {
        let place = |directory: OwnedFd| {
            let free = free(&directory)?;
            let keep = (free / KEEP_PART).min(KEEP_MAX);
            let floor = max.map_or(keep, |max| keep.max(free.saturating_sub(max)));
            Ok(Place { directory, floor })
        };
        let places = directories.into_iter().map(place).collect::<io::Result<_>>()?;
        let (left, desk, changed) = (AtomicU64::new(0), Mutex::default(), Condvar::new());
        Ok(Space { places, max, left, desk, changed })
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

    /// Counts what a call of a task may take. Whether it may.
    pub fn take(&self, bytes: u64) -> bool {
        if self.take_counted(bytes) {
            return true;
        }
        let mut desk = self.wait(self.desk(), |desk| desk.asked.is_none() && desk.answer.is_none());
        desk.asked = Some(bytes);
        self.changed.notify_all();
        let mut desk = self.wait(desk, |desk| desk.answer.is_some());
        self.changed.notify_all();
        desk.answer.take().unwrap_or(false)
    }

    /// Answers tasks, until it is closed.
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

    /// Nobody asks any more.
    pub fn close(&self) {
        self.desk().closed = true;
        self.changed.notify_all();
    }

    fn take_counted(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Counts what the host itself may take. Whether it may.
    pub fn take_here(&self, bytes: u64) -> bool {
        if self.take_counted(bytes) {
            return true;
        }
        let rooms = self
            .places
            .iter()
            .map(|place| free(&place.directory).map_or(0, |free| free.saturating_sub(place.floor)));
        let Some(room) = rooms.min().unwrap_or(u64::MAX).checked_sub(bytes) else { return false };
        // Half of it, since others may count at the same time.
        self.left.store(room / 2, Ordering::Relaxed);
        true
    }

    /// Whether one of the file systems is another program's (FUSE): who waits for its answer sleeps as
    /// if it waited for another task.
    pub fn answers_from_outside(&self) -> bool {
        const FUSE: u64 = 0x6573_5546;
        let kind = |place: &Place| rustix::fs::fstatfs(&place.directory).map(|told| told.f_type);
        self.places.iter().any(|place| kind(place).is_ok_and(|kind| kind as u64 == FUSE))
    }

    /// Why there is no more, for people.
    pub fn used_up(&self) -> String {
        match self.max {
            Some(max) => format!(
                "it would take more than {max} bytes (--max-size), or nearly all of the disk that is \
                 free"
            ),
            None => "it would take nearly all of the disk that is free".into(),
        }
    }
}

/// Bytes that are free for everybody.
fn free(directory: &OwnedFd) -> io::Result<u64> {
    let told = rustix::fs::fstatvfs(directory)?;
    // Some file systems do not tell.
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
        // As much as nobody else takes meanwhile.
        let space = space(Some(1 << 20));
        assert!(!space.take_here(2 << 20) && !space.take_here(u64::MAX));
        assert!(space.used_up().contains("--max-size"));
    }

    #[test]
    fn what_is_counted_but_not_used_can_be_taken_again() {
        let space = space(None);
        let part = free(&space.places[0].directory).unwrap() / 8;
        assert!((0..100).all(|_| space.take_here(part)));
        assert!(!space.take_here(8 * part));
    }

    #[test]
    fn tasks_are_answered() {
        let space = space(None);
        let part = free(&space.places[0].directory).unwrap() / 8;
        std::thread::scope(|scope| {
            scope.spawn(|| space.serve());
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| (0..100).all(|_| space.take(part)) && !space.take(8 * part))
                })
                .collect();
            let answers: Vec<bool> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
            space.close();
            assert_eq!(answers, [true; 4]);
        });
    }
}
