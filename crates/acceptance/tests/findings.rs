//! `reenact stat patterns` on programs whose main cost is known: that is found first, what else is true
//! is found, and nothing else. What each program costs stands at its beginning (`tests/findings`):
//!
//! ```text
//! # first: kinds of which one must be the first finding
//! # also:  kinds that must be found
//! # may:   what is true as well
//! # never: what must not be found
//! # needs: what must be installed
//! ```
//!
//! All else that is found is wrong. Notes (below a hundredth of the run) are not looked at.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use acceptance::place::{Place, Who};
use acceptance::stage::{self, Stage};
use acceptance::{Complaint, ensure, tier, trials};
use serde_json::Value;

/// Those whose cost does not depend on the disk: for each change.
const SAMPLE: [&str; 9] = [
    "asks_for_random",
    "few_processes",
    "import_path",
    "maps_memory",
    "reads_from_cache",
    "shell_loop",
    "spins_on_a_pipe",
    "tar_gzip",
    "waits_by_sleeping",
];
/// Programs in the set, at least.
const PROGRAMS_MIN: usize = 40;
/// Precision and recall of the set, at least.
const GOOD: f64 = 0.9;
/// What own code is told as: the second where others have the CPUs, which no program of the set can help.
const COMPUTES: &str = "computes";
const OWN_WAITS: &str = "own_waits";
/// Where a sync waits for a disk.
const DISK: &str = "/var/tmp";

fn main() -> ExitCode {
    trials::main(|trials| {
        let known = known()?;
        for name in SAMPLE {
            let program = known.iter().find(|of| of.name == name).ok_or(name)?.clone();
            let missing = program.missing();
            trials.add(name, Who::User, missing.as_deref(), move |stage, who| {
                let (said, _) = found(stage, who, &program)?;
                let score = Score::of(&program, &said);
                ensure!(score.is_perfect(), "{}: {said:?}: {score:?}", program.name);
                Ok(())
            });
        }
        let short = (!tier::is_long()).then_some("REENACT_SOAK");
        trials.add("whole_set", Who::User, short, move |stage, who| whole_set(stage, who, &known));
        Ok(())
    })
}

/// A program, and what is known of its costs.
#[derive(Clone, Debug, Default)]
struct Known {
    name: String,
    file: PathBuf,
    first: BTreeSet<String>,
    also: BTreeSet<String>,
    may: BTreeSet<String>,
    never: BTreeSet<String>,
    needs: Vec<String>,
}

impl Known {
    fn read(file: &Path) -> Result<Known, Complaint> {
        let text =
            fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.file_stem().map(|name| name.to_string_lossy().into_owned());
        let mut known =
            Known { name: name.unwrap_or_default(), file: file.to_path_buf(), ..Known::default() };
        for line in text.lines() {
            let Some((label, words)) = line.strip_prefix("# ").and_then(|l| l.split_once(": "))
            else {
                continue;
            };
            let words = words.split_whitespace().map(str::to_string);
            match label {
                "first" => known.first.extend(words),
                "also" => known.also.extend(words),
                "may" => known.may.extend(words),
                "never" => known.never.extend(words),
                "needs" => known.needs.extend(words),
                _ => {}
            }
        }
        ensure!(!known.first.is_empty(), "{}: says not what comes first", file.display());
        Ok(known)
    }

    /// Returns what is not installed.
    fn missing(&self) -> Option<String> {
        let is_there = |name: &str| match name {
            "postgresql" => Path::new("/usr/lib/postgresql").exists(),
            name => trials::missing(&[name]).is_none(),
        };
        self.needs.iter().find(|name| !is_there(name)).cloned()
    }

    fn is_true(&self, kind: &str) -> bool {
        [&self.first, &self.also, &self.may].iter().any(|kinds| kinds.contains(kind))
    }
}

fn known() -> Result<Vec<Known>, Complaint> {
    let folder = stage::repository().join("tests/findings");
    let fail = |error: std::io::Error| format!("{}: {error}", folder.display());
    let files = fs::read_dir(&folder).map_err(fail)?.map(|entry| entry.map(|entry| entry.path()));
    let mut files = files.collect::<Result<Vec<_>, _>>().map_err(fail)?;
    files.sort();
    let known = files.iter().map(|file| Known::read(file)).collect::<Result<Vec<_>, _>>()?;
    ensure!(known.len() >= PROGRAMS_MIN, "{} programs", known.len());
    Ok(known)
}

/// What a finding says besides its kind: all of them must say it.
const SAID: [&str; 5] = ["evidence", "confidence", "reason", "unless", "command"];

