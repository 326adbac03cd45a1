//! `reenact cut`: writes a part of a trace as a new trace.

mod births;
mod parts;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use model::unseen::Unseen;
use model::{Moment, Stored};
use trace::event::{Event, EventKind, GapWhy, RECORDER};
use trace::sources::Source;
use trace::{Rewriter, Trace, WriteError};

use crate::derived::{begin, preamble, written};
use crate::failure::{self, Failure};
use crate::{export, filter, output, source};
use parts::Parts;

/// Write the calls that fit into a trace of their own.
///
/// It says in itself that it is a part, and of what. What descriptors and directories mean is told
/// where the calls that changed them are left out, so that paths are shown as they were. A cut can
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
    #[arg(long)]
    force: bool,

    /// Keep also the calls that open, copy and close descriptors, change directories, and make, exec
    /// and end tasks
    ///
    /// What other calls read and write is left out all the same: where a kept call reads what
    /// those wrote, a replay has other results, or is stuck waiting for it.
    #[arg(long)]
    context: bool,

    /// Say nothing about what was written
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    only: filter::Options,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let filter = args.only.filter();
    if filter.accepts_all() {
        return Err(Failure::Usage("say what is to be kept: --since, --pid, --path ...".into()));
    }
    let trace = source::open(&args.trace)?;
    let (out, mut pending) =
        output::create(&args.output, args.force, &[&args.trace]).map_err(Failure::Failed)?;
    let conditions = conditions(&args);
    let rewriter = begin(out, &preamble(&trace, &format!("cut {conditions}")))?;
    let mut cut = Cut::new(&trace, rewriter);
    let with_context = args.context;
    let unread = export::each(&trace, &filter, &mut |moment, wanted, _| {
        cut.event(moment, wanted, with_context).map_err(|error| written(&error))
    })?;
    let (kept, context) = (cut.kept, cut.context);
    let left_out = cut.finish(&conditions, unread.count).map_err(|error| written(&error))?;
    pending.keep().map_err(Failure::Failed)?;
    if !args.quiet {
        let also = if context > 0 { format!(", {context} as context") } else { String::new() };
        let out = args.output.display();
        failure::tell(&format!("reenact: {kept} calls kept{also}, {left_out} left out -> {out}"));
    }
    source::tell_unread(&args.trace, &trace, &unread)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the conditions as given on the command line, for people.
fn conditions(args: &Args) -> String {
    let files = [args.trace.as_os_str(), args.output.as_os_str()];
    let about_files = ["cut", "-o", "--output", "--force", "-q", "--quiet"];
    let is_condition = |word: &OsString| {
        !files.contains(&word.as_os_str()) && !about_files.iter().any(|other| word == other)
    };
    let words = std::env::args_os().skip(1).filter(is_condition);
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// A cut being written.
struct Cut<'a> {
    trace: &'a Trace,
    rewriter: Rewriter,
    parts: Parts,
    /// Number of calls that match the conditions.
    kept: u64,
    /// Number of other calls kept as context.
    context: u64,
    /// Kernel copies made by kept calls.
    copies: Unseen,
}

impl<'a> Cut<'a> {
    fn new(trace: &'a Trace, rewriter: Rewriter) -> Cut<'a> {
        let (parts, copies) = (Parts::default(), Unseen::new());
        Cut { trace, rewriter, parts, kept: 0, context: 0, copies }
    }

    fn event(
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
                    return Ok(());
                }
                self.kept += u64::from(wanted);
                self.context += u64::from(context);
                for needed in self.parts.needed(moment, Some(call)) {
                    self.write(&needed)?;
                }
                self.copies.event(event, moment.world, &mut Stored(self.trace));
                self.write(event)
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
            EventKind::Gap { .. } if event.thread == RECORDER && wanted => self.write(event),
            EventKind::Signal { .. } | EventKind::Stall { .. } | EventKind::Gap { .. } => {
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

    /// Adds a note on what the trace is, and finishes it. Returns the number of calls left out.
    fn finish(mut self, conditions: &str, unread: u64) -> Result<u64, WriteError> {
        let all: u64 = self.trace.blocks().iter().map(|head| u64::from(head.calls)).sum();
        let kept = self.kept + self.context;
        let left_out = all.saturating_sub(kept);
        let mut text = format!("{kept} of {all} calls; {conditions}");
        if unread > 0 {
            text.push_str(&format!("; {unread} blocks could not be read"));
        }
        let kind = EventKind::Gap { why: GapWhy::Cut, detail: left_out, text };
        // Keep the files that kept calls copied from; others would show changes by calls left out.
        if unread == 0 {
            let is_copied =
                |source: &Source| source.names.iter().any(|n| self.copies.copied_from(n));
            self.rewriter.sources(&[(0, self.trace)], &is_copied)?;
        }
        let tsc = self.rewriter.last_tsc();
        self.write(&Event { thread: RECORDER, tsc, kind })?;
        self.rewriter.finish(self.trace.tsc_hz())?;
        Ok(left_out)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::derived::tests::in_memory;
    use crate::filter::Filter;

    /// Returns a part of a trace.
    pub fn part(trace: &Trace, filter: &Filter, with_context: bool) -> Trace {
        in_memory(trace, |rewriter| {
            let mut cut = Cut::new(trace, rewriter);
            let read = export::each(trace, filter, &mut |moment, wanted, _| {
                cut.event(moment, wanted, with_context).map_err(|error| written(&error))
            });
            read.expect("memory takes everything");
            cut.finish("for a test", 0).expect("memory takes everything");
        })
    }

    #[test]
    fn a_part_is_sound_but_not_complete() {
        use crate::sample::{End, trace};
        let whole = Trace::from_stream(std::io::Cursor::new(trace(End::Whole))).unwrap();
        let filter = Filter { failed: true, ..Filter::default() };
        let report = part(&whole, &filter, false).verify();
        assert!(report.sound() && !report.complete, "{report:?}");
        assert!(report.calls > 0 && report.calls < whole.completeness().calls);
        assert!(part(&whole, &filter, true).verify().calls > report.calls);
    }
}
