//! Writes traces.
//!
//! Every thread has a block under construction. It is closed when it is full, when its place is
//! needed, or when the recorder flushes; closed blocks go to the pipeline.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use crate::borrowed::CallRef;
use crate::compress::Compress;
use crate::dedup::Dedup;
use crate::described::{self, Counted};
use crate::encode::{Encoder, Store};
use crate::error::WriteError;
use crate::event::{BLOB_BYTES_MAX, BlobId, CPU_STREAM, Event, EventKind, Preamble, Totals};
use crate::format::{HEAD_BYTES, Head, PAYLOAD_BYTES_MAX, kind};
use crate::kernel::KernelRef;
use crate::pipeline::{Payload, Pipeline};
use crate::wire::put;

/// Default number of distinct buffers remembered to find repetitions: 48 MiB.
pub const REMEMBERED_DEFAULT: usize = 2 << 20;
/// An EVENTS block is closed when it holds this many bytes ...
const BLOCK_BYTES: usize = 256 << 10;
/// ... or fewer if there are many threads, since readers hold one block of each.
const BLOCK_BYTES_MIN: usize = 16 << 10;
/// Memory that all open blocks share.
const OPEN_BYTES: usize = 64 << 20;
/// Maximum number of open blocks.
const OPEN_BLOCKS_MAX: usize = 1024;
/// Memory limit for closed blocks that wait for the buffers they refer to.
const WAITING_BYTES: usize = 4 << 20;

/// Options of a writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriterOptions {
    /// Compression.
    pub compress: Compress,
    /// Approximate number of distinct buffers remembered to find repetitions, at 24 bytes each.
    pub remembered: usize,
    /// Threads that compress and write; 0 for the calling thread.
    pub workers: usize,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        let compress = Compress::default();
        WriterOptions { compress, remembered: REMEMBERED_DEFAULT, workers: 1 }
    }
}

/// Totals of a finished trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Finished {
    /// Bytes of the trace.
    pub trace_bytes: u64,
    /// Number of calls.
    pub calls: u64,
    /// Number of events of all kinds, including calls.
    pub events: u64,
    /// Number of distinct buffers.
    pub blobs: u64,
    /// Bytes of distinct buffers, before compression.
    pub stored_bytes: u64,
}

/// Writes a trace, append-only.
///
/// After an I/O error, every method returns that error and nothing more is written until `recover`.
/// The file remains a valid beginning of a trace.
pub struct Writer {
    out: Out,
    /// All threads but the current one. Those that ended are removed with their last block.
    threads: HashMap<u32, Box<Stream>>,
    current: Option<Box<Stream>>,
    open_blocks: usize,
    uses: u64,
    calls: u64,
    events: u64,
    /// Number of distinct buffers in the file, if some were lost.
    blobs_left: Option<u64>,
}

/// Destination of closed blocks and buffers.
struct Out {
    pipeline: Pipeline,
    dedup: Dedup,
    /// EVENTS blocks that refer to buffers of the open DATA block, and all blocks closed since.
    waiting: Vec<(Head, Vec<u8>)>,
    waiting_bytes: usize,
}

struct Stream {
    thread: u32,
    events: u64,
    calls: u64,
    ended: bool,
    used: u64,
    open: Option<Box<Encoder>>,
}

