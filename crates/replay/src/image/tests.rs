//! Images of synthetic recordings.

mod guesses;
mod hostile;
mod owners;
pub(crate) mod recording;
mod structs;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use recording::{Image, Recording, With, stat};
use trace::event::Identity;

use super::tree::lengthen;

const O_RDWR: u64 = 2;
const O_CREAT: u64 = 0o100;
const O_EXCL: u64 = 0o200;
const O_TRUNC: u64 = 0o1000;
const O_APPEND: u64 = 0o2000;
const O_DIRECTORY: u64 = 0o200_000;
const ENOENT: i64 = -2;
const EACCES: i64 = -13;
const EEXIST: i64 = -17;
const ENOTDIR: i64 = -20;
const ENOTEMPTY: i64 = -39;

fn content(image: &Image, path: &str) -> Vec<u8> {
    fs::read(image.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn owners_are_not_taken_from_who_sees_other_numbers() {
    const CLONE_NEWUSER: u64 = 0x1000_0000;
    const NOBODY: u32 = 65534;
    let mut r = Recording::new("/home/me");
    let file = stat(1, 10, 0o100640);
    r.stat("file", file);
    r.numbers("unshare", &[CLONE_NEWUSER], 0);
    r.stat("file", Identity { uid: NOBODY, gid: NOBODY, ..file });
    r.fork(2);
    r.by(2).stat("file", Identity { uid: NOBODY, gid: NOBODY, ..file });
    let there = r.image().path("home/me/file").metadata().expect("it is there");
    assert_eq!((there.uid(), there.gid()), (file.uid, file.gid));
}

#[test]
fn a_link_that_files_were_only_opened_by_is_one() {
    let mut r = Recording::new("/home/me");
    let bytes = b"new";
    r.open("link", O_RDWR | O_CREAT, 3).told_before(stat(1, 10, 0o100640).size(10));
    r.write(3, bytes);
    r.open("dangling", O_RDWR | O_CREAT, 4);
    r.write(4, bytes);
    r.open("made", O_RDWR | O_CREAT, 5);
    r.paths("unlink", &["made"], 0);
    r.paths("symlink", &["a/target", "made"], 0);
    r.ends_with_link("/home/me/dangling", "a/nothing");
    r.ends_with_link("/home/me/link", "a/target");
    r.ends_with_link("/home/me/made", "a/target");
    let image = r.image();
    let target = |name: &str| fs::read_link(image.path("home/me").join(name)).ok();
    assert_eq!(target("link"), Some("a/target".into()));
    assert_eq!(target("dangling"), Some("a/nothing".into()));
    assert_eq!(image.names("home/me"), ["a", "dangling", "link"]);
    assert_eq!(image.names("home/me/a"), ["target"]);
    assert_eq!(content(&image, "home/me/a/target").len(), 10);
}

#[test]
fn a_text_that_fills_the_buffer_is_whole_if_the_link_is_as_long() {
    let mut r = Recording::new("/home/me");
    let link = |ino, size| stat(1, ino, 0o120777).size(size);
    r.lstat("first", link(10, 6));
    r.readlink_into(6, "first", b"target");
    r.readlink_into(5, "later", b"other");
    r.lstat("later", link(11, 5));
    r.readlink_into(3, "cut", b"lon");
    r.lstat("cut", link(12, 9));
    r.readlink_into(4, "alone", b"text");
    let image = r.image();
    let text = |name: &str| fs::read_link(image.path("home/me").join(name)).unwrap();
    assert_eq!(text("first"), Path::new("target"));
    assert_eq!(text("later"), Path::new("other"));
    assert_eq!(text("alone"), Path::new("text"));
    assert_ne!(text("cut"), Path::new("lon"));
}

#[test]
fn a_text_that_is_made_up_is_as_long_as_the_link_if_it_can_be() {
    let mut r = Recording::new("/home/me");
    r.lstat("link", stat(1, 10, 0o120777).size(40));
    r.stat("link", stat(1, 20, 0o100640));
    let image = r.image();
    let link = image.path("home/me/link");
    assert_eq!(fs::read_link(&link).unwrap().as_os_str().len(), 40);
    assert_eq!(fs::metadata(&link).unwrap().mode() & 0o7777, 0o640);
}

#[test]
fn paths_are_made_longer() {
    let long = |path: &str, length| lengthen(path.into(), Some(length));
    assert_eq!(long("a/b", 6), b"a////b");
    assert_eq!(long("file", 6), b"./file");
    assert_eq!(long("file", 7), b".//file");
    assert_eq!(long("file", 5), b"file", "no path of that length leads there");
    assert_eq!(long("a/b", 2), b"a/b");
    assert_eq!(long("a/b", u64::MAX).len(), 4095);
}

#[test]
fn parts_that_were_read_are_there_and_the_rest_is_zeros() {
    let mut r = Recording::new("/home/me");
    r.open("data", O_RDWR, 3).told(stat(1, 10, 0o100640).size(10));
    r.pread(3, b"cde", 2);
    r.lseek(3, 8);
    r.read(3, b"ij");
    let image = r.image();
    assert_eq!(content(&image, "home/me/data"), b"\0\0cde\0\0\0ij");
    let meta = fs::metadata(image.path("home/me/data")).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o640, 1_000_000));
    assert_eq!((image.built.seen_bytes, image.built.unknown_bytes), (5, 5));
    let unknown = image.built.unknown.of(b"/home/me/data").unwrap();
    assert_eq!(unknown.iter().collect::<Vec<_>>(), [0..2, 5..8]);
}

