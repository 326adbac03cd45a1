//! `reenact compare`: compares two trees, or a tree with the state that a recording left.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use file_tree::Tree;
use render::amounts::{counted, show_count};
use render::escape::escaped;
use render::json::{Json, text};
use replay::compare::{self, Difference, FinalState, Renames, Scrutiny, all_seen};
use trace::Trace;
use trace::event::EventKind;

use crate::failure::{self, Failure};
use crate::{source, terminal};

/// Compare two trees of files, or a tree and what a recording left, and name each difference.
///
/// A trace ends with a manifest of the paths that PROGRAM changed: type, mode, owner, size, content,
/// links and extended attributes. Where a tree is compared with a trace, its root stands for `/`,
/// and only paths in the manifest are looked at. Times, and sizes and link counts of directories,
/// are not compared. What is not known, such as the content of files that were changed through
/// shared mappings, is listed as not verified and not called equal.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact compare / make.rnt
  reenact compare before after --json | jq '.differences[].path'
  reenact compare v1.rnt v2.rnt --same /opt/app-1.4=/opt/app-1.5
  reenact compare monday.rnt tuesday.rnt")]
pub struct Args {
    /// What should be: a directory or a trace
    #[arg(value_name = "A")]
    expected: PathBuf,

    /// What is: a directory or a trace
    #[arg(value_name = "B")]
    found: PathBuf,

    /// Files whose paths begin with OLD in A are those whose paths begin with NEW in B; may be given
    /// several times. What does not begin with `/` counts from where the recorded program began. Two
    /// directories are compared as they are: name the directories themselves
    #[arg(long, value_name = "OLD=NEW", value_parser = same)]
    same: Vec<(Vec<u8>, Vec<u8>)>,

    /// Do not compare owners and groups
    #[arg(long)]
    no_owner: bool,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Among so many events is the state in which a program began.
const FIRST_EVENTS: usize = 10_000;

/// One of the two sides.
enum Side {
    Tree(Tree),
    Trace(Box<Trace>),
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let scrutiny = Scrutiny { owners: !args.no_owner, ..Scrutiny::default() };
    let fail = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let sides = [side(&args.expected)?, side(&args.found)?];
    let renames = &renames(&args, &sides)?;
    let [expected, found] = &sides;
    let state = match (expected, found) {
        (Side::Tree(a), Side::Tree(b)) => Ok(compare::trees(a, b, scrutiny)),
        (Side::Trace(a), Side::Tree(b)) => {
            compare::manifest_and_tree(a, b, scrutiny, renames, &all_seen)
        }
        (Side::Tree(a), Side::Trace(b)) => compare::tree_and_manifest(a, b, scrutiny, renames),
        (Side::Trace(a), Side::Trace(b)) => compare::manifests(a, b, scrutiny, renames),
    };
    let state = state.map_err(|error| fail(&error))?;
    let printed = match args.json {
        true => println_all(&text(|json| write_json(json, &state))),
        false => write_text(&state),
    };
    failure::verdict(printed, equal(&args, &state))
}

/// Returns the verdict of the comparison.
fn equal(args: &Args, state: &FinalState) -> Result<ExitCode, Failure> {
    let fail = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    if let Some(text) = state.limited.as_ref().filter(|_| state.compared == 0) {
        return Err(fail(text));
    }
    let (a, b) = (args.expected.display(), args.found.display());
    if state.compared == 0 && state.unverified_count > 0 {
        let what = "nothing could be compared: what is not verified says why";
        let hint = of_two_recordings(args).unwrap_or_default();
        return Err(fail(&format!("{a} and {b}: {what}{hint}")));
    }
    if state.is_equal() {
        return Ok(ExitCode::SUCCESS);
    }
    let hint = another_root(args, state).or_else(|| of_two_recordings(args).map(str::to_string));
    let hint = hint.unwrap_or_default();
    Err(Failure::Different(format!(
        "{a} and {b} differ in {}{hint}",
        counted(state.different, "path", "paths")
    )))
}

/// Says what compares more of two recordings than the files that they left.
fn of_two_recordings(args: &Args) -> Option<&'static str> {
    let are_traces = [&args.expected, &args.found].iter().all(|path| !path.is_dir());
    are_traces.then_some("; `reenact diff` compares what two recorded programs did")
}

/// Says what a directory stands for, where most of what a recording left is not in it.
fn another_root(args: &Args, state: &FinalState) -> Option<String> {
    let (tree, side) = match [&args.expected, &args.found].map(|path| path.is_dir()) {
        [true, false] => (&args.expected, 0),
        [false, true] => (&args.found, 1),
        _ => return None,
    };
    let in_tree = |of: &Difference| [&of.expected, &of.found][side] == compare::NOTHING;
    let mut missing = state.differences.iter().filter(|of| in_tree(of));
    let path = escaped(&missing.next()?.path);
    let is_most = (1 + missing.count() as u64) * 2 > state.different;
    let tree = tree.display().to_string();
    is_most.then(|| {
        let place = tree.trim_end_matches('/');
        format!(
            "; {tree} stands for the root: {path} of the recording is looked for as {place}{path}"
        )
    })
}

