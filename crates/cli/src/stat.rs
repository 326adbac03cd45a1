//! `reenact stat`: prints statistics.

pub mod columns;
pub mod csv;
pub mod json;
pub mod text;

use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use model::Conditions;
use render::amounts::show_time;
use render::escape::escaped;
use stats::patterns;
use stats::sheet::{Cell, Sheet};
use stats::view::{Look, MISSING, STEPS_MAX, TooManySteps, ViewRow};
use stats::views::{self, VIEWS};
use trace::Trace;

use crate::failure::Failure;
use crate::{filter, latest, message, nothing, pager, source, suggest, terminal, units};
use terminal::Colour;

/// See what the program did, in numbers.
///
/// Tables show the most important rows; --limit shows more of them, --sort others. On a terminal they
/// have the columns that are read first, and further ones as far as there is room: --wide shows all. In a
/// pipe or a file they have all columns, and names of up to 160 characters, so that `grep` finds them;
/// there COLUMNS=120 sets a width. Scripts read --json or --csv: their numbers are whole nanoseconds and
/// bytes.
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "reenact stat [OPTIONS] [VIEW] [TRACE]",
    after_long_help = "\
Examples:
  reenact stat sqlite3.rnt
  reenact stat latency sqlite3.rnt --call fsync,fdatasync
  reenact stat files sqlite3.rnt --sort write_bytes --limit 50
  reenact stat time sqlite3.rnt --interval 100ms
  reenact stat patterns sqlite3.rnt
  reenact stat calls sqlite3.rnt --json | jq '.calls[] | select(.errors > 0)'"
)]
pub struct Args {
    /// The view [default: calls], and the trace, `-` for standard input [default: the latest recording
    /// in this directory]
    #[arg(value_name = "[VIEW] [TRACE]", num_args = 0..=2, help = list())]
    words: Vec<PathBuf>,

    #[command(flatten)]
    only: filter::Options,

    /// Width of the steps in which time is cut (views time, durability and cache) [default:
    /// automatic]
    #[arg(long, value_name = "TIME", value_parser = units::time_ns)]
    interval: Option<u64>,

    /// Split each call's time into on a CPU, runnable, and blocked on what; needs a recording with events
    /// of the kernel (record --kernel)
    #[arg(long = "where")]
    by_state: bool,

    /// Count calls by where in the program they were made; most useful with a recording
    /// made with --stack
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "by_state")]
    by: Option<By>,

    /// Sort the rows by this column, by its title or its name in --json: highest numbers first, names by
    /// the alphabet; `-COLUMN` the other way round
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    sort: Option<String>,

    /// Show at most this many rows of a table: 20, or all with --json and --csv, unless given
    #[arg(long, value_name = "COUNT", value_parser = units::number::<usize>)]
    limit: Option<usize>,

    /// Show only this table, by its name in --json
    #[arg(long, value_name = "NAME")]
    table: Option<String>,

    /// Show all columns, however wide the terminal is, and whatever COLUMNS says
    #[arg(long)]
    wide: bool,

    /// Colours
    #[arg(long, visible_alias = "color", value_enum, value_name = "WHEN", default_value_t = Colour::Auto)]
    colour: Colour,

    /// One JSON object
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Comma-separated values: the view's first table, or the one that --table names
    #[arg(long)]
    csv: bool,
}

