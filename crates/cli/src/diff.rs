//! `reenact diff`: what changed between two recordings of a program, or several of each version.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use model::Conditions;
use run_diff::{By, Comparison, Run, Same, Wanted};
use stats::sheet::Sheet;
use trace::Trace;

use crate::failure::Failure;
use crate::stat::{self, Chosen, csv, json, text};
use crate::terminal::{self, Colour};
use crate::{filter, latest, message, nothing, pager, source, units};

/// Limit for the recordings of a side.
const RUNS_MAX: usize = 32;
/// Rows of a table unless told otherwise.
const ROWS_SHOWN: usize = 8;

/// See what changed between two recordings of a program: time, calls, errors, files.
///
/// The first line says how much longer the second run took, and what that comes from; tables have what
/// changed most first. A time is the part that something was of the time of the run: such parts sum up to
/// it over all threads, calls and what was computed in between, so changes sum up to the change of the
/// run. With several recordings of each version, numbers are medians, and each change has the probability
/// that it is chance.
///
/// Files that have other names in each run by chance are taken for the same: their path is the same but
/// for the number of a pipe or socket, the working directory, the id of a process of that run, or the
/// random part of a name in a directory for temporary files. Those of one such name are summed up. --same
/// names others. All that is left is new or gone.
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "reenact diff [OPTIONS] [A B]\n       reenact diff [OPTIONS] A1 A2... -- B1 B2...",
    after_long_help = "\
Examples:
  reenact diff before.rnt after.rnt
  reenact diff before.*.rnt -- after.*.rnt
  reenact diff before.rnt after.rnt --same /opt/app-1.4=/opt/app-1.5
  reenact diff before.rnt after.rnt --by file --sort b_bytes --limit 50
  reenact diff before.rnt after.rnt --call %file --path '/var/*'
  reenact diff before.rnt after.rnt --json | jq '.new_files[].file'"
)]
pub struct Args {
    /// The recordings: A and B, or those of A [default: the latest of this directory, and the one before
    /// it (NAME.rnt.old)]
    #[arg(value_name = "A")]
    first: Vec<PathBuf>,

    /// Those of B, where there are several of a side
    #[arg(value_name = "B", last = true)]
    second: Vec<PathBuf>,

    /// Show only the table by calls, files, processes (by the program that they run), or sites (where in
    /// the program calls are made; most useful with recordings made with --stack)
    #[arg(long, value_enum, value_name = "WHAT")]
    by: Option<WordBy>,

    /// Files whose paths begin with OLD in A are those whose paths begin with NEW in B; may be given
    /// several times. What does not begin with `/` counts from where each program began
    #[arg(long, value_name = "OLD=NEW", value_parser = same)]
    same: Vec<Same>,

    #[command(flatten)]
    only: filter::Options,

    /// Sort the rows by this column, by its title or its name in --json; changes by how great they are
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,

    /// Show at most this many rows of a table: 8, 20 of a single table, or all with --json and
    /// --csv, unless given
    #[arg(long, value_name = "COUNT", value_parser = units::number::<usize>)]
    limit: Option<usize>,

    /// Show only this table, by its name in --json
    #[arg(long, value_name = "NAME")]
    table: Option<String>,

    /// End with 4 if the runs did not do the same: calls, errors, data, syncs, by call and by file. Times
    /// do not count
    #[arg(long)]
    exit_code: bool,

    /// Show all columns, however wide the terminal is
    #[arg(long)]
    wide: bool,

    /// Colours
    #[arg(long, visible_alias = "color", value_enum, value_name = "WHEN", default_value_t = Colour::Auto)]
    colour: Colour,

    /// One JSON object
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Comma-separated values: the table by calls, or the one that --by or --table names
    #[arg(long)]
    csv: bool,
}

/// By what calls are counted.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum WordBy {
    /// By call
    Call,
    /// By file
    File,
    /// By program
    Process,
    /// By function
    Site,
}

