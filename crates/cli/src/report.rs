//! `reenact report`: writes one HTML page on what the program did.

use std::fs::OpenOptions;
use std::io::{BufWriter, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use render::amounts::{counted, show_size};
use report_page::{Beside, Comparison, OtherRun, Predictions, Wanted};
use trace::Trace;

use crate::failure::Failure;
use crate::latest::Input;
use crate::{diff, message, output, source, units};

/// See what the program did, in one page to open in a browser.
///
/// The page is one HTML file that needs no network and nothing beside it: findings, charts over time,
/// the latency and the sizes of each call, files and where in them data was moved, processes,
/// threads and errors. Its numbers are those of `reenact stat`. It is below 5 MB for a trace of any
/// size: the busiest 1,000 files are listed, the others are summed.
///
/// Of a trace with events of the kernel it also has lanes of threads and CPUs by what they did or waited
/// for, with who woke whom, and for the ten longest waits and each --detail the control flow (process,
/// kernel, interrupt and back) and a list of events to search; it is below 20 MB then. What there is no
/// room for is named, with the command that shows it.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact report sqlite3.rnt --open
  reenact report sqlite3.rnt -o monday.html
  reenact report after.rnt --compare before.rnt
  reenact report make.rnt --detail 1.25s..1.3s
  reenact replay sqlite3.rnt --json > replay.json; reenact report sqlite3.rnt --replay replay.json
  reenact predict db.rnt --on ext4 --on xfs --json > p.json; reenact report db.rnt --prediction p.json")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    /// The page that is written, for its owner only; `-` for standard output [default: TRACE with
    /// `.html`, in place of an earlier report]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the page if it exists
    #[arg(short, long)]
    force: bool,

    /// Compare with a replay: what `reenact replay --json` printed
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,

    /// Show how long the program takes elsewhere: what `reenact predict --json` printed
    #[arg(long, value_name = "FILE")]
    prediction: Option<PathBuf>,

    /// Show what changed since another recording, as `reenact diff FILE TRACE` does
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,

    /// Show this range of time in detail: what each thread did, and every event; may be given several
    /// times
    #[arg(long, value_name = "FROM..TO", value_parser = time_range)]
    detail: Vec<(u64, u64)>,

    /// Open the page in a browser
    #[arg(long)]
    open: bool,

    /// Do not report what was written
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    if args.detail.len() > report_page::ASKED_MAX {
        let most = report_page::ASKED_MAX;
        return Err(Failure::Usage(format!("--detail can be given {most} times at most")));
    }
    let path = args.input.path()?;
    let trace = source::open_to_count(&path)?;
    let comparison = args.replay.as_deref().map(Comparison::read).transpose();
    let comparison = comparison.map_err(Failure::Failed)?;
    if let (Some(replay), Some(comparison)) = (&args.replay, &comparison)
        && !comparison.is_of(trace.preamble())
    {
        let (trace, replay) = (path.display(), replay.display());
        let found = format!("{replay}: this is a replay of another recording than {trace}");
        return Err(Failure::Failed(found));
    }
    let predictions = args.prediction.as_deref().map(Predictions::read).transpose();
    let predictions = predictions.map_err(Failure::Failed)?;
    if let (Some(file), Some(predictions)) = (&args.prediction, &predictions)
        && !predictions.is_of(trace.preamble())
    {
        let (trace, file) = (path.display(), file.display());
        let found = format!("{file}: these predictions are of another recording than {trace}");
        return Err(Failure::Failed(found));
    }
    // Create the output before the work, so that an error comes at once.
    let page = args.output.clone().unwrap_or_else(|| page_of(&path));
    let replaces = args.force || (args.output.is_none() && is_report(&page));
    let (file, mut pending) = output::create(&page, replaces, &[&path]).map_err(Failure::Failed)?;
    let wanted = Wanted { details: args.detail, name: quoted(&path) };
    let gathered = report_page::gather(&trace, &wanted);
    let out = BufWriter::new(file);
    let other = args.compare.as_deref().map(|other| since(other, &path, &trace)).transpose()?;
    let beside = Beside { replay: comparison, other, predictions };
    let bytes = report_page::write(out, &trace, &gathered, &beside)?;
    pending.keep().map_err(Failure::Failed)?;
    let is_file = page.as_os_str() != "-";
    if !args.quiet && is_file {
        let calls = counted(gathered.calls(), "call", "calls");
        let size = show_size(bytes);
        let next = if args.open { "" } else { "; --open shows it in a browser" };
        message::note(&format!("{calls} -> {} ({size}){next}", page.display()));
    }
    if args.open && is_file {
        open_in_browser(&page)?;
    }
    source::warn_of_unknown_events(&path, &trace);
    source::tell_unread(&path, &trace, &gathered.unread)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns what changed since another recording.
fn since(other: &Path, path: &Path, trace: &Trace) -> Result<OtherRun, Failure> {
    let name = other.display().to_string();
    let before = source::open_to_count(other)?;
    let comparison = diff::compared([&before, trace]);
    source::warn_of_unknown_events(other, &before);
    let sheet = comparison.sheet([std::slice::from_ref(&name), &[quoted(path)]]);
    Ok(OtherRun { lines: comparison.lines(), sheet, name })
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
    let bad = || format!("'{text}' is not a range of time; write 1.25..1.3 or 200ms..250ms");
    let (from, to) = text.split_once("..").ok_or_else(bad)?;
    let (from, to) = (units::time_ns(from)?, units::time_ns(to)?);
    if from < to { Ok((from, to)) } else { Err(bad()) }
}

/// Returns the name of the page of a trace.
fn page_of(trace: &Path) -> PathBuf {
    match trace.file_name() {
        Some(name) if name != "-" => PathBuf::from(name).with_extension("html"),
        _ => "report.html".into(),
    }
}

/// Returns true if a file is a page that `report` wrote.
fn is_report(page: &Path) -> bool {
    let mut begin = vec![0; report_page::BEGIN.len()];
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(page);
    file.is_ok_and(|mut file| file.read_exact(&mut begin).is_ok())
        && begin == report_page::BEGIN.as_bytes()
}

/// Shows a page by the program of the desktop, or the one that BROWSER names.
fn open_in_browser(page: &Path) -> Result<(), Failure> {
    let page = page.canonicalize()?;
    let program = std::env::var_os("BROWSER").filter(|name| !name.is_empty());
    let program = program.unwrap_or_else(|| "xdg-open".into());
    let mut browser = Command::new(&program);
    browser.arg(&page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    browser.spawn().map(drop).map_err(|error| {
        let program = program.to_string_lossy();
        Failure::Failed(format!("{program}: {error}; open {} in a browser", page.display()))
    })
}

#[cfg(test)]
pub mod tests {
    use std::io::Cursor;

    use report_page::Wanted;
    use trace::Trace;

    use super::{Beside, is_report, quoted, time_range};
    use crate::sample;

    /// Returns the page of a trace.
    pub fn look(trace: &Trace) -> String {
        let mut bytes = Vec::new();
        report_page::write(
            &mut bytes,
            trace,
            &report_page::gather(trace, &Wanted::default()),
            &Beside::default(),
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
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("page.html");
        std::fs::write(&path, &page).unwrap();
        assert!(is_report(&path));
        std::fs::write(&path, "<!doctype html>\n<html>").unwrap();
        assert!(!is_report(&path) && !is_report(place.path()));
    }
}
