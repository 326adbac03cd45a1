//! Writes the events of other traces into a new one, with its own totals.

use std::collections::HashMap;
use std::io::Write;

use syscalls::record::{data_flag, enter_flag};

use crate::error::WriteError;
use crate::event::{
    BlobId, Call, Content, Data, Event, EventKind, Outcome, Preamble, StartHow, Totals,
};
use crate::manifest::ManifestWriter;
use crate::reader::Trace;
use crate::sources::{Fate, Piece, Source, SourcesWriter};
use crate::writer::{Finished, Writer, WriterOptions};

/// Number of buffers whose new numbers are remembered.
const RECENT: usize = 1 << 16;

/// New number of a buffer of another trace: the trace, its number there and here, and its length.
#[derive(Clone, Copy)]
struct Moved {
    from: u32,
    old: BlobId,
    new: BlobId,
    len: u64,
}

/// A trace made of others.
pub struct Rewriter {
    writer: Writer,
    recent: Vec<Option<Moved>>,
    totals: Totals,
    /// Number of calls of each thread that has not ended.
    calls: HashMap<u32, u64>,
    buffers_lost: u64,
}

impl Rewriter {
    /// Begins a trace.
    pub fn new(
        sink: Box<dyn Write + Send>,
        preamble: &Preamble,
        options: WriterOptions,
    ) -> Result<Rewriter, WriteError> {
        Ok(Rewriter {
            writer: Writer::new(sink, preamble, options)?,
            recent: vec![None; RECENT],
            totals: Totals::default(),
            calls: HashMap::new(),
            buffers_lost: 0,
        })
    }

    /// Adds an event of a trace; `number` identifies the trace. A buffer that cannot be read is
    /// left out, and marked as cut.
    pub fn event(&mut self, trace: &Trace, number: u32, event: &Event) -> Result<(), WriteError> {
        self.count(event);
        let kind = match &event.kind {
            EventKind::End { .. } => {
                let calls = self.calls.remove(&event.thread).unwrap_or(0);
                Some(EventKind::End { calls })
            }
            EventKind::Call(call) if has_blobs(&call.data) => {
                let data = self.moved(trace, number, &call.data)?;
                Some(EventKind::Call(Call { data, ..call.clone() }))
            }
            EventKind::Image { tid, data } if has_blobs(data) => {
                Some(EventKind::Image { tid: *tid, data: self.moved(trace, number, data)? })
            }
            _ => None,
        };
        let names_buffers = event.parts().iter().any(|part| !part.named_buffers().is_empty());
        if kind.is_none() && !names_buffers {
            return self.writer.event(event);
        }
        let mut event = Event {
            kind: kind.unwrap_or_else(|| event.kind.clone()),
            extras: event.extras.clone(),
            ..*event
        };
        for part in event.extras.iter_mut().flat_map(|extras| &mut extras.parts) {
            let mut buffers = part.named_buffers();
            if !buffers.is_empty() {
                self.move_buffers(trace, number, &mut buffers)?;
                *part = part.with_buffers(&buffers);
            }
        }
        self.writer.event(&event)
    }

    /// Gives buffers this trace's numbers.
    fn move_buffers(
        &mut self,
        trace: &Trace,
        number: u32,
        buffers: &mut [Option<BlobId>],
    ) -> Result<(), WriteError> {
        for id in buffers.iter_mut().filter(|id| id.is_some()) {
            *id = match id {
                Some(old) => self.blob(trace, number, *old)?.map(|moved| moved.new),
                None => None,
            };
            self.buffers_lost += u64::from(id.is_none());
        }
        Ok(())
    }

    fn count(&mut self, event: &Event) {
        let mut last_tsc = event.tsc;
        match &event.kind {
            EventKind::Call(call) => {
                *self.calls.entry(event.thread).or_default() += 1;
                self.totals.slow_path_calls += u64::from(call.flags & enter_flag::SLOW != 0);
                for data in &call.data {
                    self.totals.data_bytes = self.totals.data_bytes.saturating_add(data.true_len);
                }
                if let Outcome::Returned { exit_tsc, .. } = call.outcome {
                    last_tsc = last_tsc.max(exit_tsc);
                }
            }
            EventKind::Start { how, .. } => {
                self.totals.threads += 1;
                self.totals.processes += u32::from(*how != StartHow::Thread);
            }
            EventKind::Stall { ns } => {
                self.totals.stall_ns = self.totals.stall_ns.saturating_add(*ns);
            }
            EventKind::Gap { .. } => self.totals.gaps += 1,
            EventKind::Unknown(unknown) if unknown.is_gap() => self.totals.gaps += 1,
            _ => {}
        }
        self.totals.end_tsc = self.totals.end_tsc.max(last_tsc);
    }

