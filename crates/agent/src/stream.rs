//! The writing end of a thread's stream: puts words and bytes into chunks of the arena.
//!
//! Data becomes visible with `publish`, once per record. At the end of a chunk everything written
//! so far is published, even a partial record. So unpublished bytes are always in the current
//! chunk, and dropping them only resets one pointer.

use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use ring::{Arena, Patience, Place, Writer};
use syscalls::record::{Header, RecordKind, data_flag};

use crate::arch::entry;
use crate::arch::head::phase;
use crate::context::{Context, NO_CALL, POSTPONED};
use crate::{clock, memory, sys};

/// Number of words in the longest ENTER record.
const ENTER_WORDS_MAX: usize = 9;
/// Longest wait before checking whether the recorder still lives.
const ROOM_WAIT_NS: u64 = 20_000_000;

/// The writing end of a thread's stream.
pub struct Stream;

impl Stream {
    /// Continues the slot's stream. If the state of the slot is inconsistent, because a program
    /// wrote over it, nothing is recorded.
    pub fn open(context: &Context) {
        context.silent.set(context.silent.get() | Self::try_open(context).is_none());
    }

    fn try_open(context: &Context) -> Option<()> {
        let arena = context.slot.get().and(context.arena.get())?;
        let Place { chunk: id, start, published } =
            Writer::new(arena, context.slot_index.get()).place();
        let (base, len) = arena.chunk(id)?;
        let done = published.checked_sub(start).filter(|&done| done <= len as u64)?;
        // SAFETY: `done` is at most `len`, the chunk's length.
        let (cur, end) = unsafe { (base.add(done as usize), base.add(len)) };
        let chunk = &context.chunk;
        chunk.cur.set(cur);
        chunk.end.set(end);
        chunk.base.set(base);
        chunk.base_pos.set(start);
        chunk.published.set(published);
        chunk.record_start.set(published);
        chunk.record_end.set(published);
        chunk.stalled_ns.set(0);
        Some(())
    }

    /// Makes everything written so far visible to the recorder.
    #[inline(always)]
    pub fn publish(context: &Context) {
        let position = context.chunk.position();
        context.chunk.published.set(position);
        if let Some(slot) = context.slot.get() {
            slot.publish(position);
        }
    }

    /// Writes a whole record of words, one at a time: wider loads of words just computed would wait
    /// for the store buffer.
    #[inline(always)]
    pub fn record(context: &Context, words: &[u64]) {
        if context.chunk.room() >= size_of_val(words) {
            let mut to = context.chunk.cur.get().cast::<u64>();
            for &word in words {
                // SAFETY: there is room for all words; chunks are 8-byte aligned.
                unsafe {
                    to.write_volatile(word);
                    to = to.add(1);
                }
            }
            context.chunk.cur.set(to.cast());
        } else {
            Self::record_over_chunks(context, words);
        }
    }

    /// Writes an ENTER record with the first `nargs` arguments. All six are written, and the next
    /// record overwrites the rest: this saves a loop and a branch.
    #[inline(always)]
    pub fn enter_record(context: &Context, head: u64, tsc: u64, args: &[u64; 6], nargs: usize) {
        if context.chunk.room() >= ENTER_WORDS_MAX * size_of::<u64>() {
            let to = context.chunk.cur.get().cast::<u64>();
            let [a, b, c, d, e, f] = *args;
            let words = [head, tsc, context.site.get(), a, b, c, d, e, f];
            for (at, word) in words.into_iter().enumerate() {
                // SAFETY: there is room for all words; chunks are 8-byte aligned.
                unsafe { to.add(at).write_volatile(word) };
            }
            // SAFETY: the new position is within the room checked above.
            context.chunk.cur.set(unsafe { to.add(3 + nargs).cast() });
        } else {
            Self::enter_over_chunks(context, head, tsc, args, nargs);
        }
    }

    /// Builds the words here, so that in the usual case they stay in registers.
    #[cold]
    #[inline(never)]
    fn enter_over_chunks(context: &Context, head: u64, tsc: u64, args: &[u64; 6], nargs: usize) {
        let [a, b, c, d, e, f] = *args;
        let words = [head, tsc, context.site.get(), a, b, c, d, e, f];
        Self::record_over_chunks(context, &words[..3 + nargs.min(6)]);
    }

    /// Writes a record of three words, the most common size.
    #[inline(always)]
    pub fn short_record(context: &Context, head: u64, first: u64, second: u64) {
        if context.chunk.room() >= 3 * size_of::<u64>() {
            let to = context.chunk.cur.get().cast::<u64>();
            // SAFETY: there is room for all words; chunks are 8-byte aligned.
            unsafe {
                to.write_volatile(head);
                to.add(1).write_volatile(first);
                to.add(2).write_volatile(second);
                context.chunk.cur.set(to.add(3).cast());
            }
        } else {
            Self::short_over_chunks(context, head, first, second);
        }
    }

    #[cold]
    #[inline(never)]
    fn short_over_chunks(context: &Context, head: u64, first: u64, second: u64) {
        Self::record_over_chunks(context, &[head, first, second]);
    }

