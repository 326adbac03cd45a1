//! The program's view of a ring of io_uring is a shadow: memory of the same layout, between which and
//! the real queues entries are copied, place by place, when the program enters the kernel.
//!
//! Everything in the shadow is the program's, and may change at any time: each word is read once, and
//! every place is cut to the length of the queues. What was copied is remembered here.

use core::sync::atomic::{AtomicU32, Ordering};

use linux_raw_sys::general as raw;
use syscalls::abi::rings::{
    AT_COMPLETIONS, AT_ENTRIES, AT_QUEUES, Completion, FEAT_SINGLE_MMAP, Params, SETUP_CQE32,
    SETUP_KNOWN, SETUP_NO_SQARRAY, SETUP_SQE128, SETUP_SQPOLL, SETUP_TASKRUN_FLAG, SQ_NEED_WAKEUP,
    SQ_OVERFLOW, SQ_TASKRUN,
};
use syscalls::requests::{ENTRY_BYTES, Entry};

use crate::flights::TOGETHER;
use crate::lock::SpinLock;
use crate::needs::Need;
use crate::provided::Buffers;
use crate::sys;

/// Maximum number of rings that are shadowed.
pub const RINGS: usize = 64;
/// Numbers of descriptors that lead to one ring.
pub const NAMES: usize = 4;
/// Places of the table of files that are followed.
pub const FILES_FOLLOWED: usize = 1024;
/// Maximum number of entries that the kernel allows a queue.
const ENTRIES_MAX: u32 = 64 << 10;

/// All rings.
pub struct Rings {
    pub all: [Ring; RINGS],
}

/// A ring, or a free place for one.
pub struct Ring {
    /// Descriptors + 1; 0: none.
    pub names: [AtomicU32; NAMES],
    /// Number of numbers that threads have given it.
    pub registered: AtomicU32,
    /// Completions that other rings post here (MSG_RING), and that were not found yet.
    pub messages: AtomicU32,
    /// The process that has it; 0: a copy of that.
    pub process: AtomicU32,
    pub queues: SpinLock<Queues>,
    /// Buffers of which the kernel chooses.
    pub buffers: SpinLock<Buffers>,
}

/// An entry on its way to the queue.
pub struct Next {
    /// Its number in the call.
    pub order: u32,
    pub entry: Entry,
    pub found: Found,
    /// Where it goes, and from where.
    place: u32,
    index: u32,
}

/// What is known of an entry.
pub struct Found {
    /// Its address and length.
    pub at: u64,
    pub bytes: u64,
    /// The descriptor of its file, where the entry has another number for it, and of that which a splice
    /// reads from.
    pub file: Option<u32>,
    pub source: Option<u32>,
}

/// A piece of memory.
#[derive(Clone, Copy)]
struct Memory {
    at: u64,
    bytes: u64,
}

/// The queues of a ring; `real.at` is 0 where there is no ring.
pub struct Queues {
    params: Params,
    real: Memory,
    real_entries: Memory,
    shadow: Memory,
    shadow_entries: Memory,
    /// What operations in flight know it by.
    pub id: u64,
    /// Up to where submissions and completions were copied.
    submitted: u32,
    completed: u32,
    /// Threads between copying submissions and the kernel's answer.
    pub submitting: u32,
    /// Threads that are in the kernel with it, or about to be.
    pub entering: u32,
    /// It has no descriptors any more, and goes when the last of them returns.
    pub is_left: bool,
    /// The process is a copy: another one may have copied more.
    is_copy: bool,
    /// Another process has the ring as well, with operations that this one does not know.
    pub others: Others,
    /// The program has mapped the shadow.
    pub is_given: bool,
    /// Descriptors + 1 of the files in the ring's table; 0: unknown.
    files: [u32; FILES_FOLLOWED],
}

