//! Data that moves outside of recorded calls is reported by `info` and in the summary of `record`;
//! harmless cases are not.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::program;
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, trials};
use serde_json::Value;

fn main() -> ExitCode {
    trials::main(|trials| {
        let python = trials::missing(&["python3"]);
        trials.add_for_both("plain_programs", python, plain_programs);
        trials.add_for_both("mapped_files", python, mapped_files);
        trials.add_for_both("linux_aio", None, linux_aio);
        trials.add_for_both("old_calls", None, old_calls);
        trials.add_for_both("every_mechanism_is_named", None, every_mechanism);
        trials.add_for_both("copies_of_what_is_still_there", python, kept_copies);
        trials.add_for_both("copies_of_what_is_gone", python, lost_copies);
        trials.add_for_both("copies_obey_data_rules", None, copies_obey_rules);
        trials.add_for_both("copies_in_parts_and_merged", python, copies_in_parts);
        trials.add_for_both("io_uring", None, io_uring);
        trials.add_for_both("io_uring_refused", None, no_rings);
        trials.add_for_both("io_uring_left_alone", None, rings_left_alone);
        for program in ["aio_operations", "ring_operations"] {
            let check = move |stage: &Stage, who| replayed_operations(stage, who, program);
            trials.add_for_both(&format!("replayed/{program}"), None, check);
        }
        trials.add_for_both("replayed/io_uring_left_alone", None, replayed_requests);
        trials.add_for_both("replayed/mapped_files", python, replayed_stores);
        trials.add_for_both("replayed/what_was_checked", None, replayed_hashes);
        Ok(())
    })
}

/// A recording of a command, with the output of `record` and `info`.
struct Recorded {
    trace: PathBuf,
    summary: String,
    text: String,
    json: Value,
}

impl Recorded {
    fn new(
        stage: &Stage,
        place: &Place,
        options: &[&str],
        words: &[&str],
    ) -> Result<Recorded, Complaint> {
        let trace = place.trace("not_seen.rnt");
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--force", "--output"]).arg(&trace).args(options).arg("--");
        let summary = place.run(record.args(words))?.success("record")?.errors();
        let info = |options: &[&str]| {
            let mut info: Command = place.command(&stage.reenact);
            info.arg("info").args(options).arg(&trace);
            Ok::<_, Complaint>(place.run(&mut info)?.success("info")?.text())
        };
        let (text, json) = (info(&["--verify"])?, info(&["--json"])?);
        let json = serde_json::from_str(&json).map_err(|error| error.to_string())?;
        Ok(Recorded { trace, summary, text, json })
    }

    /// Returns what moved unseen: kind and last component of the name.
    fn blind(&self) -> Vec<(String, String)> {
        let blind = self.json["blind"].as_array().map_or(&[][..], Vec::as_slice);
        let name = |entry: &Value| {
            let name = entry["file"].as_str().or(entry["descriptor"].as_str()).unwrap_or_default();
            name.rsplit('/').next().unwrap_or_default().to_string()
        };
        let kind = |entry: &Value| entry["kind"].as_str().unwrap_or_default().to_string();
        blind.iter().map(|entry| (kind(entry), name(entry))).collect()
    }

    /// Fails unless exactly this moved unseen, and is reported wherever it matters.
    fn is_told(&self, expected: &[(&str, &str)]) -> Result<(), Complaint> {
        let found = self.blind();
        let same =
            found.iter().map(|(kind, name)| (&kind[..], &name[..])).eq(expected.iter().copied());
        ensure!(same, "told: {found:?}, not {expected:?}; {}", self.json["blind"]);
        for entry in self.json["blind"].as_array().map_or(&[][..], Vec::as_slice) {
            let said = |key: &str| entry[key].as_str().is_some_and(|text| !text.is_empty());
            ensure!(said("why") && said("what_to_do"), "not explained: {entry}");
        }
        let plain = self.text.contains("complete     yes (");
        ensure!(plain == expected.is_empty(), "info says:\n{}", self.text);
        let sections = self.text.contains("\nnot seen: ");
        ensure!(sections != expected.is_empty(), "info says:\n{}", self.text);
        let dangers = expected.iter().any(|(kind, _)| *kind != "mapped-reads");
        let warned = self.summary.contains("data not seen: ");
        ensure!(warned == dangers, "record says:\n{}", self.summary);
        Ok(())
    }

