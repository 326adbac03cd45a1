//! The chunk that a stream is written to.

use core::sync::atomic::{Ordering, compiler_fence};

/// Write position in the current chunk.
pub struct Chunk {
    /// Address of the next byte to write.
    pub cur: *mut u8,
    /// End of the chunk.
    pub end: *mut u8,
    /// Start of the chunk, and its position in the stream.
    pub base: *mut u8,
    pub base_pos: u64,
    /// Position up to which the recorder may read.
    pub published: u64,
    /// Start and end of the last record that may span chunks.
    pub record_start: u64,
    pub record_end: u64,
    /// Waiting time not yet in a STALL record.
    pub stalled_ns: u64,
}

impl Chunk {
    pub fn position(&self) -> u64 {
        self.base_pos + (self.cur as u64 - self.base as u64)
    }

    pub fn room(&self) -> usize {
        self.end as usize - self.cur as usize
    }

    /// Begins a record of `bytes` bytes that may not fit into the current chunk.
    pub fn begin(&mut self, bytes: u64) {
        let start = self.position();
        // In this order: a signal in between must not see the new end with the old start.
        self.record_start = start;
        compiler_fence(Ordering::SeqCst);
        self.record_end = start + bytes;
        compiler_fence(Ordering::SeqCst);
    }

    pub fn has_stalls(&self) -> bool {
        self.stalled_ns != 0
    }
}
