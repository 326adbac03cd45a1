//! Checks that a trace is complete, or shows where it is not.

use std::collections::HashMap;

use twox_hash::XxHash3_128;

use crate::error::ReadError;
use crate::event::{BlobId, Content, Data, Event, EventKind, Outcome};
use crate::format::{BLOB_ENTRY_BYTES, HEAD_BYTES, Head, codec, kind};
use crate::parts::Part;
use crate::reader::Trace;
use crate::sources::Source;

/// Maximum number of problems that are listed; more are only counted.
const PROBLEMS_MAX: usize = 1000;

/// Maximum number of buffers whose lengths are remembered, to check events against them.
const LENGTHS_MAX: usize = 64 << 20;

/// A defect of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Offset of the block or part; `None` if it concerns the whole trace.
    pub offset: Option<u64>,
    /// What is wrong.
    pub what: String,
}

/// Completeness of a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The trace was finished, is consistent, and has no gaps.
    pub complete: bool,
    /// Number of calls known to be missing.
    pub lost: u64,
    /// Number of gaps that the recorder wrote.
    pub gaps: u64,
    /// How many of them say that the trace was cut, repaired or imported; known when all was read.
    pub gaps_on_purpose: u64,
    /// Number of calls in the file.
    pub calls: u64,
    /// Number of events in the file, including calls.
    pub events: u64,
    /// Number of distinct buffers in the file.
    pub blobs: u64,
    /// The defects.
    pub problems: Vec<Problem>,
    /// Number of further defects.
    pub problems_more: u64,
}

impl Report {
    /// Whether nothing is damaged or lost, unless the trace's own gaps say that it was cut,
    /// repaired or imported.
    pub fn sound(&self) -> bool {
        self.problems.is_empty() && self.lost == 0 && self.gaps == self.gaps_on_purpose
    }

    fn problem(&mut self, offset: Option<u64>, what: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { offset, what: what.into() });
        } else {
            self.problems_more += 1;
        }
    }
}

/// Number of events and calls of a thread so far, where its next block must continue.
#[derive(Clone, Copy, Default)]
struct Continues {
    event: u64,
    call: u64,
}

impl Trace {
    /// Checks the heads of the blocks and the totals: quick, whatever the size of the trace.
    pub fn completeness(&self) -> Report {
        let mut report = Report::default();
        for damage in self.damage() {
            let what = format!("{} ({} bytes)", damage.what, damage.bytes);
            report.problem(Some(damage.offset), what);
        }
        let mut holes = 0;
        let mut threads: HashMap<u32, Continues> = HashMap::new();
        let mut stored_bytes = 0;
        for head in self.blocks() {
            if head.kind == kind::EVENTS {
                let thread = threads.entry(head.thread).or_default();
                holes += check_sequence(&mut report, head, thread);
                report.events += u64::from(head.count);
                report.calls += u64::from(head.calls);
            } else {
                if head.first != report.blobs {
                    let what = format!(
                        "buffers {} to {} are missing before this block",
                        report.blobs,
                        head.first.wrapping_sub(1)
                    );
                    report.problem(Some(head.offset), what);
                }
                report.blobs = head.first + u64::from(head.count);
                let table = u64::from(head.count) * BLOB_ENTRY_BYTES as u64;
                stored_bytes += u64::from(head.raw_len).saturating_sub(table);
            }
        }
        self.check_totals(&mut report, holes, stored_bytes);
        report.complete = report.problems.is_empty() && report.gaps == 0;
        report
    }

    fn check_totals(&self, report: &mut Report, holes: u64, stored_bytes: u64) {
        let Some(end) = self.end() else {
            report.lost = holes;
            return;
        };
        let (counted, totals) = (&end.counted, &end.totals);
        report.gaps = totals.gaps;
        report.lost = totals.calls_made.saturating_sub(report.calls).max(holes);
        let agree = [
            ("blocks that the writer wrote", counted.blocks, self.blocks_seen()),
            ("events that the writer wrote", counted.events, report.events),
            ("calls that the writer wrote", counted.calls, report.calls),
            ("buffers that the writer wrote", counted.blobs, report.blobs),
            ("calls that the program made", totals.calls_made, report.calls),
            ("calls that the recorder read", totals.calls_read, report.calls),
            ("calls that the recorder passed on", totals.calls_written, report.calls),
            ("bytes of distinct buffers", totals.stored_bytes, stored_bytes),
        ];
        for (what, counted, found) in agree {
            if counted != found {
                report.problem(None, format!("{what}: counted {counted}, the file has {found}"));
            }
        }
        if totals.ring_bytes_published != totals.ring_bytes_read {
            let what = format!(
                "bytes published by the program: {}, read by the recorder: {}",
                totals.ring_bytes_published, totals.ring_bytes_read
            );
            report.problem(None, what);
        }
    }