impl Queues {
    /// Maps queues and shadow of a new ring. Returns false if that cannot be.
    pub fn open(&mut self, fd: u64, id: u64, params: &Params) -> bool {
        let (sq, cq) = (&params.sq, &params.cq);
        let usual = params.flags & !SETUP_KNOWN == 0 && params.features & FEAT_SINGLE_MMAP != 0;
        let most = params.sq_entries.max(params.cq_entries);
        if !usual || most > ENTRIES_MAX || params.sq_entries == 0 || params.cq_entries == 0 {
            return false;
        }
        if !params.sq_entries.is_power_of_two() || !params.cq_entries.is_power_of_two() {
            return false;
        }
        let array = if params.flags & SETUP_NO_SQARRAY != 0 { 0 } else { 4 * params.sq_entries };
        self.params = *params;
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
        self.id = id;
        self.files.fill(0);
        (self.submitted, self.completed) = (self.real(sq.head), self.real(cq.head));
        (self.submitting, self.is_copy, self.is_given) = (0, false, false);
        (self.entering, self.is_left) = (0, false);
        self.others = Others::none();
        self.show_flags();
        true
    }

    /// Gives the memory back. The kernel's ring goes with its last descriptor then.
    pub fn close(&mut self) {
        let all =
            [&mut self.real, &mut self.real_entries, &mut self.shadow, &mut self.shadow_entries];
        for memory in all {
            if memory.at != 0 {
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
        self.others.are_there();
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
        self.at(self.shadow, offset).load(Ordering::Acquire)
    }

    /// Shows the program what the kernel has said, and that completions are to be had by entering:
    /// only then they can be captured. Likewise entries are taken only by who is woken.
    fn show_flags(&self) {
        let Params { sq, cq, .. } = &self.params;
        let order = Ordering::Relaxed;
        // A program that has asked for one of the two may do something else if it sees that.
        let asked = self.params.flags & SETUP_TASKRUN_FLAG != 0;
        let enter = if asked { SQ_OVERFLOW } else { SQ_TASKRUN };
        let mut flags = self.real(sq.flags) | enter;
        if self.is_polled() {
            flags |= SQ_NEED_WAKEUP;
            // Never more than the kernel has taken: all that the program puts in then has room in the
            // queue itself, and is copied as soon as it enters.
            self.at(self.shadow, sq.head).store(self.real(sq.head), Ordering::Release);
        }
        self.at(self.shadow, sq.flags).store(flags, order);
        self.at(self.shadow, sq.dropped).store(self.real(sq.dropped), order);
        self.at(self.shadow, cq.overflow).store(self.real(cq.overflow), order);
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
        // SAFETY: the index is below the number of entries; the program may write at the same time,
        // but every value is an entry.
        unsafe { (at as *const Entry).read_volatile() }
    }

    fn set_real_entry(&self, &Next { place, index, ref entry, .. }: &Next) {
        let at = (self.real_entries.at + self.entry_bytes() * u64::from(place)) as *mut Entry;
        // SAFETY: the places are below the number of entries.
        unsafe {
            at.write_volatile(*entry);
            if self.entry_bytes() > ENTRY_BYTES as u64 {
                let rest = (self.entry_at(index) as *const Entry).add(1);
                at.add(1).write_volatile(rest.read_volatile());
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
        self.at(self.shadow, sq.head).store(taken, Ordering::Release);
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
        while self.completed != tail {
            let mut some = [Completion { user_data: 0, result: 0, flags: 0 }; TOGETHER];
            let count = tail.wrapping_sub(self.completed).min(TOGETHER as u32);
            let numbers = (0..count).map(|number| self.completed.wrapping_add(number));
            for (done, number) in some.iter_mut().zip(numbers.clone()) {
                // SAFETY: inside, by the length that was worked out when this was mapped.
                *done = unsafe {
                    ((self.real.at + place(number)) as *const Completion).read_volatile()
                };
            }
            let taken = each(&mut some[..count as usize]).min(count as usize);
            for (done, number) in some.iter().take(taken).zip(numbers) {
                // SAFETY: inside both, likewise.
                unsafe {
                    let from = (self.real.at + place(number)) as *const Completion;
                    let to = (self.shadow.at + place(number)) as *mut Completion;
                    to.write_volatile(*done);
                    if bytes > size_of::<Completion>() as u64 {
                        to.add(1).write_volatile(from.add(1).read_volatile());
                    }
                }
            }
            self.completed = self.completed.wrapping_add(taken as u32);
            if taken < count as usize {
                break;
            }
        }
        self.show_flags();
        let shown = self.at(self.shadow, cq.tail);
        if self.others.is_any() {
            // Another process may have shown more meanwhile.
            let order = Ordering::AcqRel;
            _ = shown.compare_exchange(first, self.completed, order, Ordering::Relaxed);
        } else {
            shown.store(self.completed, Ordering::Release);
        }
        first != self.completed
    }
}

/// Time that a completion of which this process knows nothing is left to others, in ticks: some 20 ms.
const PATIENCE: u64 = 1 << 26;

/// Other processes that have a ring as well: the same queues, and operations of their own.
pub struct Others {
    are_some: bool,
    /// Since when a completion waits for them; 0: none does.
    since: u64,
    /// How long it will. Less, each time that nobody has taken one.
    patience: u64,
}

impl Others {
    const fn none() -> Others {
        Others { are_some: false, since: 0, patience: 0 }
    }

    /// The process was forked, or has forked.
    pub fn are_there(&mut self) {
        *self = Others { are_some: true, since: 0, patience: PATIENCE };
    }

    /// One of them has shown completions.
    fn are_there_still(&mut self) {
        if self.are_some {
            (self.since, self.patience) = (0, PATIENCE);
        }
    }

    pub fn is_any(&self) -> bool {
        self.are_some
    }

    /// Returns true if what is not known is left to them now.
    pub fn are_waited_for(&self, now: u64) -> bool {
        self.are_some && (self.since == 0 || now.wrapping_sub(self.since) < self.patience)
    }

    /// Something was left to them, or is not any more.
    pub fn leave(&mut self, is_left: bool, has_waited: bool, now: u64) {
        if is_left && self.since == 0 {
            self.since = now;
        } else if !is_left && self.since != 0 {
            self.since = 0;
            self.patience /= if has_waited { 2 } else { 1 };
        }
    }
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

impl Ring {
    /// Returns a descriptor, if one is known.
    pub fn some_name(&self) -> Option<u64> {
        let mut names = self.names.iter().map(|name| name.load(Ordering::Acquire));
        names.find(|name| *name != 0).map(|name| u64::from(name) - 1)
    }

    /// Whether it is a ring of this process, and not of one that waits until this one leaves its
    /// memory.
    pub fn is_of(&self, process: u32) -> bool {
        matches!(self.process.load(Ordering::Relaxed), of if of == 0 || of == process)
    }

    pub fn has_name(&self, fd: u64) -> bool {
        let wanted = (fd as u32).wrapping_add(1);
        wanted != 0 && self.names.iter().any(|name| name.load(Ordering::Acquire) == wanted)
    }

    /// Adds a descriptor. If there are too many, one is forgotten.
    pub fn add_name(&self, fd: u64) {
        let free = self.names.iter().find(|name| name.load(Ordering::Relaxed) == 0);
        free.unwrap_or(&self.names[NAMES - 1]).store(fd as u32 + 1, Ordering::Release);
    }

    /// Removes descriptors. Returns true if one was removed and the ring has none left.
    pub fn remove_names(&self, from: u64, to: u64) -> bool {
        let mut removed = false;
        for name in &self.names {
            let fd = u64::from(name.load(Ordering::Relaxed)).checked_sub(1);
            if fd.is_some_and(|fd| from <= fd && fd <= to) {
                name.store(0, Ordering::Release);
                removed = true;
            }
        }
        removed && !self.is_known()
    }

    /// Whether the program can still name it.
    pub fn is_known(&self) -> bool {
        let named = self.names.iter().any(|name| name.load(Ordering::Relaxed) != 0);
        named || self.registered.load(Ordering::Relaxed) != 0
    }
}
