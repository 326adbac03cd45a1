//! `reenact report`: writes one HTML page on what the program did.

use std::fs::OpenOptions;
use std::io::{BufWriter, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use render::amounts::{counted, show_size};
use report_page::Comparison;

use crate::failure::Failure;
use crate::latest::Input;
use crate::{message, output, source};

/// See what the program did, in one page to open in a browser.
///
/// The page is one HTML file that needs no network and nothing beside it: findings, charts over time,
/// the latency and the sizes of each call, files and where in them data was moved, processes,
/// threads and errors. Its numbers are those of `reenact stat`. It is below 5 MB for a trace of any
/// size: the busiest 1,000 files are told apart, the others are summed.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact report sqlite3.rnt --open
  reenact report sqlite3.rnt -o monday.html
  reenact replay sqlite3.rnt --json > replay.json; reenact report sqlite3.rnt --replay replay.json")]
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

    /// Open the page in a browser
    #[arg(long)]
    open: bool,

    /// Say nothing about what was written
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let path = args.input.path()?;
    let trace = source::open(&path)?;
    let comparison = args.replay.as_deref().map(Comparison::read).transpose();
    let comparison = comparison.map_err(Failure::Failed)?;
    if let (Some(replay), Some(comparison)) = (&args.replay, &comparison)
        && !comparison.is_of(trace.preamble())
    {
        let (trace, replay) = (path.display(), replay.display());
        let found = format!("{replay}: this is a replay of another recording than {trace}");
        return Err(Failure::Failed(found));
    }
    // Create the output before the work, so that an error comes at once.
    let page = args.output.clone().unwrap_or_else(|| page_of(&path));
    let replaces = args.force || (args.output.is_none() && is_report(&page));
    let (file, mut pending) = output::create(&page, replaces, &[&path]).map_err(Failure::Failed)?;
    let gathered = report_page::gather(&trace);
    let out = BufWriter::new(file);
    let bytes = report_page::write(out, &trace, &gathered, comparison.as_ref())?;
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

    use trace::Trace;

    use super::is_report;
    use crate::sample;

    /// Returns the page of a trace.
    pub fn look(trace: &Trace) -> String {
        let mut bytes = Vec::new();
        report_page::write(&mut bytes, trace, &report_page::gather(trace), None)
            .expect("memory takes everything");
        String::from_utf8(bytes).expect("a page is text")
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
