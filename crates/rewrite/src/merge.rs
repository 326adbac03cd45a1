//! Several traces of one run in one.

mod clocks;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use crate::counted;
use trace::event::{CPU_STREAM, Event, EventKind, GapWhy, Outcome, Preamble, RECORDER};
use trace::format::{unzigzag, zigzag};
use trace::parts::{PartMeaning, PartValue};
use trace::{ReadError, Rewriter, Sequenced, Trace, WriteError};

use clocks::Clock;

/// Limit for the traces of one merge: each has blocks of all its threads in memory.
pub const TRACES_MAX: usize = 64;

/// A trace to be merged.
pub struct Input {
    /// How it is called in notes.
    pub name: String,
    /// The trace.
    pub trace: Trace,
}

/// The names of two traces that hold the same recording, or parts of it.
#[derive(Debug)]
pub struct OfOneRecording(pub String, pub String);

/// Why traces could not be merged.
#[derive(Debug)]
pub enum MergeError {
    /// Their threads cannot all have numbers.
    TooManyThreads,
    /// The new trace could not be written.
    Write(WriteError),
}

impl From<WriteError> for MergeError {
    fn from(error: WriteError) -> MergeError {
        MergeError::Write(error)
    }
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeError::TooManyThreads => f.write_str("too many threads to be merged"),
            MergeError::Write(error) => error.fmt(f),
        }
    }
}

/// What was merged.
pub struct Merged {
    /// Number of calls.
    pub calls: u64,
    /// Whether all blocks of all traces could be read.
    pub is_whole: bool,
    /// Whether a trace tells of the files in the end: the new one does not.
    pub leaves_files_out: bool,
}

/// Traces that can be merged.
pub struct Merge {
    /// The earliest first: times count from its start.
    inputs: Vec<Input>,
    clocks: Vec<Clock>,
}

impl Merge {
    /// Traces of one run, in any order; at least one.
    pub fn of(mut inputs: Vec<Input>) -> Result<Merge, OfOneRecording> {
        inputs.sort_by_key(|input| input.trace.preamble().epoch_ns);
        let same = |pair: &&[Input]| of_one_recording(&pair[0].trace, &pair[1].trace);
        if let Some([one, other]) = inputs.windows(2).find(same) {
            return Err(OfOneRecording(one.name.clone(), other.name.clone()));
        }
        let base = &inputs[0].trace;
        let clocks = inputs.iter().map(|input| Clock::between(&input.trace, base)).collect();
        Ok(Merge { inputs, clocks })
    }

    /// How the events are put in order, for people.
    pub fn order(&self) -> String {
        match self.clocks.iter().filter(|clock| clock.is_by_wall()).count() {
            0 => "ordered by the time stamp counter of one machine".to_string(),
            count => format!("{count} of them ordered by their wall clocks"),
        }
    }

    /// The preamble of the merged trace.
    pub fn preamble(&self) -> Preamble {
        let how = format!(
            "merged from {}, {}",
            counted(self.inputs.len() as u64, "trace", "traces"),
            self.order()
        );
        super::preamble(&self.inputs[0].trace, &how)
    }

    /// Writes the merged trace. `unread` is called for each block that cannot be read.
    pub fn write(
        &self,
        mut rewriter: Rewriter,
        unread: &mut dyn FnMut(&Input, &ReadError),
    ) -> Result<Merged, MergeError> {
        let blocks_lost = self.write_events(&mut rewriter, unread)?;
        let mut whole_ones = Vec::new();
        for (number, (input, &lost)) in (0..).zip(self.inputs.iter().zip(&blocks_lost)) {
            let Some(text) = missing(&input.trace, lost) else {
                whole_ones.push((number, &input.trace));
                continue;
            };
            let text = format!("{}: {text}", input.name);
            let kind = EventKind::Gap { why: GapWhy::RecorderLost, detail: lost, text };
            let event = Event::new(RECORDER, rewriter.last_tsc(), kind);
            rewriter.event(&input.trace, 0, &event)?;
        }
        // Final file contents stand for copied data only if no events are missing.
        rewriter.sources(&whole_ones, &|_| true)?;
        let has_manifest = |input: &Input| !matches!(input.trace.manifest_ending(), Ok(None));
        Ok(Merged {
            calls: rewriter.finish(self.inputs[0].trace.tsc_hz())?.calls,
            is_whole: blocks_lost.iter().all(|&lost| lost == 0),
            leaves_files_out: self.inputs.iter().any(has_manifest),
        })
    }