    /// Returns the count of a harmless note.
    fn note(&self, kind: &str) -> u64 {
        let notes = self.json["notes"].as_array().map_or(&[][..], Vec::as_slice);
        let found = notes.iter().find(|note| note["kind"] == kind);
        found.and_then(|note| note["count"].as_u64()).unwrap_or(0)
    }
}

const PYTHON: &str = "/usr/bin/python3";

fn plain_programs(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("file", b"content\n")?;
    for words in [
        &["ls", "-l"][..],
        &["cat", "file"],
        &["sh", "-c", "cat file | sort > sorted; rm sorted"],
        &[PYTHON, "-S", "-c", "print(open('file').read())"],
    ] {
        let recorded = Recorded::new(stage, &place, &[], words)?;
        recorded.is_told(&[]).map_err(|complaint| format!("{words:?}: {complaint}"))?;
        ensure!(recorded.note("vdso") > 0, "{words:?}: no programs with a vDSO are counted");
        ensure!(recorded.note("program-files") > 0, "{words:?}: no libraries are counted");
    }
    Ok(())
}

fn mapped_files(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    for name in ["read", "stored", "later"] {
        place.write(name, &[b'x'; 8192])?;
    }
    let script = "\
import ctypes, mmap, os
mmap.mmap(os.open('read', os.O_RDONLY), 4096, prot=mmap.PROT_READ)
mmap.mmap(os.open('stored', os.O_RDWR), 8192)[:5] = b'other'
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
at = libc.mmap(None, 8192, 1, 1, os.open('later', os.O_RDWR), 0)
assert libc.mprotect(ctypes.c_void_p(at), 4096, 3) == 0
mmap.mmap(-1, 4096)
memory = os.memfd_create('x')
os.ftruncate(memory, 4096)
mmap.mmap(memory, 4096)
";
    let expected = [
        ("mapped-writes", "later"),
        ("mapped-writes", "stored"),
        ("mapped-reads", "later"),
        ("mapped-reads", "read"),
    ];
    let recorded = Recorded::new(stage, &place, &[], &[PYTHON, "-S", "-c", script])?;
    recorded.is_told(&expected[2..])?;
    let bare = ["--mmap", "none"];
    let recorded = Recorded::new(stage, &place, &bare, &[PYTHON, "-S", "-c", script])?;
    recorded.is_told(&expected)?;
    ensure!(recorded.note("shared-memory") >= 2, "no shared memory: {}", recorded.json["notes"]);
    let stored = &recorded.json["blind"][1];
    ensure!(stored["count"] == 1 && stored["bytes"] == 8192, "counted: {stored}");
    Ok(())
}

/// Records a test program.
fn of_program(stage: &Stage, place: &Place, name: &str) -> Result<Recorded, Complaint> {
    let binary = program::named(name)?.build(stage)?;
    Recorded::new(stage, place, &[], &[&binary.to_string_lossy(), "1"])
}

fn linux_aio(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    of_program(stage, &place, "async_io")?.is_told(&[])?;
    // One of them takes completions from memory.
    let all = of_program(stage, &place, "aio_operations")?;
    let others = all.blind().iter().any(|(kind, _)| kind != "late-completions");
    ensure!(!others, "{}", all.json["blind"]);
    Ok(())
}