/// By what calls are counted.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// Function, file and line
    Site,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let (view, path) = chosen(&args.words)?;
    let path = &path;
    let view = match (args.by_state, view.name) {
        (false, "calls" | "sites") if args.by == Some(By::Site) => named("sites")?,
        (false, other) if args.by.is_some() => {
            return Err(Failure::Usage(format!("--by is about calls, not about '{other}'")));
        }
        (false, _) => view,
        (true, "calls" | "where") => named("where")?,
        (true, other) => {
            return Err(Failure::Usage(format!("--where is about calls, not about '{other}'")));
        }
    };
    let trace = source::open_to_count(path)?;
    let conditions = args.only.conditions()?;
    let look = Look { trace: &trace, conditions: &conditions, interval_ns: args.interval };
    let (mut sheet, unread) = (view.look)(&look).map_err(too_many)?;
    let is_empty = sheet.tables.iter().all(columns::says_nothing);
    let hint = if is_empty { nothing::hint(&trace, &conditions) } else { None };
    name_trace(&mut sheet, path);
    let chosen = Chosen {
        table: args.table.as_deref(),
        sort: args.sort.as_deref(),
        limit: args.limit.filter(|_| args.json || args.csv),
    };
    arrange(&mut sheet, chosen)?;
    pager::start();
    // Before the numbers: those of a part are not those of the run.
    source::warn_of(path, &trace);
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        json::write(&mut out, view.name, &sheet)?;
    } else if args.csv {
        csv::write(&mut out, &sheet)?;
        if sheet.facts.iter().any(|fact| fact.key == MISSING) {
            message::notes(&sheet.notes);
        }
    } else {
        let width = terminal::width().filter(|_| !args.wide);
        let is_coloured = args.colour.is_on(&io::stdout());
        text::write(
            &mut out,
            &sheet,
            text::Look { limit: args.limit, rows: None, width, is_coloured },
        )?;
        let is_plain = view.name == VIEWS[0].name && args.table.is_none();
        if is_plain && conditions.accepts_all() {
            what_to_do(&mut out, &trace, path, width)?;
        }
    }
    out.flush()?;
    if let Some(hint) = hint {
        message::note(&hint);
    }
    source::warn_of_unknown_events(path, &trace);
    source::tell_of_pass(path, &unread)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the first view of a trace.
pub fn print_calls(path: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let trace = source::open_to_count(path)?;
    let conditions = Conditions::default();
    let look = Look { trace: &trace, conditions: &conditions, interval_ns: None };
    let (sheet, _) = (VIEWS[0].look)(&look).map_err(too_many)?;
    let mut text = Vec::new();
    text::write(&mut text, &sheet, text::Look::default())?;
    out.write_all(&text)?;
    Ok(what_to_do(out, &trace, path, None)?)
}

/// Says what was found first, and what has more of it.
fn what_to_do(
    out: &mut dyn Write,
    trace: &Trace,
    path: &Path,
    width: Option<usize>,
) -> io::Result<()> {
    // What came through a pipe is gone.
    let name = match path == Path::new("-") {
        true => String::new(),
        false => format!(" {}", escaped(&in_shell(path))),
    };
    let command = format!("`reenact stat patterns{name}`");
    let line = match patterns::first(trace) {
        None => format!("{command} finds what costs most, and says what to do"),
        Some(Some(finding)) => {
            format!("first finding: {}; {command} says what to do", finding.line())
        }
        Some(None) => {
            format!("no finding is 1% of the run and 10 ms or more; {command} has smaller ones")
        }
    };
    writeln!(out)?;
    let look = text::Look { width, ..text::Look::default() };
    text::wrapped(&mut { out }, "", &line, look)
}

/// Key of columns with commands to paste.
const COMMAND: &str = "command";
/// What stands for the trace in them.
const TRACE: &[u8] = b" TRACE";

/// Puts the name of the trace into commands to paste.
fn name_trace(sheet: &mut Sheet, path: &Path) {
    let name = in_shell(path);
    for table in &mut sheet.tables {
        let Some(at) = table.columns.iter().position(|column| column.key == COMMAND) else {
            continue;
        };
        for row in &mut table.rows {
            if let Cell::Name(command) = &mut row[at]
                && let Some(from) = command.windows(TRACE.len()).position(|part| part == TRACE)
            {
                command.splice(from + 1..from + TRACE.len(), name.iter().copied());
            }
        }
    }
}

/// Returns a path as a word of a command line.
fn in_shell(path: &Path) -> Vec<u8> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:".contains(byte);
    let name = path.as_os_str().as_bytes();
    if name.iter().all(is_plain) {
        return name.to_vec();
    }
    let quoted = path.to_string_lossy().replace('\'', "'\\''");
    format!("'{quoted}'").into_bytes()
}

