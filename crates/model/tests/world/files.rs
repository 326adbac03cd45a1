//! Files, their names, and where open files read and write, as a walk finds them.

use model::{FileId, Namespace, Touch, Walk};
use syscalls::abi::files::{O_APPEND, O_CREAT, O_TRUNC, RENAME_EXCHANGE, S_IFLNK, S_IFREG};
use trace::Sequenced;
use trace::event::Identity;

use super::*;

/// A walk, and the time of its events.
struct Steps {
    walk: Walk,
    tsc: u64,
}

impl Steps {
    /// Begins with a process in the root directory.
    fn new() -> Steps {
        let mut steps = Steps { walk: Walk::following_files(), tsc: 0 };
        let (how, process) = (StartHow::Launch, 1);
        steps.event(EventKind::Start { how, process, parent: 0, pid: 100, tid: 100 });
        let fds = vec![OpenFd { fd: 0, target: b"/in".to_vec(), offset: 70, flags: 0 }];
        let cwd = b"/".to_vec();
        let state = ProcessState { process, pid: 100, cwd, fds, ..Default::default() };
        steps.event(EventKind::State(Box::new(state)));
        steps
    }

    fn event(&mut self, kind: EventKind) -> Touch {
        self.tsc += 100;
        let next = Sequenced { seq: None, event: Event::new(1, self.tsc, kind) };
        self.walk.event(&next, &|tsc| tsc, &mut InlineOnly, |moment, _| moment.touch.clone())
    }

    fn call(&mut self, name: &str, args: &[u64], ret: i64) -> Touch {
        self.naming(name, args, ret, &[], &[])
    }

    /// A call with these paths, of which these were used for the first time.
    fn naming(
        &mut self,
        name: &str,
        args: &[u64],
        ret: i64,
        paths: &[(u8, &str)],
        identities: &[(u8, Identity)],
    ) -> Touch {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let data = paths.iter().map(|(arg, path)| Data {
            arg: *arg,
            part: part::WHOLE,
            index: 0,
            flags: 0,
            true_len: path.len() as u64,
            hash: None,
            content: Content::Inline(path.as_bytes().to_vec()),
        });
        self.event(EventKind::Call(Call {
            nr: syscalls::by_name(name).expect("a row").nr,
            flags: 0,
            site: 0,
            nargs: args.len() as u8,
            args: all,
            outcome: Outcome::Returned { exit_tsc: self.tsc + 150, ret },
            data: data.collect(),
            identities: identities.to_vec(),
        }))
    }

    fn open(&mut self, path: &str, flags: u64, fd: i64) -> Touch {
        self.naming("openat", &[AT_FDCWD, 1, flags, 0], fd, &[(1, path)], &[])
    }

    fn rename(&mut self, from: &str, to: &str, flags: u64) -> Touch {
        let args = [AT_FDCWD, 1, AT_FDCWD, 3, flags];
        self.naming("renameat2", &args, 0, &[(1, from), (3, to)], &[])
    }

    fn path(self, file: FileId) -> String {
        String::from_utf8(self.files().path(file)).unwrap()
    }

    fn files(self) -> Namespace {
        self.walk.into_files()
    }
}

fn offset(touch: &Touch) -> Option<u64> {
    touch.accesses.iter().flatten().next()?.offset
}

#[test]
fn descriptors_of_one_open_file_share_its_position() {
    let mut steps = Steps::new();
    let (file, open) = steps.open("/a", O_CREAT, 3).opened.expect("it is opened");
    steps.call("write", &[3, 0, 10], 10);
    steps.call("dup", &[3], 4);
    let touch = steps.call("read", &[4, 0, 9], 4);
    let access = touch.accesses[0].expect("a read");
    assert_eq!(
        (access.file, access.open, access.offset, access.asked),
        (file, open, Some(10), Some(9))
    );
    assert_eq!(steps.call("lseek", &[3, 2, 0], 2).seek, Some((14, 2)));
    // Another open file has another one.
    let (same, other) = steps.open("/a", O_APPEND, 5).opened.expect("it is opened");
    assert!(same == file && other != open);
    assert_eq!(offset(&steps.call("write", &[5, 0, 6], 6)), Some(10));
    assert_eq!(offset(&steps.call("pwrite64", &[5, 0, 6, 1], 6)), Some(1));
    assert_eq!(offset(&steps.call("write", &[4, 0, 1], 1)), Some(2));
    steps.call("fcntl", &[4, 4, O_APPEND], 0);
    assert_eq!(offset(&steps.call("write", &[3, 0, 1], 1)), Some(16));
    // What was open before the program began is where /proc says.
    assert_eq!(offset(&steps.call("read", &[0, 0, 5], 5)), Some(70));
    let cut = steps.open("/a", O_TRUNC, 6);
    assert_eq!((cut.length, steps.files().file(file).size), (Some((file, 0)), 0));
}

