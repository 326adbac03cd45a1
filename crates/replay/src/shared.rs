//! State shared by the planner, the tasks and the watch.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::batch::{Batch, Lane};
use crate::clock::{Pace, Rate};
use crate::lane::{Counts, Mood};
use crate::log::{Came, Line, Log};
use crate::options::{Options, Verify};
use crate::outcome::{DifferingPart, Example, Outcome, Stopped, Tally};
use crate::reopen::Desk;
use crate::scan::Scan;
use crate::space::Space;

/// Memory of batches that may be queued for tasks: enough to keep them going, and little enough to
/// be in the caches when it is used.
const BUDGET_BYTES: usize = 16 << 20;
/// Step and limit of the budget's growth when nothing moves.
const BUDGET_STEP: usize = 4 << 20;
const BUDGET_BYTES_MAX: usize = 96 << 20;
/// How long nothing must move before an overlapping call is no longer repeated, as other calls may
/// wait for it. Shorter after that has been in vain `APPEALS_IN_VAIN` times.
const APPEAL_PATIENCE: Duration = Duration::from_millis(200);
const APPEAL_PATIENCE_LAST: Duration = Duration::from_millis(50);
const APPEALS_IN_VAIN: usize = 20;
/// Longest chain of waiting lanes that is followed.
const WAITERS_MAX: usize = 4;
/// Polls before a task sleeps, some ten microseconds: waking a sleeper costs as much.
const SPINS: u32 = 2000;
/// Number of empty batches kept for reuse.
const SPARE_BATCHES: usize = 256;

/// Resources of a replay that only the host has.
#[derive(Default)]
pub struct Host {
    /// The replay's own /proc.
    pub proc: Option<OwnedFd>,
    /// Log of calls.
    pub log: Option<Arc<Log>>,
    /// Service that reopens descriptors.
    pub desk: Option<Desk>,
}

/// State that all threads and tasks of a replay share.
pub struct Shared {
    /// Options of the replay.
    pub options: Options,
    host: Host,
    /// Disk space that may be used.
    pub space: Arc<Space>,
    /// Directory scans in progress.
    pub scans: Mutex<HashMap<u64, Scan>>,
    /// Nanoseconds per tick of the recording.
    ns_per_tick: f64,
    rate: Rate,
    /// The recording's first tick; `clock` is when its time starts to pass here.
    epoch_tsc: u64,
    clock: OnceLock<Instant>,
    lanes: Mutex<Vec<Arc<Lane>>>,
    planned: AtomicU64,
    appeals: AtomicUsize,
    appeals_in_vain: AtomicUsize,
    charged: AtomicUsize,
    budget: AtomicUsize,
    stop: AtomicBool,
    cores: usize,
    busy: AtomicUsize,
    spare: Mutex<Vec<Batch>>,
    outcome: Mutex<Outcome>,
    alive: Mutex<usize>,
    died: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time since which nothing has moved.
#[derive(Clone, Copy)]
pub struct Still {
    progress: u64,
    since: Instant,
}

impl Still {
    /// Starts now.
    pub fn since_now(shared: &Shared) -> Still {
        Still { progress: shared.progress(), since: Instant::now() }
    }

    /// Unchanged if nothing has moved, else restarted now.
    pub fn as_of_now(self, shared: &Shared) -> Still {
        if shared.progress() == self.progress { self } else { Still::since_now(shared) }
    }

    fn is_long(self, patience: Duration) -> bool {
        self.since.elapsed() > patience
    }
}

/// Whether `lane` waits, directly or through others, for `mine`: it cannot advance before that.
fn waits_for(lane: &Lane, mine: &Lane, lanes: &HashMap<u32, Arc<Lane>>) -> bool {
    let mut who = lane;
    for _ in 0..WAITERS_MAX {
        let Some((thread, count)) = who.awaited() else { return false };
        match lanes.get(&thread) {
            Some(next) if next.done() >= count => return false,
            Some(next) if std::ptr::eq(mine, &**next) => return true,
            Some(next) => who = next,
            None => return false,
        }
    }
    false
}

impl Shared {
    /// For a recording with `tsc_hz` ticks per second that began at `epoch_tsc`.
    pub fn new(
        options: Options,
        host: Host,
        space: Arc<Space>,
        tsc_hz: u64,
        epoch_tsc: u64,
    ) -> Arc<Shared> {
        let ns_per_tick = 1e9 / tsc_hz.max(1) as f64;
        Arc::new(Shared {
            options,
            host,
            space,
            scans: Mutex::default(),
            ns_per_tick,
            rate: Rate::new(ns_per_tick),
            epoch_tsc,
            clock: OnceLock::new(),
            lanes: Mutex::default(),
            planned: AtomicU64::new(0),
            appeals: AtomicUsize::new(0),
            appeals_in_vain: AtomicUsize::new(0),
            charged: AtomicUsize::new(0),
            budget: AtomicUsize::new(BUDGET_BYTES),
            stop: AtomicBool::new(false),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            busy: AtomicUsize::new(1),
            spare: Mutex::default(),
            outcome: Mutex::default(),
            alive: Mutex::default(),
            died: Condvar::new(),
        })
    }

