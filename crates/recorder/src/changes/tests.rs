use syscalls::abi::files::AT_FDCWD;
use trace::event::{OpenFd, StartHow};

use super::*;

/// A recorded program with its own clock.
struct Scene {
    changes: Changes,
    now: u64,
}

fn state(process: u32, cwd: &str, fds: &[(i32, &str, u32)]) -> EventKind {
    let open = |&(fd, target, flags): &(i32, &str, u32)| OpenFd {
        fd,
        target: target.into(),
        flags,
        ..OpenFd::default()
    };
    let fds = fds.iter().map(open).collect();
    let (cwd, root) = (cwd.into(), b"/".to_vec());
    EventKind::State(Box::new(ProcessState { process, cwd, root, fds, ..ProcessState::default() }))
}

impl Scene {
    /// Starts thread 1 of process 1 in a directory.
    fn new(cwd: &str) -> Scene {
        let mut scene = Scene { changes: Changes::new(), now: 100 };
        scene.event(0, state(1, cwd, &[]));
        scene.start(1, StartHow::Launch, 1, 0);
        scene
    }

    fn event(&mut self, thread: u32, kind: EventKind) {
        self.now += 10;
        self.changes.event(thread, self.now, &kind);
    }

    fn start(&mut self, thread: u32, how: StartHow, process: u32, parent: u32) {
        let (pid, tid) = (process, thread);
        self.event(thread, EventKind::Start { how, process, parent, pid, tid });
    }

    /// Makes a call; texts become the row's path arguments.
    fn call(&mut self, thread: u32, name: &str, args: &[u64], texts: &[&str], ret: i64) {
        self.now += 10;
        let note = self.noted(thread, name, args, texts, ret);
        self.changes.call(note);
    }

    fn noted(&self, thread: u32, name: &str, args: &[u64], texts: &[&str], ret: i64) -> Note {
        let row = syscalls::by_name(name).unwrap();
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let wanted = (0..6).filter(|arg| self.changes.wants(row.nr, *arg));
        let mut memory = Memory::default();
        for (arg, text) in wanted.zip(texts) {
            memory.push(arg, 0, &[text.as_bytes(), b"\0"].concat());
        }
        let outcome = Outcome::Returned { exit_tsc: self.now + 5, ret };
        let (user, enter, nr, args) = (0, self.now, row.nr, all);
        Note {
            thread,
            user,
            enter,
            nr,
            args,
            outcome,
            operations: 0,
            watched: 0,
            memory,
            existed: None,
        }
    }

    fn open(&mut self, thread: u32, path: &str, flags: u64, fd: i64) {
        self.call(thread, "openat", &[AT_FDCWD as u64, 0, flags], &[path], fd);
    }

    fn changed(self) -> Vec<String> {
        let mut paths = self.changes.finish().paths;
        let text = |(path, ..): Changed| String::from_utf8(path.into()).unwrap();
        let mut all: Vec<String> = paths.take().into_iter().map(text).collect();
        all.sort();
        all
    }
}

const RDONLY: u64 = 0;
const WRONLY: u64 = 1;
const RDWR: u64 = 2;

#[test]
fn who_only_reads_changes_nothing() {
    let mut scene = Scene::new("/home");
    scene.open(1, "a", RDONLY, 3);
    scene.open(1, "/etc/b", WRONLY, -13);
    scene.open(1, "/dev/null", RDWR, 4);
    scene.open(1, "/proc/self/oom_adj", WRONLY, 5);
    scene.call(1, "unlink", &[0], &["gone"], -2);
    assert!(!scene.changes.follows(syscalls::by_name("pwrite64").unwrap().nr, &[0; 6]));
    assert!(scene.changed().is_empty());
}

#[test]
fn paths_are_relative_to_directories_and_descriptors() {
    let mut scene = Scene::new("/home");
    scene.open(1, "a", WRONLY | O_CREAT, 3);
    scene.call(1, "chdir", &[0], &["sub"], 0);
    scene.open(1, "b", WRONLY, 4);
    scene.open(1, "dir", RDONLY, 5);
    scene.call(1, "mkdirat", &[5, 0, 0o755], &["c"], 0);
    scene.call(1, "dup", &[5], &[], 6);
    scene.call(1, "close", &[5], &[], 0);
    scene.call(1, "fchdir", &[6], &[], 0);
    scene.call(1, "fchmod", &[3, 0o600], &[], 0);
    scene.call(1, "symlinkat", &[0, AT_FDCWD as u64, 0], &["d"], 0);
    scene.call(1, "mkdirat", &[5, 0, 0o755], &["closed"], 0);
    let expected = ["/home/a", "/home/sub/b", "/home/sub/dir/c", "/home/sub/dir/d"];
    assert_eq!(scene.changed(), expected);
}

