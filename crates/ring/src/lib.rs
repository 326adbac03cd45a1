//! The shared memory between the traced programs and the recorder.
//!
//! An *arena* holds the records of all programs that may read each other's memory anyway. Programs
//! of another user have an arena of their own. Its bytes are opaque here; what the records mean is
//! told by the `events` crate. What is known about executable files is one for all and can be
//! written by none of them: see [`Catalog`].
//!
//! ```text
//! | Control | Slot 0 .. SLOTS-1 | owners | notes | files | texts | home chunks | pool chunks |
//! ```
//!
//! Every traced thread has a *slot*, and with it a stream of bytes cut into *chunks*. A stream
//! begins in the slot's own small home chunk and goes on in chunks of the shared pool; every chunk
//! but the last is filled to its end, so position alone tells the chunk:
//!
//! ```text
//! slot.queue   [ home | pool 7 | pool 3 | pool 9 | ... ]      next = number of chunks queued
//!                        ^ consumed          ^ published
//! ```
//!
//! | what | changed by | how |
//! |---|---|---|
//! | `slot.state` FREE -> RESERVED | agent of the parent, or the supervisor | compare-exchange |
//! | RESERVED -> ACTIVE | agent of the thread | compare-exchange |
//! | RESERVED -> FREE | whoever reserved it, when there is no thread | store |
//! | ACTIVE -> ENDED | agent of the thread, or the recorder when the thread was killed | store |
//! | ENDED -> FREE | recorder, when all is read | store |
//! | `slot.queue`, `slot.queued` | agent of the thread | store, then release |
//! | `slot.published` | agent of the thread | release, once per record |
//! | `slot.consumed` | recorder | release, then `slot.room` is woken |
//! | `owners[chunk]` 0 -> slot + 1 | agent of the thread | compare-exchange |
//! | `owners[chunk]` slot + 1 -> 0 | recorder, when the chunk is read or its thread is gone | store |
//! | `control.alive` owner died | the kernel, when the recorder ends in any way | futex that a thread names |
//!
//! A thread killed between any two steps leaves nothing that the recorder cannot take back: chunks
//! are found by their owner, and what was not published was never there.
#![no_std]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

mod catalog;
mod stream;
pub use catalog::{
    CATALOG_BYTES, Catalog, MODULES_MAX, Module, Modules, Note, PROFILE_SITES, PROFILES, Profile,
    SITES_MAX, Site, program_id,
};
pub use stream::Reader;

/// Threads that can be recorded at the same time.
pub const SLOTS: usize = 8192;
/// Bytes of the first chunk of every stream.
pub const HOME_BYTES: usize = 16 << 10;
/// Bytes of a pool chunk.
pub const POOL_BYTES: usize = 64 << 10;
/// Chunks that one stream may have queued: bounds what a thread can be ahead of the recorder.
pub const QUEUE: usize = 128;
/// Most pool chunks in an arena.
pub const POOL_MAX: usize = 64 << 10;
/// Most arenas of a recording.
pub const ARENAS_MAX: usize = 64;
/// The numbers that an arena's threads have in the recording, and its processes: no two arenas have
/// one in common. Most programs run in the first.
pub const fn numbers(arena: usize) -> core::ops::Range<u32> {
    const OTHERS_FROM: u32 = 1 << 30;
    const EACH: u32 = 1 << 24;
    if arena == 0 {
        return 1..OTHERS_FROM;
    }
    let first = OTHERS_FROM + (arena as u32 - 1) * EACH;
    first..first + EACH
}

/// Words in the table of sites that images met and that no profile has yet.
pub const NOTES: usize = 512;

/// "REENACT" and the version of this layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"REENACT\x02");

/// Set by the kernel in a futex whose owner has died.
pub const FUTEX_OWNER_DIED: u32 = 0x4000_0000;

