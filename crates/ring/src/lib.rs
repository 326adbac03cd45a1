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
#![cfg_attr(not(loom), no_std)]

use atomics::{AtomicU32, AtomicU64, Ordering};

mod atomics;
mod catalog;
mod line;
mod settings;
mod size;
mod slot;
mod stream;
mod watch;
mod writer;
pub use catalog::{
    CATALOG_BYTES, Catalog, MODULES_MAX, Module, Modules, Note, PROFILE_SITES, PROFILES, Profile,
    SITES_MAX, Site, program_id,
};
pub use line::Line;
pub use settings::Settings;
pub use slot::{Consumed, Slot, exec_state, slot_state};
pub use stream::Reader;
pub use watch::{Mapped, about, halves, next, two, when};
pub use writer::{Patience, Place, Writer};

pub use size::{FILES, HOME_BYTES, LOADED, NOTES, POOL_BYTES, POOL_MAX, QUEUE, SLOTS, TEXTS};

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

/// "REENACT" and the version of this layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"REENACT\x02");

pub use linux_raw_sys::general::FUTEX_OWNER_DIED;

/// Header of an arena.
#[cfg_attr(loom, derive(Default))]
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
    /// What becomes of io_uring: a [`Rings`].
    pub rings: AtomicU32,
    /// Non-zero: the recorder watches shared mappings of files, and collects what is stored there.
    pub watches_mappings: AtomicU32,
    /// Non-zero: agents measure what threads compute between calls.
    pub times_cpu: AtomicU32,
    /// Whether the program is recorded for a re-execution, or is one: a [`Course`].
    pub course: AtomicU32,
    /// Bytes that agents copy of the stack of each call.
    pub stack_bytes: AtomicU32,
    /// Frequency of the time stamp counter in Hz, for agents that measure waits.
    pub tsc_hz: AtomicU64,
    /// Robust futex: the kernel sets [`FUTEX_OWNER_DIED`] when the recorder is gone.
    pub alive: Line,
    /// Futex that agents increment when the recorder should read now.
    pub doorbell: Line,
    /// Futex that agents increment when they leave a request for the supervisor.
    pub requests: Line,
    /// One bit per slot with an open request.
    pub request_bits: [AtomicU64; SLOTS.div_ceil(64)],
    /// One bit per slot that is in use or was since the recorder last looked.
    pub slot_bits: [AtomicU64; SLOTS.div_ceil(64)],
    /// Time stamp counter when the recorder last looked, for threads that may not read the counter.
    pub clock: AtomicU64,
    /// With [`DataMode::Chosen`]: one bit per call, by number, whose contents nobody wants.
    pub skipped: [AtomicU64; SKIPPED_WORDS],
}

/// What is recorded of mapped files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum Mappings {
    /// Nothing.
    #[default]
    Unwatched = 0,
    /// What is stored to shared mappings.
    Stores = 1,
    /// That, and what is read.
    All = 2,
}

/// What becomes of the program's calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum Course {
    /// They are made and recorded.
    #[default]
    Recorded = 0,
    /// The same, in a way that allows to execute the program again.
    Rerunnable = 1,
    /// Each is brought before the supervisor, which knows what becomes of it.
    Answered = 2,
    /// As [`Course::Rerunnable`], with one thread of a process running at a time.
    Serialised = 3,
}

/// What becomes of io_uring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Rings {
    /// What moves through rings is captured.
    Captured = 0,
    /// io_uring_setup fails as if the kernel had no such call.
    Refused = 1,
    /// Rings stay as they are.
    Passed = 2,
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
    /// All bytes, but of calls that [`Control::skipped`] names the length alone.
    Chosen = 3,
}