#[test]
fn a_child_has_its_own_directory_and_a_thread_its_makers() {
    let mut scene = Scene::new("/a");
    scene.start(2, StartHow::Thread, 1, 1);
    scene.start(3, StartHow::Fork, 2, 1);
    scene.call(2, "chdir", &[0], &["/b"], 0);
    scene.call(1, "mkdir", &[0, 0], &["by-one"], 0);
    scene.call(3, "mkdir", &[0, 0], &["by-three"], 0);
    assert_eq!(scene.changed(), ["/a/by-three", "/b/by-one"]);
}

#[test]
fn what_is_read_late_counts_when_it_happened() {
    let mut scene = Scene::new("/a");
    scene.start(3, StartHow::Fork, 2, 1);
    // The child's ring is read before its creator's, which has changed directory before.
    let mut moved = scene.noted(1, "chdir", &[0], &["/b"], 0);
    moved.enter = 122;
    moved.outcome = Outcome::Returned { exit_tsc: 125, ret: 0 };
    scene.call(3, "mkdir", &[0, 0], &["x"], 0);
    scene.changes.call(moved);
    assert_eq!(scene.changed(), ["/b/x"]);
}

#[test]
fn a_child_begins_where_its_maker_was() {
    let mut scene = Scene::new("/a");
    scene.call(1, "fork", &[], &[], 7);
    scene.call(1, "chdir", &[0], &["/b"], 0);
    // One that had not returned when its maker was killed.
    scene.now += 10;
    let mut fork = scene.noted(1, "fork", &[], &[], 0);
    fork.outcome = Outcome::Unfinished;
    scene.changes.call(fork);
    scene.event(1, EventKind::End { calls: 2 });
    scene.start(7, StartHow::Fork, 2, 1);
    scene.call(7, "mkdir", &[0, 0], &["x"], 0);
    scene.start(8, StartHow::Fork, 3, 1);
    scene.call(8, "mkdir", &[0, 0], &["y"], 0);
    assert_eq!(scene.changed(), ["/a/x", "/b/y"]);
}

#[test]
fn a_close_does_not_take_what_came_after_it() {
    let mut scene = Scene::new("/a");
    scene.start(2, StartHow::Thread, 1, 1);
    scene.open(1, "old", RDONLY, 3);
    let mut close = scene.noted(1, "close", &[3], &[], 0);
    close.enter = scene.now + 6;
    scene.open(2, "new", RDONLY, 3);
    // It returns when the other open has been followed.
    scene.changes.follow_until(u64::MAX);
    scene.changes.call(close);
    scene.call(2, "fchmod", &[3, 0], &[], 0);
    assert_eq!(scene.changed(), ["/a/new"]);
}

#[test]
fn links_to_what_a_process_has_open_are_followed() {
    let mut scene = Scene::new("/a");
    scene.open(1, "dir", RDONLY, 3);
    scene.open(1, "file", RDONLY, 4);
    scene.call(1, "mkdir", &[0, 0], &["/proc/self/fd/3/in"], 0);
    scene.open(1, "/proc/self/cwd/x", WRONLY | O_CREAT, 5);
    scene.open(1, "/dev/fd/4", WRONLY, 6);
    scene.call(1, "fchmod", &[6, 0], &[], 0);
    assert_eq!(scene.changed(), ["/a/dir/in", "/a/file", "/a/x"]);
}

#[test]
fn paths_are_changed_as_they_are_spelt() {
    let mut scene = Scene::new("/a");
    scene.call(1, "chdir", &[0], &["link/.."], 0);
    scene.call(1, "mkdir", &[0, 0], &["./b"], 0);
    scene.call(1, "utimensat", &[AT_FDCWD as u64, 0, 0, 0], &["../c"], 0);
    assert_eq!(scene.changed(), ["/a/link/../../c", "/a/link/../b"]);
}