/// The head of the arena.
#[repr(C, align(4096))]
pub struct Control {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// Pool chunks in this arena.
    pub pool_chunks: AtomicU32,
    /// How data is captured: a [`DataMode`].
    pub data_mode: AtomicU32,
    /// Bytes stored of each buffer.
    pub data_max: AtomicU64,
    /// Non-zero: existing files are stored whole when they are first opened to be changed.
    pub snapshot: AtomicU32,
    /// 0 while recording; a `GapWhy` once calls are no longer to be recorded.
    pub stopped: AtomicU32,
    /// The next thread number.
    pub next_thread: AtomicU32,
    /// The next process number.
    pub next_process: AtomicU32,
    /// Non-zero once processes were made that share descriptors or directories with others.
    pub state_shared: AtomicU32,
    /// Threads that found their slot taken from them as they began: each is one not recorded.
    pub disowned: AtomicU32,
    /// Where to look for a free slot first.
    pub slot_hint: AtomicU32,
    /// Where to look for a free pool chunk first.
    pub pool_hint: AtomicU32,
    /// Raised when a note was left.
    pub notes: AtomicU32,
    /// Non-zero: its threads can become root, and stay here as long as they can.
    pub of_root: AtomicU32,
    /// Ticks of the time stamp counter per second, for agents that measure waits.
    pub tsc_hz: AtomicU64,
    /// Marked by the kernel with [`FUTEX_OWNER_DIED`] when the recorder is gone.
    pub alive: Line,
    /// Raised by agents that want the recorder to read now; a futex.
    pub doorbell: Line,
    /// Raised by agents that ask the supervisor for something; a futex.
    pub requests: Line,
    /// One bit per slot whose request is open.
    pub request_bits: [AtomicU64; SLOTS / 64],
    /// One bit per slot that is or was in use since the recorder last looked.
    pub slot_bits: [AtomicU64; SLOTS / 64],
    /// The time stamp counter when the recorder last looked, for threads that may not read it.
    pub clock: AtomicU64,
}

/// A futex word on a cache line of its own.
#[repr(C, align(64))]
pub struct Line {
    /// The futex.
    pub word: AtomicU32,
    /// Non-zero while somebody sleeps on it.
    pub sleeping: AtomicU32,
}

/// How much of each buffer is captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum DataMode {
    /// All bytes.
    Full = 0,
    /// Length and hash.
    Hash = 1,
    /// Length alone.
    None = 2,
}

/// States of a slot.
pub mod slot_state {
    /// Nobody's.
    pub const FREE: u32 = 0;
    /// Set aside for a thread that is about to start.
    pub const RESERVED: u32 = 1;
    /// In use.
    pub const ACTIVE: u32 = 2;
    /// The thread is gone; the recorder reads what is left.
    pub const ENDED: u32 = 3;
}

/// What an agent may ask the supervisor, in `slot.request`.
pub mod request {
    /// Nothing is open.
    pub const NONE: u32 = 0;
    /// The thread is about to execute a program: attach to it.
    pub const EXEC: u32 = 1;
    /// The announced execution failed or was put off: detach.
    pub const EXEC_CANCEL: u32 = 2;
    /// An executable file was mapped that the catalog does not know.
    pub const MODULE: u32 = 3;
    /// The thread has changed its user: where does it belong now? The second argument is a socket
    /// of the thread that the third names, to which an arena can be sent; 0: none.
    pub const USER_CHANGED: u32 = 4;
    /// The thread is about to trace the one that the first argument names, which is left alone from
    /// there: its process is to have no arena any more.
    pub const LEFT_ALONE: u32 = 5;
}

/// Answers of the supervisor, in `slot.answer`.
pub mod answer {
    /// Still being worked on.
    pub const PENDING: u32 = 0;
    /// Done.
    pub const DONE: u32 = 1;
    /// Cannot be done; go on without.
    pub const REFUSED: u32 = 2;
    /// To EXEC: the thread cannot be attached to; if its program is executed, that is a gap.
    pub const NOT_ATTACHED: u32 = 3;
    /// To USER_CHANGED: the thread's arena is still the right one.
    pub const STAY: u32 = 4;
    /// To USER_CHANGED: the first argument is the id of the segment, the second the slot.
    pub const SEGMENT: u32 = 5;
    /// To USER_CHANGED: the arena can only be sent.
    pub const NEEDS_SOCKET: u32 = 6;
}

/// Bits of `slot.exec_state`.
pub mod exec_state {
    /// A filter of the program's own may answer its calls with SIGSYS.
    pub const FILTERED: u64 = 1;
    /// The thread may not read the time stamp counter.
    pub const CLOCKLESS: u64 = 2;
}