    /// Reads everything and checks every checksum, hash, number and total, so that every changed
    /// byte of the file is found.
    pub fn verify(&self) -> Report {
        let mut report = self.completeness();
        let mut blobs = Blobs::default();
        let mut gaps = 0;
        let mut calls: HashMap<u32, u64> = HashMap::new();
        for head in self.blocks() {
            if head.kind == kind::DATA {
                if let Err(error) = self.verify_data(head, &mut report, &mut blobs) {
                    report.problem(Some(head.offset), error.to_string());
                }
                blobs.end = blobs.end.max(head.first + u64::from(head.count));
                continue;
            }
            let calls = calls.entry(head.thread).or_default();
            let mut block = Block { head, report: &mut report, blobs: &blobs, gaps: 0, calls };
            let read = block.verify(self);
            gaps += block.gaps;
            if let Err(error) = read {
                report.problem(Some(head.offset), error.to_string());
            }
        }
        if self.end().is_none() {
            report.gaps = gaps;
        } else if report.gaps != gaps {
            let what = format!("gaps: counted {}, the file has {gaps}", report.gaps);
            report.problem(None, what);
        }
        self.verify_others(&mut report);
        if let Some(error) = self.manifest().find_map(Result::err) {
            report.problem(None, format!("the manifest: {error}"));
        }
        if let Some(error) = self.sources().find_map(|source| self.verify_source(source).err()) {
            report.problem(None, format!("what the kernel copied from: {error}"));
        }
        report.complete = report.problems.is_empty() && report.gaps == 0;
        report
    }

    /// Checks that the buffers of a source have the lengths that it states.
    fn verify_source(&self, source: Result<Source, ReadError>) -> Result<(), ReadError> {
        for piece in source?.pieces.iter().filter(|piece| !piece.blobs.is_empty()) {
            let mut len = 0;
            for blob in &piece.blobs {
                len += self.blob(*blob)?.len() as u64;
            }
            if len != piece.len {
                let what = "a piece is shorter or longer than its buffers";
                return Err(ReadError::Damaged { offset: 0, what });
            }
        }
        Ok(())
    }

    /// Checks what is not needed to read the events: the index, and blocks of unknown kinds.
    fn verify_others(&self, report: &mut Report) {
        let (mut blocks, mut others) = (self.blocks(), self.other_blocks());
        let mut unlisted = Vec::new();
        let mut last_index = 0;
        loop {
            let head = match (blocks.split_first(), others.split_first()) {
                (Some((block, rest)), other)
                    if other.is_none_or(|(o, _)| block.offset < o.offset) =>
                {
                    blocks = rest;
                    unlisted.extend_from_slice(&block.to_bytes());
                    continue;
                }
                (_, Some((other, rest))) => {
                    others = rest;
                    other
                }
                (_, None) => break,
            };
            let stored = self.stored(head);
            if let Err(error) = &stored {
                report.problem(Some(head.offset), error.to_string());
            }
            if head.kind != kind::INDEX {
                unlisted.extend_from_slice(&head.to_bytes());
                continue;
            }
            let listed = unlisted.len() / HEAD_BYTES;
            let agrees = (head.codec, head.count as usize, head.first)
                == (codec::NONE, listed, last_index)
                && stored.as_ref().is_ok_and(|stored| **stored == *unlisted);
            if !agrees && stored.is_ok() {
                let what = "the index does not list the blocks before it";
                report.problem(Some(head.offset), what);
            }
            unlisted.clear();
            last_index = head.offset;
        }
        if let Some(end) = self.end()
            && (end.counted.index_offset != last_index || !unlisted.is_empty())
        {
            report.problem(None, "the index does not go on to the end of the trace");
        }
    }

    fn verify_data(
        &self,
        head: &Head,
        report: &mut Report,
        blobs: &mut Blobs,
    ) -> Result<(), ReadError> {
        let block = self.decode_data(head)?;
        for id in block.ids() {
            let bytes = block.get(id).unwrap_or_default();
            blobs.add(id, bytes.len());
            if block.hash(id) != Some(XxHash3_128::oneshot(bytes)) {
                report.problem(Some(head.offset), format!("the hash of buffer {id} is wrong"));
            }
        }
        Ok(())
    }
}

