//! Overlapping calls of two threads on the same bytes of a file, where the first to begin was, or
//! may have been, the last to take effect.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::*;

const O_APPEND: u64 = 0o2000;

/// Two threads of a process that has a file with these bytes, opened twice: 5 and 6.
fn with_a_file(bytes: &[u8]) -> (Recording, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("file");
    fs::write(&path, bytes).expect("it can be made");
    let mut r = threads_with_a_pipe();
    for (fd, append) in [(5, 0), (6, O_APPEND)] {
        r.by(1).open(path.to_str().expect("text"), O_RDWR | append, fd);
    }
    (r, dir)
}

fn content(dir: &tempfile::TempDir) -> Vec<u8> {
    fs::read(dir.path().join("file")).expect("it is there")
}

fn pwrite(r: &mut Recording, bytes: &[u8], at: u64) {
    let len = bytes.len();
    r.call("pwrite64", &[5, 1, len as u64, at], &[(1, bytes)], len as i64);
}

/// All results agree and could be verified.
fn is_verified(r: &Recording) {
    let outcome = replayed(r);
    let wrong = outcome.mismatches.returned + outcome.mismatches.data;
    assert_eq!((wrong, outcome.unverified), (0, 0), "{:?}", outcome.mismatches);
    assert!(outcome.stopped.is_none(), "{:?}", outcome.stopped);
}

/// `count` results differ, and none of them counts as a mismatch.
fn are_raced(r: &Recording, count: u64) {
    let outcome = replayed(r);
    let wrong = outcome.mismatches.returned + outcome.mismatches.data;
    let found = (wrong, outcome.unverified, outcome.raced);
    assert_eq!(found, (0, count, count), "{:?}", outcome.mismatches);
}

/// A later write without overlap is verified again; `raced` results differed before.
fn proves_again(r: &mut Recording, to: u64, from: u64, raced: u64) {
    r.write(to, b"right");
    r.lasting(80 * MS, 81 * MS);
    r.read(from, b"wrong");
    r.lasting(90 * MS, 91 * MS);
    let outcome = replayed(r);
    assert_eq!((outcome.mismatches.data, outcome.raced), (1, raced));
}

/// Adds a read of 100 bytes that returns these.
fn pread(r: &mut Recording, bytes: &[u8], at: u64) {
    r.call("pread64", &[5, 1, 100, at], &[(1, bytes)], bytes.len() as i64);
}

/// The second thread looks, or writes, while the first one writes.
fn within(write: impl FnOnce(&mut Recording), look: impl FnOnce(&mut Recording), old: &[u8]) {
    let (mut r, _dir) = with_a_file(old);
    write(r.by(1));
    r.lasting(10 * MS, 60 * MS);
    look(r.by(2));
    r.lasting(30 * MS, 40 * MS);
    is_verified(&r);
}

#[test]
fn who_saw_the_old_bytes_was_there_before_the_new_ones() {
    let [old, new] = [[b'o'; 200], [b'n'; 200]];
    let write = |r: &mut Recording| pwrite(r, &new, 0);
    within(write, |r| pread(r, &old[..100], 50), &old);
    let vector = |r: &mut Recording| {
        let call = r.call("pwritev", &[5, 1, 1, 0], &[(1, &new)], 200);
        call.data.push(super::vector(&[200]));
    };
    within(vector, |r| pread(r, &old[..100], 50), &old);
}

#[test]
fn who_saw_the_old_end_was_there_before_the_new_one() {
    let write = |r: &mut Recording| pwrite(r, &[b'n'; 200], 50);
    let old = [b'o'; 50];
    within(write, |r| pread(r, &[], 50), &old);
    within(write, |r| pread(r, &old, 0), &old);
    within(write, |r| r.numbers("lseek", &[5, 0, libc::SEEK_END as u64], 50), &old);
    within(write, |r| r.fstat(5, stat(1, 1, 0o100_644).size(50).links(1)), &old);
    let append = |r: &mut Recording| r.write(6, b"new");
    within(append, |r| r.numbers("read", &[5, 1, 100], 0), b"");
}

