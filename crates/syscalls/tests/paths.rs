//! The table's rules for paths, and for links as their last component.

use syscalls::paths::{self, FinalLink};
use syscalls::table::ROWS;
use syscalls::{Act, ArgKind, Handler, by_name, capture};

const NOFOLLOW: u64 = 0x100;
const FOLLOW: u64 = 0x400;

fn means_link(name: &str, path: u8, args: [u64; 6]) -> bool {
    paths::means_link(by_name(name).expect("it has a row").nr, path, &args)
}

#[test]
fn flags_say_whether_a_link_is_meant() {
    for (name, flags_at) in [
        ("utimensat", 3),
        ("fchownat", 4),
        ("fchmodat2", 3),
        ("setxattrat", 2),
        ("removexattrat", 2),
        ("getxattrat", 2),
        ("listxattrat", 2),
        ("newfstatat", 3),
        ("statx", 2),
        ("faccessat2", 3),
        ("execveat", 4),
        ("file_setattr", 4),
    ] {
        let mut args = [0; 6];
        assert!(!means_link(name, 1, args), "{name} follows");
        args[flags_at] = NOFOLLOW;
        assert!(means_link(name, 1, args), "{name} with its flag");
    }
    assert!(means_link("linkat", 1, [0; 6]) && !means_link("linkat", 1, [0, 0, 0, 0, FOLLOW, 0]));
    assert!(means_link("linkat", 3, [0, 0, 0, 0, FOLLOW, 0]), "the flag concerns the first path");
    assert!(means_link("name_to_handle_at", 1, [0; 6]));
    assert!(!means_link("name_to_handle_at", 1, [0, 0, 0, 0, FOLLOW, 0]));
    for name in ["lstat", "lchown", "lgetxattr", "readlink", "rename", "link", "mkdir", "unlink"] {
        assert!(means_link(name, 0, [0; 6]), "{name}");
    }
    for name in ["stat", "chmod", "chown", "truncate", "utime", "setxattr", "open", "chdir"] {
        assert!(!means_link(name, 0, [0; 6]), "{name}");
    }
    assert!(means_link("openat", 1, [0, 0, 0o400_000, 0, 0, 0]));
    assert!(means_link("inotify_add_watch", 1, [0, 0, 0x200_0000, 0, 0, 0]));
}

#[test]
fn whatever_changes_files_by_path_tells_them_before() {
    for row in ROWS.iter().flat_map(|group| group.iter()) {
        let takes_path = row.args.iter().any(|arg| matches!(arg.kind, ArgKind::Path));
        let found = captured(row, &[0; 6]);
        let told: Vec<_> = found.changed_paths().collect();
        let is_told = matches!(found.handler, Handler::ChangeFiles | Handler::Truncate);
        assert_eq!(is_told, !told.is_empty(), "{}", row.name);
        let makes = ["open", "creat", "openat", "openat2", "mkdir", "mkdirat", "mknod", "mknodat"]
            .contains(&row.name)
            || row.name.starts_with("symlink")
            || matches!(row.name, "io_uring:MKDIRAT" | "io_uring:SYMLINKAT");
        let changes = row.classes.intersects(syscalls::Classes::CHANGE);
        assert_eq!(!told.is_empty(), takes_path && changes && !makes, "{}", row.name);
    }
    let told = |name: &str| {
        let (row, _) = capture::row(by_name(name).expect("it has a row").nr.into(), &[0; 6]);
        row.changed_paths().map(|path| (path.dir, path.path, path.link)).collect::<Vec<_>>()
    };
    let unless_flag = |arg| FinalLink::MeantIf { arg, bits: NOFOLLOW as u32 };
    assert_eq!(told("setxattrat"), [(Some(0), 1, unless_flag(2))]);
    assert_eq!(told("removexattrat"), [(Some(0), 1, unless_flag(2))]);
    assert_eq!(told("utimensat"), [(Some(0), 1, unless_flag(3))]);
    assert_eq!(told("rename"), [(None, 0, FinalLink::Meant), (None, 1, FinalLink::Meant)]);
    assert_eq!(told("renameat2"), [(Some(0), 1, FinalLink::Meant), (Some(2), 3, FinalLink::Meant)]);
    assert_eq!(told("link"), [(None, 0, FinalLink::Meant)], "the second is not there yet");
    assert_eq!(told("chmod"), [(None, 0, FinalLink::Followed)]);
}

#[test]
fn whatever_opens_a_path_says_where_its_flags_are() {
    const CREAT_FLAGS: u64 = 0o1101;
    let args = [10, 11, 12, 13, 14, 15];
    let behind = |arg, at| Some(100 * u64::from(arg) + u64::from(at));
    let opened = |name: &str| {
        let (row, _) = capture::row(by_name(name).expect("it has a row").nr.into(), &args);
        assert_eq!(row.handler, Handler::Open, "{name}");
        let opening = row.opening().expect("it opens a file");
        let flags = opening.flags;
        (opening.path.dir, opening.path.path, flags.of(&args, behind), flags.resolve(behind))
    };
    assert_eq!(opened("open"), (None, 0, 11, 0));
    assert_eq!(opened("creat"), (None, 0, CREAT_FLAGS, 0));
    assert_eq!(opened("openat"), (Some(0), 1, 12, 0));
    assert_eq!(opened("openat2"), (Some(0), 1, 200, 216));
    for row in ROWS.iter().flat_map(|group| group.iter()) {
        let opens = row.act == Act::Open;
        assert_eq!(row.open.is_some(), opens, "{}", row.name);
        assert_eq!(captured(row, &args).opening().is_some(), opens, "{}", row.name);
    }
}

fn captured(row: &syscalls::Syscall, args: &[u64; 6]) -> &'static capture::Row {
    match row.queue {
        Some(_) => capture::operation(row.nr, &[0; 6]),
        None => capture::row(row.nr.into(), args).0,
    }
}