/// Words of [`Control::skipped`].
pub const SKIPPED_WORDS: usize = 8;

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
    /// Watch memory in which a file is mapped, shared and writable. Argument 0: a userfaultfd and
    /// the helper thread that has it, as [`two`](super::two) puts them together; 0: the recorder
    /// has one. Arguments 1 and 2: a [`Mapped`](super::Mapped). Arguments 3 and 4: address, length.
    /// Argument 5: a [`when`](super::when) and the number of the process whose memory it is, as
    /// `two` puts them together.
    pub const WATCH: u32 = 6;
    /// Collect what was stored to watched memory. Argument 0: what it is [`about`](super::about).
    /// Arguments 1 and 2: address and length, or a descriptor. Argument 3: a
    /// [`next`](super::next). Argument 4: the number of the process whose memory it is.
    pub const COLLECT: u32 = 7;
    /// The program is about to map a file: the arguments of mmap.
    pub const FILE: u32 = 8;
    /// In a re-execution: a call, with its arguments. Behind them: its number, and the address of a
    /// [`Reply`](super::Reply).
    pub const CALL: u32 = 9;
    /// In a re-execution: the call was made again. Argument 0: its result.
    pub const MADE: u32 = 10;
    /// In a re-execution: a new task begins. Argument 0: the thread that has made it.
    pub const BEGIN: u32 = 11;
    /// In a re-execution: a new image begins. Argument 0: its stack pointer.
    pub const IMAGE: u32 = 12;
    /// In a re-execution: the thread has run for its time slice, and waits for its turn.
    pub const PAUSED: u32 = 13;
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
    /// To WATCH: not this memory, but other memory of the process may be. To COLLECT: none of it is
    /// watched.
    pub const NOT_THIS: u32 = 7;
    /// To CALL and MADE: argument 0 is the result of the call.
    pub const GIVEN: u32 = 8;
    /// To CALL: it is to be made with the arguments that stand there now, and should return what
    /// stands behind them.
    pub const AGAIN: u32 = 9;
    /// To CALL: signals arrive first; it is begun again after their handlers.
    pub const SIGNALS_FIRST: u32 = 10;
    /// To CALL: the program goes back to where it is about to make the call, and begins it again.
    pub const TO_SITE: u32 = 11;
    /// To CALL: a debugger that traces the thread is told by a trap; then the thread asks again.
    pub const TRAP: u32 = 12;
    /// To CALL and MADE: the call with the number that stands behind the arguments is to be made with these,
    /// and its result to be told by MADE.
    pub const LED: u32 = 13;
}

/// What a thread of a re-execution has used up to some moment.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// The time stamp counter.
    pub tsc: u64,
    /// CPU time, to the microsecond.
    pub cpu_ns: u64,
    /// How often it gave the CPU up, to wait for something.
    pub waits: u64,
    /// How often the CPU was taken from it.
    pub put_off: u64,
    /// How often it touched memory that was not mapped yet.
    pub faults: u64,
}

/// What the answer to a call of a re-execution has besides its result. In the agent's memory, where the
/// supervisor writes it before it answers.
#[repr(C)]
pub struct Reply {
    /// Number of signals that arrive with the end of the call.
    pub signals: u64,
    /// Their siginfo.
    pub infos: [[u64; 16]; REPLY_SIGNALS],
    /// What the file is that is mapped: one of [`mapped_file`].
    pub mapped_file: u64,
    /// Where the program makes the call: written by the agent.
    pub site: u64,
    /// Its stack pointer there, and the register that may be a frame pointer: written by the agent.
    pub stack: [u64; 2],
    /// What the thread had used when the program went on after its last call, and has used now: written by
    /// the agent.
    pub stood: [Standing; 2],
    /// A path that ends with NUL: of the file to be mapped, or of the directory from which a program is
    /// executed. Empty: none.
    pub path: [u8; REPLY_PATH],
}

/// Files that are mapped in a re-execution.
pub mod mapped_file {
    /// The machine's own.
    pub const ORIGINAL: u64 = 0;
    /// A shadow, which is opened to be changed.
    pub const SHADOW: u64 = 1;
    /// One of the root in which calls on files are made.
    pub const REAL: u64 = 2;
}

/// Value of a SIGSYS that was queued to tell a thread to let others run: "time sli".
pub const PAUSE: u64 = u64::from_le_bytes(*b"time sli");

/// Maximum number of signals that arrive with the end of one call.
pub const REPLY_SIGNALS: usize = 4;
/// Maximum length of a path in a [`Reply`], with its NUL.
pub const REPLY_PATH: usize = 4096;

