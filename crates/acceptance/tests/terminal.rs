//! What commands print on a terminal of 80 columns: no line of a view or a help text is wrapped by the
//! terminal, and long output goes through a pager.

use std::path::Path;
use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::screen::{self, Screen};
use acceptance::stage::{Stage, repository};
use acceptance::{Complaint, ensure, trials};

/// Columns that a terminal has at least.
const COLUMNS: u16 = 80;

fn main() -> ExitCode {
    trials::main(|trials| {
        trials.add("views_fit", Who::User, trials::missing(&["python3"]), views_fit);
        trials.add("kept_recordings_fit", Who::User, None, kept_recordings_fit);
        trials.add("help_fits", Who::User, None, help_fits);
        trials.add("pager", Who::User, None, pager);
        trials.add("the_summary_has_its_own_line", Who::User, None, own_line);
        trials.add("who_is_left_is_said", Who::User, None, who_is_left);
        Ok(())
    })
}

/// A command of `reenact` on a terminal, without a pager.
fn reenact(stage: &Stage, place: &Place, words: &[&str]) -> Command {
    let mut command = place.command(&stage.reenact);
    command.args(words).env("PAGER", "cat").env("TERM", "xterm");
    command
}

fn run(stage: &Stage, place: &Place, words: &[&str]) -> Result<Screen, Complaint> {
    screen::run(&mut reenact(stage, place, words), COLUMNS)
}

/// Fails if a line of the command is wrapped.
fn fits(stage: &Stage, place: &Place, words: &[&str]) -> Result<Screen, Complaint> {
    let screen = run(stage, place, words)?;
    let wrapped = screen.wrapped(COLUMNS);
    ensure!(wrapped.is_empty(), "reenact {words:?}: these are wrapped: {wrapped:#?}");
    Ok(screen)
}

/// Returns the names of the views: the items of the list in the help of `stat`.
fn views(stage: &Stage, place: &Place) -> Result<Vec<String>, Complaint> {
    let help = run(stage, place, &["stat", "--help"])?;
    let items = help.lines.iter().filter_map(|line| line.trim_start().strip_prefix("- "));
    let names: Vec<String> =
        items.filter_map(|item| item.split_whitespace().next()).map(String::from).collect();
    ensure!(names.len() >= 15, "stat has the views {names:?}");
    Ok(names)
}

/// Every way to look at a trace that prints tables.
fn looks(stage: &Stage, place: &Place, trace: &str) -> Result<(), Complaint> {
    for view in views(stage, place)? {
        fits(stage, place, &["stat", &view, trace])?;
    }
    let others: &[&[&str]] = &[
        &["stat", "calls", trace, "--by", "site"],
        &["stat", "calls", trace, "--where"],
        &["info", trace],
        &["info", "--verify", trace],
        &["diff", trace, trace],
        &["diff", trace, trace, "--by", "call"],
        &["diff", trace, trace, "--by", "file"],
        &["diff", trace, trace, "--by", "process"],
        &["diff", trace, trace, "--by", "site"],
    ];
    others.iter().try_for_each(|words| fits(stage, place, words).map(|_| ()))
}

const PROGRAM: &str = "
import os, subprocess, threading
for i in range(60):
    name = 'a-name-of-a-file-that-has-no-room-in-a-column-of-a-table-%d' % i
    with open(name, 'w') as file:
        file.write('x' * 1000000)
        file.flush()
        os.fsync(file.fileno())
    os.rename(name, name + '-and-a-longer-name')
def work():
    for i in range(300):
        try: os.stat('/no/such/file/%d' % i)
        except OSError: pass
threads = [threading.Thread(target=work) for i in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
subprocess.run(['ls', '-la', '/usr/lib'], stdout=subprocess.DEVNULL)
";

/// Every view of a recording with long names, big numbers, threads, children and callers, and what else
/// prints to a terminal.
fn views_fit(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let record = fits(
        stage,
        &place,
        &["record", "--stack", "--output", "run.rnt", "--", "python3", "-c", PROGRAM],
    )?;
    ensure!(record.status.success(), "record: {}", record.text());
    looks(stage, &place, "run.rnt")?;
    let calls = run(stage, &place, &["stat", "run.rnt"])?;
    ensure!(calls.text().contains("fsync"), "{}", calls.text());
    // With several processes, each line says which program it is of; structs are cut short.
    let show = run(stage, &place, &["show", "run.rnt", "--call", "newfstatat,getdents64"])?.text();
    ensure!(show.contains("<ls> ") && show.contains("<python3"), "no names: {show}");
    ensure!(show.contains("st_size=") && !show.contains("st_ino="), "whole structs: {show}");
    let verbose = run(stage, &place, &["show", "-v", "run.rnt", "--call", "newfstatat"])?.text();
    ensure!(verbose.contains("st_ino="), "no whole structs: {verbose}");
    let wide = run(stage, &place, &["stat", "run.rnt", "--wide"])?;
    ensure!(!wide.wrapped(COLUMNS).is_empty(), "--wide is as narrow: {}", wide.text());
    let replay = fits(stage, &place, &["replay", "run.rnt"])?;
    ensure!(replay.text().contains("final state: identical"), "{}", replay.text());
    fits(stage, &place, &["doctor"])?;
    fits(stage, &place, &["stat", "nothing", "run.rnt"])?;
    fits(stage, &place, &["report", "run.rnt"])?;
    Ok(())
}

/// The same of recordings of many kinds.
fn kept_recordings_fit(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let kept = repository().join("tests/kept");
    let mut names: Vec<_> = std::fs::read_dir(&kept)
        .map_err(|error| error.to_string())?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "rnt"))
        .collect();
    names.sort();
    ensure!(names.len() > 20, "{} recordings", names.len());
    // Some in the short tier: each has more than twenty looks.
    let step = if acceptance::tier::is_long() { 1 } else { 12 };
    for path in names.iter().step_by(step) {
        let name = path.file_name().map(Path::new).ok_or("a file has a name")?;
        let content = std::fs::read(path).map_err(|error| error.to_string())?;
        let name = name.to_string_lossy().into_owned();
        place.write(&name, &content)?;
        looks(stage, &place, &name)?;
    }
    Ok(())
}

