//! The table printed by `bench record`.

use std::fmt;

use super::measure::Sample;

/// The head of the table.
pub const HEAD: &str = "\
workload                 untraced    recorded   mark      CPU   strace      CPU    calls  trace/data   user, system s
                               s       x wall      x        x        x        x        k              untraced, recorded";

/// A row: one workload.
pub struct Row {
    /// Name of the workload.
    pub name: &'static str,
    /// Mark: cost of recording relative to untraced.
    pub mark: Option<f64>,
    /// Mark: size of the trace relative to the data bytes.
    pub size_mark: Option<f64>,
    /// Figures untraced.
    pub alone: Sample,
    /// Figures recorded.
    pub recorded: Sample,
    /// Figures under strace.
    pub straced: Option<Sample>,
    /// strace was cut off: its real cost is larger.
    pub strace_cut: bool,
    /// Number of calls recorded.
    pub calls: f64,
    /// Bytes in buffers.
    pub data_bytes: f64,
    /// Size of the trace in bytes.
    pub trace_bytes: f64,
    /// Total time that threads waited for the recorder.
    pub stall_ns: f64,
}

impl Row {
    fn wall(&self) -> f64 {
        self.recorded.cost / self.alone.cost
    }

    fn size(&self) -> f64 {
        self.trace_bytes / self.data_bytes.max(1.0)
    }

    /// Returns the marks that it misses.
    pub fn misses(&self) -> Vec<String> {
        let mut missed = Vec::new();
        if let Some(mark) = self.mark.filter(|mark| self.wall() > *mark) {
            missed.push(format!("{}: {:.2}, the mark is {mark:.2}", self.name, self.wall()));
        }
        if let Some(mark) = self.size_mark.filter(|mark| self.size() > *mark) {
            let size = self.size();
            missed.push(format!("{}: trace/data {size:.2}, the mark is {mark:.2}", self.name));
        }
        missed
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratio = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
        let more = |value: Option<f64>| match value {
            Some(value) if self.strace_cut => format!(">{value:.1}"),
            value => ratio(value),
        };
        let cpu = |sample: &Sample| sample.cpu_s() / self.alone.cpu_s().max(0.001);
        write!(
            f,
            "{:<22} {:>10.4} {:>11.2} {:>6} {:>8.2} {:>8} {:>8} {:>8.0} {:>11.3}  {:>5.2} {:>5.2}, {:>5.2} {:>5.2}",
            self.name,
            self.alone.cost,
            self.wall(),
            ratio(self.mark),
            cpu(&self.recorded),
            more(self.straced.map(|sample| sample.cost / self.alone.cost)),
            more(self.straced.as_ref().map(cpu)),
            self.calls / 1e3,
            self.size(),
            self.alone.user_s,
            self.alone.system_s,
            self.recorded.user_s,
            self.recorded.system_s,
        )?;
        if self.stall_ns > 1e6 {
            write!(f, "  stalled {:.0} ms", self.stall_ns / 1e6)?;
        }
        if !self.misses().is_empty() {
            write!(f, "  MISSED")?;
        }
        Ok(())
    }
}
