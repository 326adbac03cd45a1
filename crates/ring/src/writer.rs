//! The writing end of a stream: what it and the reader agree on. The agent puts the bytes into the
//! chunks, in its own way.

use crate::atomics::{AtomicU32, Ordering, fence};
use crate::{Arena, POOL_BYTES, QUEUE, SLOTS, Slot};

/// Number of unread bytes at which the reader is woken.
const WAKE_BYTES: u64 = 8 * POOL_BYTES as u64;
/// Number of unread bytes with which a stream waits for its reader: the queue has room for as many
/// chunks, and the two that are being read and written.
const UNREAD_MAX: u64 = ((QUEUE - 2) * POOL_BYTES) as u64;

/// How a thread waits for its reader. Agents make calls in their own way only.
pub trait Patience {
    /// Wakes who sleeps on a futex word.
    fn wake(&mut self, word: &AtomicU32);
    /// Sleeps while the word has this value, or for a while. False: the reader is gone.
    fn sleep(&mut self, word: &AtomicU32, value: u32) -> bool;
}

/// Where a stream continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Chunk that is being written.
    pub chunk: u32,
    /// Stream position at which it begins.
    pub start: u64,
    /// Number of bytes published so far.
    pub published: u64,
}

/// The writing end of one slot's stream.
#[derive(Clone, Copy)]
pub struct Writer {
    arena: Arena,
    index: usize,
}

impl Writer {
    /// The writing end of the stream of this slot.
    pub const fn new(arena: Arena, index: usize) -> Writer {
        Writer { arena, index }
    }

    fn slot(&self) -> &'static Slot {
        self.arena.slot(self.index)
    }

    /// Begins the stream in the slot's home chunk, or goes on where the program before has left it.
    /// What it says comes from shared memory, which a program can write.
    pub fn place(&self) -> Place {
        let slot = self.slot();
        if slot.queued.load(Ordering::Relaxed) == 0 {
            slot.queue[0].store(self.index as u32, Ordering::Relaxed);
            slot.queued.store(1, Ordering::Release);
        }
        let last = slot.queued.load(Ordering::Relaxed).wrapping_sub(1);
        Place {
            chunk: slot.queue[last as usize % QUEUE].load(Ordering::Relaxed),
            start: slot.chunk_start.load(Ordering::Relaxed),
            published: slot.published.load(Ordering::Relaxed),
        }
    }

    /// Queues another chunk, as the last one is published up to its end, which is `position`. Waits
    /// for room if there is none. `None`: nothing is recorded any more.
    pub fn next_chunk(&self, position: u64, patience: &mut impl Patience) -> Option<u32> {
        let slot = self.slot();
        let queued = slot.queued.load(Ordering::Relaxed);
        let last = slot.queue[queued.wrapping_sub(1) as usize % QUEUE].load(Ordering::Relaxed);
        if (last as usize) < SLOTS {
            slot.home_end.store(position, Ordering::Relaxed);
        }
        let id = self.free_chunk(position, patience)?;
        slot.queue[queued as usize % QUEUE].store(id, Ordering::Relaxed);
        slot.chunk_start.store(position, Ordering::Relaxed);
        slot.queued.store(queued.wrapping_add(1), Ordering::Release);
        Some(id)
    }

    /// Takes a chunk of the pool, or the home chunk again, as soon as there is one.
    fn free_chunk(&self, position: u64, patience: &mut impl Patience) -> Option<u32> {
        let (control, slot) = (self.arena.control(), self.slot());
        loop {
            let consumed = slot.consumed.bytes.load(Ordering::Acquire);
            let unread = position.wrapping_sub(consumed);
            if control.stopped.load(Ordering::Relaxed) != 0 {
                return None;
            }
            if unread < UNREAD_MAX {
                if unread >= WAKE_BYTES {
                    self.wake_reader(patience);
                }
                if let Some(id) = self.arena.take_chunk(self.index) {
                    return Some(id);
                }
                if consumed >= slot.home_end.load(Ordering::Relaxed) {
                    return Some(self.index as u32);
                }
            }
            let room = slot.consumed.room.load(Ordering::Acquire);
            // Exchanged, as the reader does: so there is one order of these changes.
            slot.consumed.waiting.swap(1, Ordering::Relaxed);
            // Either the reader sees that we wait, or we see what it has done.
            fence(Ordering::SeqCst);
            let is_unchanged = slot.consumed.bytes.load(Ordering::Relaxed) == consumed
                && control.stopped.load(Ordering::Relaxed) == 0;
            let mut goes_on = true;
            if is_unchanged {
                self.wake_reader(patience);
                goes_on = patience.sleep(&slot.consumed.room, room);
            }
            slot.consumed.waiting.swap(0, Ordering::Relaxed);
            if !goes_on {
                return None;
            }
        }
    }

    /// Wakes the reader if it sleeps.
    pub fn wake_reader(&self, patience: &mut impl Patience) {
        let bell = &self.arena.control().doorbell;
        if bell.ring() {
            patience.wake(&bell.word);
        }
    }
}