/// What moves data past calls and is not wanted, or cannot be had, is named: mechanism by mechanism.
fn every_mechanism(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let bare = ["--mmap", "none", "--io-uring", "refuse"];
    let of = |name: &str| {
        place.clear()?;
        let binary = program::named(name)?.build(stage)?;
        Recorded::new(stage, &place, &bare, &[&binary.to_string_lossy(), "1"])
    };
    let count = |recorded: &Recorded, kind: &str| -> u64 {
        let all = recorded.json["blind"].as_array().map_or(&[][..], Vec::as_slice);
        let of_kind = all.iter().filter(|entry| entry["kind"] == kind);
        of_kind.map(|entry| entry["count"].as_u64().unwrap_or(0)).sum()
    };
    let names = |recorded: &Recorded, kind: &str, name: &str| {
        let told = recorded.blind().iter().any(|(found, at)| found == kind && at.contains(name));
        let in_text = recorded.text.contains("\nnot seen: ");
        ensure!(told && in_text, "no {kind} of {name}: {}", recorded.json["blind"]);
        Ok(())
    };
    // Memory in which files are mapped, by one process and by others in its place.
    let stores = of("stores_to_mappings")?;
    for file in ["durable", "threads", "forked", "moved", "twice", "later", "vforked", "end"] {
        names(&stores, "mapped-writes", file)?;
    }
    let loads = of("loads_of_mappings")?;
    ensure!(count(&loads, "mapped-reads") > 0, "{}", loads.json["blind"]);
    let doors = of("side_doors")?;
    names(&doors, "mapped-writes", "mapped")?;
    // Memory that was lent, but not what was taken out of a pipe.
    names(&doors, "lent-memory", "pipe:[1]")?;
    ensure!((1..=2).contains(&count(&doors, "lent-memory")), "{}", doors.json["blind"]);
    // Rings are refused, and the program makes calls, which are there.
    for program in ["io_uring", "ring_operations"] {
        let rings = of(program)?;
        rings.is_told(&[])?;
        ensure!(rings.note("refused-rings") > 0, "{}", rings.json["notes"]);
        ensure!(rings.text.contains("--io-uring refuse"), "{}", rings.text);
    }
    // Completions that were taken from memory, of operations that read.
    let aio = of("aio_operations")?;
    let mut show = place.command(&stage.reenact);
    show.args(["show", "--json", "--call", "aio:PREAD,aio:PREADV"]).arg(&aio.trace);
    let shown = place.run(&mut show)?.success("show")?.text();
    let late = shown.lines().filter(|line| line.contains("\"late\":1")).count() as u64;
    ensure!(count(&aio, "late-completions") == late, "{late} late: {}", aio.json["blind"]);
    let others = aio.blind().iter().any(|(kind, _)| kind != "late-completions");
    ensure!(!others, "{}", aio.json["blind"]);
    Ok(())
}

/// Operations are replayed as the calls that do the same, and verified.
fn replayed_operations(stage: &Stage, who: Who, program: &str) -> Result<(), Complaint> {
    if program == "ring_operations" && !has_rings() {
        return Ok(());
    }
    let place = Place::new(stage, who)?;
    let recorded = of_program(stage, &place, program)?;
    let (note, text, json) = replayed(stage, &place, &recorded.trace)?;
    let is_late = recorded.blind().iter().any(|(kind, _)| kind == "late-completions");
    ensure!(note.is_empty() || is_late, "a note about nothing:\n{note}");
    let names = ["aio:PREADV", "aio:PWRITEV", "io_uring:READV", "io_uring:RENAMEAT"];
    let replayed =
        |name: &&&str| json["latencies_ns"][**name]["replayed"]["count"].as_u64() > Some(0);
    ensure!(names.iter().filter(replayed).count() == 2, "{json}");
    ensure!(!text.contains("left out"), "{text}");
    ensure!(json["unseen"] == 0, "{json}");
    ensure!(json["verified"].as_u64() > Some(400), "{json}");
    ensure!(json["final_state"]["verdict"] == "identical", "{json}");
    Ok(())
}

/// Returns whether this user may create rings; otherwise the test program does without.
fn has_rings() -> bool {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    disabled.is_ok_and(|disabled| disabled.trim() == "0")
}

