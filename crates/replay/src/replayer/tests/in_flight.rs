//! Operations that were in flight together, and beside calls.

use std::fs;

use super::*;
use crate::plan::SIDE_LANES_MAX;

const OPERATIONS: [&str; 2] = ["aio", "io_uring"];
/// The flag of an entry that the next one waits for.
const LINK: u8 = 1 << 2;

/// A process with two threads, a pipe (3, 4), and a file with these bytes, opened twice: 5 and 6.
fn with_a_file(bytes: &[u8]) -> (Recording, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("file");
    fs::write(&path, bytes).expect("it can be made");
    let mut r = threads_with_a_pipe();
    for fd in [5, 6] {
        let told = stat(1, 1, 0o100_644).size(bytes.len() as u64).links(1);
        r.by(1).open(path.to_str().expect("text"), O_RDWR, fd).told(told);
    }
    (r, dir)
}

/// A call that submits so many operations, at this time.
fn submit(r: &mut Recording, name: &str, count: u64, at: u64) {
    let call = if name == "aio" { "io_submit" } else { "io_uring_enter" };
    r.numbers(call, &[7, count], count as i64);
    r.lasting(at * MS, (at + 2) * MS);
    r.submits(count);
}

/// An operation on the file with these bytes at this place, submitted and found completed then.
fn moves(r: &mut Recording, name: &str, bytes: &[u8], at: u64, when: (u64, u64)) {
    moves_by(r, 5, name, bytes, at, when);
}

/// Likewise by this descriptor.
fn moves_by(
    r: &mut Recording,
    fd: u64,
    name: &str,
    bytes: &[u8],
    at: u64,
    (submitted, found): (u64, u64),
) {
    let len = bytes.len();
    r.call(name, &[fd, 1, len as u64, at], &[(1, bytes)], len as i64);
    r.in_flight(submitted * MS, found * MS);
}

fn read(way: &str) -> &'static str {
    if way == "aio" { "aio:PREAD" } else { "io_uring:READ" }
}

fn write(way: &str) -> &'static str {
    if way == "aio" { "aio:PWRITE" } else { "io_uring:WRITE" }
}

/// Everything agrees and is verified, unless operations are replayed where they were found.
fn needs_to_be_in_flight(r: &mut Recording, dir: &tempfile::TempDir) {
    r.in_order();
    let before = fs::read(dir.path().join("file")).expect("it is there");
    let outcome = replayed(r);
    assert!(outcome.stopped.is_none(), "{:?}", outcome.stopped);
    let wrong = outcome.mismatches.returned + outcome.mismatches.data;
    assert_eq!((wrong, outcome.unverified), (0, 0), "{:?}", outcome.mismatches);
    fs::write(dir.path().join("file"), before).expect("it can be written");
    let serial = Options { speed: Some(1.0), in_flight: false, ..Options::default() };
    let outcome = replayed_with(r, serial);
    assert!(outcome.mismatches.returned + outcome.mismatches.data > 0, "so it proves nothing");
}

#[test]
fn who_was_submitted_before_a_call_may_be_first() {
    for way in OPERATIONS {
        let (mut r, dir) = with_a_file(b"old bytes");
        submit(&mut r, way, 1, 10);
        moves(&mut r, read(way), b"old", 0, (11, 60));
        r.call("pwrite64", &[6, 1, 3, 0], &[(1, b"new")], 3);
        r.lasting(30 * MS, 40 * MS);
        needs_to_be_in_flight(&mut r, &dir);
    }
}

#[test]
fn who_was_found_first_may_have_been_last() {
    for way in OPERATIONS {
        let (mut r, dir) = with_a_file(b"old bytes");
        submit(&mut r, way, 2, 10);
        moves(&mut r, read(way), b"new", 0, (11, 50));
        moves(&mut r, write(way), b"new", 0, (12, 60));
        needs_to_be_in_flight(&mut r, &dir);
    }
}

/// Only the first use of a file tells what it is.
#[test]
fn what_was_opened_once_more_is_known() {
    for way in OPERATIONS {
        let (mut r, dir) = with_a_file(b"old bytes");
        let path = dir.path().join("file");
        r.by(1).open(path.to_str().expect("text"), O_RDWR, 7);
        submit(&mut r, way, 1, 10);
        moves_by(&mut r, 7, read(way), b"old", 0, (11, 60));
        r.call("pwrite64", &[6, 1, 3, 0], &[(1, b"new")], 3);
        r.lasting(30 * MS, 40 * MS);
        needs_to_be_in_flight(&mut r, &dir);
    }
}