/// Where the agent's memory begins in programs that are re-executed, or recorded for that: nothing of
/// theirs comes to lie there by itself.
pub const AGENT_AT: u64 = 0x3000_0000_0000;

const OWNER_BYTES: usize = POOL_MAX * size_of::<AtomicU32>();
const OWNERS_AT: usize = size_of::<Control>() + SLOTS * size_of::<Slot>();
const NOTES_AT: usize = OWNERS_AT + OWNER_BYTES;
const FILES_AT: usize = NOTES_AT + NOTES * size_of::<AtomicU64>();
const TEXTS_AT: usize = FILES_AT + FILES * size_of::<AtomicU64>();
const LOADED_AT: usize = TEXTS_AT + TEXTS * size_of::<AtomicU64>();
const HOMES_AT: usize = LOADED_AT + LOADED * size_of::<AtomicU64>();
const POOL_AT: usize = HOMES_AT + SLOTS * HOME_BYTES;

/// Where the parts of an arena are that nearly every program uses: the header and the first slots, the
/// tables and the first home chunks, the first pool chunks.
pub const IN_USE_AT: [usize; 4] = [0, OWNERS_AT, POOL_AT, POOL_AT + LARGE_PAGE];

/// Size of the pages of which one stands for many.
pub const LARGE_PAGE: usize = 2 << 20;

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

    /// An empty arena for the model checker, whose atomics are not made of zeros. Never unmapped.
    #[cfg(loom)]
    pub fn of_model(pool_chunks: usize) -> Arena {
        let bytes = arena_bytes(pool_chunks);
        let layout = std::alloc::Layout::from_size_align(bytes, align_of::<Control>());
        let layout = layout.expect("it is small");
        // SAFETY: the size is not zero.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        let arena = Arena { base, pool_chunks };
        // SAFETY: the words before the chunks are atomics, all within the allocation.
        unsafe {
            base.cast::<Control>().write(Control::default());
            for index in 0..SLOTS {
                base.add(size_of::<Control>()).cast::<Slot>().add(index).write(Slot::default());
            }
            for chunk in 0..POOL_MAX {
                base.add(OWNERS_AT).cast::<AtomicU32>().add(chunk).write(AtomicU32::new(0));
            }
        }
        arena
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

    /// Table of programs and libraries that the supervisor has looked at, as they are now, as hashes; 0:
    /// free. An entry may be evicted by another.
    pub fn loaded(&self) -> &'static [AtomicU64; LOADED] {
        // SAFETY: the mapping holds the whole table, which consists of atomics.
        unsafe { &*self.base.add(LOADED_AT).cast::<[AtomicU64; LOADED]>() }
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
                self.bit(index).fetch_or(1 << (index % 64), Ordering::Release);
                return Some(index);
            }
        }
        None
    }

    /// Frees a slot, and the chunks that its thread held.
    pub fn free_slot(&self, index: usize) {
        for chunk in 0..self.pool_chunks {
            if self.owner(chunk).load(Ordering::Relaxed) as usize == index + 1 {
                self.free_chunk((SLOTS + chunk) as u32);
            }
        }
        let slot = self.slot(index);
        slot.clear();
        // Clear the bit first: the next thread to reserve the free slot sets it again.
        self.bit(index).fetch_and(!(1 << (index % 64)), Ordering::AcqRel);
        slot.give_back();
    }

    /// Stops looking at a slot that was freed by the thread that had reserved it.
    pub fn look_away(&self, index: usize) {
        let mask = 1 << (index % 64);
        self.bit(index).fetch_and(!mask, Ordering::AcqRel);
        // If it was reserved again in between, the bit that was cleared may be the new one.
        if self.slot(index).state.load(Ordering::Acquire) != slot_state::FREE {
            self.bit(index).fetch_or(mask, Ordering::AcqRel);
        }
    }

    /// The word with the bit of a slot: see `Control::slot_bits`.
    fn bit(&self, index: usize) -> &'static AtomicU64 {
        &self.control().slot_bits[index / 64]
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
