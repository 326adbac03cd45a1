//! The recorder's end of the writer: counts what passes, and knows when to write no more.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use events::record::{GapWhy, data_flag, enter_flag};
use trace::event::{BLOB_BYTES_MAX, BlobId, Event, EventKind, RECORDER, Totals};
use trace::manifest::{Ending, Entry, ManifestWriter};
use trace::sources::{Source, SourcesWriter};
use trace::{CallRef, ContentRef, DataRef, Finished, WriteError, Writer};

use crate::changes::Changes;
use crate::policy::Policy;
use crate::sink::DiskSpace;

/// Bytes handed to the writer between two looks at the room that is left.
const ROOM_CHECK_BYTES: u64 = 256 << 10;
/// What a call without data counts towards that.
const CALL_BYTES: u64 = 32;
/// What an event of another kind does: with the head of its thread's block, twice.
const EVENT_BYTES: u64 = 192;
/// Room for an entry of the manifest, and for those that were not written yet.
const MANIFEST_ROOM_BYTES: u64 = 2 << 20;
/// Unread bytes at which short buffers are not looked up any more: a thread waits at four times as many.
const HASTE_BYTES: u64 = 2 << 20;
/// How long the writer may take to catch up when the trace is about to reach its size limit.
const CATCH_UP: Duration = Duration::from_secs(1);
/// Buffers kept for data that arrives in pieces.
const SPARE_BUFFERS: usize = 16;

/// Takes events and hands them to the writer.
pub(crate) struct Output {
    writer: Writer,
    space: Option<DiskSpace>,
    size_max: u64,
    /// Bytes between looks at the room.
    check_bytes: u64,
    unchecked: u64,
    /// What is given from now on is counted, but not written.
    discarding: bool,
    full: Option<(GapWhy, String)>,
    /// The writer could not write.
    failed: bool,
    last_tsc: u64,
    spare: Vec<Vec<u8>>,
    /// What is kept of contents, where paths decide.
    pub policy: Option<Box<Policy>>,
    /// What the program changes, where a manifest is wanted.
    pub changes: Option<Box<Changes>>,
    /// Calls that were handed to the writer.
    pub calls_written: u64,
    /// Calls that came after the recording had stopped.
    pub calls_discarded: u64,
    /// Of those written, through SIGSYS.
    pub slow_calls: u64,
    /// Bytes in the buffers of those written, as the program had them.
    pub data_bytes: u64,
    /// Gaps written.
    pub gaps: u64,
    /// The first of them.
    pub first_gap: Option<(GapWhy, String)>,
    /// Threads that others trace, as those tell: they are left alone, and so end without a word.
    pub traced: HashSet<u64>,
    /// Files that were changed and could not be stored whole before, where that was asked for.
    pub files_not_whole: u64,
}

/// More are not remembered.
const TRACED_MAX: usize = 64 << 10;

impl Output {
    /// A thread is not recorded from here on, and the trace says why.
    pub fn note_left_alone(&mut self, id: u64) {
        if self.traced.len() < TRACED_MAX {
            self.traced.insert(id);
        }
    }
}

impl Output {
    pub fn new(writer: Writer, space: Option<DiskSpace>, size_max: Option<u64>) -> Output {
        let longest = space.as_ref().and_then(DiskSpace::longest);
        let size_max = size_max.into_iter().chain(longest).min().unwrap_or(u64::MAX);
        Output {
            writer,
            space,
            size_max,
            check_bytes: ROOM_CHECK_BYTES.min(size_max / 16),
            unchecked: 0,
            discarding: false,
            full: None,
            failed: false,
            last_tsc: 0,
            spare: Vec::new(),
            policy: None,
            changes: None,
            calls_written: 0,
            calls_discarded: 0,
            slow_calls: 0,
            data_bytes: 0,
            gaps: 0,
            first_gap: None,
            traced: HashSet::new(),
            files_not_whole: 0,
        }
    }

    /// So many bytes were read at once: as many are unread by now if the program goes on like that.
    pub fn read_at_once(&mut self, bytes: u64) {
        self.writer.set_haste(bytes >= HASTE_BYTES);
    }

    /// Hands a call over.
    #[inline]
    pub fn call(&mut self, thread: u32, tsc: u64, call: &CallRef<'_>) {
        if self.discarding {
            self.calls_discarded += 1;
            return;
        }
        match self.writer.call(thread, tsc, call) {
            Ok(()) => {}
            Err(WriteError::Limit { .. }) => return self.call_without_data(thread, tsc, call),
            Err(error) => return self.fail_call(&error),
        }
        self.count_call(call);
    }