impl Writer {
    /// Starts a trace: header and preamble are written at once. Worker threads inherit the caller's
    /// signal mask.
    pub fn new(
        sink: Box<dyn Write + Send>,
        preamble: &Preamble,
        options: WriterOptions,
    ) -> Result<Writer, WriteError> {
        let mut payload = Vec::new();
        put(&mut payload, |fields| described::preamble(fields, &mut preamble.clone()));
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(WriteError::Limit {
                what: "the preamble's size in bytes",
                found: payload.len() as u64,
                max: PAYLOAD_BYTES_MAX as u64,
            });
        }
        let dedup = Dedup::new(options.remembered)
            .map_err(|source| WriteError::Io { offset: 0, source: Arc::new(source) })?;
        let mut pipeline = Pipeline::new(sink, options.compress, options.workers)?;
        let head = Head { kind: kind::PREAMBLE, ..Head::default() };
        pipeline.submit(head, Payload::Bytes(payload));
        Ok(Writer {
            out: Out { pipeline, dedup, waiting: Vec::new(), waiting_bytes: 0 },
            threads: HashMap::new(),
            current: None,
            open_blocks: 0,
            uses: 0,
            calls: 0,
            events: 0,
            blobs_left: None,
        })
    }

    /// Adds an event of any thread. A thread has no events after its end.
    pub fn event(&mut self, event: &Event) -> Result<(), WriteError> {
        let is_call = matches!(event.kind, EventKind::Call(_));
        let ends = matches!(event.kind, EventKind::End { .. });
        self.add(event.thread, is_call, ends, |open, out| open.event(event, out))
    }

    /// Adds a call without allocating.
    #[inline]
    pub fn call(&mut self, thread: u32, tsc: u64, call: &CallRef<'_>) -> Result<(), WriteError> {
        self.add(thread, true, false, |open, out| open.call(tsc, call, out))
    }

    /// Adds an event of the kernel to a stream of a CPU.
    #[inline]
    pub fn kernel(&mut self, cpu: u32, tsc: u64, event: &KernelRef<'_>) -> Result<(), WriteError> {
        self.add(CPU_STREAM | cpu, false, false, |open, _| open.kernel(tsc, event))
    }

    #[inline]
    fn add(
        &mut self,
        thread: u32,
        is_call: bool,
        ends: bool,
        encode: impl FnOnce(&mut Encoder, &mut Out) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        self.out.pipeline.check()?;
        if self.current.as_ref().is_none_or(|stream| stream.thread != thread) {
            self.select(thread);
        }
        let Some(stream) = &mut self.current else { return Ok(()) };
        let open = match &mut stream.open {
            Some(open) => open,
            closed => {
                self.open_blocks += 1;
                closed.insert(Box::new(Encoder::new(self.out.pipeline.buffer())))
            }
        };
        let encoded = encode(open, &mut self.out);
        if encoded.is_ok() {
            self.events += 1;
            self.calls += u64::from(is_call);
            stream.ended |= ends;
        }
        if open.is_full(block_bytes(self.open_blocks)) {
            self.open_blocks -= 1;
            stream.close(&mut self.out);
        }
        encoded
    }

    /// Makes a thread the current one, and makes room for its block.
    #[cold]
    fn select(&mut self, thread: u32) {
        self.uses += 1;
        if let Some(mut stream) = self.current.take() {
            stream.used = self.uses;
            self.keep(stream);
        }
        if self.open_blocks >= OPEN_BLOCKS_MAX {
            let open = self.threads.values().filter(|stream| stream.open.is_some());
            if let Some(oldest) = open.min_by_key(|stream| stream.used).map(|stream| stream.thread)
            {
                self.close(oldest);
            }
        }
        self.current = Some(self.threads.remove(&thread).unwrap_or_else(|| {
            Box::new(Stream { thread, events: 0, calls: 0, ended: false, used: 0, open: None })
        }));
    }

    /// Puts a stream back, unless its thread has ended and has no open block.
    fn keep(&mut self, stream: Box<Stream>) {
        if stream.open.is_some() || !stream.ended {
            self.threads.insert(stream.thread, stream);
        }
    }

    /// Closes the block of a thread that is not the current one.
    fn close(&mut self, thread: u32) {
        if let Some(mut stream) = self.threads.remove(&thread) {
            if stream.open.is_some() {
                self.open_blocks -= 1;
                stream.close(&mut self.out);
            }
            self.keep(stream);
        }
    }

    /// Stores at most `BLOB_BYTES_MAX` bytes, once.
    pub fn blob(&mut self, bytes: &[u8]) -> Result<BlobId, WriteError> {
        self.out.pipeline.check()?;
        if bytes.len() > BLOB_BYTES_MAX {
            return Err(WriteError::Limit {
                what: "a blob's size in bytes",
                found: bytes.len() as u64,
                max: BLOB_BYTES_MAX as u64,
            });
        }
        Ok(self.out.blob(bytes))
    }

    /// Adds a block of another kind.
    pub(crate) fn block(&mut self, head: Head, payload: Vec<u8>) -> Result<(), WriteError> {
        self.out.close_data();
        self.out.pipeline.submit(head, Payload::Bytes(payload));
        self.out.pipeline.check()
    }

    /// Closes the open block of a thread that has ended.
    pub fn flush_thread(&mut self, thread: u32) -> Result<(), WriteError> {
        if let Some(stream) = self.current.take() {
            self.keep(stream);
        }
        self.close(thread);
        self.out.pipeline.check()
    }

    /// Closes all open blocks and queues them, without waiting.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        if let Some(stream) = self.current.take() {
            self.keep(stream);
        }
        let open = self.threads.values().filter(|stream| stream.open.is_some());
        let mut open: Vec<u32> = open.map(|stream| stream.thread).collect();
        open.sort_unstable();
        open.into_iter().for_each(|thread| self.close(thread));
        self.out.close_data();
        self.out.pipeline.check()
    }

    /// In haste, time matters more than size: events wait to be added.
    pub fn set_haste(&mut self, in_haste: bool) {
        self.out.dedup.set_haste(in_haste);
    }

    /// Bytes of the trace written so far.
    pub fn bytes_written(&self) -> u64 {
        self.out.pipeline.bytes_written()
    }

    /// Bytes taken but not yet written, before compression.
    pub fn bytes_pending(&self) -> u64 {
        let streams = self.threads.values().chain(&self.current);
        let open: usize =
            streams.filter_map(|stream| stream.open.as_ref()).map(|open| open.len()).sum();
        let waiting: usize = self.out.waiting.iter().map(|(_, payload)| payload.len()).sum();
        let buffers = self.out.dedup.open_bytes();
        (open + waiting + buffers + self.out.pipeline.bytes_waiting()) as u64
    }

    /// Bytes that the trace's end needs in addition to the pending ones: heads of blocks, an INDEX
    /// of them, END and the trailer.
    pub fn bytes_for_end(&self) -> u64 {
        const LAST_WORDS: u64 = 3 << 10;
        let streams = self.threads.values().chain(&self.current);
        // The open buffers form one more block.
        let open = streams.filter(|stream| stream.open.is_some()).count();
        let blocks = open + self.out.waiting.len() + 1;
        // Each block has a head, and a copy of it in the INDEX.
        self.out.pipeline.bytes_unindexed() + (2 * blocks * HEAD_BYTES) as u64 + LAST_WORDS
    }

    /// Bytes of distinct buffers so far, before compression.
    pub fn stored_bytes(&self) -> u64 {
        self.out.dedup.stored_bytes()
    }

    /// Number of calls so far, for `Totals::calls_written`.
    pub fn calls_written(&self) -> u64 {
        self.calls
    }

    /// Closes all open blocks and waits until they are written, or could not be.
    pub fn settle(&mut self) -> Result<(), WriteError> {
        self.flush()?;
        self.out.pipeline.settle();
        self.out.pipeline.check()
    }

    /// After an I/O error, once there is room again: forgets what is not in the file, so that the
    /// trace can be given a gap and an end. Buffers stored before must not be referred to any more.
    /// False if that is not possible.
    pub fn recover(&mut self) -> bool {
        let Some(left) = self.out.pipeline.recover() else { return false };
        let streams = self.threads.values_mut().chain(&mut self.current);
        streams.for_each(|stream| stream.open = None);
        self.open_blocks = 0;
        self.out.forget_open();
        (self.events, self.calls, self.blobs_left) = (left.events, left.calls, Some(left.blobs));
        true
    }

    /// Closes all blocks, writes index and end.
    pub fn finish(mut self, totals: &Totals) -> Result<Finished, WriteError> {
        self.flush()?;
        let written = self.out.pipeline.drain()?;
        let mut counted = Counted {
            index_offset: written.index_offset,
            blocks: written.blocks,
            events: self.events,
            calls: self.calls,
            blobs: self.blobs_left.unwrap_or(self.out.dedup.next_id()),
        };
        let mut payload = Vec::new();
        put(&mut payload, |fields| described::end(fields, &mut counted, &mut totals.clone()));
        Ok(Finished {
            trace_bytes: self.out.pipeline.end(&payload)?,
            calls: self.calls,
            events: self.events,
            blobs: counted.blobs,
            stored_bytes: self.stored_bytes(),
        })
    }
}