#[test]
fn who_returned_first_wrote_first() {
    for append in [true, false] {
        let (mut r, dir) = with_a_file(b"");
        for (thread, bytes, begin, end) in [(1, b"late", 10, 60), (2, b"soon", 30, 40)] {
            match append {
                true => r.by(thread).write(6, bytes),
                false => pwrite(r.by(thread), bytes, 0),
            }
            r.lasting(begin * MS, end * MS);
        }
        agrees(&r);
        let expected: &[u8] = if append { b"soonlate" } else { b"late" };
        assert_eq!(content(&dir).escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}

#[test]
fn who_returned_first_read_first_where_the_offset_is_one() {
    let (mut r, _dir) = with_a_file(b"soonlate");
    for (thread, bytes, begin, end) in [(1, b"late", 10, 60), (2, b"soon", 30, 40)] {
        r.by(thread).read(5, bytes);
        r.lasting(begin * MS, end * MS);
    }
    agrees(&r);
}

/// Both append after they looked for the end: they write at the end, not where they looked.
#[test]
fn who_appends_writes_at_the_end_wherever_that_was() {
    let (mut r, dir) = with_a_file(b"");
    let path = dir.path().join("file");
    r.open(path.to_str().expect("text"), O_RDWR | O_APPEND, 7);
    for fd in [6, 7] {
        r.numbers("lseek", &[fd, 0, libc::SEEK_END as u64], 0);
    }
    let lines = [[b'a'; 16], [b'b'; 16]];
    r.write(6, &lines[0]);
    r.write(7, &lines[1]);
    r.lasting(10 * MS, 60 * MS);
    pread(r.by(2), lines.as_flattened(), 0);
    r.lasting(30 * MS, 40 * MS);
    is_verified(&r);
}

/// A partial view of a write cannot be reproduced: it is unverified, and no mismatch.
#[test]
fn a_part_of_what_was_written_proves_nothing() {
    let (old, new) = ([b'o'; 100], [b'n'; 100]);
    let mixed = [&new[..60], &old[..40]].concat();
    for (before, seen) in [(&old[..], &mixed[..]), (&[], &new[..60])] {
        let (mut r, _dir) = with_a_file(before);
        pwrite(r.by(1), &new, 0);
        r.lasting(10 * MS, 60 * MS);
        pread(r.by(2), seen, 0);
        r.lasting(30 * MS, 40 * MS);
        are_raced(&r, 1);
    }
}

/// Likewise for a file's end; later calls continue at the recorded offset.
#[test]
fn an_end_within_what_was_written_proves_nothing() {
    let (mut r, dir) = with_a_file(b"");
    pwrite(r.by(1), &[b'n'; 100], 0);
    r.lasting(10 * MS, 60 * MS);
    r.by(2).numbers("lseek", &[5, 0, libc::SEEK_END as u64], 60);
    r.lasting(30 * MS, 40 * MS);
    r.fstat(5, stat(1, 1, 0o100_644).size(60).links(1));
    r.lasting(41 * MS, 42 * MS);
    r.write(5, b"here");
    r.lasting(70 * MS, 71 * MS);
    are_raced(&r, 2);
    assert_eq!(&content(&dir)[58..66], b"nnherenn");
}

/// Whether the file was truncated before or after the write is unknown.
#[test]
fn what_is_left_of_a_cut_beside_a_write_proves_nothing() {
    let (mut r, _dir) = with_a_file(&[b'o'; 100]);
    r.by(1).numbers("ftruncate", &[5, 0], 0);
    r.lasting(10 * MS, 60 * MS);
    pwrite(r.by(2), &[b'n'; 50], 0);
    r.lasting(30 * MS, 40 * MS);
    pread(&mut r, &[b'n'; 50], 0);
    r.lasting(70 * MS, 71 * MS);
    are_raced(&r, 1);
}

/// The order of two overlapping appends is unknown, until all of it is truncated.
#[test]
fn the_order_of_two_that_appended_proves_nothing() {
    let (mut r, dir) = with_a_file(b"");
    let path = dir.path().join("file");
    for (thread, byte, begin, end) in [(1, b'1', 10, 60), (2, b'2', 30, 40)] {
        r.by(thread).write(6, &[byte; 100]);
        r.lasting(begin * MS, end * MS);
    }
    pread(&mut r, &[b'1'; 100], 0);
    r.lasting(70 * MS, 71 * MS);
    are_raced(&r, 1);
    let doubted = replayed(&r).doubted;
    let file = crate::resource::hash_of(path.as_os_str().as_encoded_bytes());
    assert_eq!(doubted.keys().collect::<Vec<_>>(), [&file]);
    r.numbers("ftruncate", &[5, 0], 0);
    r.lasting(80 * MS, 81 * MS);
    r.write(6, b"right");
    r.lasting(82 * MS, 83 * MS);
    pread(&mut r, b"wrong", 0);
    r.lasting(84 * MS, 85 * MS);
    let outcome = replayed(&r);
    assert_eq!((outcome.mismatches.data, outcome.raced), (1, 1));
    assert!(outcome.doubted.is_empty());
}

/// The end is read while an append moves it.
#[test]
fn an_end_beside_what_was_appended_proves_nothing() {
    let (mut r, _dir) = with_a_file(b"");
    r.by(1).write(6, &[b'1'; 100]);
    r.lasting(10 * MS, 60 * MS);
    r.by(2).fstat(5, stat(1, 1, 0o100_644).size(40).links(1));
    r.lasting(30 * MS, 40 * MS);
    are_raced(&r, 1);
}

/// The first thread waits for bytes of a pipe; the second one gets the first ones.
#[test]
fn who_returned_first_got_what_came_first() {
    let mut r = threads_with_a_pipe();
    r.by(1).read(3, b"second");
    r.lasting(10 * MS, 60 * MS);
    r.by(2).write(4, b"first!");
    r.lasting(20 * MS, 21 * MS);
    r.read(3, b"first!");
    r.lasting(30 * MS, 31 * MS);
    r.write(4, b"second");
    r.lasting(50 * MS, 51 * MS);
    is_verified(&r);
}

/// A call that moves many bytes into a pipe returns after others have read them.
#[test]
fn who_reads_does_not_wait_for_who_fills_the_pipe() {
    let (mut r, _dir) = with_a_file(&[b'f'; 200]);
    r.by(1).call("sendfile", &[4, 5, 0, 200], &[], 200);
    r.lasting(10 * MS, 100 * MS);
    for begin in [12, 30] {
        r.by(2).read(3, &[b'f'; 100]);
        r.lasting(begin * MS, (begin + 8) * MS);
    }
    is_verified(&r);
}

/// Overlapping writes to a pipe may be mixed, also for a reader that already waits.
#[test]
fn what_two_wrote_to_a_pipe_proves_nothing() {
    let mut r = threads_with_a_pipe();
    r.thread(3);
    r.by(3).read(3, b"aabb");
    r.lasting(5 * MS, 65 * MS);
    r.by(1).write(4, b"aaaa");
    r.lasting(10 * MS, 60 * MS);
    r.by(2).write(4, b"bbbb");
    r.lasting(30 * MS, 40 * MS);
    // Failed calls move nothing.
    r.call("read", &[3, 1, 4], &[], -i64::from(libc::EAGAIN));
    r.numbers("lseek", &[3, 0, 1], -i64::from(libc::ESPIPE));
    r.lasting(68 * MS, 69 * MS);
    r.read(3, b"abab");
    r.lasting(70 * MS, 71 * MS);
    are_raced(&r, 2);
    proves_again(&mut r, 4, 3, 2);
}

/// Likewise for a socket pair; the other direction is not in doubt.
#[test]
fn what_two_sent_to_one_end_proves_nothing() {
    let mut r = threads_with_a_pipe();
    let ends = [7, 0, 0, 0, 8, 0, 0, 0];
    r.by(1).call("socketpair", &[1, 1, 0, 1], &[(3, &ends)], 0);
    r.by(1).write(7, b"aaaa");
    r.lasting(10 * MS, 60 * MS);
    r.by(2).call("sendto", &[7, 1, 4, 0, 0, 0], &[(1, b"bbbb")], 4);
    r.lasting(30 * MS, 40 * MS);
    r.call("recvfrom", &[8, 1, 4, 0, 0, 0], &[(1, b"abab")], 4);
    r.lasting(70 * MS, 71 * MS);
    are_raced(&r, 1);
    proves_again(&mut r, 8, 7, 1);
}

/// A write cut off by the end of its process was most likely completed.
#[test]
fn what_was_being_written_at_the_end_is_written() {
    let (mut r, dir) = with_a_file(b"before");
    let call = r.by(1).call("pwrite64", &[5, 1, 5, 0], &[(1, b"after")], 5);
    call.outcome = trace::event::Outcome::Unfinished;
    let outcome = replayed(&r);
    assert_eq!(content(&dir), b"aftere", "{:?}", outcome.skipped);
    assert_eq!(outcome.skipped.len(), 1);

    // A pipe without a reader, inherited: its type is unknown.
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("pipe");
    let name = std::ffi::CString::new(path.to_str().expect("text")).expect("no zeros");
    // SAFETY: the name ends with a NUL and lives through the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let mut r = Recording::with_open("/", &[(7, path.to_str().expect("text"), 0, O_RDWR as u32)]);
    let bytes = vec![b'x'; 2 << 20];
    let call = r.call("write", &[7, 1, 2 << 20], &[(1, &bytes)], 2 << 20);
    call.outcome = trace::event::Outcome::Unfinished;
    let outcome = replayed(&r);
    assert!(outcome.stopped.is_none(), "{:?}", outcome.stopped);
}

/// Opens of a FIFO's two sides wait for each other, also if one of them would have made the name, and the
/// other returned first.
#[test]
fn both_sides_of_a_fifo_are_opened_together() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("pipe").to_str().expect("text").to_owned();
    let mut r = threads_with_a_pipe();
    let name = [path.as_bytes(), b"\0"].concat();
    let mode = u64::from(libc::S_IFIFO | 0o600);
    r.by(1).call("mknod", &[1, mode, 0], &[(0, &name)], 0);
    for (from, to) in [(10, 60), (80, 120)] {
        let flags = (libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC) as u64;
        r.by(1).open(&path, flags, 5);
        r.lasting(from * MS, to * MS);
        r.by(2).open(&path, 0, 6);
        r.lasting((to - 10) * MS, (to - 5) * MS);
        for (fd, at) in [(5, to + 1), (6, to + 3)] {
            r.by(1).numbers("close", &[fd], 0);
            r.lasting(at * MS, (at + 1) * MS);
        }
    }
    r.in_order();
    is_verified(&r);
}

/// A FIFO that thread 1 makes and opens to write, by descriptor 5, while thread 2 opens it to read, by 6.
fn threads_with_a_fifo(dir: &Path) -> (Recording, String) {
    let path = dir.join("fifo").to_str().expect("text").to_owned();
    let mut r = threads_with_a_pipe();
    let name = [path.as_bytes(), b"\0"].concat();
    r.by(1).call("mknod", &[1, u64::from(libc::S_IFIFO | 0o600), 0], &[(0, &name)], 0);
    r.lasting(MS, 2 * MS);
    r.by(1).open(&path, libc::O_WRONLY as u64, 5);
    r.lasting(10 * MS, 20 * MS);
    r.by(2).open(&path, 0, 6);
    r.lasting(10 * MS, 20 * MS);
    (r, path)
}

/// Keeps thread 1 busy, so that the other one comes first.
fn works_for_long(r: &mut Recording, dir: &Path, at: u64) {
    let other = dir.join("other");
    r.by(1).open(other.to_str().expect("text"), O_CREAT | O_RDWR, 7);
    r.lasting(at * MS, (at + 1) * MS);
    for n in 1..200 {
        r.by(1).call("pwrite64", &[7, 1, 4, 0], &[(1, b"work")], 4);
        r.lasting(at * MS + n * 20_000, at * MS + n * 20_000 + 10_000);
        r.by(1).numbers("fsync", &[7], 0);
        r.lasting(at * MS + n * 20_000 + 10_000, at * MS + n * 20_000 + 19_000);
    }
}

/// A reader that is slow to return gets what the next one who opens the FIFO writes as well.
#[test]
fn a_read_of_a_fifo_goes_on_when_the_next_one_opens_it_to_write() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut r, path) = threads_with_a_fifo(dir.path());
    r.by(2).call("read", &[6, 1, 100], &[(1, b"one two")], 7);
    r.lasting(25 * MS, 60 * MS);
    r.by(1).write(5, b"one");
    r.lasting(30 * MS, 31 * MS);
    r.by(1).numbers("close", &[5], 0);
    r.lasting(32 * MS, 33 * MS);
    works_for_long(&mut r, dir.path(), 34);
    r.by(1).open(&path, libc::O_WRONLY as u64, 5);
    r.lasting(50 * MS, 51 * MS);
    r.by(1).write(5, b" two");
    r.lasting(52 * MS, 53 * MS);
    r.by(1).numbers("close", &[5], 0);
    r.lasting(54 * MS, 55 * MS);
    r.by(2).call("read", &[6, 1, 100], &[], 0);
    r.lasting(65 * MS, 66 * MS);
    r.in_order();
    is_verified(&r);
}

