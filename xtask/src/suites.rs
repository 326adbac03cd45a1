//! Runs the test binaries of the workspace, several at a time: `cargo test` runs one after the other,
//! and most of them wait for disks, time-outs and children most of their time.
//!
//! What a binary prints is shown when it has ended, under the line with which cargo begins it, so that
//! whoever reads the output of `cargo test` can read this.

mod again;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Complaint, cargo_command, repository};

/// Binaries that run at a time; each runs as many tests at a time as there are CPUs.
const JOBS: usize = 3;
/// Those that take longest, which are begun first.
const LONGEST: &[&str] = &[
    "programs",
    "borders",
    "stat",
    "rerun",
    "recording_ends",
    "report",
    "replay",
    "hostile_rerun",
    "reenact",
    "compare",
    "robust",
    "rerun_mapped",
    "hostile_replay",
    "counts",
    "kept",
    "wild",
    "findings",
    "terminal",
    "stores",
    "rerun_network",
    "replay_works",
    "replay_options",
    "tutorials",
    "up_to",
];
/// Those that measure times or count what the whole machine does: each runs alone, at the end.
const ALONE: &[&str] = &["cpu_time", "kernel", "predict"];

/// How much of a failure is repeated at the end.
const TOLD_LINES: usize = 40;
const TOLD_CHARS: usize = 400;

/// A test binary.
#[derive(Clone, Debug, PartialEq)]
struct Suite {
    /// `acceptance --test robust`, as cargo takes it after `-p`.
    options: String,
    name: String,
    /// Of its source, in its package.
    source: String,
    binary: PathBuf,
    package: PathBuf,
}

/// How one ended.
struct Ended {
    suite: Suite,
    passed: bool,
    took: Duration,
    output: Vec<u8>,
}

/// Builds all test binaries of the workspace and runs them. `show` is given what each prints, whole.
pub fn run(variables: &[(&str, &str)], show: Show<'_>) -> Result<(), Complaint> {
    let suites = build()?;
    let (alone, together): (Vec<Suite>, Vec<Suite>) =
        in_order(suites).into_iter().partition(|suite| ALONE.contains(&suite.name.as_str()));
    let mut ended = run_all(together, JOBS, variables, show)?;
    ended.extend(run_all(alone, 1, variables, show)?);
    ended.sort_by_key(|ended| std::cmp::Reverse(ended.took));
    for Ended { suite, took, .. } in ended.iter().take(LONGEST.len()) {
        eprintln!("xtask: {:7.1} s  -p {}", took.as_secs_f64(), suite.options);
    }
    let failed: Vec<Ended> = ended.into_iter().filter(|ended| !ended.passed).collect();
    let names: String = failed
        .iter()
        .map(|ended| format!("\n    `-p {}`\n{}", ended.suite.options, why(&ended.output)))
        .collect();
    again::run(&failed, variables, show)
        .map_err(|error| format!("{error}; {} targets failed:{names}", failed.len()))
}

/// What a suite printed from its first failure on: whoever sees only the end of the whole output
/// wants to know it.
fn why(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let from = text.lines().skip_while(|line| !line.contains("FAILED") && *line != "failures:");
    let tell = |line: &str| !line.ends_with(again::PASSED) && !line.contains(" ... ignored");
    from.filter(|line| tell(line))
        .take(TOLD_LINES)
        .map(|line| format!("        {}\n", line.chars().take(TOLD_CHARS).collect::<String>()))
        .collect()
}

/// Builds the test binaries of the workspace.
fn build() -> Result<Vec<Suite>, Complaint> {
    let args = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let output = cargo_command(&args, &[])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo {}: {}", args.join(" "), output.status));
    }
    let suites: Vec<Suite> =
        String::from_utf8_lossy(&output.stdout).lines().filter_map(suite_of).collect();
    if suites.is_empty() { Err("cargo has built no tests".into()) } else { Ok(suites) }
}

/// Reads a test binary out of one of cargo's messages.
fn suite_of(line: &str) -> Option<Suite> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let target = &message["target"];
    let (name, kind) = (target["name"].as_str()?, target["kind"][0].as_str()?);
    let package = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let manifest = std::fs::read_to_string(package.join("Cargo.toml")).ok()?;
    let of = manifest.lines().find_map(|line| line.strip_prefix("name = "))?.trim_matches('"');
    let options = match kind {
        "test" | "bin" => format!("{of} --{kind} {name}"),
        _ => format!("{of} --lib"),
    };
    let source = PathBuf::from(target["src_path"].as_str()?);
    let source = source.strip_prefix(&package).unwrap_or(&source).display().to_string();
    let binary = PathBuf::from(message["executable"].as_str()?);
    Some(Suite { options, name: name.into(), source, binary, package })
}

/// The longest first, the others as cargo runs them.
fn in_order(mut suites: Vec<Suite>) -> Vec<Suite> {
    let place = |suite: &Suite| LONGEST.iter().position(|name| *name == suite.name);
    suites.sort_by_key(|suite| place(suite).unwrap_or(LONGEST.len()));
    suites
}

