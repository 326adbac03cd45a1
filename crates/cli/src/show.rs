//! `reenact show`: prints a recording event by event.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use model::{Conditions, Contents, EventChoice, Moment, Stored, Walk};
use render::amounts::{counted, show_count};
use render::escape::escape;
use render::json::Json;
use render::lines::{self, Look};
use render::objects::{self, Detail};
use render::text::Style;
use stats::chains::{Chains, Spelled};
use trace::event::EventKind;
use trace::growing::{self, Queue};
use trace::{ReadError, Sequenced, Trace};

use crate::failure::Failure;
use crate::filter;
use crate::latest::Input;
use crate::nothing::Seen;
use crate::terminal::Colour;
use crate::{message, pager, source, units};

/// Interval between checks of a growing trace.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes of strings and items of arrays that are shown, as strace has it.
const STRING_LIMIT: usize = 32;

/// Show the calls of a recording, one line each, in the order in which they began.
///
/// Each line has the process id (and, for further threads, the thread id; where there are several
/// processes, also the program that it runs), the time from the start of the recording, the call with its decoded arguments, its result, and how long it took.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact show sqlite3.rnt
  reenact show sqlite3.rnt --call %file --failed
  reenact show sqlite3.rnt --path '*.db-journal' --call 'pwrite64,fdatasync'
  reenact show sqlite3.rnt --slower-than 1ms --since 2s --until 3s
  reenact show sqlite3.rnt --json | jq -r 'select(.errno == \"ENOENT\") | .args.pathname'")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    only: filter::Options,

    /// Stop after this many events
    #[arg(long, value_name = "COUNT", value_parser = units::number::<u64>)]
    limit: Option<u64>,

    /// Go on as the trace grows, until it is complete
    #[arg(short, long)]
    follow: bool,

    /// Bytes of strings and items of arrays that are shown
    #[arg(short, long, value_name = "N", default_value_t = STRING_LIMIT, value_parser = units::number::<usize>)]
    string_limit: usize,

    /// How the data of buffers is shown: not at all, as text up to the string limit, or all of it
    /// in hexadecimal. With --json: `none` leaves the bytes out, else they are in base64
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Data::Text)]
    data: Data,

    /// Show the number of each call, which `cat --seq` and `replay --until` take; with a number, only the
    /// call that has it
    #[arg(long, value_name = "N", num_args = 0..=1)]
    seq: Option<Option<PathBuf>>,

    /// Name the program that each process runs [default: where a recording that has ended has several
    /// processes]
    #[arg(long)]
    names: bool,

    /// After each call its callers, the innermost first, if they were recorded (record --stack); with
    /// --json as `stack`
    #[arg(long)]
    stack: bool,

    /// Show environments, arrays and structs in full
    #[arg(short, long)]
    verbose: bool,

    /// One JSON object per line
    #[arg(long)]
    json: bool,

    /// With --json: each call also has its caller's parent, process group, session, and user and
    /// group ids
    #[arg(long, requires = "json")]
    ids: bool,

    /// Colours
    #[arg(
        long,
        visible_alias = "color",
        value_enum,
        value_name = "WHEN",
        default_value_t = Colour::Auto
    )]
    colour: Colour,
}

/// How the data of buffers is shown.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Data {
    None,
    Text,
    Hex,
}

impl Args {
    /// Returns the number behind `--seq`.
    fn only(&self) -> Option<u64> {
        self.seq.as_ref()?.as_ref()?.to_str()?.parse().ok()
    }

