//! Copies entries and completions between the queues of a ring and their shadow, place by place.
//!
//! Everything in the shadow is the program's, and may change at any time: each word is read once, and
//! every place is cut to the length of the queues. What was copied is remembered beside it.

use core::sync::atomic::{AtomicU32, Ordering};

use linux_raw_sys::general as raw;
use syscalls::abi::rings::{
    AT_COMPLETIONS, AT_ENTRIES, AT_QUEUES, CQE_F_LONG, CQE_F_SKIP, Completion, Params,
    SETUP_CQE_MIXED, SETUP_CQE32, SETUP_NO_SQARRAY, SETUP_SQE128, SETUP_SQPOLL, SETUP_TASKRUN_FLAG,
    SQ_NEED_WAKEUP, SQ_OVERFLOW, SQ_TASKRUN,
};
use syscalls::requests::{ENTRY_BYTES, Entry};

use crate::context::current;
use crate::flights::TOGETHER;
use crate::needs::{Need, needed};
use crate::shadow::{Found, Memory, Next, Others, Queues};
use crate::{memory, sys};

/// Maximum number of entries that the kernel allows a queue.
const ENTRIES_MAX: u32 = 64 << 10;

impl Queues {
    /// Maps queues and shadow of a new ring. Returns false if that cannot be.
    pub fn open(&mut self, fd: u64, id: u64, params: &Params, lent: [u64; 2]) -> bool {
        if !self.map(fd, params, lent) {
            return false;
        }
        let Params { sq, cq, .. } = self.params;
        self.id = id;
        self.files.fill(0);
        (self.submitted, self.completed) = (self.real(sq.head), self.real(cq.head));
        (self.submitting, self.is_copy, self.is_given) = (0, false, false);
        (self.entering, self.is_left) = (0, false);
        self.others = Others::none();
        self.show_flags();
        true
    }

    /// Maps queues and shadow, with what is in the queues.
    fn map(&mut self, fd: u64, params: &Params, lent: [u64; 2]) -> bool {
        let (sq, cq) = (&params.sq, &params.cq);
        let usual = params.can_be_shadowed();
        let most = params.sq_entries.max(params.cq_entries);
        if !usual || most > ENTRIES_MAX || params.sq_entries == 0 || params.cq_entries == 0 {
            return false;
        }
        if !params.sq_entries.is_power_of_two() || !params.cq_entries.is_power_of_two() {
            return false;
        }
        let array = if params.flags & SETUP_NO_SQARRAY != 0 { 0 } else { 4 * params.sq_entries };
        (self.params, self.lent) = (*params, lent);
        let bytes = (u64::from(cq.cqes) + self.completion_bytes() * u64::from(params.cq_entries))
            .max(u64::from(sq.array) + u64::from(array))
            .next_multiple_of(4096);
        let entries = (self.entry_bytes() * u64::from(params.sq_entries)).next_multiple_of(4096);
        let nothing = Memory { at: 0, bytes: 0 };
        self.real = real(fd, AT_QUEUES, bytes).unwrap_or(nothing);
        self.real_entries = real(fd, AT_ENTRIES, entries).unwrap_or(nothing);
        self.shadow = shared(bytes).unwrap_or(nothing);
        self.shadow_entries = shared(entries).unwrap_or(nothing);
        let all = [self.real, self.real_entries, self.shadow, self.shadow_entries];
        if all.iter().any(|memory| memory.at == 0) {
            self.close();
            return false;
        }
        // SAFETY: both were just mapped with that many bytes, and nobody else knows of the shadow.
        unsafe {
            core::ptr::copy_nonoverlapping(
                self.real.at as *const u8,
                self.shadow.at as *mut u8,
                bytes as usize,
            );
        }
        true
    }