    #[cold]
    #[inline(never)]
    fn record_over_chunks(context: &Context, words: &[u64]) {
        Self::begin(context, words, size_of_val(words) as u64);
        Self::words_over_chunks(context, words);
    }

    /// Begins a record that may not fit into the current chunk.
    fn begin(context: &Context, words: &[u64], bytes: u64) {
        if context.chunk.has_unpublished_rest() {
            Self::publish(context);
        }
        context.chunk.begin(words, bytes);
    }

    /// Writes words of a record started with `begin`.
    fn words_over_chunks(context: &Context, words: &[u64]) {
        for &word in words {
            if context.chunk.room() == 0 && !Self::next_chunk(context) {
                return;
            }
            // SAFETY: there is room for a word.
            unsafe {
                context.chunk.cur.get().cast::<u64>().write(word);
                context.chunk.cur.set(context.chunk.cur.get().add(8));
            }
        }
    }

    /// Writes a record with the head `words` and a tail of program memory. The second word is the
    /// true length, the third the stored length; the top byte of the first holds the DATA flags.
    pub fn record_with_bytes(context: &Context, words: &[u64], from: u64, len: u64) {
        if !Self::has_recorded(context, words, from, len) {
            Self::note_fault(context, words);
        }
    }

    /// Likewise; returns false, and writes nothing, if the memory cannot be read.
    pub fn has_recorded(context: &Context, words: &[u64], from: u64, len: u64) -> bool {
        let padded = len.next_multiple_of(8);
        let head = size_of_val(words);
        if context.chunk.room() as u64 >= head as u64 + padded {
            let start = context.chunk.cur.get();
            // SAFETY: there is room for the head and the padded bytes.
            let missing = unsafe {
                let to = start.cast::<u64>();
                for (i, &word) in words.iter().enumerate() {
                    to.add(i).write(word);
                }
                let body = start.add(head);
                if padded != len {
                    body.add(padded as usize - 8).cast::<u64>().write(0);
                }
                memory::copy_to_stream(context, body, from, len)
            };
            if missing == 0 {
                // SAFETY: there is room for the head and the padded bytes.
                context.chunk.cur.set(unsafe { start.add(head + padded as usize) });
            }
            return missing == 0;
        }
        if !memory::readable(context, from, len) {
            return false;
        }
        Self::begin(context, words, head as u64 + padded);
        Self::words_over_chunks(context, words);
        let mut done = 0;
        while done < padded {
            if context.chunk.room() == 0 && !Self::next_chunk(context) {
                break;
            }
            let piece = (padded - done).min(context.chunk.room() as u64);
            let wanted = piece.min(len - done.min(len));
            let to = context.chunk.cur.get();
            // SAFETY: there is room for the piece; the part that could not be read is zeroed.
            unsafe {
                let missing = memory::copy_to_stream(context, to, from + done, wanted);
                let copied = (wanted - missing) as usize;
                core::ptr::write_bytes(to.add(copied), 0, piece as usize - copied);
                context.chunk.cur.set(to.add(piece as usize));
            }
            done += piece;
        }
        true
    }

    /// Writes a record with a tail of `len` bytes that are in several pieces of program memory.
    #[cold]
    pub fn record_with_pieces(context: &Context, words: &[u64], pieces: &[[u64; 2]], len: u64) {
        if pieces.iter().any(|[at, bytes]| !memory::readable(context, *at, *bytes)) {
            return Self::note_fault(context, words);
        }
        let padded = len.next_multiple_of(8);
        Self::begin(context, words, size_of_val(words) as u64 + padded);
        Self::words_over_chunks(context, words);
        let mut done = 0;
        // What is left over is zeroed.
        let rest = [u64::MAX, padded];
        for [at, bytes] in pieces.iter().copied().chain([rest]) {
            let is_rest = at == u64::MAX;
            let whole = if is_rest { padded } else { len.min(done + bytes) };
            let from = done;
            while done < whole {
                if context.chunk.room() == 0 && !Self::next_chunk(context) {
                    return;
                }
                let piece = (whole - done).min(context.chunk.room() as u64);
                let wanted = if is_rest { 0 } else { piece };
                let to = context.chunk.cur.get();
                // SAFETY: there is room for the piece; the part that could not be read is zeroed.
                unsafe {
                    let missing = memory::copy(context, to, at.wrapping_add(done - from), wanted);
                    let copied = (wanted - missing) as usize;
                    core::ptr::write_bytes(to.add(copied), 0, piece as usize - copied);
                    context.chunk.cur.set(to.add(piece as usize));
                }
                done += piece;
            }
        }
    }

    /// Writes a DATA record which says that the memory could not be read.
    #[cold]
    pub fn note_fault(context: &Context, head: &[u64]) {
        let (hash, fault) = (u64::from(data_flag::HASH), u64::from(data_flag::FAULT));
        Self::record(context, &[head[0] & !(hash << 40) | fault << 40, head[1], 0]);
    }

    /// Switches to another chunk, waiting if necessary. Returns false if recording has ended.
    #[cold]
    #[inline(never)]
    pub fn next_chunk(context: &Context) -> bool {
        if context.silent.get() {
            return false;
        }
        Self::while_busy(context, || Self::queue_chunk(context))
    }