    /// Returns the path of the trace: what stands behind `--seq` is it where that is no number.
    fn path(&self) -> Result<PathBuf, Failure> {
        match (&self.seq, self.only()) {
            (Some(Some(path)), None) if !self.input.is_given() => Ok(path.clone()),
            (Some(Some(word)), None) => {
                let word = word.display();
                Err(Failure::Usage(format!("--seq: '{word}' is not the number of a call")))
            }
            _ => self.input.path(),
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let path = args.path()?;
    let name = path.display();
    let mut trace = source::open(&path)?;
    if !args.follow {
        pager::start();
    }
    let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    // While it is being recorded, nobody knows how many there will be.
    let has_several = trace.totals().is_some_and(|totals| totals.processes > 1);
    let names = args.names || has_several && !args.follow;
    let conditions = args.only.conditions()?;
    let mut printer = Printer::new(&args, conditions, names, out);
    let mut errors = Errors { name: name.to_string(), count: 0 };
    let more = if args.follow {
        follow(&mut trace, &mut printer, &mut errors, &|| false)?
    } else {
        let mut more = true;
        for next in trace.events() {
            let Some(next) = errors.pass(next) else { continue };
            more = printer.next(&trace, &next)?;
            if !more {
                break;
            }
        }
        more
    };
    printer.out.flush()?;
    source::warn_of_left_out(&path, printer.walk.left_out());
    source::warn_of_unknown_events(&path, &trace);
    if let Some(hint) = printer.hint().filter(|_| args.limit != Some(0)) {
        message::note(&hint);
    }
    if !more {
        return Ok(ExitCode::SUCCESS);
    }
    for warning in source::warnings(&trace) {
        message::warn(&format!("{name}: {warning}"));
    }
    if errors.count > 0 {
        let count = errors.count;
        return Err(Failure::Failed(format!(
            "{name}: {count} damaged blocks could not be shown; `reenact info --verify {name}` \
             says what is left"
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the calls of a trace that is being written, until it is complete or `is_over`.
pub fn live(
    trace: &mut Trace,
    name: String,
    out: impl Write,
    is_over: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let style = Style { string_limit: STRING_LIMIT, data: true, verbose: false };
    let look = Look {
        style,
        hex: false,
        colour: Colour::Auto.is_on(&io::stderr()),
        seq: false,
        names: false,
    };
    let format = Format::Text { look, line: String::new() };
    let walk = Walk::default();
    // The kernel may have a thousand events for each call.
    let events = EventChoice::parse("!%kernel,kernel_task,kernel_scope,kernel_device").ok();
    let conditions = Conditions { events, ..Conditions::default() };
    let mut printer = Printer {
        walk,
        conditions,
        format,
        left: u64::MAX,
        only: None,
        seen: Seen::default(),
        chains: None,
        out,
    };
    follow(trace, &mut printer, &mut Errors { name, count: 0 }, is_over)?;
    printer.out.flush()?;
    Ok(())
}

/// Prints events until the trace is complete, or `is_over` and nothing more comes. Returns false if no
/// later one is wanted.
fn follow<W: Write>(
    trace: &mut Trace,
    printer: &mut Printer<W>,
    errors: &mut Errors,
    is_over: &dyn Fn() -> bool,
) -> Result<bool, Failure> {
    let mut cursor = trace.cursor();
    let mut held = Queue::default();
    let mut news = Instant::now();
    let mut was_over = false;
    loop {
        while let Some(next) = cursor.next(trace) {
            if let Some(next) = errors.pass(next) {
                held.add(model::clock(trace)(next.event.tsc), next);
                news = Instant::now();
            }
            while let Some(next) = held.next(false) {
                if !printer.next(trace, &next)? {
                    return Ok(false);
                }
            }
        }
        let ended = trace.totals().is_some() || was_over;
        was_over = is_over();
        let silent = news.elapsed() > Duration::from_nanos(growing::APART_NS);
        while let Some(next) = held.next(ended || silent) {
            if !printer.next(trace, &next)? {
                return Ok(false);
            }
        }
        if ended {
            return Ok(true);
        }
        printer.out.flush()?;
        thread::sleep(FOLLOW_INTERVAL);
        let refreshed = trace.refresh();
        refreshed.map_err(|error| Failure::Failed(format!("{}: {error}", errors.name)))?;
    }
}

/// Limit for the damaged blocks that are printed.
const ERRORS_SHOWN: u64 = 20;

/// Errors met while reading.
struct Errors {
    name: String,
    count: u64,
}

impl Errors {
    /// Returns the event, or prints the error.
    fn pass(&mut self, next: Result<Sequenced, ReadError>) -> Option<Sequenced> {
        match next {
            Ok(next) => Some(next),
            Err(error) => {
                self.count += 1;
                if self.count <= ERRORS_SHOWN {
                    message::warn(&format!("{}: {error}", self.name));
                }
                None
            }
        }
    }
}

/// Output format.
enum Format {
    Text { look: Look, line: String },
    Json(Detail),
}

struct Printer<W> {
    walk: Walk,
    conditions: Conditions,
    format: Format,
    left: u64,
    /// Only the call with this number.
    only: Option<u64>,
    seen: Seen,
    chains: Option<Chains>,
    out: W,
}

impl<W: Write> Printer<W> {
    fn new(args: &Args, conditions: Conditions, names: bool, out: W) -> Printer<W> {
        let colour = args.colour.is_on(&io::stdout());
        let style = Style {
            string_limit: args.string_limit,
            data: args.data == Data::Text,
            verbose: args.verbose,
        };
        let format = if args.json {
            Format::Json(Detail { data: args.data != Data::None, ids: args.ids })
        } else {
            let look =
                Look { style, hex: args.data == Data::Hex, colour, seq: args.seq.is_some(), names };
            Format::Text { look, line: String::new() }
        };
        let (walk, only) = (Walk::default(), args.only());
        // No two calls have one number.
        let left = if only.is_some() { 1 } else { u64::MAX }.min(args.limit.unwrap_or(u64::MAX));
        let (seen, chains) = (Seen::default(), args.stack.then(Chains::default));
        Printer { walk, conditions, format, left, only, seen, chains, out }
    }

    /// Returns what to say where nothing was shown.
    fn hint(&self) -> Option<String> {
        let hint = self.seen.hint(&self.conditions)?;
        Some(match self.only {
            Some(only) if self.conditions.accepts_all() => format!(
                "there is no call {}; the trace has {}, numbered from 0",
                show_count(only),
                counted(self.seen.calls(), "call", "calls")
            ),
            _ => hint,
        })
    }

    fn next(&mut self, trace: &Trace, next: &Sequenced) -> io::Result<bool> {
        self.event(next, &model::clock(trace), &mut Stored(trace))
    }

    /// Prints an event if it is wanted. Returns false if no later one is wanted.
    fn event(
        &mut self,
        next: &Sequenced,
        clock: &dyn Fn(u64) -> u64,
        contents: &mut dyn Contents,
    ) -> io::Result<bool> {
        if self.left == 0 || self.conditions.is_over(clock(next.event.tsc)) {
            return Ok(false);
        }
        let (conditions, format, out) = (&self.conditions, &mut self.format, &mut self.out);
        let (chains, seen, only) = (&mut self.chains, &mut self.seen, self.only);
        let shown = self.walk.event(next, clock, contents, |moment, contents| {
            if let Some(chains) = chains {
                chains.add(moment, contents);
            }
            let is_wanted = only.is_none_or(|only| moment.seq == Some(only));
            let is_chosen = is_wanted && conditions.accepts(moment);
            seen.add(moment, conditions, is_chosen);
            if !is_chosen {
                return Ok::<_, io::Error>(false);
            }
            let callers = chains.as_mut().and_then(|chains| callers(chains, moment, contents));
            print(out, format, moment, contents, callers.as_deref())
        })?;
        self.left -= u64::from(shown);
        Ok(self.left > 0)
    }
}

/// The places from which a call was made: its own instruction, and its callers.
fn callers(
    chains: &mut Chains,
    moment: &Moment<'_>,
    contents: &mut dyn Contents,
) -> Option<Vec<Spelled>> {
    let chain = chains.of(moment, contents)?;
    let spelled = chain.iter().enumerate().map(|(at, site)| chains.spell(*site, at > 0));
    Some(spelled.collect())
}

/// Prints the callers of a call.
fn write_callers(out: &mut dyn Write, chain: &[Spelled]) -> io::Result<()> {
    for spelled in chain {
        let mut line = String::new();
        escape(&mut line, spelled.function.as_deref().unwrap_or("?").as_bytes(), &[]);
        if let Some(place) = &spelled.line {
            line.push_str(" at ");
            escape(&mut line, place.as_bytes(), &[]);
        }
        line.push_str(" [");
        escape(&mut line, &spelled.place, &[]);
        writeln!(out, "          > {line}]")?;
    }
    if chain.len() < 2 {
        writeln!(out, "          > (callers were not found)")?;
    }
    Ok(())
}

/// Writes the callers of a call as an array, behind the place of its own instruction.
fn callers_json(json: &mut Json<'_>, chain: &[Spelled]) {
    json.key("stack").array(|json| {
        for spelled in chain {
            json.object(|json| {
                json.key("function").optional_str(spelled.function.as_deref());
                json.key("line").optional_str(spelled.line.as_deref());
                json.key("place").bytes(&spelled.place);
            });
        }
    });
}

/// Prints an event. Returns false if the format has nothing for it.
fn print(
    out: &mut dyn Write,
    format: &mut Format,
    moment: &Moment<'_>,
    contents: &mut dyn Contents,
    callers: Option<&[Spelled]>,
) -> io::Result<bool> {
    match format {
        Format::Text { look, line } => {
            line.clear();
            lines::event(line, moment, contents, *look);
            out.write_all(line.as_bytes())?;
            if let (true, EventKind::Call(call)) = (look.hex, &moment.event.kind) {
                lines::hex_dump(out, call, contents)?;
            }
            if let Some(callers) = callers.filter(|_| !line.is_empty()) {
                write_callers(out, callers)?;
            }
            Ok(!line.is_empty())
        }
        Format::Json(detail) => {
            let mut json = Json::new(out);
            objects::event_and(&mut json, moment, contents, *detail, |json| {
                if let Some(callers) = callers {
                    callers_json(json, callers);
                }
            });
            json.finish()?;
            out.write_all(b"\n")?;
            Ok(true)
        }
    }
}

#[cfg(test)]
pub mod tests;
