//! Traces with one altered record: the replay reports exactly that call.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use trace::event::{Call, Content, Event, EventKind, Outcome};
use trace::{Trace, Writer, WriterOptions};

const DIFFERENT: i32 = 4;

const SCRIPT: &str = "echo hello > a; mkdir d; mv a d/b; read line < d/b; ls d; ln -s b d/c; \
                      stat d/b > /dev/null; cat d/b; rm d/c";

fn reenact() -> Command {
    Command::new(env!("CARGO_BIN_EXE_reenact"))
}

struct Recording {
    directory: tempfile::TempDir,
    trace: PathBuf,
}

impl Recording {
    fn new() -> Recording {
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path().join("work");
        fs::create_dir(&work).unwrap();
        let trace = directory.path().join("script.rnt");
        let mut record = reenact();
        record.args(["record", "--quiet", "--output"]).arg(&trace);
        let output = record.args(["--", "sh", "-c", SCRIPT]).current_dir(&work).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Recording { directory, trace }
    }

    /// Writes the trace again with the first call that `alter` changes, and returns its number.
    fn altered(&self, mut alter: impl FnMut(&mut Call, &Trace) -> bool) -> (PathBuf, u64) {
        let trace = Trace::open(&self.trace).unwrap();
        let path = self.directory.path().join("altered.rnt");
        let file = Box::new(fs::File::create(&path).unwrap());
        let mut writer = Writer::new(file, trace.preamble(), WriterOptions::default()).unwrap();
        let mut changed = None;
        for next in trace.events() {
            let next = next.unwrap();
            let mut event = next.event;
            if let EventKind::Call(call) = &mut event.kind
                && changed.is_none()
                && alter(call, &trace)
            {
                changed = next.seq;
            }
            carry_over(&mut event, &trace, &mut writer);
            writer.event(&event).unwrap();
        }
        writer.finish(trace.totals().unwrap()).unwrap();
        (path, changed.expect("the recording has such a call"))
    }
}

/// Copies blobs to the new trace, where they get other ids.
fn carry_over(event: &mut Event, trace: &Trace, writer: &mut Writer) {
    let data = match &mut event.kind {
        EventKind::Call(call) => &mut call.data,
        EventKind::Image { data, .. } => data,
        _ => return,
    };
    for data in data {
        if let Content::Blobs { ids, .. } = &mut data.content {
            for id in ids {
                *id = writer.blob(&trace.blob(*id).unwrap()).unwrap();
            }
        }
    }
}

fn replay(trace: &Path) -> (Output, Value) {
    let output = reenact().arg("replay").arg(trace).arg("--json").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{errors}"));
    (output, said)
}

/// Returns the numbers of the calls that are reported.
fn reported(said: &Value) -> Vec<u64> {
    let causes = said["mismatches"]["causes"].as_array().unwrap();
    let examples = causes.iter().flat_map(|cause| cause["examples"].as_array().unwrap());
    examples.map(|example| example["seq"].as_u64().unwrap()).collect()
}

#[track_caller]
fn is_found(kind: &str, alter: impl FnMut(&mut Call, &Trace) -> bool) {
    let recording = Recording::new();
    let (altered, seq) = recording.altered(alter);
    let (output, said) = replay(&altered);
    assert_eq!(output.status.code(), Some(DIFFERENT), "{said}");
    assert_eq!(said["ok"], false);
    assert_eq!(reported(&said), [seq], "{}", said["mismatches"]);
    assert_eq!(said["mismatches"][kind], 1, "{}", said["mismatches"]);
    // The example names the file, whether the call has a path or a descriptor.
    let about = &said["mismatches"]["causes"][0]["examples"][0]["path"];
    assert!(about.as_str().is_some_and(|path| path.starts_with('/')), "{about}");
}

fn is(call: &Call, name: &str) -> bool {
    syscalls::by_number(call.nr.into()).is_some_and(|row| row.name == name)
}

/// Returns whether a path of the call is this one.
fn names(call: &Call, path: &str) -> bool {
    call.data.iter().any(|data| matches!(&data.content, Content::Inline(b) if b == path.as_bytes()))
}

fn result(call: &Call) -> i64 {
    match call.outcome {
        Outcome::Returned { ret, .. } => ret,
        Outcome::Unfinished => 0,
    }
}

/// Changes stored bytes that a call returned.
fn scribble(call: &mut Call, trace: &Trace, change: impl FnOnce(&mut Vec<u8>)) -> bool {
    let out = syscalls::record::data_flag::OUT;
    let Some(data) = call.data.iter_mut().find(|data| data.flags & out != 0) else {
        return false;
    };
    let mut bytes = trace.content(&data.content).unwrap();
    change(&mut bytes);
    // All such buffers in this recording are short, or are shortened here.
    bytes.truncate(64);
    if (bytes.len() as u64) < data.true_len {
        data.flags |= syscalls::record::data_flag::CUT;
    }
    data.content = Content::Inline(bytes);
    true
}

#[test]
fn as_recorded_all_agrees() {
    let recording = Recording::new();
    let (output, said) = replay(&recording.trace);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(said["ok"], true);
    assert!(said["final_state"]["compared"].as_u64().unwrap() > 0);
    // Without a change, the new trace matches: mismatches below come from the changes.
    let (same, _) = recording.altered(|_, _| true);
    let (output, said) = replay(&same);
    assert_eq!(output.status.code(), Some(0), "{said}");
}

#[test]
fn a_buffer_is_found() {
    is_found("data", |call, trace| {
        let reads_hello = is(call, "read")
            && call
                .data
                .iter()
                .any(|data| trace.content(&data.content).is_ok_and(|bytes| bytes == b"hello\n"));
        reads_hello && scribble(call, trace, |bytes| bytes[1] ^= 1)
    });
}

#[test]
fn a_result_is_found() {
    is_found("return", |call, _| {
        let fits = is(call, "symlink") || is(call, "symlinkat");
        if fits && result(call) == 0 {
            let Outcome::Returned { ret, .. } = &mut call.outcome else { return false };
            *ret = -i64::from(libc::EEXIST);
            return true;
        }
        false
    });
}

#[test]
fn a_directory_entry_is_found() {
    is_found("data", |call, trace| {
        is(call, "getdents64")
            && result(call) > 0
            && scribble(call, trace, |bytes| {
                let name = bytes.windows(2).position(|pair| pair == b"b\0").unwrap();
                bytes[name] = b'x';
            })
            && {
                // The buffer holds three short names, all of which are kept.
                call.data.iter_mut().for_each(|data| {
                    if let Content::Inline(bytes) = &data.content {
                        data.true_len = bytes.len() as u64;
                        data.flags &= !syscalls::record::data_flag::CUT;
                    }
                });
                true
            }
    });
}

#[test]
fn a_size_in_a_stat_is_found() {
    is_found("data", |call, trace| {
        // In both statx and stat, the size is within the first 64 bytes.
        let at = match () {
            () if is(call, "statx") => 40,
            () if is(call, "newfstatat") || is(call, "stat") => 48,
            () => return false,
        };
        names(call, "d/b") && result(call) == 0 && scribble(call, trace, |bytes| bytes[at] ^= 1)
    });
}
