//! A lane: the actions and the progress of one recorded thread, shared by the planner, the task,
//! and the tasks that wait for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Count of a lane that is over: more than any lane finishes.
const DONE_WITH: u64 = u64::MAX / 2;

/// Current state of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mood {
    /// Not created yet.
    Unborn = 0,
    /// Working, or about to.
    Busy = 1,
    /// In a call that may sleep until another task acts.
    Blocked = 2,
    /// Has no actions.
    Idle = 3,
    /// Waits for another lane.
    Waits = 4,
    /// Waits for the calls that overlapped its own to end.
    Appeals = 5,
    /// Ended.
    Over = 6,
    /// Waits for something certain to come: the time of its call, or room in the log.
    Rests = 7,
}

/// Counters of a task that are not in the outcome yet. Only the task writes them, unless it is
/// stuck for good.
#[derive(Default)]
pub struct Counts {
    /// Calls replayed.
    pub replayed: Count,
    /// Calls made for their time alone.
    pub timed: Count,
    /// Results that agreed.
    pub verified: Count,
    /// Results that could not be compared.
    pub unverified: Count,
    /// Results in `unverified` that differed because of concurrent writes.
    pub raced: Count,
    /// Results in `unverified` that differed on files with unrecorded writes.
    pub unseen: Count,
    /// Bytes moved by calls.
    pub bytes: Count,
}

/// A counter with a single writer.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Returns the count and resets it.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// Actions of one recorded thread, handed over in batches.
pub struct Lane<B> {
    /// The thread's number in the trace; 0 while unknown.
    pub thread: AtomicU32,
    /// Number of finished actions.
    done: AtomicU64,
    /// Recorded start of the current or next action.
    position: AtomicU64,
    /// Sequence number of the current call.
    pub seq: AtomicU64,
    /// Kernel thread id of its task; 0 while there is none.
    pub task: AtomicI32,
    /// Counters of its task.
    pub counts: Counts,
    mood: AtomicU8,
    /// The thread that it waits for, and the number of actions that thread must finish.
    waits_for: (AtomicU32, AtomicU64),
    /// Lowest count that a sleeper waits for.
    wanted: AtomicU64,
    /// Futex, rung when that count is reached.
    bell: AtomicU32,
    queue: Mutex<Queue<B>>,
    /// Incremented by each push and by the close.
    filled: AtomicUsize,
    woken: Condvar,
}

struct Queue<B> {
    batches: VecDeque<B>,
    closed: bool,
    /// The task sleeps until a batch or the end comes.
    waits: bool,
}

impl<B> Default for Lane<B> {
    fn default() -> Lane<B> {
        Lane {
            thread: AtomicU32::new(0),
            done: AtomicU64::new(0),
            position: AtomicU64::new(u64::MAX),
            seq: AtomicU64::new(0),
            task: AtomicI32::new(0),
            counts: Counts::default(),
            mood: AtomicU8::new(Mood::Unborn as u8),
            waits_for: (AtomicU32::new(0), AtomicU64::new(0)),
            wanted: AtomicU64::new(u64::MAX),
            bell: AtomicU32::new(0),
            queue: Mutex::new(Queue { batches: VecDeque::new(), closed: false, waits: false }),
            filled: AtomicUsize::new(0),
            woken: Condvar::new(),
        }
    }
}

impl<B> Lane<B> {
    fn queue(&self) -> MutexGuard<'_, Queue<B>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over a batch whose first action began at `enter`.
    pub fn push(&self, batch: B, enter: u64) {
        let mut queue = self.queue();
        // An idle task's position says that nothing comes; now something does.
        self.position.fetch_min(enter, Ordering::SeqCst);
        queue.batches.push_back(batch);
        self.tell(queue);
    }

