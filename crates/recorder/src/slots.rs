//! The slots of all arenas: reads each thread's stream, and frees slots and chunks.

mod births;
mod news;

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ring::{Arena, POOL_BYTES, QUEUE, Reader, SLOTS, Slot, slot_state};
use syscalls::record::{GapWhy, Start};
use trace::event::{EventKind, RECORDER};

use crate::host;
use crate::ingest::Stream;
use crate::mailbox::wake;
use crate::numbers::Numbers;
use crate::output::Output;
use crate::pace::Courtesy;
pub(crate) use news::{Birth, News};

/// Maximum unread bytes of a stream; with more, its counters were overwritten.
const UNREAD_MAX: u64 = ((QUEUE + 1) * POOL_BYTES) as u64;
/// Unread bytes from which a slot is read at once.
const URGENT_BYTES: u64 = 256 << 10;

/// Size of the records of the shortest call.
const CALL_BYTES_MIN: u64 = 48;
/// Bytes that are read before others may go first.
const PIECE_BYTES: usize = 8 << 10;
/// How often slots are read in turn, in a round, because completions in one wait for submissions in
/// another.
const PATIENCE_MAX: usize = 1024;
/// How long a completion waits for its submission.
const SUBMISSION_WAIT: Duration = Duration::from_millis(500);
/// Bytes read in the order of time before other work has its turn.
const ORDERED_BYTES: u64 = 4 << 20;

/// How far a slot is read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Bound {
    /// Up to this position of its stream ...
    position: u64,
    /// ... and no record later than this.
    tsc: u64,
}

impl Bound {
    const NONE: Bound = Bound { position: u64::MAX, tsc: u64::MAX };
}

/// A thread that uses a slot.
struct Thread {
    reader: Reader,
    /// Bytes read from slots that it used before.
    read_before: u64,
    stream: Stream,
    /// Its records make no sense: they are read and discarded.
    broken: bool,
    /// Even the chunk positions make no sense: nothing is read.
    adrift: bool,
    /// Time stamp of its death, if it was killed.
    killed: Option<u64>,
    /// Time stamp of the last IMAGE that was reported.
    image_told: u64,
    start_told: bool,
    /// Number of bytes published before the other slots were looked at.
    seen: u64,
    /// Since when it stands at a completion whose submission was not read, and where that is.
    waits: Option<(Instant, u64)>,
}

/// Totals over all threads.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    /// Calls counted by agents, plus those open when their thread ended.
    pub calls_made: u64,
    /// Calls read.
    pub calls_read: u64,
    /// Calls made and not read.
    pub calls_missed: u64,
    /// Bytes published by agents.
    pub bytes_published: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Time that threads waited for room.
    pub stall_ns: u64,
    /// Number of threads.
    pub threads: u32,
}

/// All slots. Those of the second arena follow those of the first, and so on.
pub(crate) struct Slots {
    arenas: Vec<Arena>,
    /// The allowed numbers of each arena.
    numbers: Vec<Rc<Numbers>>,
    threads: Vec<Option<Box<Thread>>>,
    /// Slots whose threads moved away. They read an answer there, then set the state to ENDED.
    left: HashSet<usize>,
    /// Totals over the threads that are gone.
    counts: Counts,
    /// The last round stopped before everything was read.
    behind: bool,
    /// Completions wait for submissions in other slots.
    patient: bool,
    courtesy: Courtesy,
}

impl Slots {
    pub fn new(arena: Arena) -> Slots {
        let mut slots = Slots {
            arenas: vec![],
            numbers: vec![],
            threads: vec![],
            left: HashSet::new(),
            counts: Counts::default(),
            behind: false,
            patient: false,
            courtesy: Courtesy::default(),
        };
        slots.add(arena, rustix::process::geteuid().as_raw());
        slots
    }

    /// Adds an arena, which is owned by `user`.
    pub fn add(&mut self, arena: Arena, user: u32) {
        self.numbers.push(Rc::new(Numbers::of(self.arenas.len(), user)));
        self.arenas.push(arena);
        self.threads.resize_with(self.arenas.len() * SLOTS, || None);
    }

    /// All arenas.
    pub fn arenas(&self) -> &[Arena] {
        &self.arenas
    }