impl WordBy {
    fn by(self) -> By {
        match self {
            WordBy::Call => By::Call,
            WordBy::File => By::File,
            WordBy::Process => By::Process,
            WordBy::Site => By::Site,
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let paths = sides(&args)?;
    let conditions = args.only.conditions()?;
    // Of two runs it is told where they part; there is no such place of several.
    let course = args.by.is_none() && paths.iter().all(|side| side.len() == 1);
    let of = |same: &[Same]| Wanted {
        sites: args.by == Some(WordBy::Site),
        course,
        same: same.to_vec(),
    };
    let wanted = [of(&args.same), of(&[])];
    let [a, b] = std::thread::scope(|scope| {
        let second = scope.spawn(|| gather_all(&paths[1], &conditions, &wanted[1]));
        let first = gather_all(&paths[0], &conditions, &wanted[0]);
        [first, second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))]
    });
    let (mut traces, mut unread, mut hints) = (Vec::new(), Ok(()), Vec::new());
    let [a, b] = [a?, b?].map(|side| {
        side.into_iter()
            .map(|Read { path, trace, run }| {
                if run.all().count == 0
                    && let Some(hint) = nothing::hint(&trace, &conditions)
                {
                    hints.push(format!("{}: {hint}", path.display()));
                }
                source::warn_of_unknown_events(&path, &trace);
                let told = source::tell_unread(&path, &trace, &run.unread);
                if unread.is_ok() {
                    unread = told;
                }
                traces.extend(course.then_some(trace));
                run
            })
            .collect::<Vec<Run>>()
    });
    let mut comparison = Comparison::new(a, b);
    if let [a, b] = &traces[..] {
        comparison.align([a, b], &conditions);
    }
    let mut sheet = match args.by {
        Some(by) => comparison.sheet_by(by.by()),
        None => {
            let names = paths
                .each_ref()
                .map(|side| side.iter().map(|path| shown(path)).collect::<Vec<_>>());
            comparison.sheet([&names[0], &names[1]])
        }
    };
    let table = args.table.as_deref().or((args.csv && args.by.is_none()).then_some("calls"));
    let limit = args.limit.filter(|_| args.json || args.csv);
    stat::arrange(&mut sheet, Chosen { table, sort: args.sort.as_deref(), limit })?;
    let printed = print(&args, &comparison, &sheet);
    hints.iter().for_each(|hint| message::note(hint));
    unread?;
    printed?;
    if args.exit_code && !comparison.did_the_same() {
        return Err(Failure::Different("the runs did not do the same".into()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Compares two recordings in all that happened in them.
pub fn compared(traces: [&Trace; 2]) -> Comparison {
    let conditions = Conditions::default();
    let wanted = Wanted { course: true, ..Wanted::default() };
    let [a, b] = traces.map(|trace| vec![run_diff::gather(trace, &conditions, &wanted)]);
    let mut comparison = Comparison::new(a, b);
    comparison.align(traces, &conditions);
    comparison
}

fn print(args: &Args, comparison: &Comparison, sheet: &Sheet) -> Result<(), Failure> {
    pager::start();
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        json::write(&mut out, "diff", sheet)?;
    } else if args.csv {
        csv::write(&mut out, sheet)?;
    } else {
        let is_single = args.by.is_some() || args.table.is_some();
        let rows = (!is_single).then_some(ROWS_SHOWN);
        let width = terminal::width().filter(|_| !args.wide);
        let is_coloured = args.colour.is_on(&io::stdout());
        let look = text::Look { limit: args.limit, rows, width, is_coloured };
        for line in comparison.lines() {
            text::wrapped(&mut out, "", &line, look)?;
        }
        text::write(&mut out, sheet, look)?;
    }
    Ok(out.flush()?)
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Parses what is called the same: `OLD=NEW`.
fn same(text: &str) -> Result<Same, String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.into(), new.into())),
        _ => Err(format!("'{text}' names no two paths; write OLD=NEW")),
    }
}

