//! The reading commands, run as a user runs them.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

#[path = "../src/sample.rs"]
mod sample;

use sample::End;

struct Traces {
    directory: tempfile::TempDir,
}

impl Traces {
    fn new() -> Traces {
        Traces { directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path: PathBuf = self.directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_string()
    }

    fn sample(&self, end: End) -> String {
        self.file("sample.rnt", &sample::trace(end))
    }
}

fn reenact(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_reenact")).args(args).output().unwrap()
}

#[track_caller]
fn text(args: &[&str]) -> String {
    let output = reenact(args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn failure(args: &[&str], code: i32, message: &str) {
    let output = reenact(args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(errors.contains(message), "'{message}' is not in: {errors}");
}

const SHOWN: &str = "\
100                0.000001 +++ launched +++
100<cp>            0.000002 +++ runs [\"cp\", \"/in\", \"a b\"] +++
100<cp>            0.000004 openat(AT_FDCWD</work place>, \"/in\", O_RDONLY) = 3</in> <0.000000700>
100<cp>            0.000005 openat(AT_FDCWD</work place>, \"missing\", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000000700>
100<cp>            0.000006 openat(AT_FDCWD</work place>, \"a b\", O_RDONLY) = 4</work place/a b> <0.000000700>
";

#[test]
fn show_prints_lines() {
    let trace = Traces::new();
    let shown = text(&["show", &trace.sample(End::Whole)]);
    assert!(shown.starts_with(SHOWN), "{shown}");
    assert!(shown.contains(
        "100/101<cp>        0.000010 openat(AT_FDCWD</work place>, \"/tmp/\\033[31m\\377\""
    ));
    assert!(
        shown.contains("100<cp>            0.000014 --- waited 1.5 us for the recorder ---"),
        "{shown}"
    );
    assert!(shown.ends_with("100<cp>            0.000021 +++ exited with 0 +++\n"), "{shown}");
    assert!(!shown.contains('\x1b'), "no colours in a file");
}

#[test]
fn tables_are_sorted_by_titles_too() {
    let traces = Traces::new();
    let trace = traces.sample(End::Whole);
    let by = |column: &str| text(&["stat", "files", &trace, "--sort", column]);
    assert_eq!(by("written"), by("write_bytes"));
    failure(&["stat", "files", &trace, "--sort", "nothing"], 2, "no table here has a column");
}

#[test]
fn a_line_of_a_shell_is_no_program() {
    let place = tempfile::tempdir().unwrap();
    let trace = place.path().join("none.rnt");
    let words = ["record", "-o", trace.to_str().unwrap(), "ls | wc -l"];
    failure(&words, 127, "write `reenact record sh -c 'LINE'`");
}

#[test]
fn show_filters() {
    let traces = Traces::new();
    let trace = traces.sample(End::Whole);
    let count = |args: &[&str]| {
        let args = [&["show", trace.as_str()][..], args].concat();
        text(&args).lines().count()
    };
    assert_eq!(count(&["--call", "openat"]), 4);
    assert_eq!(count(&["--call", "!%file"]), 3);
    assert_eq!(count(&["--failed"]), 1);
    assert_eq!(count(&["--path", "/in"]), 2);
    assert_eq!(count(&["--path", "/work place/*"]), 3);
    assert_eq!(count(&["--tid", "101"]), 3);
    assert_eq!(count(&["--pid", "102,103"]), 3);
    assert_eq!(count(&["--limit", "2"]), 2);
    assert_eq!(count(&["--since", "4us", "--until", "5us"]), 2);
    assert_eq!(count(&["--slower-than", "1us"]), 0);
    let hex = ["show", &trace, "--call", "write", "--data", "hex"];
    assert!(text(&hex).contains(" * 70000 bytes of buf\n | 00000  00 9e 3c da "));
    let none = ["show", &trace, "--call", "write", "--data", "none"];
    assert!(text(&none).contains("write(4</work place/a b>, 0x9000, 70000) = 70000"));
    let long = ["show", &trace, "--call", "read", "-s", "3"];
    assert!(text(&long).contains(r#"read(3</in>, "\000\236<"..., 1048576) = 70000"#));
}

#[test]
fn show_as_json_has_all_bytes() {
    let traces = Traces::new();
    let trace = traces.sample(End::Whole);
    let lines: Vec<Value> = text(&["show", &trace, "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let calls: Vec<&Value> = lines.iter().filter(|line| line["type"] == "call").collect();
    let numbers: Vec<u64> = calls.iter().map(|call| call["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..7).collect::<Vec<u64>>());
    let write = calls.iter().find(|call| call["call"] == "write").unwrap();
    let data = &write["data"]["buf"];
    let hash = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&sample::page()));
    assert_eq!(data["hash"], hash.as_str());
    assert_eq!(data["len"], sample::PAGE_BYTES);
    assert_eq!(data["cut"], false);
    assert_eq!(data["base64"].as_str().unwrap().len(), sample::PAGE_BYTES.div_ceil(3) * 4);
    assert_eq!(calls[5]["args"]["pathname"]["base64"], "L3RtcC8bWzMxbf8=");
    assert_eq!(calls[0]["files"]["ret"]["dev"], "8:1");
    let types = ["call", "signal", "start", "exit", "exec", "state", "stall"];
    for kind in types {
        assert!(lines.iter().any(|line| line["type"] == kind), "no {kind}");
    }
}

#[test]
fn a_trace_may_come_through_a_pipe() {
    let traces = Traces::new();
    let trace = traces.sample(End::Whole);
    let piped = |args: &[&str]| {
        let mut cat = Command::new("cat").arg(&trace).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = cat.stdout.take().unwrap();
        let output =
            Command::new(env!("CARGO_BIN_EXE_reenact")).args(args).stdin(stdin).output().unwrap();
        assert!(cat.wait().unwrap().success() && output.status.success(), "{output:?}");
        output.stdout
    };
    assert_eq!(piped(&["show", "-"]), text(&["show", &trace]).into_bytes());
    assert_eq!(piped(&["cat", "/dev/stdin", "--seq", "3"]), sample::page());
    assert!(!piped(&["info", "-"]).is_empty());
}

#[test]
fn cat_gives_the_bytes() {
    let traces = Traces::new();
    let trace = traces.sample(End::Whole);
    for seq in ["3", "4"] {
        let output = reenact(&["cat", &trace, "--seq", seq]);
        assert!(output.status.success());
        assert_eq!(output.stdout, sample::page());
    }
    let output = reenact(&["cat", &trace, "--seq", "5", "--arg", "pathname"]);
    assert_eq!(output.stdout, b"/tmp/\x1b[31m\xff");
    failure(&["cat", &trace, "--seq", "9"], 1, "there is no call 9; the trace has 7 calls");
    failure(
        &["cat", &trace, "--seq", "3", "--arg", "x"],
        1,
        "call 3 (read) has no buffer 'x'; it has buf",
    );
    failure(&["cat", &trace, "--seq", "6"], 1, " has no buffers; `reenact show --seq 6");
}

#[test]
fn info_tells_and_proves() {
    let traces = Traces::new();
    let trace = traces.sample(End::Whole);
    let info = text(&["info", &trace, "--verify"]);
    for line in [
        "command      cp /in 'a b'",
        "recorded     2023-11-14 22:13:20 UTC on box by reenact 0.1.0",
        "machine      A CPU, 2 CPUs, 8.0 GiB memory",
        "processes    2, with 3 threads",
        "calls        7, 1 (14.3%) of them by the slow path",
        "stalled      1.5 us waiting for the recorder",
        "complete     yes (0 calls lost, 0 gaps; every byte was checked)",
        "             calls made 7, read 7, written 7, in the file 7",
        "  ext4 /dev/sda1 on / (rw,relatime)",
        "  tmpfs tmpfs on /tmp (rw,nosuid)",
    ] {
        assert!(info.lines().any(|found| found == line), "'{line}' is not in:\n{info}");
    }
    assert!(info.contains("warning      the trace lay on the same device"), "{info}");
    assert!(!info.contains("/unused"), "{info}");

    let info: Value = serde_json::from_str(&text(&["info", &trace, "--json"])).unwrap();
    assert_eq!(info["complete"], true);
    assert_eq!(info["lost"], 0);
    assert_eq!(info["gaps"], 0);
    assert_eq!(info["calls"], 7);
    assert_eq!(info["by_call"]["openat"]["count"], 4);
    assert_eq!(info["by_call"]["openat"]["errors"], 1);
    assert_eq!(info["processes"], 2);
    assert_eq!(info["threads"], 3);
    assert_eq!(info["stall_ns"], 1500);
    assert_eq!(info["slow_path_calls"], 1);
    assert_eq!(info["epoch_ns"], "1700000000123456789");
    assert_eq!(info["stored_bytes"].as_u64(), Some(sample::PAGE_BYTES as u64));
    assert!(info["data_bytes"].as_u64() >= Some(2 * sample::PAGE_BYTES as u64));
    assert_eq!(info["trace_bytes"].as_u64(), Some(fs::metadata(&trace).unwrap().len()));
}

#[test]
fn a_lost_recorder_is_noticed() {
    let traces = Traces::new();
    let trace = traces.sample(End::Lost);
    let info = text(&["info", &trace]);
    assert!(info.contains("complete     NO"), "{info}");
    assert!(info.contains("the trace was not ended: the recorder was lost after"), "{info}");
    failure(&["info", &trace, "--verify"], 3, "is not complete");
    let output = reenact(&["show", "--names", &trace]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("warning"));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with(SHOWN));
}

#[test]
fn gaps_are_told() {
    let traces = Traces::new();
    let trace = traces.sample(End::Gap);
    let gap = "gap: the size limit of the recording was reached: 64 MiB";
    assert!(text(&["show", &trace]).contains(gap));
    assert!(text(&["show", &trace, "--failed"]).contains(gap));
    failure(&["info", &trace, "--verify"], 3, "1 gap, ");
    let info: Value = serde_json::from_str(&text(&["info", &trace, "--json"])).unwrap();
    assert_eq!(info["complete"], false);
    assert_eq!(info["gaps"], 1);
    assert_eq!(info["gap_list"][0]["why"], "size-limit");
}

#[test]
fn what_is_no_trace_is_refused() {
    let traces = Traces::new();
    let other = traces.file("other", b"#!/bin/sh\necho this is something else entirely\n");
    for command in ["show", "info", "cat"] {
        let mut args = vec![command, &other];
        if command == "cat" {
            args.extend(["--seq", "0"]);
        }
        failure(&args, 1, "not a trace of reenact: it begins with #!/bin/s");
    }
    failure(&["show", "/nowhere/at/all"], 1, "No such file or directory");
    // The message names the command that imports such a file.
    let text = traces.file("text", b"7 0.000001 getpid() = 7\n");
    failure(&["show", &text], 1, "it is the text of strace: `reenact import` makes a trace of it");
    let series = traces.file("series", b"DSv1 and more");
    failure(&["info", &series], 1, "it is a DataSeries file: `reenact import` makes");
}

#[test]
fn a_replay_into_the_whole_system_is_refused_before_anything_else() {
    let traces = Traces::new();
    let whole = traces.sample(End::Whole);
    failure(&["replay", "--root", "/", &whole], 1, "/ is the whole system");
    failure(&["import", &whole, "-o", "/nowhere/at/all"], 1, "it is a trace already");
}

#[test]
fn damage_is_told_with_its_place() {
    let traces = Traces::new();
    let mut bytes = sample::trace(End::Whole);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    let trace = traces.file("damaged.rnt", &bytes);
    failure(&["info", &trace, "--verify"], 3, "is not complete");
    let info = reenact(&["info", &trace, "--verify"]);
    let info = String::from_utf8_lossy(&info.stdout).into_owned();
    assert!(info.lines().any(|line| line.starts_with("problem      at byte ")), "{info}");
}

#[test]
fn bad_command_lines() {
    let traces = Traces::new();
    let trace = traces.sample(End::Whole);
    failure(&["show", &trace, "--call", "opennat"], 2, "unknown system call 'opennat'");
    failure(&["show", &trace, "--call", "%fil"], 2, "known are %file");
    failure(&["--verbose"], 2, "<COMMAND>");
    for args in [&["--verbose"][..], &["stat", &trace, "--bogus"]] {
        let said = String::from_utf8_lossy(&reenact(args).stderr).into_owned();
        assert!(!said.contains("as a value"), "{said}");
        assert!(!said.contains("Usage: reenact --version"), "{said}");
    }
    failure(
        &["show", &trace, "--since", "soon"],
        2,
        "'soon' is not a time; write 1.5, 10s, 200ms or 5m",
    );
    failure(&["show"], 2, "TRACE");
    failure(&["nonsense"], 2, "nonsense");
    failure(&["record", "--data", "some", "true"], 125, "--data");
    failure(&["record"], 125, "PROGRAM");
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let traces = Traces::new();
    let trace = traces.sample(End::Whole);
    let mut child = Command::new(env!("CARGO_BIN_EXE_reenact"))
        .args(["show", &trace, "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn follow_goes_on_until_the_end() {
    let traces = Traces::new();
    let bytes = sample::trace(End::Whole);
    let trace = traces.file("growing.rnt", &bytes[..bytes.len() / 3]);
    let child = Command::new(env!("CARGO_BIN_EXE_reenact"))
        .args(["show", "--follow", "--names", &trace])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let mut file = fs::OpenOptions::new().append(true).open(&trace).unwrap();
    for piece in bytes[bytes.len() / 3..].chunks(1000) {
        file.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let begin = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), text(&["show", &trace]));
}

#[test]
fn doctor_has_a_verdict_on_everything() {
    let output = reenact(&["doctor", "--json"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(if told["ok"] == true { 0 } else { 1 }));
    let checks = told["checks"].as_array().unwrap();
    assert!(checks.len() >= 14);
    for check in checks {
        let well = check["verdict"] == "ok";
        assert_eq!(check["remedy"] == "", well, "{check}");
    }
}
