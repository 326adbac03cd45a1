//! `reenact report`: writes one HTML page on what the program did.

use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;

use render::amounts::show_size;
use report_page::Comparison;

use crate::failure::Failure;
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
  reenact report sqlite3.rnt
  reenact report sqlite3.rnt -o sqlite3.html --force
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

    /// Say nothing about what was written
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
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
    let gathered = report_page::gather(&trace);
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

#[cfg(test)]
pub mod tests {
    use std::io::Cursor;

    use trace::Trace;

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
    }
}