#[test]
fn what_was_written_first_tells_nothing() {
    let mut r = Recording::new("/w");
    r.open("data", O_RDWR, 3).told(stat(1, 10, 0o100644).size(6));
    r.write(3, b"NEW");
    r.lseek(3, 0);
    r.read(3, b"NEWdef");
    let image = r.image();
    assert_eq!(content(&image, "w/data"), b"\0\0\0def");
    assert_eq!(image.built.unknown_bytes, 3);
    assert_eq!(image.built.unknown.of(b"/w/data"), None, "all that is left at the end was seen");
}

#[test]
fn truncated_and_appended() {
    let mut r = Recording::new("/w");
    r.open("cut", O_RDWR | O_TRUNC, 3).told_before(stat(1, 10, 0o100644).size(6));
    r.write(3, b"x");
    r.open("log", O_RDWR | O_APPEND, 4).told(stat(1, 11, 0o100644).size(3));
    r.write(4, b"more");
    r.pread(4, b"onemore", 0);
    let image = r.image();
    assert_eq!(content(&image, "w/cut"), [0; 6]);
    assert_eq!(content(&image, "w/log"), b"one");
}

#[test]
fn names_are_followed_backwards_over_renames() {
    let mut r = Recording::new("/w");
    r.paths("rename", &["old", "new"], 0);
    r.open("new", 0, 3).told(stat(1, 10, 0o100644).size(3));
    r.read(3, b"abc");
    r.paths("rename", &["d", "e"], 0);
    r.open("e/f", 0, 4).told(stat(1, 11, 0o100644).size(1));
    r.read(4, b"z");
    let image = r.image();
    assert_eq!(content(&image, "w/old"), b"abc");
    assert_eq!(content(&image, "w/d/f"), b"z");
    assert!(!image.path("w/new").exists() && !image.path("w/e").exists());
}

#[test]
fn what_the_program_made_was_not_there() {
    let mut r = Recording::new("/w");
    r.paths("mkdir", &["made"], 0);
    r.open("made/file", O_RDWR | O_CREAT, 3);
    r.write(3, b"abc");
    r.pread(3, b"abc", 0);
    r.open("excl", O_RDWR | O_CREAT | O_EXCL, 4);
    r.paths("symlink", &["target", "link"], 0);
    r.paths("rename", &["made", "renamed"], 0);
    r.open("renamed/file", 0, 5);
    r.paths("access", &["absent"], ENOENT);
    let image = r.image();
    assert_eq!(image.names("w"), Vec::<String>::new());
}

#[test]
fn devices_of_the_machine_are_not_made() {
    let mut r = Recording::new("/w");
    r.paths("mkdir", &["/dev/null"], EEXIST);
    r.paths("mkdir", &["/dev/zero"], EEXIST);
    r.readlink("/dev/full", b"elsewhere");
    let image = r.image();
    assert_eq!(image.names("dev"), Vec::<String>::new());
}

