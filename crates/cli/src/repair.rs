//! `reenact repair`: writes the readable parts of a damaged or truncated trace as a sound one.

use std::path::PathBuf;
use std::process::ExitCode;

use render::amounts::counted;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::{message, output, source};

/// Write what can be read of a damaged or truncated trace into a sound one, with index and end.
///
/// The new trace says what was lost; `reenact info` shows it.
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
    #[arg(short, long)]
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
    let Some(report) = rewrite::what_is_wrong(&trace) else {
        return Err(Failure::Failed(format!("{name} is sound: there is nothing to repair")));
    };
    let (out, mut pending) =
        output::create(&args.output, args.force, &[&args.trace]).map_err(Failure::Failed)?;
    let rewriter = rewrite::begin(Box::new(out), &rewrite::preamble(&trace, "repaired"))?;
    let mut errors = 0;
    let progress = Progress::new(&trace, 1);
    let repaired = rewrite::repair(&trace, &report, rewriter, &mut |error| {
        progress.advance(1);
        let Some(error) = error else { return };
        errors += 1;
        if errors <= ERRORS_SHOWN && !args.quiet {
            message::warn(&format!("{name}: {error}"));
        }
    })?;
    drop(progress);
    pending.keep().map_err(Failure::Failed)?;
    if !args.quiet {
        for warning in source::warnings(&trace) {
            message::warn(&format!("{name}: {warning}"));
        }
        let (rewrite::Repaired { calls, lost }, out) = (repaired, args.output.display());
        message::note(&format!("{} kept; lost: {lost} -> {out}", counted(calls, "call", "calls")));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
pub mod tests {
    use trace::Trace;

    use crate::cut::tests::rewritten;

    /// Repairs a trace into memory; `None` if it is complete.
    pub fn repair(trace: &Trace) -> Option<Trace> {
        let report = trace.verify();
        if report.complete {
            return None;
        }
        let repaired = rewritten(trace, |rewriter| {
            let done = rewrite::repair(trace, &report, rewriter, &mut |_| {});
            done.expect("memory takes everything");
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
