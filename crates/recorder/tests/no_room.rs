//! Traces on a full file system, and in a file of limited size.
//!
//! Both need limits of a whole process, so the tests run this binary again under such limits.

mod fake_agent;

use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fake_agent::recording::{TraceFile, launch, start};
use fake_agent::{Buffer, FakeThread, Random, arena};
use recorder::{Options, Summary};
use syscalls::record::{GapWhy, part};
use trace::Trace;
use trace::event::{EventKind, RECORDER};

/// Variable with the directory for the traces of the inner tests.
const DIRECTORY: &str = "RECORDER_TEST_DIRECTORY";

/// Runs one of the inner tests below in a shell that sets its limits.
fn run_inner(shell: &[&str], script: &str, test: &str) {
    let directory = std::env::temp_dir().join(format!("{test}-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let output = Command::new(shell[0])
        .args(&shell[1..])
        .arg(format!("{script} && exec \"$0\" --exact {test} --ignored --nocapture"))
        .arg(std::env::current_exe().unwrap())
        .env(DIRECTORY, &directory)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

fn inner_file() -> TraceFile {
    let directory = std::env::var_os(DIRECTORY).expect("this test is run by another");
    TraceFile(std::path::PathBuf::from(directory).join("trace"))
}

/// Records data that never repeats until the recorder stops; the program continues.
fn record_until_full(file: &TraceFile) -> Summary {
    let arena = arena(32);
    let recorder = start(arena, file.sink(), Options::default());
    let mut main = launch(arena);
    let mut random = Random(3);
    let mut call = |main: &mut FakeThread| {
        main.enter(0, 18, 1, &[3, 4, 4096, 0]);
        let stored = &random.bytes(4096)[..];
        let (arg, part, index, flags, hash) = (1, part::WHOLE, 0, 0, 0);
        main.data(&Buffer { arg, part, index, flags, true_len: 4096, hash, stored });
        main.exit(4096);
    };
    call(&mut main);
    std::thread::sleep(Duration::from_millis(1300));
    while arena.control().stopped.load(Ordering::Relaxed) == 0 {
        call(&mut main);
    }
    for _ in 0..10_000 {
        call(&mut main);
    }
    recorder.join().unwrap()
}

fn is_call(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Call(_))
}

#[test]
fn a_full_file_system_leaves_a_whole_trace() {
    let shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"];
    let may = Command::new(shell[0]).args(&shell[1..]).arg("true").status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no user namespaces here, so no file system of 8 MiB either");
        return;
    }
    let script = format!("mount -t tmpfs -o size=8m none \"${DIRECTORY}\"");
    run_inner(&shell, &script, "full_file_system");
}

#[test]
#[ignore = "run by a_full_file_system_leaves_a_whole_trace"]
fn full_file_system() {
    let file = inner_file();
    let summary = record_until_full(&file);
    let (why, text) = summary.stopped.unwrap();
    assert_eq!((why, summary.unfinished, summary.lost), (GapWhy::WriteFailed, None, 0));
    assert!(text.contains("bytes are left"), "{text}");
    assert!(summary.trace_bytes > 4 << 20, "{}", summary.trace_bytes);
    let events = file.events();
    let calls = events.values().flatten().filter(|event| is_call(&event.kind)).count();
    assert_eq!(calls as u64, summary.calls);
    let last = &events[&RECORDER].last().unwrap().kind;
    assert!(matches!(last, EventKind::Gap { why: GapWhy::WriteFailed, .. }), "{last:?}");
}

#[test]
fn a_file_that_may_not_grow_tells_so_at_its_end() {
    run_inner(&["sh", "-c"], "ulimit -f 5000", "limited_file");
}

#[test]
#[ignore = "run by a_file_that_may_not_grow_tells_so_at_its_end"]
fn limited_file() {
    let file = inner_file();
    let summary = record_until_full(&file);
    let (why, text) = summary.stopped.unwrap();
    assert_eq!((why, summary.unfinished, summary.lost), (GapWhy::SizeLimit, None, 0));
    assert!(text.contains("ulimit -f"), "{text}");
    assert!(summary.discarded > 0);
    assert!(std::fs::metadata(&file.0).unwrap().len() <= 5000 * 512);
    let trace = Trace::open(&file.0).unwrap();
    assert_eq!(trace.totals().unwrap().calls_written, summary.calls);
    let events = file.events();
    let calls = events.values().flatten().filter(|event| is_call(&event.kind)).count();
    assert_eq!(calls as u64, summary.calls);
    let last = &events[&RECORDER].last().unwrap().kind;
    assert!(matches!(last, EventKind::Gap { why: GapWhy::SizeLimit, .. }), "{last:?}");
}
