//! Recordings that no program can make.

use std::fs;

use crate::Fill;

use super::recording::{Recording, With, space, stat};

/// A small pseudo-random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

const PATHS: &[&str] = &[
    "a",
    "b",
    "a/b",
    "a/b/c",
    "b/a",
    "/",
    "..",
    "../..",
    "a/..",
    "/a",
    "/w/a",
    "",
    "./a/./b/",
    "//a",
    "/proc/self/fd/3",
    "/dev/null",
    "/dev/shm/a",
    "a/../../../../etc",
    "l",
    "l/x",
    "l/../a",
];
const CALLS: &[&str] = &[
    "rename",
    "link",
    "symlink",
    "unlink",
    "rmdir",
    "mkdir",
    "mknod",
    "stat",
    "lstat",
    "access",
    "chdir",
    "chroot",
    "truncate",
    "readlink",
    "chmod",
    "creat",
    "execve",
    "getxattr",
    "listxattr",
];
const ON_DESCRIPTORS: &[&str] = &[
    "read",
    "write",
    "pread64",
    "pwrite64",
    "lseek",
    "dup",
    "ftruncate",
    "fallocate",
    "copy_file_range",
    "sendfile",
    "fchdir",
    "close",
    "getdents64",
    "fchmod",
    "ioctl",
    "fcntl",
];
const NUMBERS: &[u64] =
    &[0, 1, 3, 4, 8, 100, 4096, u64::MAX, 1 << 62, i64::MAX as u64, 0x4004_9409];
const RESULTS: &[i64] = &[0, 0, 0, 3, 4, 8, -2, -17, -20, -21, -39, -40, -13, i64::MAX, 1 << 40];

/// Number of recordings tried.
const ROUNDS: u32 = 100;

fn random_call(r: &mut Recording, random: &mut Random) {
    r.by(1 + random.below(2) as u32);
    let ret = *random.of(RESULTS);
    let (first, second) = (*random.of(PATHS), *random.of(PATHS));
    let mode = *random.of(&[0o100_644, 0o040_755, 0o120_777, 0o010_600, 0o140_600, 0o060_600]);
    let told = stat(1, 1 + random.below(6), mode)
        .size(*random.of(&[0, 5, 4096, 1 << 62, u64::MAX]))
        .links(random.below(4) as u32);
    match random.below(8) {
        0 | 1 => r.paths(random.of::<&str>(CALLS), &[first, second], ret),
        2 => r.stat(first, told),
        3 => r.lstat(first, told),
        4 => r.readlink(first, second.as_bytes()),
        5 => {
            let flags = [0, 2, 0o102, 0o302, 0o1102, 0o2002, 0o20_200_002, 0o10_000_000];
            let told_now = random.below(2) == 0;
            let opened = r.open(first, *random.of(&flags), 3 + random.below(3) as i64);
            if told_now { opened.told(told) } else { opened.told_before(told) }
        }
        6 => {
            let args: Vec<u64> = (0..5).map(|_| *random.of(NUMBERS)).collect();
            let fd = 3 + random.below(3);
            r.numbers(random.of::<&str>(ON_DESCRIPTORS), &[&[fd], &args[..]].concat()[..6], ret);
        }
        _ => r.pread(3 + random.below(3), b"some bytes", *random.of(NUMBERS)),
    }
}

#[test]
fn nonsense_gives_an_image_or_an_error_and_nothing_outside() {
    let mut random = Random(0x5eed_0001);
    let outside = tempfile::tempdir().unwrap();
    let mut built = 0;
    for _ in 0..ROUNDS {
        let mut r = Recording::with_open("/w", &[(3, "/w/in", 4, 0), (4, "/gone (deleted)", 0, 0)]);
        r.fork(2);
        for _ in 0..60 {
            random_call(&mut r, &mut random);
        }
        let root = outside.path().join("root");
        fs::create_dir(&root).unwrap();
        let directory = fs::File::open(&root).unwrap();
        let image = super::super::build(
            &r.trace(),
            std::os::fd::AsFd::as_fd(&directory),
            &[],
            &space(),
            &Fill::Zeros,
            &|_| {},
        );
        built += u32::from(image.is_ok());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "something is outside");
        fs::remove_dir_all(&root).unwrap();
    }
    assert_eq!(built, ROUNDS, "images: what a file system does not take is no error");
}

#[test]
fn circles_end() {
    let mut r = Recording::new("/w");
    r.paths("rename", &["a", "a/b/c"], 0);
    r.paths("rename", &["a/b", "a/b/c"], 0);
    r.readlink("x", b"y");
    r.readlink("y", b"x");
    r.readlink("deep", b"deep/deep/deep");
    r.stat("x", stat(1, 5, 0o100644));
    r.stat("deep/z", stat(1, 6, 0o100644));
    r.image();
}

#[test]
fn deep_directories_end() {
    let mut r = Recording::new("/");
    r.open("/", 0o200_000, 3);
    for _ in 0..1500 {
        r.openat(3, "d", 0o200_000, 3);
    }
    r.openat(3, "file", 0, 4);
    let image = r.image();
    assert!(image.built.directories <= 501, "{}", image.built.directories);
}
