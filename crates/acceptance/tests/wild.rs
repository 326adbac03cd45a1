//! The behaviour programs and the big programs. Each case runs alone, recorded and replayed: alone
//! and recorded it checks itself, with the same output, status and files; the trace is complete and
//! the replay matches, except for what the case allows. Big programs differ between runs: they are
//! only recorded, must succeed, and are replayed.
//!
//! A case with a known defect must fail by that defect and no other. If it passes, the test fails,
//! so that the mark gets removed.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

use acceptance::big::{self, Big};
use acceptance::place::{Outcome, Place, Who};
use acceptance::shown::Info;
use acceptance::stage::Stage;
use acceptance::wild::{self, Case, Known};
use acceptance::{Complaint, ensure, tier, trials};
use serde_json::Value;

/// Exit code of a replay with differences.
const DIFFERENT: i32 = 4;

/// Known defects that were seen, printed at the end.
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
                    let files = alone(&place, &case)?;
                    let record = || recorded(stage, &place, &case, &files);
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
        println!("known defects: {} cases", told.len());
        told.iter().for_each(|line| println!("  {line}"));
    }
    code
}

/// A replay that failed or did not match.
struct Otherwise {
    /// The first mismatch.
    first: String,
    complaint: Complaint,
}

impl From<Complaint> for Otherwise {
    fn from(complaint: Complaint) -> Otherwise {
        Otherwise { first: complaint.clone(), complaint }
    }
}

/// Records and replays, and compares the result with the known defect, if any.
fn judged(
    name: &str,
    who: Who,
    known: Option<&Known>,
    record: impl FnOnce() -> Result<(), Complaint>,
    replay: impl FnOnce() -> Result<(), Otherwise>,
) -> Result<(), Complaint> {
    let known = known.filter(|known| known.who.as_deref().is_none_or(|w| w == who.name()));
    let (of_replay, result) = match record() {
        Ok(()) => (true, replay()),
        Err(complaint) => (false, Err(complaint.into())),
    };
    let Some(known) = known else { return result.map_err(|otherwise| otherwise.complaint) };
    match result {
        Ok(()) if known.sometimes => Ok(()),
        Ok(()) => Err(format!("it passes: the mark has to go: {}", known.reason)),
        Err(Otherwise { first, .. }) if known.is_shown_by(of_replay, &first) => {
            if let Ok(mut told) = TOLD.lock() {
                told.push(format!("{name}: {}", known.reason));
            }
            Ok(())
        }
        Err(Otherwise { first, complaint }) => Err(format!(
            "known is: {} ({}), but first: {first}\n{complaint}",
            known.reason,
            known.shows.join("; ")
        )),
    }
}

/// Records and replays a big program.
fn big_program(stage: &Stage, who: Who, program: &Big) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let parsed =
        |(text, shows)| Known::parse(text, shows).filter(|known| known.of_replay).ok_or(text);
    let known = program.known.map(parsed).transpose()?;
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
        // The replay must depend on the trace alone.
        fs::remove_dir_all(place.path("given")).map_err(|error| error.to_string())
    };
    judged(&name, who, known.as_ref(), record, || replayed(stage, &place, &[]))
}

/// Output and files of a run that is not recorded.
struct Alone {
    outcome: Outcome,
    files: BTreeMap<PathBuf, String>,
}

fn alone(place: &Place, case: &Case) -> Result<Alone, Complaint> {
    let outcome = place.run(place.command(&case.program).arg(&case.argument))?;
    ensure!(outcome.status.success(), "alone: {}; it said:\n{}", outcome.status, outcome.errors());
    let files = place.files()?;
    place.clear()?;
    Ok(Alone { outcome, files })
}

fn recorded(stage: &Stage, place: &Place, case: &Case, alone: &Alone) -> Result<(), Complaint> {
    let trace = place.trace("case.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace);
    let recorded = place.run(record.arg("--").arg(&case.program).arg(&case.argument))?;
    same("status", &alone.outcome.status, &recorded.status, &recorded)?;
    same("standard output", &alone.outcome.text(), &recorded.text(), &recorded)?;
    same("standard error", &alone.outcome.errors(), &recorded.errors(), &recorded)?;
    same("files", &alone.files, &place.files()?, &recorded)?;
    Info::of(stage, &trace)?.must_be_complete_but_for(stage, &trace, &case.gaps)
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    alone: &T,
    recorded: &T,
    run: &Outcome,
) -> Result<(), Complaint> {
    let said = run.errors();
    ensure!(alone == recorded, "{what}: alone {alone:?}, recorded {recorded:?}; it said:\n{said}");
    Ok(())
}

/// Replays into a fresh root, from the trace alone.
fn replayed(stage: &Stage, place: &Place, otherwise: &[String]) -> Result<(), Otherwise> {
    place.clear()?;
    let mut replay = place.command(&stage.reenact);
    let outcome = place.run(replay.arg("replay").arg(place.trace("case.rnt")).arg("--json"))?;
    let said: Value = serde_json::from_str(outcome.text().trim())
        .map_err(|error| format!("no result ({error}): {}", outcome.errors()))?;
    if !said["stopped"].is_null() {
        return Err(format!("it did not end: {}", said["stopped"]).into());
    }
    let causes = said["mismatches"]["causes"].as_array().cloned().unwrap_or_default();
    let named = |group: &Value| otherwise.iter().any(|cause| group["cause"] == cause.as_str());
    let differs = &said["final_state"]["differences"];
    let told = || format!("{causes:?}\n{differs}\n{}", outcome.errors());
    let is_named = !causes.is_empty()
        && causes.iter().all(named)
        && said["final_state"]["different"] == 0
        && outcome.status.code() == Some(DIFFERENT);
    if !(is_named || outcome.status.success() && said["ok"] == true) {
        let first = first_of(&causes).unwrap_or_else(|| format!("at the end: {differs}"));
        return Err(Otherwise { first, complaint: format!("replayed otherwise: {}", told()) });
    }
    if said["replayed"].as_u64().is_none_or(|count| count == 0) {
        return Err(format!("nothing was replayed: {said}").into());
    }
    Ok(())
}

/// Returns the cause of the earliest mismatch.
fn first_of(causes: &[Value]) -> Option<String> {
    let calls = |group: &Value| {
        let examples = group["examples"].as_array().into_iter().flatten();
        examples.filter_map(|example| example["seq"].as_u64()).min()
    };
    let first = causes.iter().min_by_key(|group| calls(group).unwrap_or(u64::MAX))?;
    first["cause"].as_str().map(str::to_string)
}