    /// Converts ticks of the recording to nanoseconds.
    pub fn ticks_to_ns(&self, ticks: u64) -> u64 {
        self.rate.to_ns(ticks)
    }

    /// Starts the clock and returns its start. Tasks at the recorded pace wait for it, so that
    /// planning ahead takes no time from calls.
    pub fn start_clock(&self) -> Instant {
        *self.clock.get_or_init(Instant::now)
    }

    /// Returns the pace of a task once the clock was started; `None` if the replay is unpaced.
    pub fn pace(&self) -> Option<Pace> {
        let speed = self.options.speed?;
        Some(Pace::new(*self.clock.wait(), self.epoch_tsc, self.ns_per_tick / speed))
    }

    // The tasks.

    /// A task is about to be created.
    pub fn begins(&self) {
        *lock(&self.alive) += 1;
    }

    /// The task of a lane has ended, or could not be created.
    pub fn ends(&self, lane: &Lane) {
        lane.over();
        *lock(&self.alive) -= 1;
        self.died.notify_all();
    }

    /// Adds a lane that others may wait for.
    pub fn enlist(&self, lane: &Arc<Lane>) {
        lock(&self.lanes).push(Arc::clone(lane));
    }

    /// Removes lanes whose tasks are over.
    pub fn discharge(&self) {
        lock(&self.lanes).retain(|lane| lane.mood() != Mood::Over);
    }

    /// Number of times a task polls before it sleeps: spin when a core is free.
    pub fn spins(&self) -> u32 {
        if self.busy.load(Ordering::Relaxed) <= self.cores { SPINS } else { 0 }
    }

    /// Runs `sleep` while the task does not count as busy.
    pub fn asleep<T>(&self, sleep: impl FnOnce() -> T) -> T {
        self.busy.fetch_sub(1, Ordering::Relaxed);
        let result = sleep();
        self.busy.fetch_add(1, Ordering::Relaxed);
        result
    }

    /// Counts a task as busy, or no longer.
    pub fn count_busy(&self, begins: bool) {
        match begins {
            true => self.busy.fetch_add(1, Ordering::Relaxed),
            false => self.busy.fetch_sub(1, Ordering::Relaxed),
        };
    }

    // Room for queued batches.

    /// Charges a queued batch to the budget.
    pub fn charge(&self, bytes: usize) {
        self.charged.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes back a finished batch.
    pub fn give_back(&self, mut batch: Batch) {
        self.charged.fetch_sub(batch.charged, Ordering::Relaxed);
        batch.clear();
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE_BATCHES {
            spare.push(batch);
        }
    }

    /// Returns an empty batch.
    pub fn empty_batch(&self) -> Batch {
        lock(&self.spare).pop().unwrap_or_default()
    }

    /// Whether more is queued than the budget allows.
    pub fn over_budget(&self) -> bool {
        self.charged.load(Ordering::Relaxed) > self.budget.load(Ordering::Relaxed)
    }

    /// The budget is as it was at first again, if little is queued.
    pub fn restore_budget(&self) {
        if self.charged.load(Ordering::Relaxed) < BUDGET_BYTES / 2 {
            self.budget.store(BUDGET_BYTES, Ordering::Relaxed);
        }
    }

    /// Whether more than three quarters of what the budget allows is queued.
    pub fn much_is_queued(&self) -> bool {
        let budget = self.budget.load(Ordering::Relaxed);
        self.charged.load(Ordering::Relaxed) > budget / 4 * 3
    }

    /// Lets the budget grow by a step. Returns whether it was below its limit.
    pub fn grow_budget(&self) -> bool {
        let may_grow = self.budget.load(Ordering::Relaxed) < BUDGET_BYTES_MAX;
        if may_grow {
            self.budget.fetch_add(BUDGET_STEP, Ordering::Relaxed);
        }
        may_grow
    }

    /// Sum of all finished actions: changes whenever something moves.
    pub fn progress(&self) -> u64 {
        lock(&self.lanes).iter().fold(0, |sum, lane| sum.wrapping_add(lane.done()))
    }

    /// Whether `holds` is true of any lane.
    pub fn any_lane(&self, holds: impl FnMut(&Lane) -> bool) -> bool {
        let mut holds = holds;
        lock(&self.lanes).iter().any(|lane| holds(lane))
    }

    /// The replay's own /proc, if there is one.
    pub fn proc(&self) -> Option<BorrowedFd<'_>> {
        self.host.proc.as_ref().map(AsFd::as_fd)
    }

