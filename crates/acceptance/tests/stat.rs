//! `reenact stat`: numbers compared with an independent count, findings tested on programs with and
//! without each pattern, hostile names in all three formats.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::program::{self, Program};
use acceptance::stage::{self, Stage};
use acceptance::{Complaint, ensure, trials};
use serde_json::Value;

fn main() -> ExitCode {
    trials::main(|trials| {
        let no_python = trials::missing(&["python3"]);
        for program in program::all()? {
            let missing = program.needs.iter().find(|need| !trials::has(**need, Who::User));
            let missing = missing.map(|need| format!("{need:?}"));
            let name = format!("counts/{}", program.name);
            let check = move |stage: &Stage, who| counts(stage, who, &program);
            trials.add(&name, Who::User, missing.as_deref().or(no_python), check);
        }
        for pattern in patterns()? {
            let name = pattern.program.name.clone();
            trials.add(&format!("patterns/{name}"), Who::User, None, move |stage, who| {
                shows_and_does_not(stage, who, &pattern)
            });
        }
        trials.add("hostile_names", Who::User, None, hostile_names);
        trials.add("directories_synced_in_vain", Who::User, None, directory_syncs);
        Ok(())
    })
}

/// Records a program.
fn record(stage: &Stage, place: &Place, words: &[&str]) -> Result<PathBuf, Complaint> {
    let trace = place.trace("program.rnt");
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--output"]).arg(&trace).arg("--").args(words);
    // A program may exit with any status; other tests check it.
    place.run(&mut command)?;
    Ok(trace)
}

fn run(command: &mut Command) -> Result<String, Complaint> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let (out, err) = (&output.stdout, &output.stderr);
    ensure!(
        output.status.success(),
        "{command:?}: {}; it said:\n{}{}",
        output.status,
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    );
    String::from_utf8(output.stdout).map_err(|error| format!("{command:?}: {error}"))
}

fn stat(stage: &Stage, words: &[&str], trace: &Path) -> Result<String, Complaint> {
    run(Command::new(&stage.reenact).arg("stat").args(words).arg(trace))
}

fn counts(stage: &Stage, who: Who, program: &Program) -> Result<(), Complaint> {
    let binary = program.build(stage)?;
    let place = Place::new(stage, who)?;
    let binary = binary.to_string_lossy();
    let mut words = vec![binary.as_ref(), "1"];
    words.extend(program.args.iter().map(String::as_str));
    let trace = record(stage, &place, &words)?;
    let script = stage::repository().join("tests/stat/count.py");
    run(Command::new("python3").arg(script).arg(&stage.reenact).arg(&trace)).map(drop)
}

/// A program that can exhibit a pattern.
struct Pattern {
    program: Program,
    kind: String,
}

/// Returns every program in `tests/patterns`.
fn patterns() -> Result<Vec<Pattern>, Complaint> {
    let folder = stage::repository().join("tests/patterns");
    let fail = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut patterns = Vec::new();
    for entry in fs::read_dir(&folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(fail)?;
        let first = text.lines().next().and_then(|line| line.strip_prefix("// shows: "));
        let kind = first.ok_or_else(|| format!("{}: says not what it shows", path.display()))?;
        let program = Program::parse(&path, &text)?;
        patterns.push(Pattern { program, kind: kind.to_string() });
    }
    ensure!(!patterns.is_empty(), "{}: no program found", folder.display());
    Ok(patterns)
}

fn shows_and_does_not(stage: &Stage, who: Who, pattern: &Pattern) -> Result<(), Complaint> {
    let binary = pattern.program.build(stage)?;
    let binary = binary.to_string_lossy();
    for (mode, expected) in [("shows", vec![pattern.kind.as_str()]), ("not", vec![])] {
        let place = Place::new(stage, who)?;
        let trace = record(stage, &place, &[&binary, mode])?;
        let text = stat(stage, &["patterns", "--json"], &trace)?;
        let json: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let findings = json["findings"].as_array().map_or(&[][..], Vec::as_slice);
        // What the time of a run went to is told of every run.
        let of_pattern = |f: &&Value| {
            f["about"] != "run" || (mode == "shows" && f["kind"] == pattern.kind.as_str())
        };
        let findings: Vec<&Value> = findings.iter().filter(of_pattern).collect();
        let kinds: Vec<&str> = findings.iter().filter_map(|f| f["kind"].as_str()).collect();
        ensure!(kinds == expected, "{mode}: found {kinds:?}, not {expected:?}:\n{text}");
        for finding in findings {
            let said = |key: &str| finding[key].as_str().is_some_and(|text| !text.is_empty());
            ensure!(said("evidence") && said("reason"), "{mode}: no evidence: {finding}");
            // A finding about all written data has no single place.
            let site = finding["site"].as_str().unwrap_or_default();
            let without = ["compressible", "churn", "polling", "unsafe_renames"];
            let is_placed = finding["about"] != "run" && !without.contains(&pattern.kind.as_str());
            let placed = site.contains("+0x") || !is_placed;
            ensure!(placed, "{mode}: called from {site:?}, which is no module: {finding}");
        }
    }
    Ok(())
}

/// A directory is synced three times for a new file in it, and once for nothing.
fn directory_syncs(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let script = "mkdir d; for n in 1 2 3; do echo $n > d/$n; sync d; done; sync d";
    let trace = record(stage, &place, &["sh", "-c", script])?;
    let json = stat(stage, &["durability", "--json"], &trace)?;
    let json: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    let rows = json["files"].as_array().map_or(&[][..], Vec::as_slice);
    let directory = rows.iter().find(|row| row["path"].as_str().is_some_and(|p| p.ends_with("/d")));
    let counts = directory.map(|row| (row["syncs"].as_u64(), row["idle_syncs"].as_u64()));
    ensure!(counts == Some((Some(4), Some(1))), "syncs, and those in vain: {counts:?}");
    Ok(())
}

/// A file name with a terminal's control sequence, HTML, a formula, and invalid UTF-8.
const HOSTILE: &str = r#"printf x > "$(printf '=1+1,\033[31m<b>"\n\377')""#;

fn hostile_names(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, &["sh", "-c", HOSTILE])?;
    for view in ["files", "durability", "patterns", "processes"] {
        for format in [None, Some("--csv"), Some("--json")] {
            let words: Vec<&str> = [view, "--limit", "1000"].into_iter().chain(format).collect();
            let text = stat(stage, &words, &trace)?;
            let raw = text.chars().find(|c| c.is_control() && !"\r\n".contains(*c));
            ensure!(raw.is_none(), "{words:?}: {raw:?} reaches the terminal:\n{text}");
        }
    }
    let files = stat(stage, &["files", "--limit", "1000"], &trace)?;
    ensure!(files.contains(r#"/=1+1,\033[31m<b>"\n\377"#), "the name is not shown:\n{files}");
    let csv = stat(stage, &["files", "--csv"], &trace)?;
    ensure!(csv.contains(r#"=1+1,\033[31m<b>""\n\377""#), "the name is no field:\n{csv}");
    let json = stat(stage, &["files", "--json"], &trace)?;
    let json: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    let rows = json["files"].as_array().map_or(&[][..], Vec::as_slice);
    let raw = rows.iter().any(|row| row["path"]["base64"].is_string());
    ensure!(raw, "no name in base64: {json}");
    Ok(())
}