/// Is given what a suite has printed.
type Show<'a> = &'a mut (dyn FnMut(&[u8]) -> Result<(), Complaint> + Send);

/// Runs suites, some at a time.
fn run_all(
    suites: Vec<Suite>,
    jobs: usize,
    variables: &[(&str, &str)],
    show: Show<'_>,
) -> Result<Vec<Ended>, Complaint> {
    let left = Mutex::new(VecDeque::from(suites));
    let done = Mutex::new((Vec::new(), show));
    let next = || left.lock().expect("no worker panics").pop_front();
    let work = || -> Result<(), Complaint> {
        while let Some(suite) = next() {
            let one = run_one(suite, &[], variables)?;
            let (ended, show) = &mut *done.lock().expect("no worker panics");
            let suite = &one.suite;
            let head = match suite.options.ends_with("--lib") {
                true => format!("unittests {}", suite.source),
                false => suite.source.clone(),
            };
            let binary = suite.binary.strip_prefix(repository()).unwrap_or(&suite.binary);
            show(format!("     Running {head} ({})\n", binary.display()).as_bytes())?;
            show(&one.output)?;
            ended.push(one);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    Ok(done.into_inner().expect("no worker panics").0)
}

/// Runs one as cargo does: in its package. What it prints goes into a file of `target/suites`, where
/// it can be read meanwhile, and no process that a test leaves behind holds us up.
fn run_one(suite: Suite, args: &[&str], variables: &[(&str, &str)]) -> Result<Ended, Complaint> {
    let fail = |error: std::io::Error| format!("{}: {error}", suite.binary.display());
    let folder = repository().join("target/suites");
    std::fs::create_dir_all(&folder).map_err(fail)?;
    let words: Vec<&str> = suite.options.split(' ').filter(|word| !word.starts_with('-')).collect();
    let path = folder.join(format!("{}.log", words.join("-")));
    let log = std::fs::File::create(&path).map_err(fail)?;
    let mut command = Command::new(&suite.binary);
    command.args(args).current_dir(&suite.package).env("CARGO_MANIFEST_DIR", &suite.package);
    // The others know the binary that cargo has built for them.
    let names_binary = suite.package.ends_with("acceptance");
    command.envs(variables.iter().copied().filter(|_| names_binary)).stdin(Stdio::null());
    command.stdout(log.try_clone().map_err(fail)?).stderr(log);
    let began = Instant::now();
    let status = command.status().map_err(fail)?;
    let output = std::fs::read(&path).map_err(fail)?;
    Ok(Ended { suite, passed: status.success(), took: began.elapsed(), output })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(name: &str) -> Suite {
        Suite {
            options: format!("acceptance --test {name}"),
            name: name.into(),
            source: format!("tests/{name}.rs"),
            binary: "/bin/true".into(),
            package: repository().join("crates/acceptance"),
        }
    }

    #[test]
    fn messages_of_cargo_name_test_binaries() {
        let manifest = repository().join("crates/acceptance/Cargo.toml");
        let line = |is_test: bool, kind: &str| {
            let source = repository().join("crates/acceptance/tests/robust.rs");
            serde_json::json!({
                "reason": "compiler-artifact",
                "manifest_path": manifest,
                "target": { "name": "robust", "kind": [kind], "src_path": source },
                "profile": { "test": is_test },
                "executable": "/bin/true",
            })
            .to_string()
        };
        assert_eq!(suite_of(&line(true, "test")), Some(suite("robust")));
        let unit = suite_of(&line(true, "lib")).map(|suite| suite.options);
        assert_eq!(unit.as_deref(), Some("acceptance --lib"));
        assert_eq!(suite_of(&line(false, "test")), None);
        assert_eq!(suite_of("{\"reason\":\"build-finished\",\"success\":true}"), None);
    }

    #[test]
    fn the_longest_begin_first_and_all_are_run() {
        let names = |suites: Vec<Suite>| suites.into_iter().map(|s| s.name).collect::<Vec<_>>();
        let all = ["cut", "stat", "programs", "diff"].map(suite).to_vec();
        assert_eq!(names(in_order(all.clone())), ["programs", "stat", "cut", "diff"]);
        let mut shown = Vec::new();
        let mut show = |text: &[u8]| {
            shown.extend_from_slice(text);
            Ok(())
        };
        let ended = run_all(all, 3, &[], &mut show).unwrap();
        assert_eq!(ended.len(), 4);
        assert!(ended.iter().all(|ended| ended.passed));
        let shown = String::from_utf8(shown).unwrap();
        assert_eq!(shown.matches("     Running tests/").count(), 4, "{shown}");
    }

    #[test]
    fn a_suite_that_fails_is_told() {
        let bad = Suite { binary: "/bin/false".into(), ..suite("cut") };
        let ended = run_all(vec![bad], 1, &[], &mut |_| Ok(())).unwrap();
        assert!(!ended[0].passed);
        let told = why(b"test a ... ok\ntest b ... FAILED\ntest c ... ok\nfailures:\nbecause\n");
        assert_eq!(told.split_whitespace().last(), Some("because"));
        assert!(!told.contains("test a") && !told.contains("test c") && told.contains("test b"));
    }
}