/// The buffers before a block.
#[derive(Default)]
struct Blobs {
    /// Highest number, plus one.
    end: u64,
    /// Lengths of the first buffers, up to the first missing one.
    lengths: Vec<u32>,
}

impl Blobs {
    fn add(&mut self, id: u64, len: usize) {
        if id == self.lengths.len() as u64 && self.lengths.len() < LENGTHS_MAX {
            self.lengths.push(len as u32);
        }
    }

    /// Total length of these buffers, if all lengths are known.
    fn bytes_of(&self, ids: &[BlobId]) -> Option<u64> {
        let len = |id: &BlobId| self.lengths.get(usize::try_from(id.0).ok()?);
        ids.iter().try_fold(0_u64, |sum, id| Some(sum + u64::from(*len(id)?)))
    }
}

/// Checks that a block continues where its thread stopped. Returns the number of missing calls.
fn check_sequence(report: &mut Report, head: &Head, thread: &mut Continues) -> u64 {
    let missing = head.first_call.saturating_sub(thread.call);
    if (head.first, head.first_call) != (thread.event, thread.call) {
        let what = format!(
            "thread {} goes on with event {} and call {}, it had {} events and {} calls",
            head.thread, head.first, head.first_call, thread.event, thread.call
        );
        report.problem(Some(head.offset), what);
    }
    thread.event = head.first + u64::from(head.count);
    thread.call = head.first_call + u64::from(head.calls);
    missing
}

/// An EVENTS block that is being checked.
struct Block<'a> {
    head: &'a Head,
    report: &'a mut Report,
    blobs: &'a Blobs,
    gaps: u64,
    /// Number of calls of its thread so far.
    calls: &'a mut u64,
}

impl Block<'_> {
    fn verify(&mut self, trace: &Trace) -> Result<(), ReadError> {
        let (mut calls, mut last_tsc) = (0, 0);
        for event in trace.decode_block(self.head)? {
            let event = event?;
            last_tsc = last_tsc.max(last_tsc_of(&event));
            self.check_parts(event.parts());
            match &event.kind {
                EventKind::Call(call) => {
                    calls += 1;
                    *self.calls += 1;
                    self.check_references(&call.data);
                }
                EventKind::Image { data, .. } => self.check_references(data),
                EventKind::Gap { why, .. } => {
                    self.gaps += 1;
                    self.report.gaps_on_purpose += u64::from(why.is_on_purpose());
                }
                EventKind::Unknown(unknown) => self.gaps += u64::from(unknown.is_gap()),
                EventKind::End { calls } if *calls != *self.calls => {
                    let what = format!(
                        "thread {} made {calls} calls, the file has {}",
                        self.head.thread, self.calls
                    );
                    self.report.problem(Some(self.head.offset), what);
                    let lost = calls.saturating_sub(*self.calls);
                    self.report.lost = self.report.lost.max(lost);
                }
                _ => {}
            }
        }
        if (calls, last_tsc) != (self.head.calls, self.head.last_tsc) {
            let what = "its head tells other calls or times than it has";
            self.report.problem(Some(self.head.offset), what);
        }
        Ok(())
    }

    fn check_parts(&mut self, parts: &[Part]) {
        for id in parts.iter().flat_map(Part::named_buffers).flatten() {
            if id.0 >= self.blobs.end {
                let what = format!("an event refers to buffer {}, which is not before it", id.0);
                self.report.problem(Some(self.head.offset), what);
            }
        }
    }

    fn check_references(&mut self, data: &[Data]) {
        for item in data {
            let Content::Blobs { len, ids } = &item.content else { continue };
            let what = if let Some(id) = ids.iter().find(|id| id.0 >= self.blobs.end) {
                format!("an event refers to buffer {}, which is not before it", id.0)
            } else if let Some(found) = self.blobs.bytes_of(ids).filter(|found| found != len) {
                format!("an event says that its buffers have {len} bytes, they have {found}")
            } else {
                continue;
            };
            self.report.problem(Some(self.head.offset), what);
        }
    }
}

fn last_tsc_of(event: &Event) -> u64 {
    match &event.kind {
        EventKind::Call(call) => match call.outcome {
            Outcome::Returned { exit_tsc, .. } => exit_tsc.max(event.tsc),
            Outcome::Unfinished => event.tsc,
        },
        _ => event.tsc,
    }
}
