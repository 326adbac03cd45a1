//! Replays of synthetic recordings with overlapping calls. At the recorded pace each call starts
//! when it did in the recording, so the wrong order is always tried first.

mod hostile;
mod in_flight;
mod messages;
mod races;
mod stuck;
mod timed;

use crate::image::MadeUp;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use syscalls::record::{data_flag, part};
use trace::event::{Content, Data};

use crate::image::tests::recording::{Recording, With, space, stat};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::space::Space;

const MS: u64 = 1_000_000;
const O_RDWR: u64 = 2;
const O_CREAT: u64 = 0o100;
const O_EXCL: u64 = 0o200;
const ENOENT: i64 = -2;
const ENXIO: i64 = -6;
const EBADF: i64 = -9;
const EAGAIN: i64 = -11;
const EEXIST: i64 = -17;
const ENOTDIR: i64 = -20;
const EINVAL: i64 = -22;
const EFBIG: i64 = -27;
const ENOTEMPTY: i64 = -39;
const EMSGSIZE: i64 = -90;

/// Replays a recording. Not in a jail: it must touch only the test's own files.
fn replayed(recording: &Recording) -> Outcome {
    replayed_with(recording, Options { speed: Some(1.0), ..Options::default() })
}

fn replayed_with(recording: &Recording, options: Options) -> Outcome {
    super::replay(&recording.trace(), options, space(), MadeUp::default(), &|_| {}, None, None)
}

fn agrees(recording: &Recording) {
    let outcome = replayed(recording);
    assert!(outcome.stopped.is_none(), "{:?}", outcome.stopped);
    assert_eq!(
        outcome.mismatches.returned + outcome.mismatches.data,
        0,
        "{:?}",
        outcome.mismatches
    );
    assert!(outcome.verified > 0);
}

/// A process with the threads 1 and 2 and a pipe with the ends 3 and 4.
fn threads_with_a_pipe() -> Recording {
    let mut r = Recording::with_open("/", &[0, 1, 2].map(|number| (number, "/dev/null", 0, 0)));
    pipe(&mut r, [3, 4]);
    r.thread(2);
    r
}

fn pipe(r: &mut Recording, numbers: [u8; 2]) {
    let bytes = [numbers[0], 0, 0, 0, numbers[1], 0, 0, 0];
    r.call("pipe2", &[1, libc::O_CLOEXEC as u64], &[(0, &bytes)], 0);
}

/// The first thread creates process 3, which shows up halfway between `begin` and `end`.
fn fork(r: &mut Recording, begin: u64, end: u64) {
    r.by(1).numbers("vfork", &[], 103);
    r.lasting(begin * MS, end * MS);
    r.child(3, (begin + end) / 2 * MS);
}

/// The second thread reads the end of the pipe; after that, process 3 ends.
fn read_to_the_end(r: &mut Recording, number: u64, begin: u64) {
    r.by(2).call("read", &[number, 1, 8], &[], 0);
    r.lasting(begin * MS, (begin + 1) * MS);
    r.by(3).numbers("exit_group", &[0], 0);
    r.lasting((begin + 5) * MS, (begin + 6) * MS);
}

#[test]
fn no_more_elements_of_a_vector_are_read_than_there_are() {
    let mut r = threads_with_a_pipe();
    // Remains of this in memory would be taken for elements.
    let before = [b'a'; 64];
    r.by(1).call("write", &[4, 1, 64], &[(1, &before)], 64);
    r.call("read", &[3, 1, 64], &[(1, &before)], 64);
    let call = r.call("writev", &[4, 1, 3], &[(1, b"hello")], 5);
    let vector = [0_u64, 5].map(u64::to_le_bytes).concat();
    let content = trace::event::Content::Inline(vector);
    let data = trace::event::Data { arg: 1, true_len: 16, content, ..Default::default() };
    call.data.insert(0, data);
    r.call("read", &[3, 1, 5], &[(1, b"hello")], 5);
    agrees(&r);
}

#[test]
fn a_child_does_not_keep_a_pipe_open_that_was_closed_as_it_was_made() {
    let mut r = threads_with_a_pipe();
    fork(&mut r, 10, 90);
    r.by(2).numbers("close", &[4], 0);
    r.lasting(40 * MS, 100 * MS);
    read_to_the_end(&mut r, 3, 110);
    agrees(&r);
}