/// Returns the view and the trace that the words of the command line name, in either order.
fn chosen(words: &[PathBuf]) -> Result<(&'static ViewRow, PathBuf), Failure> {
    let view = |word: &Path| word.to_str().and_then(views::by_name);
    let (view, path) = match words {
        [] => (VIEWS[0], None),
        [one] => match view(one) {
            Some(view) if !one.exists() => (view, None),
            _ if !is_input(one) => return Err(neither(one)),
            _ => (VIEWS[0], Some(one)),
        },
        [first, second, ..] => match (view(first), view(second)) {
            (Some(view), _) => (view, Some(second)),
            (None, Some(view)) if is_input(first) => (view, Some(first)),
            (None, None) if is_input(first) && is_input(second) => return Err(two(first, second)),
            (None, None) if is_input(first) => (named(&second.to_string_lossy())?, Some(first)),
            (None, _) => (named(&first.to_string_lossy())?, Some(second)),
        },
    };
    Ok((view, path.cloned().map_or_else(latest::latest, Ok)?))
}

fn is_input(path: &Path) -> bool {
    path == Path::new("-") || path.exists()
}

fn two(first: &Path, second: &Path) -> Failure {
    let [first, second] = [first, second].map(|path| escaped(&in_shell(path)));
    Failure::Usage(format!(
        "{first} and {second} are two traces, and stat looks at one: `reenact diff {first} {second}` says what \
         changed"
    ))
}

fn neither(word: &Path) -> Failure {
    let views: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
    let name = word.to_string_lossy();
    let name = name.escape_debug();
    Failure::Usage(match suggest::closest(&name.to_string(), &views) {
        Some(close) => format!("there is no file '{name}' here; did you mean the view '{close}'?"),
        None => format!("'{name}': no such file, nor a view; views are {}", views.join(", ")),
    })
}

/// Returns the view of a name.
fn named(name: &str) -> Result<&'static ViewRow, Failure> {
    views::by_name(name).ok_or_else(|| {
        let views: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
        let hint = suggest::closest(name, &views).map_or_else(
            || format!("views are {}", views.join(", ")),
            |close| format!("did you mean '{close}'?"),
        );
        Failure::Usage(format!("unknown view '{}'; {hint}", name.escape_debug()))
    })
}

/// Returns the help text of the positional arguments.
fn list() -> String {
    let mut text = String::from(
        "What to look at, if it is not `calls`, and the trace; `-` for standard input. Views:\n",
    );
    for view in VIEWS {
        text.push_str(&format!("\n- {:<11} {}", view.name, view.about));
    }
    text
}

fn too_many(steps: TooManySteps) -> Failure {
    Failure::Usage(format!(
        "--interval {}: the recording lasts {}, which would be more than {STEPS_MAX} steps",
        show_time(steps.interval_ns),
        show_time(steps.span_ns),
    ))
}

/// Which tables and rows are wanted.
#[derive(Clone, Copy, Default)]
pub struct Chosen<'a> {
    /// Only this table.
    pub table: Option<&'a str>,
    /// Rows sorted by this column.
    pub sort: Option<&'a str>,
    /// At most so many rows, also for programs.
    pub limit: Option<usize>,
}

/// Selects, sorts and limits tables.
pub fn arrange(sheet: &mut Sheet, chosen: Chosen<'_>) -> Result<(), Failure> {
    if let Some(wanted) = chosen.table {
        let known: Vec<&str> = sheet.tables.iter().map(|table| table.key).collect();
        if !known.contains(&wanted) {
            let known = known.join(", ");
            let text = format!("this view has no table '{wanted}'; it has {known}");
            return Err(Failure::Usage(text));
        }
        sheet.tables.retain(|table| table.key == wanted);
    }
    if let Some(column) = chosen.sort {
        let mut sorted = false;
        for table in sheet.tables.iter_mut().filter(|table| !table.fixed) {
            sorted |= table.sort(column);
        }
        if !sorted {
            return Err(no_column(sheet, column));
        }
    }
    if let Some(limit) = chosen.limit {
        for table in sheet.tables.iter_mut().filter(|table| !table.fixed) {
            table.rows.truncate(limit);
        }
    }
    Ok(())
}