/// Who met the end of a FIFO did so before the next one had opened it, and does not wait for what that writes.
#[test]
fn the_end_of_a_fifo_is_met_before_the_next_one_opens_it_to_write() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (mut r, path) = threads_with_a_fifo(dir.path());
    r.by(1).write(5, b"one");
    r.lasting(30 * MS, 31 * MS);
    r.by(2).call("read", &[6, 1, 100], &[(1, b"one")], 3);
    r.lasting(32 * MS, 33 * MS);
    r.by(1).numbers("close", &[5], 0);
    r.lasting(34 * MS, 35 * MS);
    let other = dir.path().join("other");
    r.by(2).open(other.to_str().expect("text"), O_CREAT | O_RDWR, 7);
    r.lasting(34 * MS, 35 * MS);
    r.by(1).open(&path, libc::O_WRONLY as u64, 5);
    r.lasting(40 * MS, 50 * MS);
    r.by(2).call("read", &[6, 1, 100], &[], 0);
    r.lasting(41 * MS, 49 * MS);
    r.by(1).write(5, b"two");
    r.lasting(55 * MS, 56 * MS);
    r.by(2).call("read", &[6, 1, 100], &[(1, b"two")], 3);
    r.lasting(57 * MS, 58 * MS);
    r.in_order();
    is_verified(&r);
}

