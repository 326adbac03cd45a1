//! The recorder's end of a stream. (The agent's end writes chunks in place; see the agent.)

use core::sync::atomic::Ordering;

use crate::{Arena, QUEUE, SLOTS};

/// Reads one slot's stream.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    slot: usize,
    /// Chunks wholly read.
    chunk: u32,
    /// Bytes read of the current chunk.
    offset: usize,
    /// Bytes read in all.
    consumed: u64,
    /// The chunk that the last `peek` was in: what the queue says may change under a hostile hand.
    current: u32,
}

impl Reader {
    /// A reader at the beginning of a slot's stream.
    pub const fn new(slot: usize) -> Reader {
        Reader { slot, chunk: 0, offset: 0, consumed: 0, current: 0 }
    }

    /// Bytes read so far.
    pub const fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Published bytes that are not read yet.
    pub fn unread(&self, arena: &Arena) -> u64 {
        arena.slot(self.slot).published.load(Ordering::Acquire).wrapping_sub(self.consumed)
    }

    /// The next stretch of published bytes, up to the end of a chunk; empty when all is read.
    /// A traced program could scribble over shared memory, so nothing here trusts it: lengths are
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
        // SAFETY: published bytes of this chunk, which the writer does not touch again until
        // `consumed` has passed them.
        unsafe { core::slice::from_raw_parts(bytes.add(self.offset), len) }
    }

    /// Marks bytes of the last `peek` as read; a chunk read to its end goes back to the pool.
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

    /// A chunk that can be this stream's.
    fn chunk(&self, arena: &Arena, id: u32) -> Option<(*mut u8, usize)> {
        let can_be = id as usize == self.slot || id as usize >= SLOTS;
        arena.chunk(id).filter(|_| can_be)
    }
}