    /// Marks the end: nothing is pushed any more.
    pub fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        self.tell(queue);
    }

    fn tell(&self, mut queue: MutexGuard<'_, Queue<B>>) {
        self.filled.fetch_add(1, Ordering::Relaxed);
        let waits = std::mem::take(&mut queue.waits);
        drop(queue);
        if waits {
            self.woken.notify_one();
        }
    }

    /// Spins up to `spins` times for a push, so that the planner need not wake the task.
    pub fn look_out(&self, spins: u32) {
        let queue = self.queue();
        if !queue.batches.is_empty() || queue.closed {
            return;
        }
        self.position.store(u64::MAX, Ordering::SeqCst);
        let before = self.filled.load(Ordering::Relaxed);
        drop(queue);
        for _ in 0..spins {
            if self.filled.load(Ordering::Relaxed) != before {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Waits for the next batch; returns `None` after the last one.
    pub fn take(&self) -> Option<B> {
        let mut queue = self.queue();
        loop {
            if let Some(batch) = queue.batches.pop_front() {
                self.set_mood(Mood::Busy);
                return Some(batch);
            }
            self.position.store(u64::MAX, Ordering::SeqCst);
            if queue.closed {
                return None;
            }
            self.set_mood(Mood::Idle);
            queue.waits = true;
            queue = self.woken.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sets the task's state.
    pub fn set_mood(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::SeqCst);
    }

    /// Returns the task's state.
    pub fn mood(&self) -> Mood {
        match self.mood.load(Ordering::SeqCst) {
            0 => Mood::Unborn,
            1 => Mood::Busy,
            2 => Mood::Blocked,
            3 => Mood::Idle,
            4 => Mood::Waits,
            5 => Mood::Appeals,
            7 => Mood::Rests,
            _ => Mood::Over,
        }
    }

    /// The task begins an action whose recorded start was `enter`.
    pub fn begin(&self, enter: u64, seq: u64) {
        self.position.store(enter, Ordering::Relaxed);
        self.seq.store(seq, Ordering::Relaxed);
    }

    /// Recorded start of the current action; `u64::MAX` if there is none.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::SeqCst)
    }

    /// Number of finished actions.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    /// Counts one more finished action. Only the lane's task calls this.
    pub fn finish_one(&self) {
        let done = self.done.load(Ordering::Relaxed) + 1;
        self.done.swap(done, Ordering::SeqCst);
        if done >= self.wanted.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    /// Marks the lane as over, however its task ended: nothing needs to wait for it.
    pub fn over(&self) {
        self.set_mood(Mood::Over);
        self.position.store(u64::MAX, Ordering::SeqCst);
        self.done.store(DONE_WITH, Ordering::SeqCst);
        self.ring();
    }

    /// Records the lane that this one waits for.
    pub fn waits_for(&self, other: &Lane<B>, count: u64) {
        self.waits_for.0.store(other.thread.load(Ordering::Relaxed), Ordering::Release);
        self.waits_for.1.store(count, Ordering::Release);
        self.set_mood(Mood::Waits);
    }

    /// Returns the thread that it waits for now, and the number of actions it must finish.
    pub fn awaited(&self) -> Option<(u32, u64)> {
        let (thread, count) = &self.waits_for;
        let load = || (thread.load(Ordering::Acquire), count.load(Ordering::Acquire));
        // Equal values before and after the state check cannot mix two waits.
        let before = load();
        (self.mood() == Mood::Waits && load() == before).then_some(before)
    }

    /// Wakes all that sleep for this lane.
    fn ring(&self) {
        self.wanted.store(u64::MAX, Ordering::SeqCst);
        self.bell.fetch_add(1, Ordering::SeqCst);
        futex_wake_all(&self.bell);
    }

    /// Waits until `count` actions are finished; spins `spins` times before it sleeps.
    pub fn wait_for(&self, count: u64, spins: u32) {
        for _ in 0..spins {
            if self.done() >= count {
                return;
            }
            std::hint::spin_loop();
        }
        loop {
            // The order matters: `ring` resets `wanted` first and increments the bell after that.
            let bell = self.bell.load(Ordering::SeqCst);
            self.wanted.fetch_min(count, Ordering::SeqCst);
            if self.done() >= count {
                return;
            }
            futex_wait(&self.bell, bell, Duration::from_secs(1));
        }
    }
}

/// Sleeps until the word is woken, has another value, or the time is over.
pub fn futex_wait(word: &AtomicU32, value: u32, most: Duration) {
    let time =
        libc::timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
    let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the time live through the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, value, &raw const time) };
}

/// Wakes all sleepers on the word.
pub fn futex_wake_all(word: &AtomicU32) {
    let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is borrowed, so it lives through the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn waiters_are_woken_when_their_count_is_reached() {
        let lane = Arc::new(Lane::<()>::default());
        let waiters: Vec<_> = (1..=50)
            .map(|count| {
                let lane = Arc::clone(&lane);
                std::thread::spawn(move || {
                    lane.wait_for(count * 100, 10);
                    lane.done() >= count * 100
                })
            })
            .collect();
        (0..5000).for_each(|_| lane.finish_one());
        assert!(waiters.into_iter().all(|w| w.join().unwrap()));
    }

    #[test]
    fn what_is_pushed_comes_out_and_then_the_end() {
        let lane = Arc::new(Lane::<()>::default());
        let taker = Arc::clone(&lane);
        let task = std::thread::spawn(move || std::iter::from_fn(|| taker.take()).count());
        (0..3).for_each(|_| lane.push((), 1));
        lane.close();
        assert_eq!(task.join().unwrap(), 3);
        assert_eq!(lane.position(), u64::MAX);
    }
}