fn io_uring(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let recorded = of_program(stage, &place, "io_uring")?;
    if !has_rings() {
        return Ok(());
    }
    recorded.is_told(&[])?;
    ensure!(recorded.note("device-memory") == 3, "mapped rings: {}", recorded.json["notes"]);
    let captured = ["ring_operations", "ring_kinds", "ring_choices", "ring_forked", "ring_lent"];
    for program in captured {
        of_program(stage, &place, program)?.is_told(&[])?;
    }
    // A ring that another process has made: neither side knows all of what is submitted there.
    let told = [("io_uring", "ring_taken"), ("unsubmitted-operations", "ring_taken")];
    let taken = of_program(stage, &place, "ring_taken")?;
    taken.is_told(&told)?;
    ensure!(taken.text.contains("io_uring of another process in "), "{}", taken.text);
    let passed = of_program(stage, &place, "ring_passed")?;
    let others = passed.blind().iter().any(|(_, name)| name != "ring_passed");
    ensure!(!others, "{}", passed.json["blind"]);
    ensure!(passed.text.contains("io_uring of another process in "), "{}", passed.text);
    // Rings of which a filter would not allow to be followed.
    let filtered = of_program(stage, &place, "ring_filtered")?;
    filtered.is_told(&[("io_uring", "ring_filtered")])?;
    let told = &filtered.json["blind"][0];
    ensure!(told["count"] == 20 && filtered.text.contains("a seccomp filter"), "{told}");
    // What a command moves nobody knows.
    let recorded = of_program(stage, &place, "ring_requests")?;
    let others = recorded.blind().iter().any(|(kind, _)| kind != "io_uring-entries");
    ensure!(!others, "{}", recorded.json["blind"]);
    Ok(())
}

/// Rings that are left alone are named, with what was submitted to them.
fn rings_left_alone(stage: &Stage, who: Who) -> Result<(), Complaint> {
    if !has_rings() {
        return Ok(());
    }
    let place = Place::new(stage, who)?;
    let recorded = passed(stage, &place)?;
    recorded.is_told(&[("io_uring", "io_uring")])?;
    let told = &recorded.json["blind"][0];
    ensure!(told["count"] == 2 && told["bytes"].is_null(), "counted: {told}");
    Ok(())
}

fn passed(stage: &Stage, place: &Place) -> Result<Recorded, Complaint> {
    let binary = program::named("io_uring")?.build(stage)?;
    let words = [&*binary.to_string_lossy(), "1"];
    Recorded::new(stage, place, &["--io-uring", "pass"], &words)
}

/// Programs that get no rings do the same by calls.
fn no_rings(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let binary = program::named("io_uring")?.build(stage)?;
    let words = [&*binary.to_string_lossy(), "1"];
    let recorded = Recorded::new(stage, &place, &["--io-uring", "refuse"], &words)?;
    recorded.is_told(&[])?;
    ensure!(recorded.text.contains("--io-uring refuse"), "{}", recorded.text);
    let counts = |call: &str, key: &str| recorded.json["calls"][call][key].as_u64();
    ensure!(recorded.text.contains("io_uring_setup"), "{}", recorded.text);
    ensure!(counts("io_uring_enter", "count").is_none(), "{}", recorded.text);
    Ok(())
}

/// Replays a trace. Returns the note before it, and the result as text and as JSON.
fn replayed(
    stage: &Stage,
    place: &Place,
    trace: &std::path::Path,
) -> Result<(String, String, Value), Complaint> {
    place.clear()?;
    let mut replay = place.command(&stage.reenact);
    let outcome = place.run(replay.arg("replay").arg(trace))?.success("replay")?;
    let (note, text) = (outcome.errors(), outcome.text());
    let mut replay = place.command(&stage.reenact);
    let json = place.run(replay.arg("replay").arg("--json").arg(trace))?.success("replay")?.text();
    let json: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    Ok((note, text, json))
}

/// Effects of requests that are not in the trace are unverifiable, not mismatches.
fn replayed_requests(stage: &Stage, who: Who) -> Result<(), Complaint> {
    if !has_rings() {
        return Ok(());
    }
    let place = Place::new(stage, who)?;
    let recorded = passed(stage, &place)?;
    let (note, text, json) = replayed(stage, &place, &recorded.trace)?;
    ensure!(note.contains("the trace does not hold all data that moved"), "no note:\n{note}");
    ensure!(text.contains("not in the trace: "), "not in the result:\n{text}");
    ensure!(text.contains("final state: identical as far as checked: "), "it says:\n{text}");
    ensure!(json["unseen"].as_u64() > Some(0), "nothing differs: {json}");
    ensure!(json["blind"] == recorded.json["blind"], "told otherwise: {}", json["blind"]);
    ensure!(json["final_state"]["verdict"] == "identical as far as checked", "{json}");
    Ok(())
}