    /// The kernel has given the queues other lengths. The program will map them again; what it has put in
    /// and not submitted, and what it has not taken, is there as well. Returns false if that cannot be.
    pub fn resize(&mut self, fd: u64, params: &Params) -> bool {
        let (old, tail, submitted) =
            (self.params, self.shadow(self.params.sq.tail), self.submitted);
        let (taken, completed) = (self.shadow(old.cq.head), self.completed);
        let was = [self.real, self.real_entries, self.shadow, self.shadow_entries];
        let new = old.resized(params);
        let is_mapped = self.map(fd, &new, [0; 2]);
        self.is_given = false;
        if is_mapped {
            let each = self.entry_bytes();
            let place = |number: u32, entries: u32| each * u64::from(number & (entries - 1));
            for number in numbers(submitted, tail, old.sq_entries.min(new.sq_entries)) {
                let from = was[3].at + place(number, old.sq_entries);
                let to = self.shadow_entries.at + place(number, new.sq_entries);
                // SAFETY: both are below the number of entries.
                unsafe { core::ptr::copy(from as *const u8, to as *mut u8, each as usize) };
            }
            let each = self.completion_bytes();
            let place = |number: u32, of: &Params| {
                u64::from(of.cq.cqes) + each * u64::from(number & (of.cq_entries - 1))
            };
            for number in numbers(taken, completed, old.cq_entries.min(new.cq_entries)) {
                let from = was[2].at + place(number, &old);
                let to = self.shadow.at + place(number, &new);
                // SAFETY: likewise.
                unsafe { core::ptr::copy(from as *const u8, to as *mut u8, each as usize) };
            }
            self.submitted = self.real(new.sq.head);
            self.completed = completed;
            self.set_shadow(new.sq.head, self.submitted);
            self.set_shadow(new.sq.tail, tail);
            self.set_shadow(new.cq.tail, completed);
            self.show_flags();
        }
        let kept = [self.real, self.real_entries, self.shadow, self.shadow_entries];
        [self.real, self.real_entries, self.shadow, self.shadow_entries] = was;
        self.close();
        [self.real, self.real_entries, self.shadow, self.shadow_entries] = kept;
        is_mapped
    }

    /// Whether the kernel would not say, or ask, where all of the queues is when they get other lengths:
    /// the order of the entries, or memory of the program.
    pub fn has_own_places(&self) -> bool {
        self.lent[0] != 0 || self.params.flags & SETUP_NO_SQARRAY == 0
    }

    /// Number of entries that were put in and not submitted.
    pub fn pending(&self) -> u32 {
        self.shadow(self.params.sq.tail).wrapping_sub(self.submitted)
    }

    /// Gives the memory back. The kernel's ring goes with its last descriptor then.
    pub fn close(&mut self) {
        let all =
            [&mut self.real, &mut self.real_entries, &mut self.shadow, &mut self.shadow_entries];
        for memory in all {
            // A filter of the program may object: then it goes with the process.
            if memory.at != 0 && !sys::denies(needed::UNMAPPING) {
                sys::call(Need::Unmap, [memory.at, memory.bytes, 0, 0, 0, 0]);
            }
            memory.at = 0;
        }
    }

    pub fn is_open(&self) -> bool {
        self.real.at != 0
    }

    /// Whether a thread of the kernel takes entries, whenever it likes.
    pub fn is_polled(&self) -> bool {
        self.params.flags & SETUP_SQPOLL != 0
    }

    fn entry_bytes(&self) -> u64 {
        let twice = self.params.flags & SETUP_SQE128 != 0;
        ENTRY_BYTES as u64 * if twice { 2 } else { 1 }
    }

    fn completion_bytes(&self) -> u64 {
        let twice = self.params.flags & SETUP_CQE32 != 0;
        size_of::<Completion>() as u64 * if twice { 2 } else { 1 }
    }

    /// The process was forked.
    pub fn copied(&mut self) {
        (self.submitting, self.is_copy) = (0, true);
        (self.entering, self.is_left) = (0, false);
        self.others.are_there(false);
    }

    /// Puts the shadow in the place of a mapping of the queues that the program has just made. Returns
    /// false if that cannot be.
    pub fn give(&mut self, at: u64, bytes: u64, offset: u64) -> bool {
        let from = if offset == AT_ENTRIES { self.shadow_entries } else { self.shadow };
        if bytes.next_multiple_of(4096) > from.bytes {
            return false;
        }
        let how = u64::from(raw::MREMAP_MAYMOVE | raw::MREMAP_FIXED);
        // An old length of 0 maps shared memory once more.
        let got = sys::call(Need::MapAgain, [from.at, 0, bytes, how, at, 0]);
        self.is_given |= got == at as i64;
        got == at as i64
    }

    fn at(&self, memory: Memory, offset: u32) -> &AtomicU32 {
        let offset = u64::from(offset & !3).min(memory.bytes - 4);
        // SAFETY: inside the memory, which stays mapped while the ring is open; aligned.
        unsafe { &*((memory.at + offset) as *const AtomicU32) }
    }

