//! Guesses about links and directories, and calls that refute them.

use std::fs;

use super::recording::{Image, Recording, With, stat};

const EINVAL: i64 = -22;

/// Returns the target of a link in an image.
fn target(image: &Image, path: &str) -> Option<String> {
    Some(fs::read_link(image.path(path)).ok()?.to_str()?.to_owned())
}

fn is_directory(image: &Image, path: &str) -> bool {
    fs::symlink_metadata(image.path(path)).is_ok_and(|found| found.is_dir())
}

#[test]
fn a_directory_that_holds_another_is_no_link_to_it() {
    let mut r = Recording::new("/");
    r.stat("/usr/local/man", stat(1, 10, 0o040755));
    r.stat("/usr/local/share/man", stat(1, 10, 0o040755));
    r.stat("/usr/local/share/doc", stat(1, 11, 0o040755));
    r.readlink("/usr/local/man", b"share/man");
    r.paths("readlink", &["/usr/local/share"], EINVAL);
    let image = r.image();
    assert_eq!(target(&image, "usr/local/man").as_deref(), Some("share/man"));
    assert!(is_directory(&image, "usr/local/share/man"));
    assert!(is_directory(&image, "usr/local/share/doc"));
}

#[test]
fn what_both_turn_out_to_be_directories_is_not_made_one() {
    let mut r = Recording::new("/");
    r.stat("/a/one/shared/file", stat(1, 10, 0o100644).size(3));
    r.stat("/a/two/shared/file", stat(1, 10, 0o100644).size(3));
    r.stat("/a/two/other", stat(1, 12, 0o040755));
    // So far `two` may be a link to `one`; in fact `shared` is a link.
    for (name, inode) in [("/a/one", 20), ("/a/two", 21)] {
        r.lstat(name, stat(1, inode, 0o040755));
    }
    r.readlink("/a/two/shared", b"../one/shared");
    let image = r.image();
    assert!(is_directory(&image, "a/one") && is_directory(&image, "a/two"));
    assert_eq!(target(&image, "a/two/shared").as_deref(), Some("../one/shared"));
    assert_eq!(image.names("a/one"), ["shared"]);
    assert_eq!(image.names("a/two"), ["other", "shared"]);
    assert_eq!(image.names("a/one/shared"), ["file"]);
}

#[test]
fn directories_with_different_inodes_are_not_made_one() {
    let mut r = Recording::new("/");
    // In fact the file in `etc` is a link, which no call showed.
    r.stat("/etc/os-release", stat(1, 10, 0o100644).size(3));
    r.stat("/usr/lib/os-release", stat(1, 10, 0o100644).size(3));
    r.stat("/usr/lib", stat(1, 20, 0o040755));
    r.stat("/etc", stat(1, 21, 0o040755));
    r.stat("/etc/xdg", stat(1, 22, 0o040755));
    let image = r.image();
    assert!(is_directory(&image, "etc") && is_directory(&image, "usr/lib"));
    assert_eq!(image.names("etc"), ["os-release", "xdg"]);
    assert_eq!(image.names("usr/lib"), ["os-release"]);
    assert_eq!(target(&image, "usr/lib/os-release").as_deref(), Some("../../etc/os-release"));
}

#[test]
fn of_two_paths_to_a_file_the_one_that_is_told_to_be_no_link_is_the_file() {
    let mut r = Recording::new("/");
    r.stat("/a/link", stat(1, 10, 0o100644).size(3));
    r.stat("/b/file", stat(1, 10, 0o100644).size(3));
    r.lstat("/b/file", stat(1, 10, 0o100644).size(3));
    let image = r.image();
    assert_eq!(target(&image, "a/link").as_deref(), Some("../b/file"));
    assert!(fs::symlink_metadata(image.path("b/file")).is_ok_and(|found| found.is_file()));
}

#[test]
fn a_slash_behind_a_name_tells_of_a_directory() {
    let mut r = Recording::new("/");
    for path in ["/a/slash/", "/a/dot/.", "/a/above/.."] {
        r.paths("access", &[path], 0);
    }
    // The slash follows the link and requires a directory.
    r.readlink("/a/link", b"target");
    r.lstat("/a/link/", stat(1, 10, 0o040755));
    r.readlink("/a/sure", b"to/");
    r.paths("access", &["/a/sure"], 0);
    r.paths("readlink", &["/a/unread/"], EINVAL);
    let image = r.image();
    for name in ["slash", "dot", "above", "target", "to", "unread"] {
        assert!(is_directory(&image, &format!("a/{name}")), "{name}");
    }
    assert_eq!(target(&image, "a/link").as_deref(), Some("target"));
}

#[test]
fn who_fails_to_make_a_name_tells_of_no_directory() {
    let mut r = Recording::new("/w");
    r.paths("mkdir", &["name/"], super::EEXIST);
    r.open("name", 0, 3).told(stat(1, 10, 0o100644).size(1));
    assert!(fs::metadata(r.image().path("w/name")).is_ok_and(|found| found.is_file()));
}
