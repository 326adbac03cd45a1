//! `reenact import`: converts traces of other tools.

mod strace;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::process::ExitCode;

use dataseries::file::reader::Bytes;
use trace::WriterOptions;

use crate::failure::Failure;
use crate::output::Pending;
use crate::progress::Progress;
use crate::{message, output, source};

/// Number of bytes used to detect the format.
const HEAD_BYTES: u64 = 4096;
/// Limit for the damaged parts that are listed.
const DAMAGE_SHOWN: usize = 20;

/// Make a trace of another tool's.
///
/// FILE may be a DataSeries file with system calls, as Re-Animator writes them or as `export` does,
/// or what strace printed: best with `-f -ttt -T -xx -y -v -s 1000000`.
/// What it does not hold is marked as not captured, and the trace says that it was imported: nothing
/// proves that it is complete.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact import sqlite3.ds -o sqlite3.rnt
  reenact import strace.txt -o sqlite3.rnt
  zcat strace.txt.gz | reenact import - -o sqlite3.rnt
  reenact show sqlite3.rnt")]
pub struct Args {
    /// The file, `-` for standard input; its content tells the format
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The trace that is written
    #[arg(short, long, value_name = "TRACE")]
    output: PathBuf,

    /// Replace what is there
    #[arg(long)]
    force: bool,

    /// Say nothing about what was imported
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let name = args.file.display();
    let fail = |error: &dyn std::fmt::Display| Failure::Failed(format!("{name}: {error}"));
    let mut file = source::file(&args.file).map_err(|error| fail(&error))?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(|error| fail(&error))?;
    file.rewind().map_err(|error| fail(&error))?;
    match Kind::of(&head) {
        Some(Kind::DataSeries) => from_dataseries(&args, file),
        Some(Kind::Strace) => strace::import(&args, file),
        None if head.starts_with(&trace::format::FILE_MAGIC) => Err(fail(&"it is a trace already")),
        None => Err(fail(&"neither a DataSeries file nor the text of strace")),
    }
}

/// Formats that can be imported.
enum Kind {
    DataSeries,
    Strace,
}

impl Kind {
    /// Detects the format from the beginning of a file.
    fn of(head: &[u8]) -> Option<Kind> {
        let dataseries = head.starts_with(dataseries::file::MAGIC).then_some(Kind::DataSeries);
        dataseries.or_else(|| ::strace::read::is_text(head).then_some(Kind::Strace))
    }
}

/// Returns advice on a file that is no trace but can be imported.
pub fn advice(mut file: &File) -> Option<&'static str> {
    let mut head = Vec::new();
    file.rewind().ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(match Kind::of(&head)? {
        Kind::DataSeries => "it is a DataSeries file: `reenact import` makes a trace of it",
        Kind::Strace => "it is the text of strace: `reenact import` makes a trace of it",
    })
}

/// A file that reports progress when read.
struct Told {
    file: File,
    progress: Progress,
}

impl Told {
    fn new(file: File, passes: u64) -> io::Result<Told> {
        let progress = Progress::of_bytes(file.metadata()?.len().saturating_mul(passes));
        Ok(Told { file, progress })
    }
}

impl Bytes for Told {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.progress.advance(into.len() as u64);
        self.file.read(offset, into)
    }
}

impl Read for &Told {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = Read::read(&mut &self.file, into)?;
        self.progress.advance(count as u64);
        Ok(count)
    }
}

fn from_dataseries(args: &Args, file: File) -> Result<ExitCode, Failure> {
    let name = args.file.display();
    let told = Told::new(file, 1).map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
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
    let imported = dataseries::import(&told, sink, WriterOptions::default());
    drop(told);
    if let Some(failure) = refused {
        return Err(failure);
    }
    let imported = imported.map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
    pending.iter_mut().try_for_each(Pending::keep).map_err(Failure::Failed)?;
    if !args.quiet {
        let (records, calls) = (imported.records, imported.calls);
        message::note(&format!("{calls} calls of {records} records -> {}", args.output.display()));
        for what in &imported.not_told {
            message::note(&format!("not told by {name}: {what}"));
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
        "{name} is damaged: {lost} of the {extents} extents that were found could not be read; the \
         {} calls in the others are in {}",
        imported.calls,
        args.output.display()
    )))
}
