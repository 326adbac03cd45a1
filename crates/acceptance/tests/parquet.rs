//! `reenact export --to parquet`: DuckDB, pyarrow, pandas, Polars and Spark read every table; rows,
//! sums and joins equal those of `show --json`; the examples in the documentation work.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::stage::{self, Stage};
use acceptance::{Complaint, ensure, kernel_events, tier, trials};

/// Readers for one machine, and one for clusters.
const READERS: [&str; 4] = ["duckdb", "pyarrow", "pandas", "polars"];
const SPARK: &str = "pyspark";

fn main() -> ExitCode {
    trials::main(|trials| {
        let python = trials::python();
        let has = |modules: &[&str]| trials::imports(&python, modules);
        let no_readers = (!has(&READERS)).then_some("duckdb, pyarrow, pandas and polars");
        let no_spark = (!tier::is_long() || !has(&[SPARK])).then_some("the long tier and pyspark");
        let no_python = trials::missing(&["python3"]);
        trials.add("refuses", Who::User, no_python, refuses);
        for (name, content) in [("tables", true), ("tables_without_content", false)] {
            let missing = no_python.or(no_readers);
            trials.add(name, Who::User, missing, move |stage, who| {
                let engines: Vec<&str> = READERS.to_vec();
                tables(stage, who, content, &engines)
            });
        }
        let no_arrow = (!has(&["pyarrow"])).then_some("pyarrow");
        let reader = python.to_string_lossy().into_owned();
        let no_events = (!kernel_events::are_there()).then_some(kernel_events::NEED);
        trials.add("kernel", Who::Root, no_python.or(no_arrow).or(no_events), move |stage, who| {
            let place = Place::new(stage, who)?;
            let mut command = place.command(&reader);
            command.arg(stage::repository().join("tests/parquet/kernel.py")).arg(&stage.reenact);
            let outcome = place.run(command.arg("."))?;
            ensure!(outcome.status.success(), "{}{}", outcome.text(), outcome.errors());
            Ok(())
        });
        trials.add("spark", Who::User, no_python.or(no_readers).or(no_spark), |stage, who| {
            tables(stage, who, true, &["spark"])?;
            documented(stage, who, &["python", "pyspark"])
        });
        trials.add("documented", Who::User, no_python.or(no_readers), |stage, who| {
            documented(stage, who, &["sql"])?;
            documented(stage, who, &["python", "polars"])
        });
        Ok(())
    })
}

/// Records a program that does a little of everything.
fn record(stage: &Stage, place: &Place, name: &str) -> Result<PathBuf, Complaint> {
    place.write("work.py", &fs::read(script("work.py")).map_err(|error| error.to_string())?)?;
    let trace = place.trace(name);
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--output"]).arg(&trace);
    place.run(command.args(["--", "/usr/bin/python3", "-BSE", "work.py"]))?.success("work.py")?;
    Ok(trace)
}

fn script(name: &str) -> PathBuf {
    stage::repository().join("tests/parquet").join(name)
}

fn export(stage: &Stage, trace: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(&stage.reenact);
    command.arg("export").arg(trace).args(["--to", "parquet", "-o"]).arg(out).args(more);
    command
}

fn run(command: &mut Command) -> Result<String, Complaint> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let (out, err) = (&output.stdout, &output.stderr);
    let said = format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err));
    ensure!(output.status.success(), "{command:?}: {}; it said:\n{said}", output.status);
    Ok(said)
}

fn tables(stage: &Stage, who: Who, content: bool, engines: &[&str]) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "work.rnt")?;
    let out = place.path("out");
    let more: &[&str] = if content { &[] } else { &["--no-content"] };
    run(&mut export(stage, &trace, &out, more))?;
    // Another run in the same directory must not be counted.
    run(&mut export(stage, &trace, &out, &["--run", "another", "--no-content"]))?;
    let shown = place.path("shown.jsonl");
    let file = fs::File::create(&shown).map_err(|error| error.to_string())?;
    let mut show = Command::new(&stage.reenact);
    let status = show.args(["show", "--json"]).arg(&trace).stdout(file).status();
    ensure!(status.is_ok_and(|status| status.success()), "show --json fails");
    let mut check = Command::new(trials::python());
    check.arg(script("check.py")).arg(&out).arg("work").arg(&shown).args(engines);
    if !content {
        check.arg("no-content");
    }
    run(&mut check).map(drop)
}

/// Runs the documented examples on two recordings in one directory.
fn documented(stage: &Stage, who: Who, which: &[&str]) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "work.rnt")?;
    for name in ["first", "second"] {
        run(&mut export(stage, &trace, &place.path("out"), &["--run", name]))?;
    }
    let document = stage::repository().join("docs/parquet.md");
    let mut command = Command::new(trials::python());
    command.arg(script("documented.py")).arg(&document).args(which).current_dir(place.path(""));
    run(&mut command).map(drop)
}

/// File modes, names of runs, and refusal to replace files.
fn refuses(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "odd name;.rnt")?;
    let out = place.path("out");
    let said = run(&mut export(stage, &trace, &out, &[]))?;
    ensure!(said.contains("calls -> "), "it does not say what it wrote: {said}");
    let part = out.join("calls/run=odd_name_/part-00000.parquet");
    let modes = [&out, &out.join("calls"), &part].map(|path| mode(path));
    ensure!(modes == [Some(0o700), Some(0o700), Some(0o600)], "modes {modes:?}");
    let before = fs::read(&part).map_err(|error| error.to_string())?;
    let refused = |more: &[&str], code: i32, why: &str| -> Result<(), Complaint> {
        let output = export(stage, &trace, &out, more).output();
        let output = output.map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let exit = output.status.code();
        ensure!(exit == Some(code) && said.contains(why), "{more:?}: {exit:?}, {said}");
        Ok(())
    };
    refused(&[], 1, "--force")?;
    ensure!(fs::read(&part).is_ok_and(|now| now == before), "what was there has changed");
    refused(&["--run", "a/b"], 2, "a/b")?;
    run(&mut export(stage, &trace, &out, &["--force", "--call", "pwrite64"]))?;
    ensure!(fs::read(&part).is_ok_and(|now| now != before), "it was not replaced");
    ensure!(!out.join("call/openat/run=odd_name_").exists(), "a table of the old run is left");
    ensure!(out.join("call/pwrite64/run=odd_name_").exists(), "a table is missing");
    // A directory with other files in it is refused.
    let other = place.path("other");
    fs::create_dir(&other).map_err(|error| error.to_string())?;
    fs::write(other.join("mine"), "x").map_err(|error| error.to_string())?;
    let output = export(stage, &trace, &other, &["--force"]).output();
    ensure!(output.is_ok_and(|output| output.status.code() == Some(1)), "it takes any directory");
    ensure!(fs::read(other.join("mine")).is_ok_and(|mine| mine == b"x"), "a file is gone");
    Ok(())
}

fn mode(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.mode() & 0o777)
}
