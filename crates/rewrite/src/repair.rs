//! The readable parts of a damaged or truncated trace as a sound one.

use crate::counted;
use trace::event::{Event, EventKind, GapWhy, RECORDER};
use trace::{ReadError, Report, Rewriter, Trace, WriteError};

/// What was repaired.
pub struct Repaired {
    /// Number of calls that were kept.
    pub calls: u64,
    /// What was lost, for people.
    pub lost: String,
}

/// Looks for what is to be repaired; `None` if a trace is sound and has its end.
pub fn what_is_wrong(trace: &Trace) -> Option<Report> {
    let mut report = trace.completeness();
    if report.problems.is_empty() && trace.totals().is_some() {
        // The block heads agree: check the content as well.
        report = trace.verify();
        if report.problems.is_empty() {
            return None;
        }
    }
    Some(report)
}

/// Writes all readable events and a note on what was lost. `seen` is called for each event, and
/// with the error for each block that cannot be read.
pub fn repair(
    trace: &Trace,
    report: &Report,
    mut rewriter: Rewriter,
    seen: &mut dyn FnMut(Option<&ReadError>),
) -> Result<Repaired, WriteError> {
    let mut unread = 0;
    for next in trace.events() {
        seen(next.as_ref().err());
        match next {
            Ok(next) => rewriter.event(trace, 0, &next.event)?,
            Err(_) => unread += 1,
        }
    }
    let manifest = rewriter.manifest(trace)?;
    let announced: u64 = trace.blocks().iter().map(|head| u64::from(head.calls)).sum();
    let unread_calls = announced.saturating_sub(rewriter.calls());
    let calls = report.lost.saturating_add(unread_calls);
    // Final file contents stand for copied data only if no events are missing.
    if unread == 0 && calls == 0 {
        rewriter.sources(&[(0, trace)], &|_| true)?;
    }
    let buffers = rewriter.buffers_lost();
    let lost = Lost { unread, calls, buffers, manifest: !manifest }.text(trace);
    let kind = EventKind::Gap { why: GapWhy::Repaired, detail: calls, text: lost.clone() };
    let tsc = rewriter.last_tsc();
    rewriter.event(trace, 0, &Event::new(RECORDER, tsc, kind))?;
    Ok(Repaired { calls: rewriter.finish(trace.tsc_hz())?.calls, lost })
}

/// Summary of what the repaired trace lacks.
struct Lost {
    /// Number of blocks that could not be read.
    unread: u64,
    /// Number of calls known to be missing.
    calls: u64,
    buffers: u64,
    manifest: bool,
}

impl Lost {
    /// Describes the loss for people.
    fn text(&self, trace: &Trace) -> String {
        let damage = trace.damage();
        let bytes: u64 = damage.iter().map(|damage| damage.bytes).sum();
        let all = [
            (bytes > 0).then(|| {
                let places = counted(damage.len() as u64, "place", "places");
                format!("{} in {places}", counted(bytes, "byte", "bytes"))
            }),
            (self.unread > 0).then(|| {
                format!("{} that could not be read", counted(self.unread, "block", "blocks"))
            }),
            (self.calls > 0).then(|| format!("at least {}", counted(self.calls, "call", "calls"))),
            (self.buffers > 0)
                .then(|| format!("the bytes of {}", counted(self.buffers, "buffer", "buffers"))),
            self.manifest.then(|| "what the changed files were in the end".to_string()),
            trace.totals().is_none().then(|| "whatever came after the last block".to_string()),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        if all.is_empty() { "nothing but counts that did not agree".into() } else { all.join(", ") }
    }
}