    /// Does what a signal must not interrupt. If one came meanwhile, and the call is not made yet,
    /// the call is given up afterwards.
    pub fn while_busy<T>(context: &Context, work: impl FnOnce() -> T) -> T {
        let was_busy = context.busy.replace(true);
        compiler_fence(Ordering::SeqCst);
        let done = work();
        compiler_fence(Ordering::SeqCst);
        context.busy.set(was_busy);
        compiler_fence(Ordering::SeqCst);
        if was_busy {
            return done;
        }
        if context.held_frame.get() > POSTPONED && context.phase.get() == phase::BEFORE {
            // SAFETY: the call is not made, and no lock is held while a record is written.
            unsafe { entry::give_up_call() }
        }
        done
    }

    fn queue_chunk(context: &Context) -> bool {
        Self::publish(context);
        let (Some(arena), Some(slot)) = (context.arena.get(), context.slot.get()) else {
            return false;
        };
        let position = context.chunk.published.get();
        let mut wait = Wait { context, arena, since: 0 };
        let id = Writer::new(arena, context.slot_index.get()).next_chunk(position, &mut wait);
        if wait.since != 0 {
            let hz = arena.control().tsc_hz.load(Ordering::Relaxed).max(1);
            let ticks = u128::from(clock::now(context).saturating_sub(wait.since));
            let waited = (ticks * 1_000_000_000 / u128::from(hz)) as u64;
            slot.stall_ns.fetch_add(waited, Ordering::Relaxed);
            context.chunk.stalled_ns.set(context.chunk.stalled_ns.get() + waited);
        }
        let Some(id) = id else {
            context.silent.set(true);
            return false;
        };
        let Some((base, len)) = arena.chunk(id) else { return false };
        context.chunk.base.set(base);
        context.chunk.base_pos.set(position);
        context.chunk.cur.set(base);
        // SAFETY: the chunk has this length.
        context.chunk.end.set(unsafe { base.add(len) });
        true
    }

    /// Writes a STALL record for the time waited since the last one.
    pub fn tell_stalls(context: &Context) {
        let ns = context.chunk.stalled_ns.take();
        if ns != 0 {
            let head = Header::new(RecordKind::Stall, 0, 0, 0).to_word();
            Self::record(context, &[head, clock::now(context), ns]);
            Self::publish(context);
        }
    }

    /// Drops unpublished data. A partly published record is completed, with zeros behind its head, and a partly
    /// published call is marked as abandoned.
    pub fn undo(context: &Context) {
        let chunk = &context.chunk;
        let back = (chunk.published.get() - chunk.base_pos.get()) as usize;
        // SAFETY: unpublished bytes are in the current chunk.
        chunk.cur.set(unsafe { chunk.base.get().add(back) });
        let in_part = chunk.record_start.get() < chunk.published.get();
        while in_part && chunk.position() < chunk.record_end.get() {
            if chunk.room() == 0 && !Self::next_chunk(context) {
                return;
            }
            // SAFETY: there is room for a word; chunks and records are of whole words.
            unsafe {
                chunk.cur.get().cast::<u64>().write(chunk.word_of_rest(chunk.position()));
                chunk.cur.set(chunk.cur.get().add(8));
            }
        }
        // One of which nothing was published is none: what comes in its place is not a part of it.
        chunk.record_end.set(0);
        let start = context.call_start.swap(NO_CALL, Ordering::Relaxed);
        if start < context.chunk.published.get() {
            Self::record(context, &[Header::new(RecordKind::Abandon, 0, 0, 0).to_word()]);
        }
        Self::publish(context);
    }
}

/// A wait for room in the stream.
struct Wait<'a> {
    context: &'a Context,
    arena: Arena,
    /// When it began; 0: there was room.
    since: u64,
}

impl Patience for Wait<'_> {
    fn wake(&mut self, word: &AtomicU32) {
        sys::futex_wake(word);
    }

    fn sleep(&mut self, word: &AtomicU32, value: u32) -> bool {
        if self.since == 0 {
            self.since = clock::now(self.context);
        }
        sys::futex_wait(word, value, ROOM_WAIT_NS);
        !self.arena.recorder_lost() && !is_disowned(self.context)
    }
}

/// Wakes the recorder if it sleeps.
pub fn wake_recorder(context: &Context) {
    let Some(arena) = context.arena.get() else { return };
    let bell = &arena.control().doorbell;
    if bell.ring() {
        sys::futex_wake(&bell.word);
    }
}

/// Returns true if the slot no longer belongs to this thread: the recorder took the thread for
/// dead, or a program wrote over the arena. Then its records are not read and its requests not
/// answered.
#[cold]
pub fn is_disowned(context: &Context) -> bool {
    let (Some(arena), Some(slot)) = (context.arena.get(), context.slot.get()) else { return false };
    if slot.tid.load(Ordering::Relaxed) == context.tid.get() {
        return false;
    }
    arena.control().disowned.fetch_add(1, Ordering::Relaxed);
    context.silent.set(true);
    context.slot.set(None);
    true
}
