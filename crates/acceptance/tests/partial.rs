//! Recordings of some calls alone (`record --call`, `--path`): they have what a whole recording shows of
//! these calls, nothing of others but what readers need, and say so.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acceptance::place::{Place, Who, record};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, trials};
use serde_json::Value;

const SECRET: &str = "written here, and long enough to be a buffer of its own: contents of ";

/// Writes, syncs, opens, copies descriptors, changes directories, forks and starts a program.
const PROGRAM: &str = "
import os, subprocess, sys
os.mkdir('deep')
for name in ['deep/one', 'deep/two', 'log']:
    file = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    for i in range(20):
        os.write(file, SECRET + name.encode())
    os.fsync(file)
    os.close(file)
os.chdir('deep')
file = os.dup(os.open('one', os.O_RDWR))
os.lseek(file, 0, 0)
os.read(file, 10)
if os.fork() == 0:
    os.fdatasync(file)
    os._exit(0)
os.wait()
subprocess.run(['/bin/cat', 'two'], stdout=subprocess.DEVNULL)
os.fsync(file)
";

fn main() -> ExitCode {
    trials::main(|trials| {
        let missing = || trials::missing(&["python3"]);
        let (calls, paths, both) = (missing(), missing(), missing());
        trials.add_for_both("calls", calls, |stage, who| {
            let options = ["--call", "fsync,fdatasync,lseek"];
            is_part(stage, who, &options, &["fsync", "fdatasync"], Secret::Nowhere)
        });
        trials.add_for_both("paths", paths, |stage, who| {
            let options = ["--path", "*/deep/one"];
            is_part(stage, who, &options, &["write", "fsync", "read"], Secret::InOne)
        });
        trials.add_for_both("calls_and_paths", both, |stage, who| {
            let options = ["--call", "%desc", "--path", "*/log", "--path", "*/two"];
            is_part(stage, who, &options, &["write", "fsync"], Secret::InOthers)
        });
        trials.add_for_both("all_but", missing(), |stage, who| {
            let options = ["--call", "!%desc"];
            is_part(stage, who, &options, &["mkdir", "wait4"], Secret::Nowhere)
        });
        trials.add_for_both("whole_ones_only", missing(), whole_ones_only);
        Ok(())
    })
}

/// Where the secret must be in the trace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Secret {
    Nowhere,
    InOne,
    InOthers,
}

fn program() -> String {
    format!("SECRET = b'{SECRET}'\n{PROGRAM}")
}

fn make(stage: &Stage, place: &Place, options: &[&str]) -> Result<PathBuf, Complaint> {
    place.clear()?;
    let trace = place.trace(&format!("{}.rnt", options.join("_").replace(['/', '*'], "")));
    let all = [&["--compress", "none"], options].concat();
    let text = program();
    let mut command = record(stage, place, &all, &trace, &["/usr/bin/python3", "-c", &text]);
    place.run(&mut command)?.success("record")?;
    Ok(trace)
}

/// The calls of a trace that fit these options of `show`, without their times, numbers and processes.
fn shown(
    stage: &Stage,
    place: &Place,
    trace: &Path,
    options: &[&str],
) -> Result<Vec<String>, Complaint> {
    let mut show = place.command(&stage.reenact);
    show.args(["show", "--json"]).args(options).arg(trace);
    let outcome = place.run(&mut show)?.success("show")?;
    let mut calls = Vec::new();
    for line in outcome.text().lines() {
        let event: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let Some(name) = event["call"].as_str() else { continue };
        let path = event["paths"].to_string();
        calls.push(format!("{name} {} {path} {}", event["args"]["fd"], event["ret"]));
    }
    Ok(calls)
}

fn info(stage: &Stage, place: &Place, trace: &Path) -> Result<Value, Complaint> {
    let mut info = place.command(&stage.reenact);
    info.args(["info", "--verify", "--json"]).arg(trace);
    let outcome = place.run(&mut info)?.success("info --verify")?;
    serde_json::from_slice(&outcome.stdout).map_err(|error| error.to_string())
}

fn is_part(
    stage: &Stage,
    who: Who,
    options: &[&str],
    has: &[&str],
    secret: Secret,
) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let whole = make(stage, &place, &[])?;
    let part = make(stage, &place, options)?;

    // What was asked for is as in a whole recording, and nothing of it is missing.
    let [expected, found] = [&whole, &part].map(|trace| shown(stage, &place, trace, options));
    let (expected, found) = (expected?, found?);
    // Addresses and inodes differ; numbers of descriptors, paths and results do not.
    ensure!(expected.len() == found.len(), "{} calls, {} in a part", expected.len(), found.len());
    for name in has {
        let of = |calls: &[String]| {
            let begin = format!("{name} ");
            calls.iter().filter(|call| call.starts_with(&begin)).cloned().collect::<Vec<_>>()
        };
        let (expected, found) = (of(&expected), of(&found));
        let (mut a, mut b) = (expected.clone(), found.clone());
        if *name == "wait4" {
            // It returns process ids.
            (a, b) = (vec![a.len().to_string()], vec![b.len().to_string()]);
        }
        ensure!(a == b && !found.is_empty(), "{name}: {expected:#?}\nin a part: {found:#?}");
    }

    // There is less, also of what is kept beside it.
    let [all, kept] = [&whole, &part].map(|trace| shown(stage, &place, trace, &[]));
    let (all, kept) = (all?, kept?);
    ensure!(kept.len() < all.len() && kept.len() >= found.len(), "{} of {}", kept.len(), all.len());
    let bytes = std::fs::read(&part).map_err(|error| error.to_string())?;
    let holds = |name: &str| {
        let text = format!("{SECRET}{name}");
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    let (one, two, log) = (holds("deep/one"), holds("deep/two"), holds("log"));
    let wanted = match secret {
        Secret::Nowhere => [false; 3],
        Secret::InOne => [true, false, false],
        Secret::InOthers => [false, true, true],
    };
    ensure!([one, two, log] == wanted, "contents of one, two, log: {:?}", [one, two, log]);

    // It says what it is, and is complete as such.
    let [before, after] = [&whole, &part].map(|trace| info(stage, &place, trace));
    let (before, after) = (before?, after?);
    ensure!(after["complete"] == true && before["filtered"].is_null(), "{after}");
    ensure!(after["filtered"].as_str().is_some_and(|text| text.starts_with("--")), "{after}");
    for number in ["processes", "threads"] {
        ensure!(before[number] == after[number], "{number}: {} {}", before[number], after[number]);
    }
    let mut replay = place.command(&stage.reenact);
    let refused = place.run(replay.arg("replay").arg(&part))?;
    let why = refused.errors();
    ensure!(refused.status.code() == Some(1) && why.contains("cannot be replayed"), "{why}");
    Ok(())
}

/// Options that need every call refuse.
fn whole_ones_only(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    for option in ["--rerunnable", "--snapshot"] {
        let trace = place.trace("none.rnt");
        let mut command = record(stage, &place, &["--call", "read", option], &trace, &["true"]);
        let outcome = place.run(&mut command)?;
        ensure!(outcome.status.code() == Some(125), "{option}: {}", outcome.errors());
        ensure!(outcome.errors().contains("whole recordings"), "{option}: {}", outcome.errors());
        ensure!(!trace.exists(), "{option} leaves a trace");
    }
    Ok(())
}
