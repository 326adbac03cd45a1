//! Replays that get stuck, and the log of calls.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use super::*;
use crate::gate::{self, Gate};
use crate::log::{Came, Level, Line, Wanted};
use crate::outcome::{Stopped, Waiting, Waits};

/// More than the ten seconds without progress, far less than a working call may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The first thread's number 3 is a pipe, although the recording says that it is now a file.
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
    alone(
        "who_reads_what_never_comes_is_told_soon_and_what_was_done_until_then_counts",
        who_reads_what_never_comes_is_told,
    );
}

#[test]
fn a_leader_does_not_wait_for_what_never_comes() {
    alone("a_leader_does_not_wait_for_what_never_comes", who_leads_is_told);
}

/// The stuck task never ends, as no jail ends with this replay: so the test of that name runs in a
/// separate process, whose group is killed.
fn alone(name: &str, run: fn()) {
    const INNER: &str = "REENACT_TEST_STUCK";
    if std::env::var_os(INNER).is_some() {
        return run();
    }
    let mut test = Command::new(std::env::current_exe().expect("this program"));
    let name = format!("replayer::tests::stuck::{name}");
    test.args(["--exact", &name, "--nocapture"]).env(INNER, "1").process_group(0);
    let mut test = test.spawn().expect("this program runs again");
    let status = test.wait().expect("it is a child");
    // SAFETY: the argument is the child's own process group.
    unsafe { libc::kill(-(test.id() as i32), libc::SIGKILL) };
    assert!(status.success(), "{status}");
}

fn who_reads_what_never_comes_is_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let r = reads_an_empty_pipe_for_a_file(dir.path());
    let processes = OwnedFd::from(File::open("/proc").expect("it is mounted"));
    let proc = crate::jail::Proc { processes, desk: None };
    let begun = Instant::now();
    let made_up = MadeUp::default();
    let outcome = crate::replayer::replay(
        &r.trace(),
        Options::default(),
        space(),
        made_up,
        &|_| {},
        Some(proc),
        None,
    );
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    let Some(Stopped::Stuck(who)) = outcome.stopped else { panic!("{:?}", outcome.stopped) };
    let reader = Waiting { thread: 1, seq: 3, waits: Waits::Return };
    let other = Waiting { thread: 2, seq: 4, waits: Waits::Thread(1) };
    assert_eq!(who, [reader, other]);
    // The pipe, the missing file, and the read that did not return.
    assert_eq!((outcome.replayed, outcome.verified, outcome.mismatches.returned), (3, 1, 1));
}

