//! From closed blocks to the file: compression by worker threads, writing in the order of closing.
//!
//! ```text
//! writer --submit--> queue (bounded) --> worker: compress --> its turn --> file
//! ```
//!
//! Invariants:
//! - blocks reach the file in the order of submission, whole or not at all: after the first error
//!   nothing more is written;
//! - the queue is bounded: `submit` waits for room.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::compress::{Compress, Compressor, Cost, Haste};
use crate::dedup::DataBlock;
use crate::error::WriteError;
use crate::format::{self, HEAD_BYTES, Head, INDEX_HEADS_MAX, kind};

/// Maximum bytes of payloads in the queue, before compression.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Bytes queued or in work from which compression is hurried. Less is usual when blocks are closed
/// together.
const HASTE_BYTES: usize = 1 << 20;
/// Bytes queued or in work at which the program is about to wait.
const GREAT_HASTE_BYTES: usize = QUEUE_BYTES_MAX / 4;
/// Minimum length of payloads for which the cost of writing is measured.
const MEASURED_BYTES_MIN: usize = 64 << 10;
/// Number of buffers kept for later blocks.
const SPARE_MAX: usize = 16;

/// Content of a block before compression.
pub enum Payload {
    /// Encoded bytes.
    Bytes(Vec<u8>),
    /// Distinct buffers.
    Data(DataBlock),
}

impl Payload {
    fn len(&self) -> usize {
        match self {
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Data(block) => block.payload_bytes(),
        }
    }

    /// The bytes to be compressed.
    fn bytes(&mut self) -> &[u8] {
        match self {
            Payload::Bytes(bytes) => bytes,
            Payload::Data(block) => block.payload(),
        }
    }

    /// Returns the memory for reuse.
    fn into_spare(self) -> Vec<u8> {
        match self {
            Payload::Bytes(bytes) => bytes,
            Payload::Data(block) => block.into_spare(),
        }
    }
}

/// A queued block. Lengths, offset and checksum of its head are filled in later.
struct Job {
    turn: u64,
    head: Head,
    payload: Payload,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    bytes: usize,
    turns: u64,
    closed: bool,
}

impl Queue {
    fn haste(&self) -> Haste {
        if self.bytes > GREAT_HASTE_BYTES {
            Haste::Great
        } else if self.bytes > HASTE_BYTES {
            Haste::Some
        } else {
            Haste::None
        }
    }
}

struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    room: Condvar,
    file: Mutex<File>,
    turn: Condvar,
    spare: Mutex<Vec<Vec<u8>>>,
    bytes_written: AtomicU64,
    /// Copy of `File::writing`.
    writing: AtomicU64,
    /// Bytes of heads that are in no INDEX yet.
    unindexed: AtomicU64,
    /// Disk space is short: compression is worth the time.
    tight: AtomicBool,
    failed: AtomicBool,
}

/// The file and its state.
struct File {
    sink: Box<dyn Write + Send>,
    turn: u64,
    offset: u64,
    blocks: u64,
    heads: Vec<u8>,
    last_index: u64,
    failed: Option<WriteError>,
    held: InFile,
    /// Cost of a byte written here.
    writing: Cost,
}

/// Totals of the blocks in the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct InFile {
    /// Number of events, including calls.
    pub events: u64,
    /// Number of calls.
    pub calls: u64,
    /// Number of distinct buffers.
    pub blobs: u64,
}

impl File {
    /// Writes a block.
    fn put(&mut self, mut head: Head, codec: u8, raw_len: usize, stored: &[u8]) {
        head.codec = codec;
        head.raw_len = raw_len as u32;
        head.stored_len = stored.len() as u32;
        head.offset = self.offset;
        head.payload_crc = crc32fast::hash(stored);
        let bytes = head.to_bytes();
        let began = Instant::now();
        if !self.write(&[&bytes, stored]) {
            return;
        }
        if stored.len() >= MEASURED_BYTES_MIN {
            self.writing.measured(stored.len(), began.elapsed());
        }
        self.blocks += 1;
        match head.kind {
            kind::INDEX | kind::END => return,
            kind::EVENTS => {
                self.held.events += u64::from(head.count);
                self.held.calls += u64::from(head.calls);
            }
            kind::DATA => self.held.blobs += u64::from(head.count),
            _ => {}
        }
        self.heads.extend_from_slice(&bytes);
        if self.heads.len() >= INDEX_HEADS_MAX * HEAD_BYTES {
            self.put_index();
        }
    }

    /// Writes an INDEX of the blocks since the last one.
    fn put_index(&mut self) {
        let heads = std::mem::take(&mut self.heads);
        let count = (heads.len() / HEAD_BYTES) as u32;
        let head = Head { kind: kind::INDEX, first: self.last_index, count, ..Head::default() };
        let offset = self.offset;
        self.put(head, format::codec::NONE, heads.len(), &heads);
        match self.failed {
            None => self.last_index = offset,
            // To be written later, if there is room again.
            Some(_) => self.heads = heads,
        }
    }