    /// Returns the data with this trace's buffer numbers.
    fn moved(
        &mut self,
        trace: &Trace,
        number: u32,
        data: &[Data],
    ) -> Result<Vec<Data>, WriteError> {
        let mut all = Vec::with_capacity(data.len());
        for item in data {
            let Content::Blobs { len, ids } = &item.content else {
                all.push(item.clone());
                continue;
            };
            let mut new = Vec::with_capacity(ids.len());
            let mut found = Some(0u64);
            for id in ids {
                let Some(moved) = self.blob(trace, number, *id)? else {
                    found = None;
                    break;
                };
                found = found.map(|found| found.saturating_add(moved.len));
                new.push(moved.new);
            }
            // Data whose length differs from that of its buffers is treated as lost.
            if found == Some(*len) {
                all.push(Data { content: Content::Blobs { len: *len, ids: new }, ..item.clone() });
            } else {
                self.buffers_lost += 1;
                let flags = item.flags | data_flag::CUT;
                all.push(Data { flags, content: Content::Inline(Vec::new()), ..item.clone() });
            }
        }
        Ok(all)
    }

    fn blob(
        &mut self,
        trace: &Trace,
        number: u32,
        id: BlobId,
    ) -> Result<Option<Moved>, WriteError> {
        let place = (id.0 as usize).wrapping_add(number as usize * 7919) % RECENT;
        if let Some(moved) = self.recent[place]
            && (moved.from, moved.old) == (number, id)
        {
            return Ok(Some(moved));
        }
        let Ok(bytes) = trace.blob(id) else { return Ok(None) };
        let (new, len) = (self.writer.blob(&bytes)?, bytes.len() as u64);
        let moved = Moved { from: number, old: id, new, len };
        self.recent[place] = Some(moved);
        Ok(Some(moved))
    }

    /// Number of buffers that could not be read.
    pub fn buffers_lost(&self) -> u64 {
        self.buffers_lost
    }

    /// Number of calls so far.
    pub fn calls(&self) -> u64 {
        self.writer.calls_written()
    }

    /// The latest time stamp so far.
    pub fn last_tsc(&self) -> u64 {
        self.totals.end_tsc
    }

    /// Copies the manifest of a trace, if it has a complete one that can be read. Returns false if
    /// it was lost.
    pub fn manifest(&mut self, trace: &Trace) -> Result<bool, WriteError> {
        let ending = match trace.manifest_ending() {
            Ok(Some(ending)) => ending,
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        };
        // Checked first: half a manifest would be wrong.
        if trace.manifest().any(|entry| entry.is_err()) {
            return Ok(false);
        }
        let mut manifest = ManifestWriter::default();
        for mut entry in trace.manifest().flatten() {
            manifest.add(&mut self.writer, &mut entry)?;
        }
        manifest.end(&mut self.writer, ending)?;
        Ok(true)
    }

    /// Copies the wanted sources, as far as they can be read. The trace's numbers are those given
    /// to [`Rewriter::event`]. Returns how many sources were left out.
    pub fn sources(
        &mut self,
        traces: &[(u32, &Trace)],
        wanted: &dyn Fn(&Source) -> bool,
    ) -> Result<u64, WriteError> {
        let mut sources = SourcesWriter::default();
        let mut left_out = 0;
        for (number, trace) in traces {
            for mut source in trace.sources().map_while(Result::ok) {
                if !wanted(&source) {
                    left_out += 1;
                    continue;
                }
                self.source_moved(trace, *number, &mut source)?;
                sources.add(&mut self.writer, &mut source)?;
            }
        }
        sources.close(&mut self.writer)?;
        Ok(left_out)
    }

    fn source_moved(
        &mut self,
        trace: &Trace,
        number: u32,
        source: &mut Source,
    ) -> Result<(), WriteError> {
        for piece in &mut source.pieces {
            let mut blobs = Vec::with_capacity(piece.blobs.len());
            for id in &piece.blobs {
                let Some(moved) = self.blob(trace, number, *id)? else { break };
                blobs.push(moved.new);
            }
            if blobs.len() != piece.blobs.len() {
                self.buffers_lost += 1;
                (blobs, source.fate) = (Vec::new(), Fate::Partly);
            }
            piece.blobs = blobs;
        }
        let lost = |piece: &Piece| piece.blobs.is_empty() && piece.hash.is_none();
        source.pieces.retain(|piece| !lost(piece));
        Ok(())
    }

    /// Writes index and end. `tsc_hz` is the frequency of all time stamps.
    pub fn finish(mut self, tsc_hz: u64) -> Result<Finished, WriteError> {
        self.writer.flush()?;
        let calls = self.writer.calls_written();
        let totals = Totals {
            calls_made: calls,
            calls_read: calls,
            calls_written: calls,
            stored_bytes: self.writer.stored_bytes(),
            tsc_hz,
            ..self.totals
        };
        self.writer.finish(&totals)
    }
}

fn has_blobs(data: &[Data]) -> bool {
    data.iter().any(|item| matches!(item.content, Content::Blobs { .. }))
}