#[test]
fn without_a_path_the_descriptor_is_meant() {
    let mut scene = Scene::new("/a");
    scene.open(1, "by-null", RDONLY, 3);
    scene.open(1, "by-empty", RDONLY, 4);
    scene.call(1, "utimensat", &[3, 0, 0, 0], &[], 0);
    scene.call(1, "fchownat", &[4, 0, 0, 0, 0x1000], &[""], 0);
    scene.call(1, "utimensat", &[AT_FDCWD as u64, 0, 0, 0], &[], 0);
    assert_eq!(scene.changed(), ["/a/by-empty", "/a/by-null"]);
}

#[test]
fn little_is_kept_of_what_is_closed() {
    let mut scene = Scene::new("/a");
    for number in 0..100 {
        scene.open(1, &format!("f{number}"), RDONLY, 3);
        scene.call(1, "dup", &[3], &[], 4);
        scene.call(1, "close", &[3], &[], 0);
        scene.call(1, "close", &[4], &[], 0);
    }
    scene.event(1, EventKind::End { calls: 400 });
    scene.changes.follow_until(u64::MAX);
    assert!(scene.changes.openings.len() <= 1 && scene.changes.pending.is_empty());
}

#[test]
fn a_new_program_has_what_the_kernel_says() {
    let mut scene = Scene::new("/a");
    scene.open(1, "kept", RDONLY, 3);
    scene.open(1, "closed", RDONLY, 4);
    scene.event(0, state(1, "/c", &[(3, "/a/kept", 0), (1, "/log", 1), (5, "pipe:[1]", 1)]));
    scene.event(1, EventKind::Image { tid: 1, data: Vec::new() });
    scene.call(1, "fchmod", &[3, 0], &[], 0);
    scene.call(1, "fchmod", &[4, 0], &[], 0);
    scene.call(1, "rmdir", &[0], &["x"], 0);
    assert_eq!(scene.changed(), ["/a/kept", "/c/x", "/log"]);
}

#[test]
fn other_roots_are_left_out_and_counted() {
    let mut scene = Scene::new("/a");
    scene.call(1, "chroot", &[0], &["/jail"], 0);
    scene.call(1, "mkdir", &[0, 0], &["/x"], 0);
    scene.open(1, "/y", WRONLY, 3);
    let paths = scene.changes.finish().paths;
    assert_eq!(paths.left_out, 2);
}

#[test]
fn shared_mappings_and_sockets() {
    let mut scene = Scene::new("/a");
    scene.open(1, "data", RDWR, 3);
    scene.call(1, "mmap", &[0, 4096, 3, 1, 3, 0], &[], 0x7000);
    scene.open(1, "private", RDWR, 4);
    scene.call(1, "mmap", &[0, 4096, 3, 2, 4, 0], &[], 0x8000);
    scene.call(1, "bind", &[5, 0, 10], &["\u{1}\0s.sock"], 0);
    let mut paths = scene.changes.finish().paths;
    assert!(paths.is_mapped(b"/a/data") && !paths.is_mapped(b"/a/private"));
    assert!(paths.take().iter().any(|(path, ..)| **path == *b"/a/s.sock"));
}

#[test]
fn what_the_program_has_written_whole_is_fresh() {
    let mut scene = Scene::new("/a");
    scene.open(1, "new", WRONLY | O_CREAT | O_EXCL, 3);
    scene.open(1, "old", RDWR, 4);
    scene.call(1, "creat", &[0, 0o644], &["cut"], 5);
    scene.call(1, "rename", &[0, 0], &["new", "final"], 0);
    let mut paths = scene.changes.finish().paths;
    let fresh = |(path, marks, _): Changed| (marks & mark::FRESH != 0).then_some(path);
    let mut all: Vec<_> = paths.take().into_iter().filter_map(fresh).collect();
    all.sort();
    assert_eq!(all, [b"/a/cut"[..].into(), b"/a/final"[..].into()]);
}

#[test]
fn times_to_come_do_not_keep_what_is_pending() {
    let mut scene = Scene::new("/w");
    for (fd, ahead) in (3..).zip([0, 1, u64::MAX >> 1]).cycle().take(2 * PENDING_MAX) {
        scene.now += 1;
        let mut note = scene.noted(1, "openat", &[AT_FDCWD as u64, 0, WRONLY], &["new"], fd);
        note.enter = note.enter.saturating_add(ahead);
        scene.changes.call(note);
    }
    let now = scene.now;
    scene.changes.settle(now + 1, now);
    assert_eq!(scene.changes.pending.len(), 0);
}
