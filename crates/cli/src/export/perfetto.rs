//! Perfetto: a track per thread with its calls as slices, flows between them, and counters.

use std::io::BufWriter;

use perfetto_export::Exporter;
use trace::Trace;

use super::job::{Job, Written};
use crate::failure::Failure;

/// Exports to a Perfetto trace.
pub fn export(job: &Job<'_>) -> Result<Written, Failure> {
    let out = BufWriter::with_capacity(1 << 16, job.create(job.to)?);
    let mut exporter = Exporter::new(out, span_ns(job.trace));
    let unread = job.each(&mut |moment, wanted, contents| {
        exporter.event(moment, wanted, contents).map_err(Failure::from)
    })?;
    let calls = exporter.finish()?;
    let left_out = vec!["the bytes of buffers: details have their addresses".to_string()];
    Ok(Written { calls, left_out, unread })
}

/// Returns the duration of a recording.
fn span_ns(trace: &Trace) -> u64 {
    let last_tsc = trace.blocks().iter().map(|head| head.last_tsc).max();
    model::clock(trace)(last_tsc.unwrap_or(0))
}

#[cfg(test)]
pub mod tests {
    use std::io;

    use super::*;
    use crate::progress;
    use model::Conditions;

    /// Exports all of a trace into memory. Returns the number of calls.
    pub fn draw(trace: &Trace) -> u64 {
        let mut bytes = Vec::new();
        let mut exporter = Exporter::new(&mut bytes, span_ns(trace));
        let drawn =
            progress::walk(trace, &Conditions::default(), &mut |moment, wanted, contents| {
                exporter.event(moment, wanted, contents).map_err(Failure::from)
            });
        drawn.expect("memory takes everything");
        exporter.finish().expect("memory takes everything")
    }

    #[test]
    fn every_call_is_a_slice() {
        use crate::sample::{End, trace};
        let trace = Trace::from_stream(io::Cursor::new(trace(End::Gap))).unwrap();
        assert_eq!(draw(&trace), trace.totals().unwrap().calls_made);
    }
}