#[test]
fn what_was_removed_was_there() {
    let mut r = Recording::new("/w");
    r.paths("unlink", &["file"], 0);
    r.paths("rmdir", &["directory"], 0);
    r.open("file", O_RDWR | O_CREAT | O_EXCL, 3);
    r.paths("mkdir", &["known"], EEXIST);
    r.paths("rmdir", &["full"], ENOTEMPTY);
    r.paths("access", &["plain/below"], ENOENT);
    r.paths("access", &["no-directory/below"], ENOTDIR);
    let image = r.image();
    assert_eq!(image.names("w"), ["directory", "file", "full", "known", "no-directory"]);
    assert!(image.path("w/directory").is_dir() && image.path("w/known").is_dir());
    assert!(image.path("w/file").is_file() && image.path("w/no-directory").is_file());
    assert_eq!(fs::read_dir(image.path("w/full")).unwrap().count(), 1);
}

#[test]
fn refusals_tell_permissions() {
    let mut r = Recording::new("/w");
    r.paths("mkdir", &["locked/new"], EACCES);
    r.open("secret", 0, EACCES);
    r.open("cabinet/new", O_RDWR | O_CREAT, EACCES);
    r.stat("cabinet", stat(1, 5, 0o040500));
    let image = r.image();
    let mode = |path| fs::metadata(image.path(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("w/locked"), mode("w/secret"), mode("w/cabinet")), (0o555, 0, 0o500));
    assert_eq!(image.names("w/locked"), Vec::<String>::new());
}

#[test]
fn who_may_execute_a_file_could_do_so() {
    const EXECUTABLE: u64 = 1;
    let mut r = Recording::new("/w");
    for name in ["program", "secret", "directory", "told"] {
        r.call("access", &[1, EXECUTABLE], &[(0, format!("{name}\0").as_bytes())], 0);
    }
    r.open("secret", 0, EACCES);
    r.paths("mkdir", &["directory/new"], EEXIST);
    r.stat("told", stat(1, 5, 0o100710));
    let image = r.image();
    let mode = |path| fs::metadata(image.path(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("w/program"), mode("w/secret")), (0o755, 0o111));
    assert_eq!((mode("w/directory"), mode("w/told")), (0o755, 0o710));
}

#[test]
fn hard_links_are_one_file() {
    let mut r = Recording::new("/w");
    r.open("a", 0, 3).told(stat(1, 10, 0o100644).size(3).links(2));
    r.read(3, b"abc");
    r.stat("b", stat(1, 10, 0o100644).size(3).links(2));
    r.stat("many", stat(1, 20, 0o100644).links(4));
    let image = r.image();
    let inode = |path| fs::metadata(image.path(path)).map(|m| (m.ino(), m.nlink())).unwrap();
    assert_eq!(inode("w/a"), inode("w/b"));
    assert_eq!(content(&image, "w/b"), b"abc");
    assert_eq!((inode("w/a").1, inode("w/many").1), (2, 4));
}

#[test]
fn a_file_has_no_more_names_than_were_told() {
    let mut r = Recording::new("/w");
    for name in ["a", "b", "c", "sub/d"] {
        r.stat(name, stat(1, 10, 0o100644).size(3).links(2));
    }
    r.lstat("b", stat(1, 10, 0o100644).size(3).links(2));
    let image = r.image();
    let inode = |path| fs::metadata(image.path(path)).map(|m| (m.ino(), m.nlink())).unwrap();
    for name in ["w/a", "w/b", "w/c", "w/sub/d"] {
        assert_eq!(inode(name), (inode("w/a").0, 2), "{name}");
    }
    assert_eq!(fs::read_link(image.path("w/c")).unwrap().to_str(), Some("a"));
    assert_eq!(fs::read_link(image.path("w/sub/d")).unwrap().to_str(), Some("../a"));
}

#[test]
fn one_file_by_two_paths_means_a_linked_directory() {
    let mut r = Recording::new("/");
    r.open("/usr/lib/x/libc", 0, 3).told(stat(1, 10, 0o100644).size(3));
    r.open("/lib/x/other", 0, 4).told(stat(1, 11, 0o100644).size(1));
    r.stat("/lib/x/libc", stat(1, 10, 0o100644).size(3));
    let image = r.image();
    assert_eq!(fs::read_link(image.path("lib")).unwrap().to_str(), Some("usr/lib"));
    assert_eq!(image.names("usr/lib/x"), ["libc", "other"]);
}

