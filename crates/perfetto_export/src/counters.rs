//! Counters over time: bytes per second, and open descriptors per process.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};

use model::Moment;

use crate::tasks::track;
use crate::writer::{Unit, Writer};

/// Approximate number of steps of a recording ...
const STEPS: u64 = 1000;
/// ... within these limits of their length.
const STEP_NS_MIN: u64 = 1_000_000;
const STEP_NS_MAX: u64 = 1_000_000_000;

/// Bytes read and written per second.
pub struct Rates {
    step_ns: u64,
    read: Rate,
    written: Rate,
}

struct Rate {
    track: u64,
    name: &'static str,
    shown: bool,
    step: u64,
    bytes: u64,
}

impl Rates {
    /// Makes counters for a recording of this duration.
    pub fn new(span_ns: u64) -> Rates {
        let rate = |track, name| Rate { track, name, shown: false, step: 0, bytes: 0 };
        Rates {
            step_ns: (span_ns / STEPS).clamp(STEP_NS_MIN, STEP_NS_MAX),
            read: rate(track::BYTES_READ, "bytes read per second"),
            written: rate(track::BYTES_WRITTEN, "bytes written per second"),
        }
    }

    /// Counts moved bytes. Times must ascend.
    pub fn add<W: Write>(
        &mut self,
        out: &mut Writer<W>,
        at_ns: u64,
        read: u64,
        written: u64,
    ) -> io::Result<()> {
        let step_ns = self.step_ns;
        for (rate, bytes) in [(&mut self.read, read), (&mut self.written, written)] {
            if bytes > 0 {
                rate.add(out, at_ns / step_ns, bytes, step_ns)?;
            }
        }
        Ok(())
    }

    /// Writes the values of the last steps.
    pub fn finish<W: Write>(&mut self, out: &mut Writer<W>) -> io::Result<()> {
        for rate in [&mut self.read, &mut self.written] {
            if rate.shown {
                rate.end(out, self.step_ns)?;
                out.counter(rate.track, (rate.step + 1).saturating_mul(self.step_ns), 0)?;
            }
        }
        Ok(())
    }
}

impl Rate {
    fn add<W: Write>(
        &mut self,
        out: &mut Writer<W>,
        step: u64,
        bytes: u64,
        step_ns: u64,
    ) -> io::Result<()> {
        if !self.shown {
            self.shown = true;
            self.step = step;
            out.track(self.track, None, self.name, Some(Unit::Bytes))?;
        }
        if step > self.step {
            self.end(out, step_ns)?;
            if step > self.step + 1 {
                out.counter(self.track, (self.step + 1).saturating_mul(step_ns), 0)?;
            }
            self.step = step;
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Writes the value of a step, at the start time of the step.
    fn end<W: Write>(&self, out: &mut Writer<W>, step_ns: u64) -> io::Result<()> {
        let per_second = u128::from(self.bytes) * 1_000_000_000 / u128::from(step_ns);
        let value = u64::try_from(per_second).unwrap_or(u64::MAX).min(i64::MAX as u64);
        out.counter(self.track, self.step.saturating_mul(step_ns), value)
    }
}

/// Limit for the pending changes.
const CHANGES_MAX: usize = 1024;

/// Number of open descriptors of each process.
#[derive(Default)]
pub struct OpenDescriptors {
    processes: BTreeMap<u32, Open>,
    /// Pending changes: time of effect, process, and thread.
    changes: VecDeque<(u64, u32, u32)>,
}

#[derive(Default)]
struct Open {
    shown: bool,
    count: Option<usize>,
}

impl OpenDescriptors {
    /// Writes the counter's track of a process.
    pub fn show<W: Write>(&mut self, process: u32, out: &mut Writer<W>) -> io::Result<()> {
        self.processes.entry(process).or_default().shown = true;
        let parent = Some(track::process(process));
        out.track(track::descriptors(process), parent, "open descriptors", Some(Unit::Count))
    }

    /// Records that an event changes the descriptors of a process at a time.
    pub fn changed(&mut self, moment: &Moment<'_>, process: u32, at_ns: u64) {
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back((at_ns, process, moment.event.thread));
    }

    /// Writes the counts of processes whose changes have taken effect.
    pub fn look<W: Write>(&mut self, moment: &Moment<'_>, out: &mut Writer<W>) -> io::Result<()> {
        for _ in 0..self.changes.len() {
            let Some(change) = self.changes.pop_front() else { break };
            let (at_ns, process, thread) = change;
            if at_ns > moment.enter_ns {
                self.changes.push_back(change);
                continue;
            }
            let Some(table) = moment.world.descriptors(thread) else { continue };
            let count = table.len();
            let open = self.processes.entry(process).or_default();
            if open.shown && open.count != Some(count) {
                open.count = Some(count);
                out.counter(track::descriptors(process), at_ns, count as u64)?;
            }
        }
        Ok(())
    }

    /// Ends the counter of a process.
    pub fn exit<W: Write>(
        &mut self,
        process: u32,
        at_ns: u64,
        out: &mut Writer<W>,
    ) -> io::Result<()> {
        self.changes.retain(|(_, changed, _)| *changed != process);
        match self.processes.remove(&process) {
            Some(open) if open.count.is_some() => {
                out.counter(track::descriptors(process), at_ns, 0)
            }
            _ => Ok(()),
        }
    }
}
