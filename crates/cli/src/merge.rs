//! `reenact merge`: merges the traces of one run.

use std::path::PathBuf;
use std::process::ExitCode;

use render::amounts::counted;
use rewrite::{Input, Merge, MergeError, OfOneRecording, TRACES_MAX};

use crate::failure::Failure;
use crate::{message, output, source};

/// Write several traces of one run, made at the same time, into one.
///
/// Traces of one machine are put in order by its time stamp counter, those of several machines by
/// their wall clocks, whose error then is the error of the order. Threads and processes get new
/// numbers; process ids stay as they were.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact merge server.rnt client.rnt -o both.rnt
  reenact show both.rnt")]
pub struct Args {
    /// The traces
    #[arg(value_name = "TRACE", required = true, num_args = 2..)]
    traces: Vec<PathBuf>,

    /// The trace that is written; `-` for standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// Replace what is there
    #[arg(short, long)]
    force: bool,

    /// Do not report what was written
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    if args.traces.len() > TRACES_MAX {
        return Err(Failure::Usage(format!("at most {TRACES_MAX} traces are merged at a time")));
    }
    let input = |path: &PathBuf| {
        Ok::<_, Failure>(Input { name: path.display().to_string(), trace: source::open(path)? })
    };
    let merge = Merge::of(args.traces.iter().map(input).collect::<Result<_, _>>()?).map_err(
        |OfOneRecording(one, other)| {
            Failure::Failed(format!(
                "{one} and {other} are of the same recording: its calls would stand twice in the \
                 trace"
            ))
        },
    )?;
    let inputs: Vec<_> = args.traces.iter().map(PathBuf::as_path).collect();
    let (out, mut pending) =
        output::create(&args.output, args.force, &inputs).map_err(Failure::Failed)?;
    let rewriter = rewrite::begin(Box::new(out), &merge.preamble())?;
    let merged = merge
        .write(rewriter, &mut |input, error| message::warn(&format!("{}: {error}", input.name)))
        .map_err(|error| match error {
            MergeError::Write(error) => error.into(),
            MergeError::TooManyThreads => Failure::Failed(error.to_string()),
        })?;
    pending.keep().map_err(Failure::Failed)?;
    if !args.quiet {
        let (calls, order, out) = (merged.calls, merge.order(), args.output.display());
        let calls = counted(calls, "call", "calls");
        let traces = counted(args.traces.len() as u64, "trace", "traces");
        message::note(&format!("{calls} of {traces}, {order} -> {out}"));
        if merged.leaves_files_out {
            message::note("left out: what the traces say about the files at the end");
        }
    }
    if merged.is_whole {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::Failed("damaged blocks were left out; `reenact info` says of which trace".into()))
}