/// Says that no table has a column, and which was meant or which there are, by the titles that are shown.
fn no_column(sheet: &Sheet, wanted: &str) -> Failure {
    let tables = sheet.tables.iter().filter(|table| !table.fixed);
    let columns: Vec<_> = tables.flat_map(|table| &table.columns).collect();
    let mut titles: Vec<&str> = Vec::new();
    for title in columns.iter().map(|column| column.title.trim()) {
        if !title.is_empty() && !titles.contains(&title) {
            titles.push(title);
        }
    }
    let word = wanted.strip_prefix('-').unwrap_or(wanted);
    let keys = columns.iter().map(|column| column.key).filter(|key| !key.is_empty());
    let known: Vec<&str> = titles.iter().copied().chain(keys).collect();
    let hint = match suggest::closest(word, &known) {
        Some(close) => format!("did you mean '{close}'?"),
        None => format!("there are {}", titles.join(", ")),
    };
    Failure::Usage(format!("no table here has a column '{}'; {hint}", word.escape_debug()))
}

#[cfg(test)]
pub mod tests {
    use std::collections::HashSet;

    use trace::Trace;

    use super::*;

    #[test]
    fn views_and_traces_come_in_either_order() {
        let here = std::env::current_exe().unwrap();
        let words =
            |all: &[&Path]| chosen(&all.iter().map(|word| word.to_path_buf()).collect::<Vec<_>>());
        for all in [[&here, Path::new("files")], [Path::new("files"), &here]] {
            let (view, path) = words(&all).ok().unwrap();
            assert_eq!((view.name, &path), ("files", &here));
        }
        for all in [[&here, Path::new("flies")], [Path::new("flies"), &here]] {
            let Err(Failure::Usage(said)) = words(&all) else { panic!("taken") };
            assert_eq!(said, "unknown view 'flies'; did you mean 'files'?");
        }
        let (view, _) = words(&[Path::new("findings"), &here]).ok().unwrap();
        assert_eq!(view.name, "patterns");
    }

    /// Makes a view of a trace and formats it in all formats.
    pub fn look(trace: &Trace, round: u64) {
        let view = VIEWS[round as usize % VIEWS.len()];
        // With a condition, unordered views make an ordered pass as well.
        let paths = if round.is_multiple_of(3) { vec!["*".into()] } else { Vec::new() };
        let conditions = Conditions { paths, ..Conditions::default() };
        let wanted = Look { trace, conditions: &conditions, interval_ns: None };
        let Ok((sheet, _)) = (view.look)(&wanted) else { return };
        let tables = sheet.tables.iter().filter(|table| !table.one_of_many);
        let mut keys = HashSet::from(["view"]);
        let facts = sheet.facts.iter().map(|fact| fact.key).filter(|key| !key.is_empty());
        for key in facts.chain(tables.map(|table| table.key)) {
            assert!(keys.insert(key), "{}: its JSON has `{key}` twice", view.name);
        }
        for table in &sheet.tables {
            let mut titles = HashSet::new();
            let shown = table.columns.iter().map(|column| column.title.trim());
            for title in shown.filter(|title| !title.is_empty()) {
                assert!(titles.insert(title), "{}: two columns are called {title}", view.name);
            }
        }
        let mut out = Vec::new();
        text::write(&mut out, &sheet, text::Look::default()).expect("memory takes everything");
        csv::write(&mut out, &sheet).expect("memory takes everything");
        assert!(!out.contains(&0x1b), "{}: a control sequence reaches the terminal", view.name);
        out.clear();
        json::write(&mut out, view.name, &sheet).expect("memory takes everything");
        let json: serde_json::Value = serde_json::from_slice(&out).expect("it is JSON");
        assert_eq!(json["view"], view.name);
    }

    #[test]
    fn views_have_names() {
        assert!(named("calls").is_ok_and(|view| view.name == "calls"));
        let Err(Failure::Usage(text)) = named("nothing") else { panic!("there is no such view") };
        assert!(text.contains("durability"), "{text}");
        let Err(Failure::Usage(text)) = named("fils") else { panic!("there is no such view") };
        assert!(text.contains("did you mean 'files'?"), "{text}");
    }
}
