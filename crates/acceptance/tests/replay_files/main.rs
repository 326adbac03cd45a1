//! Small scripts about file metadata rather than contents: links, owners, modes, attributes, names;
//! and about files that several processes use at a time. Each is recorded in a directory with
//! existing files, and replayed from its trace alone: calls and files must match the recording.

mod links;
mod processes;

use std::fs;
use std::process::ExitCode;

use acceptance::place::{Place, Who};
use acceptance::shown::Info;
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, trials};
use serde_json::Value;

/// Two shell scripts that run in the same directory.
pub struct Work {
    /// Name of the work.
    pub name: &'static str,
    /// Users that can run it.
    pub who: &'static [Who],
    /// Programs that it needs.
    pub needs: &'static [&'static str],
    /// Script that makes the existing files, unrecorded.
    pub given: &'static str,
    /// Script to be recorded.
    pub script: &'static str,
    /// Reasons for calls that the replay leaves out; no others are allowed.
    pub left_out: &'static [&'static str],
}

/// The users of most works.
pub const BOTH: &[Who] = &[Who::User, Who::Root];

fn main() -> ExitCode {
    trials::main(|trials| {
        for work in links::WORKS.iter().chain(processes::WORKS) {
            for who in work.who {
                let missing = trials::missing(work.needs);
                trials.add(work.name, *who, missing, |stage, who| replayed(stage, who, work));
            }
        }
        Ok(())
    })
}

fn replayed(stage: &Stage, who: Who, work: &Work) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let shell = |script: &str| ["-c".to_string(), format!("set -e; umask 022\n{script}")];
    place.run(place.command("sh").args(shell(work.given)))?.success("given")?;
    let trace = place.trace("work.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace);
    place.run(record.args(["--", "sh"]).args(shell(work.script)))?.success("recorded")?;
    Info::of(stage, &trace)?.must_be_complete()?;
    // Moves the files away: the replay must depend on the trace alone.
    fs::rename(place.work(), place.path("recorded")).map_err(|error| error.to_string())?;
    place.clear()?;

    let outcome =
        place.run(place.command(&stage.reenact).arg("replay").arg(&trace).arg("--json"))?;
    let said: Value = serde_json::from_str(outcome.text().trim())
        .map_err(|error| format!("no result ({error}): {}", outcome.errors()))?;
    ensure!(
        outcome.status.success() && said["ok"] == true,
        "{}\n{}\n{}",
        outcome.errors(),
        said["mismatches"],
        said["final_state"]
    );
    let counts = [&said["mismatches"]["return"], &said["mismatches"]["data"]];
    ensure!(counts.iter().all(|count| **count == 0), "mismatches: {}", said["mismatches"]);
    ensure!(said["final_state"]["compared"].as_u64() > Some(0), "no file was compared: {said}");
    let skipped = said["skipped"].as_object().ok_or("no list of what was left out")?;
    let reasons: Vec<&str> = skipped.keys().map(String::as_str).collect();
    ensure!(reasons == work.left_out, "left out: {}", said["skipped"]);
    Ok(())
}