#[test]
fn a_file_stays_the_same_under_a_new_name() {
    let mut steps = Steps::new();
    let touch = steps.open("/d/new", O_CREAT, 3);
    let file = touch.created.expect("it is made");
    assert_eq!(touch.directories[0], steps.rename("/d", "/e", 0).renamed);
    let there = steps.open("/e/kept", O_CREAT, 4).created;
    let touch = steps.rename("/e/new", "/e/kept", 0);
    assert_eq!((touch.renamed, touch.gone), (Some(file), there));
    assert!(touch.directories[0].is_some() && touch.directories[0] == touch.directories[1]);
    let write = steps.call("write", &[3, 0, 10], 10).accesses[1];
    assert_eq!(write.map(|write| write.file), Some(file));
    assert_eq!(steps.naming("stat", &[1, 2], 0, &[(0, "/e/kept")], &[]).by_path[0], Some(file));
    let other = steps.open("/f", O_CREAT, 5).created.expect("it is made");
    steps.rename("/f", "/e", RENAME_EXCHANGE);
    assert_eq!(steps.naming("stat", &[1, 2], 0, &[(0, "/e")], &[]).by_path[0], Some(other));
    assert_eq!(steps.path(file), "/f/kept");
}

#[test]
fn names_of_one_file_are_known_by_its_inode() {
    let file = Identity { dev: 1, ino: 9, mode: S_IFREG | 0o600, nlink: 2, ..Identity::default() };
    let mut steps = Steps::new();
    let stat = |steps: &mut Steps, path: &str, identities: &[(u8, Identity)]| {
        steps.naming("stat", &[1, 2], 0, &[(0, path)], identities).by_path[0]
    };
    let one = stat(&mut steps, "/a", &[(0, file)]);
    let other = stat(&mut steps, "/b", &[(0, file)]);
    assert!(one.is_some() && one == other);
    let linked = steps.naming("link", &[0, 1], 0, &[(0, "/a"), (1, "/c")], &[]);
    assert_eq!((linked.by_path[0], stat(&mut steps, "/c", &[])), (one, one));
    let unlink = |steps: &mut Steps, path| steps.naming("unlink", &[0], 0, &[(0, path)], &[]).gone;
    assert_eq!((unlink(&mut steps, "/a"), unlink(&mut steps, "/c")), (None, None));
    assert_eq!(unlink(&mut steps, "/b"), one);
    assert_ne!(steps.open("/b", O_CREAT, 3).created, one);
}

#[test]
fn a_link_and_its_target_are_told_apart() {
    let identity = |ino, mode| Identity { dev: 1, ino, mode, nlink: 1, ..Identity::default() };
    let mut steps = Steps::new();
    let link = identity(5, S_IFLNK | 0o777);
    let args = [AT_FDCWD, 1, 0, 0x100];
    let itself = steps.naming("utimensat", &args, 0, &[(1, "/link")], &[(1, link)]).by_path[0];
    let target = identity(6, S_IFREG | 0o644);
    let behind = steps.naming("stat", &[1, 2], 0, &[(0, "/link")], &[(0, target)]).by_path[0];
    assert!(itself.is_some() && itself != behind);
}

#[test]
fn unnamed_files_are_different_ones_until_they_are_linked() {
    let mut steps = Steps::new();
    let memory = |steps: &mut Steps, fd| {
        steps.naming("memfd_create", &[0, 0], fd, &[(0, "x")], &[]);
        steps.call("write", &[fd as u64, 0, 1], 1).by_fd.map(|(file, _)| file)
    };
    assert_ne!(memory(&mut steps, 3), memory(&mut steps, 4));
    let unnamed = steps.open("/d", O_TMPFILE | 2, 5).opened.map(|(file, _)| file);
    let link = [(1, "/proc/self/fd/5"), (3, "/d/named")];
    let linked = steps.naming("linkat", &[AT_FDCWD, 1, AT_FDCWD, 3, 0x400], 0, &link, &[]);
    assert_eq!(linked.by_path[0], unnamed);
    assert_eq!(steps.files().known_at(b"/d/named"), unnamed);
}
