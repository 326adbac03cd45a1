//! The shared memory between the traced programs and the recorder.
//!
//! An *arena* holds the records of programs that may read each other's memory anyway. Programs of
//! another user get an arena of their own. This crate treats the records as opaque bytes; the
//! `syscalls` crate defines their meaning. All arenas share one [`Catalog`] of executable files,
//! which no traced program can write.
//!
//! ```text
//! | Control | Slot 0 .. SLOTS-1 | owners | notes | files | texts | home chunks | pool chunks |
//! ```
//!
//! Every traced thread has a *slot* with a byte stream cut into *chunks*. A stream begins in the
//! slot's own small home chunk and continues in chunks of the shared pool. Every chunk but the last
//! is filled to its end, so a stream position alone identifies the chunk:
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
//! | RESERVED -> MOVING | the supervisor, for a thread that changes its slot | store |
//! | MOVING -> RESERVED, ACTIVE | recorder: the state of the former slot | store |
//! | MOVING -> FREE | recorder, if the thread is gone | store |
//! | RESERVED -> FREE | the side that reserved it, if no thread was started | store |
//! | ACTIVE -> ENDED | agent of the thread, or the recorder when the thread was killed | store |
//! | ENDED -> FREE | recorder, when everything is read | store |
//! | `slot.queue`, `slot.queued` | agent of the thread | store, then release |
//! | `slot.published` | agent of the thread | release, once per record |
//! | `slot.consumed` | recorder | release, then `slot.room` is woken |
//! | `owners[chunk]` 0 -> slot + 1 | agent of the thread | compare-exchange |
//! | `owners[chunk]` slot + 1 -> 0 | recorder, when the chunk is read or its thread gone | store |
//! | `control.alive` owner died | the kernel, when the recorder ends in any way | robust futex |
//!
//! If a thread is killed between any two steps, the recorder can reclaim everything: it finds
//! chunks by their owner word, and unpublished bytes do not count.
#![no_std]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

mod catalog;
mod settings;
mod stream;
pub use catalog::{
    CATALOG_BYTES, Catalog, MODULES_MAX, Module, Modules, Note, PROFILE_SITES, PROFILES, Profile,
    SITES_MAX, Site, program_id,
};
pub use settings::Settings;
pub use stream::Reader;

/// Maximum number of threads recorded at the same time.
pub const SLOTS: usize = 8192;
/// Size of a home chunk, the first chunk of every stream.
pub const HOME_BYTES: usize = 16 << 10;
/// Size of a pool chunk.
pub const POOL_BYTES: usize = 64 << 10;
/// Maximum number of queued chunks per stream: bounds how far a thread gets ahead of the recorder.
pub const QUEUE: usize = 128;
/// Maximum number of pool chunks in an arena.
pub const POOL_MAX: usize = 64 << 10;
/// Maximum number of arenas in a recording.
pub const ARENAS_MAX: usize = 64;
/// Range of thread and process numbers for an arena. The ranges of two arenas never overlap. Most
/// programs run in arena 0, so it has the largest range.
pub const fn numbers(arena: usize) -> core::ops::Range<u32> {
    const OTHERS_FROM: u32 = 1 << 30;
    const EACH: u32 = 1 << 24;
    if arena == 0 {
        return 1..OTHERS_FROM;
    }
    let first = OTHERS_FROM + (arena as u32 - 1) * EACH;
    first..first + EACH
}

/// Number of words in the table of notes, see [`Arena::notes`].
pub const NOTES: usize = 512;

/// "REENACT" and the version of this layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"REENACT\x02");

/// Bit that the kernel sets in a robust futex when its owner dies.
pub const FUTEX_OWNER_DIED: u32 = 0x4000_0000;

/// Header of an arena.
#[repr(C, align(4096))]
pub struct Control {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// Number of pool chunks in this arena.
    pub pool_chunks: AtomicU32,
    /// Data capture mode: a [`DataMode`].
    pub data_mode: AtomicU32,
    /// Maximum number of bytes stored per buffer.
    pub data_max: AtomicU64,
    /// Non-zero: an existing file is stored whole before the first open that may change it.
    pub snapshot: AtomicU32,
    /// 0 while recording; otherwise the `GapWhy` that ended the recording of calls.
    pub stopped: AtomicU32,
    /// Next thread number to assign.
    pub next_thread: AtomicU32,
    /// Next process number to assign.
    pub next_process: AtomicU32,
    /// Non-zero once a process was created that shares its descriptors or directories with another.
    pub state_shared: AtomicU32,
    /// Number of threads that lost their slot: each of them is not recorded.
    pub disowned: AtomicU32,
    /// Slot index at which to start looking for a free slot.
    pub slot_hint: AtomicU32,
    /// Pool chunk index at which to start looking for a free chunk.
    pub pool_hint: AtomicU32,
    /// Set to 1 when an agent leaves a [`Note`].
    pub notes: AtomicU32,
    /// Non-zero: the threads of this arena can become root, and stay in it as long as they can.
    pub of_root: AtomicU32,
    /// Frequency of the time stamp counter in Hz, for agents that measure waits.
    pub tsc_hz: AtomicU64,
    /// Robust futex: the kernel sets [`FUTEX_OWNER_DIED`] when the recorder is gone.
    pub alive: Line,
    /// Futex that agents increment when the recorder should read now.
    pub doorbell: Line,
    /// Futex that agents increment when they leave a request for the supervisor.
    pub requests: Line,
    /// One bit per slot with an open request.
    pub request_bits: [AtomicU64; SLOTS / 64],
    /// One bit per slot that is in use or was since the recorder last looked.
    pub slot_bits: [AtomicU64; SLOTS / 64],
    /// Time stamp counter when the recorder last looked, for threads that may not read the counter.
    pub clock: AtomicU64,
}

