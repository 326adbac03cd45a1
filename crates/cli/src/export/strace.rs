//! Text in the format of strace.

use std::io::BufWriter;

use strace::write::Lines;
use trace::event::EventKind;

use super::job::{Job, Written, is_call};
use crate::failure::Failure;

/// Writes one line per call, or two if others come between.
pub fn export(job: &Job<'_>) -> Result<Written, Failure> {
    let out = BufWriter::with_capacity(1 << 16, job.create(job.to)?);
    let mut lines = Lines::new(out, job.trace.preamble().epoch_ns, job.content);
    let mut written = Written::default();
    let (mut gaps, mut stalls, mut kernel) = (0u64, 0u64, 0u64);
    written.unread = job.each(&mut |moment, wanted, contents| {
        lines.event(moment, wanted, contents)?;
        written.calls += u64::from(wanted && is_call(moment));
        gaps += u64::from(matches!(moment.event.kind, EventKind::Gap { .. }));
        stalls += u64::from(matches!(moment.event.kind, EventKind::Stall { .. }));
        kernel += u64::from(matches!(moment.event.kind, EventKind::Kernel(_)));
        Ok(())
    })?;
    lines.finish()?;
    for (count, what) in [
        (gaps, "notes of what the recording itself misses"),
        (stalls, "notes of waiting for the recorder"),
        (kernel, "events of the kernel"),
    ] {
        if count > 0 {
            written.left_out.push(format!("{count} {what}"));
        }
    }
    Ok(written)
}