/// Returns the recordings of both sides.
fn sides(args: &Args) -> Result<[Vec<PathBuf>; 2], Failure> {
    let (first, second) = (&args.first, &args.second);
    let sides = match (&first[..], &second[..]) {
        ([], []) => latest::latest_two()?.map(|path| vec![path]),
        ([a, b], []) => [vec![a.clone()], vec![b.clone()]],
        ([_], []) => {
            return Err(Failure::Usage("a second recording is missing; write `diff A B`".into()));
        }
        (_, []) => {
            let text = "which of these are A, and which B? Write `diff A1 A2... -- B1 B2...`";
            return Err(Failure::Usage(text.into()));
        }
        ([], _) => return Err(Failure::Usage("there is no recording before `--`".into())),
        _ => [first.clone(), second.clone()],
    };
    let is_option = |path: &&PathBuf| path.to_string_lossy().starts_with("--") && !path.exists();
    if let Some(option) = second.iter().find(is_option) {
        let option = option.display();
        let text = format!("{option}: behind `--` there are recordings only; options come before");
        return Err(Failure::Usage(text));
    }
    if sides.iter().any(|side| side.len() > RUNS_MAX) {
        return Err(Failure::Usage(format!(
            "there can be {RUNS_MAX} recordings of a side at most"
        )));
    }
    Ok(sides)
}

/// A recording that was read.
struct Read {
    path: PathBuf,
    trace: Trace,
    run: Run,
}

/// Reads the recordings of a side.
fn gather_all(
    paths: &[PathBuf],
    conditions: &Conditions,
    wanted: &Wanted,
) -> Result<Vec<Read>, Failure> {
    let read = |path: &PathBuf| {
        let trace = source::open_to_count(path)?;
        let run = run_diff::gather(&trace, conditions, wanted);
        Ok(Read { path: path.clone(), trace, run })
    };
    paths.iter().map(read).collect()
}

#[cfg(test)]
pub mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::sample::{self, End};
    use crate::stat::columns;

    /// Compares two traces either way, and formats what comes out.
    pub fn look(a: &Trace, b: &Trace) {
        for (a, b) in [(a, b), (b, a)] {
            let (comparison, names) = (compared([a, b]), ["a.rnt".to_string()]);
            let wanted = Wanted { sites: true, ..Wanted::default() };
            let with_sites = |trace| vec![run_diff::gather(trace, &Conditions::default(), &wanted)];
            let by_site = Comparison::new(with_sites(a), with_sites(b)).sheet_by(By::Site);
            let sheets = [comparison.sheet([&names, &names]), by_site];
            for sheet in sheets {
                columns::tests::has_room("diff", &sheet);
                let mut out = Vec::new();
                text::write(&mut out, &sheet, text::Look::default()).expect("memory takes all");
                csv::write(&mut out, &sheet).expect("memory takes all");
                assert!(!out.contains(&0x1b), "a control sequence reaches the terminal");
                out.clear();
                json::write(&mut out, "diff", &sheet).expect("memory takes all");
                let value: serde_json::Value = serde_json::from_slice(&out).expect("it is JSON");
                assert_eq!(value["view"], "diff");
            }
        }
    }

    #[test]
    fn a_run_is_as_itself() {
        let open = || Trace::from_stream(Cursor::new(sample::trace(End::Whole))).unwrap();
        let (a, b) = (open(), open());
        look(&a, &b);
        let comparison = compared([&a, &b]);
        assert!(comparison.did_the_same());
        let lines = comparison.lines();
        assert!(lines[0].contains("as long as A (0%)"), "{lines:?}");
        assert!(lines[2].starts_with("Both made the same calls"), "{lines:?}");
        assert!(lines[3].contains("in the same order"), "{lines:?}");
    }
}
