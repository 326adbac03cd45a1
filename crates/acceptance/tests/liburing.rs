//! liburing's own tests, as Debian has their source: those that pass here give the same results
//! recorded, and almost all of them are captured.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use acceptance::place::{Place, Who};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, tier, trials};
use serde_json::Value;

fn main() -> ExitCode {
    trials::main(|trials| {
        let only_long = (!tier::is_long()).then_some("the long tier");
        let has_none = tests().is_empty().then_some("liburing's tests (cargo xtask soak)");
        trials.add("own_tests", Who::Root, only_long.or(has_none), own_tests);
        Ok(())
    })
}

/// Programs that `xtask` has built.
fn tests() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/sources/liburing");
    let folders = std::fs::read_dir(top).into_iter().flatten().flatten();
    let files = folders.filter_map(|folder| std::fs::read_dir(folder.path().join("test")).ok());
    let paths = files.flatten().flatten().map(|file| file.path());
    let mut tests: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "t")).collect();
    tests.sort();
    tests
}

/// Seconds that a test may take alone. One of them makes five million calls.
const ALONE_S: &str = "60";
const RECORDED_S: &str = "280";

/// What became of a test.
enum Came {
    /// It does not pass here.
    Left,
    Same {
        captured: bool,
    },
    Otherwise(Complaint),
}

fn own_tests(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let tests = tests();
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
            let came = one(stage, who, test).unwrap_or_else(Came::Otherwise);
            all.lock().expect("nobody panics").push((test, came));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    let all = all.into_inner().map_err(|error| error.to_string())?;
    let (mut passed, mut passed_through, mut otherwise) = (0, Vec::new(), Vec::new());
    for (test, came) in &all {
        let name = test.file_name().unwrap_or_default().to_string_lossy();
        passed += u32::from(!matches!(came, Came::Left));
        match came {
            Came::Same { captured: false } => passed_through.push(name),
            Came::Otherwise(how) => otherwise.push(format!("{name}: {how}")),
            Came::Left | Came::Same { captured: true } => {}
        }
    }
    eprintln!("liburing: {passed} of {} pass here, not captured: {passed_through:?}", all.len());
    ensure!(otherwise.is_empty(), "recorded, they come out otherwise: {otherwise:#?}");
    ensure!(passed >= 100, "only {passed} tests pass here");
    ensure!(passed_through.len() * 10 <= passed as usize, "not captured: {passed_through:?}");
    Ok(())
}

fn one(stage: &Stage, who: Who, test: &Path) -> Result<Came, Complaint> {
    let place = Place::new(stage, who)?;
    let mut alone = place.command("timeout");
    let alone = place.run(alone.args(["-s", "KILL", ALONE_S]).arg(test))?;
    if !alone.status.success() {
        return Ok(Came::Left);
    }
    let mut said = String::new();
    // Some depend on how long things take.
    for _ in 0..2 {
        place.clear()?;
        let mut record = place.command("timeout");
        record.args(["-s", "KILL", RECORDED_S]).arg(&stage.reenact);
        record.args(["record", "--quiet", "--force", "--output"]).arg(place.trace("ring.rnt"));
        let recorded = place.run(record.arg("--").arg(test))?;
        if recorded.status.success() {
            let mut info = place.command(&stage.reenact);
            let info = place.run(info.args(["info", "--json"]).arg(place.trace("ring.rnt")))?;
            let info = info.success("info")?.text();
            let info: Value = serde_json::from_str(&info).map_err(|error| error.to_string())?;
            let blind = info["blind"].as_array().map_or(&[][..], Vec::as_slice);
            let captured = blind.iter().all(|entry| entry["kind"] != "io_uring");
            return Ok(Came::Same { captured });
        }
        said = format!("{}: {}", recorded.status, recorded.errors());
    }
    Err(said)
}