/// Stores to a file through a mapping that only later becomes writable.
fn replayed_stores(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("later", &[b'x'; 8192])?;
    let script = "\
import ctypes, os
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
fd = os.open('later', os.O_RDWR)
assert os.read(fd, 100) == b'x' * 100
at = libc.mmap(None, 8192, 1, 1, fd, 0)
assert libc.mprotect(ctypes.c_void_p(at), 4096, 3) == 0
ctypes.memset(ctypes.c_void_p(at), ord('y'), 50)
assert os.pread(fd, 60, 0) == b'y' * 50 + b'x' * 10
";
    let recorded =
        Recorded::new(stage, &place, &["--mmap", "none"], &[PYTHON, "-S", "-c", script])?;
    let (note, _, json) = replayed(stage, &place, &recorded.trace)?;
    ensure!(note.contains("stores to mapped files (1 file)"), "no note:\n{note}");
    ensure!(json["unverified"].as_u64() > Some(0), "nothing is told: {json}");
    ensure!(json["final_state"]["verdict"] == "identical as far as checked", "{json}");
    Ok(())
}

/// The verdict names what could not be checked before it says that the rest is identical.
fn replayed_hashes(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("source", &[b'x'; 8192])?;
    std::thread::sleep(std::time::Duration::from_millis(50));
    let words = ["sh", "-c", "cp source target; echo more > other"];
    let (_, text, _) =
        replayed(stage, &place, &Recorded::new(stage, &place, &["--data", "none"], &words)?.trace)?;
    let verdict = text.lines().find(|line| line.starts_with("final state: "));
    let verdict = verdict.unwrap_or_default();
    ensure!(verdict.starts_with("final state: identical as far as checked: "), "{text}");
    ensure!(verdict.contains(" paths; ") && verdict.contains(" not verifiable: "), "{text}");
    place.write("source", &[b'x'; 8192])?;
    std::thread::sleep(std::time::Duration::from_millis(50));
    let recorded = Recorded::new(stage, &place, &[], &words)?;
    let (note, text, json) = replayed(stage, &place, &recorded.trace)?;
    ensure!(note.is_empty(), "a note about nothing:\n{note}");
    ensure!(text.contains("final state: identical, "), "{text}");
    let parts = ["image_s", "calls_s", "comparison_s", "rest_s"].map(|part| json[part].as_f64());
    let whole = json["elapsed_s"].as_f64();
    let sum: f64 = parts.iter().flatten().sum();
    let adds_up = whole.is_some_and(|whole| (whole - sum).abs() < 1e-3);
    ensure!(parts.iter().all(Option::is_some) && adds_up, "{parts:?} of {whole:?}");
    Ok(())
}

fn old_calls(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let recorded = of_program(stage, &place, "int80")?;
    ensure!(recorded.blind().iter().any(|(kind, _)| kind == "int80-calls"), "{}", recorded.json);
    Ok(())
}

/// Copies by every call that copies.
const COPIES: &str = "\
import os, sys
source = os.open('source', os.O_RDONLY)
target = os.open('target', os.O_RDWR | os.O_CREAT, 0o600)
assert os.copy_file_range(source, target, 1000, 0, 0) == 1000
assert os.sendfile(target, source, 1000, 500) == 500
out, into = os.pipe()
assert os.splice(source, into, 300, 4000) == 300
assert os.splice(out, target, 300) == 300
if len(sys.argv) > 1:
    for name in sys.argv[1:]: os.unlink(name)
";

fn kept_copies(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("source", &[b'x'; 8192])?;
    std::thread::sleep(std::time::Duration::from_millis(50));
    let recorded = Recorded::new(stage, &place, &[], &[PYTHON, "-S", "-c", COPIES])?;
    recorded.is_told(&[])?;
    ensure!(recorded.note("kept-copies") == 4, "kept: {}", recorded.json["notes"]);
    // If the source is gone, the target has the data.
    let words = [PYTHON, "-S", "-c", COPIES, "source"];
    Recorded::new(stage, &place, &[], &words)?.is_told(&[])
}