    fn real(&self, offset: u32) -> u32 {
        self.at(self.real, offset).load(Ordering::Acquire)
    }

    fn shadow(&self, offset: u32) -> u32 {
        let word = self.at(self.shadow, offset);
        if self.lent[0] != 0
            && let Some(now) = memory::read_half(current(), self.lent[0] + u64::from(offset & !3))
        {
            word.store(now, Ordering::Relaxed);
        }
        word.load(Ordering::Acquire)
    }

    fn set_shadow(&self, offset: u32, value: u32) {
        self.at(self.shadow, offset).store(value, Ordering::Release);
        if self.lent[0] != 0 {
            memory::write_half(current(), self.lent[0] + u64::from(offset & !3), value);
        }
    }

    /// Shows the program what the kernel has said, and that completions are to be had by entering:
    /// only then they can be captured. Likewise entries are taken only by who is woken.
    fn show_flags(&self) {
        let Params { sq, cq, .. } = &self.params;
        // A program that has asked for one of the two may do something else if it sees that.
        let asked = self.params.flags & SETUP_TASKRUN_FLAG != 0;
        let enter = if asked { SQ_OVERFLOW } else { SQ_TASKRUN };
        let mut flags = self.real(sq.flags) | enter;
        if self.is_polled() {
            flags |= SQ_NEED_WAKEUP;
            // Never more than the kernel has taken: all that the program puts in then has room in the
            // queue itself, and is copied as soon as it enters.
            self.set_shadow(sq.head, self.real(sq.head));
        }
        self.set_shadow(sq.flags, flags);
        self.set_shadow(sq.dropped, self.real(sq.dropped));
        self.set_shadow(cq.overflow, self.real(cq.overflow));
    }

    /// Tells the kernel what the program has taken from the completion queue, and its flags.
    pub fn tell_taken(&mut self) {
        self.catch_up();
        let cq = self.params.cq;
        let taken = self.shadow(cq.head);
        let (head, order) = (self.real(cq.head), Ordering::Release);
        if taken.wrapping_sub(head) <= self.completed.wrapping_sub(head) {
            self.at(self.real, cq.head).store(taken, order);
        }
        self.at(self.real, cq.flags).store(self.shadow(cq.flags), order);
    }

    /// Goes on where another process is that has the ring as well.
    fn catch_up(&mut self) {
        let Params { sq, cq, .. } = self.params;
        let (head, tail) = (self.real(sq.head), self.real(cq.tail));
        let is_copy = core::mem::take(&mut self.is_copy);
        if is_copy || self.submitted.wrapping_sub(head) > self.params.sq_entries {
            self.submitted = head;
        }
        let (shown, entries) = (self.shadow(cq.tail), self.params.cq_entries);
        let is_lost = is_copy || tail.wrapping_sub(self.completed) > entries;
        if is_lost {
            self.completed = if tail.wrapping_sub(shown) <= entries { shown } else { tail };
        } else if shown.wrapping_sub(self.completed) <= tail.wrapping_sub(self.completed) {
            if shown != self.completed {
                self.others.are_there_still();
            }
            self.completed = shown;
        }
    }

    /// Copies the next entries, at most so many. `each` gets some at a time first.
    pub fn submit(&mut self, count: u32, mut each: impl FnMut(&mut [Option<Next>; TOGETHER])) {
        self.catch_up();
        let (sq, entries) = (self.params.sq, self.params.sq_entries);
        let in_queue = self.submitted.wrapping_sub(self.real(sq.head)).min(entries);
        let there = self.shadow(sq.tail).wrapping_sub(self.submitted);
        let mut orders = 0..count.min(there).min(entries - in_queue);
        while !orders.is_empty() {
            let mut some = [const { None }; TOGETHER];
            for (next, order) in some.iter_mut().zip(orders.by_ref()) {
                *next = self.next_entry(order);
                self.submitted = self.submitted.wrapping_add(1);
            }
            each(&mut some);
            some.iter().flatten().for_each(|next| self.set_real_entry(next));
        }
        self.at(self.real, sq.tail).store(self.submitted, Ordering::Release);
    }