#[test]
fn a_child_does_not_have_a_pipe_that_was_made_as_it_was_made() {
    let mut r = threads_with_a_pipe();
    fork(&mut r, 40, 90);
    r.by(2);
    pipe(&mut r, [5, 6]);
    r.lasting(10 * MS, 100 * MS);
    r.numbers("close", &[6], 0);
    r.lasting(101 * MS, 102 * MS);
    read_to_the_end(&mut r, 5, 110);
    agrees(&r);
}

#[test]
fn a_child_has_what_it_closes_itself() {
    for (close, had) in [(20, true), (50, false)] {
        let mut r = threads_with_a_pipe();
        fork(&mut r, 40, 90);
        r.by(3).numbers("close", &[4], if had { 0 } else { EBADF });
        r.lasting(80 * MS, 81 * MS);
        r.by(2).numbers("close", &[4], 0);
        r.lasting(close * MS, 100 * MS);
        read_to_the_end(&mut r, 3, 110);
        agrees(&r);
    }
}

/// A number was used and closed again while an earlier call waited, which got it in the end.
#[test]
fn a_number_is_given_when_it_was_closed() {
    let mut r = threads_with_a_pipe();
    r.by(1).numbers("dup", &[3], 5);
    r.lasting(10 * MS, 60 * MS);
    r.by(2).numbers("dup", &[4], 5);
    r.lasting(20 * MS, 21 * MS);
    r.numbers("close", &[5], 0);
    r.lasting(30 * MS, 31 * MS);
    r.by(1).numbers("close", &[5], 0);
    r.lasting(70 * MS, 71 * MS);
    agrees(&r);
}

/// The closed number was reused before the fork: the child has the new descriptor. The pipe's end
/// was read before that: the waits must not form a circle.
#[test]
fn what_a_close_led_to_comes_after_it() {
    let mut r = threads_with_a_pipe();
    r.by(2).numbers("close", &[4], 0);
    r.lasting(10 * MS, 100 * MS);
    r.by(1).call("read", &[3, 1, 8], &[], 0);
    r.lasting(20 * MS, 30 * MS);
    r.numbers("dup", &[3], 4);
    r.lasting(31 * MS, 32 * MS);
    fork(&mut r, 40, 90);
    r.by(3).numbers("exit_group", &[0], 0);
    r.lasting(95 * MS, 96 * MS);
    r.by(1).numbers("close", &[4], 0);
    r.lasting(97 * MS, 98 * MS);
    agrees(&r);
}

fn socket_pair(r: &mut Recording, kind: i32, numbers: [u8; 2]) {
    let bytes = [numbers[0], 0, 0, 0, numbers[1], 0, 0, 0];
    r.call("socketpair", &[libc::AF_UNIX as u64, kind as u64, 0, 1], &[(3, &bytes)], 0);
}

/// The peeked bytes were all there in the end, but came in two parts.
#[test]
fn bytes_that_stay_where_they_are_are_taken_once() {
    let (first, second) = ([b'a'; 100], [b'b'; 100]);
    let both = [first, second].concat();
    for tee in [true, false] {
        let mut r = threads_with_a_pipe();
        if tee {
            pipe(&mut r, [5, 6]);
            r.numbers("tee", &[3, 6, 4096, 0], 200);
        } else {
            r.numbers("close", &[3], 0);
            r.numbers("close", &[4], 0);
            socket_pair(&mut r, libc::SOCK_STREAM, [3, 4]);
            let flags = libc::MSG_PEEK as u64;
            r.call("recvfrom", &[3, 1, 4096, flags], &[(1, &both)], 200);
        }
        r.lasting(10 * MS, 60 * MS);
        for (bytes, begin) in [(first, 20), (second, 40)] {
            r.by(2).write(4, &bytes);
            r.lasting(begin * MS, (begin + 1) * MS);
        }
        r.by(1).read(3, &both);
        r.lasting(70 * MS, 71 * MS);
        if tee {
            r.read(5, &both);
            r.lasting(80 * MS, 81 * MS);
        }
        agrees(&r);
    }
}