/// How many bytes are in a pipe while others are put there is chance.
#[test]
fn a_count_beside_a_write_proves_nothing() {
    for (until, raced) in [(60, 1), (15, 0)] {
        let mut r = threads_with_a_pipe();
        r.by(2).call("ioctl", &[3, libc::FIONREAD, 1], &[(2, &9u32.to_le_bytes())], 0);
        r.lasting(10 * MS, until * MS);
        r.by(1).write(4, b"four");
        r.lasting(20 * MS, 30 * MS);
        r.in_order();
        let outcome = replayed(&r);
        assert_eq!((outcome.raced, outcome.mismatches.data), (raced, 1 - raced));
    }
}

/// Whether a range is locked is chance, while somebody locks, unlocks or closes the file.
#[test]
fn what_is_told_of_a_lock_beside_locks_proves_nothing() {
    const OFD_ASK: u64 = 36;
    const OFD_SET: u64 = 37;
    let lock = |kind: i32| {
        let mut lock = [0; 32];
        lock[..4].copy_from_slice(&kind.to_le_bytes());
        lock
    };
    let [shared, alone, none] = [libc::F_RDLCK, libc::F_WRLCK, libc::F_UNLCK].map(lock);
    for (changes, until, raced) in
        [("lock", 60, 1), ("unlock", 60, 1), ("close", 60, 1), ("lock", 15, 0), ("nothing", 60, 0)]
    {
        let (mut r, _dir) = with_a_file(b"bytes");
        let call = r.by(2).call("fcntl", &[5, OFD_ASK, 1], &[(2, &alone)], 0);
        // Nobody will find one that is shared.
        let mut told = call.data[0].clone();
        (told.flags, told.content) = (data_flag::OUT, Content::Inline(shared.to_vec()));
        call.data.push(told);
        r.lasting(10 * MS, until * MS);
        let set = [6, OFD_SET, 1];
        match changes {
            "lock" => _ = r.by(1).call("fcntl", &set, &[(2, &alone)], 0),
            "unlock" => _ = r.by(1).call("fcntl", &set, &[(2, &none)], 0),
            "close" => r.by(1).numbers("close", &[6], 0),
            _ => r.by(1).numbers("lseek", &[6, 0, 0], 0),
        }
        r.lasting(20 * MS, 30 * MS);
        r.in_order();
        let outcome = replayed(&r);
        assert_eq!((outcome.raced, outcome.mismatches.data), (raced, 1 - raced), "{changes}");
    }
}