/// Parses what is called the same: `OLD=NEW`.
fn same(text: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.into(), new.into())),
        _ => Err(format!("'{text}' names no two paths; write OLD=NEW")),
    }
}

/// Returns what a user calls the same, with absolute paths.
fn renames(args: &Args, sides: &[Side; 2]) -> Result<Renames, Failure> {
    if args.same.is_empty() {
        return Ok(Renames::default());
    }
    if let [Side::Tree(_), Side::Tree(_)] = sides {
        let text = "--same is for recordings; of two directories, name those that are the same";
        return Err(Failure::Usage(text.into()));
    }
    let mut renames = Renames::default();
    for (old, new) in &args.same {
        renames.0.push((absolute(old, &sides[0])?, absolute(new, &sides[1])?));
    }
    Ok(renames)
}

/// Returns a path from where a recorded program began.
fn absolute(path: &[u8], side: &Side) -> Result<Vec<u8>, Failure> {
    let place = match side {
        _ if path.starts_with(b"/") => return Ok(path.to_vec()),
        Side::Trace(trace) => began_in(trace),
        Side::Tree(_) => None,
    };
    let place = place.ok_or_else(|| {
        let path = escaped(path);
        Failure::Usage(format!("--same: '{path}' has to begin with / here: no program began there"))
    })?;
    Ok([&place[..], b"/", path].concat())
}

/// Returns the working directory that a recorded program began in.
fn began_in(trace: &Trace) -> Option<Vec<u8>> {
    let events = trace.events().take(FIRST_EVENTS).flatten();
    let mut states = events.filter_map(|next| match next.event.kind {
        EventKind::State(state) if !state.cwd.is_empty() => Some(state.cwd.clone()),
        _ => None,
    });
    states.next().filter(|place| place.starts_with(b"/"))
}

fn side(path: &Path) -> Result<Side, Failure> {
    if !path.is_dir() {
        let trace = source::open(path)?;
        source::warn_of(path, &trace);
        return Ok(Side::Trace(Box::new(trace)));
    }
    let opened = Tree::open(path);
    let tree = opened.map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    Ok(Side::Tree(tree))
}

fn println_all(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn write_text(state: &FinalState) -> Result<(), Failure> {
    let mut out = Vec::new();
    for difference in &state.differences {
        let [path, expected, found] =
            [&difference.path[..], difference.expected.as_bytes(), difference.found.as_bytes()]
                .map(escaped);
        writeln!(out, "{path}: {}: {expected} expected, {found} found", difference.what)?;
    }
    for unverified in &state.unverified {
        writeln!(out, "{}: not verified: {}", escaped(&unverified.path), unverified.why)?;
    }
    let more = state.unverified_count - state.unverified.len() as u64;
    if more > 0 {
        writeln!(out, "{more} more could not be verified")?;
    }
    let FinalState { compared, different, unverified_count, .. } = state;
    writeln!(
        out,
        "{} compared, {} differ, {} not verified",
        counted(*compared, "path", "paths"),
        show_count(*different),
        show_count(*unverified_count)
    )?;
    if state.left_out > 0 {
        let left_out = counted(state.left_out, "change", "changes");
        writeln!(out, "left out: {left_out} in other roots or mount namespaces")?;
    }
    if let Some(text) = &state.limited {
        writeln!(out, "{text}")?;
    }
    let text = String::from_utf8_lossy(&out);
    let mut stdout = io::stdout().lock();
    stdout.write_all(terminal::fit(&text, terminal::width(), terminal::below).as_bytes())?;
    Ok(stdout.flush()?)
}

fn write_json(json: &mut Json<'_>, state: &FinalState) {
    json.object(|json| {
        json.key("compared").uint(state.compared);
        json.key("different").uint(state.different);
        json.key("differences").array(|json| {
            for difference in &state.differences {
                json.object(|json| {
                    json.key("path").bytes(&difference.path);
                    json.key("what").str(&difference.what);
                    json.key("expected").str(&difference.expected);
                    json.key("found").str(&difference.found);
                });
            }
        });
        json.key("unverified").array(|json| {
            for unverified in &state.unverified {
                json.object(|json| {
                    json.key("path").bytes(&unverified.path);
                    json.key("why").str(&unverified.why);
                });
            }
        });
        json.key("unverified_count").uint(state.unverified_count);
        json.key("unknown_bytes").uint(state.unknown_bytes);
        json.key("left_out").uint(state.left_out);
        json.key("limited").optional_str(state.limited.as_deref());
        json.key("ok").bool(state.is_equal());
    });
}