    /// Number of threads that found their slot taken from them when they started.
    pub fn disowned(&self) -> u64 {
        let of = |arena: &Arena| arena.control().disowned.load(Ordering::Relaxed);
        self.arenas.iter().map(|arena| u64::from(of(arena))).sum()
    }

    fn arena(&self, index: usize) -> Arena {
        self.arenas[index / SLOTS]
    }

    /// Indices of the slots in use.
    pub fn in_use(&self) -> Vec<usize> {
        let mut found = Vec::new();
        self.each_in_use(|index| {
            found.push(index);
            false
        });
        found
    }

    fn each_in_use(&self, mut found: impl FnMut(usize) -> bool) -> bool {
        let mut arenas = self.arenas.iter().enumerate();
        arenas.any(|(n, arena)| each_in_use(arena, |index| found(n * SLOTS + index)))
    }

    /// Reads all slots once; returns the number of bytes.
    pub fn round(&mut self, out: &mut Output, news: &mut Vec<News>) -> u64 {
        self.begin_round();
        if out.policy.is_some() {
            return self.round_in_order(out, news);
        }
        let mut bytes = 0;
        let in_use = self.in_use();
        for &index in &in_use {
            bytes += self.read_patiently(index, out, news);
        }
        if self.wait(&in_use) {
            bytes += self.read_what_waits(out, news);
        }
        // Another thread may wait for chunks that reading one has freed.
        for &index in &in_use {
            wake_if_waiting(self.shared(index));
        }
        bytes
    }

    fn begin_round(&mut self) {
        let mut unread = 0u64;
        self.each_in_use(|index| {
            // A program may have written anything there.
            unread = unread.saturating_add(self.unread(index));
            false
        });
        let room = |arena: &Arena| (arena.pool_chunks() * POOL_BYTES) as u64;
        self.courtesy.begin(unread, self.arenas.iter().map(room).sum());
    }

    /// Bytes of a slot that can be read.
    fn unread(&self, index: usize) -> u64 {
        match &self.threads[index] {
            None => self.shared(index).published.load(Ordering::Acquire),
            Some(thread) if thread.adrift => 0,
            Some(thread) => thread.reader.unread(&self.arena(index)),
        }
    }

    /// Whether a slot stands at a completion whose submission was not read yet.
    fn wait(&self, in_use: &[usize]) -> bool {
        let waits = |index: &usize| {
            self.threads[*index].as_ref().is_some_and(|thread| thread.stream.next_tsc().is_some())
        };
        in_use.iter().any(waits)
    }

    /// Reads on where slots wait for each other.
    fn read_what_waits(&mut self, out: &mut Output, news: &mut Vec<News>) -> u64 {
        let mut bytes = 0;
        for _ in 0..PATIENCE_MAX {
            // Threads may have begun since the round has.
            let in_use = self.in_use();
            let more: u64 = in_use.iter().map(|&index| self.read_patiently(index, out, news)).sum();
            bytes += more;
            if !self.wait(&in_use) {
                break;
            }
            if more == 0 {
                let mut late = in_use;
                late.retain(|&index| self.has_waited(index));
                bytes += late.iter().map(|&index| self.read(index, out, news)).sum::<u64>();
                break;
            }
        }
        bytes
    }

    /// Whether a slot stands at the same completion for long: there is no submission of it. Those to a
    /// ring that the kernel polls may be published after it.
    fn has_waited(&mut self, index: usize) -> bool {
        let Some(thread) = &mut self.threads[index] else { return false };
        let at = thread.reader.consumed();
        let (since, position) = *thread.waits.get_or_insert((Instant::now(), at));
        if thread.stream.next_tsc().is_none() || position != at {
            thread.waits = None;
            return false;
        }
        since.elapsed() >= SUBMISSION_WAIT
    }

    /// Reads a slot up to a completion whose submission was not read yet.
    fn read_patiently(&mut self, index: usize, out: &mut Output, news: &mut Vec<News>) -> u64 {
        self.patient = true;
        let bytes = self.read(index, out, news);
        self.patient = false;
        bytes
    }