/// What is written to a pipe while its last reader leaves is read by nobody.
#[test]
fn a_pipe_whose_reader_leaves_takes_bytes_or_not() {
    let mut r = threads_with_a_pipe();
    r.by(2).numbers("close", &[3], 0);
    r.lasting(10 * MS, 60 * MS);
    r.by(1).write(4, b"for nobody");
    r.lasting(20 * MS, 30 * MS);
    r.in_order();
    let outcome = replayed(&r);
    assert_eq!(outcome.mismatches.returned, 0, "{:?}", outcome.mismatches);
}

/// Bytes are copied while another call cuts them off: how many is chance, and what the copy holds then.
#[test]
fn a_copy_of_what_is_cut_off_proves_nothing() {
    let (mut r, dir) = with_a_file(&[b'x'; 64]);
    let copy = dir.path().join("copy");
    r.by(1).open(copy.to_str().expect("text"), O_CREAT | O_RDWR, 7);
    r.by(1).numbers("ftruncate", &[5, 0], 0);
    r.lasting(30 * MS, 60 * MS);
    r.by(2).numbers("sendfile", &[7, 5, 0, 100], 0);
    r.lasting(20 * MS, 50 * MS);
    r.in_order();
    let outcome = replayed(&r);
    assert_eq!(outcome.mismatches.returned, 0, "{:?}", outcome.mismatches);
    assert!(outcome.doubt_of(copy.as_os_str().as_bytes()).is_some());
}

