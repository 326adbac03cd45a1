//! `reenact cut`: writes a part of a trace as a new trace.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use render::amounts::{counted, show_count};
use rewrite::{Cut, Kept};

use crate::failure::Failure;
use crate::{filter, message, nothing, output, progress, source};

/// Write the calls that match into a trace of their own.
///
/// The new trace says that it is a part, and of which trace. It notes what descriptors and directories
/// mean where the calls that changed them are left out, so that paths are shown as they were. A cut can
/// be shown, counted and exported; it can be replayed only where it has the calls that opened the
/// files, as with --context, or with --until alone.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact cut pgbench.rnt -o second.rnt --since 1s --until 2s
  reenact cut make.rnt -o compiler.rnt --pid 4711 --context
  reenact cut sqlite3.rnt -o journal.rnt --path '*-journal'")]
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

    /// Keep also the calls that open, copy and close descriptors, change directories, and make, exec
    /// and end tasks
    ///
    /// What other calls read and write is left out all the same: where a kept call reads what
    /// those wrote, a replay has other results, or is stuck waiting for it.
    #[arg(long)]
    context: bool,

    /// Do not report what was written
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    only: filter::Options,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let chosen = args.only.conditions()?;
    if chosen.accepts_all() {
        return Err(Failure::Usage("say what is to be kept: --since, --pid, --path ...".into()));
    }
    let trace = source::open(&args.trace)?;
    let (out, mut pending) =
        output::create(&args.output, args.force, &[&args.trace]).map_err(Failure::Failed)?;
    let conditions = conditions(&args);
    let preamble = rewrite::preamble(&trace, &format!("cut {conditions}"));
    let rewriter = rewrite::begin(Box::new(out), &preamble)?;
    let mut cut = Cut::new(&trace, rewriter, chosen.only_name_times());
    let with_context = args.context;
    let unread = progress::walk(&trace, &chosen, &mut |moment, wanted, _| {
        Ok(cut.event(moment, wanted, with_context)?)
    })?;
    let Kept { wanted, context, left_out } = cut.finish(&conditions, unread.count)?;
    pending.keep().map_err(Failure::Failed)?;
    if !args.quiet {
        let also = if context > 0 { format!(", {context} as context") } else { String::new() };
        let out = args.output.display();
        message::note(&format!(
            "{} kept{also}, {} left out -> {out}",
            counted(wanted, "call", "calls"),
            show_count(left_out)
        ));
    }
    if wanted == 0
        && let Some(hint) = nothing::hint(&trace, &chosen)
    {
        message::note(&hint);
    }
    source::tell_unread(&args.trace, &trace, &unread)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the conditions as given on the command line, for people.
fn conditions(args: &Args) -> String {
    let files = [args.trace.as_os_str(), args.output.as_os_str()];
    let about_files = ["cut", "-o", "--output", "-f", "--force", "-q", "--quiet"];
    let is_condition = |word: &OsString| {
        !files.contains(&word.as_os_str()) && !about_files.iter().any(|other| word == other)
    };
    let words = std::env::args_os().skip(1).filter(is_condition);
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub mod tests {
    use std::io::{self, Cursor, Write};
    use std::sync::{Arc, Mutex};

    use model::Conditions;
    use trace::{Rewriter, Trace, WriterOptions};

    use super::*;

    #[derive(Clone, Default)]
    struct InMemory(Arc<Mutex<Vec<u8>>>);

    impl Write for InMemory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no test panics here").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the trace that `write` makes of another one.
    pub fn rewritten(trace: &Trace, write: impl FnOnce(Rewriter)) -> Trace {
        let kept = InMemory::default();
        let options = WriterOptions { workers: 0, remembered: 1 << 10, ..WriterOptions::default() };
        let preamble = rewrite::preamble(trace, "for a test");
        write(Rewriter::new(Box::new(kept.clone()), &preamble, options).expect("it begins"));
        let bytes = kept.0.lock().expect("no test panics here").clone();
        Trace::from_stream(Cursor::new(bytes)).expect("what was written can be read")
    }

    /// Returns a part of a trace.
    pub fn part(trace: &Trace, conditions: &Conditions, with_context: bool) -> Trace {
        rewritten(trace, |rewriter| {
            let mut cut = Cut::new(trace, rewriter, conditions.only_name_times());
            let read = progress::walk(trace, conditions, &mut |moment, wanted, _| {
                Ok(cut.event(moment, wanted, with_context)?)
            });
            read.expect("memory takes everything");
            cut.finish("for a test", 0).expect("memory takes everything");
        })
    }

    #[test]
    fn a_part_is_sound_but_not_complete() {
        use crate::sample::{End, trace};
        let whole = Trace::from_stream(std::io::Cursor::new(trace(End::Whole))).unwrap();
        let failed = Conditions { failed: true, ..Conditions::default() };
        let report = part(&whole, &failed, false).verify();
        assert!(report.sound() && !report.complete, "{report:?}");
        assert!(report.calls > 0 && report.calls < whole.completeness().calls);
        assert!(part(&whole, &failed, true).verify().calls > report.calls);
    }
}
