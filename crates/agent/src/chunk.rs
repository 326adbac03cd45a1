//! The chunk that a stream is written to.

use core::cell::Cell;
use core::sync::atomic::{Ordering, compiler_fence};

/// Number of words of a record by which its length is known.
pub const HEAD_WORDS: usize = 3;

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
    /// Its first words: they say how long it is.
    pub record_head: [Cell<u64>; HEAD_WORDS],
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

    /// Whether a record was published up to the end of the chunk before, and what follows of it was not yet.
    pub fn has_unpublished_rest(&self) -> bool {
        (self.record_start.get()..self.record_end.get()).contains(&self.published.get())
            && self.record_start.get() != self.published.get()
    }

    /// Begins a record of `bytes` bytes with these words first, that may not fit into the current chunk. The
    /// rest of the one before must be published: only one at a time can be completed if the call is given up.
    pub fn begin(&self, words: &[u64], bytes: u64) {
        let start = self.position();
        // In this order: a signal in between must not see what is new with the old start.
        self.record_start.set(start);
        compiler_fence(Ordering::SeqCst);
        self.record_head.iter().zip(words).for_each(|(ours, word)| ours.set(*word));
        self.record_end.set(start + bytes);
        compiler_fence(Ordering::SeqCst);
    }

    /// What completes a record that was given up, at a position in it: its head, and zeros.
    pub fn word_of_rest(&self, position: u64) -> u64 {
        let at = (position - self.record_start.get()) / 8;
        self.record_head.get(at as usize).map_or(0, Cell::get)
    }

    pub fn has_stalls(&self) -> bool {
        self.stalled_ns.get() != 0
    }
}

#[cfg(test)]
mod tests {
    use std::assert_eq;

    use super::*;

    #[test]
    fn the_rest_of_a_record_is_its_head_and_zeros() {
        // SAFETY: zeros are a value: pointers and numbers.
        let chunk: Chunk = unsafe { core::mem::zeroed() };
        let mut words = [0u64; 8];
        let at = |words: usize, base_pos: u64| {
            chunk.base_pos.set(base_pos);
            chunk.cur.set(chunk.base.get().wrapping_add(8 * words));
        };
        chunk.base.set(words.as_mut_ptr().cast());
        at(2, 1000);
        assert!(!chunk.has_unpublished_rest());
        chunk.begin(&[7, 8, 9, 10], 64);
        assert!(!chunk.has_unpublished_rest(), "nothing of it is published");
        // The chunk ends behind its first word.
        chunk.published.set(1024);
        at(0, 1024);
        assert!(chunk.has_unpublished_rest());
        let rest: std::vec::Vec<u64> =
            (1024..chunk.record_end.get()).step_by(8).map(|at| chunk.word_of_rest(at)).collect();
        assert_eq!(rest, [8, 9, 0, 0, 0, 0, 0]);
        chunk.published.set(chunk.record_end.get());
        assert!(!chunk.has_unpublished_rest());
    }
}