    // Appeals.

    /// Publishes that all calls which began before `tsc` have been handed over.
    pub fn planned(&self, tsc: u64) {
        self.planned.fetch_max(tsc, Ordering::SeqCst);
    }

    /// Whether any task waits for calls that overlapped its own.
    pub fn someone_appeals(&self) -> bool {
        self.appeals.load(Ordering::Relaxed) > 0
    }

    /// Repeats `attempt` until it succeeds, or until all calls that began before `exit` have ended.
    /// Other tasks that appeal are not waited for.
    pub fn appeal(&self, lane: &Lane, exit: u64, mut attempt: impl FnMut() -> bool) -> bool {
        self.appeals.fetch_add(1, Ordering::SeqCst);
        lane.set_mood(Mood::Appeals);
        let mut pause = Duration::from_micros(10);
        let mut still = Still::since_now(self);
        let content = loop {
            still = still.as_of_now(self);
            let ended = self.stopping() || self.all_ended_before(lane, exit);
            let hopeless = !ended && self.is_hopeless(still, lane, exit);
            if attempt() {
                break true;
            }
            if ended || hopeless {
                self.appeals_in_vain.fetch_add(usize::from(hopeless), Ordering::Relaxed);
                break false;
            }
            self.asleep(|| std::thread::sleep(pause));
            pause = (pause * 2).min(Duration::from_millis(2));
        };
        lane.set_mood(Mood::Busy);
        self.appeals.fetch_sub(1, Ordering::SeqCst);
        content
    }

    /// Whether waiting for calls that began before `exit` is in vain: they may wait for us. A call
    /// that ends by itself does not, however slow the disk.
    pub fn is_hopeless(&self, still: Still, mine: &Lane, exit: u64) -> bool {
        let works = |lane: &Arc<Lane>| {
            !std::ptr::eq(mine, &**lane)
                && lane.position() < exit
                && matches!(lane.mood(), Mood::Busy | Mood::Rests)
        };
        // Overlapping calls may not be planned yet.
        let planned = self.planned.load(Ordering::SeqCst) >= exit;
        let patience = match self.appeals_in_vain.load(Ordering::Relaxed) {
            APPEALS_IN_VAIN.. if planned => APPEAL_PATIENCE_LAST,
            _ => APPEAL_PATIENCE,
        };
        still.is_long(patience) && !lock(&self.lanes).iter().any(works)
    }

    fn all_ended_before(&self, mine: &Lane, exit: u64) -> bool {
        if self.planned.load(Ordering::SeqCst) < exit {
            return false;
        }
        let lanes = lock(&self.lanes);
        let numbered =
            |lane: &'_ Arc<Lane>| (lane.thread.load(Ordering::Relaxed), Arc::clone(lane));
        let by_thread = LazyCell::new(|| lanes.iter().map(numbered).collect());
        lanes.iter().all(|lane| {
            std::ptr::eq(mine, &**lane)
                || lane.position() >= exit
                // We may hold it up; for later actions that our result shows, we have waited.
                || matches!(lane.mood(), Mood::Appeals | Mood::Over)
                || lane.mood() == Mood::Waits && waits_for(lane, mine, &by_thread)
        })
    }

    // Outcome.

    /// Stops the replay; the first reason counts.
    pub fn stop(&self, why: Stopped) {
        lock(&self.outcome).stopped.get_or_insert(why);
        self.stop.store(true, Ordering::SeqCst);
        if let Some(gate) = &self.options.gate {
            gate.stop();
        }
    }

    /// Whether the replay is to stop.
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Records a mismatch.
    pub fn differs(&self, kind: DifferingPart, cause: String, example: Example) {
        lock(&self.outcome).mismatches.add(kind, cause, example);
        if self.options.verify == Verify::Abort {
            self.stop(Stopped::Mismatch);
        }
    }

    /// Adds the counts of a task.
    pub fn add(&self, counts: &Counts, tally: Tally) {
        let mut outcome = lock(&self.outcome);
        outcome.add_counts(counts);
        outcome.add(tally);
    }

