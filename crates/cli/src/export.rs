//! `reenact export`: writes a trace in the formats of other tools.

mod ctf;
mod dataseries;
mod fio;
mod folded;
mod job;
mod jsonl;
mod parquet;
pub mod perfetto;
mod strace;

use std::cell::RefCell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use render::amounts::counted;
use trace::Trace;

use crate::failure::Failure;
use crate::filter;
use crate::latest::Input;
use crate::{message, nothing, source};
use job::{Job, Written};

/// Write a trace in the format of another tool.
///
/// What the format cannot hold is listed at the end. The conditions choose calls, as those of `show` do.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact export sqlite3.rnt --to jsonl -o sqlite3.jsonl
  reenact export sqlite3.rnt --to perfetto -o sqlite3.pftrace
  reenact export sqlite3.rnt --to parquet -o tables
  reenact export machine.rnt --to ctf -o machine.ctf
  reenact export sqlite3.rnt --to jsonl --call %file --since 2s -o - | wc -l")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    /// The format [default: what the ending of OUT says, as .jsonl, .pftrace, .ctf, .ds, .parquet,
    /// .strace and .fio do]
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Format>,

    /// What is written; `-` for standard output where the format is one file
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// Replace what is there
    #[arg(short, long)]
    force: bool,

    /// Leave the bytes of buffers out, where a format can do without
    #[arg(long)]
    no_content: bool,

    /// Do not report what was written
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    only: filter::Options,

    #[command(flatten)]
    dataseries: dataseries::Options,

    #[command(flatten)]
    parquet: parquet::Options,
}

impl Args {
    /// Returns the format that is asked for, or that the name of the output says.
    fn format(&self) -> Result<Format, Failure> {
        let ending = self.output.extension().and_then(OsStr::to_str);
        self.to.or_else(|| Format::of_ending(ending?)).ok_or_else(|| {
            let output = self.output.display();
            Failure::Usage(format!(
                "{output}: its name does not say the format (as .jsonl or .pftrace do); give --to"
            ))
        })
    }

    /// Fails if an option of another format was given.
    fn check(&self, wanted: Format) -> Result<(), Failure> {
        let given = [
            (Format::Dataseries, self.dataseries.given()),
            (Format::Parquet, self.parquet.given()),
        ];
        for (format, option) in given {
            if let Some(option) = option.filter(|_| format != wanted) {
                let name = format.to_possible_value();
                let name = name.map(|name| name.get_name().to_string()).unwrap_or_default();
                let text = format!("{option} is an option of --to {name}");
                return Err(Failure::Usage(text));
            }
        }
        Ok(())
    }
}

/// The formats.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A directory with a CTF 1.8 trace, with LTTng's names, for babeltrace2 and Trace Compass
    Ctf,
    /// DataSeries, in the system-call schema of SNIA as Re-Animator reads it; `import` reads it back
    Dataseries,
    /// Folded stacks: time in calls by chain of callers, as flamegraph.pl and speedscope take them
    Folded,
    /// What `show --json` prints: one JSON object per line
    Jsonl,
    /// Perfetto's track events, for ui.perfetto.dev
    Perfetto,
    /// A directory with I/O logs (version 3) and job files for fio
    Fio,
    /// A directory of Parquet tables, for databases and data frames; it may hold several recordings
    Parquet,
    /// Text as `strace -f -ttt -T -xx -v -s 1000000` prints it
    Strace,
}

