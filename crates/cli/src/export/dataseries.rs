//! DataSeries: SNIA's system-call schema, with our own record types for the rest.

use std::io::ErrorKind;

use dataseries::{Codec, Exporter};
use model::Stored;
use trace::event::{Event, EventKind, Outcome};

use super::job::{Job, Written};
use crate::failure::Failure;
use crate::progress::Progress;

/// Options of this format.
#[derive(clap::Args, Debug)]
#[group(skip)]
#[command(next_help_heading = "Options of dataseries")]
pub struct Options {
    /// How records are packed [default: lzf]
    #[arg(long, value_enum, value_name = "HOW")]
    compress: Option<Compress>,
}

impl Options {
    /// Returns an option that was given.
    pub fn given(&self) -> Option<&'static str> {
        self.compress.map(|_| "--compress")
    }
}

/// How records are packed; every reader of DataSeries has these ways.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compress {
    /// Not at all
    None,
    /// Fast
    Lzf,
    /// Small
    Zlib,
}

impl Compress {
    fn codec(self) -> Codec {
        match self {
            Compress::None => Codec::None,
            Compress::Lzf => Codec::Lzf,
            Compress::Zlib => Codec::Zlib,
        }
    }
}

/// Exports to a DataSeries file.
pub fn export(job: &Job<'_>, options: &Options) -> Result<Written, Failure> {
    let fail = |error: dataseries::Error| match error {
        dataseries::Error::Io { source, .. } if source.kind() == ErrorKind::BrokenPipe => {
            Failure::BrokenPipe
        }
        dataseries::Error::Trace(what) => Failure::Failed(format!(
            "{}: {what}; `reenact repair` makes a sound trace of what is left",
            job.from.display()
        )),
        error => Failure::Failed(format!("{}: {error}", job.to.display())),
    };
    let out = job.create(job.to)?;
    let content = job.content;
    let codec = options.compress.unwrap_or(Compress::Lzf).codec();
    let mut exporter = Exporter::new(Box::new(out), job.trace, codec, content).map_err(fail)?;
    let mut written = Written::default();
    let mut stored = Stored(job.trace);
    if job.conditions.needs_world() {
        written.unread = job.each(&mut |moment, wanted, contents| {
            let is_call = matches!(moment.event.kind, EventKind::Call(_));
            if wanted || !is_call {
                return exporter.event(moment.event.clone(), contents).map_err(fail);
            }
            exporter.skip(Some(moment.event.thread));
            Ok(())
        })?;
        exporter.skip(None);
    } else {
        let clock = model::clock(job.trace);
        let progress = Progress::new(job.trace, 1);
        for next in job.trace.events() {
            progress.advance(1);
            match next {
                Ok(next) if job.conditions.is_over(clock(next.event.tsc)) => {
                    exporter.skip(None);
                    break;
                }
                Ok(next) if is_wanted(job, &next.event, &clock) => {
                    exporter.event(next.event, &mut stored).map_err(fail)?;
                }
                Ok(next) => exporter.skip(Some(next.event.thread)),
                Err(error) => written.unread.note(error),
            }
        }
    }
    let exported = exporter.finish(&mut stored).map_err(fail)?;
    written.calls = exported.calls;
    let copied = job.trace.sources().map_while(Result::ok).count();
    let mut told = |count: u64, what: &str| {
        if count > 0 {
            written.left_out.push(format!("{count} {what}"));
        }
    };
    told(
        exported.own_calls,
        "calls for readers of the SNIA schema alone, which has no types for them (they are in Reenact::Trace::Syscall::*)",
    );
    told(
        exported.not_captured,
        "records lack bytes that were not recorded, or that are more than 16 MiB (those are in Reenact::Trace::Data)",
    );
    told(
        copied as u64,
        "contents of files from which the kernel copied: a trace made of this file cannot verify those copies",
    );
    Ok(written)
}

/// Returns true if an event is exported: all calls that match the conditions, and all other events.
fn is_wanted(job: &Job<'_>, event: &Event, clock: &dyn Fn(u64) -> u64) -> bool {
    let EventKind::Call(call) = &event.kind else { return true };
    let exit_ns = match call.outcome {
        Outcome::Returned { exit_tsc, .. } => Some(clock(exit_tsc)),
        Outcome::Unfinished => None,
    };
    let submitted_ns = model::operations::submitted(event).map(clock);
    let duration_ns = model::duration_ns((clock(event.tsc), exit_ns), submitted_ns);
    job.conditions.accepts_alone(call, duration_ns)
}