    #[inline]
    fn count_call(&mut self, call: &CallRef<'_>) {
        self.calls_written += 1;
        self.unchecked += CALL_BYTES;
        if self.unchecked >= self.check_bytes {
            self.check_room();
        }
        self.slow_calls += u64::from(call.flags & enter_flag::SLOW != 0);
        for data in call.data {
            if data.flags & data_flag::FAULT == 0 {
                self.data_bytes = self.data_bytes.saturating_add(data.true_len);
            }
        }
    }

    /// A call whose data is beyond what a trace can hold keeps the lengths of its data.
    #[cold]
    fn call_without_data(&mut self, thread: u32, tsc: u64, call: &CallRef<'_>) {
        let cut = |data: &DataRef<'_>| DataRef {
            flags: data.flags | data_flag::CUT,
            content: ContentRef::Bytes(&[]),
            ..*data
        };
        let data: Vec<DataRef<'_>> = call.data.iter().map(cut).collect();
        let call = CallRef { data: &data, ..*call };
        match self.writer.call(thread, tsc, &call) {
            Ok(()) => self.count_call(&call),
            Err(error) => self.fail_call(&error),
        }
    }

    #[cold]
    fn fail_call(&mut self, error: &WriteError) {
        self.calls_discarded += 1;
        self.fail(error);
    }

    /// Hands an event of a thread over.
    pub fn event(&mut self, thread: u32, tsc: u64, kind: EventKind) {
        if let Some(policy) = &mut self.policy {
            policy.event(thread, tsc, &kind);
        }
        if let Some(changes) = &mut self.changes {
            changes.event(thread, tsc, &kind);
        }
        if self.discarding {
            return;
        }
        let data_bytes = match &kind {
            EventKind::Image { data, .. } => data.iter().map(|data| data.content.len()).sum(),
            _ => 0u64,
        };
        self.unchecked += EVENT_BYTES + data_bytes;
        if self.unchecked >= self.check_bytes {
            self.check_room();
            if self.discarding {
                return;
            }
        }
        self.data_bytes += data_bytes;
        if let EventKind::Gap { why, text, .. } = &kind {
            self.count_gap(*why, text);
        }
        // The recorder's own events come from several threads; their order here is their order.
        let tsc = if thread == RECORDER { self.last_tsc.max(tsc) } else { tsc };
        if thread == RECORDER {
            self.last_tsc = tsc;
        }
        if let Err(error) = self.writer.event(&Event { thread, tsc, kind }) {
            self.fail(&error);
        }
    }

    /// Stores at most `BLOB_BYTES_MAX` bytes.
    pub fn blob(&mut self, bytes: &[u8]) -> BlobId {
        if self.discarding {
            return BlobId(0);
        }
        self.unchecked += bytes.len() as u64;
        if self.unchecked >= self.check_bytes {
            self.check_room();
            if self.discarding {
                return BlobId(0);
            }
        }
        match self.writer.blob(bytes) {
            Ok(id) => id,
            Err(error) => {
                self.fail(&error);
                BlobId(0)
            }
        }
    }

    /// Notices that the trace has no room to grow while its end still fits.
    #[cold]
    fn check_room(&mut self) {
        self.unchecked = 0;
        let pending = self.writer.bytes_pending().saturating_add(self.check_bytes);
        let for_end = self.writer.bytes_for_end();
        if let Some(free) = self.space.as_ref().and_then(|space| space.short_of(pending)) {
            self.stop(
                GapWhy::WriteFailed,
                format!(
                    "only {free} bytes are left on the trace's file system; \
                 record to one with more room, or set --max-size"
                ),
            );
        } else if self.writer.bytes_written().saturating_add(pending + for_end) >= self.size_max {
            self.check_size();
        }
    }

    /// What is pending will shrink, but how much is known only once it is written.
    fn check_size(&mut self) {
        self.flush_writer();
        let start = Instant::now();
        while self.writer.bytes_pending() != 0 && start.elapsed() < CATCH_UP {
            std::thread::sleep(Duration::from_micros(200));
        }
        // Room until the next check, as much for what is on the way then, and for the end.
        let margin = (2 * self.check_bytes).max(self.size_max / 64) + self.writer.bytes_for_end();
        if self.writer.bytes_written().saturating_add(margin) >= self.size_max {
            let max = self.size_max;
            let which = "--max-size, or ulimit -f";
            self.stop(GapWhy::SizeLimit, format!("the trace may have {max} bytes ({which})"));
        }
    }

    #[cold]
    pub fn fail(&mut self, error: &WriteError) {
        self.failed = true;
        self.stop(GapWhy::WriteFailed, error.to_string());
    }

    fn stop(&mut self, why: GapWhy, text: String) {
        self.discarding = true;
        self.full.get_or_insert((why, text));
    }

    /// Why the trace takes no more, once that is so.
    pub fn full(&self) -> Option<&(GapWhy, String)> {
        self.full.as_ref()
    }

    /// From now on nothing is written but the trace's end.
    pub fn discard(&mut self) {
        self.discarding = true;
    }

    /// A gap of the whole recording; written even while discarding.
    pub fn last_gap(&mut self, tsc: u64, why: GapWhy, detail: u64, text: String) {
        let kind = EventKind::Gap { why, detail, text: text.clone() };
        self.last_tsc = self.last_tsc.max(tsc);
        let event = Event { thread: RECORDER, tsc: self.last_tsc, kind };
        match self.writer.event(&event) {
            Ok(()) => self.count_gap(why, &text),
            Err(error) => self.fail(&error),
        }
    }

    fn count_gap(&mut self, why: GapWhy, text: &str) {
        self.gaps += 1;
        self.first_gap.get_or_insert_with(|| (why, text.to_string()));
    }

    /// Adds to the manifest. False when the trace has no room for it.
    pub fn manifest_entry(
        &mut self,
        manifest: &mut ManifestWriter,
        entry: &mut Entry,
    ) -> Result<bool, WriteError> {
        if !self.has_room(MANIFEST_ROOM_BYTES) {
            return Ok(false);
        }
        manifest.add(&mut self.writer, entry).map(|()| true)
    }

    /// Stores bytes of a file if the trace has room for them.
    pub fn blob_if_room(&mut self, bytes: &[u8]) -> Option<BlobId> {
        if self.discarding || !self.has_room(MANIFEST_ROOM_BYTES) {
            return None;
        }
        let id = self.blob(bytes);
        (!self.discarding).then_some(id)
    }

    /// Adds what became of a file from which the kernel copied, if the trace has room for it.
    pub fn source(
        &mut self,
        sources: &mut SourcesWriter,
        source: &mut Source,
    ) -> Result<(), WriteError> {
        match self.discarding || !self.has_room(MANIFEST_ROOM_BYTES) {
            true => Ok(()),
            false => sources.add(&mut self.writer, source),
        }
    }

    /// No more of these follow.
    pub fn sources_end(&mut self, sources: &mut SourcesWriter) -> Result<(), WriteError> {
        sources.close(&mut self.writer)
    }

    /// Whether the trace can grow by so much, and what waits besides.
    fn has_room(&self, bytes: u64) -> bool {
        let pending = self.writer.bytes_pending().saturating_add(bytes);
        let short = self.space.as_ref().is_some_and(|space| space.short_of(pending).is_some());
        !short && self.writer.bytes_written().saturating_add(pending) < self.size_max
    }

    /// Ends the manifest.
    pub fn manifest_end(
        &mut self,
        manifest: ManifestWriter,
        ending: Ending,
    ) -> Result<(), WriteError> {
        manifest.end(&mut self.writer, ending)
    }

    /// Closes the open block of a thread that is gone.
    pub fn flush_thread(&mut self, thread: u32) {
        if let Err(error) = self.writer.flush_thread(thread) {
            self.fail(&error);
        }
    }

    /// Closes all open blocks.
    pub fn flush(&mut self) {
        if !self.discarding {
            self.check_room();
            self.flush_writer();
        }
    }

    fn flush_writer(&mut self) {
        if let Err(error) = self.writer.flush() {
            self.fail(&error);
        }
    }

    /// Bytes of the trace so far.
    pub fn trace_bytes(&self) -> u64 {
        self.writer.bytes_written()
    }

    /// Bytes of distinct buffers stored.
    pub fn stored_bytes(&self) -> u64 {
        self.writer.stored_bytes()
    }

    /// Before the end: what could not be written is taken off the count, and there is room again for
    /// the rest.
    pub fn prepare_end(&mut self) {
        if self.space.is_none() {
            return;
        }
        // Others may fill the disk at any time.
        if let Err(error) = self.writer.settle() {
            self.fail(&error);
        }
        let Some(space) = &self.space else { return };
        space.use_kept();
        if self.failed && self.writer.recover() {
            let lost = self.calls_written.saturating_sub(self.writer.calls_written());
            self.calls_discarded += lost;
            self.calls_written -= lost;
        }
    }

    /// Ends the trace.
    pub fn finish(self, totals: &Totals) -> Result<Finished, WriteError> {
        self.writer.finish(totals)
    }

    /// An empty buffer with room for a blob.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOB_BYTES_MAX))
    }

    /// Gives such a buffer back.
    pub fn give_buffer(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}