/// A message too long for the socket was refused. The recorded part of it may be short enough.
#[test]
fn what_could_not_be_sent_is_not_sent() {
    let mut r = Recording::with_open("/", &[0, 1, 2].map(|number| (number, "/dev/null", 0, 0)));
    socket_pair(&mut r, libc::SOCK_DGRAM, [3, 4]);
    let long = vec![b'w'; 400_000];
    r.call("sendto", &[3, 1, long.len() as u64, 0], &[(1, &long)], EMSGSIZE);
    r.call("sendto", &[3, 1, 4, 0], &[(1, b"real")], 4);
    r.call("recvfrom", &[4, 1, 100, 0], &[(1, b"real")], 4);
    agrees(&r);
}

/// Ranges larger than any disk: holes, and a refused allocation.
#[test]
fn what_takes_nothing_of_the_disk_needs_no_room() {
    const HUGE: u64 = 1 << 43;
    const REFUSED: u64 = 1 << 62;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("file");
    let mut r = Recording::with_open("/", &[0, 1, 2].map(|number| (number, "/dev/null", 0, 0)));
    r.open(file.to_str().expect("text"), O_RDWR | O_CREAT, 3);
    r.write(3, &[b'x'; 8192]);
    let punch = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u64;
    r.numbers("fallocate", &[3, punch, 4096, HUGE], 0);
    r.numbers("fallocate", &[3, 0, 0, REFUSED], EFBIG);
    r.write(3, b"y");
    let disk = std::fs::File::open(dir.path()).expect("it is there");
    let space = Space::new(vec![disk.into()], None).expect("it tells what is free");
    let (options, space) = (Options::default(), Arc::new(space));
    let outcome = super::replay(&r.trace(), options, space, MadeUp::default(), &|_| {}, None, None);
    assert!(outcome.stopped.is_none(), "{:?}", outcome.stopped);
    assert_eq!((outcome.verified, outcome.skipped.len()), (4, 1), "{:?}", outcome.mismatches);
}

fn vector(lens: &[u64]) -> Data {
    let elements = lens.iter().flat_map(|len| [1u64.to_le_bytes(), len.to_le_bytes()]);
    let bytes: Vec<u8> = elements.flatten().collect();
    Data {
        arg: 1,
        part: part::WHOLE,
        index: 0,
        flags: 0,
        true_len: bytes.len() as u64,
        hash: None,
        content: Content::Inline(bytes),
    }
}

/// Bytes in a pipe must not change while their source memory is reused for other calls.
#[test]
fn a_pipe_holds_what_was_put_into_it() {
    let mut r = threads_with_a_pipe();
    let bytes = [b'a'; 40];
    let call = r.by(1).call("vmsplice", &[4, 1, 1, 0], &[(1, &bytes)], 40);
    // The second half is not in the recording: filler is written.
    call.data[0].content = Content::Inline(bytes[..20].to_vec());
    call.data.push(vector(&[40]));
    r.open("/dev/zero", 0, 5);
    r.read(5, &[0; 200]);
    r.call("read", &[3, 1, 40], &[(1, &bytes[..20])], 40).data[0].true_len = 40;
    agrees(&r);
}

/// Part of a file was cached, then nothing of it.
#[test]
fn what_did_not_wait_for_the_disk_may_do_so_here() {
    const NOWAIT: u64 = libc::RWF_NOWAIT as u64;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("file");
    fs::write(&file, [b'x'; 100]).expect("it can be made");
    let mut r = Recording::with_open("/", &[0, 1, 2].map(|number| (number, "/dev/null", 0, 0)));
    r.open(file.to_str().expect("text"), 0, 3);
    for (bytes, ret) in [(&[b'x'; 30][..], 30), (&[], EAGAIN)] {
        let call = r.call("preadv2", &[3, 1, 1, 0, 0, NOWAIT], &[(1, bytes)], ret);
        call.data.push(Data { flags: data_flag::OUT, ..vector(&[4096]) });
    }
    agrees(&r);
}

/// Unlimited open files are refused: the kernel has a limit for the limit.
#[test]
fn limits_are_raised_as_far_as_ours_reach() {
    let mut r = Recording::with_open("/", &[0, 1, 2].map(|number| (number, "/dev/null", 0, 0)));
    let unlimited = [0xff; 16];
    // SAFETY: all zeros are a valid rlimit, and it is writable.
    let ours = unsafe {
        let mut ours: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut ours), 0);
        ours.rlim_max
    };
    let last = ours - 1;
    let few = [20u64.to_le_bytes(), ours.to_le_bytes()].concat();
    r.call("prlimit64", &[0, libc::RLIMIT_NOFILE.into(), 1, 0], &[(2, &few)], 0);
    r.numbers("dup2", &[0, last], EBADF);
    r.call("prlimit64", &[0, libc::RLIMIT_NOFILE.into(), 1, 0], &[(2, &unlimited)], 0);
    r.numbers("dup2", &[0, last], last as i64);
    agrees(&r);
    assert_eq!(replayed(&r).withheld.values().sum::<u64>(), 1);
}