    /// Returns the entry that is submitted next, if it is one.
    fn next_entry(&mut self, order: u32) -> Option<Next> {
        let (sq, entries) = (self.params.sq, self.params.sq_entries);
        let place = self.submitted & (entries - 1);
        let mut index = place;
        if self.params.flags & SETUP_NO_SQARRAY == 0 {
            index = self.shadow(sq.array + 4 * place);
            // What is no entry stays none.
            let told = if index < entries { place } else { index };
            self.at(self.real, sq.array + 4 * place).store(told, Ordering::Relaxed);
        }
        if index >= entries {
            return None;
        }
        let entry = self.shadow_entry(index);
        let (at, bytes) = (self.entry_at(index), self.entry_bytes());
        let source = entry.place_of_source().and_then(|place| self.file_at(place));
        let found = Found { at, bytes, file: self.file_of(&entry), source };
        Some(Next { order, entry, found, place, index })
    }

    /// Sets the files at these places.
    pub fn set_files(&mut self, first: u32, files: impl Iterator<Item = Option<u32>>) {
        let places = self.files.iter_mut().skip(first as usize);
        for (place, fd) in places.zip(files) {
            *place = fd.map_or(0, |fd| fd.wrapping_add(1));
        }
    }

    /// Descriptors were closed: they are numbers of these files no more.
    pub fn forget_files(&mut self, from: u64, to: u64) {
        let is_closed = |fd: u32| (from..=to).contains(&u64::from(fd.wrapping_sub(1)));
        self.files.iter_mut().filter(|fd| **fd != 0 && is_closed(**fd)).for_each(|fd| *fd = 0);
    }

    /// Returns the descriptor of the file of an entry that has it from the table.
    fn file_of(&mut self, entry: &Entry) -> Option<u32> {
        if let Some(place) = entry.changes_place() {
            self.set_files(place, core::iter::once(None));
        }
        self.file_at(entry.place_of_file()?)
    }

    fn file_at(&self, place: u32) -> Option<u32> {
        self.files.get(place as usize)?.checked_sub(1)
    }

    fn entry_at(&self, index: u32) -> u64 {
        self.shadow_entries.at + self.entry_bytes() * u64::from(index)
    }

    fn shadow_entry(&self, index: u32) -> Entry {
        let at = self.entry_at(index);
        if self.lent[1] != 0 {
            let (bytes, from) = (self.entry_bytes(), self.lent[1]);
            let from = from + bytes * u64::from(index);
            // SAFETY: the index is below the number of entries.
            unsafe { memory::copy(current(), at as *mut u8, from, bytes) };
        }
        // SAFETY: the index is below the number of entries; the program may write at the same time,
        // but every value is an entry.
        unsafe { read_entry(at as *const Entry) }
    }

    fn set_real_entry(&self, &Next { place, index, ref entry, .. }: &Next) {
        let at = (self.real_entries.at + self.entry_bytes() * u64::from(place)) as *mut Entry;
        // SAFETY: the places are below the number of entries.
        unsafe {
            write_entry(at, entry);
            if self.entry_bytes() > ENTRY_BYTES as u64 {
                let rest = (self.entry_at(index) as *const Entry).add(1);
                write_entry(at.add(1), &read_entry(rest));
            }
        }
    }

    /// After the kernel's answer: what it has not taken will be copied again.
    pub fn submitted(&mut self) {
        let sq = self.params.sq;
        let taken = self.real(sq.head);
        self.submitting = self.submitting.saturating_sub(1);
        if self.submitting == 0 && !self.is_polled() {
            self.submitted = taken;
            self.at(self.real, sq.tail).store(taken, Ordering::Release);
        }
        self.set_shadow(sq.head, taken);
    }

    /// Sets a completion at an offset in the queue, with what the real one has beside it.
    fn set_shadow_completion(&self, place: u64, done: &Completion) {
        let bytes = self.completion_bytes();
        let to = (self.shadow.at + place) as *mut Completion;
        // SAFETY: inside both, by the length that was worked out when they were mapped.
        unsafe {
            to.write_volatile(*done);
            if bytes > size_of::<Completion>() as u64 {
                let from = (self.real.at + place) as *const Completion;
                to.add(1).write_volatile(from.add(1).read_volatile());
            }
        }
        if self.lent[0] != 0 {
            memory::copy_out(current(), self.lent[0] + place, to.cast_const().cast(), bytes);
        }
    }