/// Records a program. Returns the kinds that are found, in order. Also looks whether what they cost is
/// within the run, and what each says. The place is to be kept until the next ones have run: where many files
/// were removed within half a minute, ext4 takes ten times as long to make new ones, and those that make
/// files would be found to do nothing else.
fn found(stage: &Stage, who: Who, program: &Known) -> Result<(Vec<String>, Place), Complaint> {
    let place = Place::new_in(Path::new(DISK), who)?;
    let script = place.path("program.sh");
    fs::copy(&program.file, &script).map_err(|error| error.to_string())?;
    let home = place.work();
    let mut prepare = place.command("sh");
    prepare.args(["-eu"]).arg(&script).arg("prepare").env("HOME", &home);
    place.run(&mut prepare)?.success("prepare")?;
    let trace = place.trace("program.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace).args(["--", "sh", "-eu"]);
    record.arg(&script).arg("run").env("HOME", &home);
    place.run(&mut record)?.success("run")?;
    let mut stat = place.command(&stage.reenact);
    stat.args(["stat", "patterns", "--json", "--limit", "1000"]).arg(&trace);
    let text = place.run(&mut stat)?.success("stat")?.text();
    let json: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let findings = json["findings"].as_array().ok_or("no findings")?;
    let about_run = findings.iter().filter(|finding| finding["about"] == "run");
    // One thread that holds up others is a part of what they compute.
    let apart = about_run.filter(|finding| finding["kind"] != "single_threaded");
    let sum: f64 = apart.filter_map(|finding| finding["run_share"].as_f64()).sum();
    ensure!(sum <= 1.001, "{}: they cost {sum} of the run: {text}", program.name);
    for finding in findings {
        let says = |key: &&str| finding[*key].as_str().is_some_and(|text| !text.is_empty());
        let missing: Vec<&str> = SAID.iter().copied().filter(|key| !says(key)).collect();
        ensure!(missing.is_empty(), "{}: without {missing:?}: {finding}", program.name);
        let share = finding["run_share"].as_f64().unwrap_or(0.0);
        ensure!(share <= 1.0, "{}: above the run: {finding}", program.name);
    }
    let mut kinds: Vec<String> = Vec::new();
    for finding in findings {
        let kind = finding["kind"].as_str().ok_or("a finding without a kind")?;
        // How much of the run what is known costs depends on the machine.
        if finding["severity"] == "note" && !program.also.contains(kind) {
            continue;
        }
        let kind = match kind {
            OWN_WAITS if program.is_true(COMPUTES) => COMPUTES,
            OWN_WAITS => continue,
            kind => kind,
        };
        if !kinds.iter().any(|of| of == kind) {
            kinds.push(kind.into());
        }
    }
    Ok((kinds, place))
}

/// How findings and what is known agree.
#[derive(Debug)]
struct Score {
    first: bool,
    right: usize,
    wrong: Vec<String>,
    missed: Vec<String>,
    forbidden: Vec<String>,
}

impl Score {
    fn of(program: &Known, kinds: &[String]) -> Score {
        let of = |fits: &dyn Fn(&&String) -> bool| kinds.iter().filter(fits).cloned().collect();
        let is_found = |kind: &String| kinds.contains(kind);
        let mut missed: Vec<String> =
            program.also.iter().filter(|kind| !is_found(kind)).cloned().collect();
        if !program.first.iter().any(is_found) {
            missed.extend(program.first.iter().next().cloned());
        }
        Score {
            first: kinds.first().is_some_and(|kind| program.first.contains(kind)),
            right: kinds.iter().filter(|kind| program.is_true(kind)).count(),
            wrong: of(&|kind| !program.is_true(kind)),
            missed,
            forbidden: of(&|kind| program.never.contains(*kind)),
        }
    }

    fn is_perfect(&self) -> bool {
        let none =
            [&self.wrong, &self.missed, &self.forbidden].iter().all(|kinds| kinds.is_empty());
        self.first && none
    }
}

/// Files that are made to see how long that takes, and how long it may take.
const MADE: u32 = 300;
const MAKING_MAX: Duration = Duration::from_micros(80);
/// How long ext4 looks at inodes that were given back before it takes them again, and more.
const SETTLING: Duration = Duration::from_secs(330);

/// Waits until files are made as fast as on a file system from which others have not just removed many. Returns
/// where it made some, which is to be kept, so that none are removed.
fn settled(who: Who) -> Result<Place, Complaint> {
    let place = Place::new_in(Path::new(DISK), who)?;
    let since = Instant::now();
    let mut made = 0u32..;
    loop {
        let (begun, names) = (Instant::now(), made.by_ref().take(MADE as usize));
        for name in names {
            fs::write(place.work().join(name.to_string()), "")
                .map_err(|error| error.to_string())?;
        }
        let took = begun.elapsed() / MADE;
        if took < MAKING_MAX {
            return Ok(place);
        }
        ensure!(since.elapsed() < SETTLING, "making a file takes {took:?} here");
        thread::sleep(Duration::from_secs(5));
    }
}

fn whole_set(stage: &Stage, who: Who, known: &[Known]) -> Result<(), Complaint> {
    let (mut right, mut wrong, mut due, mut missed) = (0, 0, 0, 0);
    let (mut bad, mut left_out, mut places) = (Vec::new(), Vec::new(), Vec::new());
    places.push(settled(who)?);
    for program in known {
        if let Some(missing) = program.missing() {
            left_out.push(format!("{} (needs {missing})", program.name));
            continue;
        }
        let (kinds, place) = found(stage, who, program)?;
        places.push(place);
        let score = Score::of(program, &kinds);
        println!("{:24} {}", program.name, kinds.join(" "));
        right += score.right;
        wrong += score.wrong.len();
        // One of those that may come first, and all others that must be there.
        due += 1 + program.also.difference(&program.first).count();
        missed += score.missed.len();
        if !score.first || !score.forbidden.is_empty() {
            bad.push(format!("{}: {kinds:?}: {score:?}", program.name));
        }
    }
    let precision = right as f64 / (right + wrong).max(1) as f64;
    let recall = 1.0 - f64::from(missed as u32) / f64::from(due.max(1) as u32);
    println!("precision {precision:.3} ({right} of {}), recall {recall:.3}", right + wrong);
    ensure!(left_out.is_empty(), "left out: {left_out:?}");
    ensure!(bad.is_empty(), "not first, or never to be found:\n{}", bad.join("\n"));
    ensure!(precision >= GOOD && recall >= GOOD, "precision {precision:.3}, recall {recall:.3}");
    Ok(())
}
