//! Real work is recorded, and replayed from its trace alone, without the original files: calls and
//! files must match the recording, by our own comparison and by an independent one. What a work prints is
//! the same as without a recording, nothing moved unseen, and nothing is unknown of files it has written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acceptance::ground::{FileSystemKind, Ground, KINDS};
use acceptance::place::{Outcome, Place, Who};
use acceptance::shown::Info;
use acceptance::stage::Stage;
use acceptance::twins::must_be_twins;
use acceptance::works::{WORKS, Work, whole};
use acceptance::{Complaint, ensure, tier, trials};
use serde_json::Value;

/// A work and a file system of the long tier that the short one tries as well.
const SAMPLE: (&str, &str) = ("sqlite3-mmap", "tmpfs");

fn main() -> ExitCode {
    trials::main(|trials| {
        let only_long = (!tier::is_long()).then_some("the long tier");
        for work in WORKS {
            trials.add_for_both(work.name, work.missing(), |stage, who| here(stage, who, work));
            for kind in KINDS {
                let is_sample = SAMPLE == (work.name, kind.name);
                let only_long = only_long.filter(|_| !is_sample);
                let missing = work.missing().or(only_long).or_else(|| kind.missing());
                let name = format!("{}/{}", work.name, kind.name);
                trials.add(&name, Who::Root, missing, |stage, who| on(stage, who, work, *kind));
            }
        }
        Ok(())
    })
}

/// Records and replays on the file system of temporary files.
fn here(stage: &Stage, who: Who, work: &Work) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let recorded = Recorded::new(stage, &place, work, work.size())?;
    recorded.replay(stage, &place, &place.path("root"))
}

/// Replays from here to another file system, within that one, and from there to here. In the smallest
/// size: what differs are the file systems.
fn on(stage: &Stage, who: Who, work: &Work, kind: FileSystemKind) -> Result<(), Complaint> {
    let ground = Ground::new(stage, kind)?;
    let here = Place::new(stage, who)?;
    let there = Place::new_in(&ground.top(), who)?;
    let told = |way: &'static str| move |complaint: Complaint| format!("{way}: {complaint}");
    let recorded = Recorded::new(stage, &here, work, work.least())?;
    recorded.replay(stage, &here, &there.path("root-of-here")).map_err(told("from here"))?;
    let recorded = Recorded::new(stage, &there, work, work.least())?;
    recorded.replay(stage, &there, &there.path("root")).map_err(told("there"))?;
    recorded.replay(stage, &there, &here.path("root-of-there")).map_err(told("from there"))
}

/// A recorded work whose files were moved away.
struct Recorded {
    trace: PathBuf,
    /// Directory in which the work was done.
    work: PathBuf,
    /// Where its files were moved.
    moved: PathBuf,
    /// Some of their bytes are not in the trace.
    moves_unseen: bool,
}

impl Recorded {
    fn new(stage: &Stage, place: &Place, work: &Work, size: u32) -> Result<Recorded, Complaint> {
        let size = size.to_string();
        place.clear()?;
        let mut give = place.command("sh");
        place.run(give.args(["-c", &whole(work.given), "sh", &size]))?.success("given")?;
        let (given, moved) = (place.path("given"), place.path("recorded"));
        rename(&place.work(), &given)?;
        place.clear()?;
        let trace = place.trace("work.rnt");
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--quiet", "--output"]).arg(&trace).args(work.options);
        record.args(["--", "sh", "-c", &whole(work.script), "sh", &size]);
        let done = place.run(&mut record)?.success("recorded")?;
        let output = output(place, work, &done)?;
        Info::of(stage, &trace)?.must_be_complete()?;
        let mut info = place.command(&stage.reenact);
        let info = place.run(info.args(["info", "--json"]).arg(&trace))?.success("info")?;
        let info: Value = serde_json::from_str(&info.text()).map_err(|error| error.to_string())?;
        let sees_all = info["blind"].as_array().is_some_and(Vec::is_empty);
        ensure!(sees_all || work.moves_unseen, "{}", info["blind"]);
        if !work.output.is_empty() {
            let aside = place.path("aside");
            rename(&place.work(), &aside)?;
            place.clear()?;
            let mut alone = place.command("sh");
            alone.args(["-c", &whole(work.script), "sh", &size]);
            let alone = place.run(&mut alone)?.success("alone")?;
            let alone = self::output(place, work, &alone)?;
            ensure!(output == alone, "recorded:\n{output}\nalone:\n{alone}");
            rename(&aside, &place.work())?;
        }
        // Moves the files away: the replay must depend on the trace alone.
        rename(&place.work(), &moved)?;
        fs::remove_dir_all(&given).map_err(|error| error.to_string())?;
        place.clear()?;
        let moves_unseen = work.moves_unseen;
        Ok(Recorded { trace, work: place.work(), moved, moves_unseen })
    }

    fn replay(&self, stage: &Stage, place: &Place, root: &Path) -> Result<(), Complaint> {
        fs::create_dir(root).map_err(|error| format!("{}: {error}", root.display()))?;
        place.give(root)?;
        let mut replay = place.command(&stage.reenact);
        replay.arg("replay").arg(&self.trace).args(["--json", "--keep", "--root"]).arg(root);
        let outcome = place.run(&mut replay)?;
        let said: serde_json::Value = serde_json::from_str(outcome.text().trim())
            .map_err(|error| format!("no result ({error}): {}", outcome.errors()))?;
        ensure!(
            outcome.status.success() && said["ok"] == true,
            "{}\n{}\n{}\nunsupported: {}",
            outcome.errors(),
            said["mismatches"],
            said["final_state"],
            said["unsupported_here"]
        );
        let counts = [&said["mismatches"]["return"], &said["mismatches"]["data"]];
        ensure!(counts.iter().all(|count| **count == 0), "mismatches: {}", said["mismatches"]);
        let state = &said["final_state"];
        let is_known = state["unknown"].as_array().is_none_or(Vec::is_empty);
        ensure!(is_known || self.moves_unseen, "unknown: {state}");
        ensure!(
            state["different"] == 0 && state["limited"].is_null() && state["unverified"] == 0,
            "not proved: {state}"
        );
        ensure!(
            state["compared"].as_u64() > Some(0) && said["verified"].as_u64() > Some(500),
            "hardly anything was verified: {said}"
        );
        ensure!(
            said["skipped"].as_object().is_some_and(serde_json::Map::is_empty),
            "left out: {}",
            said["skipped"]
        );
        let inside = self.work.strip_prefix("/").map_err(|error| error.to_string())?;
        must_be_twins(&self.moved, &root.join(inside))
    }
}

/// What a work has printed and written, as far as it is always the same.
fn output(place: &Place, work: &Work, done: &Outcome) -> Result<String, Complaint> {
    if work.output.is_empty() {
        return Ok(String::new());
    }
    fs::write(place.path("said"), &done.stdout).map_err(|error| error.to_string())?;
    let mut print = place.command("sh");
    let printed = place.run(print.args(["-c", &whole(work.output)]))?.success("output")?.text();
    ensure!(!printed.is_empty(), "no output");
    Ok(printed)
}

fn rename(from: &Path, to: &Path) -> Result<(), Complaint> {
    if to.exists() {
        fs::remove_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    fs::rename(from, to).map_err(|error| format!("{}: {error}", from.display()))
}