    /// Reads the records of all slots in the order of time.
    ///
    /// Whatever led to a record was published before it: calls are announced before they are made,
    /// and their results before the program sees them. So a slot is read up to its published count
    /// before the others were looked at, as long as no other slot has an earlier record.
    fn round_in_order(&mut self, out: &mut Output, news: &mut Vec<News>) -> u64 {
        let mut bytes = 0;
        self.behind = false;
        loop {
            for index in 0..self.threads.len() {
                let published = &self.shared(index).published;
                if let Some(thread) = &mut self.threads[index] {
                    thread.seen = published.load(Ordering::Acquire);
                }
            }
            // Slot and time of the earliest record, and the time of the next one.
            let mut earliest: Option<(u64, usize)> = None;
            let mut next = u64::MAX;
            for index in self.in_use() {
                let waiting = |slots: &Slots| {
                    let thread = slots.threads[index].as_ref()?;
                    thread.stream.next_tsc().filter(|_| !thread.broken)
                };
                if waiting(self).is_none() {
                    let to_first = Bound { position: u64::MAX, tsc: 0 };
                    bytes += self.read_up_to(index, to_first, out, news);
                }
                let Some(tsc) = waiting(self) else { continue };
                match earliest {
                    Some((best, _)) if best <= tsc => next = next.min(tsc),
                    _ => next = earliest.replace((tsc, index)).map_or(next, |(best, _)| best),
                }
            }
            let Some((_, index)) = earliest else { break };
            let seen = self.threads[index].as_ref().map_or(0, |thread| thread.seen);
            bytes += self.read_up_to(index, Bound { position: seen, tsc: next }, out, news);
            if bytes >= ORDERED_BYTES {
                self.behind = true;
                break;
            }
        }
        for index in self.in_use() {
            wake_if_waiting(self.shared(index));
        }
        bytes
    }

    /// Whether a dead process's records were all read: reading in order may have left some.
    pub fn is_read(&self, process: u32) -> bool {
        !self.behind
            || !self.each_in_use(|index| {
                self.process(index) == process
                    && self.threads[index].as_ref().is_some_and(|thread| {
                        !thread.adrift && thread.reader.unread(&self.arena(index)) != 0
                    })
            })
    }

    /// Whether a slot is in a state for which its agent would ring the bell.
    pub fn urgent(&self) -> bool {
        self.each_in_use(|index| {
            let slot = self.shared(index);
            if self.left.contains(&index) {
                return slot.state.load(Ordering::Acquire) == slot_state::ENDED;
            }
            let unread = self.unread(index);
            unread >= URGENT_BYTES
                || slot.consumed.waiting.load(Ordering::SeqCst) != 0
                || slot.state.load(Ordering::Acquire) == slot_state::ENDED
                || (self.threads[index].is_none() && unread != 0)
        })
    }

    /// Reads what a slot's thread has published, and closes the thread if it has ended.
    fn read(&mut self, index: usize, out: &mut Output, news: &mut Vec<News>) -> u64 {
        self.read_up_to(index, Bound::NONE, out, news)
    }

