//! Whether a thread kept its CPU between two calls, and how long it had one if not.
//!
//! The kernel clears the `rseq_cs` word of a thread's rseq area when it gives the CPU to another
//! thread, or delivers a signal, while the thread is not in the critical section that the word points
//! to. So a word that points to an empty section and is still there says that nothing of that
//! happened: then the time between two calls is what the thread computed. Otherwise the thread's CPU
//! clock is asked; of a call that comes by a signal itself, unless it comes at once. Between calls
//! the word means nothing to the program: a critical section has no calls, and sets it anew.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

/// What the kernel reads of a critical section. It refuses one whose end lies in it, and one before
/// whose end the signature does not stand.
#[repr(C, align(32))]
struct Section {
    version: u32,
    flags: u32,
    start: Cell<u64>,
    len: u64,
    end: Cell<u64>,
}

/// What the kernel calls `struct rseq`.
#[repr(C, align(32))]
struct Area([AtomicU64; 4]);

/// Place of `rseq_cs` in it.
pub const WORD_AT: u64 = 8;
/// Its size.
pub const AREA_BYTES: u64 = size_of::<Area>() as u64;

/// The state of a thread.
#[repr(C)]
pub struct CpuTime {
    section: Section,
    /// An area of ours, for a thread whose program has none.
    own: Area,
    signature: Cell<u32>,
    /// Address of the area's `rseq_cs`; 0: there is none, or nobody wants to know.
    word: Cell<u64>,
    /// When the last call was all recorded.
    pub left: Cell<u64>,
    /// At this time the thread had had a CPU for so long; 0: not known.
    pub known_at: Cell<u64>,
    pub known_ns: Cell<u64>,
    /// How many calls that were without a CPU ask the clock.
    pub wary: Cell<u8>,
}

impl CpuTime {
    /// Nothing is known of the thread.
    pub fn reset(&self) {
        self.word.set(0);
        self.forget();
    }

    /// A child has a clock of its own.
    pub fn forget(&self) {
        self.left.set(0);
        self.known_at.set(0);
        self.wary.set(0);
    }

    pub fn is_watching(&self) -> bool {
        self.word.get() != 0
    }

    /// Whether the kernel has left the section's address there.
    #[inline(always)]
    pub fn stayed(&self) -> bool {
        // SAFETY: the kernel reads and writes that word too, and would end a program without it.
        let word = unsafe { AtomicU64::from_ptr(self.word.get() as *mut u64) };
        word.load(Ordering::Relaxed) == &raw const self.section as u64
    }

    /// The address of the area of ours.
    pub fn own_area(&self) -> u64 {
        self.own.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        &raw const self.own as u64
    }

    /// Watches from now on.
    pub fn arm(&self) {
        // SAFETY: as above.
        let word = unsafe { AtomicU64::from_ptr(self.word.get() as *mut u64) };
        word.store(&raw const self.section as u64, Ordering::Relaxed);
    }

    /// The area's word is at this address, and sections of the program have this signature.
    pub fn watch(&self, word: u64, signature: u32) {
        self.signature.set(signature);
        self.section.start.set(&raw const self.section as u64);
        self.section.end.set(&raw const self.signature as u64 + size_of::<u32>() as u64);
        self.word.set(word);
        self.arm();
    }
}
