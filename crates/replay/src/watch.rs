//! Watches the progress of a replay, and reports which tasks wait for what when it is stuck.

use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use crate::batch::Lane;
use crate::lane::Mood;
use crate::outcome::{Stopped, Waiting, Waits};
use crate::shared::Shared;

/// How long a single call may work while nothing else moves, before it counts as waiting.
const WORKS_AT_MOST: Duration = Duration::from_secs(600);
/// Most tasks reported.
const TOLD_MAX: usize = 20;

/// How long nothing must move before the budget grows.
const BUDGET_PATIENCE: Duration = Duration::from_millis(10);
/// How long nothing must move before a stopping replay ends: tasks may then wait for calls that
/// were left out.
const STUCK_AT_THE_END: Duration = Duration::from_millis(300);
/// How often the host looks whether tasks have ended.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Measures how long nothing has moved that should.
pub struct Watch {
    progress: u64,
    moved: Instant,
    worked: Instant,
}

impl Watch {
    /// Starts now.
    pub fn new(shared: &Shared) -> Watch {
        let now = Instant::now();
        Watch { progress: shared.progress(), moved: now, worked: now }
    }

    /// Returns the idle time, without time in which a task rests, or works for at most
    /// `WORKS_AT_MOST`. Who waits for a leader that waits for us does not rest.
    pub fn idle(&mut self, shared: &Shared) -> Duration {
        if shared.progress() != self.progress {
            *self = Watch::new(shared);
        } else if !is_awaited(shared) && shared.any_lane(|lane| lane.mood() == Mood::Rests)
            || self.moved.elapsed() < WORKS_AT_MOST && shared.any_lane(|lane| works(shared, lane))
        {
            self.worked = Instant::now();
        }
        self.worked.elapsed()
    }
}

impl Shared {
    /// Waits until there is room again. If nothing moves, the needed actions may not be planned
    /// yet: then the budget grows, up to a limit, and `hand_over` gives tasks what is still open.
    pub fn wait_for_room(&self, mut hand_over: impl FnMut()) {
        self.restore_budget();
        if !self.over_budget() {
            return;
        }
        self.start_clock();
        let mut watch = Watch::new(self);
        let mut handed_over = false;
        while self.much_is_queued() && !self.stopping() {
            self.asleep(|| std::thread::sleep(Duration::from_micros(200)));
            let idle = watch.idle(self);
            if idle > BUDGET_PATIENCE && self.grow_budget() {
                return;
            }
            if idle > BUDGET_PATIENCE && !handed_over {
                handed_over = true;
                hand_over();
            }
            if idle > self.options.stuck_after {
                self.stop(Stopped::Stuck(who_waits(self)));
            }
        }
    }

    /// Waits until all tasks are over, or nothing moves any more. Returns whether they are over.
    pub fn wait_for_tasks(&self) -> bool {
        let mut watch = Watch::new(self);
        while self.wait_for_an_end(LOOK_EVERY) {
            let patience = match self.stopping() {
                true => STUCK_AT_THE_END,
                false => self.options.stuck_after,
            };
            if watch.idle(self) > patience {
                return false;
            }
        }
        true
    }
}

/// Whether a leader waits for the replay.
fn is_awaited(shared: &Shared) -> bool {
    shared.options.gate.as_ref().is_some_and(|gate| gate.is_awaited())
}

/// Whether a task is in a call that ends by itself: it runs, or waits for a disk. /proc decides, as
/// the planner may be wrong: a pipe sometimes looks like a file.
fn works(shared: &Shared, lane: &Lane) -> bool {
    lane.mood() == Mood::Busy
        && shared.proc().is_none_or(|proc| !sleeps(proc, lane.task.load(Ordering::Relaxed)))
}

/// Whether a thread is in interruptible sleep.
fn sleeps(proc: BorrowedFd<'_>, thread: i32) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(proc, format!("{thread}/stat"), flags, Mode::empty());
    let Ok(opened) = opened else { return false };
    let mut stat = String::new();
    let read = File::from(opened).read_to_string(&mut stat);
    // The name before it may contain anything.
    read.is_ok() && stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}

/// Returns what each task waits for; first those that others may wait for.
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
    use crate::options::STUCK;

    #[test]
    fn who_reads_from_an_empty_pipe_sleeps_and_who_counts_does_not() {
        let proc = File::open("/proc").unwrap();
        let (mut reading, writing) = std::io::pipe().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        // SAFETY: gettid has no arguments and cannot fail.
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