    /// Takes the outcome, with the counts of tasks that never end.
    pub fn take_outcome(&self) -> Outcome {
        let mut outcome = std::mem::take(&mut *lock(&self.outcome));
        lock(&self.lanes).iter().for_each(|lane| outcome.add_counts(&lane.counts));
        outcome
    }

    /// Logs a call if its kind of outcome is logged; only then the line is built.
    pub fn tell(&self, lane: Option<&Lane>, came: Came, line: impl FnOnce() -> Option<Line>) {
        let Some(log) = self.host.log.as_ref().filter(|log| log.tells(came)) else { return };
        let Some(line) = line() else { return };
        let mood = lane.map(|lane| (lane, lane.mood()));
        mood.inspect(|(lane, _)| lane.set_mood(Mood::Rests));
        self.asleep(|| log.add(line));
        mood.inspect(|(lane, mood)| lane.set_mood(*mood));
    }

    /// Reopens a descriptor of the calling task; returns the new one or a negative errno.
    pub fn reopen(&self, fd: i32, flags: i32) -> i64 {
        match &self.host.desk {
            Some(desk) => desk.ask(fd, flags),
            None => -i64::from(libc::ENOSYS),
        }
    }

    /// Service that reopens descriptors.
    pub fn desk(&self) -> Option<&Desk> {
        self.host.desk.as_ref()
    }

    /// Waits for a task's end, for this long at most. Returns whether tasks are left.
    pub fn wait_for_an_end(&self, most: Duration) -> bool {
        let alive = lock(&self.alive);
        if *alive == 0 {
            return false;
        }
        let (alive, _) =
            self.died.wait_timeout(alive, most).unwrap_or_else(PoisonError::into_inner);
        *alive > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_us_is_not_waited_for() {
        let space = Arc::new(Space::new(Vec::new(), None).unwrap());
        let shared = Shared::new(Options::default(), Host::default(), space, 1_000_000_000, 0);
        shared.planned(1000);
        let lanes: Vec<Arc<Lane>> = (0..3).map(|_| Arc::new(Lane::default())).collect();
        for (lane, thread) in lanes.iter().zip(1..) {
            shared.enlist(lane);
            lane.thread.store(thread, Ordering::Relaxed);
            lane.begin(100, 0);
            lane.set_mood(Mood::Busy);
        }
        let [mine, second, third] = &lanes[..] else { unreachable!() };
        assert!(!shared.all_ended_before(mine, 200));
        second.waits_for(mine, 1);
        third.waits_for(second, 1);
        assert!(shared.all_ended_before(mine, 200));
        assert!(!shared.all_ended_before(second, 200), "that one may go on");
        third.waits_for(third, 1);
        assert!(!shared.all_ended_before(mine, 200));
        third.waits_for(second, 0);
        assert!(!shared.all_ended_before(mine, 200), "what it waits for is done");
    }

    #[test]
    fn who_works_is_waited_for_and_who_may_wait_for_us_is_not() {
        let space = Arc::new(Space::new(Vec::new(), None).unwrap());
        let shared = Shared::new(Options::default(), Host::default(), space, 1_000_000_000, 0);
        let [mine, other] = [0, 0].map(|_| Arc::new(Lane::default()));
        for lane in [&mine, &other] {
            shared.enlist(lane);
            lane.begin(100, 0);
            lane.set_mood(Mood::Busy);
        }
        let now = Still::since_now(&shared);
        let long = Still { since: Instant::now() - 2 * APPEAL_PATIENCE, ..now };
        assert!(!shared.is_hopeless(now, &mine, 200));
        assert!(!shared.is_hopeless(long, &mine, 200), "the other one is in a call that ends");
        assert!(shared.is_hopeless(long, &mine, 100), "it began later");
        for mood in [Mood::Blocked, Mood::Waits, Mood::Appeals] {
            other.set_mood(mood);
            assert!(shared.is_hopeless(long, &mine, 200), "{mood:?}");
        }
        let while_ago = Still { since: Instant::now() - APPEAL_PATIENCE / 2, ..now };
        assert!(!shared.is_hopeless(while_ago, &mine, 200));
        // The other one is in a call that began before, and may wait for this one.
        assert!(!shared.appeal(&mine, 300, || false));
        assert_eq!(shared.appeals_in_vain.load(Ordering::Relaxed), 1);
        shared.appeals_in_vain.store(APPEALS_IN_VAIN, Ordering::Relaxed);
        let while_ago = Still { since: Instant::now() - APPEAL_PATIENCE / 2, ..now };
        assert!(!shared.is_hopeless(while_ago, &mine, 200), "the planner is not there yet");
        shared.planned(200);
        assert!(shared.is_hopeless(while_ago, &mine, 200), "that was in vain so often");
    }
}
