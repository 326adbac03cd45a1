//! One row is enough: in a copy of the sources, a system call, a request of ioctl and a view are
//! added by one row each (the view by a file and its row), and everything that shows calls or views
//! has them.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use acceptance::place::{Outcome, Place, Who};
use acceptance::stage::{Stage, repository};
use acceptance::{Complaint, ensure, tier, trials};

/// The row of a call that the kernel does not have, behind the last one of its table.
const CALL: &str = r#"    call(471, "frobnicate", FILE.or(DESC).or(READ), REAL, Ret::Size, &[
        source("fd"), path("pathname"), output("buf", Bytes, Len::Ret), count("count")]),
"#;

/// The row of a request that the kernel does not have.
const REQUEST: &str = r#"    request(0x40087a7a, "FROBGETSIZE", &[fd("fd"), REQUEST, in_struct("argp", &l::WINSIZE)]),
"#;

/// A view that counts events.
const VIEW: &str = r#"//! A view that counts events.

use crate::pass::{Fold, Occasion};
use crate::sheet::{Cell, Fact, Sheet};
use crate::view::ViewRow;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "frobs",
    about: "How many events there are",
    look: |look| Ok(look.fold(Frobs::default, |fold| fold.sheet())),
};

#[derive(Default)]
struct Frobs(u64);

impl Fold for Frobs {
    fn add(&mut self, _: &Occasion<'_>) {
        self.0 += 1;
    }

    fn merge(&mut self, other: Frobs) {
        self.0 += other.0;
    }
}

impl Frobs {
    fn sheet(self) -> Sheet {
        let fact = Fact { key: "frobs", title: "frobs", value: Cell::Count(self.0) };
        Sheet { facts: vec![fact], ..Sheet::default() }
    }
}
"#;

/// What strace would print of both.
const TEXT: &str = r#"7 1700000000.000001 openat(AT_FDCWD, "/tmp/a", O_RDONLY) = 3
7 1700000000.000002 frobnicate(3, "/tmp/b", "frobbed", 100) = 7
7 1700000000.000003 ioctl(3, FROBGETSIZE, {ws_row=24, ws_col=80, ws_xpixel=0, ws_ypixel=0}) = 0
7 1700000000.000004 +++ exited with 0 +++
"#;

fn main() -> ExitCode {
    trials::main(|trials| {
        let no_time = (!tier::is_long()).then_some("the long tier");
        trials.add("is_enough", Who::User, no_time, is_enough);
        Ok(())
    })
}

/// Copies what git has or would add.
fn copy_sources(to: &Path) -> Result<(), Complaint> {
    let list = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(repository())
        .output()
        .map_err(|error| format!("git: {error}"))?;
    for name in String::from_utf8_lossy(&list.stdout).split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (repository().join(name), to.join(name));
        if !from.is_file() {
            continue;
        }
        let folder = to.parent().ok_or("a file has a folder")?;
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        fs::copy(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    Ok(())
}

/// Puts `text` behind the last place at which `before` stands in a file.
fn add(file: &Path, before: &str, text: &str) -> Result<(), Complaint> {
    let old = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let at = old.rfind(before).ok_or_else(|| format!("{} has no {before:?}", file.display()))?;
    let (head, tail) = old.split_at(at);
    fs::write(file, [head, text, tail].concat()).map_err(|error| error.to_string())
}

fn read(path: &Path) -> Result<Vec<u8>, Complaint> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn has(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|part| part == word.as_bytes())
}

fn is_enough(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let sources = tempfile::tempdir().map_err(|error| error.to_string())?;
    let crates = sources.path().join("crates");
    copy_sources(sources.path())?;
    let table = crates.join("syscalls/src/table");
    add(&table.join("file.rs"), "];\n", CALL)?;
    add(&table.join("file.rs"), "use crate::shape::{", "use crate::shape::Len;\n")?;
    let requests = table.join("ioctl.rs");
    add(&requests, "    // userfaultfd.\n", REQUEST)?;
    let views = crates.join("stats/src");
    fs::write(views.join("frobs.rs"), VIEW).map_err(|error| error.to_string())?;
    add(&views.join("lib.rs"), "pub mod view;\n", "mod frobs;\n")?;
    add(&views.join("views.rs"), "    &calls::VIEW,\n", "    &crate::frobs::VIEW,\n")?;
    let built = repository().join("target/one_row");
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--package", "reenact"]).current_dir(sources.path());
    let status = build.env("CARGO_TARGET_DIR", &built).status();
    ensure!(status.is_ok_and(|status| status.success()), "it does not build");
    let reenact = place.path("reenact");
    fs::copy(built.join("debug/reenact"), &reenact).map_err(|error| error.to_string())?;

    let (text, trace) = (place.trace("strace.txt"), place.trace("frobbed.rnt"));
    let (records, tables) = (place.trace("frobbed.ds"), place.trace("frobbed"));
    fs::write(&text, TEXT).map_err(|error| error.to_string())?;
    place.give(&text)?;
    let run = |words: &[&str]| -> Result<Outcome, Complaint> {
        let mut command = place.command(&reenact);
        for word in words {
            match *word {
                "TEXT" => command.arg(&text),
                "TRACE" => command.arg(&trace),
                "RECORDS" => command.arg(&records),
                "TABLES" => command.arg(&tables),
                word => command.arg(word),
            };
        }
        place.run(&mut command)?.success(&words.join(" "))
    };
    let says = |words: &[&str], wanted: &[&str]| -> Result<(), Complaint> {
        let said = run(words)?.text();
        let missing: Vec<_> = wanted.iter().filter(|word| !said.contains(**word)).collect();
        ensure!(missing.is_empty(), "{words:?} does not say {missing:?}:\n{said}");
        Ok(())
    };
    run(&["import", "TEXT", "-o", "TRACE"])?;
    says(
        &["show", "TRACE"],
        &[r#"frobnicate(3</tmp/a>, "/tmp/b", "frobbed", 100)"#, "FROBGETSIZE"],
    )?;
    says(&["show", "--json", "TRACE"], &[r#""frobnicate""#, r#""ws_col":80"#, "FROBGETSIZE"])?;
    for filter in ["frobnicate", "%read", "%file"] {
        says(&["show", "--call", filter, "TRACE"], &["frobnicate("])?;
    }
    says(&["show", "--path", "/tmp/b", "TRACE"], &["frobnicate("])?;
    says(&["stat", "calls", "--json", "TRACE"], &[r#""frobnicate""#])?;
    says(&["stat", "files", "--json", "TRACE"], &[r#""read_bytes":7"#])?;
    says(&["stat", "frobs", "--json", "TRACE"], &[r#""frobs":"#])?;
    says(&["help", "stat"], &["frobs", "How many events there are"])?;
    says(
        &["export", "TRACE", "--to", "strace", "--output", "-"],
        &["frobnicate(3", "FROBGETSIZE"],
    )?;
    says(&["export", "TRACE", "--to", "jsonl", "--output", "-"], &[r#""frobnicate""#])?;
    run(&["export", "TRACE", "--to", "dataseries", "--output", "RECORDS"])?;
    let written = read(&records)?;
    ensure!(has(&written, "frobnicate"), "the DataSeries file has no type for the call");
    run(&["export", "TRACE", "--to", "parquet", "--output", "TABLES"])?;
    let calls = read(&tables.join("calls/run=frobbed/part-00000.parquet"))?;
    for word in ["frobnicate", "/tmp/b"] {
        ensure!(has(&calls, word), "the Parquet table does not have {word}");
    }
    Ok(())
}