    /// Writes all parts, or marks the file as failed.
    fn write(&mut self, parts: &[&[u8]]) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let written = parts
            .iter()
            .try_for_each(|part| self.sink.write_all(part))
            .and_then(|()| self.sink.flush());
        match written {
            Ok(()) => {
                self.offset += parts.iter().map(|part| part.len() as u64).sum::<u64>();
                true
            }
            Err(source) => {
                let source = Arc::new(source);
                self.failed = Some(WriteError::Io { offset: self.offset, source });
                false
            }
        }
    }
}

/// State of the file when all blocks are written.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Offset of the last INDEX.
    pub index_offset: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// Takes closed blocks.
pub struct Pipeline {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Compresses when there are no workers, and helps them at the end.
    own: Compressor,
    /// What helped a worker has panicked.
    broken: bool,
}

impl Pipeline {
    /// Writes the file header and starts the workers.
    pub fn new(
        sink: Box<dyn Write + Send>,
        compress: Compress,
        workers: usize,
    ) -> Result<Pipeline, WriteError> {
        let refused = |source| WriteError::Io { offset: 0, source: Arc::new(source) };
        let mut file = File {
            sink,
            turn: 0,
            offset: 0,
            blocks: 0,
            heads: Vec::new(),
            last_index: 0,
            failed: None,
            held: InFile::default(),
            writing: Cost::default(),
        };
        file.write(&[&format::file_header()]);
        if let Some(error) = file.failed {
            return Err(error);
        }
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            bytes_written: AtomicU64::new(file.offset),
            file: Mutex::new(file),
            turn: Condvar::new(),
            writing: AtomicU64::new(0),
            unindexed: AtomicU64::new(0),
            tight: AtomicBool::new(false),
            spare: Mutex::default(),
            failed: AtomicBool::new(false),
        });
        let own = Compressor::new(compress).map_err(refused)?;
        let mut pipeline = Pipeline { shared, workers: Vec::new(), own, broken: false };
        for _ in 0..workers {
            let compressor = Compressor::new(compress).map_err(refused)?;
            let shared = Arc::clone(&pipeline.shared);
            let worker = std::thread::Builder::new()
                .name("reenact/writer".into())
                .spawn(move || work(&shared, compressor))
                .map_err(|source| WriteError::Thread { source: Arc::new(source) })?;
            pipeline.workers.push(worker);
        }
        Ok(pipeline)
    }

    /// The error that ended the file, if any.
    #[inline]
    pub fn check(&self) -> Result<(), WriteError> {
        if self.shared.failed.load(Ordering::Relaxed) { self.failure() } else { Ok(()) }
    }

    #[cold]
    fn failure(&self) -> Result<(), WriteError> {
        lock(&self.shared.file).failed.clone().map_or(Ok(()), Err)
    }

    /// Queues a block; waits while the queue is full.
    pub fn submit(&mut self, head: Head, payload: Payload) {
        let mut queue = lock(&self.shared.queue);
        if self.shared.failed.load(Ordering::Relaxed) {
            return;
        }
        let turn = queue.turns;
        queue.turns += 1;
        let job = Job { turn, head, payload };
        if self.workers.is_empty() {
            drop(queue);
            self.shared.finish(job, &mut self.own, Haste::None);
            return;
        }
        let bytes = job.payload.len();
        while queue.bytes > 0 && queue.bytes + bytes > QUEUE_BYTES_MAX {
            // Help instead of waiting.
            let Some(ready) = queue.jobs.pop_front() else {
                queue = self.shared.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            self.help(ready, Haste::Great);
            queue = lock(&self.shared.queue);
        }
        queue.bytes += bytes;
        queue.jobs.push_back(job);
        drop(queue);
        self.shared.work.notify_one();
    }

    /// Does a worker's work. If it panics, that is told as it is of a worker: whoever writes goes on.
    fn help(&mut self, job: Job, haste: Haste) {
        let (shared, own) = (&self.shared, &mut self.own);
        let work = || {
            let _watch = Watch(shared);
            shared.finish_queued(job, own, haste);
        };
        self.broken |= catch_unwind(AssertUnwindSafe(work)).is_err();
    }

    /// Returns an empty buffer, a used one if possible: fresh pages are expensive.
    pub fn buffer(&self) -> Vec<u8> {
        lock(&self.shared.spare).pop().unwrap_or_default()
    }

    /// Number of bytes in the file.
    pub fn bytes_written(&self) -> u64 {
        self.shared.bytes_written.load(Ordering::Relaxed)
    }

    /// Number of bytes in the queue.
    pub fn bytes_waiting(&self) -> usize {
        lock(&self.shared.queue).bytes
    }

    /// Bytes of heads that are in no INDEX yet.
    pub fn bytes_unindexed(&self) -> u64 {
        let waiting = lock(&self.shared.queue).jobs.len() * HEAD_BYTES;
        self.shared.unindexed.load(Ordering::Relaxed) + waiting as u64
    }

    /// Waits until all blocks are in the file and writes the last INDEX.
    pub fn drain(&mut self) -> Result<Written, WriteError> {
        // This thread has nothing else to do, so it helps the workers.
        loop {
            let mut queue = lock(&self.shared.queue);
            let Some(job) = queue.jobs.pop_front() else { break };
            let haste = queue.haste();
            drop(queue);
            self.help(job, haste);
        }
        self.stop();
        let mut file = lock(&self.shared.file);
        if !file.heads.is_empty() {
            file.put_index();
        }
        match &file.failed {
            Some(error) => Err(error.clone()),
            None => Ok(Written { index_offset: file.last_index, blocks: file.blocks }),
        }
    }

    /// Writes all queued blocks as small as possible. False if a worker has panicked.
    pub fn settle(&mut self) -> bool {
        self.shared.tight.store(true, Ordering::Relaxed);
        let settled = self.settle_all();
        self.shared.tight.store(false, Ordering::Relaxed);
        settled
    }

    fn settle_all(&mut self) -> bool {
        loop {
            let mut queue = lock(&self.shared.queue);
            let (job, turns) = (queue.jobs.pop_front(), queue.turns);
            drop(queue);
            if let Some(job) = job {
                self.help(job, Haste::None);
            } else if self.broken || self.workers.iter().any(JoinHandle::is_finished) {
                return false;
            } else if lock(&self.shared.file).turn == turns {
                return true;
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// After an I/O error: drops all queued blocks, and returns the totals of those in the file.
    /// More can be written then.
    pub fn recover(&mut self) -> Option<InFile> {
        if !self.settle() {
            return None;
        }
        let mut file = lock(&self.shared.file);
        file.failed = None;
        if file.heads.len() >= INDEX_HEADS_MAX * HEAD_BYTES {
            file.put_index();
        }
        self.shared.failed.store(file.failed.is_some(), Ordering::Relaxed);
        Some(file.held)
    }

    /// After `drain`: writes END and the trailer. Returns the length of the file.
    pub fn end(&mut self, payload: &[u8]) -> Result<u64, WriteError> {
        let mut file = lock(&self.shared.file);
        let trailer = format::trailer(file.offset);
        let head = Head { kind: kind::END, ..Head::default() };
        file.put(head, format::codec::NONE, payload.len(), payload);
        file.write(&[&trailer]);
        match &file.failed {
            Some(error) => Err(error.clone()),
            None => Ok(file.offset),
        }
    }

    fn stop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has marked the file as failed.
            let _ = worker.join();
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Finishes a block from the queue. It is counted as queued until then, since a block in work
    /// takes memory as well.
    fn finish_queued(&self, job: Job, compressor: &mut Compressor, haste: Haste) {
        let bytes = job.payload.len();
        self.finish(job, compressor, haste);
        let mut queue = lock(&self.queue);
        queue.bytes = queue.bytes.saturating_sub(bytes);
        drop(queue);
        self.room.notify_one();
    }

    /// Compresses a block, waits for its turn and writes it.
    fn finish(&self, job: Job, compressor: &mut Compressor, mut haste: Haste) {
        if self.tight.load(Ordering::Relaxed) {
            compressor.take_time();
            haste = Haste::None;
        }
        let Job { turn, head, mut payload } = job;
        let raw = payload.bytes();
        let writing = Cost(self.writing.load(Ordering::Relaxed));
        let (codec, stored) = compressor.compress(raw, haste, writing);
        let mut file = lock(&self.file);
        while file.turn != turn && file.failed.is_none() {
            file = self.turn.wait(file).unwrap_or_else(PoisonError::into_inner);
        }
        file.put(head, codec, raw.len(), stored);
        file.turn += 1;
        self.bytes_written.store(file.offset, Ordering::Relaxed);
        self.writing.store(file.writing.0, Ordering::Relaxed);
        self.unindexed.store(file.heads.len() as u64, Ordering::Relaxed);
        self.failed.store(file.failed.is_some(), Ordering::Relaxed);
        drop(file);
        self.turn.notify_all();
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE_MAX {
            spare.push(payload.into_spare());
        }
    }
}

/// Held by who does a worker's work: if it panics, the file is marked as failed, so that no thread waits for ever.
struct Watch<'a>(&'a Shared);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut file = lock(&self.0.file);
            let (offset, source) = (file.offset, Arc::new(io::Error::other("its writer panicked")));
            file.failed.get_or_insert(WriteError::Io { offset, source });
            drop(file);
            self.0.failed.store(true, Ordering::Relaxed);
            self.0.turn.notify_all();
            lock(&self.0.queue).bytes = 0;
            self.0.room.notify_all();
        }
    }
}

fn work(shared: &Shared, mut compressor: Compressor) {
    let _watch = Watch(shared);
    loop {
        let mut queue = lock(&shared.queue);
        let job = loop {
            if let Some(job) = queue.jobs.pop_front() {
                break job;
            }
            if queue.closed {
                return;
            }
            queue = shared.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        let haste = queue.haste();
        drop(queue);
        shared.finish_queued(job, &mut compressor, haste);
    }
}

/// Data are usable after a panic elsewhere, since every change is complete before it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
