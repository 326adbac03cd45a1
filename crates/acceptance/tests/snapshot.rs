//! `record --snapshot`: the trace has every byte that files held before they were changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acceptance::place::{Place, Who};
use acceptance::program;
use acceptance::shown::Info;
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, tier, trials};

fn main() -> ExitCode {
    trials::main(|trials| {
        trials.add_for_both("every_byte_is_there", None, every_byte_is_there);
        trials.add_for_both("not_without_it", None, not_without_it);
        trials.add_for_both("obeys_data_for", None, obeys_data_for);
        trials.add_for_both("needs_full_data", None, needs_full_data);
        trials.add("unreadable_files_are_told", Who::User, None, unreadable_files_are_told);
        Ok(())
    })
}

/// A recording of changes to files.
struct Recorded {
    place: Place,
    trace: PathBuf,
    /// Initial contents of the files.
    before: Files,
    /// Contents of the files in the trace's image.
    image: Files,
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn text(error: std::io::Error) -> Complaint {
    error.to_string()
}

fn contents(directory: &Path) -> Result<Files, Complaint> {
    let mut found = BTreeMap::new();
    for name in ["", "sub"] {
        for entry in fs::read_dir(directory.join(name)).map_err(text)? {
            let path = entry.map_err(text)?.path();
            if fs::symlink_metadata(&path).map_err(text)?.is_file() {
                let name = path.strip_prefix(directory).map_err(|error| error.to_string())?;
                found.insert(name.to_path_buf(), fs::read(&path).map_err(text)?);
            }
        }
    }
    Ok(found)
}

fn recorded(stage: &Stage, who: Who, options: &[&str]) -> Result<Recorded, Complaint> {
    let binary = program::named("changes_existing")?.build(stage)?;
    let place = Place::new(stage, who)?;
    let seed = tier::seed().to_string();
    let mut prepare = place.command(&binary);
    place.run(prepare.args([&seed, "prepare"]))?.success("prepare")?;
    let before = contents(&place.work())?;

    let (trace, root) = (place.trace("changes.rnt"), place.trace("image"));
    let mut record = place.command(&stage.reenact);
    record.args(["record", "-q", "-o"]).arg(&trace).args(options).arg("--");
    place.run(record.arg(&binary).args([&seed, "change"]))?.success("change, recorded")?;
    Info::of(stage, &trace)?.must_be_complete_but_for(stage, &trace, &[])?;

    let mut image = place.command(&stage.reenact);
    place.run(image.arg("image").arg(&trace).arg(&root))?.success("image")?;
    let work = place.work();
    let inside = work.strip_prefix("/").map_err(|error| error.to_string())?;
    let image = contents(&root.join(inside))?;
    Ok(Recorded { place, trace, before, image })
}

impl Recorded {
    /// Replays the trace, which must match. Returns how many bytes the replay does not know.
    fn unknown_bytes(&self, stage: &Stage) -> Result<u64, Complaint> {
        // Clears the place: the replay must depend on the trace alone.
        self.place.clear()?;
        let mut replay = self.place.command(&stage.reenact);
        let outcome = self.place.run(replay.arg("replay").arg(&self.trace).arg("--json"))?;
        let said: serde_json::Value = serde_json::from_str(outcome.text().trim())
            .map_err(|error| format!("no result ({error}): {}", outcome.errors()))?;
        ensure!(said["ok"] == true, "{}\n{}", outcome.errors(), said["final_state"]);
        said["unknown_bytes"].as_u64().ok_or_else(|| format!("no count in {said}"))
    }
}

fn every_byte_is_there(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded(stage, who, &["--snapshot"])?;
    ensure!(recorded.before.len() > 10, "only {} files", recorded.before.len());
    for (name, was) in &recorded.before {
        let is = recorded.image.get(name).ok_or_else(|| format!("no {}", name.display()))?;
        let differs = was.iter().zip(is).position(|(a, b)| a != b);
        ensure!(was == is, "{} differs at {differs:?}, of {}", name.display(), was.len());
    }
    let unknown = recorded.unknown_bytes(stage)?;
    ensure!(unknown == 0, "{unknown} bytes are unknown");
    Ok(())
}

fn not_without_it(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded(stage, who, &[])?;
    let over = Path::new("over");
    ensure!(recorded.before[over] != recorded.image[over], "nobody has read that");
    ensure!(recorded.unknown_bytes(stage)? > 0, "all is known that nobody has read");
    Ok(())
}

fn obeys_data_for(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded(stage, who, &["--snapshot", "--data-for", "*/over=hash"])?;
    let (over, log) = (Path::new("over"), Path::new("log"));
    ensure!(recorded.image[over].iter().all(|&byte| byte == 0), "'over' was stored all the same");
    ensure!(recorded.image[log] == recorded.before[log], "'log' was not stored");
    Ok(())
}

fn needs_full_data(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let mut record = place.command(&stage.reenact);
    let outcome = place.run(record.args(["record", "--snapshot", "--data", "hash", "true"]))?;
    ensure!(outcome.status.code() == Some(125), "not refused: {}", outcome.status);
    ensure!(outcome.errors().contains("--data full"), "it said: {}", outcome.errors());
    Ok(())
}

fn unreadable_files_are_told(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("secret", b"some words")?;
    let write_only = fs::Permissions::from_mode(0o200);
    fs::set_permissions(place.work().join("secret"), write_only).map_err(text)?;
    let trace = place.trace("secret.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--snapshot", "-o"]).arg(&trace);
    let outcome = place.run(record.args(["--", "sh", "-c", "echo more >> secret"]))?;
    let said = outcome.errors();
    ensure!(outcome.status.success(), "the program failed: {said}");
    ensure!(said.contains("1 changed file is not stored whole"), "it said: {said}");
    Ok(())
}