impl Format {
    /// Returns the format that files with this ending have.
    fn of_ending(ending: &str) -> Option<Format> {
        Some(match ending {
            "ctf" => Format::Ctf,
            "ds" => Format::Dataseries,
            "jsonl" | "ndjson" => Format::Jsonl,
            "perfetto" | "perfetto-trace" | "pftrace" => Format::Perfetto,
            "fio" => Format::Fio,
            "folded" => Format::Folded,
            "parquet" => Format::Parquet,
            "strace" => Format::Strace,
            _ => return None,
        })
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let format = args.format()?;
    args.check(format)?;
    let path = args.input.path()?;
    let trace = source::open(&path)?;
    let written = write(&args, format, &path, &trace)?;
    if !args.quiet {
        message::note(&format!(
            "{} -> {}",
            counted(written.calls, "call", "calls"),
            args.output.display()
        ));
        for what in &written.left_out {
            message::note(&format!("left out: {what}"));
        }
    }
    // Formats leave calls out by themselves: whether any was chosen is looked for there.
    if written.calls == 0
        && let Some(hint) = nothing::hint(&trace, &args.only.chosen())
    {
        message::note(&hint);
    }
    source::warn_of_unknown_events(&path, &trace);
    source::tell_unread(&path, &trace, &written.unread)?;
    Ok(ExitCode::SUCCESS)
}

fn write(args: &Args, format: Format, path: &Path, trace: &Trace) -> Result<Written, Failure> {
    let job = Job {
        trace,
        from: path,
        to: &args.output,
        force: args.force,
        content: !args.no_content,
        conditions: args.only.conditions()?,
        pending: RefCell::default(),
    };
    let written = match format {
        Format::Ctf => ctf::export(&job),
        Format::Dataseries => dataseries::export(&job, &args.dataseries),
        Format::Folded => folded::export(&job),
        Format::Jsonl => jsonl::export(&job),
        Format::Perfetto => perfetto::export(&job),
        Format::Fio => fio::export(&job),
        Format::Parquet => parquet::export(&job, &args.parquet),
        Format::Strace => strace::export(&job),
    }?;
    job.keep()?;
    Ok(written)
}

#[cfg(test)]
pub mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// Exports a trace in every format into a temporary directory. Returns for each format the
    /// number of calls or the failure.
    pub fn everything(trace: &Trace) -> Vec<(Format, Result<u64, Failure>)> {
        let place = tempfile::tempdir().expect("a temporary directory");
        let formats = Format::value_variants().iter().map(|format| {
            let value = format.to_possible_value().expect("a name");
            let name = value.get_name();
            let out = place.path().join(name).display().to_string();
            let line = ["export", "hostile.rnt", "--to", name, "--output", &out];
            let args = Line::parse_from(line).args;
            let path = Path::new("hostile.rnt");
            (*format, write(&args, *format, path, trace).map(|written| written.calls))
        });
        formats.collect()
    }

    #[test]
    fn options_of_other_formats_are_refused() {
        let refused = |to: &str, option: &[&str]| {
            let line = ["export", "a.rnt", "--output", "out", "--to", to];
            let args = Line::parse_from(line.iter().chain(option)).args;
            args.check(args.format().expect("it is given"))
                .err()
                .map(|failure| format!("{failure:?}"))
        };
        let (compress, run) = (["--compress", "zlib"], ["--run", "one"]);
        assert_eq!((refused("dataseries", &compress), refused("parquet", &run)), (None, None));
        for format in Format::value_variants().iter().filter_map(Format::to_possible_value) {
            let name = format.get_name();
            assert_eq!(refused(name, &[]), None);
            let found = [refused(name, &compress), refused(name, &run)];
            for (found, owner) in found.iter().zip(["dataseries", "parquet"]) {
                assert_eq!(found.is_some(), name != owner, "{name}: {found:?}");
                assert!(found.as_ref().is_none_or(|text| text.contains(owner)), "{found:?}");
            }
        }
    }

    #[test]
    fn the_name_of_the_output_says_the_format() {
        let format = |output: &str| {
            let args = Line::parse_from(["export", "a.rnt", "--output", output]).args;
            args.format().map_err(|failure| format!("{failure:?}"))
        };
        assert_eq!(format("a.jsonl"), Ok(Format::Jsonl));
        assert_eq!(format("out/a.b.pftrace"), Ok(Format::Perfetto));
        for unknown in ["-", "a", "a.json", ".jsonl"] {
            assert!(format(unknown).is_err_and(|said| said.contains("--to")), "{unknown}");
        }
        for format in Format::value_variants() {
            let names = ["ctf", "ds", "jsonl", "pftrace", "fio", "folded", "parquet", "strace"];
            assert!(names.iter().any(|name| Format::of_ending(name) == Some(*format)));
        }
    }

    #[test]
    fn every_format_has_all_calls() {
        use crate::sample::{End, trace};
        let trace = Trace::from_stream(std::io::Cursor::new(trace(End::Gap))).unwrap();
        let all = trace.totals().unwrap().calls_made;
        for (format, calls) in everything(&trace) {
            // fio's logs hold only calls that move data.
            let ok = calls.as_ref().is_ok_and(|n| *n == all || format == Format::Fio && *n > 0);
            assert!(ok, "{format:?}: {calls:?}");
        }
    }
}