#[test]
fn a_wrong_guess_about_a_link_is_corrected() {
    for by_reading in [false, true] {
        let mut r = Recording::new("/w");
        r.open("link/d/file", 0, 3).told(stat(1, 10, 0o100644).size(3));
        r.open("real/d/file", 0, 4).told(stat(1, 10, 0o100644).size(3));
        r.read(4, b"abc");
        match by_reading {
            true => r.readlink("link", b"../w/real"),
            false => r.lstat("real", stat(1, 5, 0o040700)),
        }
        r.open("real/d/other", 0, 5).told(stat(1, 11, 0o100644).size(1));
        let image = r.image();
        let target = fs::read_link(image.path("w/link")).unwrap();
        assert_eq!(target.to_str(), Some(if by_reading { "../w/real" } else { "real" }));
        assert!(!fs::symlink_metadata(image.path("w/real")).unwrap().is_symlink());
        assert_eq!(content(&image, "w/link/d/file"), b"abc");
        assert_eq!(image.names("w/real/d"), ["file", "other"]);
    }
}

#[test]
fn links_lead_where_they_led() {
    let mut r = Recording::new("/w");
    r.open("link/file", 0, 3).told(stat(1, 10, 0o100644).size(3));
    r.read(3, b"abc");
    r.readlink("link", b"real");
    r.lstat("unread", stat(1, 11, 0o120777).size(7));
    r.open("unread/inner", 0, 4).told(stat(1, 12, 0o100644).size(1));
    r.open("real/../sibling", 0, 5).told(stat(1, 13, 0o100644).size(1));
    let image = r.image();
    assert_eq!(fs::read_link(image.path("w/link")).unwrap().to_str(), Some("real"));
    assert_eq!(content(&image, "w/real/file"), b"abc");
    assert!(fs::symlink_metadata(image.path("w/unread")).unwrap().is_symlink());
    assert!(image.path("w/sibling").is_file());
}

#[test]
fn a_link_that_was_followed_in_vain_leads_nowhere() {
    let mut r = Recording::new("/w");
    let link = |inode| stat(1, inode, 0o120777).size(5);
    for (inode, name) in [(20, "open"), (21, "access"), (22, "removed"), (23, "made"), (24, "read")]
    {
        r.lstat(name, link(inode));
    }
    r.open("open", 0, ENOENT);
    r.paths("access", &["access"], ENOENT);
    // Something was there, until somebody removed it.
    r.paths("access", &["removed"], 0);
    r.open("removed", 0, ENOENT);
    // Nothing was there, until the program made it.
    r.open("made", 0, ENOENT);
    r.open("made", O_RDWR | O_CREAT, 3);
    r.open("read", 0, ENOENT);
    r.readlink("read", b"above");
    let image = r.image();
    let leads = |name: &str| image.path("w").join(name).exists();
    let all = ["open", "access", "removed", "made", "read"];
    assert_eq!(all.map(leads), [false, false, true, false, false]);
    assert_eq!(fs::read_link(image.path("w/read")).unwrap().to_str(), Some("above"));
    assert_eq!(image.names("w"), ["access", "made", "open", "read", "removed"]);
}

#[test]
fn texts_of_links_that_were_not_read_have_their_length() {
    let mut r = Recording::new("/w");
    let link = |inode, length| stat(1, inode, 0o120777).size(length);
    // What it leads to is named before it, or after it.
    r.lstat("first", stat(1, 5, 0o040700));
    r.lstat("to-first", link(20, 5));
    r.stat("to-first", stat(1, 5, 0o040700));
    r.lstat("to-later", link(21, 7));
    r.stat("to-later", stat(1, 6, 0o100644).size(3));
    r.lstat("later", stat(1, 6, 0o100644).size(3));
    // One link leads to another.
    r.lstat("by", link(22, 8));
    r.stat("by", stat(1, 5, 0o040700));
    r.lstat("to", link(23, 2));
    r.stat("to", stat(1, 5, 0o040700));
    r.lstat("not-followed", link(24, 9));
    // A link of the program's own is none to lead by, nor is a name that one got later.
    r.paths("symlink", &["first", "mine"], 0);
    r.stat("mine", stat(1, 5, 0o040700));
    r.paths("rename", &["by", "four"], 0);
    r.lstat("four-long", link(25, 4));
    r.stat("four-long", stat(1, 5, 0o040700));
    let image = r.image();
    let text = |name: &str| fs::read_link(image.path(name)).unwrap().display().to_string();
    let texts = ["w/to-first", "w/to-later", "w/by", "w/to", "w/not-followed"].map(text);
    assert_eq!(texts[..4], ["first", "./later", ".//first", "by"]);
    assert_eq!(texts[4].len(), 9);
    assert!(image.path("w/to").is_dir() && image.path("w/to-later").is_file());
    assert!(!image.path("w/not-followed").exists());
    assert!(image.path("w/four-long").is_dir());
}

