//! Traces of every version of the format remain readable.
//!
//! `tests/old/` has traces, and for every version the lines that tests/format/read_trace.py printed
//! when they were made. Missing ones of the current version are made by
//! `cargo test -p trace --test old -- --ignored`.

mod sample;

use std::path::{Path, PathBuf};
use std::process::Command;

use sample::lines::{assert_same, lines};
use sample::{event, fill, options, write_with_gaps};
use trace::event::EventKind;
use trace::format::VERSION;
use trace::{Compress, Trace};

fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old")
}

/// v1-zstd.trace -> v1.jsonl
fn lines_of(trace: &Path) -> PathBuf {
    let name = trace.file_name().unwrap().to_str().unwrap();
    trace.with_file_name(format!("{}.jsonl", name.split('-').next().unwrap()))
}

#[test]
fn old_traces_say_what_they_always_said() {
    let mut versions = Vec::new();
    for entry in std::fs::read_dir(place()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "trace") {
            continue;
        }
        let expected = std::fs::read_to_string(lines_of(&path)).unwrap();
        let expected: Vec<_> =
            expected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let trace = Trace::open(&path).unwrap();
        assert!(trace.damage().is_empty(), "{}", path.display());
        assert_same(&expected, &lines(&trace));
        assert_eq!(trace.verify().problems, [], "{}", path.display());
        let bytes = std::fs::read(&path).unwrap();
        versions.push(u32::from(bytes[8]));
    }
    for version in 1..=VERSION {
        assert!(versions.contains(&version), "there is a trace of version {version}");
    }
}

#[test]
#[ignore = "makes files that are to stay as they are"]
fn make_the_traces_of_this_version() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/format/read_trace.py");
    for (name, compress) in
        [("zstd", Compress::Zstd(1)), ("lz4", Compress::Lz4), ("none", Compress::None)]
    {
        let path = place().join(format!("v{VERSION}-{name}.trace"));
        if path.exists() {
            continue;
        }
        std::fs::create_dir_all(place()).unwrap();
        let bytes = write_with_gaps(options(compress, 0), 1, |writer| {
            fill(writer, 100, 2);
            writer.flush().unwrap();
            fill(writer, 100, 3);
            sample::gap(writer);
            writer.event(&event(4, 950_000, EventKind::End { calls: 0 })).unwrap();
        });
        std::fs::write(&path, bytes).unwrap();
        let printed = Command::new("python3").arg(&script).arg(&path).output().unwrap();
        assert!(printed.status.success());
        std::fs::write(lines_of(&path), printed.stdout).unwrap();
    }
}
