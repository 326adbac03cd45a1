//! Owners of directories and files that no call examined.

use std::os::unix::fs::MetadataExt;

use super::recording::{Image, Recording, With, stat};
use super::{O_CREAT, O_EXCL, O_RDWR};

const SAME: u64 = u32::MAX as u64;
const SOMEBODY: u64 = 1001;
const ANOTHER: u64 = 1002;
const WRITABLE: u64 = 2;

fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Returns user, group and permissions.
fn about(image: &Image, path: &str) -> (u32, u32, u32) {
    let found = image.path(path).metadata().unwrap_or_else(|error| panic!("{path}: {error}"));
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

fn become_user(r: &mut Recording, user: u64) {
    r.numbers("setresgid", &[SAME, user, SAME], 0);
    r.numbers("setresuid", &[SAME, user, SAME], 0);
}

#[test]
fn what_a_user_makes_names_in_is_his_and_root_proves_nothing() {
    if !is_root() {
        return;
    }
    let mut r = Recording::new("/w");
    r.open("mixed/roots", O_RDWR | O_CREAT | O_EXCL, 3);
    r.open("roots/file", O_RDWR | O_CREAT | O_EXCL, 4);
    r.fork(2);
    become_user(&mut r, SOMEBODY);
    r.open("mixed/his", O_RDWR | O_CREAT | O_EXCL, 5);
    r.open("his", O_RDWR, 6).told(stat(1, 10, 0o100644).size(1));
    r.call("access", &[1, WRITABLE], &[(0, b"writable\0")], 0);
    // The child inherits its parent's ids.
    r.by(2).open("child/file", O_RDWR | O_CREAT | O_EXCL, 5);
    r.numbers("setfsuid", &[ANOTHER], 0);
    r.open("files/file", O_RDWR | O_CREAT | O_EXCL, 6);
    let image = r.image();
    assert_eq!(about(&image, "w/mixed"), (1001, 1001, 0o755));
    assert_eq!(about(&image, "w/roots"), (0, 0, 0o755));
    assert_eq!(about(&image, "w/writable"), (1001, 1001, 0o644));
    assert_eq!(about(&image, "w/child"), (0, 0, 0o755));
    assert_eq!(about(&image, "w/files"), (1002, 0, 0o755));
}

#[test]
fn where_several_write_all_may_and_take_away_what_they_took_away() {
    if !is_root() {
        return;
    }
    let mut r = Recording::new("/w");
    for (user, name) in [(SOMEBODY, "one"), (ANOTHER, "other")] {
        for directory in ["shared", "emptied"] {
            become_user(&mut r, user);
            r.open(&format!("{directory}/{name}"), O_RDWR | O_CREAT | O_EXCL, 3);
            become_user(&mut r, 0);
        }
    }
    become_user(&mut r, ANOTHER);
    r.paths("unlink", &["shared/other"], 0);
    r.paths("unlink", &["emptied/was-there"], 0);
    let image = r.image();
    assert_eq!(about(&image, "w/shared").2, 0o1777);
    assert_eq!(about(&image, "w/emptied").2, 0o777);
}

#[test]
fn what_nobody_told_or_changed_was_as_it_is_in_the_end() {
    if !is_root() {
        return;
    }
    let mut r = Recording::new("/home/me");
    for (name, fd) in [("changed", 3), ("log", 4), ("told", 5)] {
        r.open(name, O_RDWR, fd);
        r.write(fd as u64, b"line");
        r.ends_with_file(&format!("/home/me/{name}"), 0o640, (7, 8));
    }
    r.numbers("fchmod", &[3, 0o640], 0);
    r.fstat(5, stat(1, 10, 0o100600));
    let image = r.image();
    assert_eq!(about(&image, "home/me/log"), (7, 8, 0o640));
    assert_eq!(about(&image, "home/me/told").2, 0o600);
    assert_ne!(about(&image, "home/me/changed").2, 0o640);
}
