//! `reenact info`: describes a trace and proves that it is complete.

mod output;

use std::path::PathBuf;
use std::process::ExitCode;

use stats::overview::Overview;

use crate::failure::{self, Failure};
use crate::source;
pub use output::not_seen_json;

/// Tell what a recording holds, and whether it is complete.
///
/// A recording is complete when its end is there, the counts of the program, the recorder and the
/// file agree, no thread's numbering has a hole, and it has no gaps.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact info make.rnt
  reenact info make.rnt --verify && echo sound
  reenact info make.rnt --json | jq .by_call.openat.errors")]
pub struct Args {
    /// The trace; `-` for standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Check every checksum, hash, number and total; exit with 3 unless the trace is complete, or
    /// sound and made by cut, repair or import, which say in it what is missing
    #[arg(long)]
    verify: bool,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let trace = source::open(&args.trace)?;
    let name = args.trace.display();
    let report = if args.verify { trace.verify() } else { trace.completeness() };
    let overview = Overview::of(&trace, report)
        .map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
    let printed = match args.json {
        true => output::json(&trace, &overview),
        false => output::text(&trace, &overview, args.verify),
    };
    failure::verdict(printed.map_err(Failure::from), proven(&args, &overview))
}

/// Returns the verdict on completeness, if --verify asks for it.
fn proven(args: &Args, overview: &Overview) -> Result<ExitCode, Failure> {
    if args.verify && !overview.report.sound() {
        let name = args.trace.display();
        let problems = overview.report.problems.len() as u64 + overview.report.problems_more;
        return Err(Failure::Incomplete(format!(
            "{name} is not complete: {problems} problems, {} gaps, {} calls lost",
            overview.report.gaps, overview.report.lost
        )));
    }
    Ok(ExitCode::SUCCESS)
}