/// There are no more lanes: where it was found it proves nothing.
#[test]
fn what_is_planned_where_it_was_found_proves_nothing() {
    for (moved, bytes, beside, seen) in
        [("aio:PREAD", b"old", "pwrite64", b"abc"), ("aio:PWRITE", b"new", "pread64", b"new")]
    {
        let (mut r, _dir) = with_a_file(b"old bytes");
        let many = SIDE_LANES_MAX as u64;
        submit(&mut r, "aio", many + 1, 10);
        for _ in 0..many {
            moves(&mut r, "aio:PREAD", b"bytes", 4, (11, 60));
        }
        moves(&mut r, moved, bytes, 0, (12, 61));
        r.call(beside, &[6, 1, 3, 0], &[(1, seen)], 3);
        r.lasting(30 * MS, 40 * MS);
        r.in_order();
        let outcome = replayed(&r);
        let wrong = outcome.mismatches.returned + outcome.mismatches.data;
        assert_eq!((wrong, outcome.unverified), (0, 1), "{:?}", outcome.mismatches);
    }
}

#[test]
fn what_was_submitted_has_its_file_whoever_closes_it() {
    for way in OPERATIONS {
        let (mut r, dir) = with_a_file(b"old bytes");
        submit(&mut r, way, 1, 10);
        moves(&mut r, write(way), b"new", 0, (11, 60));
        r.numbers("close", &[5], 0);
        r.lasting(30 * MS, 31 * MS);
        r.in_order();
        // As fast as possible: the task that closes is there before the one that writes.
        let outcome = replayed_with(&r, Options::default());
        assert_eq!(outcome.mismatches.returned, 0, "{:?}", outcome.mismatches);
        assert_eq!(fs::read(dir.path().join("file")).expect("it is there"), b"new bytes");
    }
}

/// Both read where the file stands: the second entry goes on where the first has ended.
#[test]
fn linked_entries_follow_each_other_however_they_were_found() {
    let (mut r, _dir) = with_a_file(b"onetwo");
    submit(&mut r, "io_uring", 2, 10);
    let mut entry = [0; 64];
    entry[1] = LINK;
    for (bytes, entry, found) in [(b"one", entry, 61), (b"two", [0; 64], 60)] {
        let data: [(u8, &[u8]); 2] = [(1, bytes), (5, &entry)];
        r.call("io_uring:READ", &[5, 1, 3, u64::MAX, 0, 1], &data, 3);
        r.in_flight(if found == 61 { 11 * MS } else { 12 * MS }, found * MS);
    }
    r.in_order();
    let outcome = replayed(&r);
    assert_eq!((outcome.mismatches.data, outcome.unverified), (0, 0), "{:?}", outcome.mismatches);
}

/// Operations do not keep descriptors that an exec or the end of the process closes.
#[test]
fn what_ends_with_a_program_is_let_go() {
    for execs in [true, false] {
        let (mut r, _dir) = with_a_file(b"old bytes");
        fork(&mut r, 1, 3);
        r.by(3).numbers("close", &[4], 0);
        r.lasting(5 * MS, 6 * MS);
        submit(r.by(1), "aio", 1, 10);
        moves(&mut r, "aio:PWRITE", b"new", 0, (11, 20));
        r.by(3).call("read", &[3, 1, 8], &[], 0);
        r.lasting(25 * MS, 60 * MS);
        match execs {
            true => {
                r.by(1).paths("execve", &["/bin/other"], 0);
                r.lasting(30 * MS, 31 * MS);
                r.another_program();
            }
            false => {
                r.by(1).numbers("exit_group", &[0], 0);
                r.lasting(30 * MS, 31 * MS);
                r.end();
                r.by(2).end();
                r.ends(1);
            }
        }
        r.in_order();
        agrees(&r);
    }
}

#[test]
fn what_moves_through_a_pipe_waits_for_nobody() {
    let mut r = threads_with_a_pipe();
    submit(r.by(1), "io_uring", 1, 10);
    r.call("io_uring:READ", &[3, 1, 3, u64::MAX], &[(1, b"abc")], 3);
    r.in_flight(11 * MS, 60 * MS);
    r.write(4, b"abc");
    r.lasting(30 * MS, 31 * MS);
    r.in_order();
    agrees(&r);
}

/// A trace may say anything of when something was submitted.
#[test]
fn what_cannot_have_been_submitted_then_is_made_where_it_was_found() {
    for submitted in [0, 1, 59, 61, u64::MAX / MS] {
        let (mut r, dir) = with_a_file(b"old bytes");
        submit(&mut r, "aio", 100, 10);
        moves(&mut r, "aio:PWRITE", b"new", 0, (submitted, 60));
        r.in_order();
        agrees(&r);
        assert_eq!(fs::read(dir.path().join("file")).expect("it is there"), b"new bytes");
    }
}
