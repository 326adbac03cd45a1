//! A stand-in for the agent: writes streams into a real arena by the same rules.
#![allow(dead_code)] // Every test binary uses a part of it.

pub mod recording;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ring::{Arena, Patience, Writer, arena_bytes, slot_state};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::thread::futex;
use syscalls::record::{Header, RecordKind, Start, StartHow, data_flag};

/// Makes an arena that is never freed.
pub fn arena(pool_chunks: usize) -> Arena {
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: the kernel chooses the address of the new mapping, so that nothing is overwritten.
    let base = unsafe {
        mmap_anonymous(std::ptr::null_mut(), arena_bytes(pool_chunks), protection, flags)
    };
    // SAFETY: the mapping is zeroed, large enough, and never unmapped.
    let arena = unsafe { Arena::at(base.expect("memory for an arena").cast(), pool_chunks) };
    arena.control().pool_chunks.store(pool_chunks as u32, Ordering::Relaxed);
    arena.control().next_thread.store(1, Ordering::Relaxed);
    arena.control().next_process.store(1, Ordering::Relaxed);
    arena
}

/// Reads the time stamp counter.
pub fn tsc() -> u64 {
    // SAFETY: every x86_64 CPU has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Waits for room in a stream.
struct Wait {
    times: u64,
    slept: Duration,
}

impl Patience for Wait {
    fn wake(&mut self, word: &AtomicU32) {
        futex::wake(word, futex::Flags::empty(), 1).expect("a futex in our own memory");
    }

    fn sleep(&mut self, word: &AtomicU32, value: u32) -> bool {
        let timeout = rustix::fs::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let start = Instant::now();
        let _ = futex::wait(word, futex::Flags::empty(), value, Some(&timeout));
        self.times += 1;
        self.slept += start.elapsed();
        true
    }
}

/// Identity of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    pub how: StartHow,
    pub thread: u32,
    pub process: u32,
    pub parent: u32,
    pub pid: u32,
    pub tid: u32,
}

/// Contents of a DATA record.
pub struct Buffer<'a> {
    pub arg: u8,
    pub part: u8,
    pub index: u16,
    pub flags: u8,
    pub true_len: u64,
    pub hash: u128,
    pub stored: &'a [u8],
}

/// The writing side of one stream.
pub struct FakeThread {
    pub arena: Arena,
    pub slot: usize,
    pub who: Who,
    chunk: *mut u8,
    size: usize,
    at: usize,
    position: u64,
    calls: u64,
    /// Number of times that it waited for room.
    pub stalls: u64,
    /// True once it has seen that recording stopped.
    pub silent: bool,
}

// SAFETY: the pointer is into the arena, which is shared by all threads.
unsafe impl Send for FakeThread {}

/// Reserves a slot as the agent of the parent does.
pub fn reserve(arena: Arena, how: StartHow, process: u32, parent: u32, pid: u32) -> (usize, Who) {
    let slot_index = loop {
        match arena.reserve_slot() {
            Some(slot) => break slot,
            None => std::thread::yield_now(),
        }
    };
    let slot = arena.slot(slot_index);
    let thread = arena.control().next_thread.fetch_add(1, Ordering::Relaxed);
    slot.thread.store(thread, Ordering::Relaxed);
    slot.process.store(process, Ordering::Relaxed);
    slot.parent.store(parent, Ordering::Relaxed);
    slot.how.store(how as u32, Ordering::Relaxed);
    (slot_index, Who { how, thread, process, parent, pid, tid: pid })
}

impl FakeThread {
    /// Starts a thread and writes its START record.
    pub fn begin(arena: Arena, how: StartHow, process: u32, parent: u32, pid: u32) -> FakeThread {
        let (slot, who) = reserve(arena, how, process, parent, pid);
        FakeThread::begin_in(arena, slot, who)
    }

    /// Starts the thread for which a slot was reserved, and writes its START record.
    pub fn begin_in(arena: Arena, slot: usize, who: Who) -> FakeThread {
        let mut thread = FakeThread::activate(arena, slot, who);
        let start = Start {
            tsc: tsc(),
            thread: who.thread,
            process: who.process,
            parent: who.parent,
            pid: who.pid,
            tid: who.tid,
        };
        thread.record(Header::new(RecordKind::Start, who.how as u8, 0, 0), &start.to_words());
        thread.ring();
        thread
    }

