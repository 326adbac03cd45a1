//! `reenact compare`: compares two trees, or a tree with the state that a recording left.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use file_tree::Tree;
use render::amounts::{counted, show_count};
use render::escape::escaped;
use render::json::{Json, text};
use replay::compare::{self, FinalState, Scrutiny, all_seen};
use trace::Trace;

use crate::failure::{self, Failure};
use crate::source;

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
  reenact compare monday.rnt tuesday.rnt")]
pub struct Args {
    /// What should be: a directory or a trace
    #[arg(value_name = "A")]
    expected: PathBuf,

    /// What is: a directory or a trace
    #[arg(value_name = "B")]
    found: PathBuf,

    /// Do not compare owners and groups
    #[arg(long)]
    no_owner: bool,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// One of the two sides.
enum Side {
    Tree(Tree),
    Trace(Box<Trace>),
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let scrutiny = Scrutiny { owners: !args.no_owner, ..Scrutiny::default() };
    let fail = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let state = match (side(&args.expected)?, side(&args.found)?) {
        (Side::Tree(a), Side::Tree(b)) => Ok(compare::trees(&a, &b, scrutiny)),
        (Side::Trace(a), Side::Tree(b)) => compare::manifest_and_tree(&a, &b, scrutiny, &all_seen),
        (Side::Tree(a), Side::Trace(b)) => compare::tree_and_manifest(&a, &b, scrutiny),
        (Side::Trace(a), Side::Trace(b)) => compare::manifests(&a, &b, scrutiny),
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
        return Err(fail(&format!("{a} and {b}: {what}")));
    }
    if state.is_equal() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::Different(format!(
        "{a} and {b} differ in {}",
        counted(state.different, "path", "paths")
    )))
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
    let mut out = io::BufWriter::new(io::stdout().lock());
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
    Ok(out.flush()?)
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
