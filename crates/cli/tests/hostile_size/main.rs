//! Traces that claim very much of something: open files in many processes, nested directories,
//! names of one file. Every command ends on each of them, in bounded memory, within a hundred times
//! the time that it takes for a trace of as many plain writes.

#[allow(dead_code, reason = "those that are replayed only need more")]
#[path = "../hostile_replay/script.rs"]
mod script;

mod commands;
mod shapes;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Failed, Trial};
use tempfile::TempDir;

use commands::{COMMANDS, Run, Words};
use shapes::{SHAPES, Shape};

/// Number of everything: before a release, with an optimized binary, and without one.
const MANY: [u64; 3] = [30_000, 6000, 300];

/// Largest ratio to the time of an ordinary trace, and smallest such time that counts.
const SLOWER_MAX: f64 = 100.0;
const ORDINARY_MIN_S: f64 = 0.1;

fn main() -> ExitCode {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_long = is_set("REENACT_SOAK");
    let many = match (is_long, is_set("REENACT_BIN")) {
        (true, _) => MANY[0],
        (_, true) => MANY[1],
        _ => MANY[2],
    };
    let usual = Arc::new(Usual::new(many, is_long));
    let trial = |(name, write): &(&'static str, Shape)| {
        let (write, usual) = (*write, Arc::clone(&usual));
        Trial::test(*name, move || all_commands(write, many, &usual).map_err(Failed::from))
    };
    libtest_mimic::run(&Arguments::from_args(), SHAPES.iter().map(trial).collect()).exit_code()
}

/// The ordinary trace, and the time that commands take for it.
struct Usual {
    place: TempDir,
    trace: PathBuf,
    /// The commands, and the seconds that each took, once it was run.
    commands: Vec<(&'static Words, OnceLock<f64>)>,
}

impl Usual {
    fn new(many: u64, all: bool) -> Usual {
        let place = tempfile::tempdir().expect("a temporary directory");
        let trace = place.path().join("ordinary.rnt");
        shapes::ordinary(&trace, many * 2);
        let commands = COMMANDS.iter().filter(|words| all || words.is_telling());
        Usual { place, trace, commands: commands.map(|words| (words, OnceLock::new())).collect() }
    }
}

fn all_commands(write: Shape, many: u64, usual: &Usual) -> Result<(), String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let hostile = place.path().join("hostile.rnt");
    write(&hostile, many);
    let mut complaints = Vec::new();
    for (number, (words, seconds)) in usual.commands.iter().enumerate() {
        let seconds = seconds.get_or_init(|| {
            let out = usual.place.path().join(format!("{number}"));
            Run::of(words, &usual.trace, &hostile, &out).map_or(0.0, |run| run.seconds)
        });
        let out = place.path().join(format!("{number}"));
        let run = Run::of(words, &hostile, &usual.trace, &out)?;
        if let Err(what) = run.check(SLOWER_MAX * seconds.max(ORDINARY_MIN_S)) {
            complaints.push(format!("{}: {what}", words.name()));
        }
    }
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}