impl Stream {
    fn close(&mut self, out: &mut Out) {
        let Some(open) = self.open.take() else { return };
        let (payload, summary) = open.close();
        let head = Head {
            kind: kind::EVENTS,
            thread: self.thread,
            first: self.events,
            first_call: self.calls,
            count: summary.count,
            calls: summary.calls,
            first_tsc: summary.first_tsc,
            last_tsc: summary.last_tsc,
            ..Head::default()
        };
        self.events += u64::from(summary.count);
        self.calls += u64::from(summary.calls);
        if summary.count > 0 {
            out.submit(head, payload, summary.blobs_end);
        }
    }
}

impl Out {
    /// Adds a block of events that refer to buffers below `blobs_end`, which must precede it: it
    /// may wait, as closing their block for every short-lived thread would make many small ones.
    fn submit(&mut self, head: Head, payload: Vec<u8>, blobs_end: u64) {
        if blobs_end <= self.dedup.open_from() && self.waiting.is_empty() {
            return self.pipeline.submit(head, Payload::Bytes(payload));
        }
        self.waiting_bytes += payload.capacity();
        self.waiting.push((head, payload));
        if self.waiting_bytes >= WAITING_BYTES {
            self.close_data();
        }
    }

    fn forget_open(&mut self) {
        drop(self.dedup.close(Vec::new));
        self.waiting.clear();
        self.waiting_bytes = 0;
    }

    fn close_data(&mut self) {
        if let Some(block) = self.dedup.close(|| self.pipeline.buffer()) {
            let (first, count) = (block.first, block.count());
            let head = Head { kind: kind::DATA, first, count, ..Head::default() };
            self.pipeline.submit(head, Payload::Data(block));
        }
        for (head, payload) in self.waiting.drain(..) {
            self.pipeline.submit(head, Payload::Bytes(payload));
        }
        self.waiting_bytes = 0;
    }

    fn stored(&mut self, (id, full): (BlobId, bool)) -> BlobId {
        if full {
            self.close_data();
        }
        id
    }
}

impl Store for Out {
    fn blob(&mut self, bytes: &[u8]) -> BlobId {
        let stored = self.dedup.add(bytes);
        self.stored(stored)
    }

    fn short_blob(&mut self, bytes: &[u8]) -> Option<BlobId> {
        let stored = self.dedup.add_short(bytes)?;
        Some(self.stored(stored))
    }
}

/// Size at which a block is closed if that many are open.
fn block_bytes(open_blocks: usize) -> usize {
    (OPEN_BYTES / open_blocks.max(1)).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES)
}