#[test]
fn how_many_bytes_wait_is_asked_until_they_do() {
    let mut r = threads_with_a_pipe();
    r.call("ioctl", &[3, libc::FIONREAD, 1], &[(2, &4u32.to_le_bytes())], 0);
    r.lasting(10 * MS, 60 * MS);
    r.by(2).write(4, b"abcd");
    r.lasting(20 * MS, 21 * MS);
    agrees(&r);
}

/// Directory entries as the kernel returns them, of unknown type.
fn entries(names: &[&str]) -> Vec<u8> {
    const NAME_AT: usize = 19;
    let entry = |name: &&str| {
        let len = (NAME_AT + name.len() + 1).next_multiple_of(8);
        let mut bytes = vec![0; len];
        bytes[16] = len as u8;
        bytes[NAME_AT..NAME_AT + name.len()].copy_from_slice(name.as_bytes());
        bytes
    };
    names.iter().flat_map(entry).collect()
}

/// A process that has opened a directory with the files `a` and `b` as 3.
fn with_a_directory() -> (Recording, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in ["a", "b"] {
        fs::write(dir.path().join(name), "").expect("it can be made");
    }
    let mut r = Recording::with_open("/", &[0, 1, 2].map(|number| (number, "/dev/null", 0, 0)));
    r.open(dir.path().to_str().expect("text"), libc::O_DIRECTORY as u64, 3);
    (r, dir)
}

fn lists(r: &mut Recording, names: &[&str]) {
    let bytes = entries(names);
    r.call("getdents64", &[3, 1, 4096], &[(1, &bytes)], bytes.len() as i64);
}

#[test]
fn a_directory_that_could_not_be_read_can_not_be_here_either() {
    for (error, size) in [(ENOENT, 4096), (ENOTDIR, 4096), (EINVAL, 4)] {
        let (mut r, _dir) = with_a_directory();
        lists(&mut r, &[".", "..", "a", "b"]);
        r.numbers("getdents64", &[3, 1, size], error);
        let outcome = replayed(&r);
        assert_eq!(outcome.mismatches.returned, u64::from(error != EINVAL), "{error}");
    }
}

#[test]
fn a_directory_that_was_read_to_its_end_may_be_read_again_from_anywhere() {
    let (mut r, _dir) = with_a_directory();
    lists(&mut r, &[".", "..", "a", "b"]);
    lists(&mut r, &[]);
    r.lseek(3, 1);
    lists(&mut r, &["b"]);
    for _ in 0..2 {
        lists(&mut r, &[]);
    }
    agrees(&r);
    lists(&mut r, &["c"]);
    assert_eq!(replayed(&r).mismatches.data, 1, "it was never there");
}

#[test]
fn a_directory_of_which_a_part_was_read_has_more() {
    let (mut r, _dir) = with_a_directory();
    r.lseek(3, 1);
    lists(&mut r, &["b"]);
    lists(&mut r, &[]);
    agrees(&r);
    r.lseek(3, 0);
    lists(&mut r, &["b"]);
    lists(&mut r, &[]);
    assert_eq!(replayed(&r).mismatches.data, 1, "from the beginning, all are seen");
}

