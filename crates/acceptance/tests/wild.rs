//! The behaviour programs and the big ones. Each case alone, recorded and replayed. Alone and recorded it checks
//! itself, and has the same output, status and files; the trace is complete, but for gaps that the
//! case names; the replay finds nothing otherwise, but for what the case names. Big programs differ
//! from run to run: they are recorded, must end well, and are replayed.
//!
//! A case whose defect is known must still fail by it: one that passes is told, so that its mark
//! goes.

use std::fs;
use std::process::ExitCode;
use std::sync::Mutex;

use acceptance::big::{self, Big};
use acceptance::place::{Outcome, Place, Who};
use acceptance::shown::Info;
use acceptance::stage::Stage;
use acceptance::wild::{self, Case, Known};
use acceptance::{Complaint, ensure, tier, trials};
use serde_json::Value;

/// The exit code of a replay for differences.
const DIFFERENT: i32 = 4;

/// What is said at the end of known defects.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn main() -> ExitCode {
    let code = trials::main(|trials| {
        for case in wild::all(trials.stage())? {
            let only_long = (!tier::is_long() && !case.first).then_some("the long tier");
            for who in [Who::User, Who::Root] {
                let lacking = case.needs.iter().find(|need| !trials::has(**need, who));
                let lacking = lacking.map(|need| format!("{need:?}"));
                let missing = lacking.as_deref().or(only_long);
                let name = case.name.clone();
                let case = case.clone();
                let check = move |stage: &Stage, who: Who| {
                    let place = Place::new(stage, who)?;
                    let name = format!("{}/{}", who.name(), case.name);
                    let record = || recorded(stage, &place, &case);
                    judged(&name, who, case.known.as_ref(), record, || {
                        replayed(stage, &place, &case.otherwise)
                    })
                };
                trials.add(&name, who, missing, check);
            }
        }
        for program in big::PROGRAMS {
            for who in [Who::User, Who::Root] {
                let only_long = (!tier::is_long()).then_some("the long tier");
                let missing = program.missing(who).or(only_long);
                trials.add(&format!("big/{}", program.name), who, missing, |stage, who| {
                    big_program(stage, who, program)
                });
            }
        }
        Ok(())
    });
    if let Ok(mut told) = TOLD.lock() {
        told.sort();
        let passes = told.iter().filter(|line| line.starts_with("passes")).count();
        println!("known defects: {} cases fail by them, {passes} pass", told.len() - passes);
        told.iter().for_each(|line| println!("  {line}"));
    }
    code
}

/// What is recorded and replayed, with what is known of it taken in.
fn judged(
    name: &str,
    who: Who,
    known: Option<&Known>,
    record: impl FnOnce() -> Result<(), Complaint>,
    replay: impl FnOnce() -> Result<(), Complaint>,
) -> Result<(), Complaint> {
    let known = known.filter(|known| known.who.as_deref().is_none_or(|w| w == who.name()));
    let recorded = record();
    if recorded.is_err() && known.is_none_or(|known| known.of_replay) {
        return recorded;
    }
    let result = recorded.and_then(|()| replay());
    let Some(known) = known else { return result };
    let line = match result {
        Err(_) => format!("fails   {name}: {}", known.reason),
        Ok(()) => format!("passes  {name}, though marked: {}", known.reason),
    };
    if let Ok(mut told) = TOLD.lock() {
        told.push(line);
    }
    Ok(())
}

/// A big program, recorded and replayed.
fn big_program(stage: &Stage, who: Who, program: &Big) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let known = program.known.map(|text| Known::parse(text).ok_or(text)).transpose()?;
    let name = format!("{}/big/{}", who.name(), program.name);
    let record = || {
        let script = |text: &str| format!("set -e\numask 022\n{text}");
        place.run(place.command("sh").args(["-c", &script(program.given)]))?.success("given")?;
        fs::rename(place.work(), place.path("given")).map_err(|error| error.to_string())?;
        place.clear()?;
        let trace = place.trace("case.rnt");
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--quiet", "--output"]).arg(&trace);
        record.args(["--", "sh", "-c", &script(program.script)]);
        place.run(&mut record)?.success("recorded")?;
        let gaps: Vec<String> = program.gaps.iter().map(ToString::to_string).collect();
        Info::of(stage, &trace)?.must_be_complete_but_for(stage, &trace, &gaps)?;
        // What the replay sees must be from the trace, not from here.
        fs::remove_dir_all(place.path("given")).map_err(|error| error.to_string())
    };
    judged(&name, who, known.as_ref(), record, || replayed(stage, &place, &[]))
}

/// Runs it alone, then recorded.
fn recorded(stage: &Stage, place: &Place, case: &Case) -> Result<(), Complaint> {
    let alone = place.run(place.command(&case.program).arg(&case.argument))?;
    ensure!(alone.status.success(), "alone: {}; it said:\n{}", alone.status, alone.errors());
    let files = place.files()?;
    place.clear()?;

    let trace = place.trace("case.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace);
    let recorded = place.run(record.arg("--").arg(&case.program).arg(&case.argument))?;
    same("status", alone.status, recorded.status, &recorded)?;
    same("standard output", alone.text(), recorded.text(), &recorded)?;
    same("standard error", alone.errors(), recorded.errors(), &recorded)?;
    same("files", files, place.files()?, &recorded)?;
    Info::of(stage, &trace)?.must_be_complete_but_for(stage, &trace, &case.gaps)
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    alone: T,
    recorded: T,
    run: &Outcome,
) -> Result<(), Complaint> {
    let said = run.errors();
    ensure!(alone == recorded, "{what}: alone {alone:?}, recorded {recorded:?}; it said:\n{said}");
    Ok(())
}

/// Replays it into a fresh root, from the trace alone.
fn replayed(stage: &Stage, place: &Place, otherwise: &[String]) -> Result<(), Complaint> {
    place.clear()?;
    let mut replay = place.command(&stage.reenact);
    let outcome = place.run(replay.arg("replay").arg(place.trace("case.rnt")).arg("--json"))?;
    let said: Value = serde_json::from_str(outcome.text().trim())
        .map_err(|error| format!("no result ({error}): {}", outcome.errors()))?;
    ensure!(said["stopped"].is_null(), "it did not end: {}", said["stopped"]);
    let causes = said["mismatches"]["causes"].as_array().cloned().unwrap_or_default();
    let named = |group: &Value| otherwise.iter().any(|cause| group["cause"] == cause.as_str());
    let differs = &said["final_state"]["differences"];
    let told = || format!("{causes:?}\n{differs}\n{}", outcome.errors());
    if !causes.is_empty() && causes.iter().all(named) && said["final_state"]["different"] == 0 {
        let code = outcome.status.code();
        ensure!(code == Some(DIFFERENT), "ended with {code:?}: {}", told());
        return Ok(());
    }
    ensure!(outcome.status.success() && said["ok"] == true, "replayed otherwise: {}", told());
    ensure!(said["replayed"].as_u64() > Some(0), "nothing was replayed: {said}");
    Ok(())
}