#[test]
fn directories_are_followed_by_descriptor() {
    let mut r = Recording::new("/w");
    r.open("d", O_DIRECTORY, 3).told(stat(1, 5, 0o040700));
    r.paths("rename", &["d", "e"], 0);
    r.openat(3, "file", 0, 4).told(stat(1, 10, 0o100644).size(1));
    r.read(4, b"x");
    r.paths("chdir", &["e"], 0);
    r.open("second", 0, 5).told(stat(1, 11, 0o100644).size(1));
    r.listed(3, &[("third", 8), ("file", 8), ("pipe", 1), ("link", 10)]);
    let image = r.image();
    assert_eq!(image.names("w/d"), ["file", "link", "pipe", "second", "third"]);
    assert!(fs::metadata(image.path("w/d/pipe")).unwrap().file_type().is_fifo());
    assert_eq!(fs::metadata(image.path("w/d")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn offsets_are_shared_by_copies_of_a_descriptor() {
    let mut r = Recording::new("/w");
    r.open("data", 0, 3).told(stat(1, 10, 0o100644).size(6));
    r.read(3, b"ab");
    r.numbers("dup", &[3], 7);
    r.read(7, b"cd");
    r.fork(2);
    r.by(2).read(3, b"ef");
    let image = r.image();
    assert_eq!(content(&image, "w/data"), b"abcdef");
}

#[test]
fn what_a_process_inherits_is_open_already() {
    let mut r = Recording::with_open("/w", &[(0, "/w/input", 2, 0), (1, "/w/out", 3, 1)]);
    r.read(0, b"cd");
    r.write(1, b"log");
    let image = r.image();
    assert_eq!(content(&image, "w/input"), b"\0\0cd");
    assert_eq!(content(&image, "w/out"), b"\0\0\0", "as long as what was written before");
}

#[test]
fn copies_made_by_the_kernel_tell_about_their_source() {
    let mut r = Recording::new("/w");
    r.open("from", 0, 3).told(stat(1, 10, 0o100644).size(8));
    r.open("to", O_RDWR | O_CREAT | O_EXCL, 4);
    r.numbers("copy_file_range", &[3, 0, 4, 0, 8, 0], 8);
    r.pread(4, b"cd", 2);
    let image = r.image();
    assert_eq!(content(&image, "w/from"), b"\0\0cd\0\0\0\0");
    let unknown = image.built.unknown.of(b"/w/to").unwrap();
    assert_eq!(unknown.iter().collect::<Vec<_>>(), [0..2, 4..8]);
}

/// Opens a file of 8 bytes, and copies it to another one as a whole.
fn with_a_copy() -> Recording {
    let mut r = Recording::new("/w");
    r.open("from", 0, 3).told(stat(1, 10, 0o100644).size(8));
    r.open("to", O_RDWR | O_CREAT | O_EXCL, 4);
    r.numbers("copy_file_range", &[3, 0, 4, 0, 8, 0], 8);
    r
}

#[test]
fn what_the_kernel_copied_from_is_what_was_there() {
    let mut r = with_a_copy();
    r.ends_with_source("/w/from", 0, b"original");
    let image = r.image();
    assert_eq!(content(&image, "w/from"), b"original");
    assert_eq!(image.built.unknown.of(b"/w/to").map(|ranges| ranges.count()), None);
}

#[test]
fn what_it_was_copied_to_tells_as_much() {
    let mut r = with_a_copy();
    r.lseek(4, 3);
    r.write(4, b"XX");
    r.paths("unlink", &["from"], 0);
    r.ends_with_source("/w/to", 0, b"oriXXnal");
    // Other files, and missing ones, tell nothing.
    r.ends_with_source("/w/none", 0, b"nothing");
    r.ends_with_source("/proc/self/maps", 0, b"nothing");
    assert_eq!(content(&r.image(), "w/from"), b"ori\0\0nal");
}

#[test]
fn what_overlaps_with_a_change_is_no_fact() {
    let mut r = Recording::new("/w");
    r.fork(2);
    // The second process looks while the first one creates the file.
    r.overlapping(|r| {
        r.by(1).open("new", O_RDWR | O_CREAT | O_EXCL, 3);
        r.by(2).stat("new", stat(1, 10, 0o100644).size(3));
    });
    assert_eq!(r.image().names("w"), Vec::<String>::new());
}

#[test]
fn what_was_stored_before_a_change_is_there() {
    let mut r = Recording::new("/w");
    let size = (1 << 20) + 3;
    let told = stat(1, 10, 0o100644).size(size);
    r.open("data", O_RDWR | O_TRUNC, 3).stored(0, b"begin").stored(1, b"end").told_before(told);
    r.write(3, b"new");
    let image = r.image();
    let found = content(&image, "w/data");
    assert_eq!((&found[..5], &found[1 << 20..]), (&b"begin"[..], &b"end"[..]));
    assert_eq!((image.built.seen_bytes, found.len() as u64), (8, size));
}

#[test]
fn of_those_who_store_a_file_the_first_to_end_is_right() {
    let mut r = Recording::new("/w");
    r.fork(2);
    r.overlapping(|r| {
        r.by(1).open("data", O_RDWR, 3).stored(0, b"abcd").told(stat(1, 10, 0o100644).size(4));
        r.by(1).write(3, b"X");
        r.by(2).open("data", O_RDWR, 3).stored(0, b"Xbcd").told(stat(1, 10, 0o100644).size(4));
    });
    let image = r.image();
    assert_eq!(content(&image, "w/data"), b"abcd");
    assert_eq!(image.built.unknown_bytes, 0);
}

#[test]
fn only_files_of_disks_are_made() {
    let mut r = Recording::new("/w");
    for path in ["/proc/self/maps", "/sys/block", "/dev/pts/0", "/dev/null", "/dev/shm/x"] {
        r.open(path, 0, 3);
    }
    r.stat("/dev/sda", stat(1, 10, 0o060660));
    let image = r.image();
    assert_eq!(image.names("dev"), ["shm"]);
    assert!(!image.path("sys").exists() && !image.path("proc").exists());
}

#[test]
fn what_took_the_number_of_an_open_file_is_not_that_file() {
    let mut r = Recording::with_open("/w", &[(0, "/w/input", 0, 0), (1, "/dev/null", 0, 1)]);
    let ends: Vec<u8> = [3i32, 4].iter().flat_map(|fd| fd.to_le_bytes()).collect();
    r.call("pipe2", &[1, 0], &[(0, &ends)], 0);
    r.numbers("dup2", &[3, 0], 0);
    // The source of this one was not recorded.
    r.numbers("dup2", &[9, 1], 1);
    r.another_program();
    r.fstat(0, stat(9, 10, 0o010600));
    r.fstat(1, stat(9, 11, 0o010600));
    let image = r.image();
    assert!(image.path("w/input").is_file());
    assert!(!image.path("dev/null").exists());
}

#[test]
fn files_are_named_of_which_filler_was_read() {
    let mut r = Recording::new("/w");
    let open = |r: &mut Recording, name: &str, ino, fd| {
        r.open(name, 0, fd).told(stat(1, ino, 0o100644).size(8));
    };
    open(&mut r, "never", 10, 3);
    r.read_cut(3, b"abcd", 8);
    open(&mut r, "later", 11, 4);
    r.read_cut(4, b"abcd", 8);
    r.pread(4, b"efgh", 4);
    open(&mut r, "whole", 12, 5);
    r.read(5, b"abcdefgh");
    open(&mut r, "untouched", 13, 6);
    r.paths("rename", &["never", "moved"], 0);
    open(&mut r, "moved", 10, 7);
    r.read_cut(7, b"", 8);
    let built = r.image().built;
    let mut untold: Vec<_> =
        built.made_up.bytes.iter().map(|path| path.escape_ascii().to_string()).collect();
    untold.sort();
    assert_eq!(untold, ["/w/moved", "/w/never"]);
}

#[test]
fn rights_of_owners_are_not_given() {
    let mut r = Recording::new("/w");
    r.stat("su", stat(1, 10, 0o104755).size(1));
    let image = r.image();
    assert_eq!(fs::metadata(image.path("w/su")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(image.built.left_out.get("set-user-id and set-group-id bits"), Some(&1));
}