/// A call on paths below a directory.
type On = (&'static str, &'static [&'static str], i64);

/// Pairs of overlapping calls of two threads: the first call took effect later, but begins earlier.
/// There are a file `f` and directories `d` (empty) and `full` (with `x` in it).
const OVERLAPS: &[[On; 2]] = &[
    // The first call failed because of the second one.
    [("make", &["n"], EEXIST), ("make", &["n"], 4)],
    [("symlink", &["n"], EEXIST), ("mkdir", &["n"], 0)],
    [("mkdir", &["n"], EEXIST), ("rename", &["f", "n"], 0)],
    [("open", &["f"], ENOENT), ("unlink", &["f"], 0)],
    [("unlink", &["f"], ENOENT), ("rename", &["f", "n"], 0)],
    [("rename", &["f", "n"], ENOENT), ("rename", &["f", "m"], 0)],
    [("link", &["f", "n"], ENOENT), ("unlink", &["f"], 0)],
    [("rename", &["f", "d/n"], ENOENT), ("rmdir", &["d"], 0)],
    [("mkdir", &["d/n"], ENOENT), ("rmdir", &["d"], 0)],
    [("make", &["d/n"], ENOENT), ("rename", &["d", "e"], 0)],
    [("rmdir", &["d"], ENOTEMPTY), ("make", &["d/n"], 4)],
    [("rename", &["full", "d"], ENOTEMPTY), ("make", &["d/n"], 4)],
    // The first call changed what the second one had found.
    [("unlink", &["f"], 0), ("open", &["f"], 4)],
    [("unlink", &["f"], 0), ("link", &["f", "n"], 0)],
    [("unlink", &["f"], 0), ("mkdir", &["f"], EEXIST)],
    [("make", &["n"], 4), ("open", &["n"], ENOENT)],
    [("make", &["n"], 4), ("rename", &["n", "m"], ENOENT)],
    [("mkdir", &["n"], 0), ("symlink", &["n/m"], ENOENT)],
    [("rename", &["d", "e"], 0), ("mkdir", &["d/n"], 0)],
    [("rename", &["full", "e"], 0), ("unlink", &["full/x"], 0)],
    [("unlink", &["full/x"], 0), ("rmdir", &["full"], ENOTEMPTY)],
];

fn make_call(r: &mut Recording, dir: &Path, (name, paths, ret): On) {
    let paths: Vec<String> =
        paths.iter().map(|path| dir.join(path).to_str().expect("text").to_string()).collect();
    match (name, &paths[..]) {
        ("open" | "make", [path]) => {
            let flags = if name == "open" { 0 } else { O_CREAT | O_EXCL };
            r.open(path, flags, ret);
        }
        ("symlink", [path]) => r.paths(name, &["target", path], ret),
        ("mkdir", [path]) => {
            let text = [path.as_bytes(), b"\0"].concat();
            r.call(name, &[1, 0o755], &[(0, &text)], ret);
        }
        (_, paths) => r.paths(name, &paths.iter().map(|path| &path[..]).collect::<Vec<_>>(), ret),
    }
}

#[test]
fn results_tell_the_order_of_calls_on_one_name() {
    let mut wrong = Vec::new();
    for both in OVERLAPS {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("f"), "").expect("it can be made");
        fs::create_dir(dir.path().join("d")).expect("it can be made");
        fs::create_dir(dir.path().join("full")).expect("it can be made");
        symlink("nowhere", dir.path().join("full/x")).expect("it can be made");
        let mut r = threads_with_a_pipe();
        for (call, thread) in both.iter().zip([1, 2]) {
            make_call(r.by(thread), dir.path(), *call);
            r.lasting(u64::from(thread) * 10 * MS, 40 * MS);
        }
        let outcome = replayed(&r);
        let all_replayed = outcome.replayed == 3 && outcome.stopped.is_none();
        if !all_replayed || outcome.mismatches.returned > 0 {
            wrong.push((both, outcome.stopped, outcome.mismatches.groups));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn where_holes_are_is_for_the_file_system_to_say() {
    let dir = tempfile::tempdir().expect("there is room");
    let path = dir.path().join("file");
    fs::write(&path, [b'a'; 5000]).expect("there is room");
    let mut r = Recording::with_open("/", &[0, 1, 2].map(|number| (number, "/dev/null", 0, 0)));
    r.open(path.to_str().expect("text"), 0, 3);
    let (data, hole) = (libc::SEEK_DATA as u64, libc::SEEK_HOLE as u64);
    // It had data from 4096 on, and a hole after 4999; the offset is the recorded one.
    r.numbers("lseek", &[3, 0, data], 4096);
    r.read(3, &[b'a'; 900]);
    r.numbers("lseek", &[3, 4999, data], ENXIO);
    r.read(3, &[b'a'; 4]);
    r.numbers("lseek", &[3, 0, hole], 10);
    r.read(3, &[b'a'; 10]);
    agrees(&r);
    assert_eq!(replayed(&r).unverified, 2);
    r.numbers("lseek", &[3, 9000, data], 9000);
    r.numbers("lseek", &[3, 0, libc::SEEK_CUR as u64], 10);
    assert_eq!(replayed(&r).mismatches.returned, 1, "the offset moved on");
}