/// The second thread waits for a leader, who waits for the first one.
fn who_leads_is_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let r = reads_an_empty_pipe_for_a_file(dir.path());
    let processes = OwnedFd::from(File::open("/proc").expect("it is mounted"));
    let gate = Arc::new(Gate::new(5).expect("some memory"));
    let leads = Arc::clone(&gate);
    let leader = std::thread::spawn(move || {
        leads.open(3);
        let begun = Instant::now();
        loop {
            let came = leads.came(3, Duration::from_millis(200));
            if came != gate::Came::Pending || begun.elapsed() > PATIENCE {
                leads.abandon();
                return came;
            }
        }
    });
    let proc = crate::jail::Proc { processes, desk: None };
    let stuck_after = Duration::from_secs(1);
    let options = Options { gate: Some(gate), stuck_after, ..Options::default() };
    let made_up = MadeUp::default();
    let outcome =
        crate::replayer::replay(&r.trace(), options, space(), made_up, &|_| {}, Some(proc), None);
    assert_eq!(leader.join().expect("it ends"), gate::Came::Stopped);
    assert!(matches!(outcome.stopped, Some(Stopped::Stuck(_))), "{:?}", outcome.stopped);
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
        let made_up = MadeUp::default();
        let options = Options::default();
        crate::replayer::replay(&r.trace(), options, space(), made_up, &|_| {}, None, Some(wanted));
        lines.sort_by_key(|(seq, ..)| *seq);
        lines
    };
    let line = |seq, came, expected: &str, found: &str| (seq, came, expected.into(), found.into());
    let otherwise = line(2, Came::Mismatch, "5", "ENOENT");
    assert_eq!(told(Level::Mismatch), std::slice::from_ref(&otherwise));
    let all = [
        line(0, Came::Verified, "0", ""),
        // It creates the second thread.
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

/// Adds more calls than the planner queues: what it does only at the end comes too late.
fn goes_on(r: &mut Recording) {
    const TIMES: usize = 2000;
    (0..TIMES).for_each(|_| r.numbers("dup2", &[3, 4], 4));
}

/// Length of each call's log text, which is queued as well.
const TEXT_BYTES: usize = 64 << 10;

const THREAD: u64 =
    (libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_THREAD) as u64;

/// Process 3 inherits the pipe, and creates a task of which nothing else is recorded.
fn makes_a_task_that_never_shows_up(flags: u64) -> Recording {
    let mut r = threads_with_a_pipe();
    r.by(1).fork(3);
    r.numbers("close", &[4], 0);
    r.by(3).numbers("clone", &[flags], 999);
    r
}

#[test]
fn a_thread_that_was_killed_before_it_did_anything_ends_with_its_process() {
    for exits in [true, false] {
        let mut r = makes_a_task_that_never_shows_up(THREAD);
        if exits {
            r.by(3).numbers("exit_group", &[0], 0);
            r.end();
        } else {
            // The exec closes the pipe.
            r.by(3).another_program();
        }
        r.by(1).call("read", &[3, 1, 8], &[], 0);
        goes_on(&mut r);
        agrees_at_once(&r);
    }
}

#[test]
fn a_child_that_was_killed_before_it_did_anything_is_gone_when_it_was_waited_for() {
    let waits: [fn(&mut Recording); 2] = [
        |r| {
            r.call("wait4", &[u64::MAX, 1, 2, 0], &[(1, &9_i32.to_le_bytes())], 999);
        },
        |r| {
            let mut info = [0; 128];
            info[8..12].copy_from_slice(&libc::CLD_KILLED.to_le_bytes());
            info[16..20].copy_from_slice(&999_i32.to_le_bytes());
            r.call("waitid", &[0, 0, 1, libc::WEXITED as u64, 0], &[(2, &info)], 0);
        },
    ];
    for wait in waits {
        let mut r = makes_a_task_that_never_shows_up(libc::SIGCHLD as u64);
        wait(r.by(3));
        r.numbers("close", &[4], 0);
        r.by(1).call("read", &[3, 1, 8], &[], 0);
        goes_on(&mut r);
        agrees_at_once(&r);
    }
}

/// The wait begins before the child does; the child opens a file in the shared table.
#[test]
fn a_child_that_lives_while_it_is_waited_for_is_no_dead_one() {
    const SHARES: u64 = (libc::CLONE_FILES | libc::SIGCHLD) as u64;
    let mut r = threads_with_a_pipe();
    r.by(1).numbers("clone", &[SHARES], 103);
    r.lasting(10 * MS, 12 * MS);
    r.call("wait4", &[103, 1, 0, 0], &[(1, &0_i32.to_le_bytes())], 103);
    r.lasting(13 * MS, 60 * MS);
    r.child(3, 20 * MS);
    r.by(3).numbers("dup", &[3], 5);
    r.lasting(30 * MS, 31 * MS);
    r.numbers("exit_group", &[0], 0);
    r.lasting(40 * MS, 41 * MS);
    r.by(1).numbers("close", &[5], 0);
    r.lasting(70 * MS, 71 * MS);
    r.in_order();
    agrees(&r);
}

#[test]
fn a_thread_that_did_not_say_that_it_ended_ends_with_its_process() {
    let mut r = makes_a_task_that_never_shows_up(THREAD);
    r.by(1).ends(3);
    r.by(1).call("read", &[3, 1, 8], &[], 0);
    goes_on(&mut r);
    agrees_at_once(&r);
}

/// Replays as fast as possible.
fn agrees_at_once(r: &Recording) {
    let describe = |_: &model::Moment<'_>, _: &mut dyn model::Contents| "x".repeat(TEXT_BYTES);
    let wanted = Wanted { level: Level::Mismatch, describe: &describe, write: &mut |_| Ok(()) };
    let (trace, options, made_up) = (r.trace(), Options::default(), MadeUp::default());
    let wanted = Some(wanted);
    let outcome = crate::replayer::replay(&trace, options, space(), made_up, &|_| {}, None, wanted);
    assert!(outcome.stopped.is_none(), "{:?}", outcome.stopped);
    assert_eq!(outcome.mismatches.count(), 0, "{:?}", outcome.mismatches);
}
