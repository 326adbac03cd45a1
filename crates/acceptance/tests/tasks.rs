//! Parents, process groups, sessions, and user and group ids in `show --json`, against what the kernel
//! said of the same processes at the same time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use acceptance::place::{Place, Who, record};
use acceptance::shown::{Info, base64, show};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, program, trials};
use serde_json::Value;

/// The program writes down what the kernel says after each change.
const PROGRAM: &str = "groups_and_ids";
/// How often it does so at least, as an ordinary user.
const SAID_AT_LEAST: usize = 11;

fn main() -> ExitCode {
    trials::main(|trials| {
        trials.add_for_both("as_the_kernel_says", None, as_the_kernel_says);
        trials.add_for_both("conditions", None, conditions);
        trials.add_for_both("placing_the_agent_is_no_part_of_an_exec", None, execs);
        Ok(())
    })
}

/// Records the program, and returns its trace.
fn recorded(stage: &Stage, place: &Place) -> Result<PathBuf, Complaint> {
    let programs = program::all()?;
    let program = programs.iter().find(|program| program.name == PROGRAM);
    let binary = program.ok_or("the program is missing")?.build(stage)?;
    let trace = place.trace("tasks.rnt");
    let binary = binary.display().to_string();
    let mut record = record(stage, place, &["--quiet"], &trace, &[&binary, "1"]);
    place.run(&mut record)?.success("recorded")?;
    Info::of(stage, &trace)?.must_be_complete()?;
    Ok(trace)
}

/// Returns what a call that writes down what the kernel says has written.
fn said(call: &Value) -> Option<String> {
    let bytes = base64(call["data"]["buf"]["base64"].as_str()?)?;
    Some(String::from_utf8(bytes).ok()?.strip_prefix("IS ")?.to_string())
}

fn as_the_kernel_says(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = recorded(stage, &place)?;
    let mut count = 0;
    show(stage, &trace, &["--ids", "--call", "write"], |call| {
        let Some(said) = said(call) else { return Ok(()) };
        count += 1;
        for word in said.split(' ') {
            let (name, id) = word.split_once('=').ok_or_else(|| format!("'{word}'"))?;
            let id: u64 = id.parse().map_err(|_| format!("'{word}'"))?;
            ensure!(
                call[name] == id,
                "{name} is {}, where the kernel said {said}: {call}",
                call[name]
            );
        }
        Ok(())
    })?;
    let least = if who == Who::Root { SAID_AT_LEAST + 9 } else { SAID_AT_LEAST };
    ensure!(count >= least, "the kernel said it only {count} times");
    let mut ended = 0;
    show(stage, &trace, &["--data", "none"], |event| {
        let has = |name: &str| event[name].is_u64();
        let is_exit = event["type"] == "exit" && event["scope"] == "process";
        if is_exit {
            ended += 1;
        }
        if is_exit || event["type"] == "exec" || event["type"] == "start" {
            ensure!(has("uid") && has("euid") && has("gid") && has("egid"), "no ids: {event}");
        }
        if event["type"] == "call" {
            ensure!(event.get("uid").is_none(), "ids that nobody wanted: {event}");
        }
        Ok(())
    })?;
    ensure!(ended > 0, "no process has ended");
    Ok(())
}

/// `--pgid`, `--sid`, `--uid` and `--euid` choose the calls that have these values.
fn conditions(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = recorded(stage, &place)?;
    let mut calls = Vec::new();
    show(stage, &trace, &["--ids", "--call", "write", "--data", "none"], |call| {
        calls.push(call.clone());
        Ok(())
    })?;
    for name in ["pgid", "sid", "uid", "euid"] {
        let mut values: Vec<u64> = calls.iter().filter_map(|call| call[name].as_u64()).collect();
        values.sort_unstable();
        values.dedup();
        ensure!(!values.is_empty(), "no {name} is known");
        for value in values {
            let is_it = |call: &&Value| call[name] == value;
            let expected: Vec<&Value> = calls.iter().filter(is_it).collect();
            let mut found = Vec::new();
            let (option, value) = (format!("--{name}"), value.to_string());
            let options = ["--ids", "--call", "write", "--data", "none", &option, &value];
            show(stage, &trace, &options, |event| {
                if event["type"] == "call" {
                    found.push(event.clone());
                }
                Ok(())
            })?;
            ensure!(
                found.iter().eq(expected.iter().copied()),
                "{option} {value}: {} calls, not {}",
                found.len(),
                expected.len()
            );
        }
    }
    Ok(())
}

/// An exec ends where the kernel has done it, and not where the program begins.
fn execs(stage: &Stage, who: Who) -> Result<(), Complaint> {
    const EXECS: usize = 5;
    let place = Place::new(stage, who)?;
    let trace = place.trace("execs.rnt");
    let script = "for n in 1 2 3 4; do /bin/true; done; exec /bin/true";
    let mut record = record(stage, &place, &["--quiet"], &trace, &["sh", "-c", script]);
    place.run(&mut record)?.success("recorded")?;
    let mut ended = BTreeMap::new();
    let mut begun = 0;
    show(stage, &trace, &[], |event| {
        let tid = event["tid"].as_u64();
        if event["call"] == "execve" {
            ended.insert(tid, event["exit_ns"].as_u64());
        }
        let Some(Some(ended_ns)) = ended.get(&tid).filter(|_| event["type"] == "exec") else {
            return Ok(());
        };
        begun += 1;
        let begins_ns = event["time_ns"].as_u64();
        ensure!(begins_ns > Some(*ended_ns), "it ended at {ended_ns}, and {event}");
        Ok(())
    })?;
    ensure!(begun == EXECS, "{begun} programs");
    Ok(())
}