    /// Writes all events in order. Returns how many blocks of each trace could not be read.
    fn write_events(
        &self,
        rewriter: &mut Rewriter,
        unread: &mut dyn FnMut(&Input, &ReadError),
    ) -> Result<Vec<u64>, MergeError> {
        let count = self.inputs.len();
        let mut streams: Vec<_> = self.inputs.iter().map(|input| input.trace.events()).collect();
        let mut held: Vec<Option<Event>> = vec![None; count];
        let mut lost = vec![0; count];
        let mut next: BinaryHeap<_> = (0..count).map(|number| Reverse((0, number))).collect();
        while let Some(Reverse((_, number))) = next.pop() {
            let input = &self.inputs[number];
            if let Some(event) = held[number].take() {
                rewriter.event(&input.trace, number as u32, &event)?;
            }
            let read = streams[number].by_ref().find_map(|next| match next {
                Ok(Sequenced { event, .. }) => Some(event),
                Err(error) => {
                    lost[number] += 1;
                    unread(input, &error);
                    None
                }
            });
            if let Some(event) = read {
                let event = renumbered(event, number, count, &self.clocks[number])?;
                next.push(Reverse((event.tsc, number)));
                held[number] = Some(event);
            }
        }
        Ok(lost)
    }
}

/// Returns true if both traces hold the same recording, or parts of it.
fn of_one_recording(one: &Trace, other: &Trace) -> bool {
    let began = |trace: &Trace| {
        let preamble = trace.preamble();
        (preamble.host.clone(), preamble.epoch_ns, preamble.epoch_tsc, preamble.command.clone())
    };
    // Imported traces may have no start time.
    one.preamble().epoch_ns != 0 && began(one) == began(other)
}

/// Returns why a trace is incomplete, if it has no such note itself.
fn missing(trace: &Trace, unread: u64) -> Option<String> {
    match (trace.totals().is_some(), unread) {
        (_, 1..) => Some(format!("{} could not be read", counted(unread, "block", "blocks"))),
        (false, 0) => Some("it was not ended".into()),
        (true, 0) if !trace.damage().is_empty() => Some("it is damaged".into()),
        (true, 0) => None,
    }
}

/// Returns the event with numbers and time stamps of the merged trace.
fn renumbered(
    mut event: Event,
    input: usize,
    inputs: usize,
    clock: &Clock,
) -> Result<Event, MergeError> {
    let renumber = |number: &mut u32| {
        // 0 stands for the recorder or for no thread.
        let Some(before) = number.checked_sub(1) else { return Ok(()) };
        let new = u64::from(before) * inputs as u64 + input as u64 + 1;
        let fits = u32::try_from(new).ok().filter(|new| new & CPU_STREAM == 0);
        *number = fits.ok_or(MergeError::TooManyThreads)?;
        Ok::<(), MergeError>(())
    };
    // Streams of CPUs are those of one machine.
    if event.thread & CPU_STREAM == 0 {
        renumber(&mut event.thread)?;
    }
    let old_tsc = event.tsc;
    event.tsc = clock.convert(old_tsc);
    for part in event.extras.iter_mut().flat_map(|extras| &mut extras.parts) {
        let (Some(row), PartValue::Number(value)) = (part.row(), &mut part.value) else { continue };
        match row.meaning {
            PartMeaning::Plain | PartMeaning::Buffer | PartMeaning::Buffers => {}
            PartMeaning::Process | PartMeaning::Thread => {
                let mut number = u32::try_from(*value).map_err(|_| MergeError::TooManyThreads)?;
                renumber(&mut number)?;
                *value = number.into();
            }
            PartMeaning::Duration => {
                let end = clock.convert(old_tsc.saturating_add(*value));
                *value = end.saturating_sub(event.tsc);
            }
            PartMeaning::Time => {
                let time = clock.convert(old_tsc.wrapping_add(unzigzag(*value) as u64));
                *value = zigzag(time.wrapping_sub(event.tsc) as i64);
            }
        }
    }
    match &mut event.kind {
        EventKind::Start { process, parent, .. } => {
            renumber(process)?;
            renumber(parent)?;
        }
        EventKind::State(state) => renumber(&mut state.process)?,
        EventKind::Exit { process, .. } => renumber(process)?,
        EventKind::Call(call) => {
            if let Outcome::Returned { exit_tsc, .. } = &mut call.outcome {
                *exit_tsc = clock.convert(*exit_tsc);
            }
        }
        _ => {}
    }
    Ok(event)
}
