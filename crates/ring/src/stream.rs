//! The reading end of a stream, used by the recorder. The agent writes chunks in place.

use core::sync::atomic::Ordering;

use crate::{Arena, QUEUE, SLOTS};

/// Reads one slot's stream.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    slot: usize,
    /// Number of chunks read to their end.
    chunk: u32,
    /// Number of bytes read of the current chunk.
    offset: usize,
    /// Number of bytes read in total.
    consumed: u64,
    /// Chunk id used by the last `peek`, kept because a hostile program may change the queue.
    current: u32,
}

impl Reader {
    /// Creates a reader at the beginning of a slot's stream.
    pub const fn new(slot: usize) -> Reader {
        Reader { slot, chunk: 0, offset: 0, consumed: 0, current: 0 }
    }

    /// Number of bytes read so far.
    pub const fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Number of published bytes not read yet.
    pub fn unread(&self, arena: &Arena) -> u64 {
        arena.slot(self.slot).published.load(Ordering::Acquire).wrapping_sub(self.consumed)
    }

    /// Returns the next published bytes, up to the end of a chunk; empty if everything is read.
    /// Nothing here trusts the shared memory, which a traced program can overwrite: lengths are
    /// bounded by the chunk.
    pub fn peek<'a>(&mut self, arena: &'a Arena) -> &'a [u8] {
        let slot = arena.slot(self.slot);
        let unread = self.unread(arena);
        if unread == 0 {
            return &[];
        }
        let id = if self.offset == 0 {
            slot.queue[self.chunk as usize % QUEUE].load(Ordering::Acquire)
        } else {
            self.current
        };
        self.current = id;
        let Some((bytes, size)) = self.chunk(arena, id) else { return &[] };
        let left = size.saturating_sub(self.offset);
        let len = left.min(usize::try_from(unread).unwrap_or(usize::MAX));
        // SAFETY: these bytes of the chunk are published, and the writer does not touch them again
        // until `consumed` has passed them.
        unsafe { core::slice::from_raw_parts(bytes.add(self.offset), len) }
    }

    /// Marks bytes of the last `peek` as read. A chunk read to its end returns to the pool.
    pub fn advance(&mut self, arena: &Arena, bytes: usize) {
        let slot = arena.slot(self.slot);
        self.offset += bytes;
        self.consumed += bytes as u64;
        let id = self.current;
        if self.chunk(arena, id).is_some_and(|(_, size)| self.offset >= size) {
            self.chunk = self.chunk.wrapping_add(1);
            self.offset = 0;
            if id as usize >= SLOTS {
                arena.free_chunk(id);
            }
        }
        slot.consumed.bytes.store(self.consumed, Ordering::Release);
    }

    /// Returns the chunk with this id, if this stream may use it.
    fn chunk(&self, arena: &Arena, id: u32) -> Option<(*mut u8, usize)> {
        let can_be = id as usize == self.slot || id as usize >= SLOTS;
        arena.chunk(id).filter(|_| can_be)
    }
}