/// A futex word on a cache line of its own.
#[repr(C, align(64))]
pub struct Line {
    /// The futex.
    pub word: AtomicU32,
    /// Non-zero while a thread sleeps on it.
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

/// Puts the number of a request beside it, or beside its answer. A signal can undo a call whose
/// request is not answered yet: its late answer must not be taken for that of a later request.
pub const fn numbered(number: u32, word: u32) -> u32 {
    number << 8 | word & 0xff
}

/// The number and the word that [`numbered`] has put together.
pub const fn number_and_word(numbered: u32) -> (u32, u32) {
    (numbered >> 8, numbered & 0xff)
}

/// Requests to the supervisor, [`numbered`] in `slot.request`.
pub mod request {
    /// No request.
    pub const NONE: u32 = 0;
    /// The thread is about to execute a program: attach to it.
    pub const EXEC: u32 = 1;
    /// The announced exec failed or was undone: detach.
    pub const EXEC_CANCEL: u32 = 2;
    /// A call came from an executable file that the catalog does not have: analyse the file.
    pub const MODULE: u32 = 3;
    /// The thread changed its user: find the right arena for it. Argument 1 is a socket to which an
    /// arena can be sent, in the thread that argument 2 names; 0: none.
    pub const USER_CHANGED: u32 = 4;
    /// The thread is about to trace the thread in argument 0, which is not recorded from then on:
    /// unmap the arena of its process.
    pub const LEFT_ALONE: u32 = 5;
}

/// Answers of the supervisor, in `slot.answer` with the number of the request.
pub mod answer {
    /// Not answered yet.
    pub const PENDING: u32 = 0;
    /// Done.
    pub const DONE: u32 = 1;
    /// Cannot be done; continue without it.
    pub const REFUSED: u32 = 2;
    /// To EXEC: the thread cannot be attached to. If the exec succeeds, that is a gap.
    pub const NOT_ATTACHED: u32 = 3;
    /// To USER_CHANGED: the thread keeps its arena.
    pub const STAY: u32 = 4;
    /// To USER_CHANGED: argument 0 is the shared memory id of the new arena, argument 1 the slot.
    pub const SEGMENT: u32 = 5;
    /// To USER_CHANGED: the arena can only be sent through a socket.
    pub const NEEDS_SOCKET: u32 = 6;
}

/// Bits of `slot.exec_state`.
pub mod exec_state {
    /// A seccomp filter of the program may answer its calls with SIGSYS.
    pub const FILTERED: u64 = 1;
    /// The thread may not read the time stamp counter.
    pub const CLOCKLESS: u64 = 2;
}

/// State and stream of one traced thread.
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

    /// Ids of the queued chunks: the chunk number modulo [`QUEUE`] is the index.
    pub queue: [AtomicU32; QUEUE],
}

/// The recorder's side of a slot, on a cache line of its own.
#[repr(C, align(64))]
pub struct Consumed {
    /// Number of bytes read so far.
    pub bytes: AtomicU64,
    /// Futex that the recorder increments after it made room.
    pub room: AtomicU32,
    /// Non-zero while the thread waits for room.
    pub waiting: AtomicU32,
}

/// Number of words in the table of files already stored, see [`Arena::files`].
pub const FILES: usize = 32 << 10;

/// Number of words in the table of scanned code, see [`Arena::texts`].
pub const TEXTS: usize = 4 << 10;

const OWNER_BYTES: usize = POOL_MAX * 4;
const OWNERS_AT: usize = size_of::<Control>() + SLOTS * size_of::<Slot>();
const NOTES_AT: usize = OWNERS_AT + OWNER_BYTES;
const FILES_AT: usize = NOTES_AT + NOTES * 8;
const TEXTS_AT: usize = FILES_AT + FILES * 8;
const HOMES_AT: usize = TEXTS_AT + TEXTS * 8;
const POOL_AT: usize = HOMES_AT + SLOTS * HOME_BYTES;

