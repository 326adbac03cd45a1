//! Hands events to the trace writer, counts them, and stops at limits.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use syscalls::record::{GapWhy, data_flag, enter_flag};
use trace::event::{
    BLOB_BYTES_MAX, BlobId, Event, EventKind, Extras, FieldValue, OtherEvent, RECORDER,
    RECORDER_STREAM, Totals,
};
use trace::event_table::row_of;
use trace::format::{event_number, zigzag};
use trace::kernel::KernelRef;
use trace::manifest::{Ending, Entry, ManifestWriter};
use trace::parts::{Part, part_id};
use trace::sources::{Source, SourcesWriter};
use trace::{CallRef, ContentRef, DataRef, Finished, WriteError, Writer};

use crate::changes::Changes;
use crate::ingest::in_flight::InFlight;
use crate::policy::Policy;
use crate::sink::DiskSpace;
use crate::stacks::Stacks;
use crate::stored::Stored;
use crate::tids::Tids;

/// Bytes handed to the writer between two checks of the remaining room.
const ROOM_CHECK_BYTES: u64 = 256 << 10;
/// Weight of a call without data in that count.
const CALL_BYTES: u64 = 32;
/// Weight of an event of the kernel, beside its values.
const KERNEL_BYTES: u64 = 16;
/// Weight of another event: including the head of its thread's block, twice.
const EVENT_BYTES: u64 = 192;
/// Room for a manifest entry and those that are not written yet.
const MANIFEST_ROOM_BYTES: u64 = 2 << 20;
/// Unread bytes from which short buffers are not deduplicated: threads wait at four times that.
const HASTE_BYTES: u64 = 2 << 20;
/// How long the writer may take to catch up when the trace is close to its size limit.
const CATCH_UP: Duration = Duration::from_secs(1);
/// Length of the buffers of what was stored to mapped files.
const PAGE_BYTES: usize = 4096;
/// Number of streams for what processes read of mapped files. What one process has read is found in
/// order, that of several is not.
const READ_STREAMS: usize = 64;
/// Number of spare buffers kept for data that arrives in pieces.
const SPARE_BUFFERS: usize = 16;

/// Takes events and hands them to the writer.
pub(crate) struct Output {
    writer: Writer,
    space: Option<DiskSpace>,
    size_max: u64,
    /// Bytes between two checks of the room.
    check_bytes: u64,
    unchecked: u64,
    /// Events are counted, but no longer written.
    discarding: bool,
    full: Option<(GapWhy, String)>,
    /// Set when a write has failed.
    failed: bool,
    last_tsc: u64,
    /// The same for streams of what processes read of mapped files.
    last_read: [u64; READ_STREAMS],
    spare: Vec<Vec<u8>>,
    /// Decides what is kept of contents, where rules by path exist.
    pub policy: Option<Box<Policy>>,
    /// Finds the callers of calls, if they are wanted.
    pub stacks: Option<Box<Stacks>>,
    /// Follows what the program changes.
    pub changes: Option<Box<Changes>>,
    /// Knows threads by their ids, where page faults tell of them.
    pub tids: Option<Box<Tids>>,
    /// Operations whose completion was not read yet.
    pub in_flight: InFlight,
    /// Calls handed to the writer.
    pub calls_written: u64,
    /// Calls that came after recording had stopped.
    pub calls_discarded: u64,
    /// Written calls that were caught by SIGSYS.
    pub slow_calls: u64,
    /// Bytes in the buffers of written calls, as the program had them.
    pub data_bytes: u64,
    /// Events of the kernel handed to the writer.
    pub kernel_events: u64,
    /// Events of the kernel that are about others than those that were asked for.
    pub kernel_events_dropped: u64,
    /// Gaps written.
    pub gaps: u64,
    /// Reason and text of the first gap written.
    pub first_gap: Option<(GapWhy, String)>,
    /// Ids of threads that are left alone because they are traced: they end without an END.
    pub traced: HashSet<u64>,
    /// Processes whose mapped files a child may store to unseen, and since when, until the drain
    /// thread has seen to it.
    pub unwatched: Vec<(u32, u64)>,
    /// Changed files whose former content could not be stored whole, although that was requested.
    pub files_not_whole: u64,
}

/// Maximum size of [`Output::traced`].
const TRACED_MAX: usize = 64 << 10;

impl Output {
    /// Notes that a process does not see its stores to inherited mappings of files recorded.
    pub fn note_unwatched(&mut self, parent: u32, tsc: u64) {
        if self.unwatched.last().is_none_or(|(last, _)| *last != parent) {
            self.unwatched.push((parent, tsc));
        }
    }

