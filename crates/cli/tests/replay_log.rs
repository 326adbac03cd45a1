//! `replay --log`: a line for each call.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const USAGE: i32 = 2;

fn reenact() -> Command {
    Command::new(env!("CARGO_BIN_EXE_reenact"))
}

fn recorded(directory: &Path) -> PathBuf {
    let trace = directory.join("script.rnt");
    let mut record = reenact();
    record.args(["record", "--quiet", "--output"]).arg(&trace);
    record.args(["--", "sh", "-c", "echo hello > a; cat a | wc -c > b"]).current_dir(directory);
    let output = record.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    trace
}

fn replay(trace: &Path, options: &[&str]) -> Output {
    reenact().arg("replay").arg(trace).args(options).output().unwrap()
}

#[test]
fn each_call_has_a_line_with_what_came_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let trace = recorded(directory.path());
    let log = directory.path().join("log.jsonl");
    let output = replay(&trace, &["--json", "--log", log.to_str().unwrap(), "--log-level", "all"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |came: &str| lines.iter().filter(|line| line["came"] == came).count() as u64;
    assert_eq!(count("verified"), said["verified"].as_u64().unwrap());
    assert_eq!(count("simulated"), said["simulated"].as_u64().unwrap());
    assert_eq!(count("mismatch"), 0);
    let mut seqs: Vec<u64> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>(), "each call has one");
    let reads = |line: &&Value| line["call"] == "read" && line["expected"] == "6";
    let piped = |line: &&Value| line["text"].as_str().unwrap().starts_with("read(0<pipe:[1]>");
    let found = lines.iter().filter(reads).find(piped).expect("wc reads from cat");
    assert_eq!((found["what"].is_null(), found["found"].is_null()), (true, true), "{found}");
    assert!(found["pid"].is_u64() && found["tid"].is_u64() && found["time_ns"].is_u64());
}

#[test]
fn text_has_only_what_the_level_names() {
    let directory = tempfile::tempdir().unwrap();
    let trace = recorded(directory.path());
    let log = directory.path().join("log");
    let lines = |level: &str| {
        let output = replay(&trace, &["--log", log.to_str().unwrap(), "--log-level", level]);
        assert!(output.status.success());
        fs::read_to_string(&log).unwrap()
    };
    assert_eq!(lines("raced"), "");
    let simulated = lines("simulated");
    assert!(simulated.contains(" simulated: exit_group(0): "), "{simulated}");
    assert!(!simulated.contains(" verified: "));
    assert!(lines("all").contains(" verified: openat("));
}

#[test]
fn the_trace_is_no_log() {
    let directory = tempfile::tempdir().unwrap();
    let trace = recorded(directory.path());
    let before = fs::read(&trace).unwrap();
    let output = replay(&trace, &["--log", trace.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(USAGE));
    assert_eq!(fs::read(&trace).unwrap(), before);
    let output = replay(&trace, &["--log-level", "all"]);
    assert_eq!(output.status.code(), Some(USAGE), "there is no log");
}