    /// Starts a thread without writing anything.
    pub fn activate(arena: Arena, slot: usize, who: Who) -> FakeThread {
        let shared = arena.slot(slot);
        shared.pid.store(who.pid, Ordering::Relaxed);
        shared.tid.store(who.tid, Ordering::Relaxed);
        let place = Writer::new(arena, slot).place();
        shared.state.store(slot_state::ACTIVE, Ordering::Release);
        let (chunk, size) = arena.chunk(place.chunk).expect("a home chunk");
        FakeThread {
            arena,
            slot,
            who,
            chunk,
            size,
            at: 0,
            position: 0,
            calls: 0,
            stalls: 0,
            silent: false,
        }
    }

    fn writer(&self) -> Writer {
        Writer::new(self.arena, self.slot)
    }

    /// Rings the recorder's doorbell.
    pub fn ring(&self) {
        self.writer().wake_reader(&mut Wait { times: 0, slept: Duration::ZERO });
    }

    pub fn publish(&mut self) {
        self.arena.slot(self.slot).publish(self.position);
    }

    fn next_chunk(&mut self) {
        self.publish();
        let mut wait = Wait { times: 0, slept: Duration::ZERO };
        let next = self.writer().next_chunk(self.position, &mut wait);
        self.stalls += wait.times;
        let slept = wait.slept.as_nanos() as u64;
        self.arena.slot(self.slot).stall_ns.fetch_add(slept, Ordering::Relaxed);
        let Some(id) = next else {
            self.silent = true;
            return;
        };
        (self.chunk, self.size) = self.arena.chunk(id).expect("a chunk that was queued");
        self.at = 0;
    }

    /// Writes bytes, a multiple of 8, without publishing them.
    pub fn bytes(&mut self, mut bytes: &[u8]) {
        assert!(bytes.len().is_multiple_of(8));
        while !bytes.is_empty() && !self.silent {
            if self.at == self.size {
                self.next_chunk();
                continue;
            }
            let len = bytes.len().min(self.size - self.at);
            // SAFETY: the chunk belongs to this thread and has room for `len` bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.chunk.add(self.at), len);
            }
            self.at += len;
            self.position += len as u64;
            bytes = &bytes[len..];
        }
    }

    fn words(&mut self, words: &[u64]) {
        for word in words {
            self.bytes(&word.to_le_bytes());
        }
    }

    /// Writes and publishes a record.
    pub fn record(&mut self, header: Header, body: &[u64]) {
        self.words(&[header.to_word()]);
        self.words(body);
        if !self.silent {
            self.publish();
        }
    }

    pub fn enter(&mut self, flags: u8, nr: u16, site: u64, args: &[u64]) -> u64 {
        let now = tsc();
        let header = Header::new(RecordKind::Enter, flags, nr, args.len() as u32);
        self.record(header, &[&[now, site], args].concat());
        now
    }

    /// Writes and counts the return of a call.
    pub fn exit(&mut self, ret: i64) -> u64 {
        let now = tsc();
        self.count();
        self.record(Header::new(RecordKind::Exit, 0, 0, 0), &[now, ret as u64]);
        now
    }

    pub fn count(&mut self) {
        if !self.silent {
            self.calls += 1;
            self.arena.slot(self.slot).calls.store(self.calls, Ordering::Relaxed);
        }
    }

    pub fn abandon(&mut self) {
        self.record(Header::new(RecordKind::Abandon, 0, 0, 0), &[]);
    }

    pub fn data(&mut self, buffer: &Buffer<'_>) {
        let c = u32::from(buffer.part) | u32::from(buffer.flags) << 8;
        let header = Header::new(RecordKind::Data, buffer.arg, buffer.index, c);
        self.words(&[header.to_word(), buffer.true_len, buffer.stored.len() as u64]);
        if buffer.flags & data_flag::HASH != 0 {
            self.words(&[buffer.hash as u64, (buffer.hash >> 64) as u64]);
        }
        let whole = buffer.stored.len() & !7;
        self.bytes(&buffer.stored[..whole]);
        if whole != buffer.stored.len() {
            let mut last = [0; 8];
            last[..buffer.stored.len() - whole].copy_from_slice(&buffer.stored[whole..]);
            self.bytes(&last);
        }
        if !self.silent {
            self.publish();
        }
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Writes the END record and marks the slot as ended.
    pub fn end(mut self) {
        let calls = self.calls;
        self.record(Header::new(RecordKind::End, 0, 0, 0), &[tsc(), calls]);
        self.arena.slot(self.slot).end();
        self.ring();
    }
}

/// Waits for a condition that must hold soon.
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..5000 {
        if happened() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("{what} did not happen");
}

/// A small pseudo-random number generator.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(len).collect()
    }
}
