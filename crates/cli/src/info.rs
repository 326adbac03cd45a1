//! `reenact info`: describes a trace and proves that it is complete.

mod output;

use std::path::Path;
use std::process::ExitCode;

use render::amounts::counted;
use stats::overview::Overview;

use crate::failure::{self, Failure};
use crate::latest::Input;
use crate::source;

/// Show what a recording holds, and whether it is complete.
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
    #[command(flatten)]
    input: Input,

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
    let path = args.input.path()?;
    let trace = source::open(&path)?;
    let name = path.display();
    let report = if args.verify { trace.verify() } else { trace.completeness() };
    let overview = Overview::of(&trace, report)
        .map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
    let printed = match args.json {
        true => output::json(&trace, &overview),
        false => output::text(&trace, &overview, args.verify),
    };
    failure::verdict(printed.map_err(Failure::from), proven(args.verify, &path, &overview))
}

/// Returns the verdict on completeness, if --verify asks for it.
fn proven(is_asked: bool, path: &Path, overview: &Overview) -> Result<ExitCode, Failure> {
    if is_asked && !overview.report.sound() {
        let name = path.display();
        let problems = overview.report.problems.len() as u64 + overview.report.problems_more;
        return Err(Failure::Incomplete(format!(
            "{name} is not complete: {}, {}, {} lost",
            counted(problems, "problem", "problems"),
            counted(overview.report.gaps, "gap", "gaps"),
            counted(overview.report.lost, "call", "calls"),
        )));
    }
    Ok(ExitCode::SUCCESS)
}
