//! `reenact import`: converts traces of other tools.

mod ctf;
pub mod format;
mod input;
mod strace;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use trace::WriterOptions;

use crate::failure::Failure;
use crate::output::Pending;
use crate::{message, output, source};
use format::Format;
use input::{Import, Input};
use render::amounts::counted;

/// Limit for the damaged parts that are listed.
const DAMAGE_SHOWN: usize = 20;

/// Convert another tool's trace.
///
/// FILE may be a DataSeries file with system calls, as Re-Animator writes them or as `export` does,
/// a CTF 1.8 trace (a directory with a file `metadata`, as LTTng, babeltrace2 and `export` write them),
/// or what strace printed: best with `-f -ttt -T -xx -y -v -s 1000000`.
/// What it does not hold is marked as not captured, and the trace says that it was imported: nothing
/// proves that it is complete.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact import sqlite3.ds -o sqlite3.rnt
  reenact import strace.txt -o sqlite3.rnt
  reenact import lttng-traces/auto-20261123-120000/kernel -o session.rnt
  zcat strace.txt.gz | reenact import - -o sqlite3.rnt
  reenact show sqlite3.rnt")]
pub struct Args {
    /// The file or directory, `-` for standard input; the format is found by its content
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The trace that is written
    #[arg(short, long, value_name = "TRACE")]
    output: PathBuf,

    /// Replace what is there
    #[arg(short, long)]
    force: bool,

    /// Do not report what was imported
    #[arg(short, long)]
    quiet: bool,
}

impl Args {
    fn import(&self) -> Import<'_> {
        Import { from: &self.file, to: &self.output, force: self.force, quiet: self.quiet }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let name = args.file.display();
    let fail = |error: &dyn std::fmt::Display| Failure::Failed(format!("{name}: {error}"));
    if args.file.is_dir() {
        return ctf::import(&args.import());
    }
    let mut file = source::file(&args.file).map_err(|error| fail(&error))?;
    let head = format::head(&mut file).map_err(|error| fail(&error))?;
    match Format::of(&head) {
        Some(Format::DataSeries) => from_dataseries(&args, file),
        Some(Format::Strace) => strace::import(&args.import(), file),
        None if head.starts_with(&trace::format::FILE_MAGIC) => Err(fail(&"it is a trace already")),
        None => Err(fail(
            &"neither a DataSeries file, nor the text of strace, nor a directory with a CTF trace",
        )),
    }
}

fn from_dataseries(args: &Args, file: File) -> Result<ExitCode, Failure> {
    let name = args.file.display();
    let input = Input::new(file, 1).map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
    let mut refused = None;
    let mut pending = None;
    let sink = || match output::create(&args.output, args.force, &[&args.file]) {
        Ok((out, file)) => {
            pending = Some(file);
            Ok(Box::new(out) as Box<dyn io::Write + Send>)
        }
        Err(text) => {
            refused = Some(Failure::Failed(text));
            Err(io::ErrorKind::Other.into())
        }
    };
    let imported = dataseries::import(&input, sink, WriterOptions::default());
    drop(input);
    if let Some(failure) = refused {
        return Err(failure);
    }
    let imported = imported.map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
    pending.iter_mut().try_for_each(Pending::keep).map_err(Failure::Failed)?;
    if !args.quiet {
        let (records, calls) = (imported.records, imported.calls);
        let calls = counted(calls, "call", "calls");
        let records = counted(records, "record", "records");
        message::note(&format!("{calls} of {records} -> {}", args.output.display()));
        for what in &imported.not_told {
            message::note(&format!("not in {name}: {what}"));
        }
    }
    for damage in imported.damage.iter().take(DAMAGE_SHOWN) {
        message::warn(&format!("{name}: {damage}"));
    }
    if imported.damage.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let (lost, extents) = (imported.extents_lost, imported.extents);
    Err(Failure::Failed(format!(
        "{name} is damaged: {lost} of {} could not be read; {} of the others are in {}",
        counted(extents, "extent", "extents"),
        counted(imported.calls, "call", "calls"),
        args.output.display()
    )))
}
