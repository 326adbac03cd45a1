//! `reenact merge`: merges the traces of one run.

mod clocks;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::process::ExitCode;

use trace::event::{Event, EventKind, GapWhy, Outcome, RECORDER};
use trace::{Sequenced, Trace};

use crate::derived::{begin, preamble, written};
use crate::failure::{self, Failure};
use crate::{output, source};
use clocks::Clock;

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
    #[arg(long)]
    force: bool,

    /// Say nothing about what was written
    #[arg(short, long)]
    quiet: bool,
}

/// Limit for the traces of one merge: each has blocks of all its threads in memory.
const TRACES_MAX: usize = 64;

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    if args.traces.len() > TRACES_MAX {
        return Err(Failure::Usage(format!("at most {TRACES_MAX} traces are merged at a time")));
    }
    let mut traces = Vec::new();
    for path in &args.traces {
        traces.push((path, source::open(path)?));
    }
    // Times count from the earliest start.
    traces.sort_by_key(|(_, trace)| trace.preamble().epoch_ns);
    if let Some([(one, _), (other, _)]) =
        traces.windows(2).find(|pair| of_one_recording(&pair[0].1, &pair[1].1))
    {
        let (one, other) = (one.display(), other.display());
        return Err(Failure::Failed(format!(
            "{one} and {other} are of the same recording: its calls would stand twice in the trace"
        )));
    }
    let base = &traces[0].1;
    let clocks: Vec<Clock> = traces.iter().map(|(_, trace)| Clock::between(trace, base)).collect();
    let by_wall_clock = clocks.iter().filter(|clock| clock.is_by_wall()).count();
    let order = match by_wall_clock {
        0 => "ordered by the time stamp counter of one machine".to_string(),
        count => format!("{count} of them ordered by their wall clocks"),
    };
    let how = preamble(base, &format!("merged from {} traces, {order}", traces.len()));
    let inputs: Vec<_> = args.traces.iter().map(PathBuf::as_path).collect();
    let (out, mut pending) =
        output::create(&args.output, args.force, &inputs).map_err(Failure::Failed)?;
    let mut rewriter = begin(out, &how)?;

    let mut streams: Vec<_> = traces.iter().map(|(_, trace)| trace.events()).collect();
    let mut held: Vec<Option<Event>> = vec![None; traces.len()];
    let mut next = BinaryHeap::new();
    let mut unread = vec![0u64; traces.len()];
    for number in 0..traces.len() {
        next.push(Reverse((0, number)));
    }
    while let Some(Reverse((_, number))) = next.pop() {
        let trace = &traces[number].1;
        if let Some(event) = held[number].take() {
            rewriter.event(trace, number as u32, &event).map_err(|error| written(&error))?;
        }
        let read = streams[number].by_ref().find_map(|next| match next {
            Ok(Sequenced { event, .. }) => Some(event),
            Err(error) => {
                unread[number] += 1;
                failure::warn(&format!("{}: {error}", traces[number].0.display()));
                None
            }
        });
        if let Some(event) = read {
            let event = renumbered(event, number, traces.len(), &clocks[number])?;
            next.push(Reverse((event.tsc, number)));
            held[number] = Some(event);
        }
    }
    let mut whole = true;
    for ((path, trace), unread) in traces.iter().zip(&unread) {
        whole &= *unread == 0;
        if let Some(text) = missing(trace, *unread) {
            let kind = EventKind::Gap {
                why: GapWhy::RecorderLost,
                detail: *unread,
                text: format!("{}: {text}", path.display()),
            };
            let event = Event { thread: RECORDER, tsc: rewriter.last_tsc(), kind };
            rewriter.event(trace, 0, &event).map_err(|error| written(&error))?;
        }
    }
    // Final file contents stand for copied data only if no events are missing.
    let whole_ones =
        traces.iter().zip(&unread).zip(0..).filter_map(|(((_, trace), unread), number)| {
            missing(trace, *unread).is_none().then_some((number, trace))
        });
    let whole_ones: Vec<_> = whole_ones.collect();
    rewriter.sources(&whole_ones, &|_| true).map_err(|error| written(&error))?;
    let finished = rewriter.finish(base.tsc_hz()).map_err(|error| written(&error))?;
    pending.keep().map_err(Failure::Failed)?;
    if !args.quiet {
        let (calls, out) = (finished.calls, args.output.display());
        failure::tell(&format!(
            "reenact: {calls} calls of {} traces, {order} -> {out}",
            traces.len()
        ));
        if traces.iter().any(|(_, trace)| !matches!(trace.manifest_ending(), Ok(None))) {
            failure::tell("reenact: left out: what the traces tell of the files in the end");
        }
    }
    if whole {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::Failed("damaged blocks were left out; `reenact info` tells of which trace".into()))
}

/// Returns true if both traces hold the same recording, or parts of it.
fn of_one_recording(one: &Trace, other: &Trace) -> bool {
    let began = |trace: &Trace| {
        let preamble = trace.preamble();
        (preamble.host.clone(), preamble.epoch_ns, preamble.epoch_tsc, preamble.command.clone())
    };
    // Imported traces may have no start time.
    one.preamble().epoch_ns != 0 && began(one) == began(other)
}

/// Returns why a trace is incomplete, if it has no such note itself.
fn missing(trace: &Trace, unread: u64) -> Option<String> {
    match (trace.totals().is_some(), unread) {
        (_, 1..) => Some(format!("{unread} blocks could not be read")),
        (false, 0) => Some("it was not ended".into()),
        (true, 0) if !trace.damage().is_empty() => Some("it is damaged".into()),
        (true, 0) => None,
    }
}

/// Returns the event with numbers and time stamps of the merged trace.
fn renumbered(
    mut event: Event,
    input: usize,
    inputs: usize,
    clock: &Clock,
) -> Result<Event, Failure> {
    let renumber = |number: &mut u32| {
        // 0 stands for the recorder or for no thread.
        let Some(before) = number.checked_sub(1) else { return Ok(()) };
        let new = u64::from(before) * inputs as u64 + input as u64 + 1;
        *number = u32::try_from(new)
            .map_err(|_| Failure::Failed("too many threads to be merged".into()))?;
        Ok::<(), Failure>(())
    };
    renumber(&mut event.thread)?;
    event.tsc = clock.convert(event.tsc);
    match &mut event.kind {
        EventKind::Start { process, parent, .. } => {
            renumber(process)?;
            renumber(parent)?;
        }
        EventKind::State(state) => renumber(&mut state.process)?,
        EventKind::Exit { process, .. } => renumber(process)?,
        EventKind::Call(call) => {
            if let Outcome::Returned { exit_tsc, .. } = &mut call.outcome {
                *exit_tsc = clock.convert(*exit_tsc);
            }
        }
        _ => {}
    }
    Ok(event)
}