fn entry(name: &[u8]) -> Vec<u8> {
    let mut bytes = [&[0; 16][..], &[24, 0, libc::DT_UNKNOWN], name].concat();
    bytes.resize(24, 0);
    bytes
}

/// What is listed of a directory in which two calls changed a name at a time proves nothing.
#[test]
fn a_list_with_a_contested_name_proves_nothing() {
    for contested in [false, true] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().to_str().expect("text");
        let mut r = threads_with_a_pipe();
        r.by(1).open(path, libc::O_DIRECTORY as u64, 5);
        let made = format!("{path}/made");
        r.by(1).paths("mkdir", &[&made], 0);
        r.lasting(10 * MS, if contested { 60 } else { 15 } * MS);
        r.by(2).paths("rmdir", &[&made], 0);
        r.lasting(20 * MS, 50 * MS);
        let list = [&b"."[..], b"..", b"never"].map(entry).concat();
        r.by(1).call("getdents64", &[5, 1, 4096], &[(1, &list)], list.len() as i64);
        r.lasting(70 * MS, 71 * MS);
        r.in_order();
        let outcome = replayed(&r);
        assert_eq!(outcome.mismatches.data, u64::from(!contested), "{:?}", outcome.mismatches);
    }
}

/// A directory that is listed while another call removes it was there, or was not.
#[test]
fn a_directory_is_listed_before_it_is_removed_or_not_at_all() {
    for is_there in [true, false] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = format!("{}/d", dir.path().to_str().expect("text"));
        fs::create_dir(&path).expect("it can be made");
        let mut r = threads_with_a_pipe();
        r.by(1).open(&path, libc::O_DIRECTORY as u64, 5);
        r.by(1).paths("rmdir", &[&path], 0);
        r.lasting(20 * MS, 60 * MS);
        let list = [&b"."[..], b".."].map(entry).concat();
        let (list, ret) = if is_there { (&list[..], list.len() as i64) } else { (&[][..], ENOENT) };
        r.by(2).call("getdents64", &[5, 1, 4096], &[(1, list)], ret);
        r.lasting(if is_there { 30 } else { 10 } * MS, 50 * MS);
        r.in_order();
        is_verified(&r);
    }
}