/// One traced thread.
#[repr(C, align(1024))]
pub struct Slot {
    /// A [`slot_state`]; changes as drawn above.
    pub state: AtomicU32,
    /// Counts the threads that used this slot.
    pub generation: AtomicU32,
    /// Thread number in this recording.
    pub thread: AtomicU32,
    /// Process number in this recording.
    pub process: AtomicU32,
    /// Thread number of the maker.
    pub parent: AtomicU32,
    /// How the thread came to be, as in `events::record::StartHow`.
    pub how: AtomicU32,
    /// Process id in the thread's own namespace; 0 while unknown.
    pub pid: AtomicU32,
    /// Thread id in the thread's own namespace; 0 while unknown.
    pub tid: AtomicU32,
    /// Process id as the maker saw it; 0 while unknown.
    pub pid_seen: AtomicU32,
    /// Non-zero when pid and tid are not those of the recorder's namespace.
    pub foreign_pid: AtomicU32,
    /// Chunks queued so far.
    pub queued: AtomicU32,
    /// Position in the stream at which the last queued chunk begins.
    pub chunk_start: AtomicU64,
    /// Position at which the home chunk's last use ended; it is free once that is read.
    pub home_end: AtomicU64,
    /// Signals that the program believes blocked though they are not: handed over an exec.
    pub exec_blocked: AtomicU64,
    /// Signals that the program ignores though the kernel has a handler: handed over an exec.
    pub exec_ignored: AtomicU64,
    /// Where its agent keeps what it knows of the thread: for agents in programs that trace it.
    pub context: AtomicU64,
    /// What else a new image must know of its process: [`exec_state`] bits.
    pub exec_state: AtomicU64,
    /// Bytes published so far.
    pub published: AtomicU64,
    /// Calls entered and not abandoned.
    pub calls: AtomicU64,
    /// Calls that came through SIGSYS.
    pub slow_calls: AtomicU64,
    /// Nanoseconds spent waiting for room.
    pub stall_ns: AtomicU64,

    /// Bytes that the recorder has read.
    pub consumed: Consumed,

    /// A [`request`].
    pub request: AtomicU32,
    /// An [`answer`]; a futex.
    pub answer: AtomicU32,
    /// What the request is about.
    pub request_args: [AtomicU64; 6],

    /// Chunk ids, by position modulo [`QUEUE`].
    pub queue: [AtomicU32; QUEUE],
}

/// The recorder's side of a slot, on a cache line of its own.
#[repr(C, align(64))]
pub struct Consumed {
    /// Bytes read so far.
    pub bytes: AtomicU64,
    /// Raised when room was made; a futex.
    pub room: AtomicU32,
    /// Non-zero while the thread waits for room.
    pub waiting: AtomicU32,
}

/// Words in the table of files whose first content is told.
pub const FILES: usize = 32 << 10;

/// Words in the table of files whose code was looked at.
pub const TEXTS: usize = 4 << 10;

const OWNER_BYTES: usize = POOL_MAX * 4;
const OWNERS_AT: usize = size_of::<Control>() + SLOTS * size_of::<Slot>();
const NOTES_AT: usize = OWNERS_AT + OWNER_BYTES;
const FILES_AT: usize = NOTES_AT + NOTES * 8;
const TEXTS_AT: usize = FILES_AT + FILES * 8;
const HOMES_AT: usize = TEXTS_AT + TEXTS * 8;
const POOL_AT: usize = HOMES_AT + SLOTS * HOME_BYTES;

/// Bytes of an arena with that many pool chunks.
pub const fn arena_bytes(pool_chunks: usize) -> usize {
    POOL_AT + pool_chunks * POOL_BYTES
}

/// An attached arena.
#[derive(Clone, Copy)]
pub struct Arena {
    base: *mut u8,
    /// Kept here, not read again from memory that the program can write.
    pool_chunks: usize,
}