/// Kernel copies are in a part that has the calls, and in merged traces.
fn copies_in_parts(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("source", &[b'x'; 8192])?;
    std::thread::sleep(std::time::Duration::from_millis(50));
    let mut traces = Vec::new();
    for name in ["first.rnt", "second.rnt"] {
        let recorded = Recorded::new(stage, &place, &[], &[PYTHON, "-S", "-c", COPIES])?;
        let trace = place.trace(name);
        std::fs::rename(&recorded.trace, &trace).map_err(|error| error.to_string())?;
        traces.push(trace);
    }
    let made = |words: &[&str], inputs: &[PathBuf]| {
        let out = place.trace(words[0]);
        let mut command: Command = place.command(&stage.reenact);
        command.args(words).args(["--force", "--output"]).arg(&out).args(inputs);
        let said = place.run(&mut command)?.success(words[0])?.errors();
        Ok::<_, Complaint>((out, said))
    };
    let info = |trace: &Path| {
        let mut info: Command = place.command(&stage.reenact);
        place.run(info.args(["info", "--verify"]).arg(trace))?.success("it is sound")?;
        let mut info: Command = place.command(&stage.reenact);
        let text = place.run(info.args(["info", "--json"]).arg(trace))?.success("info")?.text();
        let json = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let summary = String::new();
        Ok::<_, Complaint>(Recorded { trace: trace.into(), summary, text, json })
    };
    let (part, _) = made(&["cut", "--until", "1h"], &traces[..1])?;
    let of_part = info(&part)?;
    ensure!(of_part.blind().is_empty(), "the part does not hold {:?}", of_part.blind());
    ensure!(of_part.note("kept-copies") == 4, "kept: {}", of_part.json["notes"]);
    place.clear()?;
    let (_, text, _) = replayed(stage, &place, &part)?;
    ensure!(text.contains(" 0 not verifiable, 0 mismatched"), "replayed:\n{text}");
    let (_, said) = made(&["export", "--to", "dataseries"], &traces[..1])?;
    ensure!(said.contains("files from which the kernel copied"), "export says:\n{said}");
    let (opens, _) = made(&["cut", "--call", "openat"], &traces[..1])?;
    let (_, said) = made(&["export", "--to", "dataseries"], &[opens])?;
    ensure!(
        !said.contains("files from which the kernel copied"),
        "nothing is copied there:\n{said}"
    );
    let (merged, _) = made(&["merge"], &traces)?;
    let of_both = info(&merged)?;
    ensure!(of_both.blind().is_empty(), "merged, it does not hold {:?}", of_both.blind());
    ensure!(of_both.note("kept-copies") == 8, "kept: {}", of_both.json["notes"]);
    Ok(())
}

fn lost_copies(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("source", &[b'x'; 8192])?;
    let words = [PYTHON, "-S", "-c", COPIES, "source", "target"];
    let recorded = Recorded::new(stage, &place, &[], &words)?;
    recorded.is_told(&[("kernel-copies", "source")])?;
    let told = &recorded.json["blind"][0];
    ensure!(told["count"] == 3 && told["bytes"] == 1800, "counted: {told}");
    ensure!(told["why"].as_str().is_some_and(|why| why.contains("gone")), "why: {told}");
    Ok(())
}

/// A recording without contents has no copied data, one with hashes only their hashes.
fn copies_obey_rules(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let secret = b"a line that no compression can make away with: 0123456789\n";
    for (options, is_there) in [
        (&["--compress", "none"][..], true),
        (&["--compress", "none", "--data", "hash"], false),
        (&["--compress", "none", "--data", "none"], false),
        (&["--compress", "none", "--data-for", "*/source=none"], false),
    ] {
        place.clear()?;
        place.write("source", &secret.repeat(100))?;
        std::thread::sleep(std::time::Duration::from_millis(50));
        let recorded = Recorded::new(stage, &place, options, &["cp", "source", "target"])?;
        recorded.is_told(&[]).map_err(|complaint| format!("{options:?}: {complaint}"))?;
        let bytes = std::fs::read(&recorded.trace).map_err(|error| error.to_string())?;
        let found = bytes.windows(secret.len()).any(|window| window == secret);
        ensure!(found == is_there, "{options:?}: the content is there: {found}");
    }
    Ok(())
}
