//! The Python reader, written from docs/format.md, reads the same as the Rust reader.

mod sample;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use sample::lines::{assert_same, lines};
use sample::{Random, everything, open, options, write, write_with_gaps};
use trace::Compress;

/// Runs the Python reader. Returns its output, its errors and its exit code.
fn python(bytes: &[u8], name: &str) -> (Vec<Value>, String, Option<i32>) {
    let file = format!("trace-python-{name}.{}.rnt", std::process::id());
    let path = std::env::temp_dir().join(file);
    std::fs::write(&path, bytes).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/format/read_trace.py");
    let run = Command::new("python3").arg(script).arg(&path).output().unwrap();
    std::fs::remove_file(path).unwrap();
    let complaint = String::from_utf8(run.stderr).unwrap();
    let lines = String::from_utf8(run.stdout).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (lines, complaint, run.status.code())
}

#[test]
fn both_readers_say_the_same() {
    for compress in [Compress::None, Compress::Lz4, Compress::Zstd(1)] {
        let bytes = write_with_gaps(options(compress, 0), 1, |writer| {
            everything(writer);
            sample::manifest::write(writer, 3000);
            sample::sources::write(writer, 100);
            sample::gap(writer);
        });
        let (printed, complaint, code) = python(&bytes, "same");
        assert_eq!((complaint.as_str(), code), ("", Some(0)), "{compress:?}");
        assert!(printed.len() > 3000);
        assert_same(&printed, &lines(&open(&bytes)));
    }
}

#[test]
fn both_readers_stop_at_the_same_place() {
    let bytes = write(options(Compress::None, 0), |writer| {
        everything(writer);
        writer.flush().unwrap();
        everything(writer);
    });
    let first = open(&bytes).blocks()[0].offset as usize;
    let mut random = Random(11);
    for _ in 0..5 {
        let cut = first + random.below(bytes.len() - first);
        let (printed, complaint, code) = python(&bytes[..cut], "cut");
        assert_eq!(code, Some(1));
        assert!(complaint.contains("byte"), "{complaint}");
        assert_same(&printed, &lines(&open(&bytes[..cut])));
    }
}

#[test]
fn the_reader_in_python_refuses_what_is_no_trace() {
    assert_eq!(python(b"\x7fELF and so on, and so on", "foreign").2, Some(2));
}
