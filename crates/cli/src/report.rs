//! `reenact report`: writes one HTML page on what the program did.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use render::amounts::show_size;
use report_page::{Comparison, Wanted};

use crate::failure::Failure;
use crate::{message, output, source, units};

/// See what the program did, in one page to open in a browser.
///
/// The page is one HTML file that needs no network and nothing beside it: findings, charts over time,
/// the latency and the sizes of each call, files and where in them data was moved, processes,
/// threads and errors. Its numbers are those of `reenact stat`. It is below 5 MB for a trace of any
/// size: the busiest 1,000 files are told apart, the others are summed.
///
/// Of a trace with events of the kernel it also has lanes of threads and CPUs by what they did or waited
/// for, with who woke whom, and for the ten longest waits and each --detail the control flow (process,
/// kernel, interrupt and back) and a list of events to search; it is below 20 MB then. What there is no
/// room for is named, with the command that shows it.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact report sqlite3.rnt
  reenact report sqlite3.rnt -o sqlite3.html --force
  reenact report make.rnt --detail 1.25s..1.3s
  reenact replay sqlite3.rnt --json > replay.json; reenact report sqlite3.rnt --replay replay.json")]
pub struct Args {
    /// The trace; `-` for standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// The page that is written, for its owner only; `-` for standard output
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,

    /// Replace the page if it exists
    #[arg(short, long)]
    force: bool,

    /// Compare with a replay: what `reenact replay --json` printed
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,

    /// Show this range of time in detail: what each thread did, and every event; may be given several
    /// times
    #[arg(long, value_name = "FROM..TO", value_parser = time_range)]
    detail: Vec<(u64, u64)>,

    /// Say nothing about what was written
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    if args.detail.len() > report_page::ASKED_MAX {
        let most = report_page::ASKED_MAX;
        return Err(Failure::Usage(format!("--detail can be given {most} times at most")));
    }
    let trace = source::open(&args.trace)?;
    let comparison = args.replay.as_deref().map(Comparison::read).transpose();
    let comparison = comparison.map_err(Failure::Failed)?;
    if let (Some(path), Some(comparison)) = (&args.replay, &comparison)
        && !comparison.is_of(trace.preamble())
    {
        let (path, trace) = (path.display(), args.trace.display());
        let found = format!("{path}: this is a replay of another recording than {trace}");
        return Err(Failure::Failed(found));
    }
    // Create the output before the work, so that an error comes at once.
    let (file, mut pending) =
        output::create(&args.output, args.force, &[&args.trace]).map_err(Failure::Failed)?;
    let wanted = Wanted { details: args.detail, name: quoted(&args.trace) };
    let gathered = report_page::gather(&trace, &wanted);
    let out = BufWriter::new(file);
    let bytes = report_page::write(out, &trace, &gathered, comparison.as_ref())?;
    pending.keep().map_err(Failure::Failed)?;
    if !args.quiet {
        let name = args.output.display();
        let calls = gathered.calls();
        message::note(&format!(
            "{calls} calls -> {name} ({}): open it in a browser",
            show_size(bytes)
        ));
    }
    source::warn_of_unknown_events(&args.trace, &trace);
    source::tell_unread(&args.trace, &trace, &gathered.unread)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a name as a shell takes it.
fn quoted(path: &Path) -> String {
    let Some(name) = path.to_str().filter(|name| !name.chars().any(char::is_control)) else {
        return "TRACE".into();
    };
    let is_plain = |c: char| c.is_alphanumeric() || "_./+-=:,".contains(c);
    if name.chars().all(is_plain) && !name.starts_with('-') {
        return name.into();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

/// Parses a range of time: `1.25s..1.3s`.
fn time_range(text: &str) -> Result<(u64, u64), String> {
    let bad = || format!("'{text}' is no range of time; write 1.25..1.3 or 200ms..250ms");
    let (from, to) = text.split_once("..").ok_or_else(bad)?;
    let (from, to) = (units::time_ns(from)?, units::time_ns(to)?);
    if from < to { Ok((from, to)) } else { Err(bad()) }
}

#[cfg(test)]
pub mod tests {
    use std::io::Cursor;

    use report_page::Wanted;
    use trace::Trace;

    use super::{quoted, time_range};
    use crate::sample;

    /// Returns the page of a trace.
    pub fn look(trace: &Trace) -> String {
        let mut bytes = Vec::new();
        report_page::write(
            &mut bytes,
            trace,
            &report_page::gather(trace, &Wanted::default()),
            None,
        )
        .expect("memory takes everything");
        String::from_utf8(bytes).expect("a page is text")
    }

    #[test]
    fn ranges_and_names_are_as_a_shell_has_them() {
        assert_eq!(time_range("1.5..2s"), Ok((1_500_000_000, 2_000_000_000)));
        assert!(time_range("2..1").is_err() && time_range("1").is_err());
        let of = |name: &str| quoted(std::path::Path::new(name));
        assert_eq!(
            (of("a/b.rnt"), of("it's"), of("a\nb")),
            ("a/b.rnt".into(), "'it'\\''s'".into(), "TRACE".into())
        );
    }

    #[test]
    fn names_cannot_leave_their_place() {
        let bytes = sample::trace(sample::End::Whole);
        let page = look(&Trace::from_stream(Cursor::new(bytes)).unwrap());
        let (_, after) = page.split_once(report_page::DATA_BEGIN).expect("it has data");
        let (data, _) = after.split_once(report_page::DATA_END).expect("the data ends");
        assert!(!data.contains(['<', '>', '&', '\x1b']), "{data}");
        let json: serde_json::Value = serde_json::from_str(data).expect("it is JSON");
        let files = json["files"]["rows"].as_array().unwrap();
        let names = files.iter().filter_map(|row| row.as_array()?.last()?.as_str());
        assert!(names.clone().any(|name| name == "/tmp/\\033[31m\\377"), "{files:?}");
        assert!(!page.contains("{{"), "a marker was not replaced");
    }
}