    /// Copies completions. `each` gets some at a time before the program does, may change what is
    /// known by the entry, and says how many it takes: others stay. Returns false if there are none.
    pub fn complete(&mut self, mut each: impl FnMut(&mut [Completion]) -> usize) -> bool {
        self.catch_up();
        let (cq, entries) = (self.params.cq, self.params.cq_entries);
        let tail = self.real(cq.tail);
        if tail.wrapping_sub(self.completed) > entries {
            return false;
        }
        let first = self.completed;
        let bytes = self.completion_bytes();
        let place = |number: u32| u64::from(cq.cqes) + bytes * u64::from(number & (entries - 1));
        let is_mixed = self.params.flags & SETUP_CQE_MIXED != 0;
        let together = if is_mixed { 1 } else { TOGETHER as u32 };
        while self.completed != tail {
            let mut some = [Completion { user_data: 0, result: 0, flags: 0 }; TOGETHER];
            let count = tail.wrapping_sub(self.completed).min(together);
            let numbers = (0..count).map(|number| self.completed.wrapping_add(number));
            for (done, number) in some.iter_mut().zip(numbers.clone()) {
                // SAFETY: inside, by the length that was worked out when this was mapped.
                *done = unsafe {
                    ((self.real.at + place(number)) as *const Completion).read_volatile()
                };
            }
            let is_none = is_mixed && some[0].flags & CQE_F_SKIP != 0;
            let taken = match is_none {
                true => 1,
                false => each(&mut some[..count as usize]).min(count as usize),
            };
            for (done, number) in some.iter().take(taken).zip(numbers) {
                self.set_shadow_completion(place(number), done);
            }
            self.completed = self.completed.wrapping_add(taken as u32);
            if is_mixed && some[0].flags & CQE_F_LONG != 0 && taken == 1 && self.completed != tail {
                // Its second half.
                let place = place(self.completed);
                // SAFETY: inside, likewise.
                let rest = unsafe { ((self.real.at + place) as *const Completion).read_volatile() };
                self.set_shadow_completion(place, &rest);
                self.completed = self.completed.wrapping_add(1);
            }
            if taken < count as usize {
                break;
            }
        }
        self.show_flags();
        let shown = self.at(self.shadow, cq.tail);
        if self.lent[0] != 0 {
            self.set_shadow(cq.tail, self.completed);
        } else if self.others.is_any() {
            // Another process may have shown more meanwhile.
            let order = Ordering::AcqRel;
            _ = shown.compare_exchange(first, self.completed, order, Ordering::Relaxed);
        } else {
            shown.store(self.completed, Ordering::Release);
        }
        first != self.completed
    }
}

/// Reads an entry that may change meanwhile, by words: the compiler would do it by bytes.
///
/// # Safety
/// It must be mapped, and aligned like its words.
unsafe fn read_entry(at: *const Entry) -> Entry {
    let mut entry = Entry([0; ENTRY_BYTES]);
    for (number, to) in entry.0.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        // SAFETY: the caller guarantees it.
        *to = unsafe { at.cast::<u64>().add(number).read_volatile() }.to_ne_bytes();
    }
    entry
}

/// Writes an entry, likewise.
///
/// # Safety
/// As for [`read_entry`].
unsafe fn write_entry(at: *mut Entry, entry: &Entry) {
    for (number, from) in entry.0.as_chunks::<8>().0.iter().enumerate() {
        // SAFETY: the caller guarantees it.
        unsafe { at.cast::<u64>().add(number).write_volatile(u64::from_ne_bytes(*from)) };
    }
}

/// The numbers between these two, at most so many.
fn numbers(first: u32, end: u32, most: u32) -> impl Iterator<Item = u32> {
    (0..end.wrapping_sub(first).min(most)).map(move |number| first.wrapping_add(number))
}

fn real(fd: u64, offset: u64, bytes: u64) -> Option<Memory> {
    let flags = u64::from(raw::MAP_SHARED | raw::MAP_POPULATE);
    let at = sys::call(Need::MapRing, [0, bytes, READ_WRITE, flags, fd, offset]);
    (at > 0).then_some(Memory { at: at as u64, bytes })
}

fn shared(bytes: u64) -> Option<Memory> {
    let flags = u64::from(raw::MAP_SHARED | raw::MAP_ANONYMOUS);
    let at = sys::call(Need::MapShared, [0, bytes, READ_WRITE, flags, u64::MAX, 0]);
    (at > 0).then_some(Memory { at: at as u64, bytes })
}

const READ_WRITE: u64 = 3;

/// Whether queues are mapped at this offset: they are not the only memory of a ring.
pub fn is_of_queues(offset: u64) -> bool {
    matches!(offset, AT_QUEUES | AT_COMPLETIONS | AT_ENTRIES)
}