    fn read_up_to(
        &mut self,
        index: usize,
        bound: Bound,
        out: &mut Output,
        news: &mut Vec<News>,
    ) -> u64 {
        let arena = self.arena(index);
        let slot = self.shared(index);
        // Read before the published count: all that an ended thread has published is then included.
        let state = slot.state.load(Ordering::Acquire);
        match state {
            slot_state::ENDED if self.left.contains(&index) => {
                self.free(index);
                return 0;
            }
            slot_state::ACTIVE if self.left.contains(&index) => return 0,
            slot_state::FREE => {
                self.left.remove(&index);
                self.forget(index);
                return 0;
            }
            slot_state::ACTIVE | slot_state::ENDED => {}
            _ => return 0,
        }
        let thread = self.threads[index].get_or_insert_with(|| {
            Box::new(Thread {
                reader: Reader::new(index % SLOTS),
                read_before: 0,
                stream: Stream::of(&self.numbers[index / SLOTS]),
                broken: false,
                adrift: false,
                killed: None,
                image_told: 0,
                start_told: false,
                seen: 0,
                waits: None,
            })
        });
        thread.stream.patient = self.patient;
        let unread = thread.reader.unread(&arena);
        let wanted = unread.min(bound.position.saturating_sub(thread.reader.consumed()));
        let mut left = wanted;
        if let Some(policy) = &mut out.policy {
            thread.stream.read_until(bound.tsc);
            policy.careful = bound == Bound::NONE;
        }
        if unread > UNREAD_MAX && !thread.adrift {
            thread.adrift = true;
            thread.give_up("more bytes than a ring has", out);
        }
        if unread == 0 && thread.stream.next_tsc().is_some() && !thread.broken {
            thread.adrift = true;
            thread.give_up("fewer bytes than before", out);
        }
        while left != 0 && !thread.adrift {
            let bytes = thread.reader.peek(&arena);
            let bytes = &bytes[..bytes.len().min(left as usize)];
            if bytes.is_empty() {
                thread.adrift = true;
                thread.give_up("a chunk that is none", out);
                break;
            }
            let read = thread.feed(bytes, out, &mut self.courtesy);
            let whole = read == bytes.len();
            left -= read as u64;
            thread.reader.advance(&arena, read);
            wake_if_waiting(slot);
            if !whole {
                break;
            }
        }
        if thread.adrift {
            // The thread must not wait for a reader that has given up.
            slot.consumed.bytes.store(slot.published.load(Ordering::Acquire), Ordering::Release);
            wake_if_waiting(slot);
        }
        if let (Some((_, start)), false) = (thread.stream.start(), thread.start_told) {
            thread.start_told = true;
            self.counts.threads += 1;
            let foreign = slot.foreign_pid.load(Ordering::Relaxed) != 0;
            let told = slot.pid_seen.load(Ordering::Acquire);
            news.push(News::Started(Birth { start, foreign, told }));
        }
        let image = thread.stream.last_image().filter(|&tsc| tsc != thread.image_told);
        if let (Some(tsc), Some((_, Start { process, .. }))) = (image, thread.stream.start()) {
            thread.image_told = tsc;
            news.push(News::Image { slot: index, process, tsc });
        }
        // An ended thread publishes no more, so everything was read.
        if state == slot_state::ENDED && (thread.adrift || wanted - left == unread) {
            self.take_leave(index, out, news);
        }
        if unread > UNREAD_MAX { 0 } else { wanted - left }
    }

    /// The START of the thread in a slot.
    fn start(&self, index: usize) -> Option<Start> {
        self.threads[index].as_ref()?.stream.start().map(|(_, start)| start)
    }

    /// The process of the thread in a slot; 0 if unknown.
    pub fn process(&self, index: usize) -> u32 {
        match self.start(index) {
            Some(start) => start.process,
            None => self.shared(index).process.load(Ordering::Relaxed),
        }
    }

    /// The number of the thread in a slot, if it has said it.
    pub fn thread(&self, index: usize) -> Option<u32> {
        self.start(index).map(|start| start.thread)
    }

