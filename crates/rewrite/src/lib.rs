//! Traces made of other traces: a part of one, several of one run merged, a damaged one repaired.

mod cut;
mod merge;
mod repair;

use std::io::Write;

use trace::event::Preamble;
use trace::{Rewriter, Trace, WriteError, WriterOptions};

pub use cut::{Cut, Kept};
pub use merge::{Input, Merge, MergeError, Merged, OfOneRecording, TRACES_MAX};
pub use repair::{Repaired, repair, what_is_wrong};

/// A number of things, as notes in a trace say it.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Begins a trace made of others.
pub fn begin(out: Box<dyn Write + Send>, preamble: &Preamble) -> Result<Rewriter, WriteError> {
    Rewriter::new(out, preamble, WriterOptions::default())
}

/// The preamble of a trace made of another one, which says how.
pub fn preamble(trace: &Trace, how: &str) -> Preamble {
    let mut preamble = trace.preamble().clone();
    // The device of the new trace is another one.
    preamble.trace_dev = 0;
    let join = if preamble.options.is_empty() { "" } else { "; " };
    preamble.options = format!("{}{join}{how}", preamble.options);
    preamble
}
