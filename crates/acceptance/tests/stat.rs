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
        trials.add("a_launcher_and_its_program", Who::User, no_python, launcher);
        let small = patterns()?.into_iter().find(|of| of.program.name == "small_writes");
        let small = small.ok_or("small_writes is not there")?;
        trials.add("callers_are_named", Who::User, None, move |stage, who| {
            callers_are_named(stage, who, &small)
        });
        trials.add("what_to_do_comes_last", Who::User, None, what_to_do);
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
    let script = stage.readable("tests/stat/count.py")?;
    run(place.command("python3").arg(script).arg(&stage.reenact).arg(&trace)).map(drop)
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

/// Where callers were recorded, a finding names who called, and not the C library.
fn callers_are_named(stage: &Stage, who: Who, pattern: &Pattern) -> Result<(), Complaint> {
    let binary = pattern.program.build(stage)?;
    let place = Place::new(stage, who)?;
    let site = |stack: &[&str]| -> Result<String, Complaint> {
        let trace = place.trace("callers.rnt");
        let mut command = place.command(&stage.reenact);
        command.args(["record", "--quiet", "--force", "--output"]).arg(&trace).args(stack);
        place.run(command.arg("--").arg(&binary).arg("shows"))?.success("record")?;
        let json = stat(stage, &["patterns", "--json"], &trace)?;
        let json: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
        let mut all = json["findings"].as_array().into_iter().flatten();
        let found = all.find(|finding| finding["kind"] == pattern.kind.as_str());
        // How to see more is said once, where there is more to see.
        let hints = stat(stage, &["patterns"], &trace)?.matches("reenact record --stack").count();
        ensure!(hints == usize::from(stack.is_empty()), "{stack:?}: {hints} hints");
        Ok(found.and_then(|of| of["site"].as_str()).unwrap_or_default().to_string())
    };
    let (with, without) = (site(&["--stack"])?, site(&[])?);
    let is_named = with.starts_with("main") || with.contains("(program)");
    ensure!(is_named || with.contains("small_writes"), "called from {with}");
    ensure!(without.contains("+0x") && !without.contains("main"), "called from {without}");
    // The function of the C library is known by the symbols that it exports.
    ensure!(without.contains("write"), "called from {without}");
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

/// A shell that copies itself, and then becomes the program that it launches.
const LAUNCHER: &str = "(: > made-by-a-copy); (read line < made-by-a-copy); exec python3 -S -c \
                        'import os\nfor _ in range(3000): os.stat(\".\")'";

/// The time of a launcher is told apart from that of its program, which can be looked at alone; a copy is
/// named after what was copied.
fn launcher(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, &["sh", "-c", LAUNCHER])?;
    let json = |words: &[&str]| -> Result<Value, Complaint> {
        let text = stat(stage, &[words, &["--json"]].concat(), &trace)?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    };
    let all = json(&[])?;
    let programs = all["programs"].as_array().ok_or("no programs")?;
    let named = |begin: &str| {
        let name =
            |row: &&Value| row["program"].as_str().is_some_and(|name| name.starts_with(begin));
        programs.iter().find(name).and_then(|row| row["wall_ns"].as_u64())
    };
    let python_ns = named("python3").ok_or_else(|| format!("no python3: {programs:?}"))?;
    let sum: u64 = programs.iter().filter_map(|row| row["wall_ns"].as_u64()).sum();
    let run_ns = all["run_ns"].as_u64().unwrap_or_default();
    ensure!(programs.len() == 2 && python_ns < sum, "a shell and python3: {programs:?}");
    ensure!(sum <= run_ns + 10 && sum * 10 >= run_ns * 9, "{sum} ns of {run_ns}");
    // One program, and all of its processes' time.
    let one = json(&["--program", "python3*"])?;
    let stats = |of: &Value| {
        let rows = of["calls"].as_array().into_iter().flatten();
        let mut stats = rows.filter(|row| row["call"] == "newfstatat" || row["call"] == "stat");
        stats.next().and_then(|row| row["count"].as_u64()).unwrap_or_default()
    };
    ensure!(stats(&one) >= 3000 && stats(&all) >= stats(&one), "{one}");
    ensure!(one["count"].as_u64() < all["count"].as_u64(), "the shell's calls are in: {one}");
    let (own_ns, wall) = (one["run_ns"].as_u64(), one["wall"].as_str());
    ensure!(
        own_ns.is_some_and(|ns| ns > 0 && ns < run_ns) && wall.is_some(),
        "{own_ns:?} {wall:?}"
    );
    let of_calls = stat(stage, &["--call", "newfstatat"], &trace)?;
    let words = "What the time went to is shown for whole processes";
    ensure!(of_calls.contains(words) && !of_calls.contains("time went to  "), "{of_calls}");
    let shown = run(Command::new(&stage.reenact).args(["show", "--program", "sh"]).arg(&trace))?;
    ensure!(shown.contains("made-by-a-copy") && !shown.contains("stat(AT_FDCWD, \".\""), "{shown}");
    let mut none = Command::new(&stage.reenact);
    let none = place.run(none.args(["show", "--program", "nothing"]).arg(&trace))?;
    ensure!(none.errors().contains("programs are "), "it said: {}", none.errors());
    let processes = stat(stage, &["processes"], &trace)?;
    let copies = processes.matches("sh (fork)").count();
    ensure!(copies == 2 && !processes.contains("python3 (fork)"), "{processes}");
    Ok(())
}

/// Plain `stat` ends with the first finding, by the names of the files that cost most, and the command
/// that says what to do.
fn what_to_do(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new_in(Path::new("/var/tmp"), who)?;
    let script =
        "mkdir queue; for n in 1 2 3 4 5 6 7 8; do echo $n > queue/$n.tmp; sync queue/$n.tmp; done";
    let trace = record(stage, &place, &["sh", "-c", script])?;
    let text = stat(stage, &[], &trace)?;
    let command = format!("`reenact stat patterns {}`", trace.display());
    let last = text.lines().last().unwrap_or_default();
    let is_told = last.starts_with("first finding: ") || last.starts_with("no finding is 1%");
    ensure!(is_told && last.contains(&command), "it ends with: {last}");
    let json = stat(stage, &["patterns", "--json"], &trace)?;
    let json: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    let first = &json["findings"][0];
    if last.starts_with("first finding: ") {
        let title = first["title"].as_str().unwrap_or_default();
        ensure!(last.contains(title), "{title} is not in: {last}");
    }
    let syncs = json["findings"].as_array().into_iter().flatten();
    let syncs = syncs.filter(|finding| finding["kind"] == "syncs").collect::<Vec<_>>();
    for finding in &syncs {
        let evidence = finding["evidence"].as_str().unwrap_or_default();
        // One name for all of them, or those of the few that took nearly all of the time.
        let is_named = evidence.contains("queue/*.tmp (8 files)") || evidence.contains(".tmp ");
        ensure!(is_named && evidence.contains("of 8 files"), "{evidence}");
    }
    let filtered = stat(stage, &["--call", "%sync"], &trace)?;
    ensure!(!filtered.contains("first finding"), "{filtered}");
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
