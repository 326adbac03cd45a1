//! Watches whether a replay moves on, and tells who waits for what when it does not.

use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use crate::lane::{Lane, Mood};
use crate::outcome::{Waiting, Waits};
use crate::shared::Shared;

/// How long nothing moves before the replay is stuck.
pub const STUCK: Duration = Duration::from_secs(10);
/// How long one call works, while nothing else moves, before it is taken for one that waits.
const WORKS_AT_MOST: Duration = Duration::from_secs(600);
/// Tasks that are told of.
const TOLD_MAX: usize = 20;

/// How long nothing has moved although somebody should.
pub struct Watch {
    progress: u64,
    moved: Instant,
    worked: Instant,
}

impl Watch {
    /// Something has moved just now.
    pub fn new(shared: &Shared) -> Watch {
        let now = Instant::now();
        Watch { progress: shared.progress(), moved: now, worked: now }
    }

    /// Up to now. Who works may take his time, but not for ever; so may who rests.
    pub fn idle(&mut self, shared: &Shared) -> Duration {
        if shared.progress() != self.progress {
            *self = Watch::new(shared);
        } else if shared.any_lane(|lane| lane.mood() == Mood::Rests)
            || self.moved.elapsed() < WORKS_AT_MOST && shared.any_lane(|lane| works(shared, lane))
        {
            self.worked = Instant::now();
        }
        self.worked.elapsed()
    }
}

/// Whether a task is in a call that ends by itself: it runs, or waits for a disk. What the planner
/// takes for such a call may wait for others all the same, as a pipe looks like a file at times.
fn works(shared: &Shared, lane: &Lane) -> bool {
    lane.mood() == Mood::Busy
        && shared.proc().is_none_or(|proc| !sleeps(proc, lane.task.load(Ordering::Relaxed)))
}

/// Whether a thread sleeps until somebody wakes it.
fn sleeps(proc: BorrowedFd<'_>, thread: i32) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(proc, format!("{thread}/stat"), flags, Mode::empty());
    let Ok(opened) = opened else { return false };
    let mut stat = String::new();
    let read = File::from(opened).read_to_string(&mut stat);
    // The name before it may hold anything.
    read.is_ok() && stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}

/// Who waits for what, those first for whom others may wait.
pub fn who_waits(shared: &Shared) -> Vec<Waiting> {
    let mut all = Vec::new();
    shared.any_lane(|lane| {
        let waits = match lane.mood() {
            Mood::Blocked | Mood::Busy => Waits::Return,
            Mood::Appeals => Waits::Result,
            Mood::Waits => Waits::Thread(lane.awaited().map_or(0, |(thread, _)| thread)),
            Mood::Idle => Waits::Work,
            Mood::Unborn | Mood::Over | Mood::Rests => return false,
        };
        let thread = lane.thread.load(Ordering::Relaxed);
        all.push(Waiting { thread, seq: lane.seq.load(Ordering::Relaxed), waits });
        false
    });
    all.sort_by_key(|waiting: &Waiting| match waiting.waits {
        Waits::Return => 0,
        Waits::Result => 1,
        Waits::Thread(_) => 2,
        Waits::Work => 3,
    });
    all.truncate(TOLD_MAX);
    all
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn who_reads_from_an_empty_pipe_sleeps_and_who_counts_does_not() {
        let proc = File::open("/proc").unwrap();
        let (mut reading, writing) = std::io::pipe().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        // SAFETY: takes nothing.
        let own = || unsafe { libc::gettid() };
        let reader = std::thread::spawn(move || {
            tell.send(own()).unwrap();
            reading.read_exact(&mut [0]).is_err()
        });
        let thread = told.recv().unwrap();
        let begun = Instant::now();
        while !sleeps(proc.as_fd(), thread) {
            assert!(begun.elapsed() < STUCK);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!sleeps(proc.as_fd(), own()));
        assert!(!sleeps(proc.as_fd(), 0), "there is none");
        drop(writing);
        assert!(reader.join().unwrap());
    }
}
