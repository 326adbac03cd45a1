//! `record --stack`, `--site-depth` and `--site-in`: chains of callers as a program was built to have them,
//! with and without frame pointers and tables for unwinding.

use std::process::ExitCode;

use acceptance::place::{Outcome, Place, Who};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, trials};
use serde_json::Value;

/// How the program is built: by its tables, by frame pointers alone, and with its C library inside.
const WAYS: &[(&str, &[&str])] = &[
    ("tables", &["-O2", "-g", "-fomit-frame-pointer"]),
    ("pointers", &["-O1", "-g", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"]),
    ("static", &["-O2", "-g", "-static"]),
];

fn main() -> ExitCode {
    trials::main(|trials| {
        let no_compiler = trials::missing(&["gcc"]);
        for (name, options) in WAYS {
            trials.add(&format!("chain/{name}"), Who::User, no_compiler, |stage, who| {
                chain(stage, who, options)
            });
        }
        trials.add("one_of_them", Who::User, no_compiler, one_of_them);
        trials.add("known_function_in_a_library", Who::User, no_compiler, in_library);
        trials.add("of_children", Who::User, no_compiler, of_children);
        trials.add("refused", Who::User, None, refused);
        Ok(())
    })
}

fn build(stage: &Stage, place: &Place, options: &[&str]) -> Result<(), Complaint> {
    let source = stage.readable("tests/callers/chain.c")?;
    let mut gcc = place.command("gcc");
    place
        .run(gcc.args(options).arg("-o").arg(place.work().join("chain")).arg(source))?
        .success("gcc")?;
    Ok(())
}

fn record(
    stage: &Stage,
    place: &Place,
    options: &[&str],
    program: &[&str],
) -> Result<(), Complaint> {
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--output"]).arg(place.trace("chain.rnt"));
    place.run(command.args(options).arg("--").args(program))?.success("record")?;
    Ok(())
}

fn ask(stage: &Stage, place: &Place, words: &[&str]) -> Result<Outcome, Complaint> {
    let mut command = place.command(&stage.reenact);
    let (first, rest) = words.split_first().ok_or("nothing is asked")?;
    place.run(command.arg(first).args(rest).arg(place.trace("chain.rnt")))?.success(first)
}

/// The functions after each call of `show --stack`.
fn chains(text: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        match line.trim_start().strip_prefix("> ") {
            Some(of) => {
                let name = of.split(' ').next().unwrap_or_default().to_string();
                if let Some(chain) = all.last_mut() {
                    chain.push(name);
                }
            }
            None => all.push(Vec::new()),
        }
    }
    all
}

/// A library without names but that of the function that it exports, which calls one that writes.
const LIBRARY: &str = "#include <unistd.h>
static __attribute__((noinline)) void without_name(void) {
    for (int n = 0; n < 200; n++) if (write(1, \"x\", 1) != 1) _exit(1);
}
void exported(void) { without_name(); __asm__ volatile(\"\"); }
";
const ITS_USER: &str = "void exported(void); int main(void) { exported(); return 0; }";

/// Of callers in one file that whose function is known says more than one without a name.
fn in_library(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    for (name, text) in [("library.c", LIBRARY), ("chain.c", ITS_USER)] {
        std::fs::write(place.work().join(name), text).map_err(|error| error.to_string())?;
    }
    let shared = ["-O1", "-g0", "-s", "-fPIC", "-shared", "-o", "library.so", "library.c"];
    let user = ["-O1", "-o", "chain", "chain.c", "./library.so"];
    for words in [&shared[..], &user] {
        place.run(place.command("gcc").args(words))?.success("gcc")?;
    }
    record(stage, &place, &["--stack"], &["./chain"])?;
    let sites = ask(stage, &place, &["stat", "sites", "--json"])?.text();
    let sites: Value = serde_json::from_str(&sites).map_err(|error| error.to_string())?;
    let mut rows = sites["call_sites"].as_array().into_iter().flatten();
    let writes = rows.find(|row| row["call"] == "write" && row["count"] == 200);
    let function = writes.and_then(|row| row["function"].as_str());
    ensure!(function.is_some_and(|name| name.starts_with("exported")), "{sites}");
    Ok(())
}

fn chain(stage: &Stage, who: Who, options: &[&str]) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    build(stage, &place, options)?;
    record(stage, &place, &["--stack"], &["./chain"])?;
    let shown = ask(stage, &place, &["show", "--stack", "--call", "write"])?;
    let (by_one, by_other) = (["inner", "one", "main"], ["inner", "other", "main"]);
    let found = chains(&shown.text());
    let count = |wanted: &[&str]| {
        let has = |chain: &&Vec<String>| chain.get(1..=wanted.len()).is_some_and(|of| of == wanted);
        found.iter().filter(has).count()
    };
    let counts = (count(&by_one), count(&by_other));
    ensure!(counts == (30, 12), "chains were found {counts:?} times:\n{}", shown.text());
    ensure!(shown.text().contains("chain.c:10 ["), "no line of the source:\n{}", shown.text());
    in_json(stage, &place)?;
    let by_site = ask(stage, &place, &["stat", "calls", "--by", "site", "--json"]);
    // The view's words come before the trace.
    let sites: Value = serde_json::from_str(&by_site?.text()).map_err(|error| error.to_string())?;
    let rows = sites["call_sites"].as_array().ok_or("no rows")?;
    let of_write = rows.iter().find(|row| row["call"] == "write").ok_or("no write")?;
    ensure!(of_write["count"] == 42 && of_write["function"] == "inner", "it has {of_write}");
    let folded = place.work().join("out.folded");
    let mut export = place.command(&stage.reenact);
    export.args(["export", "--to", "folded", "--call", "write", "-o"]).arg(&folded);
    place.run(export.arg(place.trace("chain.rnt")))?.success("export")?;
    let folded = std::fs::read_to_string(&folded).map_err(|error| error.to_string())?;
    for middle in ["one", "other"] {
        let end = format!(";main;{middle};inner;write ");
        let lines = folded.lines().filter(|line| line.starts_with("chain;") && line.contains(&end));
        ensure!(lines.count() == 1, "no line with {end}:\n{folded}");
    }
    Ok(())
}

/// The same chains as JSON: the call's own place first.
fn in_json(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let shown = ask(stage, place, &["show", "--stack", "--json", "--call", "write"])?.text();
    let calls: Vec<Value> =
        shown.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let functions = |call: &Value| -> Option<Vec<String>> {
        let places = call["stack"].as_array()?.iter().skip(1).take(3);
        Some(places.filter_map(|of| of["function"].as_str().map(String::from)).collect())
    };
    let is_by_one =
        |call: &&Value| functions(call).is_some_and(|of| of == ["inner", "one", "main"]);
    let count = calls.iter().filter(is_by_one).count();
    ensure!((calls.len(), count) == (42, 30), "{count} of {} calls by `one`", calls.len());
    let of_inner = &calls[0]["stack"][1];
    let is_line = |line: &str| line.ends_with("chain.c:10");
    ensure!(of_inner["line"].as_str().is_some_and(is_line), "{of_inner}");
    let is_place = |place: &str| place.contains("/chain");
    ensure!(of_inner["place"].as_str().is_some_and(is_place), "{of_inner}");
    // Nobody asked for them.
    let shown = ask(stage, place, &["show", "--json", "--call", "write"])?.text();
    ensure!(!shown.contains("\"stack\""), "callers that nobody wanted");
    Ok(())
}

/// Only one caller is kept where only one is wanted.
fn one_of_them(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    build(stage, &place, &["-O2", "-g"])?;
    for (options, wanted) in [
        (["--site-depth", "0"], "inner"),
        (["--site-depth", "2"], "main"),
        (["--site-in", "chain"], "inner"),
        (["--site-in", "0x1000-0x7fffffffffff"], "inner"),
    ] {
        record(stage, &place, &options, &["./chain"])?;
        let shown = ask(stage, &place, &["show", "--stack", "--call", "write"])?;
        let found = chains(&shown.text());
        let is_it = |chain: &Vec<String>| chain.len() == 2 && chain[1] == wanted;
        ensure!(found.len() == 42 && found.iter().all(is_it), "{options:?}: {found:?}");
        std::fs::remove_file(place.trace("chain.rnt")).map_err(|error| error.to_string())?;
    }
    record(stage, &place, &[], &["./chain"])?;
    let shown = ask(stage, &place, &["show", "--stack", "--call", "write"])?;
    ensure!(!shown.text().contains("> "), "callers that nobody wanted:\n{}", shown.text());
    Ok(())
}

/// Programs that a shell makes have them too, however short they live.
fn of_children(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    build(stage, &place, &["-O2", "-g"])?;
    record(stage, &place, &["--stack=3"], &["sh", "-c", "for i in 1 2 3; do ./chain; done; true"])?;
    let shown = ask(stage, &place, &["show", "--stack", "--call", "write"])?;
    let found = chains(&shown.text());
    let is_whole = |chain: &&Vec<String>| chain.len() == 4 && chain[1] == "inner";
    let count = found.iter().filter(is_whole).count();
    ensure!(count == 3 * 42, "{count} chains: {found:?}");
    Ok(())
}

fn refused(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    for options in [
        &["--stack=x"][..],
        &["--stack", "--site-depth", "1"],
        &["--site-in", "0x20-0x10"],
        &["--stack-bytes", "1M"],
    ] {
        let mut command = place.command(&stage.reenact);
        let outcome = place.run(command.arg("record").args(options).args(["--", "true"]))?;
        ensure!(outcome.status.code() == Some(125), "{options:?}: {}", outcome.status);
    }
    Ok(())
}