    /// The slot in shared memory.
    pub fn shared(&self, index: usize) -> &'static Slot {
        self.arena(index).slot(index % SLOTS)
    }

    /// The process of a thread that uses a slot.
    pub fn process_of(&self, thread: u32) -> Option<u32> {
        let starts = self.threads.iter().flatten().filter_map(|thread| thread.stream.start());
        starts.map(|(_, start)| start).find(|start| start.thread == thread).map(|s| s.process)
    }

    /// Whether a thread of a process has a slot.
    pub fn has(&self, process: u32) -> bool {
        self.each_in_use(|index| self.process(index) == process)
    }

    /// Reads all that a stopped thread has published, and what it waits for before.
    pub fn read_rest(&mut self, index: usize, out: &mut Output, news: &mut Vec<News>) {
        self.round(out, news);
        self.read(index, out, news);
    }

    /// Moves a thread, all of whose records are read, to another slot. If it is gone, frees that slot
    /// and returns false.
    pub fn move_thread(&mut self, from: usize, to: usize) -> bool {
        if from >= self.threads.len() || to >= self.threads.len() {
            return false;
        }
        let is_moved = self.change_slot(from, to);
        if !is_moved && self.shared(to).state.load(Ordering::Acquire) == slot_state::MOVING {
            self.free(to);
        }
        is_moved
    }

    fn change_slot(&mut self, from: usize, to: usize) -> bool {
        let number = self.shared(to).thread.load(Ordering::Relaxed);
        // The launched program moves before it has written a record.
        let state = self.shared(from).state.load(Ordering::Acquire);
        if self.threads[from].is_none() && state == slot_state::RESERVED {
            let process = self.shared(to).process.load(Ordering::Relaxed);
            self.numbers[to / SLOTS].admit_launched(process, number);
            self.free(from);
            self.shared(to).state.store(state, Ordering::Release);
            return true;
        }
        let same = |thread: &mut Box<Thread>| thread.stream.thread() == number;
        let Some(mut thread) = self.threads[from].take_if(same) else { return false };
        thread.read_before = thread.read_before.saturating_add(thread.reader.consumed());
        thread.reader = Reader::new(to % SLOTS);
        thread.stream.user = self.numbers[to / SLOTS].user;
        if let Some((_, start)) = thread.stream.start() {
            let in_use = self.in_use();
            let runs = |process| in_use.iter().any(|&index| self.process(index) == process);
            self.numbers[to / SLOTS].admit(start.process, runs);
        }
        self.threads[to] = Some(thread);
        self.left.insert(from);
        self.shared(to).state.store(state, Ordering::Release);
        true
    }

    /// Reads what a killed thread has left, after what led to it, and closes it.
    pub fn killed(&mut self, index: usize, tsc: u64, out: &mut Output, news: &mut Vec<News>) {
        if let Some(thread) = &mut self.threads[index] {
            thread.killed = Some(tsc);
        }
        let slot = self.shared(index);
        match slot.state.load(Ordering::Acquire) {
            slot_state::FREE | slot_state::MOVING => return,
            slot_state::RESERVED => return self.free(index),
            _ => slot.end(),
        }
        self.read(index, out, news);
    }

    /// Reads a last time and closes all threads. Returns the totals.
    pub fn close(mut self, out: &mut Output) -> Counts {
        // What led to what is left may be in another slot.
        loop {
            self.round(out, &mut Vec::new());
            if !self.behind {
                break;
            }
        }
        for index in self.in_use() {
            // Taken before reading: later calls are not part of the recording.
            let counted = self.shared(index).calls.load(Ordering::Acquire);
            self.read(index, out, &mut Vec::new());
            if let Some(thread) = self.threads[index].take() {
                self.count(index, thread, (counted, Some(host::tsc())), out);
            }
        }
        self.counts
    }

    fn take_leave(&mut self, index: usize, out: &mut Output, news: &mut Vec<News>) {
        let Some(thread) = self.threads[index].take() else { return };
        let number = thread.stream.thread();
        let said_so = thread.stream.has_ended();
        let broken = thread.broken || thread.adrift;
        let process = thread.stream.start().map(|(_, start)| start.process);
        let has_gaps = thread.stream.leaves_a_gap();
        if let Some(process) = process {
            news.push(News::Ended { process, accounted: said_so || broken || has_gaps });
        }
        let ended = thread.killed.unwrap_or_else(host::tsc);
        let counted = self.shared(index).calls.load(Ordering::Relaxed);
        let others = process.is_some_and(|process| {
            self.each_in_use(|other| other != index && self.process(other) == process)
        });
        let gives_up = Some(ended).filter(|_| !others && !said_so);
        let calls = self.count(index, thread, (counted, gives_up), out);
        if number != RECORDER {
            if !said_so {
                out.event(number, ended, EventKind::End { calls });
            }
            out.flush_thread(number);
        }
        self.free(index);
    }

    /// Adds a thread to the totals, given its agent's count of calls, and when operations of its
    /// process are given up, if they are. Returns the calls made.
    fn count(
        &mut self,
        index: usize,
        mut thread: Box<Thread>,
        (counted, gives_up): (u64, Option<u64>),
        out: &mut Output,
    ) -> u64 {
        let slot = self.shared(index);
        let live = slot.state.load(Ordering::Relaxed) != slot_state::ENDED;
        let open = thread.stream.has_open_call();
        // A record cut off by a kill belongs to a call that had not returned: the call is in the
        // trace as unfinished.
        thread.stream.close(out);
        if let Some(tsc) = gives_up {
            thread.stream.give_up_operations(tsc, out);
        }
        let counted = counted.saturating_add(thread.stream.given_up());
        let read = thread.stream.calls();
        let before = thread.read_before;
        let consumed = before.saturating_add(thread.reader.consumed());
        // The slot's words may have been overwritten: impossible values are capped.
        let published_most = consumed.saturating_add(UNREAD_MAX);
        let counted = counted.min(read.saturating_add(published_most / CALL_BYTES_MIN));
        // Agents count a call when it returns; an open one is known from its ENTER.
        let made = if open || live { counted.max(read) } else { counted };
        // What nobody wants was made and read, but the trace and its totals know nothing of it.
        let left_out = thread.stream.left_out();
        let (made, read) = (made.saturating_sub(left_out), read.saturating_sub(left_out));
        let sums = &mut self.counts;
        sums.calls_made = sums.calls_made.saturating_add(made);
        sums.calls_read = sums.calls_read.saturating_add(read);
        sums.calls_missed = sums.calls_missed.saturating_add(made.saturating_sub(read));
        let published = if live {
            consumed
        } else {
            before.saturating_add(slot.published.load(Ordering::Relaxed)).min(published_most)
        };
        sums.bytes_published = sums.bytes_published.saturating_add(published);
        sums.bytes_read = sums.bytes_read.saturating_add(consumed);
        let began = thread.stream.start().map_or(u64::MAX, |(_, start)| start.tsc);
        // TSC ticks are shorter than a nanosecond, so the age in ticks is a bound.
        let stalled = slot.stall_ns.load(Ordering::Relaxed).min(host::tsc().saturating_sub(began));
        sums.stall_ns = sums.stall_ns.saturating_add(stalled);
        made
    }

    /// Frees a slot and the chunks that its thread held.
    fn free(&mut self, index: usize) {
        self.threads[index] = None;
        self.left.remove(&index);
        self.arena(index).free_slot(index % SLOTS);
    }

    /// Stops looking at a slot that was freed by the thread that had reserved it.
    fn forget(&mut self, index: usize) {
        self.threads[index] = None;
        self.arena(index).look_away(index % SLOTS);
    }
}