// SAFETY: all shared state behind the pointer is atomic, or handed over through atomics.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// # Safety
    /// `base` must point to a mapping of `arena_bytes(pool_chunks)` bytes, zeroed when created,
    /// that outlives every use of the arena.
    pub const unsafe fn at(base: *mut u8, pool_chunks: usize) -> Arena {
        Arena { base, pool_chunks }
    }

    /// Chunks in the pool.
    pub const fn pool_chunks(&self) -> usize {
        self.pool_chunks
    }

    /// Where it is mapped.
    pub const fn base(&self) -> *mut u8 {
        self.base
    }

    /// The head.
    pub fn control(&self) -> &'static Control {
        // SAFETY: the mapping starts with the control block and outlives us, see `at`.
        unsafe { &*self.base.cast::<Control>() }
    }

    /// A slot.
    pub fn slot(&self, index: usize) -> &'static Slot {
        assert!(index < SLOTS);
        // SAFETY: the index is in range, the mapping holds all slots.
        unsafe { &*self.base.add(size_of::<Control>()).cast::<Slot>().add(index) }
    }

    /// The owner word of a pool chunk: 0, or its slot's index plus one.
    pub fn owner(&self, pool_chunk: usize) -> &'static AtomicU32 {
        assert!(pool_chunk < POOL_MAX);
        // SAFETY: the index is in range, the mapping holds all owner words.
        unsafe { &*self.base.add(OWNERS_AT).cast::<AtomicU32>().add(pool_chunk) }
    }

    /// Sites that images met, each a [`Note`], for the profiles; 0: free.
    pub fn notes(&self) -> &'static [AtomicU64; NOTES] {
        // SAFETY: the mapping holds them.
        unsafe { &*self.base.add(NOTES_AT).cast::<[AtomicU64; NOTES]>() }
    }

    /// Hashes of the device and inode of files whose first content is told, or that have none; 0:
    /// free. One may be forgotten for another.
    pub fn files(&self) -> &'static [AtomicU64; FILES] {
        // SAFETY: the mapping holds them.
        unsafe { &*self.base.add(FILES_AT).cast::<[AtomicU64; FILES]>() }
    }

    /// Hashes of the executable mappings of files whose code was looked at, with the lowest bit set if
    /// it sets `%gs`; 0: free. One may be forgotten for another.
    pub fn texts(&self) -> &'static [AtomicU64; TEXTS] {
        // SAFETY: the mapping holds them.
        unsafe { &*self.base.add(TEXTS_AT).cast::<[AtomicU64; TEXTS]>() }
    }

    /// Where a chunk's bytes are and how many it has; `None`: there is no such chunk. Ids below
    /// [`SLOTS`] are home chunks.
    pub fn chunk(&self, id: u32) -> Option<(*mut u8, usize)> {
        let id = id as usize;
        let (at, len) = match id.checked_sub(SLOTS) {
            None => (HOMES_AT + id * HOME_BYTES, HOME_BYTES),
            Some(pool) if pool < self.pool_chunks => (POOL_AT + pool * POOL_BYTES, POOL_BYTES),
            Some(_) => return None,
        };
        // SAFETY: the mapping holds all chunks.
        Some((unsafe { self.base.add(at) }, len))
    }

    /// Takes a free slot, or tells that all are in use. It is RESERVED and empty.
    pub fn reserve_slot(&self) -> Option<usize> {
        let control = self.control();
        let hint = control.slot_hint.load(Ordering::Relaxed) as usize;
        for step in 0..SLOTS {
            let index = (hint + step) % SLOTS;
            let slot = self.slot(index);
            if slot.state.load(Ordering::Relaxed) != slot_state::FREE {
                continue;
            }
            let taken = slot.state.compare_exchange(
                slot_state::FREE,
                slot_state::RESERVED,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if taken.is_ok() {
                slot.generation.fetch_add(1, Ordering::Relaxed);
                control.slot_hint.store(index as u32, Ordering::Relaxed);
                control.slot_bits[index / 64].fetch_or(1 << (index % 64), Ordering::Release);
                return Some(index);
            }
        }
        None
    }

    /// Takes a free pool chunk for a slot and returns its id.
    pub fn take_chunk(&self, slot: usize) -> Option<u32> {
        let control = self.control();
        let chunks = self.pool_chunks;
        let hint = control.pool_hint.load(Ordering::Relaxed) as usize;
        let start = if hint < chunks { hint } else { 0 };
        for step in 0..chunks {
            let index = if start + step < chunks { start + step } else { start + step - chunks };
            let owner = self.owner(index);
            if owner.load(Ordering::Relaxed) != 0 {
                continue;
            }
            if owner
                .compare_exchange(0, slot as u32 + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                control.pool_hint.store(index as u32 + 1, Ordering::Relaxed);
                return Some((SLOTS + index) as u32);
            }
        }
        None
    }

    /// Gives a pool chunk back. Low chunks are used first, so that few pages stay warm.
    pub fn free_chunk(&self, id: u32) {
        let index = id as usize - SLOTS;
        self.owner(index).store(0, Ordering::Release);
        self.control().pool_hint.fetch_min(index as u32, Ordering::Relaxed);
    }

    /// Whether the recorder is gone.
    pub fn recorder_lost(&self) -> bool {
        self.control().alive.word.load(Ordering::Relaxed) & FUTEX_OWNER_DIED != 0
    }
}
