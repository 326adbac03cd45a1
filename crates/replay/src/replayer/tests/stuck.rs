//! Replays that cannot come to their end, and what is told of calls.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::*;
use crate::log::{Came, Level, Line, Wanted};
use crate::outcome::{Stopped, Waiting, Waits};

/// Nothing moves for ten seconds; far less than a call may take that works.
const PATIENCE: Duration = Duration::from_secs(60);

/// The first thread's number 3 is a pipe, though the recording says that it is a file now.
fn reads_an_empty_pipe_for_a_file(dir: &Path) -> Recording {
    let mut r = threads_with_a_pipe();
    let missing = dir.join("missing");
    let regular = stat(1, 7, 0o100_644);
    r.by(1).open(missing.to_str().expect("text"), 0, 3).told(regular);
    r.call("read", &[3, 1, 8], &[(1, b"hello")], 5);
    r.by(2).numbers("dup", &[4], 5);
    r
}

#[test]
fn who_reads_what_never_comes_is_told_soon_and_what_was_done_until_then_counts() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let r = reads_an_empty_pipe_for_a_file(dir.path());
    let proc = OwnedFd::from(File::open("/proc").expect("it is mounted"));
    let begun = Instant::now();
    let untold = HashSet::new();
    let outcome = crate::replayer::replay(
        &r.trace(),
        Options::default(),
        space(),
        untold,
        &|_| {},
        Some(proc),
        None,
    );
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    let Some(Stopped::Stuck(who)) = outcome.stopped else { panic!("{:?}", outcome.stopped) };
    let reader = Waiting { thread: 1, seq: 3, waits: Waits::Return };
    let other = Waiting { thread: 2, seq: 4, waits: Waits::Thread(1) };
    assert_eq!(who, [reader, other]);
    // The pipe, the file that is not there, and the read that did not return.
    assert_eq!((outcome.replayed, outcome.verified, outcome.mismatches.returned), (3, 1, 1));
}

#[test]
fn calls_are_told_with_what_came_of_them() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let missing = dir.path().join("missing");
    let missing = missing.to_str().expect("text");
    let mut r = threads_with_a_pipe();
    r.by(1).open(missing, 0, 5);
    r.open(missing, 0, ENOENT);
    r.numbers("getpid", &[], 10);
    r.numbers("io_uring_enter", &[9, 1, 0, 0], 1);
    let told = |level| {
        let mut lines: Vec<(u64, Came, String, String)> = Vec::new();
        let mut write = |line: &Line| {
            let Line { about, came, expected, found, .. } = line;
            lines.push((about.seq, *came, expected.clone(), found.clone()));
            Ok(())
        };
        let describe =
            |moment: &model::Moment<'_>, _: &mut dyn model::Contents| format!("{:?}", moment.seq);
        let wanted = Wanted { level, describe: &describe, write: &mut write };
        let untold = HashSet::new();
        let options = Options::default();
        crate::replayer::replay(&r.trace(), options, space(), untold, &|_| {}, None, Some(wanted));
        lines.sort_by_key(|(seq, ..)| *seq);
        lines
    };
    let line = |seq, came, expected: &str, found: &str| (seq, came, expected.into(), found.into());
    let otherwise = line(2, Came::Mismatch, "5", "ENOENT");
    assert_eq!(told(Level::Mismatch), std::slice::from_ref(&otherwise));
    let all = [
        line(0, Came::Verified, "0", ""),
        // It makes the second thread.
        line(1, Came::Simulated, "102", ""),
        otherwise,
        line(3, Came::Verified, "ENOENT", ""),
        line(4, Came::Simulated, "10", ""),
        line(5, Came::Skipped, "1", ""),
    ];
    assert_eq!(told(Level::Raced), all[2..3]);
    let not_made = [1, 2, 4, 5].map(|at: usize| all[at].clone());
    assert_eq!(told(Level::Simulated), not_made);
    assert_eq!(told(Level::All), all);
}