/// Size of an arena with that many pool chunks.
pub const fn arena_bytes(pool_chunks: usize) -> usize {
    POOL_AT + pool_chunks * POOL_BYTES
}

/// A mapped arena.
#[derive(Clone, Copy)]
pub struct Arena {
    base: *mut u8,
    /// Kept here: the program can overwrite the copy in the arena.
    pool_chunks: usize,
}

// SAFETY: all shared state behind the pointer is atomic, or handed over through atomics.
unsafe impl Send for Arena {}
// SAFETY: shared references reach only atomics, or memory handed over through atomics.
unsafe impl Sync for Arena {}

impl Arena {
    /// # Safety
    /// `base` must point to a mapping of `arena_bytes(pool_chunks)` bytes, zeroed when created,
    /// that outlives every use of the arena.
    pub const unsafe fn at(base: *mut u8, pool_chunks: usize) -> Arena {
        Arena { base, pool_chunks }
    }

    /// Number of chunks in the pool.
    pub const fn pool_chunks(&self) -> usize {
        self.pool_chunks
    }

    /// Start address of the mapping.
    pub const fn base(&self) -> *mut u8 {
        self.base
    }

    /// The header of the arena.
    pub fn control(&self) -> &'static Control {
        // SAFETY: `at` requires a control block at the start, and that the mapping outlives the
        // arena.
        unsafe { &*self.base.cast::<Control>() }
    }

    /// The slot with that index.
    pub fn slot(&self, index: usize) -> &'static Slot {
        assert!(index < SLOTS);
        // SAFETY: the index is in range and the mapping holds all slots.
        unsafe { &*self.base.add(size_of::<Control>()).cast::<Slot>().add(index) }
    }

    /// The owner word of a pool chunk: 0 if free, otherwise the slot index + 1.
    pub fn owner(&self, pool_chunk: usize) -> &'static AtomicU32 {
        assert!(pool_chunk < POOL_MAX);
        // SAFETY: the index is in range and the mapping holds all owner words.
        unsafe { &*self.base.add(OWNERS_AT).cast::<AtomicU32>().add(pool_chunk) }
    }

    /// Table of [`Note`]s that agents leave for the profiles; 0: free.
    pub fn notes(&self) -> &'static [AtomicU64; NOTES] {
        // SAFETY: the mapping holds the whole table, which consists of atomics.
        unsafe { &*self.base.add(NOTES_AT).cast::<[AtomicU64; NOTES]>() }
    }

    /// Table of files already stored by `--snapshot`, or created in the recording, as hashes of
    /// device and inode; 0: free. An entry may be evicted by another.
    pub fn files(&self) -> &'static [AtomicU64; FILES] {
        // SAFETY: the mapping holds the whole table, which consists of atomics.
        unsafe { &*self.base.add(FILES_AT).cast::<[AtomicU64; FILES]>() }
    }

    /// Table of executable mappings whose code was scanned, as hashes; the lowest bit is set if the
    /// code sets `%gs`. 0: free. An entry may be evicted by another.
    pub fn texts(&self) -> &'static [AtomicU64; TEXTS] {
        // SAFETY: the mapping holds the whole table, which consists of atomics.
        unsafe { &*self.base.add(TEXTS_AT).cast::<[AtomicU64; TEXTS]>() }
    }

    /// Address and size of a chunk; `None` if there is no such chunk. Ids below [`SLOTS`] are home
    /// chunks.
    pub fn chunk(&self, id: u32) -> Option<(*mut u8, usize)> {
        let id = id as usize;
        let (at, len) = match id.checked_sub(SLOTS) {
            None => (HOMES_AT + id * HOME_BYTES, HOME_BYTES),
            Some(pool) if pool < self.pool_chunks => (POOL_AT + pool * POOL_BYTES, POOL_BYTES),
            Some(_) => return None,
        };
        // SAFETY: the offset is that of an existing chunk, and the mapping holds all chunks.
        Some((unsafe { self.base.add(at) }, len))
    }

    /// Reserves a free slot and returns its index; `None` if all slots are in use.
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

    /// Returns a pool chunk. Low chunks are reused first, so that few pages stay in use.
    pub fn free_chunk(&self, id: u32) {
        let index = id as usize - SLOTS;
        self.owner(index).store(0, Ordering::Release);
        self.control().pool_hint.fetch_min(index as u32, Ordering::Relaxed);
    }

    /// Returns true if the recorder is gone.
    pub fn recorder_lost(&self) -> bool {
        self.control().alive.word.load(Ordering::Relaxed) & FUTEX_OWNER_DIED != 0
    }
}