impl Thread {
    /// Reads records, and lets others go first in between. Returns how many bytes, as the rest may have to
    /// wait.
    fn feed(&mut self, bytes: &[u8], out: &mut Output, courtesy: &mut Courtesy) -> usize {
        let mut read = 0;
        for piece in bytes.chunks(PIECE_BYTES) {
            if self.broken {
                return bytes.len();
            }
            let fed = match self.stream.feed(piece, out) {
                Ok(fed) => fed,
                Err(bad) => {
                    self.give_up(&format!("{} ({:#x})", bad.what, bad.word), out);
                    return bytes.len();
                }
            };
            read += fed;
            if fed != piece.len() {
                break;
            }
            courtesy.after_you();
        }
        read
    }

    #[cold]
    fn give_up(&mut self, what: &str, out: &mut Output) {
        if std::mem::replace(&mut self.broken, true) {
            return;
        }
        let (thread, at) = (self.stream.thread(), self.reader.consumed());
        self.stream.close(out);
        let text = format!(
            "the ring of thread {thread} holds what no agent writes, near byte {at}: {what}. The \
             program may have written over it; the thread is not recorded from here on"
        );
        let kind = EventKind::Gap { why: GapWhy::RecorderLost, detail: at, text };
        // A thread has no events after its END.
        let stream = if self.stream.has_ended() { RECORDER } else { thread };
        out.event(stream, host::tsc(), kind);
    }
}

/// Calls `found` with each slot in use until that returns true. Returns whether it did.
pub(crate) fn each_in_use(arena: &Arena, mut found: impl FnMut(usize) -> bool) -> bool {
    for (at, word) in arena.control().slot_bits.iter().enumerate() {
        let mut bits = word.load(Ordering::Acquire);
        while bits != 0 {
            if found(at * 64 + bits.trailing_zeros() as usize) {
                return true;
            }
            bits &= bits - 1;
        }
    }
    false
}

/// Wakes the slot's thread if it waits for room.
pub(crate) fn wake_if_waiting(slot: &Slot) {
    if slot.room_is_awaited() {
        wake(&slot.consumed.room);
    }
}

#[cfg(test)]
mod tests;
