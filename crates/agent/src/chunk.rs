//! The chunk that a stream is written to.

use core::cell::Cell;
use core::sync::atomic::{Ordering, compiler_fence};

/// Write position in the current chunk.
pub struct Chunk {
    /// Address of the next byte to write.
    pub cur: Cell<*mut u8>,
    /// End of the chunk.
    pub end: Cell<*mut u8>,
    /// Start of the chunk, and its position in the stream.
    pub base: Cell<*mut u8>,
    pub base_pos: Cell<u64>,
    /// Position up to which the recorder may read.
    pub published: Cell<u64>,
    /// Start and end of the last record that may span chunks.
    pub record_start: Cell<u64>,
    pub record_end: Cell<u64>,
    /// Waiting time not yet in a STALL record.
    pub stalled_ns: Cell<u64>,
}

impl Chunk {
    pub fn position(&self) -> u64 {
        self.base_pos.get() + (self.cur.get() as u64 - self.base.get() as u64)
    }

    pub fn room(&self) -> usize {
        self.end.get() as usize - self.cur.get() as usize
    }

    /// Begins a record of `bytes` bytes that may not fit into the current chunk.
    pub fn begin(&self, bytes: u64) {
        let start = self.position();
        // In this order: a signal in between must not see the new end with the old start.
        self.record_start.set(start);
        compiler_fence(Ordering::SeqCst);
        self.record_end.set(start + bytes);
        compiler_fence(Ordering::SeqCst);
    }

    pub fn has_stalls(&self) -> bool {
        self.stalled_ns.get() != 0
    }
}