fn help_fits(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let whole = fits(stage, &place, &["--help"])?;
    fits(stage, &place, &["-h"])?;
    let list = whole.lines.iter().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let list = list.take_while(|line| !line.is_empty());
    let names: Vec<&str> = list
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    ensure!(names.len() >= 18, "{names:?}");
    for name in names {
        for option in ["-h", "--help"] {
            fits(stage, &place, &[name, option])?;
        }
    }
    Ok(())
}

/// Who waits for a recording is told for whom it goes on, and nothing where it does not.
fn who_is_left(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let record = |options: &[&str], script: &str| {
        let words = [&["record", "-f", "-o", "run.rnt"], options, &["sh", "-c", script]].concat();
        run(stage, &place, &words).map(|screen| screen.text())
    };
    let said = record(&[], "sleep 5 & echo $!")?;
    ensure!(said.contains("PROGRAM has ended, and sleep ("), "{said}");
    let silent = record(&["--quiet"], "sleep 4 & echo $!")? + &record(&[], "sleep 3")?;
    ensure!(!silent.contains("has ended"), "{silent}");
    Ok(())
}

/// What `record` prints begins on a line of its own, and no line is left empty for that.
fn own_line(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    for script in [
        "printf hi",
        "printf hi | cat",
        "printf hi; sleep 0.01 > /dev/null",
        "echo hi",
        "printf 'h%s\\n' i",
    ] {
        let screen = run(stage, &place, &["record", "-o", "run.rnt", "sh", "-c", script])?;
        let lines: Vec<&str> = screen.lines.iter().map(String::as_str).collect();
        let is_apart = lines.len() > 1 && lines[0] == "hi" && lines[1].starts_with("reenact: ");
        ensure!(is_apart, "{script}: {}", screen.text());
    }
    Ok(())
}

/// Output goes through the pager that the environment names, with the terminal's width and colours, and
/// not into it where nobody looks.
fn pager(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let recorded = run(stage, &place, &["record", "--output", "run.rnt", "--", "sh", "-c", ":"])?;
    ensure!(recorded.status.success(), "{}", recorded.text());
    let alone = run(stage, &place, &["show", "run.rnt"])?.text();
    ensure!(
        !alone.lines().any(|line| line.contains('<') && line.find('<') < line.find(' ')),
        "{alone}"
    );
    for (words, paged) in [
        (&["show", "run.rnt"][..], true),
        (&["stat", "run.rnt"], true),
        (&["info", "run.rnt"], true),
        (&["diff", "run.rnt", "run.rnt"], true),
        (&["doctor"], false),
    ] {
        let mut command = reenact(stage, &place, words);
        command.env("REENACT_PAGER", "sed -e 's/^/: /'");
        let screen = screen::run(&mut command, COLUMNS + 2)?;
        let lines: Vec<&String> = screen.lines.iter().filter(|line| !line.is_empty()).collect();
        let through = lines.iter().all(|line| line.starts_with(": "));
        ensure!(through == paged && lines.len() > 3, "{words:?}: {}", screen.text());
    }
    // A pager that is left early, or that does not exist.
    for (name, least) in [("head -3", 3), ("/no/such/pager", 10)] {
        let mut command = reenact(stage, &place, &["show", "run.rnt"]);
        let screen = screen::run(command.env("PAGER", name), COLUMNS)?;
        ensure!(screen.status.success(), "{name}: {}: {}", screen.status, screen.text());
        ensure!(screen.lines.len() >= least, "{name}: {}", screen.text());
        let is_told = screen.text().contains("PAGER: cannot run '/no/such/pager'");
        ensure!(is_told == (name == "/no/such/pager"), "{name}: {}", screen.text());
    }
    let mut command = reenact(stage, &place, &["show", "run.rnt"]);
    let piped = place.run(command.env("PAGER", "sed -e 's/^/: /'"))?.success("show")?;
    ensure!(!piped.text().starts_with(": "), "it is paged into a file");
    Ok(())
}
