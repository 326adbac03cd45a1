//! The slot of a traced thread: who it is, and how far its stream is written and read.

use crate::QUEUE;
use crate::atomics::{AtomicU32, AtomicU64, Ordering, fence};

/// States of a slot.
pub mod slot_state {
    /// Not in use.
    pub const FREE: u32 = 0;
    /// Reserved for a thread that is about to start.
    pub const RESERVED: u32 = 1;
    /// In use.
    pub const ACTIVE: u32 = 2;
    /// The thread is gone; the recorder still reads its last records.
    pub const ENDED: u32 = 3;
    /// Reserved for a thread that another slot still stands for.
    pub const MOVING: u32 = 4;
}

/// Bits of `slot.exec_state`.
pub mod exec_state {
    /// A seccomp filter of the program may answer its calls with SIGSYS.
    pub const FILTERED: u64 = 1;
    /// The thread may not read the time stamp counter.
    pub const CLOCKLESS: u64 = 2;
    /// From this bit on: which of its calls the agent does without, as a seccomp filter of the program may object.
    pub const DENIED_AT: u32 = 32;
}

/// State and stream of one traced thread.
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(1024))]
pub struct Slot {
    /// A [`slot_state`]; see the table of transitions above.
    pub state: AtomicU32,
    /// Number of threads that have used this slot.
    pub generation: AtomicU32,
    /// Thread number in this recording.
    pub thread: AtomicU32,
    /// Process number in this recording.
    pub process: AtomicU32,
    /// Thread number of the creator.
    pub parent: AtomicU32,
    /// How the thread was created: an `syscalls::record::StartHow`.
    pub how: AtomicU32,
    /// Process id in the thread's own namespace; 0 while unknown.
    pub pid: AtomicU32,
    /// Thread id in the thread's own namespace; 0 while unknown.
    pub tid: AtomicU32,
    /// Process id as returned to the creator; 0 while unknown.
    pub pid_seen: AtomicU32,
    /// Non-zero if pid and tid are not those of the recorder's pid namespace.
    pub foreign_pid: AtomicU32,
    /// Number of chunks queued so far.
    pub queued: AtomicU32,
    /// Stream position at which the last queued chunk begins.
    pub chunk_start: AtomicU64,
    /// Stream position at which the last use of the home chunk ended; it is free once that is read.
    pub home_end: AtomicU64,
    /// Signals that the program believes blocked although they are not: passed on across an exec.
    pub exec_blocked: AtomicU64,
    /// Signals that the program ignores although the agent handles them: passed on across an exec.
    pub exec_ignored: AtomicU64,
    /// Address of the agent's `Context` for this thread, used by agents of programs that trace it.
    pub context: AtomicU64,
    /// Other state passed on across an exec: [`exec_state`] bits.
    pub exec_state: AtomicU64,
    /// Number of bytes published so far.
    pub published: AtomicU64,
    /// Number of calls made: counted when they return, or before if they may not (exec, exit).
    pub calls: AtomicU64,
    /// Number of these that came through SIGSYS.
    pub slow_calls: AtomicU64,
    /// Nanoseconds spent waiting for room in the stream.
    pub stall_ns: AtomicU64,
    /// Time stamp at which the supervisor saw the last exec stop; 0 if it has seen none.
    pub exec_stopped: AtomicU64,

    /// How much the recorder has read.
    pub consumed: Consumed,

    /// A [`request`] and its number.
    pub request: AtomicU32,
    /// An [`answer`] and the number of its request; a futex.
    pub answer: AtomicU32,
    /// How many requests were made here, by all threads that have used this slot.
    pub requests: AtomicU32,
    /// Arguments of the request; some answers are returned here too.
    pub request_args: [AtomicU64; 6],
    /// What stands behind them in requests of re-executions.
    pub request_more: [AtomicU64; 2],

    /// Ids of the queued chunks: the chunk number modulo [`QUEUE`] is the index.
    pub queue: [AtomicU32; QUEUE],
}

/// The recorder's side of a slot, on a cache line of its own.
#[cfg_attr(loom, derive(Default))]
#[repr(C, align(64))]
pub struct Consumed {
    /// Number of bytes read so far.
    pub bytes: AtomicU64,
    /// Futex that the recorder increments after it made room.
    pub room: AtomicU32,
    /// Non-zero while the thread waits for room.
    pub waiting: AtomicU32,
}

impl Slot {
    /// Whether it waits for its thread to begin.
    pub fn is_reserved(&self) -> bool {
        self.state.load(Ordering::Acquire) == slot_state::RESERVED
    }

    /// The thread takes its slot. False if the recorder has taken the thread for dead.
    #[must_use]
    pub fn activate(&self) -> bool {
        let (from, to) = (slot_state::RESERVED, slot_state::ACTIVE);
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The thread will publish no more.
    pub fn end(&self) {
        self.state.store(slot_state::ENDED, Ordering::Release);
    }

    /// The side that has reserved it started no thread.
    pub fn give_back(&self) {
        self.state.store(slot_state::FREE, Ordering::Release);
    }

    /// The writer makes its stream visible up to here.
    #[inline(always)]
    pub fn publish(&self, position: u64) {
        self.published.store(position, Ordering::Release);
    }

    /// The reader has made room: returns whether the futex `consumed.room` must be woken.
    #[must_use]
    pub fn room_is_awaited(&self) -> bool {
        // The consumed count must be visible before `waiting` is read.
        fence(Ordering::SeqCst);
        // Cleared so that a stopped thread is woken once, not in every round.
        let is_awaited = self.consumed.waiting.load(Ordering::Relaxed) != 0
            && self.consumed.waiting.swap(0, Ordering::AcqRel) != 0;
        if is_awaited {
            self.consumed.room.fetch_add(1, Ordering::AcqRel);
        }
        is_awaited
    }

    /// Forgets the thread that has used it, before the next one may.
    pub(crate) fn clear(&self) {
        let words = [
            &self.thread,
            &self.process,
            &self.parent,
            &self.how,
            &self.pid,
            &self.tid,
            &self.pid_seen,
            &self.foreign_pid,
            &self.queued,
            &self.consumed.waiting,
            &self.request,
            &self.answer,
        ];
        let counters = [
            &self.chunk_start,
            &self.home_end,
            &self.exec_blocked,
            &self.exec_ignored,
            &self.exec_state,
            &self.published,
            &self.calls,
            &self.slow_calls,
            &self.stall_ns,
            &self.consumed.bytes,
        ];
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        counters.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}
