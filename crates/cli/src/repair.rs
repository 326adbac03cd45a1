//! `reenact repair`: writes the readable parts of a damaged or truncated trace as a sound one.

use std::path::PathBuf;
use std::process::ExitCode;

use trace::event::{Event, EventKind, GapWhy, RECORDER};
use trace::{Finished, ReadError, Report, Rewriter, Trace, WriteError};

use crate::derived::{begin, preamble, written};
use crate::failure::{self, Failure};
use crate::progress::Progress;
use crate::{output, source, units};

/// Write what can be read of a damaged or truncated trace into a sound one, with index and end.
///
/// It says in itself what was lost: `reenact info` tells.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact repair postgres.rnt -o repaired.rnt && reenact info repaired.rnt --verify")]
pub struct Args {
    /// The trace; `-` for standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// The trace that is written; `-` for standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// Replace what is there
    #[arg(long)]
    force: bool,

    /// Say nothing about what was lost
    #[arg(short, long)]
    quiet: bool,
}

/// Limit for the errors that are printed.
const ERRORS_SHOWN: u64 = 20;

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let name = args.trace.display();
    let trace = source::open(&args.trace)?;
    let mut report = trace.completeness();
    if report.problems.is_empty() && trace.totals().is_some() {
        // The block heads agree: check the content as well.
        report = trace.verify();
        if report.problems.is_empty() {
            return Err(Failure::Failed(format!("{name} is sound: there is nothing to repair")));
        }
    }
    let (out, mut pending) =
        output::create(&args.output, args.force, &[&args.trace]).map_err(Failure::Failed)?;
    let rewriter = begin(out, &preamble(&trace, "repaired"))?;
    let mut errors = 0;
    let repaired = rewrite(&trace, &report, rewriter, &mut |error| {
        errors += 1;
        if errors <= ERRORS_SHOWN && !args.quiet {
            failure::warn(&format!("{name}: {error}"));
        }
    });
    let (finished, lost) = repaired.map_err(|error| written(&error))?;
    pending.keep().map_err(Failure::Failed)?;
    if !args.quiet {
        for warning in source::warnings(&trace) {
            failure::warn(&format!("{name}: {warning}"));
        }
        let (calls, out) = (finished.calls, args.output.display());
        failure::tell(&format!("reenact: {calls} calls kept; lost: {lost} -> {out}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes all readable events and a note on what was lost. Returns the note's text, too.
fn rewrite(
    trace: &Trace,
    report: &Report,
    mut rewriter: Rewriter,
    tell: &mut dyn FnMut(&ReadError),
) -> Result<(Finished, String), WriteError> {
    let progress = Progress::new(trace, 1);
    let mut unread = 0;
    for next in trace.events() {
        progress.advance(1);
        match next {
            Ok(next) => rewriter.event(trace, 0, &next.event)?,
            Err(error) => {
                unread += 1;
                tell(&error);
            }
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
    let text = Lost { unread, calls, buffers, manifest: !manifest }.text(trace);
    let kind = EventKind::Gap { why: GapWhy::Repaired, detail: calls, text: text.clone() };
    let tsc = rewriter.last_tsc();
    rewriter.event(trace, 0, &Event { thread: RECORDER, tsc, kind })?;
    Ok((rewriter.finish(trace.tsc_hz())?, text))
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
            (bytes > 0)
                .then(|| format!("{} in {} stretches", units::show_size(bytes), damage.len())),
            (self.unread > 0).then(|| format!("{} blocks that could not be read", self.unread)),
            (self.calls > 0).then(|| format!("at least {} calls", self.calls)),
            (self.buffers > 0).then(|| format!("the bytes of {} buffers", self.buffers)),
            self.manifest.then(|| "what the changed files were in the end".to_string()),
            trace.totals().is_none().then(|| "whatever came after the last block".to_string()),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        if all.is_empty() { "nothing but counts that did not agree".into() } else { all.join(", ") }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Repairs a trace into memory; `None` if it is complete.
    pub fn repair(trace: &Trace) -> Option<Trace> {
        let report = trace.verify();
        if report.complete {
            return None;
        }
        let repaired = crate::derived::tests::in_memory(trace, |rewriter| {
            rewrite(trace, &report, rewriter, &mut |_| {}).expect("memory takes everything");
        });
        Some(repaired)
    }

    #[test]
    fn a_lost_end_is_made_good() {
        use crate::sample::{End, trace};
        let lost = Trace::from_stream(std::io::Cursor::new(trace(End::Lost))).unwrap();
        let repaired = repair(&lost).expect("it has no end");
        let report = repaired.verify();
        assert!(report.sound() && !report.complete, "{report:?}");
        assert_eq!(report.calls, lost.completeness().calls);
        assert!(repair(&repaired).is_some_and(|again| again.verify().sound()));
    }
}