/// A directory is listed while a name is made in it: what the list has was there, what it lacks was not yet.
#[test]
fn a_name_is_made_after_the_list_that_lacks_it() {
    for sees in [false, true] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().to_str().expect("text");
        let mut r = threads_with_a_pipe();
        r.by(1).open(path, libc::O_DIRECTORY as u64, 5);
        r.by(1).open(&format!("{path}/new"), O_CREAT | O_RDWR, 6);
        r.lasting(10 * MS, 60 * MS);
        let names: &[&[u8]] = if sees { &[b".", b"new", b".."] } else { &[b".", b".."] };
        let list = names.iter().flat_map(|name| entry(name)).collect::<Vec<u8>>();
        for (bytes, at) in [(&list[..], 30), (b"", 32)] {
            r.by(2).call("getdents64", &[5, 1, 4096], &[(1, bytes)], bytes.len() as i64);
            r.lasting(at * MS, (at + 1) * MS);
        }
        r.in_order();
        is_verified(&r);
    }
}

/// Contradictory calls: the replay must still end.
#[test]
fn no_calls_wait_in_a_circle() {
    const THREADS: u32 = 5;
    for seed in 1..=4 {
        let mut state: u64 = seed;
        let mut any = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) % below
        };
        let (mut r, _dir) = with_a_file(&[b'0'; 64]);
        (3..=THREADS).for_each(|thread| r.by(1).thread(thread));
        let mut free = [0; THREADS as usize + 1];
        for at in 1..=150 {
            let thread = 1 + any(THREADS.into()) as u32;
            let begin = free[thread as usize].max(at * MS / 100 + 10 * MS);
            let bytes = vec![b'0' + any(3) as u8; 1 + any(40) as usize];
            match r.by(thread) {
                r if any(2) == 0 => pwrite(r, &bytes, any(32)),
                r if any(3) > 0 => pread(r, &bytes, any(32)),
                r if any(2) == 0 => r.write(6, &bytes),
                r if any(3) > 0 => r.numbers("lseek", &[5 + any(2), 0, 2], any(80) as i64),
                r if any(2) > 0 => r.numbers("ftruncate", &[5, any(64)], 0),
                r => r.numbers("flock", &[5, libc::LOCK_EX as u64], 0),
            }
            free[thread as usize] = begin + 1 + any(MS / 10);
            // Some claim to have ended at the end of time.
            let end = if any(40) == 0 { u64::MAX - any(2) } else { free[thread as usize] };
            r.lasting(begin, end);
        }
        r.in_order();
        let options = Options::default();
        let outcome = crate::replayer::replay(
            &r.trace(),
            options,
            space(),
            MadeUp::default(),
            &|_| {},
            None,
            None,
        );
        assert!(outcome.stopped.is_none(), "seed {seed}: {:?}", outcome.stopped);
    }
}