    /// Notes that a thread is not recorded from now on; a gap has said so.
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
            last_read: [0; READ_STREAMS],
            spare: Vec::new(),
            policy: None,
            stacks: None,
            changes: None,
            tids: None,
            in_flight: InFlight::default(),
            calls_written: 0,
            calls_discarded: 0,
            slow_calls: 0,
            data_bytes: 0,
            kernel_events: 0,
            kernel_events_dropped: 0,
            gaps: 0,
            first_gap: None,
            traced: HashSet::new(),
            unwatched: Vec::new(),
            files_not_whole: 0,
        }
    }

    /// Hurries the writer if one round read that many bytes: about as many are unread by now.
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

    /// Hands over a call without data, except its lengths: it exceeds the trace's limits.
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

    /// Hands over an event that is no call.
    pub fn event(&mut self, thread: u32, tsc: u64, kind: EventKind) {
        self.whole_event(Event::new(thread, tsc, kind));
    }

    /// The same for an event that may have more than what its kind says.
    pub fn whole_event(&mut self, event: Event) {
        let (thread, tsc, kind) = (event.thread, event.tsc, &event.kind);
        if let Some(policy) = &mut self.policy {
            policy.event(thread, tsc, kind);
        }
        if let Some(changes) = &mut self.changes {
            changes.event(thread, tsc, kind);
        }
        if let Some(stacks) = &mut self.stacks {
            stacks.event(kind, thread);
        }
        if self.discarding {
            return;
        }
        let data_bytes = match kind {
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
        if let EventKind::Gap { why, text, .. } = kind {
            self.count_gap(*why, text);
        }
        self.write(event);
    }

    /// Hands over a gap of a process, which the event names.
    pub fn gap_of(&mut self, process: u32, tsc: u64, why: GapWhy, detail: u64, text: String) {
        if self.discarding {
            return;
        }
        self.unchecked += EVENT_BYTES;
        self.count_gap(why, &text);
        let kind = EventKind::Gap { why, detail, text };
        self.write(with_parts(tsc, kind, vec![Part::number(part_id::PROCESS, process.into())]));
    }

    /// Hands over that all mapped files of a process were looked at, from this time on.
    pub fn looked(&mut self, (process, since): (u32, u64), pages: u64, tsc: u64) {
        if self.discarding {
            return;
        }
        self.unchecked += EVENT_BYTES;
        let row = row_of(event_number::MMAP_LOOK).expect("the table has it");
        // The event may get a later time than this one, but not the time that it tells.
        let tsc = self.last_tsc.max(tsc);
        let ticks = (since as i64).wrapping_sub(tsc as i64).min(0);
        let parts = vec![
            Part::number(part_id::SUBMITTED, zigzag(ticks)),
            Part::number(part_id::PROCESS, process.into()),
        ];
        let values = vec![FieldValue::Unsigned(pages)];
        self.write(with_parts(tsc, EventKind::Other(OtherEvent { row, values }), parts));
    }

    fn write(&mut self, mut event: Event) {
        // The recorder's own events come from several threads; their order of arrival counts.
        if event.thread == RECORDER {
            event.tsc = self.last_tsc.max(event.tsc);
            self.last_tsc = event.tsc;
        }
        if let Err(error) = self.writer.event(&event) {
            self.fail(&error);
        }
    }

    /// The thread that has touched a mapped file, or that waits until that is collected.
    fn thread_of(&self, stored: &Stored) -> Option<u32> {
        match &stored.touch {
            Some(touch) if touch.is_alone => {
                self.tids.as_ref()?.number(stored.process, touch.thread)
            }
            Some(_) => None,
            None => stored.thread,
        }
    }

    /// Whether the thread that has touched a mapped file is known, if page faults tell of it.
    pub fn knows_thread(&self, stored: &Stored) -> bool {
        stored.touch.is_none_or(|touch| !touch.is_alone) || self.thread_of(stored).is_some()
    }

    /// Hands over what a process has stored to a mapped file.
    pub fn stored(&mut self, stored: &Stored, tsc: u64) {
        let kept = &stored.bytes[..stored.kept.min(stored.bytes.len())];
        // Pages: other stores may change some of them and leave the rest.
        let ids: Vec<_> = kept.chunks(PAGE_BYTES).map(|page| Some(self.blob(page))).collect();
        if self.discarding {
            return;
        }
        self.unchecked += EVENT_BYTES;
        self.data_bytes += stored.bytes.len() as u64;
        let thread = self.thread_of(stored);
        let Some(touch) = stored.touch.filter(|_| stored.is_read) else {
            return self.write(stored.event(ids, thread, tsc));
        };
        let stream = stored.process as usize % READ_STREAMS;
        let tsc = self.last_read[stream].max(touch.last);
        self.last_read[stream] = tsc;
        let event = stored.event(ids, thread, tsc);
        self.write(Event { thread: RECORDER_STREAM | stream as u32, ..event });
    }

    /// Hands over where the times of what a process reads come from.
    pub fn times(&mut self, process: u32, (by_faults, lost, why): (bool, u64, String), tsc: u64) {
        if self.discarding {
            return;
        }
        self.unchecked += EVENT_BYTES;
        let row = row_of(event_number::MMAP_TIMES).expect("the table has it");
        let values = vec![
            FieldValue::Unsigned(by_faults.into()),
            FieldValue::Unsigned(lost),
            FieldValue::Text(why),
        ];
        let parts = vec![Part::number(part_id::PROCESS, process.into())];
        self.write(with_parts(tsc, EventKind::Other(OtherEvent { row, values }), parts));
    }

    /// Hands over an event whose part `buffers` is to have these bytes.
    pub fn with_bytes(&mut self, mut event: Event, bytes: &[u8]) {
        let ids: Vec<_> =
            bytes.chunks(BLOB_BYTES_MAX).map(|piece| Some(self.blob(piece))).collect();
        self.data_bytes += bytes.len() as u64;
        event.extras.get_or_insert_default().parts.push(Part::buffers(&ids));
        self.whole_event(event);
    }

    /// Hands over an event of the kernel.
    pub fn kernel(&mut self, cpu: u32, tsc: u64, event: &KernelRef<'_>) {
        if self.discarding {
            return;
        }
        self.unchecked += KERNEL_BYTES + event.values.len() as u64;
        if self.unchecked >= self.check_bytes {
            self.check_room();
        }
        match self.writer.kernel(cpu, tsc, event) {
            Ok(()) => self.kernel_events += 1,
            Err(error) => self.fail(&error),
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

    /// Stops recording when the trace can no longer grow without losing the room for its end.
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

    /// Checks the size limit exactly: pending data will shrink, and is known once it is written.
    fn check_size(&mut self) {
        self.flush_writer();
        let start = Instant::now();
        while self.writer.bytes_pending() != 0 && start.elapsed() < CATCH_UP {
            std::thread::sleep(Duration::from_micros(200));
        }
        // Room until the next check, as much for what is pending then, and for the end.
        let margin = (2 * self.check_bytes).max(self.size_max / 64) + self.writer.bytes_for_end();
        // On a busy machine some of it is still pending.
        let written = self.writer.bytes_written().saturating_add(self.writer.bytes_pending());
        if written.saturating_add(margin) >= self.size_max {
            let text = "the trace has reached the limit of its size (--max-size, or ulimit -f)";
            self.stop(GapWhy::SizeLimit, text.into());
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

    /// Why the trace takes no more events, if it does not.
    pub fn full(&self) -> Option<&(GapWhy, String)> {
        self.full.as_ref()
    }

    /// Stops writing anything but the trace's end.
    pub fn discard(&mut self) {
        self.discarding = true;
    }

    /// Writes a gap of the whole recording, even while discarding.
    pub fn last_gap(&mut self, tsc: u64, why: GapWhy, detail: u64, text: String) {
        let kind = EventKind::Gap { why, detail, text: text.clone() };
        self.last_tsc = self.last_tsc.max(tsc);
        let event = Event::new(RECORDER, self.last_tsc, kind);
        match self.writer.event(&event) {
            Ok(()) => self.count_gap(why, &text),
            Err(error) => self.fail(&error),
        }
    }

    fn count_gap(&mut self, why: GapWhy, text: &str) {
        self.gaps += 1;
        self.first_gap.get_or_insert_with(|| (why, text.to_string()));
    }

    /// Adds an entry to the manifest. False if the trace has no room for it.
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

    /// Records what became of a file from which the kernel copied, if the trace has room for it.
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

    /// Ends the list of these sources.
    pub fn sources_end(&mut self, sources: &mut SourcesWriter) -> Result<(), WriteError> {
        sources.close(&mut self.writer)
    }

    /// Whether the trace can grow by this many bytes beyond what is pending.
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

    /// Closes the open block of a thread that has ended.
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

    /// Prepares the trace's end: frees the reserved disk space, and takes calls that could not be
    /// written off the count.
    pub fn prepare_end(&mut self) {
        if self.space.is_none() {
            return;
        }
        // The disk may have been filled by others at any time.
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

    /// Returns an empty buffer with room for a blob.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOB_BYTES_MAX))
    }

    /// Returns a buffer to the spare ones.
    pub fn give_buffer(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}
/// An event of the recorder's own with optional parts.
fn with_parts(tsc: u64, kind: EventKind, parts: Vec<Part>) -> Event {
    let extras = Extras { parts, later_fields: Vec::new() };
    Event { extras: Some(Box::new(extras)), ..Event::new(RECORDER, tsc, kind) }
}
