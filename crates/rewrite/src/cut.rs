//! A part of a trace.

mod births;
mod parts;

use std::collections::{HashMap, HashSet};

use crate::counted;
use model::kernel_devices::KernelDevice;
use model::kernel_tasks::{KernelScope, KernelTask, Missing};
use model::unseen::Unseen;
use model::user_time;
use model::{Moment, Stored};
use trace::event::{Event, EventKind, GapWhy, RECORDER};
use trace::sources::Source;
use trace::{Rewriter, Trace, WriteError};

use parts::Parts;

/// How many calls a part of a trace has.
#[derive(Clone, Copy, Default, Debug)]
pub struct Kept {
    /// Calls that were wanted.
    pub wanted: u64,
    /// Other calls, kept as context.
    pub context: u64,
    /// Calls that are not in it.
    pub left_out: u64,
}

/// A part of a trace, being written.
pub struct Cut<'a> {
    trace: &'a Trace,
    rewriter: Rewriter,
    parts: Parts,
    /// Threads whose call before was left out.
    interrupted: HashSet<u32>,
    kept: Kept,
    /// Kernel copies made by kept calls.
    copies: Unseen,
    /// All between two moments is wanted.
    is_of_time: bool,
    /// Events of the kernel that were left out since the last one that was kept, by CPU.
    unseen: HashMap<u32, u64>,
}

impl<'a> Cut<'a> {
    /// Begins with nothing. `is_of_time`: all between two moments will be wanted.
    pub fn new(trace: &'a Trace, rewriter: Rewriter, is_of_time: bool) -> Cut<'a> {
        let (parts, copies) = (Parts::default(), Unseen::new());
        let (interrupted, unseen) = (HashSet::new(), HashMap::new());
        let kept = Kept::default();
        Cut { trace, rewriter, parts, interrupted, kept, copies, is_of_time, unseen }
    }

    /// Takes the next event of the trace, which is in the part if it is wanted, or with
    /// `with_context` if it tells what others mean.
    pub fn event(
        &mut self,
        moment: &Moment<'_>,
        wanted: bool,
        with_context: bool,
    ) -> Result<(), WriteError> {
        let event = moment.event;
        self.parts.note(moment);
        match &event.kind {
            EventKind::Call(call) => {
                let context = with_context && !wanted && parts::is_context(moment, call);
                if !wanted && !context {
                    self.parts.left_out(moment);
                    self.interrupted.insert(event.thread);
                    return Ok(());
                }
                self.kept.wanted += u64::from(wanted);
                self.kept.context += u64::from(context);
                for needed in self.parts.needed(moment, Some(call)) {
                    self.write(&needed)?;
                }
                self.copies.event(event, moment.world, &mut Stored(self.trace));
                if !self.interrupted.remove(&event.thread) {
                    return self.write(event);
                }
                let mut alone = event.clone();
                user_time::set(&mut alone, moment.user_ns);
                self.write(&alone)
            }
            EventKind::Start { .. } | EventKind::Image { .. } => {
                // Written with the first kept event of the thread, or now if there was one.
                if self.parts.is_shown(event) { self.write(event) } else { Ok(()) }
            }
            EventKind::State(_) | EventKind::Exit { .. } | EventKind::End { .. } => {
                let shown = self.parts.is_shown(event);
                self.parts.ended(event);
                if shown { self.write(event) } else { Ok(()) }
            }
            // Events that are kept may name any of them.
            EventKind::KernelLayout(_) => self.write(event),
            EventKind::Other(other)
                if KernelTask::of(other).is_some() || KernelDevice::of(other).is_some() =>
            {
                self.write(event)
            }
            EventKind::Other(other) if let Some(scope) = KernelScope::of(other) => {
                let missing = if self.is_of_time { scope.missing } else { Missing::Switches };
                let scope = KernelScope { missing, ..scope }.event(other.row);
                self.write(&Event::new(event.thread, event.tsc, EventKind::Other(scope)))
            }
            EventKind::Kernel(_) if !wanted => {
                *self.unseen.entry(event.thread).or_default() += 1;
                Ok(())
            }
            EventKind::Kernel(_) => {
                if let Some(detail) = self.unseen.remove(&event.thread) {
                    let kind = EventKind::Gap { why: GapWhy::Cut, detail, text: String::new() };
                    self.write(&Event::new(event.thread, event.tsc, kind))?;
                }
                self.write(event)
            }
            EventKind::Gap { .. } if event.thread == RECORDER && wanted => self.write(event),
            EventKind::Signal { .. }
            | EventKind::Stall { .. }
            | EventKind::Gap { .. }
            | EventKind::Other(_)
            | EventKind::Unknown(_) => {
                if !wanted {
                    return Ok(());
                }
                for needed in self.parts.needed(moment, None) {
                    self.write(&needed)?;
                }
                self.write(event)
            }
        }
    }

    fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        self.rewriter.event(self.trace, 0, event)
    }

    /// Adds a note on what the trace is, and finishes it. `unread`: the number of blocks that could
    /// not be read.
    pub fn finish(mut self, conditions: &str, unread: u64) -> Result<Kept, WriteError> {
        let all: u64 = self.trace.blocks().iter().map(|head| u64::from(head.calls)).sum();
        let kept = self.kept.wanted + self.kept.context;
        let left_out = all.saturating_sub(kept);
        let mut text = format!("{kept} of {}; {conditions}", counted(all, "call", "calls"));
        if unread > 0 {
            text.push_str(&format!("; {} could not be read", counted(unread, "block", "blocks")));
        }
        let kind = EventKind::Gap { why: GapWhy::Cut, detail: left_out, text };
        // Keep the files that kept calls copied from; others would show changes by calls left out.
        if unread == 0 {
            let is_copied =
                |source: &Source| source.names.iter().any(|n| self.copies.copied_from(n));
            self.rewriter.sources(&[(0, self.trace)], &is_copied)?;
        }
        let tsc = self.rewriter.last_tsc();
        self.write(&Event::new(RECORDER, tsc, kind))?;
        self.rewriter.finish(self.trace.tsc_hz())?;
        Ok(Kept { left_out, ..self.kept })
    }
}
